"""What a site tells crawlers: robots.txt and its sitemaps, the honest ones and the odd ones."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from stoker.sandbox.serving import Told, page_told, text_told
from stoker.sandbox.site_layout import Layout, Maps, Place
from stoker.sandbox.troubles import Trouble
from stoker.sandbox.world import Company

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
