"""What a tenant may use in a day: the limits of its default caps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time

from stoker.config.fields import (
    CURRENCY,
    LOCAL_TIME,
    Section,
    integer,
    tenant_setting,
)

_MAX_AMOUNT = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class CapSettings(Section):
    """What a tenant may use in a day, and when its day begins."""

    openai_daily_tokens: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 150_000, "OpenAI tokens a day.", "OPENAI_DAILY_TOKENS_CAP"
    )
    openai_calls: int = tenant_setting(integer(0, _MAX_AMOUNT), 2000, "OpenAI calls a day.")
    tavily_queries: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 800, "Tavily searches a day.", "TAVILY_MAX_QUERIES"
    )
    tavily_credits: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 1000, "Tavily credits a day; a search costs one, a deeper one two."
    )
    lusha_contact_lookups: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 500, "Lusha lookups a day.", "LUSHA_MAX_CONTACT_LOOKUPS"
    )
    lusha_credits: int = tenant_setting(
        integer(0, _MAX_AMOUNT),
        1000,
        "Lusha credits a day; a search for people costs one, each address one.",
    )
    zerobounce_verifications: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 1000, "ZeroBounce checks a day.", "ZEROBOUNCE_MAX_VERIFICATIONS"
    )
    zerobounce_credits: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 1000, "ZeroBounce credits a day; an address costs one at most."
    )
    pull_units_per_day: int = tenant_setting(
        integer(0, _MAX_AMOUNT), 300, "Pull units a day, over all connectors."
    )
    money_per_day_minor: int = tenant_setting(
        integer(0, _MAX_AMOUNT),
        1000,
        "Money a day, over all connectors, in minor units (1000: 10.00).",
    )
    currency: str = tenant_setting(CURRENCY, "USD", "The currency of money_per_day_minor.")
    reset_time: time = tenant_setting(
        LOCAL_TIME, time(0, 0), "When daily caps reset, in the tenant's time zone."
    )
