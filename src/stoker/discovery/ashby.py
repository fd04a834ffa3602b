"""Ashby's public job boards: one answer with everything; what is not listed is not for us."""

from __future__ import annotations

from stoker.base.jsontools import has_list, list_in, object_in, words_in
from stoker.base.types import Json
from stoker.discovery.boards import Layout
from stoker.discovery.enrichment import LONGEST_TEXT
from stoker.discovery.model import MOST_POSTINGS, RawPosting

BASE_URL = "https://api.ashbyhq.com"


def _jobs(data: Json) -> list[Json] | None:
    if not has_list(data, "jobs"):
        return None
    jobs = list_in(data, "jobs", most=MOST_POSTINGS + 1)
    return [each for each in jobs if object_in(each).get("isListed") is not False]


def _raw(job: Json, nth: int) -> RawPosting:
    fields = object_in(job)
    return RawPosting(
        where=f"job {nth}",
        url=words_in(job, "jobUrl", longest=4_000),
        title=words_in(job, "title", longest=4_000),
        location=words_in(job, "location", longest=4_000),
        posted=fields.get("publishedAt"),
        text=words_in(job, "descriptionPlain", longest=LONGEST_TEXT),
        remote=fields.get("isRemote") is True,
    )


ASHBY = Layout(name="ashby", path="/posting-api/job-board/{board}", jobs=_jobs, raw=_raw)
