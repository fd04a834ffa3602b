"""The pages a search engine has seen: of a company's site, of directories, of nothing to the point.

What a page says follows from the world. How results travel is its vendor's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from stoker.sandbox.names import FIRST_WORDS, SECOND_WORDS
from stoker.sandbox.world import Company, World

DIRECTORY = "directory.test"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """One page as a search engine keeps it."""

    url: str
    title: str
    text: str
    relevance: float

    @property
    def snippet(self) -> str:
        """The beginning of its text."""
        return self.text[:300]


def pages_about(world: World, query: str, companies: Sequence[Company]) -> list[FoundPage]:
    """Return what a search finds, best first: pages about the companies, then noise."""
    pages: list[FoundPage] = []
    for place, company in enumerate(companies):
        sure = 0.95 - 0.12 * place
        pages += [
            FoundPage(
                url=f"http://{company.domain}{path}",
                title=f"{title} | {company.brand}",
                text=_site_text(company, path),
                relevance=sure - 0.03 * nth,
            )
            for nth, (path, title) in enumerate(
                (("/", "Home"), ("/contact", "Contact us"), ("/about", "About us"))
            )
        ]
        pages.append(
            FoundPage(
                url=f"http://{DIRECTORY}/company/{company.uen}",
                title=f"{company.name} - company profile",
                text=_directory_text(company),
                relevance=sure - 0.15,
            )
        )
    pages.sort(key=lambda page: -page.relevance)
    return [*pages, *_noise(world, query)]


def page_text(world: World, url: str) -> str | None:
    """Return the text of a page by its address, or None when it cannot be had."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    if host == DIRECTORY:
        listed = world.by_uen(parts.path.rpartition("/")[2])
        return None if listed is None else _directory_text(listed)
    company = world.by_domain(host)
    return None if company is None else _site_text(company, parts.path or "/")


def _site_text(company: Company, path: str) -> str:
    lines = [f"# {company.brand}", f"{company.brand} works in {company.trade} in Singapore."]
    if path.startswith("/about") or path == "/":
        lines += [
            f"{company.name} was founded in {company.incorporated.year}.",
            f"We are a team of {company.employees} people.",
        ]
    if path.startswith("/contact") or path == "/":
        lines += [f"Email: {company.email}", f"Phone: {company.phone}", address_of(company)]
    if path.startswith(("/team", "/about")):
        lines += [f"{person.name}, {person.title}" for person in company.people]
    return "\n\n".join(lines)


def _directory_text(company: Company) -> str:
    return "\n\n".join(
        (
            f"# {company.name}",
            f"UEN {company.uen}. Status: {company.status}.",
            f"Registered on {company.incorporated.isoformat()}.",
            f"Registered address: {address_of(company)}",
            f"Website: {company.domain}",
        )
    )


def address_of(company: Company) -> str:
    """Return a company's address in one line."""
    unit = f" #{company.level}-{company.unit}" if company.level else ""
    building = f", {company.building}" if company.building else ""
    return f"{company.block} {company.street}{unit}{building}, Singapore {company.postal_code}"


def _noise(world: World, query: str) -> list[FoundPage]:
    draws = world.draws("noise", query)
    pages = []
    for nth in range(draws.between(2, 5)):
        words = f"{draws.pick(FIRST_WORDS)} {draws.pick(SECOND_WORDS)}"
        pages.append(
            FoundPage(
                url=f"http://news.test/{words.replace(' ', '-')}-{draws.below(10**6)}",
                title=f"What the market makes of {words}",
                text=f"An article that mentions {words} and little else of interest.",
                relevance=0.4 - 0.05 * nth,
            )
        )
    return pages
