"""Lever's public job boards: page by page, until a page is not full."""

from __future__ import annotations

from stoker.base.jsontools import get_object, get_text
from stoker.base.types import Json
from stoker.discovery.boards import BoardApi
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import RawPosting

LEVER_URL = "https://api.lever.co"
LEVER_PAGE_SIZE = 100


def _list_lever_jobs(data: Json) -> list[Json] | None:
    return list(data[:LEVER_PAGE_SIZE]) if isinstance(data, list) else None


def _parse_lever_job(posting: Json, nth: int) -> RawPosting:
    fields = get_object(posting)
    return RawPosting(
        where=f"posting {nth}",
        url=get_text(posting, "hostedUrl", longest=4_000),
        title=get_text(posting, "text", longest=4_000),
        location=get_text(fields.get("categories"), "location", longest=4_000),
        posted=fields.get("createdAt"),
        text=get_text(posting, "descriptionPlain", longest=MAX_TEXT_LENGTH),
        remote=get_text(posting, "workplaceType", longest=20).lower() == "remote",
    )


LEVER = BoardApi(
    name="lever",
    path="/v0/postings/{board}",
    list_jobs=_list_lever_jobs,
    parse_job=_parse_lever_job,
    params={"mode": "json"},
    page_size=LEVER_PAGE_SIZE,
)
