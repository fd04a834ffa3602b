"""feeds.test: jobs and news of companies as RSS and Atom, and feeds nobody should trust.

/{slug}/jobs.rss, /{slug}/jobs.atom       what a company has open
/hostile/{bomb,dates,broken,huge,items}.rss   entities, dates in every shape, cut off, no end
"""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import format_datetime
from hashlib import sha256
from html import escape

from stoker.sandbox.dialling import dialled
from stoker.sandbox.dials import SITES, Dials
from stoker.sandbox.openings import FIRST_NIGHT, Opening, openings_of
from stoker.sandbox.serving import Asked, Handler, Told
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.world import Company, World

_RSS = {"content-type": "application/rss+xml; charset=utf-8"}
_ATOM = {"content-type": "application/atom+xml; charset=utf-8"}
_MISSING = Told(status=404, headers={"content-type": "text/plain"}, body=b"no such feed\n")
_DATES = (
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


def feeds(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler."""

    def answer(asked: Asked) -> Told:
        if asked.method not in ("GET", "HEAD"):
            return Told(status=405)
        slug, _, name = asked.path.strip("/").partition("/")
        if slug == "hostile":
            return _hostile(name)
        company = world.by_domain(f"{slug}.test")
        if company is None:
            return _MISSING
        night = dials.of(SITES).night
        openings = openings_of(world, company, night=night)
        if name == "jobs.rss":
            return _unless_known(asked, _rss(company, openings), openings)
        if name == "jobs.atom":
            return _unless_known(asked, _atom(company, openings), openings)
        return _MISSING

    return dialled("feeds", answer, seed=world.seed, dials=dials, tallies=tallies)


def _rss(company: Company, openings: list[Opening]) -> Told:
    items = "".join(
        f"<item><title>{escape(each.title)}</title>"
        f"<link>{_link(company, each)}</link>"
        f'<guid isPermaLink="false">{each.number}</guid>'
        f"<category>{escape(each.department)}</category>"
        f"<pubDate>{format_datetime(each.posted_at)}</pubDate>"
        f"<description>{escape(f'<p>{escape(each.words)}</p>')}</description></item>\n"
        for each in openings
    )
    return _feed(_RSS, _rss_around(f"Jobs at {company.brand}", company.domain, items))


def _rss_around(title: str, domain: str, items: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel>'
        f"<title>{escape(title)}</title><link>http://{domain}/careers</link>"
        f"<description>Openings</description>\n{items}</channel></rss>\n"
    )


def _atom(company: Company, openings: list[Opening]) -> Told:
    changed = max((each.changed_at for each in openings), default=FIRST_NIGHT)
    entries = "".join(
        f"<entry><title>{escape(each.title)}</title>"
        f'<link rel="alternate" href="{_link(company, each)}"/>'
        f"<id>urn:job:{each.number}</id><published>{each.posted_at.isoformat()}</published>"
        f"<updated>{each.changed_at.isoformat()}</updated>"
        f'<summary type="text">{escape(each.words)}</summary></entry>\n'
        for each in openings
    )
    return _feed(
        _ATOM,
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>Jobs at {escape(company.brand)}</title><id>urn:company:{company.uen}</id>"
        f"<updated>{changed.isoformat()}</updated>\n{entries}</feed>\n",
    )


def _hostile(name: str) -> Told:
    match name:
        case "bomb.rss":
            levels = "".join(f'<!ENTITY e{nth} "{f"&e{nth - 1};" * 10}">' for nth in range(1, 10))
            return _feed(
                _RSS,
                f'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY e0 "ha">{levels}]>'
                "<rss><channel><item><title>&e9;</title></item></channel></rss>",
            )
        case "dates.rss":
            items = "".join(
                f"<item><title>Job {nth}</title><link>http://feeds.test/{nth}</link>"
                f"<pubDate>{date}</pubDate></item>"
                for nth, date in enumerate(_DATES)
            )
            return _feed(_RSS, _rss_around("Dates", "feeds.test", items))
        case "broken.rss":
            good = "<item><title>Kept</title><link>http://feeds.test/kept</link></item>"
            whole = _rss_around("Broken", "feeds.test", good)
            return _feed(_RSS, whole[: whole.index("</channel>")] + "<item><title>Cut & off")
        case "items.rss":
            return Told(headers=_RSS, stream=_many_items(100_000))
        case "huge.rss":
            return Told(headers=_RSS, stream=_many_items(None))
    return _MISSING


def _many_items(many: int | None) -> Iterator[bytes]:
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


def _link(company: Company, opening: Opening) -> str:
    return f"http://{company.domain}/careers/{opening.number}"


def _feed(headers: dict[str, str], text: str) -> Told:
    return Told(headers=headers, body=text.encode())


def _unless_known(asked: Asked, told: Told, openings: list[Opening]) -> Told:
    tag = f'"{sha256(told.body).hexdigest()[:32]}"'
    changed = max((each.changed_at for each in openings), default=FIRST_NIGHT)
    known = {"etag": tag, "last-modified": format_datetime(changed, usegmt=True)}
    if asked.headers.get("if-none-match") == tag:
        return Told(status=304, headers=known)
    return told.but(headers={**told.headers, **known})
