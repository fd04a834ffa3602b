"""Greenhouse's public job boards: one answer with everything a company has open.

It is asked without descriptions, which would make an answer many times as long.
"""

from __future__ import annotations

from stoker.base.jsontools import has_list, list_in, object_in, words_in
from stoker.base.types import Json
from stoker.discovery.boards import Layout
from stoker.discovery.model import MOST_POSTINGS, RawPosting

BASE_URL = "https://boards-api.greenhouse.io"


def _jobs(data: Json) -> list[Json] | None:
    return list_in(data, "jobs", most=MOST_POSTINGS + 1) if has_list(data, "jobs") else None


def _raw(job: Json, nth: int) -> RawPosting:
    fields = object_in(job)
    return RawPosting(
        where=f"job {nth}",
        url=words_in(job, "absolute_url", longest=4_000),
        title=words_in(job, "title", longest=4_000),
        company=words_in(job, "company_name", longest=4_000),
        location=words_in(fields.get("location"), "name", longest=4_000),
        posted=fields.get("first_published") or fields.get("updated_at"),
    )


GREENHOUSE = Layout(name="greenhouse", path="/v1/boards/{board}/jobs", jobs=_jobs, raw=_raw)
