"""Greenhouse's public job boards: one answer has every job, requested without descriptions."""

from __future__ import annotations

from stoker.base.jsontools import get_list, get_object, get_text, has_list
from stoker.base.types import Json
from stoker.discovery.boards import BoardApi
from stoker.discovery.model import MAX_POSTINGS, RawPosting

GREENHOUSE_URL = "https://boards-api.greenhouse.io"


def _list_greenhouse_jobs(data: Json) -> list[Json] | None:
    return get_list(data, "jobs", most=MAX_POSTINGS + 1) if has_list(data, "jobs") else None


def _parse_greenhouse_job(job: Json, nth: int) -> RawPosting:
    fields = get_object(job)
    return RawPosting(
        where=f"job {nth}",
        url=get_text(job, "absolute_url", longest=4_000),
        title=get_text(job, "title", longest=4_000),
        company=get_text(job, "company_name", longest=4_000),
        location=get_text(fields.get("location"), "name", longest=4_000),
        posted=fields.get("first_published") or fields.get("updated_at"),
    )


GREENHOUSE = BoardApi(
    name="greenhouse",
    path="/v1/boards/{board}/jobs",
    list_jobs=_list_greenhouse_jobs,
    parse_job=_parse_greenhouse_job,
)
