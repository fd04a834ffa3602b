"""greenhouse.test, lever.test and ashby.test: the public job boards, each in its own words.

A company is on one of them or on none; a board that is not there is not found. Boards charge
nothing and know no keys.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from html import escape
from typing import Any

from stoker.core.model import Json
from stoker.sandbox.board_postings import ashby_posting, greenhouse_posting, lever_posting
from stoker.sandbox.dialling import dialled
from stoker.sandbox.dials import SITES, Dials
from stoker.sandbox.openings import Opening, openings_of
from stoker.sandbox.serving import Asked, Handler, Told, json_told, page_told
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.world import Company, World

Board = Callable[[Asked, Company | None, list[Opening], list[str]], Told]
_GREENHOUSE_MISSING: Json = {"status": 404, "error": "Not found"}
_LEVER_MISSING: Json = {"ok": False, "error": "Document not found"}


def greenhouse(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler of GET /v1/boards/{token}/jobs."""
    return _board("greenhouse", ("v1", "boards"), _greenhouse, world, dials, tallies)


def lever(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler of GET /v0/postings/{site}."""
    return _board("lever", ("v0", "postings"), _lever, world, dials, tallies)


def ashby(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler of GET /posting-api/job-board/{name}."""
    return _board("ashby", ("posting-api", "job-board"), _ashby, world, dials, tallies)


def _board(
    name: str,
    prefix: tuple[str, str],
    tell: Board,
    world: World,
    dials: Dials,
    tallies: Tallies,
) -> Handler:
    def answer(asked: Asked) -> Told:
        if asked.method not in ("GET", "HEAD"):
            return json_told({"error": "Method not allowed"}, status=405)
        parts = [part for part in asked.path.split("/") if part]
        public = tuple(parts[:2]) != prefix
        slug = (parts[0] if parts else "") if public else "".join(parts[2:3])
        company = world.by_domain(f"{slug}.test")
        if company is not None and company.board != name:
            company = None
        night = dials.of(SITES).night
        found = openings_of(world, company, night=night) if company else []
        if public:
            return _listed(company, found)
        return _unless_known(asked, tell(asked, company, found, parts[3:]))

    return dialled(name, answer, seed=world.seed, dials=dials, tallies=tallies)


def _greenhouse(
    asked: Asked, company: Company | None, openings: list[Opening], rest: list[str]
) -> Told:
    if company is None or rest[:1] != ["jobs"]:
        return json_told(_GREENHOUSE_MISSING, status=404)
    if len(rest) > 1:
        one = [each for each in openings if str(each.number) == rest[1]]
        if not one:
            return json_told({"status": 404, "error": "Job not found"}, status=404)
        return json_told(greenhouse_posting(company, one[0], full=True))
    full = asked.argument("content").lower() == "true"
    jobs: list[Json] = [greenhouse_posting(company, each, full=full) for each in openings]
    return json_told({"jobs": jobs, "meta": {"total": len(jobs)}})


def _lever(asked: Asked, company: Company | None, openings: list[Opening], rest: list[str]) -> Told:
    if company is None:
        return json_told(_LEVER_MISSING, status=404)
    postings: list[dict[str, Any]] = [lever_posting(company, each) for each in openings]
    if rest:
        one = [each for each in postings if each["id"] == rest[0]]
        return json_told(one[0]) if one else json_told(_LEVER_MISSING, status=404)
    if asked.argument("mode", "json") != "json":
        return _listed(company, openings)
    for name in ("location", "commitment", "team", "department"):
        wanted = asked.query.get(name)
        if wanted:
            postings = [each for each in postings if each["categories"][name] in wanted]
    skip, limit = _number(asked.argument("skip"), 0), _number(asked.argument("limit"), 100)
    return json_told(postings[skip : skip + limit])


def _ashby(asked: Asked, company: Company | None, openings: list[Opening], rest: list[str]) -> Told:
    if company is None or rest:
        return Told(status=404, headers={"content-type": "text/plain"}, body=b"Not Found")
    pay = asked.argument("includeCompensation").lower() == "true"
    jobs: list[Json] = [ashby_posting(company, each, pay=pay) for each in openings]
    return json_told({"jobs": jobs, "apiVersion": "1"})


def _listed(company: Company | None, openings: list[Opening]) -> Told:
    if company is None:
        return page_told("<!doctype html><title>Not found</title>", status=404)
    items = "".join(f"<li>{escape(each.title)}, {escape(each.location)}</li>" for each in openings)
    return page_told(
        f"<!doctype html><title>Jobs at {escape(company.brand)}</title><ul>{items}</ul>"
    )


def _unless_known(asked: Asked, told: Told) -> Told:
    if told.status != 200:
        return told
    tag = f'W/"{sha256(told.body).hexdigest()[:32]}"'
    headers = {**told.headers, "etag": tag}
    if asked.headers.get("if-none-match") == tag:
        return Told(status=304, headers={"etag": tag})
    return told.but(headers=headers)


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
