"""What is worth asking somebody else for once a company's site was visited, and what comes of it.

Two gaps a site leaves: how many people work there, and what it says to others but not to us. Each
question is None where it would be money for nothing. Who is asked is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.companies import Company
from stoker.core.contacting import CompanyAt
from stoker.core.extracting import Excerpt
from stoker.core.findings import Field, Finding, best
from stoker.core.key_pages import page_kind
from stoker.core.pages import Outcome, SiteVisit
from stoker.core.searching import PageTexts, ReadPages
from stoker.core.urls import WebAddress, web_address
from stoker.core.websites import host_of
from stoker.errors import PermanentError

MOST_READ = 5  # pages of one site: as many as one credit pays for
_SHOWS_US_LITTLE = (Outcome.BLOCKED, Outcome.THIN)


def size_wanted(company: Company, findings: Iterable[Finding]) -> CompanyAt | None:
    """Return what to ask about a company's size; None when it is known, or it has no site."""
    if company.employees is not None or best(findings, Field.EMPLOYEES) is not None:
        return None
    try:
        return CompanyAt(domain=host_of(company.website))
    except PermanentError:
        return None


def pages_wanted(website: str, visit: SiteVisit | None) -> ReadPages | None:
    """Return which pages of a site somebody else should read for us, its home page first.

    None unless the site let us see next to nothing. Where it asked us not to read it, nobody reads
    it for us either.
    """
    if visit is None or visit.unwanted or visit.outcome not in _SHOWS_US_LITTLE:
        return None
    home = _address(website)
    if home is None:
        return None
    urls = [str(home)]
    for seen in visit.seen:
        address = _address(seen.url)
        if address is not None and seen.status == 200 and _same_site(address, home):
            urls.append(str(address))
    pages = [url for url in dict.fromkeys(urls) if not url.endswith(("/robots.txt", ".xml"))]
    return ReadPages(urls=tuple(pages[:MOST_READ])) if pages else None


def read_for_us(website: str, texts: PageTexts) -> list[Excerpt]:
    """Return what pages of a site said to whoever read them for us; words of others are left out.

    The words are the company's own, as if we had read them, but there is no markup to go with them.
    """
    home = _address(website)
    found = [(_address(page.url), page.text) for page in texts.pages if page.text.strip()]
    return [
        Excerpt(url=str(address), text=text, kind=page_kind(address.target))
        for address, text in found
        if address is not None and home is not None and _same_site(address, home)
    ]


def _address(url: str) -> WebAddress | None:
    try:
        return web_address(url if "://" in url[:12] else f"http://{url}")
    except PermanentError:
        return None


def _same_site(one: WebAddress, other: WebAddress) -> bool:
    return one.host.removeprefix("www.") == other.host.removeprefix("www.")
