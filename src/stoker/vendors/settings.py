"""How each vendor is called: its address, rate, concurrency, and the units of a lookup.

One section per connector, with its name. Rates belong to a key, and so to the installation; the
units of a lookup are each tenant's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from stoker.config.fields import (
    SECRET,
    TEXT,
    Secret,
    Section,
    choice,
    integer,
    number,
    setting,
    tenant_setting,
)
from stoker.http.fields import BASE_URL
from stoker.rate_limits.rate_limit import Rate

_CALLS, _PER_S, _BURST = integer(1, 1_000_000), number(0.001, 86_400), integer(1, 1_000_000)

_CONCURRENCY, _UNITS = integer(1, 10_000), integer(1, 1000)

_CALLS_TEXT = "Calls allowed in per_s seconds, for all tenants together."

_PER_S_TEXT = "The seconds that `calls` refers to."

_BURST_TEXT = "Calls that may be made at once after a pause; later calls are slower for it."

_CONCURRENCY_TEXT = "Concurrent calls, for all tenants and workers together."

_URL_TEXT = "The address of its API; its key is sent only there."

_PRICE = number(0, 10_000)

EFFORTS = ("none", "minimal", "low", "medium", "high")


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


@dataclass(frozen=True, kw_only=True)
class LushaSettings(VendorSettings):
    """How Lusha is called. The smallest plans allow 40 calls a minute."""

    base_url: str = setting(BASE_URL, "https://api.lusha.com", _URL_TEXT)
    calls: int = setting(_CALLS, 40, _CALLS_TEXT)
    burst: int = setting(_BURST, 2, _BURST_TEXT)  # a company is asked about twice in a row
    concurrency: int = setting(_CONCURRENCY, 4, _CONCURRENCY_TEXT)


@dataclass(frozen=True, kw_only=True)
class ZeroBounceSettings(VendorSettings):
    """How ZeroBounce is called, in batches. Too many calls block us for ten minutes."""

    base_url: str = setting(BASE_URL, "https://api.zerobounce.net", _URL_TEXT)
    calls: int = setting(_CALLS, 5, _CALLS_TEXT)
    # Its minute and a little more: requests do not arrive as evenly as they are sent.
    per_s: float = setting(_PER_S, 63.0, _PER_S_TEXT)
    concurrency: int = setting(_CONCURRENCY, 2, _CONCURRENCY_TEXT)


@dataclass(frozen=True, kw_only=True)
class OdooSettings(VendorSettings):
    """How a tenant's own Odoo is called; each number is for one tenant."""

    own_key: ClassVar[bool] = True

    url: str | None = tenant_setting(
        BASE_URL,
        None,
        "The address of the tenant's Odoo; without it, nothing is exported.",
        "ODOO_URL",
    )
    database: str | None = tenant_setting(
        TEXT, None, "The name of the tenant's database.", "ODOO_DB"
    )
    login: str | None = tenant_setting(
        TEXT, None, "The user of the key; needed before version 19 only.", "ODOO_LOGIN"
    )
    protocol: str = tenant_setting(
        choice("auto", "json2", "xmlrpc"),
        "auto",
        "The protocol; auto asks the server for its version.",
    )

    calls: int = setting(_CALLS, 300, "Calls allowed in per_s seconds, for each tenant.")
    burst: int = setting(_BURST, 10, _BURST_TEXT)
    concurrency: int = setting(_CONCURRENCY, 4, "Concurrent calls, for each tenant.")


@dataclass(frozen=True, kw_only=True)
class DataGovSettings(VendorSettings):
    """How data.gov.sg is searched: 4 times in 10 seconds without a key."""

    base_url: str = setting(
        BASE_URL, "https://api-production.data.gov.sg", "The address of its catalogue."
    )
    calls: int = setting(_CALLS, 4, _CALLS_TEXT)
    per_s: float = setting(_PER_S, 10.0, _PER_S_TEXT)
    concurrency: int = setting(_CONCURRENCY, 2, _CONCURRENCY_TEXT)


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


@dataclass(frozen=True, kw_only=True)
class KeySettings(Section):
    """The vendors' keys. Each is optional; without one, that vendor is not called."""

    openai: Secret | None = tenant_setting(SECRET, None, "OpenAI's key.", "OPENAI_API_KEY")
    tavily: Secret | None = tenant_setting(SECRET, None, "Tavily's key.", "TAVILY_API_KEY")
    lusha: Secret | None = tenant_setting(SECRET, None, "Lusha's key.", "LUSHA_API_KEY")
    zerobounce: Secret | None = tenant_setting(
        SECRET, None, "ZeroBounce's key.", "ZEROBOUNCE_API_KEY"
    )
    odoo: Secret | None = tenant_setting(
        SECRET, None, "The key of a tenant's Odoo.", "ODOO_API_KEY"
    )
    webhook: Secret | None = tenant_setting(
        SECRET,
        None,
        "The secret that signs deliveries to a tenant's webhook; 16 characters or more.",
    )
    datagov: Secret | None = setting(
        SECRET, None, "data.gov.sg's key; it only allows more.", "DATA_GOV_SG_API_KEY"
    )
