"""Every vendor: its settings, and one row that says what it needs and what a lookup will take.

A vendor is what goes over the network, paid for or not; its client prices each call. To add one,
write its client, its section and row here, and its part of the sandbox; settings, keys, caps,
checks, forecasts and the sandbox follow from the row. Clients are named and not imported: reading
settings needs this table, and most commands need no vendor. A section's `calls`, `burst` and
`concurrency` belong to a key, and so to the installation; the units of a lookup are each tenant's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from stoker.base.errors import ConfigError
from stoker.base.types import COMPANIES_PER_NIGHT, Step
from stoker.config.fields import (
    BOOLEAN,
    SECRET,
    TEXT,
    Secret,
    Section,
    choice,
    integer,
    number,
    setting,
    tenant_setting,
    texts,
)
from stoker.http.fields import BASE_URL, OWN_URL
from stoker.rate_limits.rate_limit import Rate

if TYPE_CHECKING:
    from stoker.budgets.model import Health
    from stoker.context import TenantContext
    from stoker.settings import Settings

_CALLS, _PER_S, _BURST = integer(1, 1_000_000), number(0.001, 86_400), integer(1, 1_000_000)

_CONCURRENCY, _UNITS = integer(1, 10_000), integer(1, 1000)

_CALLS_TEXT = "Calls allowed in per_s seconds, for all tenants together."

_PER_S_TEXT = "The seconds that `calls` refers to."

_BURST_TEXT = "Calls that may be made at once after a pause; later calls are slower for it."

_CONCURRENCY_TEXT = "Concurrent calls, for all tenants and workers together."

_URL_TEXT = "The address of its API; its key is sent only there."

_PRICE, _CAP = number(0, 10_000), integer(0, 1_000_000_000)

MAPPED_FACTS = (  # what odoo.map can put into a field of its own
    "legal_name", "ssic", "industry", "employees", "founded", "social", "about", "address",
    "verdict",
)  # fmt: skip

_MAPPED = re.compile(rf"({'|'.join(MAPPED_FACTS)}) ?= ?([a-z][a-z0-9_]{{1,62}})")


def _parse_mapped(text: str) -> str:
    if (found := _MAPPED.fullmatch(text)) is None:
        raise ValueError(text)
    return f"{found[1]}={found[2]}"


EFFORTS = ("none", "minimal", "low", "medium", "high")


def _cap(name: str, default: int, text: str, *env: str) -> Any:
    """Return the field of a vendor's daily limit, which people set in the table of caps."""
    return tenant_setting(_CAP, default, text, *env, key=f"caps.{name}")


def _run_cap(name: str, text: str) -> Any:
    """Return the field of a vendor's limit for one run; without it only the day's limit binds."""
    return tenant_setting(_CAP, None, text, key=f"caps.{name}")


@dataclass(frozen=True, kw_only=True)
class VendorSettings(Section):
    """How one vendor is called."""

    own_key: ClassVar[bool] = False  # each tenant calls with a key of its own

    calls: int = setting(_CALLS, 60, _CALLS_TEXT)
    per_s: float = setting(_PER_S, 60.0, _PER_S_TEXT)
    burst: int = setting(_BURST, 1, _BURST_TEXT)
    share: float = setting(
        number(0.001, 1), 1.0, "The share of the vendor's quota that Stoker may use."
    )
    concurrency: int = setting(_CONCURRENCY, 8, _CONCURRENCY_TEXT)
    shallow_units: int | None = tenant_setting(
        _UNITS, None, "Pull units of a shallow lookup; pulls.shallow_units, if not set."
    )
    deep_units: int | None = tenant_setting(
        _UNITS, None, "Pull units of a deep lookup; pulls.deep_units, if not set."
    )

    def to_rate(self) -> Rate:
        """Return how fast calls may go. Raises ConfigError when the numbers contradict."""
        per = timedelta(seconds=self.per_s)
        return Rate(calls=self.calls, per=per, burst=self.burst, share=self.share)


@dataclass(frozen=True, kw_only=True)
class TavilySettings(VendorSettings):
    """How Tavily is called. A development key allows 100 calls a minute."""

    base_url: str = setting(BASE_URL, "https://api.tavily.com", _URL_TEXT)
    calls: int = setting(_CALLS, 100, _CALLS_TEXT)
    burst: int = setting(_BURST, 5, _BURST_TEXT)
    key: Secret | None = tenant_setting(
        SECRET, None, "Tavily's key.", "TAVILY_API_KEY", key="keys.tavily"
    )
    daily_calls: int = _cap(
        "tavily_queries",
        COMPANIES_PER_NIGHT,
        "Tavily calls a day, searches and pages read.",
        "TAVILY_MAX_QUERIES",
    )
    run_calls: int | None = _run_cap(
        "tavily_queries_per_run", "Tavily calls in one run; not limited, if not set."
    )
    daily_credits: int = _cap(
        "tavily_credits",
        COMPANIES_PER_NIGHT,
        "Tavily credits a day; a search costs one, a deeper one two.",
    )


@dataclass(frozen=True, kw_only=True)
class OpenAiSettings(VendorSettings):
    """How OpenAI is called, by which model, and what that costs in USD."""

    base_url: str = setting(BASE_URL, "https://api.openai.com", _URL_TEXT)
    # Companies come several at a time; without a burst, slots that no call waits for are lost.
    burst: int = setting(_BURST, 8, _BURST_TEXT)
    model: str = setting(TEXT, "gpt-5.6-luna", "The model that reads pages; set its prices below.")
    effort: str = setting(
        choice(*EFFORTS),
        "low",
        "The model's reasoning effort; reasoning tokens are charged.",
    )
    max_output_tokens: int = setting(
        integer(100, 100_000),
        4000,
        "The maximum number of tokens in one answer, reasoning included.",
    )
    input_price: float = setting(_PRICE, 0.20, "USD per million input tokens.")
    cached_price: float = setting(_PRICE, 0.02, "USD per million cached input tokens.")
    output_price: float = setting(_PRICE, 1.20, "USD per million output tokens.")
    key: Secret | None = tenant_setting(
        SECRET, None, "OpenAI's key.", "OPENAI_API_KEY", key="keys.openai"
    )
    daily_tokens: int = _cap(
        "openai_daily_tokens",
        2_500 * COMPANIES_PER_NIGHT,
        "OpenAI tokens a day.",
        "OPENAI_DAILY_TOKENS_CAP",
    )
    run_tokens: int | None = _run_cap(
        "openai_tokens_per_run", "OpenAI tokens in one run; not limited, if not set."
    )
    daily_calls: int = _cap("openai_calls", 2 * COMPANIES_PER_NIGHT, "OpenAI calls a day.")


@dataclass(frozen=True, kw_only=True)
class LushaSettings(VendorSettings):
    """How Lusha is called. The smallest plans allow 40 calls a minute."""

    base_url: str = setting(BASE_URL, "https://api.lusha.com", _URL_TEXT)
    calls: int = setting(_CALLS, 40, _CALLS_TEXT)
    burst: int = setting(_BURST, 2, _BURST_TEXT)  # a company is asked about twice in a row
    concurrency: int = setting(_CONCURRENCY, 4, _CONCURRENCY_TEXT)
    key: Secret | None = tenant_setting(
        SECRET, None, "Lusha's key.", "LUSHA_API_KEY", key="keys.lusha"
    )
    daily_calls: int = _cap(
        "lusha_contact_lookups",
        COMPANIES_PER_NIGHT,
        "Lusha lookups a day.",
        "LUSHA_MAX_CONTACT_LOOKUPS",
    )
    run_calls: int | None = _run_cap(
        "lusha_contact_lookups_per_run", "Lusha lookups in one run; not limited, if not set."
    )
    daily_credits: int = _cap(
        "lusha_credits",
        2 * COMPANIES_PER_NIGHT,
        "Lusha credits a day; a search for people costs one, each address one.",
    )


@dataclass(frozen=True, kw_only=True)
class ZeroBounceSettings(VendorSettings):
    """How ZeroBounce is called, in batches. Too many calls block us for ten minutes."""

    base_url: str = setting(BASE_URL, "https://api.zerobounce.net", _URL_TEXT)
    calls: int = setting(_CALLS, 5, _CALLS_TEXT)
    # Its minute and a little more: requests do not arrive as evenly as they are sent.
    per_s: float = setting(_PER_S, 63.0, _PER_S_TEXT)
    concurrency: int = setting(_CONCURRENCY, 2, _CONCURRENCY_TEXT)
    key: Secret | None = tenant_setting(
        SECRET, None, "ZeroBounce's key.", "ZEROBOUNCE_API_KEY", key="keys.zerobounce"
    )
    daily_calls: int = _cap(
        "zerobounce_verifications",
        3 * COMPANIES_PER_NIGHT,
        "ZeroBounce checks a day.",
        "ZEROBOUNCE_MAX_VERIFICATIONS",
    )
    run_calls: int | None = _run_cap(
        "zerobounce_verifications_per_run", "ZeroBounce checks in one run; not limited, if not set."
    )
    daily_credits: int = _cap(
        "zerobounce_credits",
        3 * COMPANIES_PER_NIGHT,
        "ZeroBounce credits a day; an address costs one at most.",
    )


@dataclass(frozen=True, kw_only=True)
class OdooSettings(VendorSettings):
    """How a tenant's own Odoo is called; each number is for one tenant."""

    own_key: ClassVar[bool] = True

    url: str | None = tenant_setting(
        OWN_URL,
        None,
        "The address of the tenant's Odoo; without it, nothing is exported.",
        "ODOO_URL",
    )
    database: str | None = tenant_setting(
        TEXT, None, "The name of the tenant's database.", "ODOO_DB"
    )
    allow_private: bool = tenant_setting(
        BOOLEAN,
        False,
        "Whether the tenant's Odoo may be in a private network or on this machine: then http:// "
        "and any port are allowed for its address, and for nothing else.",
    )
    login: str | None = tenant_setting(
        TEXT, None, "The user of the key; needed before version 19 only.", "ODOO_LOGIN"
    )
    protocol: str = tenant_setting(
        choice("auto", "json2", "xmlrpc"),
        "auto",
        "The protocol; auto asks the server for its version.",
    )

    send: str = tenant_setting(
        choice("leads", "fitting", "all"),
        "fitting",
        "Which companies go into the CRM: those with a lead, those that fit the ICP, or all.",
    )
    emails: str = tenant_setting(
        choice("valid", "valid+catch_all", "all"),
        "valid+catch_all",
        "Which addresses go into the CRM, by their verdict. `all` includes those never verified, "
        "and leaves out invalid ones.",
    )
    lead_type: str = tenant_setting(
        choice("auto", "lead", "opportunity"),
        "auto",
        "What a lead is created as; auto: as new ones are in that Odoo.",
    )
    salesperson: str | None = tenant_setting(
        TEXT, None, "The login of the user who gets new leads; not set: they are unassigned."
    )
    team: str | None = tenant_setting(
        TEXT, None, "The sales team of new leads; not set: the default one there."
    )
    tags: tuple[str, ...] = tenant_setting(
        texts("names", "names separated by commas"),
        (),
        "Tags of companies and of new leads; those that are not there are created.",
    )
    source: str | None = tenant_setting(
        TEXT, None, "The source of new leads, as marketing reports name it; created if needed."
    )
    vat: bool = tenant_setting(
        BOOLEAN, False, "Whether a company's number is also written as its tax number."
    )
    map: tuple[str, ...] = tenant_setting(
        texts(
            "fact=field pairs",
            "pairs such as employees=x_size, separated by commas; facts: "
            f"{', '.join(MAPPED_FACTS)}",
            _parse_mapped,
        ),
        (),
        "Fields of your own for facts that otherwise are in notes alone. `verdict` is a contact's, "
        "the others are a company's.",
    )

    calls: int = setting(_CALLS, 300, "Calls allowed in per_s seconds, for each tenant.")
    burst: int = setting(_BURST, 10, _BURST_TEXT)
    concurrency: int = setting(_CONCURRENCY, 4, "Concurrent calls, for each tenant.")
    key: Secret | None = tenant_setting(
        SECRET, None, "The key of a tenant's Odoo.", "ODOO_API_KEY", key="keys.odoo"
    )


@dataclass(frozen=True, kw_only=True)
class DataGovSettings(VendorSettings):
    """How data.gov.sg is searched: 4 times in 10 seconds without a key."""

    base_url: str = setting(
        BASE_URL, "https://api-production.data.gov.sg", "The address of its catalogue."
    )
    calls: int = setting(_CALLS, 4, _CALLS_TEXT)
    per_s: float = setting(_PER_S, 10.0, _PER_S_TEXT)
    concurrency: int = setting(_CONCURRENCY, 2, _CONCURRENCY_TEXT)
    key: Secret | None = setting(
        SECRET,
        None,
        "data.gov.sg's key; it only allows more.",
        "DATA_GOV_SG_API_KEY",
        key="keys.datagov",
    )


@dataclass(frozen=True, kw_only=True)
class DataGovDownloadsSettings(VendorSettings):
    """How files of data.gov.sg are downloaded: 2 in 10 seconds without a key."""

    base_url: str = setting(
        BASE_URL, "https://api-open.data.gov.sg", "The address that starts downloads."
    )
    calls: int = setting(_CALLS, 2, _CALLS_TEXT)
    per_s: float = setting(_PER_S, 10.0, _PER_S_TEXT)
    concurrency: int = setting(_CONCURRENCY, 2, _CONCURRENCY_TEXT)


@dataclass(frozen=True, kw_only=True)
class BoardsSettings(VendorSettings):
    """How job boards are read, and where they are. None needs a key."""

    greenhouse_url: str = setting(
        BASE_URL, "https://boards-api.greenhouse.io", "The address of Greenhouse."
    )
    lever_url: str = setting(BASE_URL, "https://api.lever.co", "The address of Lever.")
    ashby_url: str = setting(BASE_URL, "https://api.ashbyhq.com", "The address of Ashby.")


REPEAT_SHARE = 0.1  # of what a first lookup asks; the rest was answered before


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorNeed:
    """What one lookup is expected to need from one vendor, close to what the sandbox uses."""

    connector: str
    calls: float  # on average per company; 0.3: three companies in ten need one
    cost: Mapping[str, float] = field(default_factory=dict)  # per call, by unit
    # What a call is reserved at, where that is more than it costs: an answer at its longest. As
    # long as less is free, the vendor is not asked.
    reserved: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 1.0  # a company waits for one call
    spread: float = 0.5  # standard deviation of that wait, as a part of it
    batch_size: int = 1  # how many of them go together in one; a batch takes many
    # Of these calls, the part that a repeated lookup makes, before it is known.
    repeat_share: float = REPEAT_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor, by the name that settings, caps and stops call it."""

    name: str
    client: str  # module:function, which builds it from a tenant's context
    sections: Mapping[str, type[VendorSettings]] = field(default_factory=dict)  # by their names
    needs: tuple[str, ...] = ()  # the settings without which it is off
    is_paid: bool = False
    caps: Mapping[str, str] = field(default_factory=dict)  # by unit, the setting of a daily limit
    run_caps: Mapping[str, str] = field(default_factory=dict)  # the same of a limit for one run
    step: Step | None = None  # of a lookup, in which it is asked
    need: VendorNeed | None = None  # of a lookup with that step
    # The settings that say where it goes, and where in the sandbox each leads.
    addresses: Mapping[str, str] = field(default_factory=dict)
    sandbox: str = ""  # the module whose HOSTS answer there
    key: str = ""  # the setting of a key that the sandbox replaces
    sandbox_key: str | None = None  # by which; None: none is needed there


_ROWS = (
    Vendor(
        name="crawl",
        client="stoker.crawl.service:build_crawl_connector",
        step=Step.CRAWL,
        need=VendorNeed(connector="crawl", calls=0.9, seconds=4.0, spread=1.0),
    ),
    Vendor(
        name="tavily",
        client="stoker.vendors.tavily:build_search",
        sections={"tavily": TavilySettings},
        needs=("keys.tavily",),
        is_paid=True,
        caps={"calls": "caps.tavily_queries", "credits": "caps.tavily_credits"},
        run_caps={"calls": "caps.tavily_queries_per_run"},
        step=Step.EXTRACT,
        # A search each, and for two companies in five the best pages read, where sites say nothing.
        need=VendorNeed(
            connector="tavily", calls=1.4, cost={"calls": 1, "credits": 1}, seconds=1.5
        ),
        addresses={"tavily.base_url": "http://tavily.test"},
        sandbox="stoker.sandbox.vendors.tavily",
        key="keys.tavily",
        sandbox_key="tvly-sandbox",
    ),
    Vendor(
        name="openai",
        client="stoker.vendors.openai:build_extractor",
        sections={"openai": OpenAiSettings},
        needs=("keys.openai",),
        is_paid=True,
        caps={"calls": "caps.openai_calls", "tokens": "caps.openai_daily_tokens"},
        run_caps={"tokens": "caps.openai_tokens_per_run"},
        step=Step.EXTRACT,
        # A call costs about a tenth of a cent, and is reserved at a whole one.
        need=VendorNeed(
            connector="openai",
            calls=1.0,
            cost={"calls": 1, "money:USD": 0.1, "tokens": 2_000},
            reserved={"money:USD": 1, "tokens": 6_000},
            seconds=6.0,
        ),
        addresses={"openai.base_url": "http://openai.test"},
        sandbox="stoker.sandbox.vendors.openai",
        key="keys.openai",
        sandbox_key="sk-sandbox",
    ),
    Vendor(
        name="lusha",
        client="stoker.vendors.lusha:build_people",
        sections={"lusha": LushaSettings},
        needs=("keys.lusha",),
        is_paid=True,
        caps={"calls": "caps.lusha_contact_lookups", "credits": "caps.lusha_credits"},
        run_caps={"calls": "caps.lusha_contact_lookups_per_run"},
        step=Step.CONTACTS,
        # Asked where a site shows no person's address: who works there, then two addresses.
        need=VendorNeed(connector="lusha", calls=0.55, cost={"calls": 1, "credits": 1.4}),
        addresses={"lusha.base_url": "http://lusha.test"},
        sandbox="stoker.sandbox.vendors.lusha",
        key="keys.lusha",
        sandbox_key="lusha-sandbox",
    ),
    Vendor(
        name="zerobounce",
        client="stoker.vendors.zerobounce:build_verifier",
        sections={"zerobounce": ZeroBounceSettings},
        needs=("keys.zerobounce",),
        is_paid=True,
        caps={"calls": "caps.zerobounce_verifications", "credits": "caps.zerobounce_credits"},
        run_caps={"calls": "caps.zerobounce_verifications_per_run"},
        step=Step.VERIFY,
        # Two addresses of a company; a hundred go in one call. A company that waits for a verdict
        # holds no worker slot, so waiting takes the run no time. A company with more than three
        # addresses has the rest verified when it is looked up again.
        need=VendorNeed(
            connector="zerobounce",
            repeat_share=0.3,
            calls=2.0,
            cost={"calls": 100, "credits": 100},
            seconds=0.0,
            batch_size=100,
        ),
        addresses={"zerobounce.base_url": "http://zerobounce.test"},
        sandbox="stoker.sandbox.vendors.zerobounce",
        key="keys.zerobounce",
        sandbox_key="zerobounce-sandbox",
    ),
    Vendor(
        name="odoo",
        client="stoker.crm.checks:ConnectedCrm",
        sections={"odoo": OdooSettings},
        needs=("odoo.url", "odoo.database", "keys.odoo"),
        addresses={"odoo.url": "http://odoo.test"},
        sandbox="stoker.sandbox.vendors.odoo.server",
    ),
    Vendor(
        name="datagov",
        client="stoker.registry.download:get_portal",
        sections={"datagov": DataGovSettings, "datagov_downloads": DataGovDownloadsSettings},
        addresses={
            "datagov.base_url": "http://data-gov.test",
            "datagov_downloads.base_url": "http://data-gov.test",
        },
        sandbox="stoker.sandbox.vendors.data_gov",
        key="keys.datagov",
    ),
    Vendor(
        name="boards",
        client="stoker.discovery.service:build_all_boards",
        sections={"boards": BoardsSettings},
        addresses={
            "boards.greenhouse_url": "http://greenhouse.test",
            "boards.lever_url": "http://lever.test",
            "boards.ashby_url": "http://ashby.test",
        },
        sandbox="stoker.sandbox.vendors.boards",
    ),
)

VENDORS: Mapping[str, Vendor] = MappingProxyType({row.name: row for row in _ROWS})

PAID_VENDORS = tuple(row.name for row in _ROWS if row.is_paid)

VENDOR_SECTIONS: Mapping[str, type[VendorSettings]] = MappingProxyType(
    {name: section for row in _ROWS for name, section in row.sections.items()}
)
"""The sections of vendors by name: each has a rate of its own."""

VENDOR_STEPS: Mapping[str, Step] = MappingProxyType(
    {row.name: row.step for row in _ROWS if row.step is not None}
)
"""The vendors a lookup asks, in this order, and in which step."""


class _Checkable(Protocol):
    async def check(self) -> Health: ...


def get_off_reason(own: Settings, name: str) -> str:
    """Say why a tenant's settings leave a vendor off; empty when it is on.

    Raises ConfigError when there is no such vendor.
    """
    if name not in VENDORS:
        raise ConfigError(f"there is no connector {name[:40]!r}; there are: {', '.join(VENDORS)}")
    return own.format_missing(key for key in VENDORS[name].needs if own.get_value(key) is None)


async def find_off_reason(tenant: TenantContext, name: str) -> str:
    """Say the same, also by where the tenant's CRM is connected."""
    reason = get_off_reason(tenant.settings, name)
    if name != "odoo" or not reason:
        return reason
    connection = await tenant.store.setup.find_connection()
    if connection is None or not connection.active:
        return reason
    key = "keys.odoo"
    return tenant.settings.format_missing([] if tenant.settings.get_value(key) else [key])


def list_paid_vendors(own: Settings) -> list[str]:
    """Return the paid vendors that a tenant's settings switch on."""
    return [name for name in PAID_VENDORS if not get_off_reason(own, name)]


def list_addresses(own: Settings, name: str) -> list[str]:
    """Return where a tenant's settings send a vendor's calls, each address once."""
    urls = [own.get_value(key) for key in VENDORS[name].addresses]
    return list(dict.fromkeys(url for url in urls if url))


def get_key(tenant: TenantContext, name: str) -> str:
    """Return a tenant's key for a vendor. Raises ConfigError when the vendor is off."""
    if reason := get_off_reason(tenant.settings, name):
        raise ConfigError(f"{name} is off for {tenant.id}: {reason}")
    key: Secret = tenant.settings.get_value(f"keys.{name}")
    return key.reveal()


async def check_vendor(tenant: TenantContext, name: str) -> Health:
    """Find out at no cost how a vendor is. Never raises for what a vendor does."""
    from stoker.budgets.model import Health

    if reason := await find_off_reason(tenant, name):
        return Health(ok=False, detail=f"it is off: {reason}")
    module, _, function = VENDORS[name].client.partition(":")
    try:
        client: _Checkable = getattr(import_module(module), function)(tenant)
        return await client.check()
    except ConfigError as error:
        return Health(ok=False, detail=str(error))
