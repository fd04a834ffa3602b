"""Company sites: what is served under a company's own domain, on which night.

Puts together where a site's pages are, what they say, what the site tells crawlers and what is
odd about it; and knows what those who have seen a page before are told.

What a site tells crawlers: robots.txt and its sitemaps, the honest ones and the odd ones.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from hashlib import blake2b

from stoker.sandbox.faults import SITES, Dials
from stoker.sandbox.http import Asked, Told, page_told, text_told
from stoker.sandbox.sites.faults import ODD, spoilt
from stoker.sandbox.sites.layout import Layout, Maps, Place, Validators, layout_of
from stoker.sandbox.sites.pages import FOREIGN, markup_of
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.site_faults import Trouble

_XML = {"content-type": "application/xml"}

_DECLARED = '<?xml version="1.0" encoding="UTF-8"?>\n'

_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'

_HUGE_RULES = 400_000


def robots_of(company: Company, layout: Layout) -> Told:
    """Return a site's robots.txt."""
    match company.trouble:
        case Trouble.ROBOTS_CLOSED:
            return text_told("User-agent: *\nDisallow: /\n")
        case Trouble.ROBOTS_FAILING:
            return text_told("Internal Server Error\n", status=500)
        case Trouble.ROBOTS_PAGE:
            return page_told("<!doctype html><title>Welcome</title><h1>Welcome</h1>")
        case Trouble.ROBOTS_HUGE:
            return Told(headers={"content-type": "text/plain"}, stream=_huge_robots())
        case _:
            return text_told("\n".join(_rules(company, layout)) + "\n")


def _rules(company: Company, layout: Layout) -> Iterator[str]:
    yield "# Staff pages are nobody's business."
    yield "User-agent: HungryBot"
    yield "Disallow: /"
    yield ""
    yield "User-agent: *"
    yield "Disallow: /admin/"
    yield "Disallow: /*?session="
    delay = 30 if company.trouble is Trouble.ROBOTS_SLOW else layout.crawl_delay
    if delay:
        yield f"Crawl-delay: {delay}"
    yield ""
    name = "sitemap.xml.gz" if layout.maps is Maps.GZIP else "sitemap.xml"
    if layout.maps is not Maps.NONE:
        yield f"Sitemap: http://{company.domain}/{name}"


def _huge_robots() -> Iterator[bytes]:
    yield b"User-agent: *\nDisallow: /admin/\n"
    for start in range(0, _HUGE_RULES, 1000):
        rules = (f"Disallow: /private/{nth:06d}/" for nth in range(start, start + 1000))
        yield ("\n".join(rules) + "\n").encode()


def sitemap_of(company: Company, layout: Layout, path: str, *, night: int) -> Told | None:
    """Return a site's sitemap at this path, if it has one there."""
    if company.trouble is Trouble.ODD_SITEMAP and path == "/sitemap.xml":
        return _odd(company)
    places = list(layout.places.values())
    match layout.maps, path:
        case Maps.PLAIN, "/sitemap.xml":
            return _xml(_listed(company, places, night))
        case Maps.GZIP, "/sitemap.xml.gz":
            return _packed(_listed(company, places, night))
        case Maps.INDEX, "/sitemap.xml":
            return _xml(_index(company))
        case Maps.INDEX, "/sitemap-pages.xml":
            return _xml(_listed(company, [at for at in places if at.kind != "post"], night))
        case Maps.INDEX, "/sitemap-posts.xml.gz":
            return _packed(_listed(company, [at for at in places if at.kind == "post"], night))
        case _:
            return None


def _xml(text: str) -> Told:
    return Told(headers=_XML, body=text.encode())


def _packed(text: str) -> Told:
    return Told(
        headers={"content-type": "application/gzip"}, body=gzip.compress(text.encode(), mtime=0)
    )


def _listed(company: Company, places: list[Place], night: int) -> str:
    urls = "".join(
        f"<url><loc>http://{company.domain}{place.path}</loc>"
        f"<lastmod>{place.changed_at(place.version(night)):%Y-%m-%d}</lastmod></url>\n"
        for place in places
    )
    return f"{_DECLARED}<urlset {_SPACE}>\n{urls}</urlset>\n"


def _index(company: Company) -> str:
    maps = "".join(
        f"<sitemap><loc>http://{company.domain}/{name}</loc></sitemap>\n"
        for name in ("sitemap-pages.xml", "sitemap-posts.xml.gz", "sitemap-missing.xml")
    )
    return f"{_DECLARED}<sitemapindex {_SPACE}>\n{maps}</sitemapindex>\n"


def _odd(company: Company) -> Told:
    laughs = "".join(f'<!ENTITY l{nth} "{f"&l{nth - 1};" * 10}">' for nth in range(1, 10))
    head = (
        f'{_DECLARED}<!DOCTYPE urlset [<!ENTITY l0 "ha">{laughs}'
        '<!ENTITY inside SYSTEM "file:///etc/hostname">]>'
        f"<urlset {_SPACE}><url><loc>http://{company.domain}/&l9;&inside;</loc></url>"
    )
    return Told(headers=_XML, stream=_without_bottom(head, company))


def _without_bottom(head: str, company: Company) -> Iterator[bytes]:
    yield head.encode()
    for nth in range(60_000):
        host = company.domain if nth % 3 else f"elsewhere-{nth}.test"
        yield f"<url><loc>http://{host}/listed/{nth}</loc></url>\n".encode()
    yield b"</urlset>"


SiteHandler = Callable[[Asked, Company], Told]

_KEPT_PAGES, _KEPT_LAYOUTS = 4096, 4096

_MISSING = page_told("<!doctype html><title>Not found</title><h1>Not found</h1>", status=404)

_STAFF = page_told("<!doctype html><title>Staff</title><form><input type=password></form>")


def sites(world: World, dials: Dials) -> SiteHandler:
    """Return the handler for all company sites of a world."""

    @lru_cache(maxsize=_KEPT_LAYOUTS)
    def layout(index: int) -> Layout:
        return layout_of(world, world.company(index))

    @lru_cache(maxsize=_KEPT_PAGES)
    def page(index: int, path: str, version: int, packed: bool) -> Told:
        company, laid_out = world.company(index), layout(index)
        place = laid_out.places[path]
        markup = markup_of(world, company, laid_out, place, version)
        return _sent(_lettered(markup, company.trouble), laid_out, place, version, packed=packed)

    def handled(asked: Asked, company: Company) -> Told:
        odd = ODD.get(company.trouble)
        if odd is not None and (told := odd(world, company, asked)) is not None:
            return told
        laid_out, night = layout(company.index), dials.of(SITES).night
        if asked.path == "/robots.txt":
            return robots_of(company, laid_out)
        place = laid_out.places.get(asked.path)
        if place is not None:
            packed = laid_out.gzip and "gzip" in asked.headers.get("accept-encoding", "")
            told = page(company.index, asked.path, place.version(night), packed)
            told = _not_modified(told, asked) or told
            return spoilt(told, company.trouble, asked)
        if asked.path.startswith("/admin/"):
            return _STAFF
        return sitemap_of(company, laid_out, asked.path, night=night) or _MISSING

    return handled


def _lettered(markup: str, trouble: Trouble) -> Told:
    """Return the page in the letters its site uses, and with the claims it makes about them."""
    match trouble:
        case Trouble.LATIN_1 | Trouble.MISLABELLED:
            charset = "latin-1" if trouble is Trouble.LATIN_1 else "utf-8"
            text = markup.replace("</main>", f"<p>{FOREIGN['latin-1']}</p></main>")
            text = text.replace('charset="utf-8"', f'charset="{charset}"')
            body = text.encode("latin-1", "xmlcharrefreplace")
            return Told(headers={"content-type": f"text/html; charset={charset}"}, body=body)
        case Trouble.SHIFT_JIS:
            text = markup.replace("</main>", f"<p>{FOREIGN['shift_jis']}</p></main>")
            text = text.replace('<meta charset="utf-8">', "")
            body = text.encode("shift_jis", "xmlcharrefreplace")
            return Told(headers={"content-type": "text/html"}, body=body)
        case Trouble.CALENDAR:
            return page_told(markup.replace("</main>", '<a href="/events">Events</a></main>'))
        case Trouble.DUPLICATES:
            text = markup.replace("</ul></nav>", f"{_same_again()}</ul></nav>")
            return page_told(text)
        case Trouble.SOFT_404:
            old = '<a href="/old/page">Archive</a><a href="/missing.html">More</a></main>'
            return page_told(markup.replace("</main>", old))
        case _:
            return page_told(markup)


def _same_again() -> str:
    return "".join(
        f'<li><a href="/?{query}">Home</a></li>'
        for query in (
            "utm_source=mail",
            "ref=footer",
            "session=1f",
            "session=2e",
            "lang=en",
            "a=1&b=2",
        )
    )


def _sent(told: Told, layout: Layout, place: Place, version: int, *, packed: bool) -> Told:
    headers = dict(told.headers)
    etag = blake2b(told.body, digest_size=8).hexdigest()
    match layout.validators:
        case Validators.BOTH | Validators.ETAG:
            headers["etag"] = f'"{etag}"'
        case Validators.WEAK:
            headers["etag"] = f'W/"{etag}"'
        case _:
            pass
    if layout.validators in (Validators.BOTH, Validators.DATE):
        headers["last-modified"] = _dated(place.changed_at(version))
    if not packed:
        return told.but(headers=headers)
    headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    return told.but(headers=headers, body=gzip.compress(told.body, compresslevel=5, mtime=0))


@lru_cache(maxsize=1024)
def _dated(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def _not_modified(told: Told, asked: Asked) -> Told | None:
    """Return a 304 when the one who asks has seen exactly this, None otherwise."""
    known, etag = asked.headers.get("if-none-match"), told.headers.get("etag")
    if known is not None:
        same = etag is not None and (known == "*" or etag.removeprefix("W/") in known)
    elif since := asked.headers.get("if-modified-since"):
        same = _not_since(told.headers.get("last-modified"), since)
    else:
        return None
    if not same:
        return None
    kept = {name: text for name, text in told.headers.items() if name in ("etag", "last-modified")}
    return Told(status=304, headers=kept)


def _not_since(changed: str | None, since: str) -> bool:
    if changed is None:
        return False
    try:
        return parsedate_to_datetime(changed) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # a date that is none, or one without a zone
        return False
