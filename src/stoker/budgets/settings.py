"""What a tenant may use in a day over all vendors; a vendor's own limits are in its section."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time

from stoker.base.types import COMPANIES_PER_NIGHT
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

    pull_units_per_day: int = tenant_setting(
        integer(0, _MAX_AMOUNT),
        3 * COMPANIES_PER_NIGHT,
        "Pull units a day, over all connectors. A deep lookup takes three.",
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
