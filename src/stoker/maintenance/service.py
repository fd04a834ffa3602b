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

from stoker.base.clock import Clock
from stoker.budgets.reservations import Phase
from stoker.budgets.reserver import see_to_lapsed
from stoker.budgets.verify import verified
from stoker.calendar.recurrence import Schedule
from stoker.context import Backend, Store
from stoker.db.database import Check
from stoker.runs.cancel import given_up, gone
from stoker.runs.model import Run, RunState, Weight
from stoker.runs.prune import forgotten
from stoker.runs.retention import RetentionRule
from stoker.runs.service import Ending, OpenRun, Runner
from stoker.scheduling import audit
from stoker.scheduling.audit import Finding

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
