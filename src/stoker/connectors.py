"""This process's vendor clients, each built from settings when first used; which are off, and why.

All of them share one HTTP client, and so the same address checks. A vendor without its key is
off: a sentence for a caller who lists vendors, an error for one who uses it. What may be spent is
decided by budgets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stoker.base.clock import Clock
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.budgets.model import Health, Stop
from stoker.config.fields import Secret
from stoker.config.sandbox import is_sandbox_key
from stoker.http.fields import is_sandbox_url
from stoker.rate_limits.host_delays import HostPacer
from stoker.rate_limits.limiter import VendorLimits
from stoker.settings import FIELDS
from stoker.vendors.unpaid import UnpaidCalls

if TYPE_CHECKING:
    from stoker.crawl.service import CrawlConnector, Crawler
    from stoker.crm.odoo import Odoo
    from stoker.discovery.boards import AllBoards, Board
    from stoker.discovery.feeds import Feeds
    from stoker.http.api_client import VendorApi
    from stoker.http.client import HttpClient
    from stoker.leads.rationale import OpenAiRationales
    from stoker.registry.download import DataGov
    from stoker.settings import Settings
    from stoker.vendors.lusha import LushaPeople, LushaReveal
    from stoker.vendors.openai import OpenAiExtraction, Prices
    from stoker.vendors.tavily import TavilyPageReader, TavilySearch
    from stoker.vendors.zerobounce import ZeroBounce

NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "crawl": (),
        "tavily": ("keys.tavily",),
        "openai": ("keys.openai",),
        "lusha": ("keys.lusha",),
        "zerobounce": ("keys.zerobounce",),
        "odoo": ("odoo.url", "odoo.database", "keys.odoo"),
        "datagov": (),
        "boards": (),
    }
)
"""Every connector there is, and the settings without which it is off."""

ADDRESSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "crawl": (),
        "tavily": ("tavily.base_url",),
        "openai": ("openai.base_url",),
        "lusha": ("lusha.base_url",),
        "zerobounce": ("zerobounce.base_url",),
        "odoo": ("odoo.url",),
        "datagov": ("datagov.base_url", "datagov_downloads.base_url"),
        "boards": ("boards.greenhouse_url", "boards.lever_url", "boards.ashby_url"),
    }
)
"""Which settings say where a connector goes; the crawler goes wherever it is sent."""


def get_off_reason(own: Settings, name: str) -> str:
    """Say why a tenant's settings leave a connector off; empty when it is on.

    Raises ConfigError when there is no such connector.
    """
    if name not in NEEDS:
        raise ConfigError(f"there is no connector {name[:40]!r}; there are: {', '.join(NEEDS)}")
    return format_missing_settings([key for key in NEEDS[name] if own.get_value(key) is None])


def list_addresses(own: Settings, name: str) -> list[str]:
    """Return where a tenant's settings send a connector, each address once."""
    said = [own.get_value(key) for key in ADDRESSES[name]]
    return list(dict.fromkeys(url for url in said if url))


def format_missing_settings(keys: Sequence[str]) -> str:
    """Say which settings are missing, and their names in the environment; empty when none is."""
    if not keys:
        return ""
    names = ", ".join(f"{key} ({FIELDS[key].env[0]})" for key in keys)
    return f"{names} {'is' if len(keys) == 1 else 'are'} not set"


SPARE_CONNECTIONS = 100  # for vendors, while sites take as many as are read at once

_MadeT = TypeVar("_MadeT")


class _Checkable(Protocol):
    async def check(self) -> Health: ...


class VendorFactory:
    """The connectors of one process, as an async context manager.

    `stops` tells what is stopped for a tenant. Paid calls are stopped at the gate; what passes no
    gate and writes, the CRM, asks here before every request.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        hosts: HostPacer,
        traffic: VendorLimits,
        clock: Clock,
        stops: Callable[[TenantId], Awaitable[Sequence[Stop]]],
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._traffic = traffic
        self._clock = clock
        self._turns = UnpaidCalls(traffic, hosts=hosts, clock=clock, stops=stops)
        self._made: dict[tuple[str, TenantId | None], Any] = {}
        self._http: HttpClient | None = None

    def http(self) -> HttpClient:
        """Return the client everything goes through."""
        if self._http is None:
            from stoker.http.client import HttpClient

            said = self._settings
            self._http = HttpClient(
                user_agent=said.crawl.user_agent,
                sandbox=said.sandbox.address,
                connections=said.crawl.concurrency + SPARE_CONNECTIONS,
            )
        return self._http

    async def __aenter__(self) -> VendorFactory:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()

    def get_off_reason(self, name: str, tenant: TenantId) -> str:
        """Say why a connector is off for a tenant; empty when it is on. Raises ConfigError."""
        return get_off_reason(self._get_tenant_settings(tenant), name)

    def list_addresses(self, name: str, tenant: TenantId) -> list[str]:
        """Return where a connector goes, as settings say, each once; none where nobody said."""
        return list_addresses(self._get_tenant_settings(tenant), name)

    async def check_vendor(self, name: str, tenant: TenantId) -> Health:
        """Find out at no cost how a connector is. Never raises for what a vendor does."""
        if because := self.get_off_reason(name, tenant):
            return Health(ok=False, detail=f"it is off: {because}")
        checks: dict[str, Callable[[], _Checkable]] = {
            "crawl": lambda: self.crawl(tenant),
            "tavily": lambda: self.search(tenant),
            "openai": lambda: self.extractor(tenant),
            "lusha": lambda: self.people(tenant),
            "zerobounce": lambda: self.verifier(tenant),
            "odoo": lambda: self.crm(tenant, despite_stops=True),
            "datagov": self.portal,
            "boards": lambda: self.boards(tenant),
        }
        try:
            return await checks[name]().check()
        except ConfigError as error:
            return Health(ok=False, detail=str(error))

    def crawler(self, *, max_pages: int | None = None) -> Crawler:
        """Return what visits sites: one for everybody, so that robots.txt files are read once."""
        from stoker.crawl.service import Crawler
        from stoker.crawl.visit import CrawlLimits

        crawl = self._settings.crawl

        def made(pages: int) -> Crawler:
            return Crawler(
                self.http(),
                pacer=self._hosts,
                clock=self._clock,
                user_agent=crawl.user_agent,
                limits=CrawlLimits(pages=pages, request=timedelta(seconds=crawl.timeout_s)),
                gap=timedelta(seconds=crawl.gap_s),
            )

        if max_pages is not None and max_pages != crawl.max_pages:
            return made(max_pages)
        return self._get_cached("crawler", None, lambda: made(crawl.max_pages))

    def crawl(
        self, tenant: TenantId, *, deep: bool = False, max_pages: int | None = None
    ) -> CrawlConnector:
        """Return looks at sites, at what they count for this tenant."""
        from stoker.crawl.service import CrawlConnector

        units = self._get_tenant_settings(tenant).get_pull_units("crawl", deep=deep)
        return CrawlConnector(self.crawler(max_pages=max_pages), units=units)

    def search(self, tenant: TenantId) -> TavilySearch:
        """Return the web search. Raises ConfigError when it is off, as all below do."""
        from stoker.vendors.tavily import TavilySearch

        return TavilySearch(self._tavily(tenant))

    def reading(self, tenant: TenantId) -> TavilyPageReader:
        """Return what reads pages that do not let us in."""
        from stoker.vendors.tavily import TavilyPageReader

        return TavilyPageReader(self._tavily(tenant))

    def people(self, tenant: TenantId) -> LushaPeople:
        """Return what finds people at a company."""
        from stoker.vendors.lusha import LushaPeople

        return LushaPeople(self._lusha(tenant))

    def reveal(self, tenant: TenantId) -> LushaReveal:
        """Return what reveals addresses of people."""
        from stoker.vendors.lusha import LushaReveal

        return LushaReveal(self._lusha(tenant))

    def verifier(self, tenant: TenantId) -> ZeroBounce:
        """Return what verifies addresses."""
        from stoker.vendors.zerobounce import ZeroBounce

        own = self._get_enabled_settings("zerobounce", tenant)
        return self._get_cached(
            "zerobounce",
            tenant,
            lambda: ZeroBounce(
                self.http(),
                key=_reveal_secret(own.keys.zerobounce),
                base_url=own.zerobounce.base_url,
            ),
        )

    def extractor(self, tenant: TenantId) -> OpenAiExtraction:
        """Return the model that makes facts of pages."""
        from stoker.vendors.openai import OpenAiExtraction

        own = self._get_enabled_settings("openai", tenant)
        return self._get_cached(
            "openai facts",
            tenant,
            lambda: OpenAiExtraction(
                self._openai(tenant),
                model=own.openai.model,
                effort=own.openai.effort,
                max_output_tokens=own.openai.max_output_tokens,
                prices=_build_prices(own),
            ),
        )

    def rationales(self, tenant: TenantId) -> OpenAiRationales | None:
        """Return the model that words rationales; None for a tenant that did not ask for one."""
        from stoker.leads.rationale import OpenAiRationales

        own = self._get_enabled_settings("openai", tenant)
        if not own.score.llm_rationale:
            return None
        return OpenAiRationales(
            self._openai(tenant),
            model=own.openai.model,
            effort=own.openai.effort,
            prices=_build_prices(own),
        )

    def crm(
        self,
        tenant: TenantId,
        *,
        url: str = "",
        database: str = "",
        despite_stops: bool = False,
    ) -> Odoo:
        """Return a tenant's Odoo: at the place given, or else where settings say.

        A stop ends what is sent there, except by a person who looks or takes something back.
        """
        from stoker.crm.odoo import Odoo

        own = self._get_tenant_settings(tenant)
        key, said = own.keys.odoo, own.odoo
        url, database = url or said.url or "", database or said.database or ""
        there = {"odoo.url": url, "odoo.database": database, "keys.odoo": key}
        if because := format_missing_settings([name for name, value in there.items() if not value]):
            raise ConfigError(f"odoo is off for {tenant}: {because}")
        if is_sandbox_url(url) and not is_sandbox_key(key):
            raise ConfigError(
                f"{url} is make-believe, and {tenant}'s key of Odoo may be real: it stays here"
            )
        return self._get_cached(
            f"odoo {url} {database} {despite_stops}",
            tenant,
            lambda: Odoo(
                self.http(),
                url=url,
                database=database,
                key=_reveal_secret(key),
                login=said.login or "",
                protocol="" if said.protocol == "auto" else said.protocol,
                turn=self._turns.for_vendor("odoo", tenant, despite_stops=despite_stops),
            ),
        )

    def portal(self) -> DataGov:
        """Return where the register is published, at the pace it allows."""
        from stoker.registry.download import DataGov

        key = self._settings.keys.datagov
        lists, downloads = self._settings.datagov, self._settings.datagov_downloads
        return self._get_cached(
            "datagov",
            None,
            lambda: DataGov(
                self.http(),
                clock=self._clock,
                lists=self._traffic.get_rate_limiter("datagov"),
                downloads=self._traffic.get_rate_limiter("datagov_downloads"),
                list_url=lists.base_url,
                download_url=downloads.base_url,
                key=None if key is None else key.reveal(),
            ),
        )

    def board(self, vendor: str, tenant: TenantId, *, despite_stops: bool = False) -> Board:
        """Return what reads a vendor's boards: greenhouse, lever or ashby."""
        from stoker.discovery.boards import BOARD_APIS, Board

        return Board(
            self.http(),
            BOARD_APIS[vendor],
            base_url=self._settings.get_value(f"boards.{vendor}_url"),
            turn=self._turns.for_hosts("boards", tenant, despite_stops=despite_stops),
        )

    def feeds(self, tenant: TenantId) -> Feeds:
        """Return what reads feeds of postings, wherever they are, as gently as sites are read."""
        from stoker.discovery.feeds import Feeds

        gap = timedelta(seconds=self._settings.crawl.gap_s)
        return Feeds(self.http(), turn=self._turns.for_hosts("boards", tenant, gap=gap))

    def boards(self, tenant: TenantId) -> AllBoards:
        """Return all boards, to see whether they are there."""
        from stoker.discovery.boards import AllBoards

        vendors = ("greenhouse", "lever", "ashby")
        return AllBoards([self.board(each, tenant, despite_stops=True) for each in vendors])

    def _tavily(self, tenant: TenantId) -> VendorApi:
        from stoker.vendors.tavily import build_tavily_api

        own = self._get_enabled_settings("tavily", tenant)
        key, url = own.keys.tavily, own.tavily.base_url
        return self._get_cached(
            "tavily",
            tenant,
            lambda: build_tavily_api(self.http(), key=_reveal_secret(key), base_url=url),
        )

    def _lusha(self, tenant: TenantId) -> VendorApi:
        from stoker.vendors.lusha import build_lusha_api

        own = self._get_enabled_settings("lusha", tenant)
        key, url = own.keys.lusha, own.lusha.base_url
        return self._get_cached(
            "lusha",
            tenant,
            lambda: build_lusha_api(self.http(), key=_reveal_secret(key), base_url=url),
        )

    def _openai(self, tenant: TenantId) -> VendorApi:
        from stoker.vendors.openai import build_openai_api

        own = self._get_enabled_settings("openai", tenant)
        key, url = own.keys.openai, own.openai.base_url
        return self._get_cached(
            "openai",
            tenant,
            lambda: build_openai_api(self.http(), key=_reveal_secret(key), base_url=url),
        )

    def _get_enabled_settings(self, name: str, tenant: TenantId) -> Settings:
        """Return what is in force for a tenant, if that switches a connector on."""
        if because := self.get_off_reason(name, tenant):
            raise ConfigError(f"{name} is off for {tenant}: {because}")
        return self._get_tenant_settings(tenant)

    def _get_tenant_settings(self, tenant: TenantId) -> Settings:
        return self._get_cached("settings", tenant, lambda: self._settings.for_tenant(tenant))

    def _get_cached(self, name: str, tenant: TenantId | None, make: Callable[[], _MadeT]) -> _MadeT:
        if (name, tenant) not in self._made:
            self._made[name, tenant] = make()
        made: _MadeT = self._made[name, tenant]
        return made


def _reveal_secret(key: Secret | None) -> str:
    return "" if key is None else key.reveal()


def _build_prices(own: Settings) -> Prices | None:
    from stoker.vendors.openai import Prices

    if own.caps.currency != "USD":
        return None  # money in another currency than its cap's could not be promised
    said = own.openai
    return Prices(
        input=_to_decimal(said.input_price),
        cached=_to_decimal(said.cached_price),
        output=_to_decimal(said.output_price),
    )


def _to_decimal(price: float) -> Decimal:
    return Decimal(str(price))
