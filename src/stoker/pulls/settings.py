"""The settings of heat and pulls: factors, tiers, and how lookups are chosen.

Every setting can differ between tenants. The rule classes in `heat` and `pulls.columns` define what
the numbers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from stoker.config.fields import (
    BOOLEAN,
    choice,
    integer,
    number,
)
from stoker.config.fields import (
    setting as _is,
)
from stoker.config.fields import (
    tenant_setting as _each,
)

if TYPE_CHECKING:
    from stoker.heat.beliefs import ChangeRateRule
    from stoker.heat.heat import HeatRule
    from stoker.heat.tiers import TierRule
    from stoker.pulls.columns import PullRule

_HOURS_PER_MONTH = 24 * 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """How hot an account is, which tier that makes, and what each tier is promised."""

    posture_weight: float = _each(number(0, 1000), 0.5, "What fitting well counts for.")
    recency_weight: float = _each(number(0, 1000), 0.3, "What a recent signal counts for.")
    volume_weight: float = _each(number(0, 1000), 0.2, "What many signals count for.")
    half_life_hours: float = _each(
        number(0.1, 87_600), 168.0, "Hours after which a signal counts half."
    )
    volume_scale: float = _each(
        number(0.001, 1_000_000), 3.0, "So many fresh signals are half of all volume there can be."
    )
    hot_from: float = _each(number(0, 1), 0.7, "A score of at least this is HOT.")
    warm_from: float = _each(number(0, 1), 0.4, "A score of at least this is WARM.")
    hot_signals: int = _each(integer(1, 8), 2, "So many signals make an account HOT.")
    hot_within_hours: float = _each(
        number(0.01, _HOURS_PER_MONTH), 1.0, "The hours within which these signals come."
    )
    warm_signals: int = _each(integer(1, 8), 1, "So many signals make an account WARM.")
    warm_within_hours: float = _each(
        number(0.01, _HOURS_PER_MONTH), 6.0, "The hours within which these signals come."
    )
    hot_cooldown_hours: float = _each(
        number(0, _HOURS_PER_MONTH), 4.0, "Hours a HOT account stays so after its score has fallen."
    )
    warm_cooldown_hours: float = _each(
        number(0, _HOURS_PER_MONTH),
        24.0,
        "Hours a WARM account stays so after its score has fallen.",
    )
    cold_cooldown_hours: float = _each(
        number(0, _HOURS_PER_MONTH), 48.0, "Hours before looks at a COLD account grow rare."
    )
    hot_every_hours: float = _each(number(0.01, 87_600), 1.0, "Hours between looks at HOT ones.")
    warm_every_hours: float = _each(number(0.01, 87_600), 6.0, "Hours between looks at WARM ones.")
    cold_every_days: float = _each(
        number(0.001, 3650), 3.0, "Days between looks at COLD ones, at least."
    )
    coldest_every_days: float = _each(
        number(0.001, 3650), 7.0, "Days between looks at COLD ones, at most."
    )
    sweep_minutes: int = _is(
        integer(1, 43_200), 60, "Minutes between two sweeps, which recompute every heat."
    )

    def rule(self) -> HeatRule:
        """Return what heat is made of. Raises ConfigError when it contradicts itself."""
        from stoker.heat.heat import HeatRule

        return HeatRule(
            posture_weight=self.posture_weight,
            recency_weight=self.recency_weight,
            volume_weight=self.volume_weight,
            half_life=timedelta(hours=self.half_life_hours),
            volume_scale=self.volume_scale,
        )

    def tiers(self) -> TierRule:
        """Return the table of tiers. Raises ConfigError when it contradicts itself."""
        from stoker.heat.tiers import TierRule

        return TierRule(
            hot_from=self.hot_from,
            warm_from=self.warm_from,
            hot_signals=self.hot_signals,
            hot_within=timedelta(hours=self.hot_within_hours),
            warm_signals=self.warm_signals,
            warm_within=timedelta(hours=self.warm_within_hours),
            hot_cooldown=timedelta(hours=self.hot_cooldown_hours),
            warm_cooldown=timedelta(hours=self.warm_cooldown_hours),
            cold_cooldown=timedelta(hours=self.cold_cooldown_hours),
            hot_every=timedelta(hours=self.hot_every_hours),
            warm_every=timedelta(hours=self.warm_every_hours),
            cold_every=timedelta(days=self.cold_every_days),
            coldest_every=timedelta(days=self.coldest_every_days),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulls:
    """How looks are chosen when there is not room for all of them, and what they count."""

    shallow_units: int = _each(integer(1, 1000), 1, "Pull units of a shallow look.")
    deep_units: int = _each(integer(1, 1000), 3, "Pull units of a deep look.")
    policy: str = _each(
        choice("optimal", "tiers"),
        "optimal",
        "What looks are chosen by: what they are worth by all that was learned, or tiers alone.",
    )
    objective: str = _each(
        choice("harmonic", "freshness"),
        "harmonic",
        "What stale copies cost: every missed change a little less, or any of them the same.",
    )
    scheduled: bool = _each(
        BOOLEAN, False, "Whether `schedule run` makes pulls too, every tick_hours."
    )
    tick_hours: float = _each(number(0.02, 720), 24.0, "Hours from one plan to the next.")
    floor_days: float = _each(
        number(0, 36_600), 60.0, "The longest wait of an account, in days; 0 sets no limit."
    )
    floor_share: float = _each(
        number(0, 0.5), 0.2, "The part of any cap that this promise may take at most."
    )
    signal_changes: float = _each(
        number(0, 1000), 1.0, "A signal is as good a sign of staleness as so many changes."
    )
    value_spread: float = _each(
        number(1, 1000), 4.0, "How many times posture 1 is worth what posture 1/2 is worth."
    )
    deep_again_days: float = _each(
        number(0.02, 36_600), 30.0, "Days between deep looks at accounts that are not HOT."
    )
    hot_changes_days: float = _each(
        number(0.01, 36_600), 2.0, "Days between changes of a HOT account, before it was seen."
    )
    warm_changes_days: float = _each(
        number(0.01, 36_600), 7.0, "Days between changes of a WARM account, before it was seen."
    )
    cold_changes_days: float = _each(
        number(0.01, 36_600), 20.0, "Days between changes of a COLD account, before it was seen."
    )
    prior_weight: float = _each(
        number(0.01, 1000), 0.5, "So many changes seen count as much as what was believed before."
    )
    forget_days: float = _each(
        number(0.1, 36_600), 90.0, "Days after which half of what lookups have shown is forgotten."
    )

    def rule(self, *, tiers: TierRule) -> PullRule:
        """Return what a plan goes by. Raises ConfigError when it contradicts itself."""
        from stoker.pulls.columns import Policy, PullRule
        from stoker.pulls.worth import Objective

        return PullRule(
            policy=Policy(self.policy),
            objective=Objective(self.objective),
            tick=timedelta(hours=self.tick_hours),
            floor=timedelta(days=self.floor_days) if self.floor_days else None,
            floor_share=self.floor_share,
            signal_changes=self.signal_changes,
            value_spread=self.value_spread,
            deep_again=timedelta(days=self.deep_again_days),
            tiers=tiers,
        )

    def beliefs(self) -> ChangeRateRule:
        """Return what is believed before anything was seen, and how fast the rest fades."""
        from stoker.heat.beliefs import ChangeRateRule

        return ChangeRateRule(
            hot_changes_every=timedelta(days=self.hot_changes_days),
            warm_changes_every=timedelta(days=self.warm_changes_days),
            cold_changes_every=timedelta(days=self.cold_changes_days),
            weight=self.prior_weight,
            half_life=timedelta(days=self.forget_days),
        )
