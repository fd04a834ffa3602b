"""Decide which runs may be deleted, and why each of the others stays.

The first reason to keep a run is also the sentence that is shown, so the two cannot differ. Runs
are counted per kind: a frequent kind must not push a rare one out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stoker.base.types import to_utc
from stoker.calendar.timezones import get_zone
from stoker.runs.model import Run, RunState
from stoker.runs.settings import RetentionRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionDecision:
    """Whether a run is deleted, and the sentence why or why not."""

    run: Run
    is_deleted: bool
    reason: str


def decide_retention(
    runs: Iterable[Run],
    *,
    rule: RetentionRule,
    now: datetime,
    current: datetime | None,
    window_since: datetime | None,
) -> list[RetentionDecision]:
    """Return a verdict for every run, oldest first; the order they come in does not matter.

    `current` is the timestamp of the run that asks, `window_since` the start of the longest
    budget window that is still open; None when there is none.
    """
    oldest_first = sorted(runs, key=lambda run: run.at)
    done = [run for run in oldest_first if run.state is RunState.DONE]
    last_done = set(_list_latest(done, count=1))
    latest = set(_list_latest(oldest_first, count=rule.keep_latest))

    def list_reasons_to_keep(run: Run) -> Iterator[str]:
        """Yield every reason to keep a run, the most important first."""
        if run.state is RunState.RUNNING:
            yield "it is still running"
        if run.at == current:
            yield "it is the run that asks"
        if run.at in last_done:
            yield f"it is the last {run.kind} run that ended DONE"
        if window_since is not None and run.at >= window_since:
            yield f"a budget window open since {window_since:%Y-%m-%d %H:%M} UTC still needs it"
        if to_utc(now) - run.at <= timedelta(days=rule.days):
            yield f"it is not older than {rule.days} days"
        if run.at in latest:
            yield f"it is among the latest {rule.keep_latest} {run.kind} runs"

    decisions = []
    for run in oldest_first:
        to_keep = next(list_reasons_to_keep(run), None)
        reason = to_keep or f"older than {rule.days} days and not needed any more"
        decisions.append(RetentionDecision(run=run, is_deleted=to_keep is None, reason=reason))
    return decisions


def compute_longest_window_start(now: datetime, zone: str) -> datetime:
    """Return when the longest open budget window began: Monday 00:00 local time, in UTC.

    Where clocks skip or repeat that midnight, the earliest time it can be.
    """
    here = to_utc(now).astimezone(get_zone(zone))
    midnight = datetime.combine(here.date() - timedelta(days=here.weekday()), datetime.min.time())
    return midnight.replace(tzinfo=here.tzinfo).astimezone(UTC)


def _list_latest(oldest_first: Sequence[Run], *, count: int) -> Iterator[datetime]:
    seen: dict[str, int] = {}
    for run in reversed(oldest_first):
        seen[run.kind] = seen.get(run.kind, 0) + 1
        if seen[run.kind] <= count:
            yield run.at
