"""greenhouse.test, lever.test, ashby.test and feeds.test: job boards and feeds.

A company is on one board or on none; an unknown board is not found. Boards charge nothing and take
no keys. Greenhouse escapes its markup, Lever counts milliseconds, Ashby shows pay only on request.
Feeds are /{slug}/jobs.rss and /{slug}/jobs.atom, and hostile ones under
/hostile/{bomb,dates,broken,huge,items}.rss: entities, odd dates, cut off, endless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta, timezone
from email.utils import format_datetime
from hashlib import sha256
from html import escape
from typing import Any

from stoker.base.types import Json
from stoker.sandbox.faults import SITES, FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Handler, Request, Response, to_json_response, to_page_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.world.companies import FIRST_NIGHT, Company, World
from stoker.sandbox.world.jobs import Opening, list_openings

_RSS = {"content-type": "application/rss+xml; charset=utf-8"}

_ATOM = {"content-type": "application/atom+xml; charset=utf-8"}

_FEED_NOT_FOUND = Response(
    status=404, headers={"content-type": "text/plain"}, body=b"no such feed\n"
)

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
    """Return the handler."""

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
            return _answer_unless_known(request, _build_rss(company, openings), openings)
        if name == "jobs.atom":
            return _answer_unless_known(request, _build_atom(company, openings), openings)
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


def _answer_unless_known(request: Request, response: Response, openings: list[Opening]) -> Response:
    tag = f'"{sha256(response.body).hexdigest()[:32]}"'
    changed = max((each.changed_at for each in openings), default=FIRST_NIGHT)
    known = {"etag": tag, "last-modified": format_datetime(changed, usegmt=True)}
    if request.headers.get("if-none-match") == tag:
        return Response(status=304, headers=known)
    return response.replace_fields(headers={**response.headers, **known})


_NEW_YORK = timezone(timedelta(hours=-5))


def to_greenhouse_posting(company: Company, opening: Opening, *, full: bool) -> dict[str, Any]:
    """Return a job as Greenhouse writes it; with its description when `full`."""
    posting: dict[str, Any] = {
        "absolute_url": f"http://greenhouse.test/{company.slug}/jobs/{opening.number}",
        "data_compliance": [
            {
                "type": "gdpr",
                "requires_consent": False,
                "requires_processing_consent": False,
                "requires_retention_consent": False,
                "retention_period": None,
                "demographic_data_consent_applies": False,
            }
        ],
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
    if full:
        place = _parse_text_number(opening.location)
        posting |= {
            "content": escape(f"<p>{escape(opening.words)}</p>"),
            "departments": [
                {
                    "id": _parse_text_number(opening.department),
                    "name": opening.department,
                    "child_ids": [],
                    "parent_id": None,
                }
            ],
            "offices": [
                {
                    "id": place,
                    "name": opening.location,
                    "location": opening.location,
                    "child_ids": [],
                    "parent_id": None,
                }
            ],
        }
    return posting


def to_lever_posting(company: Company, opening: Opening) -> dict[str, Any]:
    """Return a posting as Lever writes it."""
    id_ = _to_uuid("lever", company.slug, opening.number)
    url = f"http://lever.test/{company.slug}/{id_}"
    markup = f"<div>{escape(opening.words)}</div>"
    posting: dict[str, Any] = {
        "additional": "",
        "additionalPlain": "",
        "categories": {
            "commitment": _to_commitment(opening),
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
    }
    if opening.lowest_pay is not None:
        posting["salaryRange"] = {
            "currency": "SGD",
            "interval": "per-year-salary",
            "min": opening.lowest_pay,
            "max": opening.highest_pay,
        }
    return posting


def to_ashby_posting(company: Company, opening: Opening, *, pay: bool) -> dict[str, Any]:
    """Return a job as Ashby writes it; with its pay when requested."""
    id_ = _to_uuid("ashby", company.slug, opening.number)
    url = f"http://ashby.test/{company.slug}/{id_}"
    published = opening.posted_at.isoformat(timespec="milliseconds")
    posting: dict[str, Any] = {
        "id": id_,
        "title": opening.title,
        "department": opening.department,
        "team": opening.department,
        "employmentType": "FullTime" if opening.full_time else "PartTime",
        "location": opening.location,
        "shouldDisplayCompensationOnJobPostings": opening.lowest_pay is not None,
        "secondaryLocations": [],
        "publishedAt": published,
        "isListed": True,
        "isRemote": opening.remote,
        "workplaceType": "Remote" if opening.remote else "OnSite",
        "address": {
            "postalAddress": {
                "addressCountry": opening.location.rpartition(", ")[2],
                "addressLocality": opening.location.partition(",")[0],
            }
        },
        "jobUrl": url,
        "applyUrl": f"{url}/application",
        "descriptionHtml": f"<p>{escape(opening.words)}</p>",
        "descriptionPlain": opening.words,
    }
    if pay:
        posting["compensation"] = _to_compensation(opening)
    return posting


def _to_compensation(opening: Opening) -> Json:
    if opening.lowest_pay is None or opening.highest_pay is None:
        return {
            "compensationTierSummary": None,
            "scrapeableCompensationSalarySummary": None,
            "compensationTiers": [],
            "summaryComponents": [],
        }
    pay_text = f"SGD {opening.lowest_pay // 1000}K – SGD {opening.highest_pay // 1000}K"
    part: Json = {
        "compensationType": "Salary",
        "interval": "1 YEAR",
        "currencyCode": "SGD",
        "minValue": opening.lowest_pay,
        "maxValue": opening.highest_pay,
    }
    return {
        "compensationTierSummary": pay_text,
        "scrapeableCompensationSalarySummary": pay_text.replace("SGD ", "S$"),
        "compensationTiers": [
            {
                "id": _to_uuid("tier", opening.number),
                "tierSummary": pay_text,
                "title": None,
                "additionalInformation": None,
                "components": [part],
            }
        ],
        "summaryComponents": [part],
    }


def _to_commitment(opening: Opening) -> str:
    return "Full-time" if opening.full_time else "Part-time"


def _parse_text_number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:8], 16) % 10**8


def _to_uuid(*what: object) -> str:
    digest = sha256("|".join(map(str, what)).encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], "4" + digest[13:16], digest[16:20], digest[20:32]))


BoardHandler = Callable[[Request, Company | None, list[Opening], list[str]], Response]

_GREENHOUSE_MISSING: Json = {"status": 404, "error": "Not found"}

_LEVER_MISSING: Json = {"ok": False, "error": "Document not found"}


def build_greenhouse_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the handler of GET /v1/boards/{token}/jobs."""
    return _build_board_handler(
        "greenhouse", ("v1", "boards"), _answer_greenhouse, world, dials, meter
    )


def build_lever_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the handler of GET /v0/postings/{site}."""
    return _build_board_handler("lever", ("v0", "postings"), _answer_lever, world, dials, meter)


def build_ashby_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    """Return the handler of GET /posting-api/job-board/{name}."""
    return _build_board_handler(
        "ashby", ("posting-api", "job-board"), _answer_ashby, world, dials, meter
    )


def _build_board_handler(
    name: str,
    prefix: tuple[str, str],
    tell: BoardHandler,
    world: World,
    dials: FaultSettingsTable,
    meter: Meter,
) -> Handler:
    def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return to_json_response({"error": "Method not allowed"}, status=405)
        parts = [part for part in request.path.split("/") if part]
        public = tuple(parts[:2]) != prefix
        slug = (parts[0] if parts else "") if public else "".join(parts[2:3])
        company = world.find_by_domain(f"{slug}.test")
        if company is not None and company.board != name:
            company = None
        night = dials.get_settings(SITES).night
        found = list_openings(world, company, night=night) if company else []
        if public:
            return _build_listing_page(company, found)
        return _answer_unless_changed(request, tell(request, company, found, parts[3:]))

    return wrap_with_faults(name, answer, seed=world.seed, dials=dials, meter=meter)


def _answer_greenhouse(
    request: Request, company: Company | None, openings: list[Opening], rest: list[str]
) -> Response:
    if company is None or rest[:1] != ["jobs"]:
        return to_json_response(_GREENHOUSE_MISSING, status=404)
    if len(rest) > 1:
        one = [each for each in openings if str(each.number) == rest[1]]
        if not one:
            return to_json_response({"status": 404, "error": "Job not found"}, status=404)
        return to_json_response(to_greenhouse_posting(company, one[0], full=True))
    full = request.get_argument("content").lower() == "true"
    jobs: list[Json] = [to_greenhouse_posting(company, each, full=full) for each in openings]
    return to_json_response({"jobs": jobs, "meta": {"total": len(jobs)}})


def _answer_lever(
    request: Request, company: Company | None, openings: list[Opening], rest: list[str]
) -> Response:
    if company is None:
        return to_json_response(_LEVER_MISSING, status=404)
    postings: list[dict[str, Any]] = [to_lever_posting(company, each) for each in openings]
    if rest:
        one = [each for each in postings if each["id"] == rest[0]]
        return to_json_response(one[0]) if one else to_json_response(_LEVER_MISSING, status=404)
    if request.get_argument("mode", "json") != "json":
        return _build_listing_page(company, openings)
    for name in ("location", "commitment", "team", "department"):
        wanted = request.query.get(name)
        if wanted:
            postings = [each for each in postings if each["categories"][name] in wanted]
    skip, limit = (
        _to_number(request.get_argument("skip"), 0),
        _to_number(request.get_argument("limit"), 100),
    )
    return to_json_response(postings[skip : skip + limit])


def _answer_ashby(
    request: Request, company: Company | None, openings: list[Opening], rest: list[str]
) -> Response:
    if company is None or rest:
        return Response(status=404, headers={"content-type": "text/plain"}, body=b"Not Found")
    pay = request.get_argument("includeCompensation").lower() == "true"
    jobs: list[Json] = [to_ashby_posting(company, each, pay=pay) for each in openings]
    return to_json_response({"jobs": jobs, "apiVersion": "1"})


def _build_listing_page(company: Company | None, openings: list[Opening]) -> Response:
    if company is None:
        return to_page_response("<!doctype html><title>Not found</title>", status=404)
    items = "".join(f"<li>{escape(each.title)}, {escape(each.location)}</li>" for each in openings)
    return to_page_response(
        f"<!doctype html><title>Jobs at {escape(company.brand)}</title><ul>{items}</ul>"
    )


def _answer_unless_changed(request: Request, response: Response) -> Response:
    if response.status != 200:
        return response
    tag = f'W/"{sha256(response.body).hexdigest()[:32]}"'
    headers = {**response.headers, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status=304, headers={"etag": tag})
    return response.replace_fields(headers=headers)


def _to_number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
