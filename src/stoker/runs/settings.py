"""The settings of retention, which are the rule by which old runs are deleted."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.config.fields import (
    BOOLEAN,
    Section,
    integer,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class RetentionRule(Section):
    """Which runs are forgotten."""

    enabled: bool = setting(BOOLEAN, False, "Whether maintenance deletes old runs.")
    days: int = setting(integer(0, 36_500), 90, "Runs younger than this many days stay.")
    keep_latest: int = setting(
        integer(1, 1_000_000),
        30,
        "This many runs stay however old they are.",
        key="keep_latest_n_runs",
    )
