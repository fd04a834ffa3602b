"""Every connector, ready to ask the sandbox. A new one joins the suite with one line below."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId, CompanyRecord
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.budgets.model import Health, Paid
from stoker.crawl.model import Excerpt, VisitRequest
from stoker.crawl.service import CrawlConnector, Crawler
from stoker.crawl.visit import CrawlLimits
from stoker.crm.model import PARTNER, CrmRow, RowWrite
from stoker.crm.odoo import Odoo
from stoker.crm.odoo_protocols import OdooRightError
from stoker.discovery.boards import BOARD_APIS, CONNECTOR, Board, BoardApi
from stoker.discovery.feeds import Feeds
from stoker.http.client import HttpClient
from stoker.leads.rationale import OpenAiRationales, build_rationale_query
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.rate_limits.rate_limit import LocalRateLimiter, Rate
from stoker.registry.download import DataGov
from stoker.sandbox.world.companies import World
from stoker.testing import FakeClock
from stoker.vendors.extraction import ExtractionQuery
from stoker.vendors.lusha import LushaPeople, LushaReveal, PeopleQuery, RevealQuery, build_lusha_api
from stoker.vendors.openai import OpenAiExtraction, OpenAiModel, build_openai_api
from stoker.vendors.tavily import (
    PageTextsQuery,
    SearchDepth,
    SearchQuery,
    TavilyPageReader,
    TavilySearch,
    build_tavily_api,
)
from stoker.vendors.zerobounce import EmailBatch, ZeroBounce

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
    make: Callable[[HttpClient, str], Any]  # with this key
    questions: Callable[[World], list[Any]]
    failures: Mapping[int, type[Exception]] = field(default_factory=dict)
    raises: bool = True  # False: whatever happens is an answer
    unit: str = "credits"  # in which the vendor charges
    most: int = 10_000  # of any unit, for one call; more is a mistake in a price list
    tells_charges: bool = True  # what it costs is the vendor's own word
    called: str = ""  # as its failures call it; as the sandbox does when empty
    repeatable: bool = False  # doing it twice is doing it once: a lost answer may be asked again
    takes_any_key: bool = False  # the vendor says nothing against a wrong one
    public: bool = False  # there is nothing of ours there: a check says only whether it answers
    in_part: bool = False  # what came before a break is an answer too

    @property
    def host(self) -> str:
        """Where the sandbox has it."""
        return f"{self.vendor.replace('_', '-')}.test"


class Free:
    """A connector that costs nothing, asked in the way of those that do: work is its question."""

    def __init__(self, name: str, vendor: Any) -> None:
        self.name, self._vendor = name, vendor

    def price(self, question: Any) -> Mapping[str, int]:
        return {"calls": 1}

    async def ask(self, question: Callable[[Any], Awaitable[Any]], *, key: str) -> Paid[Any]:
        return Paid(answer=await question(self._vendor), cost={"calls": 1})

    async def check(self) -> Health:
        health: Health = await self._vendor.check()
        return health


def _tavily(kind: Any) -> Callable[[HttpClient, str], Any]:
    at = {"base_url": "http://tavily.test", "deadline": DEADLINE}
    return lambda http, key: kind(build_tavily_api(http, key=key, **at))


def _lusha(kind: Any) -> Callable[[HttpClient, str], Any]:
    at = {"base_url": "http://lusha.test", "deadline": DEADLINE}
    return lambda http, key: kind(build_lusha_api(http, key=key, **at))


def _zerobounce(http: HttpClient, key: str) -> Any:
    return ZeroBounce(http, key=key, base_url="http://zerobounce.test", deadline=DEADLINE)


def _openai(kind: Any) -> Callable[[HttpClient, str], Any]:
    at = {"base_url": "http://openai.test", "deadline": DEADLINE}

    def made(http: HttpClient, key: str) -> Any:
        own = key.replace("tvly-", "sk-")  # its keys look like this
        return kind(build_openai_api(http, key=own, **at), model="gpt-5.6-luna")

    return made


def _crawl(http: HttpClient, key: str) -> Any:
    clock = FakeClock()
    limits = CrawlLimits(request=DEADLINE, site=2 * DEADLINE)
    crawler = Crawler(
        http,
        pacer=LocalHostPacer(clock=clock),
        clock=clock,
        user_agent="Stoker test",
        limits=limits,
    )
    return CrawlConnector(crawler)


def _odoo(protocol: str) -> Callable[[HttpClient, str], Any]:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    def made(http: HttpClient, key: str) -> Free:
        crm = Odoo(
            http,
            url="http://odoo.test",
            database="acme",
            key=f"odoo-acme-{key}",
            login="stoker",
            protocol=protocol,
            deadline=DEADLINE,
            chance=lambda: 0.5,
            sleep=at_once,
        )
        return Free(crm.name, crm)

    return made


async def _searched(crm: Odoo) -> Any:
    return await crm.search("crm.stage", [], fields=["name"])


async def _upserted(crm: Odoo) -> Any:
    """Write a row; what became of it is raised where it was not written."""
    row = CrmRow(model=PARTNER, external_id="stoker.acme_one", values={"name": "One"})
    write = RowWrite(row=row, cells=row.values, digest="", before={}, intent={})
    (told,) = (await crm.upsert([write])).values()
    if told.id is None:
        raise (TransientError if told.is_retryable else PermanentError)(told.reason)
    return told.id


def _data_gov(http: HttpClient, key: str) -> Any:
    clock, url = FakeClock(), "http://data-gov.test"
    pace = LocalRateLimiter(Rate(calls=2, per=timedelta(seconds=10)), clock=clock)
    at = {"list_url": url, "download_url": url, "deadline": DEADLINE, "attempts": 2}
    return Free("datagov", DataGov(http, clock=clock, lists=pace, downloads=pace, key=key, **at))


async def _listed(portal: DataGov) -> Any:
    return await portal.list_files()


async def _downloaded(portal: DataGov) -> Any:
    with tempfile.TemporaryDirectory() as kept:
        await portal.download((await portal.list_files())[0], to=Path(kept) / "file.csv")


def _board(layout: BoardApi) -> Callable[[HttpClient, str], Any]:
    at = {"base_url": f"http://{layout.name}.test", "deadline": DEADLINE}
    return lambda http, key: Free(CONNECTOR, Board(http, layout, **at))


def _boards_of(vendor: str) -> Callable[[World], list[Any]]:
    def asked(world: World) -> list[Any]:
        there = [each for n in range(150) if (each := world.get_company(n)).board == vendor]
        return [_read_postings(each.slug, company=each.brand) for each in there[:3]]

    return asked


def _read_postings(address: str, **how: str) -> Callable[[Any], Awaitable[Any]]:
    return lambda reader: reader.read_postings(address, **how)


# What a lost answer is where it is safe to ask again.
_AGAIN = {status: TransientError for status, kind in USUAL.items() if kind is UncertainError}
_TAVILY = {**USUAL, 403: ConfigError, 432: ConfigError, 433: ConfigError}
_LUSHA = {
    **USUAL,
    402: ConfigError,
    403: ConfigError,
    412: PermanentError,
    451: PermanentError,
    499: UncertainError,
}
_OPENAI = {**USUAL, 403: ConfigError, 404: ConfigError, 409: TransientError}

CONNECTORS: dict[str, Subject] = {
    "tavily search": Subject(
        vendor="tavily",
        make=_tavily(TavilySearch),
        questions=lambda world: [
            SearchQuery(query=world.get_company(1).name),
            SearchQuery(query=world.get_company(2).name, depth=SearchDepth.ADVANCED, most=20),
        ],
        failures=_TAVILY,
    ),
    "tavily reading": Subject(
        vendor="tavily",
        make=_tavily(TavilyPageReader),
        questions=lambda world: [
            PageTextsQuery(
                urls=tuple(f"http://{world.get_company(n).domain}/" for n in range(number))
            )
            for number in (1, 5, 6, 20)
        ],
        failures=_TAVILY,
    ),
    "lusha people": Subject(
        vendor="lusha",
        make=_lusha(LushaPeople),
        questions=lambda world: [
            PeopleQuery(domain=world.get_company(1).domain),
            PeopleQuery(domain=world.get_company(2).domain, most=100),
            PeopleQuery(domain="nobody-lives-here.test"),
        ],
        failures=_LUSHA,
    ),
    "lusha reveal": Subject(
        vendor="lusha",
        make=_lusha(LushaReveal),
        questions=lambda world: [
            RevealQuery(ids=("ct-1-0",)),
            RevealQuery(ids=tuple(f"ct-{n}-0" for n in range(100))),
            RevealQuery(ids=("nobody",)),
        ],
        failures=_LUSHA,
    ),
    "zerobounce": Subject(
        vendor="zerobounce",
        make=_zerobounce,
        questions=lambda world: [
            EmailBatch(emails=("someone@nobody.com",)),
            EmailBatch(emails=tuple(f"someone{n}@nobody.com" for n in range(100))),
        ],
        # It calls a key it does not know a bad request.
        failures={**USUAL, 400: ConfigError, 402: ConfigError, 403: TransientError},
        tells_charges=False,
    ),
    "openai": Subject(
        vendor="openai",
        make=_openai(lambda api, model: OpenAiExtraction(OpenAiModel(api, model=model))),
        questions=lambda world: [
            ExtractionQuery(
                domain=world.get_company(1).domain,
                excerpts=(
                    Excerpt(url="http://a.test/", text=f"We are {world.get_company(1).name}."),
                ),
            )
        ],
        failures=_OPENAI,
        unit="tokens",
        most=1_000_000,
    ),
    "openai rationales": Subject(
        vendor="openai",
        make=_openai(OpenAiRationales),
        questions=lambda world: [
            build_rationale_query(score_lead(CompanyRecord(company=each), IcpRule()), ScoreRule())
            for each in (
                Company(id=CompanyId("a"), name=world.get_company(1).name),
                Company(id=CompanyId("b"), name="B", ssic="62011", employees=5, website="b.test"),
            )
        ],
        failures=_OPENAI,
        unit="tokens",
    ),
    "odoo json2": Subject(
        vendor="odoo",
        make=_odoo("json2"),
        questions=lambda _: [_searched, _upserted],
        failures={**USUAL, **_AGAIN, 403: OdooRightError},
        unit="calls",
        tells_charges=False,
        repeatable=True,
    ),
    "odoo xmlrpc": Subject(
        vendor="odoo",
        make=_odoo("xmlrpc"),
        questions=lambda _: [_searched, _upserted],
        failures={**USUAL, **_AGAIN, 403: ConfigError, 404: ConfigError},
        unit="calls",
        tells_charges=False,
        repeatable=True,
    ),
    "odoo rows": Subject(
        vendor="odoo",
        make=_odoo("json2"),
        questions=lambda _: [_upserted],
        failures={**USUAL, **_AGAIN, 403: OdooRightError},
        unit="calls",
        tells_charges=False,
        repeatable=True,
    ),
    "data.gov.sg": Subject(
        vendor="data_gov",
        make=_data_gov,
        questions=lambda _: [_listed, _downloaded],
        failures={**USUAL, **_AGAIN, 403: ConfigError},
        unit="calls",
        tells_charges=False,
        called="data.gov.sg",
        repeatable=True,
        takes_any_key=True,
    ),
    **{
        layout.name: Subject(
            vendor=layout.name,
            make=_board(layout),
            questions=_boards_of(layout.name),
            failures={**USUAL, **_AGAIN, 401: PermanentError, 403: PermanentError},
            tells_charges=False,
            repeatable=True,
            takes_any_key=True,
            public=True,
        )
        for layout in BOARD_APIS.values()
    },
    "feeds": Subject(
        vendor="feeds",
        make=lambda http, key: Free(CONNECTOR, Feeds(http, deadline=DEADLINE)),
        questions=lambda world: [
            _read_postings(f"http://feeds.test/{world.get_company(n).slug}/jobs.{kind}")
            for n, kind in ((1, "rss"), (2, "atom"))
        ],
        failures={**USUAL, **_AGAIN, 401: PermanentError, 403: PermanentError},
        tells_charges=False,
        called="feeds.test",
        repeatable=True,
        takes_any_key=True,
        public=True,
        in_part=True,
    ),
    "crawl": Subject(
        vendor="sites",
        make=_crawl,
        questions=lambda world: [VisitRequest(url=world.get_company(n).domain) for n in (1, 2)],
        failures=dict.fromkeys(USUAL, Exception),
        raises=False,
    ),
}
