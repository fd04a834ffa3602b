"""The settings of heat: factors, tiers, and how often accounts of each tier change.

Every setting but the sweep's can differ between tenants.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from stoker.base.errors import ConfigError
from stoker.config.fields import (
    Section,
    days,
    hours,
    integer,
    minutes,
    number,
    setting,
    tenant_setting,
)

MAX_SIGNALS = 8  # times of an account's last signals; no promotion can ask for more

_HOURS_PER_MONTH = 24 * 31


@dataclass(frozen=True, kw_only=True)
class HeatRule(Section):
    """The weights of the factors, and how fast signals fade."""

    posture_weight: float = tenant_setting(number(0, 1000), 0.5, "What fitting well counts for.")
    recency_weight: float = tenant_setting(number(0, 1000), 0.3, "What a recent signal counts for.")
    volume_weight: float = tenant_setting(number(0, 1000), 0.2, "What many signals count for.")
    half_life: timedelta = tenant_setting(
        hours(0.1, 87_600),
        timedelta(hours=168),
        "Hours after which a signal counts half.",
        key="half_life_hours",
    )
    volume_scale: float = tenant_setting(
        number(0.001, 1_000_000), 3.0, "So many fresh signals are half of all volume there can be."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = (self.posture_weight, self.recency_weight, self.volume_weight)
        if sum(weights) < 1e-6:
            raise ConfigError(f"weights are 0 or more and not all of them 0, not {weights}")


@dataclass(frozen=True, kw_only=True)
class TierRule(Section):
    """When an account is HOT, WARM or COLD, and how often each tier is looked up."""

    hot_from: float = tenant_setting(number(0, 1), 0.7, "A score of at least this is HOT.")
    warm_from: float = tenant_setting(number(0, 1), 0.4, "A score of at least this is WARM.")
    hot_signals: int = tenant_setting(
        integer(1, MAX_SIGNALS), 2, "So many signals make an account HOT."
    )
    hot_within: timedelta = tenant_setting(
        hours(0.01, _HOURS_PER_MONTH),
        timedelta(hours=1),
        "The hours within which these signals come.",
        key="hot_within_hours",
    )
    warm_signals: int = tenant_setting(
        integer(1, MAX_SIGNALS), 1, "So many signals make an account WARM."
    )
    warm_within: timedelta = tenant_setting(
        hours(0.01, _HOURS_PER_MONTH),
        timedelta(hours=6),
        "The hours within which these signals come.",
        key="warm_within_hours",
    )
    hot_cooldown: timedelta = tenant_setting(
        hours(0, _HOURS_PER_MONTH),
        timedelta(hours=4),
        "Hours a HOT account stays so after its score has fallen.",
        key="hot_cooldown_hours",
    )
    warm_cooldown: timedelta = tenant_setting(
        hours(0, _HOURS_PER_MONTH),
        timedelta(hours=24),
        "Hours a WARM account stays so after its score has fallen.",
        key="warm_cooldown_hours",
    )
    cold_cooldown: timedelta = tenant_setting(
        hours(0, _HOURS_PER_MONTH),
        timedelta(hours=48),
        "Hours before looks at a COLD account grow rare.",
        key="cold_cooldown_hours",
    )
    hot_every: timedelta = tenant_setting(
        hours(0.01, 87_600),
        timedelta(hours=1),
        "Hours between looks at HOT ones.",
        key="hot_every_hours",
    )
    warm_every: timedelta = tenant_setting(
        hours(0.01, 87_600),
        timedelta(hours=6),
        "Hours between looks at WARM ones.",
        key="warm_every_hours",
    )
    cold_every: timedelta = tenant_setting(
        days(0.001, 3650),
        timedelta(days=3),
        "Days between looks at COLD ones, at least.",
        key="cold_every_days",
    )
    coldest_every: timedelta = tenant_setting(
        days(0.001, 3650),
        timedelta(days=7),
        "Days between looks at COLD ones, at most.",
        key="coldest_every_days",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_from > self.hot_from:
            raise ConfigError(
                f"HOT begins where WARM does or above, not {self.warm_from!r} and {self.hot_from!r}"
            )
        every = [self.hot_every, self.warm_every, self.cold_every, self.coldest_every]
        if every != sorted(every):
            raise ConfigError("a colder tier's looks are no closer than a hotter's")


@dataclass(frozen=True, kw_only=True)
class ChangeRateRule(Section):
    """The prior of each tier, and how fast evidence fades. Part of the section `pulls`."""

    hot_changes_every: timedelta = tenant_setting(
        days(0.01, 36_600),
        timedelta(days=2),
        "Days between changes of a HOT account, before it was seen.",
        key="hot_changes_days",
    )
    warm_changes_every: timedelta = tenant_setting(
        days(0.01, 36_600),
        timedelta(days=7),
        "Days between changes of a WARM account, before it was seen.",
        key="warm_changes_days",
    )
    cold_changes_every: timedelta = tenant_setting(
        days(0.01, 36_600),
        timedelta(days=20),
        "Days between changes of a COLD account, before it was seen.",
        key="cold_changes_days",
    )
    # Half a change: accounts of one tier differ so much that the prior should give way to the
    # first lookup that contradicts it.
    weight: float = tenant_setting(
        number(0.01, 1000),
        0.5,
        "So many changes seen count as much as what was believed before.",
        key="prior_weight",
    )
    half_life: timedelta = tenant_setting(
        days(0.1, 36_600),
        timedelta(days=90),
        "Days after which half of what lookups have shown is forgotten.",
        key="forget_days",
    )


# The fields of the last base come first, as people read about them.
@dataclass(frozen=True, kw_only=True)
class HeatSettings(TierRule, HeatRule):
    """How hot an account is, which tier that makes, and what each tier is promised."""

    sweep_every: timedelta = setting(
        minutes(1, 43_200, whole=True),
        timedelta(hours=1),
        "Minutes between two sweeps, which recompute every heat.",
        key="sweep_minutes",
    )
