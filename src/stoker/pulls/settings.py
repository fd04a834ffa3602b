"""The settings of pulls: how lookups are chosen, and what they count.

Every setting can differ between tenants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from stoker.base.errors import ConfigError
from stoker.base.formats import format_duration
from stoker.base.types import DEEP_AGAIN, DEEP_UNITS, SHALLOW_UNITS
from stoker.config.fields import (
    BOOLEAN,
    Section,
    days,
    hours,
    integer,
    member,
    number,
    tenant_setting,
    zero_as_none,
)
from stoker.heat.settings import ChangeRateRule, TierRule


class Policy(StrEnum):
    """How lookups are chosen."""

    OPTIMAL = "optimal"  # what they are worth, by what was learned
    TIERS = "tiers"  # the table of tiers, by heat


class Objective(StrEnum):
    """What stale data costs."""

    HARMONIC = "harmonic"
    FRESHNESS = "freshness"


@dataclass(frozen=True, kw_only=True)
class PullRule(Section):
    """Every number of a plan that does not belong to one account."""

    shallow_units: int = tenant_setting(
        integer(1, 1000), SHALLOW_UNITS, "Pull units of a shallow lookup."
    )
    deep_units: int = tenant_setting(integer(1, 1000), DEEP_UNITS, "Pull units of a deep lookup.")
    policy: Policy = tenant_setting(
        member(Policy),
        Policy.OPTIMAL,
        "How accounts are selected: by estimated value and change rate, or by tier alone.",
    )
    objective: Objective = tenant_setting(
        member(Objective),
        Objective.HARMONIC,
        "What stale data costs: each further missed change a little less, or all the same.",
    )
    scheduled: bool = tenant_setting(
        BOOLEAN, False, "Whether `schedule run` also runs pulls, every tick_hours."
    )
    tick: timedelta = tenant_setting(
        hours(0.02, 720),
        timedelta(hours=24),
        "Hours from one plan to the next.",
        key="tick_hours",
    )
    floor: timedelta | None = tenant_setting(
        zero_as_none(days(0, 36_600)),
        timedelta(days=60),
        "The maximum wait of an account, in days; 0 sets no limit.",
        key="floor_days",
    )
    floor_share: float = tenant_setting(
        number(0, 0.5), 0.2, "The share of any cap that overdue accounts may use at most."
    )
    signal_changes: float = tenant_setting(
        number(0, 1000), 1.0, "How many changes a signal counts as, as a sign of staleness."
    )
    value_spread: float = tenant_setting(
        number(1, 1000),
        3.0,
        "What the 84th of 100 accounts by posture is worth, the 50th being 1.",
    )
    deep_share: float = tenant_setting(
        number(0, 0.95), 0.4, "The share of an account's value that only deep lookups refresh."
    )
    learn_yields: bool = tenant_setting(
        BOOLEAN, True, "Whether what lookups brought changes what accounts are worth."
    )
    deep_again: timedelta = tenant_setting(
        days(0.02, 36_600),
        DEEP_AGAIN,
        "Days between deep lookups of accounts that are not HOT, under policy tiers.",
        key="deep_again_days",
    )
    tiers: TierRule = field(default_factory=TierRule)  # no setting of its own: section `heat`
    # False in plans of before: `tiers` took who was due, hottest first; never seen was overdue.
    by_age: bool = True
    floor_for_seen: bool = True
    use_chance: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor is not None and self.floor < self.tick:
            raise ConfigError(
                f"plans every {format_duration(self.tick)} cannot look up all accounts "
                f"every {format_duration(self.floor)}"
            )
        if self.deep_again < self.tick:
            raise ConfigError(
                f"deep lookups every {format_duration(self.deep_again)} outnumber the plans"
            )

    @property
    def share(self) -> int:
        """Return the floor's share in thousandths, as caps are shared out."""
        return round(self.floor_share * 1000) if self.floor is not None else 0


# The fields of the last base come first, as people read about them.
@dataclass(frozen=True, kw_only=True)
class PullSettings(ChangeRateRule, PullRule):
    """How lookups are selected when caps do not allow all, and what each costs."""
