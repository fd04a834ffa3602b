"""Run a tenant's nightly work: plan it, process its companies, and export them as they end.

Decides the order of steps and what goes into the manifest. Budgets decide what may be spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, StokerError
from stoker.base.events import CompanyEnded, NightPlanned, Observer
from stoker.base.formats import format_count
from stoker.base.heartbeat import send_heartbeats
from stoker.base.types import Depth, PullJobId, Step
from stoker.budgets.service import build_budget, expire_reservations
from stoker.context import TenantContext, TenantStores
from stoker.crm.export import CrmExporter, ExportQueue, ExportResult
from stoker.enrichment.enrich import CompanyEnricher
from stoker.enrichment.model import COMPANY_STEPS, KIND, CompanyVendors, WorkItem
from stoker.enrichment.outcomes import RunSummary, format_lateness, summarize_run
from stoker.enrichment.pipeline import CompanyPipeline, EnrichmentRule, LookupPayments
from stoker.enrichment.workers import (
    HEARTBEAT_INTERVAL,
    DeadlineMonitor,
    ReadBackoffs,
    RunTimes,
    WorkerPool,
    WorkQueue,
    find_late_items,
)
from stoker.heat.service import LookupFeedback
from stoker.nightly.plan import NightlyOptions, NightlyPlan
from stoker.nightly.resume import find_budget_run
from stoker.runs.model import Run, RunKey, RunState, StepTiming, choose_run_time
from stoker.runs.service import RunHandle, RunResult
from stoker.vendors.client import open_vendor_client
from stoker.vendors.email_batches import EmailBatcher

CANCEL_REQUESTED = "the run was cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """How the companies' part of a run ended."""

    summary: RunSummary
    refusal: str = ""  # why not everything was started
    released: int = 0  # companies that were under way then, and are as if not begun
    monitor_error: str = ""  # the error that stopped the deadline monitor
    cap_resets_at: datetime | None = None  # when a full cap has room again


class Planner(Protocol):
    """Says which companies a run is about."""

    async def plan(self, run: RunHandle) -> NightlyPlan:
        """Return the plan of a run. Raises ConfigError when the tenant lacks something for it."""
        ...


class NightlyRun:
    """The nightly run of one tenant; or its pulls, which are lookups selected by a pull plan."""

    def __init__(
        self,
        tenant: TenantContext,
        options: NightlyOptions,
        *,
        planner: Planner,
        vendors: CompanyVendors,
        exporter: Callable[[RunHandle], CrmExporter] | None,
        after_lookup: LookupFeedback | None = None,
        pull_id: Callable[[CompanyId, Depth, datetime], PullJobId] | None = None,
        kind: str = KIND,
    ) -> None:
        self.kind = kind
        self._tenant = tenant
        self._options = options
        self._planner = planner
        self._vendors = vendors
        self._exporter = exporter
        self._after_lookup = after_lookup
        self._pull_id = pull_id

    async def __call__(self, run: RunHandle) -> RunResult:
        """Run it. Caps, stops and failing vendors make it partial; the result says so."""
        name = Run(key=run.key, kind=run.kind).name
        items = WorkQueue(
            run.store.work_items, name, owner=self._tenant.process.owner, clock=run.clock
        )
        async with send_heartbeats(
            items.extend_claims, every=HEARTBEAT_INTERVAL, sleep=run.clock.sleep
        ):
            return await self._run(run, name, items)

    async def _run(self, run: RunHandle, name: str, units: WorkQueue) -> RunResult:
        began_at = run.clock.now()
        # So that no query waits for the reservations of a dead process.
        await expire_reservations(run.store, now=began_at, observer=run.observer)
        budget = await self._tenant.open(build_budget)
        reset = self._options.reset
        budget.continue_run(name, await find_budget_run(run, kind=self.kind, reset=reset))
        try:
            plan = await self._planner.plan(run)
        except ConfigError as error:
            return RunResult(state=RunState.CANCELLED, reason=str(error))
        if not units.is_owner():
            return RunResult(state=RunState.CANCELLED, reason=units.lost_reason)
        # All at once, so that a run that resumes this one finds the whole plan or none of it.
        await run.store.work_items.insert_items(name, plan.items)
        plan = replace(plan, items=())  # the store has them; a night takes the memory of a few
        # The pace is that of companies: a long refresh does not slow it.
        times = RunTimes(
            began_at=run.clock.now(),
            deadline=began_at + self._options.time_limit,
            expected=plan.quote.p50,
        )
        run.observer(
            NightPlanned(
                at=run.clock.now(),
                tenant=run.store.tenant,
                run=name,
                companies=plan.companies,
                deep=plan.deep,
                candidates=plan.candidates,
                taken_over_from=plan.resumed_from,
                deadline=times.deadline,
            )
        )
        run.partial_counts |= _count_plan(plan)
        run.rule |= plan.rule.as_json()
        exporting = self._begin_export(run)
        flowed = await self._process_companies(run, name, plan, times, units, exporting)
        flowed_at = run.clock.now()
        stragglers = await find_late_items(run.store, name, times=times, now=flowed_at)
        exported = await self._finish_export(run, units, exporting, until=times.deadline)
        self._report_other_steps(run, flowed.summary)
        late = format_lateness(
            deadline=times.deadline,
            flowed_at=flowed_at,
            ended_at=run.clock.now(),
            stragglers=stragglers,
        )
        return _build_outcome(plan, flowed, exported, late=late, missing=self._vendors.missing)

    def _report_other_steps(self, run: RunHandle, summary: RunSummary) -> None:
        """Report the steps that companies went through side by side, and those with no work."""
        side_by_side = {timing.step: timing for timing in summary.timings}
        reported = {timing.step for timing in run.timings} - side_by_side.keys()
        for step in self._options.steps:
            if step not in reported:
                run.report_step(side_by_side.get(step, StepTiming(step=step, seconds=0.0)))

    async def plan(self, store: TenantStores, *, clock: Clock, observer: Observer) -> NightlyPlan:
        """Return what a run started now would do: no run, no vendor call, no reservation.

        Companies and candidates are brought up to date. Raises ConfigError without a rule.
        """
        newest = await store.runs.list_runs(limit=1)
        key = RunKey(choose_run_time(clock.now(), taken=newest[0].at if newest else None), 0)
        open_run = RunHandle(key=key, kind=self.kind, store=store, clock=clock, observer=observer)
        return await self._planner.plan(open_run)

    async def _process_companies(
        self,
        run: RunHandle,
        name: str,
        plan: NightlyPlan,
        times: RunTimes,
        units: WorkQueue,
        exporting: CrmExporter | None,
    ) -> PipelineResult:
        if not plan.companies or not set(COMPANY_STEPS) & set(self._options.steps):
            return PipelineResult(summary=await summarize_run(run.store, name))
        told_to_stop = run.on_cancel(lambda: units.abandon(CANCEL_REQUESTED))
        with run.time_step("companies") as step, told_to_stop:
            async with AsyncExitStack() as stack:
                batching = await self._open_batcher(stack, name, units)
                work = await self._build_pipeline(run, name, plan, batching, units)
                outbox = await self._open_export_queue(stack, run, units, exporting)

                def on_done(unit: WorkItem) -> None:
                    _report_company(run, name, unit)
                    step.items += 1  # one by one, so that a cancelled run counts them too
                    if outbox is not None:
                        outbox.add(unit.company)

                flow = WorkerPool(
                    work,
                    units,
                    slots=self._options.concurrency,
                    waiting_slots=self._options.max_waiting,
                    clock=run.clock,
                    on_done=on_done,
                    while_producing=batching.producing if batching else nullcontext,
                )
                rests = (await open_vendor_client(self._tenant)).list_cooldowns
                unwatched = await _run_with_deadline(flow, run, name, times, rests)
        summary = await summarize_run(run.store, name)
        run.timings += summary.timings
        refused = flow.refusal
        silent = "" if units.is_owner() else units.lost_reason
        moments = [work.cap_resets_at, refused.resets_at if refused else None]
        return PipelineResult(
            summary=summary,
            refusal=refused.message if refused else silent,
            released=flow.released if silent else 0,
            monitor_error=unwatched,
            cap_resets_at=min((at for at in moments if at is not None), default=None),
        )

    def _begin_export(self, run: RunHandle) -> CrmExporter | None:
        if self._exporter is None or Step.EXPORT not in self._options.steps:
            return None
        return self._exporter(run)

    async def _open_export_queue(
        self,
        stack: AsyncExitStack,
        run: RunHandle,
        units: WorkQueue,
        exporting: CrmExporter | None,
    ) -> ExportQueue | None:
        if exporting is None:
            return None
        outbox = ExportQueue(
            exporting,
            clock=run.clock,
            is_owner=units.is_owner,
            batch_size=self._options.export_batch_size,
        )
        return await stack.enter_async_context(outbox)

    async def _open_batcher(
        self, stack: AsyncExitStack, name: str, units: WorkQueue
    ) -> EmailBatcher | None:
        if self._vendors.verifier is None or Step.VERIFY not in self._options.steps:
            return None
        batching = EmailBatcher(
            await open_vendor_client(self._tenant),
            self._vendors.verifier,
            run=name,
            wait=self._options.batch_wait,
            still_owner=units.is_owner,
        )
        return await stack.enter_async_context(batching)

    async def _build_pipeline(
        self,
        run: RunHandle,
        name: str,
        plan: NightlyPlan,
        batching: EmailBatcher | None,
        units: WorkQueue,
    ) -> CompanyPipeline:
        options, verifier = self._options, self._vendors.verifier
        prices = {
            Depth.SHALLOW: options.depths.shallow_units,
            Depth.DEEP: options.depths.deep_units,
        }
        return CompanyPipeline(
            run.store,
            enricher=CompanyEnricher(
                run.store,
                client=await open_vendor_client(self._tenant),
                vendors=self._vendors,
                steps=options.steps,
                corpus_limit=options.corpus_limit,
                run=name,
                queue=units,
                keep_corpus=options.keep_corpus,
            ),
            payments=LookupPayments(
                await self._tenant.open(build_budget),
                run.store.budgets,
                prices=prices,
                reset=options.reset,
                run=name,
                pull_id=self._pull_id,
            ),
            email_batcher=batching,
            verifier=verifier.name if verifier else "",
            queue=units,
            rule=EnrichmentRule(icp=plan.rule, score=options.score),
            steps=options.steps,
            run=name,
            clock=run.clock,
            after_lookup=self._after_lookup,
        )

    async def _finish_export(
        self, run: RunHandle, units: WorkQueue, exporting: CrmExporter | None, *, until: datetime
    ) -> ExportResult:
        if exporting is None:
            return ExportResult()
        if not units.is_owner():
            return _abort_export(exporting, units.lost_reason)
        with run.time_step(Step.EXPORT) as step:
            try:
                exported = await exporting.flush(until=until)
            except StokerError as error:
                # What was found is safe here; a later night sends it.
                exported = _abort_export(exporting, str(error))
            step.items = exported.companies
        return exported


async def _run_with_deadline(
    flow: WorkerPool, run: RunHandle, name: str, times: RunTimes, rests: ReadBackoffs
) -> str:
    """Process companies under the deadline monitor; return the monitor's error, if any."""
    clock, observer = run.clock, run.observer
    watch = DeadlineMonitor(
        run.store, name, pool=flow, times=times, clock=clock, observer=observer, read_backoffs=rests
    )
    watching = asyncio.create_task(watch.run())
    flowing = asyncio.create_task(flow.run())
    try:
        await asyncio.wait({watching, flowing}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done() and watching.exception():
            await asyncio.wait({flowing})  # a fault of the watch is no reason to stop working
    finally:
        # The first to end ends the other: the work is done, or its time is over.
        watching.cancel()
        flowing.cancel()
        await asyncio.wait({watching, flowing})
    if not flowing.cancelled():
        flowing.result()
    fault = None if watching.cancelled() else watching.exception()
    return f"its deadline was not monitored: {type(fault).__name__}: {fault}" if fault else ""


def _abort_export(exporting: CrmExporter, because: str) -> ExportResult:
    """Return what the CRM has by now, of an export that goes no further."""
    exported = exporting.get_result()
    return replace(
        exported, later=0, is_aborted=True, reasons=(f"{Step.EXPORT}: {because}", *exported.reasons)
    )


def _report_company(run: RunHandle, name: str, item: WorkItem) -> None:
    run.observer(
        CompanyEnded(
            at=run.clock.now(),
            tenant=run.store.tenant,
            run=name,
            company=item.company,
            state=item.state.value,
            reasons=item.reasons,
        )
    )


def _build_outcome(
    plan: NightlyPlan,
    flowed: PipelineResult,
    exported: ExportResult,
    *,
    late: str,
    missing: tuple[str, ...],
) -> RunResult:
    summary = flowed.summary
    state, reason = summary.compute_outcome()
    reasons = [*summary.reasons, *exported.reasons, *filter(None, [flowed.monitor_error])]
    if flowed.refusal:
        reasons.insert(0, flowed.refusal)
        reason = f"{reason}: {flowed.refusal}"
    if flowed.released:
        reasons.append(
            f"{flowed.released} of them were in progress; what they paid for is in this run's "
            "cost, and cached for when they are resumed"
        )
    if missing and plan.deep:
        reasons.append(f"no key is set for: {', '.join(missing)}; these were skipped")
    if exported.later or exported.is_aborted:
        state = RunState.PARTIAL
        waits = "waits" if exported.later == 1 else "wait"
        rows = (
            f"{format_count(exported.later, 'record')} {waits}"
            if exported.later
            else "records may wait"
        )
        reason = "; ".join(filter(None, (reason, f"{rows} for the CRM")))
    if exported.problem:
        state = RunState.PARTIAL
        reason = "; ".join(filter(None, (exported.problem, reason)))
    if plan.over_budget:
        state = RunState.PARTIAL
        waiting = f"{plan.over_budget} candidates wait, because no pull units are left"
        reason = "; ".join(filter(None, (reason, waiting)))
    reason = "; ".join(filter(None, (reason or plan.empty_reason, late)))
    return RunResult(
        state=state,
        reason=reason,
        counts={**_count_plan(plan), **summary.counts, **exported.counts},
        cost=summary.cost,
        selected=summary.selected,
        sources=summary.sources,
        reasons=tuple(reasons),
        remaining=summary.remaining,
        lacking=summary.lacking,
        resume_at=(flowed.cap_resets_at or plan.cap_resets_at)
        if state is RunState.PARTIAL
        else None,
    )


def _count_plan(plan: NightlyPlan) -> dict[str, int]:
    return {
        "register_new": plan.refreshed.new,
        "register_changed": plan.refreshed.changed,
        "candidates": plan.candidates,
        "selected": plan.companies,
        "deep": plan.deep,
        "over_cap": plan.over_cap,
        "over_budget": plan.over_budget,
        "looked_at_today": plan.visited_today,
    }
