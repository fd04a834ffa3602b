"""Check the store and the ledger, close dead runs, expire reservations, audit, apply retention."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import expire_reservations
from stoker.budgets.verify import verify_recent
from stoker.calendar.recurrence import Schedule
from stoker.context import Context, TenantContext
from stoker.db.database import Check, delete_in_batches
from stoker.enrichment.runner import build_runner
from stoker.runs.cancel import close_dead_runs
from stoker.runs.model import Run, RunState, StorageSize
from stoker.runs.prune import apply_retention
from stoker.runs.service import RunHandle, Runner, RunResult
from stoker.runs.settings import RetentionRule
from stoker.scheduling.audit import AUDIT_PERIOD, AuditLine, list_problems
from stoker.scheduling.service import read_audit

# Signals are deleted after so many half-lives: nothing is left of them in any heat.
SIGNAL_AGE_PER_HALF_LIFE = 40

HEALTH_CHECK_TTL = timedelta(minutes=10)  # reading a whole store takes a while


class CachedHealthChecks:
    """A backend's own checks, done once for all tenants that ask within a while."""

    def __init__(self, context: Context) -> None:
        self.backend, self._clock = context.backend, context.clock
        self._lock = asyncio.Lock()
        self._cached: tuple[timedelta, list[Check]] | None = None

    async def get_checks(self) -> list[Check]:
        """Return the backend's health checks, at most `HEALTH_CHECK_TTL` old."""
        async with self._lock:
            now = self._clock.elapsed()
            if self._cached is None or now - self._cached[0] >= HEALTH_CHECK_TTL:
                self._cached = (now, await self.backend.checks())
            return self._cached[1]


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """One tenant's maintenance. Old runs are deleted if the rule is enabled."""

    runner: Runner
    health_checks: CachedHealthChecks
    schedule: Schedule
    zone: str
    rule: RetentionRule
    signal_retention: timedelta

    @property
    def kind(self) -> str:
        """What its runs are listed under."""
        return "upkeep"

    async def __call__(self, run: RunHandle) -> RunResult:
        """Check, close dead runs of every kind, audit, delete what is old.

        An unsound store ends the run FAILED; gaps and closed runs are listed in its reasons.
        """
        now = run.clock.now()
        with run.time_step("check") as step:
            checks = await self.health_checks.get_checks()
            step.items = len(checks)
            # The details may be about another tenant, so they are not in this run.
            failed = sorted({check.what for check in checks if not check.ok})
            unsound = [f"the store's check of {what} failed; see: stoker doctor" for what in failed]
        with run.time_step("ledger") as step:
            report = await verify_recent(run.store, now=now)
            step.items = report.entries
            unsound += report.problems
        with run.time_step("dead") as step:
            by = Run(key=run.key, kind=run.kind)
            dead = await close_dead_runs(run.store, by=by, runner=self.runner)
            step.items = len(dead)
        with run.time_step("holds") as step:
            expired = await expire_reservations(run.store, now=now, observer=run.observer)
            step.items = len(expired)
        with run.time_step("audit") as step:
            findings = await read_audit(
                run.store,
                self.kind,
                self.schedule,
                since=now - AUDIT_PERIOD,
                until=now,
                now=now,
                kept_for=timedelta(days=self.rule.days),
            )
            step.items = len(findings)
        with run.time_step("retention") as step:
            deleted = StorageSize()
            if self.rule.enabled:
                deleted = await apply_retention(run, rule=self.rule, zone=self.zone, now=now)
            step.items = deleted.runs
            answers = await self._delete_expired(run, now)
            money = await self._delete_old_money(run, now)
        return RunResult(
            state=RunState.FAILED if unsound else RunState.DONE,
            reason="; ".join(unsound),
            counts={
                "checks": len(checks),
                "runs_closed": len(dead),
                "holds_expired": sum(
                    reservation.status is ReservationStatus.EXPIRED for reservation in expired
                ),
                "holds_uncertain": sum(
                    reservation.status is ReservationStatus.UNCERTAIN for reservation in expired
                ),
                "pruned_runs": deleted.runs,
                "pruned_rows": deleted.rows,
                "pruned_answers": answers,
                "pruned_money": money,
                **_count_by_status(findings),
            },
            reasons=(
                *(
                    f"{closed.kind} run {closed.name} was closed: {closed.reason}"
                    for closed in dead
                ),
                *(finding.message for finding in list_problems(findings)),
            ),
        )

    async def _delete_expired(self, run: RunHandle, now: datetime) -> int:
        """Delete answers and signals that are of no use any more; return how many answers."""
        if not self.rule.enabled:
            return 0
        before = now - timedelta(days=self.rule.days)
        faded, heat = min(before, now - self.signal_retention), run.store.heat
        await delete_in_batches(partial(heat.delete_old_signals, before=faded))
        await delete_in_batches(partial(heat.delete_old_lookups, before=faded))
        return await delete_in_batches(partial(run.store.answers.delete_answers, before=before))

    async def _delete_old_money(self, run: RunHandle, now: datetime) -> int:
        """Delete closed reservations, totals, rates and slots that no decision can need again.

        Whatever the retention of runs: the ledger has it all. Returns how many rows of the tenant.
        """
        money, shared = run.store.budgets, self.health_checks.backend.shared()
        rows = await delete_in_batches(partial(money.delete_closed_reservations, now=now))
        rows += await delete_in_batches(partial(money.delete_old_usage, now=now))
        await delete_in_batches(partial(shared.delete_old_usage, now=now))
        await delete_in_batches(partial(shared.delete_idle, now=now))
        return rows


def _count_by_status(findings: list[AuditLine]) -> Mapping[str, int]:
    counted = Counter(finding.status.value.lower() for finding in findings)
    return {f"slots_{kind}": count for kind, count in sorted(counted.items())}


def build_maintenance(tenant: TenantContext) -> Maintenance:
    """Return a tenant's maintenance with the schedule and rules of its settings."""
    own = tenant.settings
    return Maintenance(
        runner=build_runner(tenant.process),
        health_checks=tenant.process.get(CachedHealthChecks),
        schedule=own.scheduling.build_schedule(),
        zone=own.scheduling.timezone,
        rule=own.retention,
        signal_retention=SIGNAL_AGE_PER_HALF_LIFE * own.heat.half_life,
    )
