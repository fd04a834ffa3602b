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
        0.45,
        "The minimum score of a lead.",
        "SCORE_MIN_EXPORT",
        "LEAD_THRESHOLD",
    )
    high_from: float = tenant_setting(
        number(0, 1),
        0.80,
        "The minimum score of the bucket High, which also needs a decision maker's valid address.",
    )
    medium_from: float = tenant_setting(
        number(0, 1), 0.45, "The minimum score of the bucket Medium."
    )
    industry_weight: float = tenant_setting(
        _WEIGHT, 0.0, "Weight of a matching industry; 0, because every candidate's matches."
    )
    size_weight: float = tenant_setting(
        _WEIGHT, 0.0, "Weight of a matching size; 0, because one that does not match is no lead."
    )
    reachable_weight: float = tenant_setting(
        _WEIGHT, 0.30, "Weight of the verdict on the best person's address."
    )
    decision_maker_weight: float = tenant_setting(
        _WEIGHT, 0.30, "Weight of how much that person decides."
    )
    presence_weight: float = tenant_setting(_WEIGHT, 0.10, "Weight of an informative website.")
    momentum_weight: float = tenant_setting(_WEIGHT, 0.30, "Weight of hiring and growth.")
    llm_rationale: bool = tenant_setting(
        BOOLEAN, False, "Whether OpenAI rewords rationales; equal features are paid once."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(self.weights.values()):
            raise ConfigError("weights must be 0 or more, and one of them above 0")
        if self.medium_from > self.high_from:
            raise ConfigError(
                "medium_from and high_from must be 0 to 1, medium_from not above high_from"
            )

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
