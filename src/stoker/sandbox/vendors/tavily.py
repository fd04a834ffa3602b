"""tavily.test: search, extract and usage, charged in credits as the vendor's page says.

It finds what the world knows of companies, whatever is odd about their own sites, among pages
that are about something else. A call without a key is refused.

Which companies a text speaks of: by domain, by UEN, by the words of their names.

Names are looked up in a list of places by words, made at the first question; it holds numbers
only, and of a very large world only the first part.

The pages a search engine has seen: of a company's site, of directories, of nothing to the point.

What a page says follows from the world. How results travel is its vendor's business.

directory.test and news.test: pages that are no company's own, where a search may lead.

A directory lists what the register says; news is about nothing in particular.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import urlsplit

from stoker.base.types import Json
from stoker.sandbox.billing import Till, bearer, good_key
from stoker.sandbox.faults import Dials, dialled
from stoker.sandbox.http import Asked, Handler, Told, json_told, page_told, text_told
from stoker.sandbox.meter import Tallies
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.names import FIRST_WORDS, SECOND_WORDS

MOST_INDEXED = 200_000

_WORD = re.compile(r"[a-z0-9]+")

_DOMAIN = re.compile(r"\b[a-z0-9][a-z0-9.-]{0,80}\.test\b")

_UEN = re.compile(r"\b(?:\d{9}[A-Z]|T\d{2}[A-Z]{2}\d{4}[A-Z])\b")


class Recall:
    """Finds companies of a world in a text."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._places: dict[tuple[str, ...], array[int]] | None = None

    def companies(self, text: str, *, most: int = 5) -> list[Company]:
        """Return the companies a text speaks of, the surest first."""
        found: dict[int, Company] = {}
        for company in self._named(text[:2000]):
            found.setdefault(company.index, company)
            if len(found) >= most:
                break
        return list(found.values())

    def _named(self, text: str) -> Iterator[Company]:
        for domain in _DOMAIN.findall(text.lower()):
            company = self._world.by_domain(domain)
            if company is not None:
                yield company
        for uen in _UEN.findall(text.upper()):
            company = self._world.by_uen(uen)
            if company is not None:
                yield company
        words = _WORD.findall(text.lower())
        for many in (3, 2):
            for at in range(len(words) - many + 1):
                for index in self._index().get(tuple(words[at : at + many]), ()):
                    yield self._world.company(index)

    def _index(self) -> dict[tuple[str, ...], array[int]]:
        if self._places is None:
            places: dict[tuple[str, ...], array[int]] = {}
            for index in range(min(self._world.size, MOST_INDEXED)):
                places.setdefault(self._world.name_words(index), array("l")).append(index)
            self._places = places
        return self._places


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


NAME = "tavily"

MOST_URLS = 20

LONGEST_QUERY = 400

_DEPTHS = {"basic": 1, "fast": 1, "ultra-fast": 1, "advanced": 2}

_TOPICS = ("general", "news", "finance")

_PLAN_LIMIT = 15_000

_WORDS = {
    400: "Bad request.",
    401: "Unauthorized: missing or invalid API key.",
    403: "This feature is not available for your account.",
    429: "Your request has been blocked due to excessive requests. Please reduce the rate.",
    432: "This request exceeds your plan's set usage limit. Please upgrade your plan.",
    433: "This request exceeds the pay-as-you-go limit. Raise it in your account's settings.",
    500: "Internal Server Error",
    503: "Service temporarily unavailable.",
}


def tavily(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the vendor's handler."""
    vendor = _Tavily(world, dials, tallies)
    return dialled(
        NAME, vendor.answer, seed=world.seed, dials=dials, tallies=tallies, refused=_refused
    )


def _refused(status: int, why: str = "") -> Told:
    said = why or _WORDS.get(status, "Something went wrong.")
    return json_told({"detail": {"error": said}}, status=status)


class _Tavily:
    def __init__(self, world: World, dials: Dials, tallies: Tallies) -> None:
        self._world, self._recall = world, Recall(world)
        self._till = Till(NAME, dials=dials, tallies=tallies)
        self._by_need: Counter[tuple[str, str]] = Counter()

    def answer(self, asked: Asked) -> Told:
        key = bearer(asked.headers.get("authorization", ""))
        if not good_key(key, prefix="tvly-"):
            return _refused(401)
        if (asked.method, asked.path) == ("GET", "/usage"):
            return json_told(self._usage(key))
        answers = {"/search": self._search, "/extract": self._extract}
        if asked.path not in answers:
            return json_told({"detail": "Not Found"}, status=404)
        if asked.method != "POST":
            return json_told({"detail": "Method Not Allowed"}, status=405)
        try:
            body = asked.json()
        except ValueError:
            return _refused(400, "The body is not JSON.")
        if not isinstance(body, dict):
            return _refused(400, "The body must be an object.")
        return answers[asked.path](key, body)

    def _search(self, key: str, body: Mapping[str, Any]) -> Told:
        query = body.get("query")
        if not isinstance(query, str) or not query.strip():
            return _refused(400, "Query is missing.")
        if len(query) > LONGEST_QUERY:
            return _refused(400, "Query is too long. Max query length is 400 characters.")
        depth, topic = body.get("search_depth", "basic"), body.get("topic", "general")
        most = body.get("max_results", 5)
        if not isinstance(depth, str) or depth not in _DEPTHS or topic not in _TOPICS:
            return _refused(400, "Invalid search_depth or topic.")
        if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most <= 20:
            return _refused(400, "max_results must be between 0 and 20.")
        if body.get("auto_parameters") and self._world.draws("auto", query).chance(0.5):
            depth = "advanced"  # nobody asked for it, and it costs double
        listed = _DEPTHS[depth]
        if not self._till.has(key, listed):
            return _refused(432)
        cost = self._till.take(key, listed)
        self._by_need[key, "search"] += cost
        found = self._found(query, body)[:most]
        told: dict[str, Json] = {
            "query": query,
            "follow_up_questions": None,
            "answer": _summary(found) if body.get("include_answer") else None,
            "images": [],
            "results": [_result(page, place, body) for place, page in enumerate(found)],
            "response_time": round(0.3 + self._world.draws("time", query).share(), 2),
            "request_id": _request_id(query, depth),
        }
        if body.get("include_usage"):
            told["usage"] = {"credits": cost}
        return json_told(told)

    def _found(self, query: str, body: Mapping[str, Any]) -> list[FoundPage]:
        only, never = _names(body.get("include_domains")), _names(body.get("exclude_domains"))
        pages = pages_about(self._world, query, self._recall.companies(query))
        if only and body.get("include_domains_mode", "restrict") == "restrict":
            pages = [page for page in pages if _under(page.url, only)]
        elif only:
            pages.sort(key=lambda page: not _under(page.url, only))
        return [page for page in pages if not _under(page.url, never)]

    def _extract(self, key: str, body: Mapping[str, Any]) -> Told:
        urls = body.get("urls")
        urls = [urls] if isinstance(urls, str) else urls
        if not isinstance(urls, list) or not urls or not all(isinstance(u, str) for u in urls):
            return _refused(400, "urls is missing.")
        if len(urls) > MOST_URLS:
            return _refused(400, f"Max {MOST_URLS} URLs are allowed.")
        depth = body.get("extract_depth", "basic")
        if depth not in ("basic", "advanced"):
            return _refused(400, "Invalid extract_depth.")
        results: list[Json] = []
        failed: list[Json] = []
        for url in urls:
            text = page_text(self._world, url)
            if text is None:
                failed.append({"url": url, "error": "Failed to fetch url"})
            else:
                results.append({"url": url, "raw_content": text, "images": []})
        listed = -(-len(results) // 5) * _DEPTHS[depth]
        if not self._till.has(key, listed):
            return _refused(432)
        cost = self._till.take(key, listed)
        self._by_need[key, "extract"] += cost
        told: dict[str, Json] = {
            "results": results,
            "failed_results": failed,
            "response_time": round(0.1 * len(urls), 2),
            "request_id": _request_id(*urls),
        }
        if body.get("include_usage"):
            told["usage"] = {"credits": cost}
        return json_told(told)

    def _usage(self, key: str) -> Json:
        used = self._till.used(key)
        limit = self._till.limit(key, otherwise=_PLAN_LIMIT)
        split: dict[str, Json] = {
            "search_usage": self._by_need[key, "search"],
            "extract_usage": self._by_need[key, "extract"],
            "crawl_usage": 0,
            "map_usage": 0,
            "research_usage": 0,
        }
        return {
            "key": {"usage": used, "limit": limit, **split},
            "account": {
                "current_plan": "Bootstrap",
                "plan_usage": used,
                "plan_limit": limit,
                "paygo_usage": 0,
                "paygo_limit": None,
                **split,
            },
        }


def _result(page: FoundPage, place: int, body: Mapping[str, Any]) -> Json:
    result: dict[str, Json] = {
        "url": page.url,
        "title": page.title,
        "content": page.snippet,
        "score": round(max(0.05, page.relevance - 0.011 * place), 5),
        "raw_content": page.text if body.get("include_raw_content") else None,
    }
    if body.get("topic") == "news":
        result["published_date"] = "Mon, 02 Nov 2026 08:00:00 GMT"
    if body.get("include_favicon"):
        result["favicon"] = f"http://{urlsplit(page.url).hostname}/favicon.ico"
    return result


def _summary(pages: list[FoundPage]) -> str:
    return pages[0].snippet if pages else "Nothing was found."


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(one).lower() for one in value) if isinstance(value, list) else ()


def _under(url: str, domains: tuple[str, ...]) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _request_id(*what: str) -> str:
    digest = sha256("\n".join(what).encode("utf-8", "replace")).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def directory(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler of both hosts."""

    def answer(asked: Asked) -> Told:
        if asked.path == "/robots.txt":
            return text_told("User-agent: *\nDisallow: /search\n")
        if asked.host != DIRECTORY:
            return page_told("<!doctype html><title>News</title><p>Nothing in particular.</p>")
        text = page_text(world, f"http://{asked.host}{asked.path}")
        if text is None:
            return page_told("<!doctype html><title>Not found</title>", status=404)
        lines = "".join(f"<p>{escape(line.lstrip('# '))}</p>" for line in text.split("\n\n"))
        return page_told(f"<!doctype html><title>Company profile</title><body>{lines}</body>")

    return dialled("directory", answer, seed=world.seed, dials=dials, tallies=tallies)
