"""The built-in work: the store is sound, the schedule was kept, what is dead or old goes.

It decides nothing: what a finding means is `core.audit`'s business, which runs may go is
`core.retention`'s.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.core import audit, retention
from stoker.core.audit import Finding
from stoker.core.cadence import Schedule
from stoker.core.events import RunsPruned
from stoker.core.holds import Phase
from stoker.core.retention import RetentionRule
from stoker.core.runs import Run, RunState
from stoker.engine.forgetting import pruned
from stoker.engine.giving_up import given_up, gone
from stoker.engine.promises import see_to_lapsed
from stoker.engine.running import Ending, OpenRun, Runner
from stoker.engine.verifying import verified
from stoker.ports import Backend, Check, Clock, Store, Weight

LOOKS_BACK = timedelta(days=7)
CHECKED_FOR = timedelta(minutes=10)  # reading a whole store takes a while


class Checkup:
    """A backend's own checks, done once for all tenants that ask within a while."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._turn = asyncio.Lock()
        self._found: tuple[timedelta, list[Check]] | None = None

    async def checks(self) -> list[Check]:
        """Return what the backend says about its health, at most `CHECKED_FOR` ago."""
        async with self._turn:
            now = self._clock.elapsed()
            if self._found is None or now - self._found[0] >= CHECKED_FOR:
                self._found = (now, await self._backend.checks())
            return self._found[1]


@dataclass(frozen=True, kw_only=True)
class Upkeep:
    """One tenant's upkeep. Runs are forgotten by the rule if it `prunes`."""

    checkup: Checkup
    schedule: Schedule
    zone: str
    rule: RetentionRule
    prunes: bool
    signals_for: timedelta = timedelta(days=365)  # until nothing of them is left in any heat

    @property
    def kind(self) -> str:
        """What its runs are listed under."""
        return "upkeep"

    async def __call__(self, run: OpenRun) -> Ending:
        """Check, close dead runs of every kind, audit, prune.

        Something unsound ends the run FAILED; gaps and what was closed are told in reasons.
        """
        now = run.clock.now()
        with run.step("check") as step:
            checks = await self.checkup.checks()
            step.items = len(checks)
            # The details may be about another tenant, and a run is told to its own.
            failed = sorted({check.what for check in checks if not check.ok})
            unsound = [f"the store's check of {what} failed; see: stoker doctor" for what in failed]
        with run.step("ledger") as step:
            verdict = await verified(run.store)
            step.items = verdict.entries
            unsound += verdict.problems
        with run.step("dead") as step:
            runner = Runner(clock=run.clock, observer=run.observer)
            dead = await given_up(run.store, by=Run(key=run.key, kind=run.kind), runner=runner)
            step.items = len(dead)
        with run.step("holds") as step:
            lapsed = await see_to_lapsed(run.store, now=now, observer=run.observer)
            step.items = len(lapsed)
        with run.step("audit") as step:
            findings = await audited(
                run.store,
                self.kind,
                self.schedule,
                since=now - LOOKS_BACK,
                until=now,
                now=now,
                rule=self.rule,
            )
            step.items = len(findings)
        with run.step("retention") as step:
            went = Weight()
            if self.prunes:
                went = await forgotten(run, rule=self.rule, zone=self.zone, now=now)
            step.items = went.runs
            answers = await self._forgotten(run, now)
        return Ending(
            state=RunState.FAILED if unsound else RunState.DONE,
            reason="; ".join(unsound),
            counts={
                "checks": len(checks),
                "runs_closed": len(dead),
                "holds_expired": sum(hold.phase is Phase.EXPIRED for hold in lapsed),
                "holds_uncertain": sum(hold.phase is Phase.UNCERTAIN for hold in lapsed),
                "pruned_runs": went.runs,
                "pruned_rows": went.rows,
                "pruned_answers": answers,
                **_by_kind(findings),
            },
            reasons=(
                *(
                    f"{closed.kind} run {closed.name} was closed: {closed.reason}"
                    for closed in dead
                ),
                *(finding.sentence for finding in audit.problems(findings)),
            ),
        )

    async def _forgotten(self, run: OpenRun, now: datetime) -> int:
        """Forget answers, texts and signals that have been good for nothing for long enough."""
        if not self.prunes:
            return 0
        before, forgotten = now - timedelta(days=self.rule.days), 0
        while many := await run.store.answers.forget_answers(before=before):
            forgotten += many
        faded = min(before, now - self.signals_for)
        while await run.store.attention.prune_signals(before=faded):
            pass
        while await run.store.attention.prune_looks(before=faded):
            pass
        return forgotten


async def forgotten(run: OpenRun, *, rule: RetentionRule, zone: str, now: datetime) -> Weight:
    """Forget the runs that a rule lets go, never the one under way; return what went."""
    going = retention.prunable(
        await run.store.runs.runs(),
        rule=rule,
        now=now,
        current=run.key.at,
        window_since=retention.longest_window_start(now, zone),
    )
    weight = await pruned(run.store, [old.at for old in going])
    if weight.runs:
        run.observer(
            RunsPruned(
                at=now,
                tenant=run.store.tenant,
                runs=weight.runs,
                rows=weight.rows,
                bytes=weight.bytes,
            )
        )
    return weight


async def audited(
    store: Store,
    name: str,
    schedule: Schedule,
    *,
    since: datetime,
    until: datetime,
    now: datetime,
    rule: RetentionRule,
) -> list[Finding]:
    """Return what became of each instant with since <= instant < until."""
    slots = await store.schedule.slots(name, until=until)
    expected = audit.expected_instants(schedule, slots, since=since, until=until)
    runs = await store.runs.runs(kind=name)
    return audit.audited(
        expected,
        [slot for slot in slots if slot.instant >= since],
        runs,
        now=now,
        kept_for=timedelta(days=rule.days),
        gone={run.at for run in await gone(store, runs, now=now)},
    )


def _by_kind(findings: list[Finding]) -> Mapping[str, int]:
    counted = Counter(finding.kind.value.lower() for finding in findings)
    return {f"slots_{kind}": count for kind, count in sorted(counted.items())}
