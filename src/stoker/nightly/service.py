"""A tenant's night: plan it, let its companies flow through and into the CRM as they end.

The order of things, and what becomes of them in the manifest. Planning, one company's night, the
flow and the watch are modules of their own; what may be spent, the gate decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, StokerError
from stoker.base.events import CompanyEnded, NightPlanned, Observer
from stoker.base.types import Depth, PullJobId, Step
from stoker.budgets.gate import Gate
from stoker.budgets.reserver import see_to_lapsed
from stoker.context import Store
from stoker.crm.export import Exported, Exporting, Exports, Outbox
from stoker.enrichment.deadline import NightWatch, Rests, Times, stragglers_of
from stoker.enrichment.enrich import CompanyLook
from stoker.enrichment.model import KIND, OF_COMPANIES, CompanySources, Unit
from stoker.enrichment.pipeline import CompanyNight, NightRule
from stoker.enrichment.pull_units import Looking
from stoker.enrichment.rationales import Rationales
from stoker.enrichment.summary import Summary, added_up, told_late
from stoker.enrichment.work_queue import StoreUnits, kept_alive
from stoker.enrichment.worker_pool import UnitFlow
from stoker.heat.learn import Learning
from stoker.nightly.plan import NightOrder, NightPlan
from stoker.runs.model import Run, RunKey, RunState, next_free_second
from stoker.runs.service import Ending, OpenRun
from stoker.vendors.client import Asking
from stoker.vendors.email_batches import Batching

ASKED_TO_STOP = "somebody asked the run to stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flowed:
    """How the companies' part of a night ended."""

    summary: Summary
    refused: str = ""  # why not everything was begun
    given_back: int = 0  # companies that were under way then, and are as if not begun
    unwatched: str = ""  # what kept anybody from seeing to its deadline
    room_at: datetime | None = None  # when a full cap has room again


class Plans(Protocol):
    """Says which companies a run is about."""

    async def plan(self, run: OpenRun) -> NightPlan:
        """Return the plan of a run. Raises ConfigError when the tenant lacks something for it."""
        ...


class Night:
    """The nightly work of one tenant; or its pulls, which are looks chosen in another way."""

    def __init__(
        self,
        order: NightOrder,
        *,
        planning: Plans,
        gate: Callable[[], Awaitable[Gate]],
        asking: Callable[[], Awaitable[Asking]],
        sources: CompanySources,
        exports: Exports | None,
        owner: str,
        learning: Learning | None = None,
        pull_id: Callable[[CompanyId, Depth, datetime], PullJobId] | None = None,
        kind: str = KIND,
    ) -> None:
        self.kind = kind
        self._learning = learning
        self._pull_id = pull_id
        self._order = order
        self._planning = planning
        self._gate = gate
        self._asking = asking
        self._sources = sources
        self._exports = exports
        self._owner = owner

    async def __call__(self, run: OpenRun) -> Ending:
        """Carry out the night. Caps, stops and bad days degrade it and are told in its ending."""
        name = Run(key=run.key, kind=run.kind).name
        units = StoreUnits(run.store.nights, name, owner=self._owner, clock=run.clock)
        async with kept_alive(units, clock=run.clock):
            return await self._carried_out(run, name, units)

    async def _carried_out(self, run: OpenRun, name: str, units: StoreUnits) -> Ending:
        began_at = run.clock.now()
        # So that nobody waits for the answers a dead process had been promised.
        await see_to_lapsed(run.store, now=began_at, observer=run.observer)
        try:
            plan = await self._planning.plan(run)
        except ConfigError as error:
            return Ending(state=RunState.CANCELLED, reason=str(error))
        if not units.still_ours():
            return Ending(state=RunState.CANCELLED, reason=units.lost_because)
        # All of them at once, so that whoever takes over finds the whole night or none of it.
        await run.store.nights.plan_units(name, plan.units)
        plan = replace(plan, units=())  # the store has them; a night takes the memory of a few
        # The pace is that of companies: a long refresh says nothing about how long they take.
        times = Times(
            began_at=run.clock.now(),
            deadline=began_at + self._order.may_take,
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
                taken_over_from=plan.taken_over_from,
                deadline=times.deadline,
            )
        )
        run.counted |= _planned(plan)
        run.rule |= plan.rule.as_json()
        exporting = self._exporting(run)
        flowed = await self._flow(run, name, plan, times, units, exporting)
        flowed_at = run.clock.now()
        stragglers = await stragglers_of(run.store, name, times=times, now=flowed_at)
        exported = await self._export(run, units, exporting)
        late = told_late(
            deadline=times.deadline,
            flowed_at=flowed_at,
            ended_at=run.clock.now(),
            stragglers=stragglers,
        )
        return _ending(plan, flowed, exported, late=late, missing=self._sources.missing)

    async def plan(self, store: Store, *, clock: Clock, observer: Observer) -> NightPlan:
        """Return what a night begun now would do, without a run, a vendor or a promise.

        Companies and candidates are brought up to date. Raises ConfigError without a rule.
        """
        newest = await store.runs.runs(limit=1)
        key = RunKey(next_free_second(clock.now(), taken=newest[0].at if newest else None), 0)
        open_run = OpenRun(key=key, kind=self.kind, store=store, clock=clock, observer=observer)
        return await self._planning.plan(open_run)

    async def _flow(
        self,
        run: OpenRun,
        name: str,
        plan: NightPlan,
        times: Times,
        units: StoreUnits,
        exporting: Exporting | None,
    ) -> Flowed:
        if not plan.companies or not set(OF_COMPANIES) & set(self._order.steps):
            return Flowed(summary=await added_up(run.store, name))
        told_to_stop = run.told_to_stop_by(lambda: units.let_go(ASKED_TO_STOP))
        with run.step("companies") as step, told_to_stop:
            async with AsyncExitStack() as stack:
                batching = await self._batching(stack, name, units)
                work = await self._work(run, name, plan, batching, units)
                outbox = await self._outbox(stack, run, units, exporting)

                def told(unit: Unit) -> None:
                    _tell(run, name, unit)
                    step.items += 1  # one by one, so that it is told of a night that is cut off too
                    if outbox is not None:
                        outbox.add(unit.company)

                flow = UnitFlow(
                    work,
                    units,
                    places=self._order.at_once,
                    parked=self._order.parked,
                    clock=run.clock,
                    told=told,
                    coming=batching.coming if batching else nullcontext,
                )
                rests = (await self._asking()).attempts.rests
                unwatched = await _watched(flow, run, name, times, rests)
        summary = await added_up(run.store, name)
        run.timings += summary.timings
        refused = flow.refused
        silent = "" if units.still_ours() else units.lost_because
        moments = [work.room_at, refused.resets_at if refused else None]
        return Flowed(
            summary=summary,
            refused=refused.sentence if refused else silent,
            given_back=flow.given_back if silent else 0,
            unwatched=unwatched,
            room_at=min((at for at in moments if at is not None), default=None),
        )

    def _exporting(self, run: OpenRun) -> Exporting | None:
        if self._exports is None or Step.EXPORT not in self._order.steps:
            return None
        return self._exports.begin(run)

    async def _outbox(
        self,
        stack: AsyncExitStack,
        run: OpenRun,
        units: StoreUnits,
        exporting: Exporting | None,
    ) -> Outbox | None:
        if exporting is None:
            return None
        outbox = Outbox(
            exporting, clock=run.clock, ours=units.still_ours, some=self._order.sent_together
        )
        return await stack.enter_async_context(outbox)

    async def _batching(
        self, stack: AsyncExitStack, name: str, units: StoreUnits
    ) -> Batching | None:
        if self._sources.verifier is None or Step.VERIFY not in self._order.steps:
            return None
        batching = Batching(
            await self._asking(),
            self._sources.verifier,
            run=name,
            wait=self._order.gathers_for,
            ours=units.still_ours,
        )
        return await stack.enter_async_context(batching)

    async def _work(
        self,
        run: OpenRun,
        name: str,
        plan: NightPlan,
        batching: Batching | None,
        units: StoreUnits,
    ) -> CompanyNight:
        order, verifier = self._order, self._sources.verifier
        prices = {
            Depth.SHALLOW: order.depths.shallow_units,
            Depth.DEEP: order.depths.deep_units,
        }
        return CompanyNight(
            run.store,
            look=CompanyLook(
                run.store,
                asking=await self._asking(),
                sources=self._sources,
                steps=order.steps,
                corpus_limit=order.corpus_limit,
                run=name,
                units=units,
                keeps_corpus=order.keeps_corpus,
            ),
            looking=Looking(
                await self._gate(),
                run.store.money,
                prices=prices,
                reset=order.reset,
                run=name,
                pull_id=self._pull_id,
            ),
            verifying=batching,
            verifier=verifier.name if verifier else "",
            units=units,
            rule=NightRule(icp=plan.rule, score=order.score),
            steps=order.steps,
            run=name,
            clock=run.clock,
            learning=self._learning,
            rationales=await self._rationales(name, units),
        )

    async def _rationales(self, name: str, units: StoreUnits) -> Rationales | None:
        model = self._sources.rationales
        if model is None:
            return None
        return Rationales(
            await self._asking(),
            model,
            rule=self._order.score,
            run=name,
            ours=units.still_ours,
        )

    async def _export(
        self, run: OpenRun, units: StoreUnits, exporting: Exporting | None
    ) -> Exported:
        if exporting is None:
            return Exported()
        if not units.still_ours():
            return _broken_off(exporting, units.lost_because)
        with run.step(Step.EXPORT) as step:
            try:
                exported = await exporting.rest()
            except StokerError as error:
                # What was found is safe here; a later night sends it.
                exported = _broken_off(exporting, str(error))
            step.items = exported.companies
        return exported


async def _watched(flow: UnitFlow, run: OpenRun, name: str, times: Times, rests: Rests) -> str:
    """Let companies flow while somebody watches; return what went wrong with the watching."""
    clock, observer = run.clock, run.observer
    watch = NightWatch(
        run.store, name, flow=flow, times=times, clock=clock, observer=observer, rests=rests
    )
    watching = asyncio.create_task(watch.keep_watch())
    flowing = asyncio.create_task(flow.go())
    try:
        await asyncio.wait({watching, flowing}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done() and watching.exception():
            await asyncio.wait({flowing})  # a fault of the watch is no reason to stop working
    finally:
        # Whoever ends first ends the other: the work is through, or its time is.
        watching.cancel()
        flowing.cancel()
        await asyncio.wait({watching, flowing})
    if not flowing.cancelled():
        flowing.result()
    fault = None if watching.cancelled() else watching.exception()
    return f"nobody watched over its deadline: {type(fault).__name__}: {fault}" if fault else ""


def _broken_off(exporting: Exporting, because: str) -> Exported:
    """Return what the CRM has by now, of an export that goes no further."""
    exported = exporting.so_far()
    return replace(
        exported, later=0, broken_off=True, reasons=(f"{Step.EXPORT}: {because}", *exported.reasons)
    )


def _tell(run: OpenRun, name: str, unit: Unit) -> None:
    run.observer(
        CompanyEnded(
            at=run.clock.now(),
            tenant=run.store.tenant,
            run=name,
            company=unit.company,
            state=unit.state.value,
            reasons=unit.reasons,
        )
    )


def _ending(
    plan: NightPlan, flowed: Flowed, exported: Exported, *, late: str, missing: tuple[str, ...]
) -> Ending:
    summary = flowed.summary
    state, reason = summary.ending()
    reasons = [*summary.reasons, *exported.reasons, *filter(None, [flowed.unwatched])]
    if flowed.refused:
        reasons.insert(0, flowed.refused)
        reason = f"{reason}: {flowed.refused}"
    if flowed.given_back:
        reasons.append(
            f"{flowed.given_back} of them were under way; what they had paid for is in what this "
            "run says it spent, and kept for when they are taken up again"
        )
    if missing and plan.deep:
        reasons.append(f"without a key for it, nobody was asked for: {', '.join(missing)}")
    if exported.later or exported.broken_off:
        state = RunState.PARTIAL
        rows = f"{exported.later} rows wait" if exported.later else "rows may wait"
        reason = "; ".join(filter(None, (reason, f"{rows} for the CRM")))
    if plan.over_budget:
        state = RunState.PARTIAL
        waiting = f"{plan.over_budget} candidates wait, because no pull units are left for them"
        reason = "; ".join(filter(None, (reason, waiting)))
    reason = "; ".join(filter(None, (reason or plan.nobody, late)))
    return Ending(
        state=state,
        reason=reason,
        counts={**_planned(plan), **summary.counts, **exported.counts},
        cost=summary.cost,
        selected=summary.selected,
        reasons=tuple(reasons),
        remaining=summary.remaining,
        lacking=summary.lacking,
        resume_at=(flowed.room_at or plan.room_at) if state is RunState.PARTIAL else None,
    )


def _planned(plan: NightPlan) -> dict[str, int]:
    return {
        "register_new": plan.refreshed.new,
        "register_changed": plan.refreshed.changed,
        "candidates": plan.candidates,
        "selected": plan.companies,
        "deep": plan.deep,
        "over_cap": plan.over_cap,
        "over_budget": plan.over_budget,
        "looked_at_today": plan.looked_at_today,
    }
