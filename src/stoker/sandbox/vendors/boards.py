"""greenhouse.test, lever.test, ashby.test and feeds.test: job boards and feeds.

A company is on one board or on none; an unknown board is not found. Boards charge nothing and take
no keys. Greenhouse tells the time of New York, Lever counts milliseconds.
Feeds are /{slug}/jobs.rss and /{slug}/jobs.atom, and hostile ones under
/hostile/{bomb,dates,broken,huge,items}.rss: entities, odd dates, cut off, endless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta, timezone
from email.utils import format_datetime
from html import escape

from stoker.base.types import Json
from stoker.sandbox.faults import SITES, FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import (
    Handler,
    Request,
    Response,
    answer_unless_known,
    hash_body,
    to_json_response,
    to_text_response,
)
from stoker.sandbox.meter import Meter
from stoker.sandbox.random import to_uuid
from stoker.sandbox.world.companies import FIRST_NIGHT, Company, World
from stoker.sandbox.world.jobs import Opening, list_openings

_RSS = {"content-type": "application/rss+xml; charset=utf-8"}
_ATOM = {"content-type": "application/atom+xml; charset=utf-8"}

_FEED_NOT_FOUND = to_text_response("no such feed\n", status=404)

_ODD_DATES = (
    "Sun, 01 Nov 2026 18:00:00 GMT",
    "Sun, 01 Nov 2026 18:00:00 +0800",
    "Sun, 1 Nov 2026 18:00 EST",
    "2026-11-01T18:00:00Z",
    "2026-11-01 18:00:00",
    "01/11/2026",
    "yesterday",
    "Thu, 99 Foo 2026 99:99:99 GMT",
    "",
)


def build_feeds_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(status=405)
        slug, _, name = request.path.strip("/").partition("/")
        if slug == "hostile":
            return _build_hostile_feed(name)
        company = world.find_by_domain(f"{slug}.test")
        if company is None:
            return _FEED_NOT_FOUND
        night = dials.get_settings(SITES).night
        openings = list_openings(world, company, night=night)
        if name == "jobs.rss":
            return _answer_feed(request, _build_rss(company, openings), openings)
        if name == "jobs.atom":
            return _answer_feed(request, _build_atom(company, openings), openings)
        return _FEED_NOT_FOUND

    return wrap_with_faults("feeds", answer, seed=world.seed, dials=dials, meter=meter)


def _build_rss(company: Company, openings: list[Opening]) -> Response:
    items = "".join(
        f"<item><title>{escape(each.title)}</title>"
        f"<link>{_build_link(company, each)}</link>"
        f'<guid isPermaLink="false">{each.number}</guid>'
        f"<category>{escape(each.department)}</category>"
        f"<pubDate>{format_datetime(each.posted_at)}</pubDate>"
        f"<description>{escape(f'<p>{escape(each.words)}</p>')}</description></item>\n"
        for each in openings
    )
    return _to_feed_response(_RSS, _wrap_rss(f"Jobs at {company.brand}", company.domain, items))


def _wrap_rss(title: str, domain: str, items: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel>'
        f"<title>{escape(title)}</title><link>http://{domain}/careers</link>"
        f"<description>Openings</description>\n{items}</channel></rss>\n"
    )


def _build_atom(company: Company, openings: list[Opening]) -> Response:
    changed = max((each.changed_at for each in openings), default=FIRST_NIGHT)
    entries = "".join(
        f"<entry><title>{escape(each.title)}</title>"
        f'<link rel="alternate" href="{_build_link(company, each)}"/>'
        f"<id>urn:job:{each.number}</id><published>{each.posted_at.isoformat()}</published>"
        f"<updated>{each.changed_at.isoformat()}</updated>"
        f'<summary type="text">{escape(each.words)}</summary></entry>\n'
        for each in openings
    )
    return _to_feed_response(
        _ATOM,
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>Jobs at {escape(company.brand)}</title><id>urn:company:{company.uen}</id>"
        f"<updated>{changed.isoformat()}</updated>\n{entries}</feed>\n",
    )


def _build_hostile_feed(name: str) -> Response:
    match name:
        case "bomb.rss":
            levels = "".join(f'<!ENTITY e{nth} "{f"&e{nth - 1};" * 10}">' for nth in range(1, 10))
            return _to_feed_response(
                _RSS,
                f'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY e0 "ha">{levels}]>'
                "<rss><channel><item><title>&e9;</title></item></channel></rss>",
            )
        case "dates.rss":
            items = "".join(
                f"<item><title>Job {nth}</title><link>http://feeds.test/{nth}</link>"
                f"<pubDate>{date}</pubDate></item>"
                for nth, date in enumerate(_ODD_DATES)
            )
            return _to_feed_response(_RSS, _wrap_rss("Dates", "feeds.test", items))
        case "broken.rss":
            good = "<item><title>Kept</title><link>http://feeds.test/kept</link></item>"
            whole = _wrap_rss("Broken", "feeds.test", good)
            return _to_feed_response(
                _RSS, whole[: whole.index("</channel>")] + "<item><title>Cut & off"
            )
        case "items.rss":
            return Response(headers=_RSS, stream=_iterate_items(100_000))
        case "huge.rss":
            return Response(headers=_RSS, stream=_iterate_items(None))
    return _FEED_NOT_FOUND


def _iterate_items(many: int | None) -> Iterator[bytes]:
    yield b'<?xml version="1.0"?><rss version="2.0"><channel><title>Many</title>'
    nth = 0
    while many is None or nth < many:
        piece = range(nth, nth + 500)
        yield b"".join(
            b"<item><title>Job %d</title><link>http://feeds.test/job/%d</link></item>" % (at, at)
            for at in piece
        )
        nth += 500
    yield b"</channel></rss>"


def _build_link(company: Company, opening: Opening) -> str:
    return f"http://{company.domain}/careers/{opening.number}"


def _to_feed_response(headers: dict[str, str], text: str) -> Response:
    return Response(headers=headers, body=text.encode())


def _answer_feed(request: Request, response: Response, openings: list[Opening]) -> Response:
    changed = max((each.changed_at for each in openings), default=FIRST_NIGHT)
    validators = {
        "etag": hash_body(response),
        "last-modified": format_datetime(changed, usegmt=True),
    }
    return answer_unless_known(request, response, validators)


_NEW_YORK = timezone(timedelta(hours=-5))


def _to_greenhouse_posting(company: Company, opening: Opening) -> Json:
    return {
        "absolute_url": f"http://greenhouse.test/{company.slug}/jobs/{opening.number}",
        "data_compliance": [{"type": "gdpr", "requires_consent": False, "retention_period": None}],
        "internal_job_id": opening.number + 3_000_000,
        "location": {"name": opening.location},
        "metadata": None,
        "id": opening.number,
        "updated_at": opening.changed_at.astimezone(_NEW_YORK).isoformat(timespec="seconds"),
        "requisition_id": f"R{opening.number % 1000}",
        "title": opening.title,
        "company_name": company.brand,
        "first_published": opening.posted_at.astimezone(_NEW_YORK).isoformat(timespec="seconds"),
        "language": "en",
    }


def _to_lever_posting(company: Company, opening: Opening) -> Json:
    id_ = to_uuid("lever", company.slug, opening.number)
    url = f"http://lever.test/{company.slug}/{id_}"
    markup = f"<div>{escape(opening.words)}</div>"
    pay: Json = {
        "currency": "SGD",
        "interval": "per-year-salary",
        "min": opening.lowest_pay,
        "max": opening.highest_pay,
    }
    return {
        "additional": "",
        "additionalPlain": "",
        "categories": {
            "commitment": "Full-time" if opening.full_time else "Part-time",
            "department": opening.department,
            "location": opening.location,
            "team": opening.department,
            "allLocations": [opening.location],
        },
        "country": "SG" if opening.location.startswith("Singapore") else None,
        "createdAt": int(opening.posted_at.timestamp() * 1000),
        "description": markup,
        "descriptionBody": markup,
        "descriptionBodyPlain": opening.words,
        "descriptionPlain": opening.words,
        "hostedUrl": url,
        "applyUrl": f"{url}/apply",
        "id": id_,
        "lists": [{"text": "Requirements", "content": "<li>Curiosity</li><li>Care</li>"}],
        "opening": "",
        "openingPlain": "",
        "text": opening.title,
        "workplaceType": "remote" if opening.remote else "on-site",
        **({} if opening.lowest_pay is None else {"salaryRange": pay}),
    }


def _to_ashby_posting(company: Company, opening: Opening) -> Json:
    id_ = to_uuid("ashby", company.slug, opening.number)
    url = f"http://ashby.test/{company.slug}/{id_}"
    town, _, country = opening.location.partition(", ")
    return {
        "id": id_,
        "title": opening.title,
        "department": opening.department,
        "team": opening.department,
        "employmentType": "FullTime" if opening.full_time else "PartTime",
        "location": opening.location,
        "shouldDisplayCompensationOnJobPostings": opening.lowest_pay is not None,
        "secondaryLocations": [],
        "publishedAt": opening.posted_at.isoformat(timespec="milliseconds"),
        "isListed": True,
        "isRemote": opening.remote,
        "workplaceType": "Remote" if opening.remote else "OnSite",
        "address": {"postalAddress": {"addressCountry": country or town, "addressLocality": town}},
        "jobUrl": url,
        "applyUrl": f"{url}/application",
        "descriptionHtml": f"<p>{escape(opening.words)}</p>",
        "descriptionPlain": opening.words,
    }


def build_greenhouse_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the handler of GET /v1/boards/{token}/jobs."""

    def tell(_: Request, company: Company, openings: list[Opening]) -> Response:
        jobs = [_to_greenhouse_posting(company, each) for each in openings]
        return to_json_response({"jobs": jobs, "meta": {"total": len(jobs)}})

    missing = to_json_response({"status": 404, "error": "Not found"}, status=404)
    path = ("v1", "boards", "jobs")
    return _build_board_handler("greenhouse", path, tell, missing, world, dials, meter)


def build_lever_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the handler of GET /v0/postings/{site}, paged by skip and limit."""

    def tell(request: Request, company: Company, openings: list[Opening]) -> Response:
        skip, limit = request.get_number("skip", 0), request.get_number("limit", 100)
        found = [_to_lever_posting(company, each) for each in openings]
        return to_json_response(found[skip : skip + limit])

    missing = to_json_response({"ok": False, "error": "Document not found"}, status=404)
    return _build_board_handler("lever", ("v0", "postings"), tell, missing, world, dials, meter)


def build_ashby_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the handler of GET /posting-api/job-board/{name}."""

    def tell(_: Request, company: Company, openings: list[Opening]) -> Response:
        jobs = [_to_ashby_posting(company, each) for each in openings]
        return to_json_response({"jobs": jobs, "apiVersion": "1"})

    missing = to_text_response("Not Found", status=404)
    path = ("posting-api", "job-board")
    return _build_board_handler("ashby", path, tell, missing, world, dials, meter)


def _build_board_handler(
    name: str,
    path: tuple[str, ...],  # the board's name comes third
    tell: Callable[[Request, Company, list[Opening]], Response],
    missing: Response,
    world: World,
    dials: FaultSettingsTable,
    meter: Meter,
) -> Handler:
    def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return to_json_response({"error": "Method not allowed"}, status=405)
        parts = request.path.strip("/").split("/")
        company = world.find_by_domain(f"{parts[2]}.test") if len(parts) > 2 else None
        if company is None or company.board != name or (*parts[:2], *parts[3:]) != path:
            return missing
        openings = list_openings(world, company, night=dials.get_settings(SITES).night)
        response = tell(request, company, openings)
        return answer_unless_known(request, response, {"etag": f"W/{hash_body(response)}"})

    return wrap_with_faults(name, answer, seed=world.seed, dials=dials, meter=meter)


HOSTS = {
    "greenhouse.test": build_greenhouse_handler,
    "lever.test": build_lever_handler,
    "ashby.test": build_ashby_handler,
    "feeds.test": build_feeds_handler,
}
