"""Lever's public job boards: page by page, until a page is not full."""

from __future__ import annotations

from stoker.base.jsontools import object_in, words_in
from stoker.base.types import Json
from stoker.discovery.boards import Layout
from stoker.discovery.enrichment import LONGEST_TEXT
from stoker.discovery.model import RawPosting

BASE_URL = "https://api.lever.co"

A_PAGE = 100


def _jobs(data: Json) -> list[Json] | None:
    return list(data[:A_PAGE]) if isinstance(data, list) else None


def _raw(posting: Json, nth: int) -> RawPosting:
    fields = object_in(posting)
    return RawPosting(
        where=f"posting {nth}",
        url=words_in(posting, "hostedUrl", longest=4_000),
        title=words_in(posting, "text", longest=4_000),
        location=words_in(fields.get("categories"), "location", longest=4_000),
        posted=fields.get("createdAt"),
        text=words_in(posting, "descriptionPlain", longest=LONGEST_TEXT),
        remote=words_in(posting, "workplaceType", longest=20).lower() == "remote",
    )


LEVER = Layout(
    name="lever",
    path="/v0/postings/{board}",
    jobs=_jobs,
    raw=_raw,
    params={"mode": "json"},
    a_page=A_PAGE,
)
