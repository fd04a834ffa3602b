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

    posture_weight: float = tenant_setting(
        number(0, 1000), 0.5, "Weight of posture: how well the account matches."
    )
    recency_weight: float = tenant_setting(number(0, 1000), 0.3, "Weight of recent signals.")
    volume_weight: float = tenant_setting(number(0, 1000), 0.2, "Weight of many signals.")
    half_life: timedelta = tenant_setting(
        hours(0.1, 87_600),
        timedelta(hours=168),
        "Hours after which a signal counts half.",
        key="half_life_hours",
    )
    volume_scale: float = tenant_setting(
        number(0.001, 1_000_000),
        3.0,
        "The number of fresh signals that gives half of the maximum volume.",
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
        integer(1, MAX_SIGNALS), 2, "The number of signals that makes an account HOT."
    )
    hot_within: timedelta = tenant_setting(
        hours(0.01, _HOURS_PER_MONTH),
        timedelta(hours=1),
        "The hours within which these signals come.",
        key="hot_within_hours",
    )
    warm_signals: int = tenant_setting(
        integer(1, MAX_SIGNALS), 1, "The number of signals that makes an account WARM."
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
        "Hours before lookups of a COLD account become less frequent.",
        key="cold_cooldown_hours",
    )
    hot_every: timedelta = tenant_setting(
        hours(0.01, 87_600),
        timedelta(hours=24),
        "Hours between lookups of HOT accounts.",
        key="hot_every_hours",
    )
    warm_every: timedelta = tenant_setting(
        hours(0.01, 87_600),
        timedelta(hours=72),
        "Hours between lookups of WARM accounts.",
        key="warm_every_hours",
    )
    cold_every: timedelta = tenant_setting(
        days(0.001, 3650),
        timedelta(days=7),
        "The minimum number of days between lookups of COLD accounts.",
        key="cold_every_days",
    )
    coldest_every: timedelta = tenant_setting(
        days(0.001, 3650),
        timedelta(days=7),
        "The maximum number of days between lookups of COLD accounts.",
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
            raise ConfigError("a colder tier must not be looked up more often than a hotter one")


@dataclass(frozen=True, kw_only=True)
class ChangeRateRule(Section):
    """The prior of each tier, and how fast evidence fades. Part of the section `pulls`."""

    hot_changes_every: timedelta = tenant_setting(
        days(0.01, 36_600),
        timedelta(days=2),
        "Days between changes of a HOT account, before any was observed.",
        key="hot_changes_days",
    )
    warm_changes_every: timedelta = tenant_setting(
        days(0.01, 36_600),
        timedelta(days=7),
        "Days between changes of a WARM account, before any was observed.",
        key="warm_changes_days",
    )
    cold_changes_every: timedelta = tenant_setting(
        days(0.01, 36_600),
        timedelta(days=20),
        "Days between changes of a COLD account, before any was observed.",
        key="cold_changes_days",
    )
    # Half a change: accounts of one tier differ so much that the prior should give way to the
    # first lookup that contradicts it.
    weight: float = tenant_setting(
        number(0.01, 1000),
        0.5,
        "The number of observed changes that counts as much as the prior.",
        key="prior_weight",
    )
    half_life: timedelta = tenant_setting(
        days(0.1, 36_600),
        timedelta(days=90),
        "Days after which the evidence of a lookup counts half.",
        key="forget_days",
    )


# The fields of the last base come first, as people read about them.
@dataclass(frozen=True, kw_only=True)
class HeatSettings(TierRule, HeatRule):
    """How hot an account is, its tier, and how often each tier is looked up."""

    sweep_every: timedelta = setting(
        minutes(1, 43_200, whole=True),
        timedelta(hours=1),
        "Minutes between two sweeps, which recompute all heat.",
        key="sweep_minutes",
    )
    history: timedelta = tenant_setting(
        days(0, 3650),
        timedelta(days=90),
        "Days for which `heat history` keeps each account's daily heat.",
        key="history_days",
    )
