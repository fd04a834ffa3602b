"""Serve company sites: pages by night, robots.txt, sitemaps, validators and site faults."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache
from hashlib import blake2b

from stoker.sandbox.faults import SITES, FaultSettingsTable
from stoker.sandbox.http import (
    Request,
    Response,
    answer_unless_known,
    to_page_response,
    to_text_response,
)
from stoker.sandbox.sites.faults import FAULT_HANDLERS, apply_page_fault
from stoker.sandbox.sites.layout import SiteLayout, SitemapStyle, SitePage, Validators, build_layout
from stoker.sandbox.sites.pages import CHARSET_SAMPLES, PageSource, build_page
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.site_faults import SiteFault

_XML = {"content-type": "application/xml"}
_XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_XML_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_HUGE_RULES = 400_000


def build_robots(company: Company, layout: SiteLayout) -> Response:
    match company.trouble:
        case SiteFault.ROBOTS_CLOSED:
            return to_text_response("User-agent: *\nDisallow: /\n")
        case SiteFault.ROBOTS_FAILING:
            return to_text_response("Internal Server Error\n", status=500)
        case SiteFault.ROBOTS_PAGE:
            return to_page_response("<!doctype html><title>Welcome</title><h1>Welcome</h1>")
        case SiteFault.ROBOTS_HUGE:
            return Response(headers={"content-type": "text/plain"}, stream=_iterate_huge_robots())
        case _:
            return to_text_response("\n".join(_iterate_rules(company, layout)) + "\n")


def _iterate_rules(company: Company, layout: SiteLayout) -> Iterator[str]:
    yield "# Staff pages are nobody's business."
    yield "User-agent: HungryBot"
    yield "Disallow: /"
    yield ""
    yield "User-agent: *"
    yield "Disallow: /admin/"
    yield "Disallow: /*?session="
    delay = 30 if company.trouble is SiteFault.ROBOTS_SLOW else layout.crawl_delay
    if delay:
        yield f"Crawl-delay: {delay}"
    yield ""
    name = "sitemap.xml.gz" if layout.maps is SitemapStyle.GZIP else "sitemap.xml"
    if layout.maps is not SitemapStyle.NONE:
        yield f"Sitemap: http://{company.domain}/{name}"


def _iterate_huge_robots() -> Iterator[bytes]:
    yield b"User-agent: *\nDisallow: /admin/\n"
    for start in range(0, _HUGE_RULES, 1000):
        rules = (f"Disallow: /private/{nth:06d}/" for nth in range(start, start + 1000))
        yield ("\n".join(rules) + "\n").encode()


def find_sitemap(company: Company, layout: SiteLayout, path: str, *, night: int) -> Response | None:
    """Return a site's sitemap at this path, if it has one there."""
    if company.trouble is SiteFault.ODD_SITEMAP and path == "/sitemap.xml":
        return _build_odd_sitemap(company)
    places = list(layout.pages.values())
    match layout.maps, path:
        case SitemapStyle.PLAIN, "/sitemap.xml":
            return _to_xml_response(_build_sitemap(company, places, night))
        case SitemapStyle.GZIP, "/sitemap.xml.gz":
            return _to_gzip_response(_build_sitemap(company, places, night))
        case SitemapStyle.INDEX, "/sitemap.xml":
            return _to_xml_response(_build_sitemap_index(company))
        case SitemapStyle.INDEX, "/sitemap-pages.xml":
            return _to_xml_response(
                _build_sitemap(company, [at for at in places if at.kind != "post"], night)
            )
        case SitemapStyle.INDEX, "/sitemap-posts.xml.gz":
            return _to_gzip_response(
                _build_sitemap(company, [at for at in places if at.kind == "post"], night)
            )
        case _:
            return None


def _to_xml_response(text: str) -> Response:
    return Response(headers=_XML, body=text.encode())


def _to_gzip_response(text: str) -> Response:
    return Response(
        headers={"content-type": "application/gzip"}, body=gzip.compress(text.encode(), mtime=0)
    )


def _build_sitemap(company: Company, places: list[SitePage], night: int) -> str:
    urls = "".join(
        f"<url><loc>http://{company.domain}{place.path}</loc>"
        f"<lastmod>{place.get_changed_at(place.count_changes(night)):%Y-%m-%d}</lastmod></url>\n"
        for place in places
    )
    return f"{_XML_HEAD}<urlset {_XML_NAMESPACE}>\n{urls}</urlset>\n"


def _build_sitemap_index(company: Company) -> str:
    maps = "".join(
        f"<sitemap><loc>http://{company.domain}/{name}</loc></sitemap>\n"
        for name in ("sitemap-pages.xml", "sitemap-posts.xml.gz", "sitemap-missing.xml")
    )
    return f"{_XML_HEAD}<sitemapindex {_XML_NAMESPACE}>\n{maps}</sitemapindex>\n"


def _build_odd_sitemap(company: Company) -> Response:
    laughs = "".join(f'<!ENTITY l{nth} "{f"&l{nth - 1};" * 10}">' for nth in range(1, 10))
    head = (
        f'{_XML_HEAD}<!DOCTYPE urlset [<!ENTITY l0 "ha">{laughs}'
        '<!ENTITY inside SYSTEM "file:///etc/hostname">]>'
        f"<urlset {_XML_NAMESPACE}><url><loc>http://{company.domain}/&l9;&inside;</loc></url>"
    )
    return Response(headers=_XML, stream=_iterate_endless(head, company))


def _iterate_endless(head: str, company: Company) -> Iterator[bytes]:
    yield head.encode()
    for nth in range(60_000):
        host = company.domain if nth % 3 else f"elsewhere-{nth}.test"
        yield f"<url><loc>http://{host}/listed/{nth}</loc></url>\n".encode()
    yield b"</urlset>"


SiteHandler = Callable[[Request, Company], Response]
_MAX_CACHED_PAGES, _MAX_CACHED_LAYOUTS = 4096, 4096

_NOT_FOUND = to_page_response(
    "<!doctype html><title>Not found</title><h1>Not found</h1>", status=404
)

_STAFF_PAGE = to_page_response(
    "<!doctype html><title>Staff</title><form><input type=password></form>"
)


def build_sites_handler(world: World, dials: FaultSettingsTable) -> SiteHandler:
    @lru_cache(maxsize=_MAX_CACHED_LAYOUTS)
    def layout(index: int) -> SiteLayout:
        return build_layout(world, world.get_company(index))

    @lru_cache(maxsize=_MAX_CACHED_PAGES)
    def page(index: int, path: str, version: int, packed: bool) -> tuple[Response, dict[str, str]]:
        company, laid_out = world.get_site_owner(world.get_company(index)), layout(index)
        place = laid_out.pages[path]
        markup = build_page(PageSource(world, company, laid_out, place, version))
        response = _encode_page(markup, company.trouble)
        validators = _list_validators(response, laid_out, place, version)
        return (_compress(response) if packed else response), validators

    def handle(request: Request, company: Company) -> Response:
        odd = FAULT_HANDLERS.get(company.trouble)
        if odd is not None and (response := odd(world, company, request)) is not None:
            return response
        laid_out, night = layout(company.index), dials.get_settings(SITES).night
        if request.path == "/robots.txt":
            return build_robots(company, laid_out)
        place = laid_out.pages.get(request.path)
        if place is not None:
            packed = laid_out.gzip and "gzip" in request.headers.get("accept-encoding", "")
            found = page(company.index, request.path, place.count_changes(night), packed)
            response = answer_unless_known(request, *found)
            return apply_page_fault(response, company.trouble, request)
        if request.path.startswith("/admin/"):
            return _STAFF_PAGE
        return find_sitemap(company, laid_out, request.path, night=night) or _NOT_FOUND

    return handle


def _encode_page(markup: str, trouble: SiteFault) -> Response:
    """Return the page in the letters its site uses, and with the claims it makes about them."""
    match trouble:
        case SiteFault.LATIN_1 | SiteFault.MISLABELLED:
            charset = "latin-1" if trouble is SiteFault.LATIN_1 else "utf-8"
            text = markup.replace("</main>", f"<p>{CHARSET_SAMPLES['latin-1']}</p></main>")
            text = text.replace('charset="utf-8"', f'charset="{charset}"')
            body = text.encode("latin-1", "xmlcharrefreplace")
            return Response(headers={"content-type": f"text/html; charset={charset}"}, body=body)
        case SiteFault.SHIFT_JIS:
            text = markup.replace("</main>", f"<p>{CHARSET_SAMPLES['shift_jis']}</p></main>")
            text = text.replace('<meta charset="utf-8">', "")
            body = text.encode("shift_jis", "xmlcharrefreplace")
            return Response(headers={"content-type": "text/html"}, body=body)
        case SiteFault.CALENDAR:
            return to_page_response(
                markup.replace("</main>", '<a href="/events">Events</a></main>')
            )
        case SiteFault.DUPLICATES:
            text = markup.replace("</ul></nav>", f"{_build_duplicate()}</ul></nav>")
            return to_page_response(text)
        case SiteFault.SOFT_404:
            old = '<a href="/old/page">Archive</a><a href="/missing.html">More</a></main>'
            return to_page_response(markup.replace("</main>", old))
        case _:
            return to_page_response(markup)


def _build_duplicate() -> str:
    queries = ("utm_source=mail", "ref=footer", "session=1f", "session=2e", "lang=en", "a=1&b=2")
    return "".join(f'<li><a href="/?{query}">Home</a></li>' for query in queries)


def _list_validators(
    response: Response, layout: SiteLayout, place: SitePage, version: int
) -> dict[str, str]:
    etag = f'"{blake2b(response.body, digest_size=8).hexdigest()}"'
    offers = layout.validators
    validators = {}
    if offers in (Validators.BOTH, Validators.ETAG, Validators.WEAK):
        validators["etag"] = f"W/{etag}" if offers is Validators.WEAK else etag
    if offers in (Validators.BOTH, Validators.DATE):
        validators["last-modified"] = _format_http_date(place.get_changed_at(version))
    return validators


def _compress(response: Response) -> Response:
    headers = {**response.headers, "content-encoding": "gzip", "vary": "accept-encoding"}
    body = gzip.compress(response.body, compresslevel=5, mtime=0)
    return response.replace_fields(headers=headers, body=body)


@lru_cache(maxsize=1024)
def _format_http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)
