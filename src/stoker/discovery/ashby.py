"""Ashby's public job boards: one answer has every job; unlisted jobs are skipped."""

from __future__ import annotations

from stoker.base.jsontools import get_list, get_object, get_text, has_list
from stoker.base.types import Json
from stoker.discovery.boards import BoardApi
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import MAX_POSTINGS, RawPosting

ASHBY_URL = "https://api.ashbyhq.com"


def _list_ashby_jobs(data: Json) -> list[Json] | None:
    if not has_list(data, "jobs"):
        return None
    jobs = get_list(data, "jobs", most=MAX_POSTINGS + 1)
    return [each for each in jobs if get_object(each).get("isListed") is not False]


def _parse_ashby_job(job: Json, nth: int) -> RawPosting:
    fields = get_object(job)
    return RawPosting(
        where=f"job {nth}",
        url=get_text(job, "jobUrl", longest=4_000),
        title=get_text(job, "title", longest=4_000),
        location=get_text(job, "location", longest=4_000),
        posted=fields.get("publishedAt"),
        text=get_text(job, "descriptionPlain", longest=MAX_TEXT_LENGTH),
        remote=fields.get("isRemote") is True,
    )


ASHBY = BoardApi(
    name="ashby",
    path="/posting-api/job-board/{board}",
    list_jobs=_list_ashby_jobs,
    parse_job=_parse_ashby_job,
)
