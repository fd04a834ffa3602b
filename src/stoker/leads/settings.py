"""The settings of scores, which are the rule by which leads are scored."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.base.errors import ConfigError
from stoker.config.fields import (
    BOOLEAN,
    Section,
    number,
    tenant_setting,
)

_WEIGHT = number(0, 1000)


@dataclass(frozen=True, kw_only=True)
class ScoreRule(Section):
    """What counts for a lead, and when its score is good enough."""

    min_export: float = tenant_setting(
        number(0, 1),
        0.66,
        "The least score that becomes a lead.",
        "SCORE_MIN_EXPORT",
        "LEAD_THRESHOLD",
    )
    high_from: float = tenant_setting(number(0, 1), 0.66, "The least score that is called High.")
    medium_from: float = tenant_setting(
        number(0, 1), 0.40, "The least score that is called Medium."
    )
    industry_weight: float = tenant_setting(
        _WEIGHT, 0.20, "How much it counts that the industry is wanted."
    )
    size_weight: float = tenant_setting(_WEIGHT, 0.15, "How much it counts that the size fits.")
    reachable_weight: float = tenant_setting(
        _WEIGHT, 0.25, "How much an address that works counts."
    )
    decision_maker_weight: float = tenant_setting(
        _WEIGHT, 0.15, "How much a known decision maker counts."
    )
    presence_weight: float = tenant_setting(
        _WEIGHT, 0.15, "How much a site that says a lot counts."
    )
    momentum_weight: float = tenant_setting(_WEIGHT, 0.10, "How much hiring and growing count.")
    llm_rationale: bool = tenant_setting(
        BOOLEAN, False, "Whether OpenAI rewords rationales; it is paid once for equal features."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(self.weights.values()):
            raise ConfigError("weights are at least 0, and one of them is more")
        if self.medium_from > self.high_from:
            raise ConfigError("buckets begin between 0 and 1, Medium no later than High")

    @property
    def weights(self) -> dict[str, float]:
        """How much each feature counts, by its name."""
        return {
            "industry": self.industry_weight,
            "size": self.size_weight,
            "reachable": self.reachable_weight,
            "decision_maker": self.decision_maker_weight,
            "presence": self.presence_weight,
            "momentum": self.momentum_weight,
        }
