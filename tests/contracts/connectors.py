"""Every connector, ready to ask the sandbox. A new one joins the suite with one line below."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from stoker.connectors.crawling import CrawlConnector, Crawler, SiteQuestion
from stoker.connectors.http import Http
from stoker.connectors.lusha import LushaCompanies, LushaPeople, LushaReveal, lusha
from stoker.connectors.openai import OpenAiExtraction, openai
from stoker.connectors.site_visiting import CrawlLimits
from stoker.connectors.tavily import TavilyReading, TavilySearch, tavily
from stoker.connectors.zerobounce import ZeroBounce
from stoker.core.contacting import CompanyAt, PeopleAt, Reveal
from stoker.core.extracting import Excerpt, Extraction
from stoker.core.searching import ReadPages, Search, SearchDepth
from stoker.core.verifying_emails import Batch
from stoker.engine.politeness import OwnHosts
from stoker.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.sandbox.world import World
from stoker.testing import FakeClock

DEADLINE = timedelta(seconds=0.4)
USUAL: Mapping[int, type[Exception]] = {
    301: ConfigError,
    400: PermanentError,
    401: ConfigError,
    404: PermanentError,
    408: TransientError,
    409: PermanentError,
    422: PermanentError,
    429: TransientError,
    500: UncertainError,
    502: UncertainError,
    503: TransientError,
    504: UncertainError,
}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A connector, questions it can answer, and what its vendor's statuses mean."""

    vendor: str  # as the sandbox calls it
    make: Callable[[Http, str], Any]  # with this key
    questions: Callable[[World], list[Any]]
    failures: Mapping[int, type[Exception]] = field(default_factory=dict)
    raises: bool = True  # False: whatever happens is an answer
    unit: str = "credits"  # in which the vendor charges
    most: int = 10_000  # of any unit, for one call; more is a mistake in a price list
    tells_charges: bool = True  # what it costs is the vendor's own word


def _tavily(kind: Any) -> Callable[[Http, str], Any]:
    at = {"base_url": "http://tavily.test", "deadline": DEADLINE}
    return lambda http, key: kind(tavily(http, key=key, **at))


def _lusha(kind: Any) -> Callable[[Http, str], Any]:
    at = {"base_url": "http://lusha.test", "deadline": DEADLINE}
    return lambda http, key: kind(lusha(http, key=key, **at))


def _zerobounce(http: Http, key: str) -> Any:
    return ZeroBounce(http, key=key, base_url="http://zerobounce.test", deadline=DEADLINE)


def _openai(http: Http, key: str) -> Any:
    own = key.replace("tvly-", "sk-")  # its keys look like this
    vendor = openai(http, key=own, base_url="http://openai.test", deadline=DEADLINE)
    return OpenAiExtraction(vendor, model="gpt-5.6-luna")


def _crawl(http: Http, key: str) -> Any:
    clock = FakeClock()
    limits = CrawlLimits(request=DEADLINE, site=2 * DEADLINE)
    crawler = Crawler(
        http, pacer=OwnHosts(clock=clock), clock=clock, user_agent="Stoker test", limits=limits
    )
    return CrawlConnector(crawler)


_TAVILY = {**USUAL, 403: ConfigError, 432: ConfigError, 433: ConfigError}
_LUSHA = {
    **USUAL,
    402: ConfigError,
    403: ConfigError,
    412: PermanentError,
    451: PermanentError,
    499: UncertainError,
}

CONNECTORS: dict[str, Subject] = {
    "tavily search": Subject(
        vendor="tavily",
        make=_tavily(TavilySearch),
        questions=lambda world: [
            Search(query=world.company(1).name),
            Search(query=world.company(2).name, depth=SearchDepth.ADVANCED, most=20),
        ],
        failures=_TAVILY,
    ),
    "tavily reading": Subject(
        vendor="tavily",
        make=_tavily(TavilyReading),
        questions=lambda world: [
            ReadPages(urls=tuple(f"http://{world.company(n).domain}/" for n in range(number)))
            for number in (1, 5, 6, 20)
        ],
        failures=_TAVILY,
    ),
    "lusha people": Subject(
        vendor="lusha",
        make=_lusha(LushaPeople),
        questions=lambda world: [
            PeopleAt(domain=world.company(1).domain),
            PeopleAt(domain=world.company(2).domain, most=100),
            PeopleAt(domain="nobody-lives-here.test"),
        ],
        failures=_LUSHA,
    ),
    "lusha reveal": Subject(
        vendor="lusha",
        make=_lusha(LushaReveal),
        questions=lambda world: [
            Reveal(ids=("ct-1-0",)),
            Reveal(ids=tuple(f"ct-{n}-0" for n in range(100))),
            Reveal(ids=("nobody",)),
        ],
        failures=_LUSHA,
    ),
    "lusha companies": Subject(
        vendor="lusha",
        make=_lusha(LushaCompanies),
        questions=lambda world: [
            CompanyAt(domain=world.company(1).domain),
            CompanyAt(domain="nobody-lives-here.test"),
        ],
        failures=_LUSHA,
    ),
    "zerobounce": Subject(
        vendor="zerobounce",
        make=_zerobounce,
        questions=lambda world: [
            Batch(emails=("someone@nobody.com",)),
            Batch(emails=tuple(f"someone{n}@nobody.com" for n in range(100))),
        ],
        # It calls a key it does not know a bad request.
        failures={**USUAL, 400: ConfigError, 402: ConfigError, 403: TransientError},
        tells_charges=False,
    ),
    "openai": Subject(
        vendor="openai",
        make=_openai,
        questions=lambda world: [
            Extraction(
                domain=world.company(1).domain,
                excerpts=(Excerpt(url="http://a.test/", text=f"We are {world.company(1).name}."),),
            )
        ],
        failures={**USUAL, 403: ConfigError, 404: ConfigError, 409: TransientError},
        unit="tokens",
        most=1_000_000,
    ),
    "crawl": Subject(
        vendor="sites",
        make=_crawl,
        questions=lambda world: [SiteQuestion(url=world.company(n).domain) for n in (1, 2)],
        failures=dict.fromkeys(USUAL, Exception),
        raises=False,
    ),
}
