"""tavily.test, directory.test and news.test: search, extract and usage, charged in credits.

Search finds companies of the world by domain, by UEN and by the words of their names, among pages
about something else. The index by words is built at the first query and covers only the first part
of a very large world. A directory lists what the register contains. A call without a key is
refused.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlsplit

from stoker.base.types import Json
from stoker.sandbox.billing import Credits, is_valid_key, parse_bearer
from stoker.sandbox.faults import FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import (
    Handler,
    Request,
    Response,
    to_json_response,
    to_page_response,
    to_text_response,
)
from stoker.sandbox.meter import Meter
from stoker.sandbox.random import to_uuid
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.names import FIRST_WORDS, SECOND_WORDS
from stoker.sandbox.world.site_faults import SiteFault

MAX_INDEXED = 200_000
_WORD = re.compile(r"[a-z0-9]+")
_DOMAIN = re.compile(r"\b[a-z0-9][a-z0-9.-]{0,80}\.test\b")
_UEN = re.compile(r"\b(?:\d{9}[A-Z]|T\d{2}[A-Z]{2}\d{4}[A-Z])\b")


class CompanySearch:
    """Finds companies of a world in a text."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._index_by_words: dict[tuple[str, ...], array[int]] | None = None

    def find_companies(self, text: str, *, most: int = 5) -> list[Company]:
        """Return the companies a text speaks of, the surest first."""
        found: dict[int, Company] = {}
        for company in self._find_by_name(text[:2000]):
            found.setdefault(company.index, company)
            if len(found) >= most:
                break
        return list(found.values())

    def _find_by_name(self, text: str) -> Iterator[Company]:
        for domain in _DOMAIN.findall(text.lower()):
            company = self._world.find_by_domain(domain)
            if company is not None:
                yield company
        for uen in _UEN.findall(text.upper()):
            company = self._world.find_by_uen(uen)
            if company is not None:
                yield company
        words = _WORD.findall(text.lower())
        for many in (3, 2):
            for at in range(len(words) - many + 1):
                for index in self._build_index().get(tuple(words[at : at + many]), ()):
                    yield self._world.get_company(index)

    def _build_index(self) -> dict[tuple[str, ...], array[int]]:
        if self._index_by_words is None:
            places: dict[tuple[str, ...], array[int]] = {}
            for index in range(min(self._world.size, MAX_INDEXED)):
                places.setdefault(self._world.get_name_words(index), array("l")).append(index)
            self._index_by_words = places
        return self._index_by_words


DIRECTORY = "directory.test"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    url: str
    title: str
    text: str
    relevance: float

    @property
    def snippet(self) -> str:
        return self.text[:300]


def find_pages(world: World, query: str, companies: Sequence[Company]) -> list[SearchPage]:
    """Return what a search finds, best first: pages about the companies, then noise."""
    pages: list[SearchPage] = []
    for place, company in enumerate(companies):
        sure = 0.95 - 0.12 * place
        pages += [
            SearchPage(
                url=f"http://{company.domain}{path}",
                title=f"{title} | {company.brand}",
                text=_build_site_text(world.get_site_owner(company), path),
                relevance=sure - 0.03 * nth,
            )
            for nth, (path, title) in enumerate(
                (("/", "Home"), ("/contact", "Contact us"), ("/about", "About us"))
            )
        ]
        pages.append(
            SearchPage(
                url=f"http://{DIRECTORY}/company/{company.uen}",
                title=f"{company.name} - company profile",
                text=_build_directory_text(company),
                relevance=sure - 0.15,
            )
        )
    pages.sort(key=lambda page: -page.relevance)
    return [*pages, *_build_noise(world, query)]


def find_page_text(world: World, url: str) -> str | None:
    """Return the text of a page by its address, or None when it cannot be had."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    if host == DIRECTORY:
        listed = world.find_by_uen(parts.path.rpartition("/")[2])
        return None if listed is None else _build_directory_text(listed)
    company = world.find_by_domain(host)
    if company is None:
        return None
    return _build_site_text(world.get_site_owner(company), parts.path or "/")


def _build_site_text(company: Company, path: str) -> str:
    lines = [f"# {company.brand}", f"{company.brand} works in {company.trade} in Singapore."]
    if path.startswith("/about") or path == "/":
        lines += [
            f"{company.name} was founded in {company.incorporated.year}.",
            f"We are a team of {company.employees} people.",
        ]
    if path.startswith("/contact") or path == "/":
        lines += [f"Email: {company.email}", f"Phone: {company.phone}", format_address(company)]
    if path.startswith(("/team", "/about")):
        lines += [f"{person.name}, {person.title}" for person in company.people]
    return "\n\n".join(lines)


def _build_directory_text(company: Company) -> str:
    lines = [
        f"# {company.name}",
        f"UEN {company.uen}. Status: {company.status}.",
        f"Registered on {company.incorporated.isoformat()}.",
        f"Registered address: {format_address(company)}",
    ]
    if company.trouble is not SiteFault.SQUATTED:
        lines.append(f"Website: {company.domain}")
    return "\n\n".join(lines)


def format_address(company: Company) -> str:
    unit = f" #{company.level}-{company.unit}" if company.level else ""
    building = f", {company.building}" if company.building else ""
    return f"{company.block} {company.street}{unit}{building}, Singapore {company.postal_code}"


def _build_noise(world: World, query: str) -> list[SearchPage]:
    draws = world.build_draws("noise", query)
    pages = []
    for nth in range(draws.draw_between(2, 5)):
        words = f"{draws.pick(FIRST_WORDS)} {draws.pick(SECOND_WORDS)}"
        pages.append(
            SearchPage(
                url=f"http://news.test/{words.replace(' ', '-')}-{draws.draw_below(10**6)}",
                title=f"What the market makes of {words}",
                text=f"An article that mentions {words} and little else of interest.",
                relevance=0.4 - 0.05 * nth,
            )
        )
    return pages


NAME = "tavily"
MAX_URLS = 20
MAX_QUERY_LENGTH = 400
_DEPTHS = {"basic": 1, "fast": 1, "ultra-fast": 1, "advanced": 2}
_PLAN_LIMIT = 15_000

_REFUSAL_TEXTS = {
    400: "Bad request.",
    401: "Unauthorized: missing or invalid API key.",
    403: "This feature is not available for your account.",
    429: "Your request has been blocked due to excessive requests. Please reduce the rate.",
    432: "This request exceeds your plan's set usage limit. Please upgrade your plan.",
    433: "This request exceeds the pay-as-you-go limit. Raise it in your account's settings.",
    500: "Internal Server Error",
    503: "Service temporarily unavailable.",
}


def build_tavily_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    vendor = _Tavily(world, dials, meter)
    return wrap_with_faults(
        NAME, vendor.answer, seed=world.seed, dials=dials, meter=meter, refused=_build_refusal
    )


def _build_refusal(status: int, why: str = "") -> Response:
    message = why or _REFUSAL_TEXTS.get(status, "Something went wrong.")
    return to_json_response({"detail": {"error": message}}, status=status)


class _Tavily:
    def __init__(self, world: World, dials: FaultSettingsTable, meter: Meter) -> None:
        self._world, self._company_search = world, CompanySearch(world)
        self._credits = Credits(NAME, dials=dials, meter=meter)
        self._search_by_need: Counter[tuple[str, str]] = Counter()

    def answer(self, request: Request) -> Response:
        key = parse_bearer(request.headers.get("authorization", ""))
        if not is_valid_key(key, prefix="tvly-"):
            return _build_refusal(401)
        if (request.method, request.path) == ("GET", "/usage"):
            return to_json_response(self._to_usage(key))
        answers = {"/search": self._search, "/extract": self._extract}
        if request.path not in answers:
            return to_json_response({"detail": "Not Found"}, status=404)
        if request.method != "POST":
            return to_json_response({"detail": "Method Not Allowed"}, status=405)
        try:
            body = request.parse_json()
        except ValueError:
            return _build_refusal(400, "The body is not JSON.")
        if not isinstance(body, dict):
            return _build_refusal(400, "The body must be an object.")
        return answers[request.path](key, body)

    def _search(self, key: str, body: Mapping[str, Any]) -> Response:
        query = body.get("query")
        if not isinstance(query, str) or not query.strip():
            return _build_refusal(400, "Query is missing.")
        if len(query) > MAX_QUERY_LENGTH:
            return _build_refusal(400, "Query is too long. Max query length is 400 characters.")
        depth, most = body.get("search_depth", "basic"), body.get("max_results", 5)
        if not isinstance(depth, str) or depth not in _DEPTHS:
            return _build_refusal(400, "Invalid search_depth.")
        if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most <= 20:
            return _build_refusal(400, "max_results must be between 0 and 20.")
        listed = _DEPTHS[depth]
        if not self._credits.can_pay(key, listed):
            return _build_refusal(432)
        cost = self._credits.charge(key, listed)
        self._search_by_need[key, "search"] += cost
        found = self._find_pages(query, body)[:most]
        result: dict[str, Json] = {
            "query": query,
            "follow_up_questions": None,
            "answer": None,
            "images": [],
            "results": [_to_result(page, place, body) for place, page in enumerate(found)],
            "response_time": round(0.3 + self._world.build_draws("time", query).draw_share(), 2),
            "request_id": to_uuid(query, depth),
        }
        if body.get("include_usage"):
            result["usage"] = {"credits": cost}
        return to_json_response(result)

    def _find_pages(self, query: str, body: Mapping[str, Any]) -> list[SearchPage]:
        only, never = _to_names(body.get("include_domains")), _to_names(body.get("exclude_domains"))
        pages = find_pages(self._world, query, self._company_search.find_companies(query))
        if only:
            pages = [page for page in pages if _is_under(page.url, only)]
        return [page for page in pages if not _is_under(page.url, never)]

    def _extract(self, key: str, body: Mapping[str, Any]) -> Response:
        urls = body.get("urls")
        urls = [urls] if isinstance(urls, str) else urls
        if not isinstance(urls, list) or not urls or not all(isinstance(u, str) for u in urls):
            return _build_refusal(400, "urls is missing.")
        if len(urls) > MAX_URLS:
            return _build_refusal(400, f"Max {MAX_URLS} URLs are allowed.")
        depth = body.get("extract_depth", "basic")
        if depth not in ("basic", "advanced"):
            return _build_refusal(400, "Invalid extract_depth.")
        results: list[Json] = []
        failed: list[Json] = []
        for url in urls:
            text = find_page_text(self._world, url)
            if text is None:
                failed.append({"url": url, "error": "Failed to fetch url"})
            else:
                results.append({"url": url, "raw_content": text, "images": []})
        listed = -(-len(results) // 5) * _DEPTHS[depth]
        if not self._credits.can_pay(key, listed):
            return _build_refusal(432)
        cost = self._credits.charge(key, listed)
        self._search_by_need[key, "extract"] += cost
        result: dict[str, Json] = {
            "results": results,
            "failed_results": failed,
            "response_time": round(0.1 * len(urls), 2),
            "request_id": to_uuid(*urls),
        }
        if body.get("include_usage"):
            result["usage"] = {"credits": cost}
        return to_json_response(result)

    def _to_usage(self, key: str) -> Json:
        used = self._credits.get_used(key)
        limit = self._credits.get_limit(key, otherwise=_PLAN_LIMIT)
        split: dict[str, Json] = {
            "search_usage": self._search_by_need[key, "search"],
            "extract_usage": self._search_by_need[key, "extract"],
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


def _to_result(page: SearchPage, place: int, body: Mapping[str, Any]) -> Json:
    return {
        "url": page.url,
        "title": page.title,
        "content": page.snippet,
        "score": round(max(0.05, page.relevance - 0.011 * place), 5),
        "raw_content": page.text if body.get("include_raw_content") else None,
    }


def _to_names(value: Any) -> tuple[str, ...]:
    return tuple(str(one).lower() for one in value) if isinstance(value, list) else ()


def _is_under(url: str, domains: tuple[str, ...]) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def build_directory_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    def answer(request: Request) -> Response:
        if request.path == "/robots.txt":
            return to_text_response("User-agent: *\nDisallow: /search\n")
        if request.host != DIRECTORY:
            return to_page_response(
                "<!doctype html><title>News</title><p>Nothing in particular.</p>"
            )
        text = find_page_text(world, f"http://{request.host}{request.path}")
        if text is None:
            return to_page_response("<!doctype html><title>Not found</title>", status=404)
        lines = "".join(f"<p>{escape(line.lstrip('# '))}</p>" for line in text.split("\n\n"))
        return to_page_response(
            f"<!doctype html><title>Company profile</title><body>{lines}</body>"
        )

    return wrap_with_faults("directory", answer, seed=world.seed, dials=dials, meter=meter)


HOSTS = {
    "tavily.test": build_tavily_handler,
    "directory.test": build_directory_handler,
    "news.test": build_directory_handler,
}
