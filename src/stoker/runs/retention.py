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


def list_deletable_runs(
    runs: Iterable[Run],
    *,
    rule: RetentionRule,
    now: datetime,
    current: datetime | None,
    window_since: datetime | None,
) -> list[Run]:
    """Return the runs that may go, oldest first. As `decide_retention`."""
    decided = decide_retention(runs, rule=rule, now=now, current=current, window_since=window_since)
    return [verdict.run for verdict in decided if verdict.is_deleted]


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
    facts = _Facts(
        rule=rule,
        now=to_utc(now),
        current=current,
        window_since=window_since,
        latest=frozenset(_list_latest(oldest_first, count=rule.keep_latest)),
        last_done=frozenset(_list_latest(_list_done(oldest_first), count=1)),
    )
    return [_decide(run, facts) for run in oldest_first]


def compute_longest_window_start(now: datetime, zone: str) -> datetime:
    """Return when the longest open budget window began: Monday 00:00 local time, in UTC.

    Where clocks skip or repeat that midnight, the earliest time it can be.
    """
    here = to_utc(now).astimezone(get_zone(zone))
    midnight = datetime.combine(here.date() - timedelta(days=here.weekday()), datetime.min.time())
    return midnight.replace(tzinfo=here.tzinfo).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    rule: RetentionRule
    now: datetime
    current: datetime | None
    window_since: datetime | None
    latest: frozenset[datetime]
    last_done: frozenset[datetime]


def _decide(run: Run, facts: _Facts) -> RetentionDecision:
    reason_to_keep = next(_list_reasons_to_keep(run, facts), None)
    if reason_to_keep is not None:
        return RetentionDecision(run=run, is_deleted=False, reason=reason_to_keep)
    because = f"older than {facts.rule.days} days and not needed any more"
    return RetentionDecision(run=run, is_deleted=True, reason=because)


def _list_reasons_to_keep(run: Run, facts: _Facts) -> Iterator[str]:
    """Yield every reason to keep a run, the most important first."""
    rule = facts.rule
    if run.state is RunState.RUNNING:
        yield "it is still running"
    if run.at == facts.current:
        yield "it is the run that asks"
    if run.at in facts.last_done:
        yield f"it is the last {run.kind} run that ended DONE"
    if facts.window_since is not None and run.at >= facts.window_since:
        yield f"a budget window open since {facts.window_since:%Y-%m-%d %H:%M} UTC still needs it"
    if facts.now - run.at <= timedelta(days=rule.days):
        yield f"it is not older than {rule.days} days"
    if run.at in facts.latest:
        yield f"it is among the latest {rule.keep_latest} {run.kind} runs"


def _list_latest(oldest_first: Sequence[Run], *, count: int) -> Iterator[datetime]:
    seen: dict[str, int] = {}
    for run in reversed(oldest_first):
        seen[run.kind] = seen.get(run.kind, 0) + 1
        if seen[run.kind] <= count:
            yield run.at


def _list_done(runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.state is RunState.DONE]
