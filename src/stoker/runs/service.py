"""Execute one run: record its start, do the work, record how it ended.

Whatever the work does, crashes included, becomes an end with a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from stoker.base.cancellation import finish_despite_cancel
from stoker.base.clock import Clock
from stoker.base.errors import ConflictError, StokerError, UncertainError
from stoker.base.events import Observer, RunAskedToStop, RunEnded, RunGivenUp, RunStarted, StepEnded
from stoker.base.retry import retry
from stoker.base.types import Json, TenantId, clean_text
from stoker.budgets.caps import list_custom_limits
from stoker.context import TenantStores
from stoker.runs.cancel import CancelWatcher
from stoker.runs.leases import Lease, LeaseHolder, compute_expiry, get_lease_name
from stoker.runs.model import (
    PROCESS_DIED,
    CancelRequest,
    Manifest,
    Run,
    RunKey,
    RunState,
    StepTiming,
    choose_run_time,
    compute_config_hash,
)

if TYPE_CHECKING:
    from stoker.settings import Settings

MAX_NAME_ATTEMPTS = 60  # seconds to look ahead for a free timestamp before giving up

# Between attempts to write how a run ended; a database restarts in less than all of it.
CLOSE_RETRY_DELAYS = tuple(timedelta(seconds=wait) for wait in (1, 2, 4, 8))

_Result = TypeVar("_Result")

STOPPED = "stopped before it was finished"

MAX_DEAD_RUNS = 50  # runs looked at when closing what a dead process left; it leaves one


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How the work ended."""

    state: RunState = RunState.DONE
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, int] = field(default_factory=dict)
    selected: tuple[str, ...] = ()
    sources: tuple[StepTiming, ...] = ()
    reasons: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    resume_at: datetime | None = None


class RunStep:
    """A step being timed; the work counts its items."""

    def __init__(self) -> None:
        self.items = 0


@dataclass(kw_only=True)
class RunHandle:
    """What the work is given: the right to write into its run, and a stopwatch."""

    key: RunKey
    kind: str
    store: TenantStores
    clock: Clock
    observer: Observer
    timings: list[StepTiming] = field(default_factory=list)
    partial_counts: dict[str, int] = field(
        default_factory=dict
    )  # also recorded of a run that is cancelled
    rule: dict[str, Json] = field(default_factory=dict)  # by which companies are chosen
    stop_accepting_work: Callable[[], None] | None = None  # None: it can only be cut off

    @contextmanager
    def on_cancel(self, stop_accepting_work: Callable[[], None]) -> Iterator[None]:
        """While inside, call this function when the run is cancelled; the work then ends."""
        self.stop_accepting_work = stop_accepting_work
        try:
            yield
        finally:
            self.stop_accepting_work = None

    @contextmanager
    def time_step(self, name: str) -> Iterator[RunStep]:
        """Time one step; it is in the manifest also when it fails."""
        step, began = RunStep(), self.clock.elapsed()
        try:
            yield step
        finally:
            seconds = (self.clock.elapsed() - began).total_seconds()
            timing = StepTiming(step=name, seconds=seconds, items=step.items)
            self.timings.append(timing)
            self.report_step(timing)

    def report_step(self, timing: StepTiming) -> None:
        """Report that a step ended, with what it took."""
        self.observer(
            StepEnded(
                at=self.clock.now(),
                tenant=self.store.tenant,
                run=Run(key=self.key, kind=self.kind).name,
                step=timing.step,
                seconds=timing.seconds,
                items=timing.items,
            )
        )


class RunJob(Protocol):
    """Something that can be run for a tenant."""

    @property
    def kind(self) -> str:
        """The name of this kind of work, as runs are listed under it."""
        ...

    async def __call__(self, run: RunHandle) -> RunResult:
        """Do the work. Expected failures are in the result; an exception ends the run FAILED."""
        ...


Summarize = Callable[[TenantStores, Run], Awaitable[RunResult]]
"""Returns how far a run that was cut off got: state CANCELLED, its counts, cost and rest."""


async def summarize_nothing(store: TenantStores, run: Run) -> RunResult:
    """Return the result of a run of which only the end is known."""
    return RunResult(state=RunState.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Starts, executes and closes runs.

    `summarize` reads how far a run got that was cut off.
    """

    leases: LeaseHolder
    cancel_watcher: CancelWatcher = field(default_factory=CancelWatcher)
    summarize: Summarize = summarize_nothing

    @property
    def clock(self) -> Clock:
        """The clock by which runs start and end."""
        return self.leases.clock

    @property
    def observer(self) -> Observer:
        """Receives what happens to runs."""
        return self.leases.observer

    async def run_now(self, store: TenantStores, job: RunJob, *, manifest: Manifest) -> Run:
        """Run a job by hand, due or not. Raises ConflictError while one of its kind is running."""
        lease = await self.leases.acquire(store, get_lease_name(job.kind), task="by hand")
        if lease is None:
            raise await _build_busy_error(store, job.kind)
        return await self.leases.run_while_held(
            store, lease, self._run_under_lease(store, job, lease, manifest)
        )

    async def _run_under_lease(
        self, store: TenantStores, job: RunJob, lease: Lease, manifest: Manifest
    ) -> Run:
        await self.close_dead_runs(store, lease, kind=job.kind)
        run = await self.start_run(store, lease, kind=job.kind, manifest=manifest)
        return await self.execute(store, run, job)

    async def start_run(
        self,
        store: TenantStores,
        lease: Lease,
        *,
        kind: str,
        manifest: Manifest,
        instant: datetime | None = None,
    ) -> Run:
        """Insert a run that begins now, under the first free second from now on."""
        used = {
            f"{use.cap} {use.window}": use.used.total for use in await store.budgets.list_usage()
        }
        custom_limits = list_custom_limits(
            await store.budgets.list_cap_changes(), now=self.clock.now()
        )
        manifest = replace(manifest, budgets=used, caps={**manifest.caps, **custom_limits})
        newest = await store.runs.list_runs(limit=1)
        at = choose_run_time(self.clock.now(), taken=newest[0].at if newest else None)
        for _ in range(MAX_NAME_ATTEMPTS):
            key = RunKey(at, lease.fencing_token)
            run = Run(key=key, kind=kind, instant=instant, manifest=manifest)
            try:
                await store.runs.insert_run(run)
            except ConflictError:
                at += timedelta(seconds=1)  # another kind of work began in the same second
                continue
            self.observer(RunStarted(at=at, tenant=store.tenant, run=run.name, kind=kind))
            return run
        raise ConflictError(f"no free timestamp for a {kind} run near {at.isoformat()}; try again")

    async def execute(self, store: TenantStores, run: Run, work: RunJob) -> Run:
        """Do the work of a started run; return the run as it ended.

        A cancelled run ends CANCELLED; so does one whose task is cancelled, and CancelledError is
        raised: the first time the work may still end by itself. Raises ConflictError when another
        process closed the run meanwhile.
        """
        opened = RunHandle(
            key=run.key, kind=run.kind, store=store, clock=self.clock, observer=self.observer
        )
        doing = asyncio.ensure_future(work(opened))

        def stop_accepting_work(by: str) -> bool:
            self.observer(
                RunAskedToStop(at=self.clock.now(), tenant=store.tenant, run=run.name, by=by)
            )
            if opened.stop_accepting_work is None:
                return False
            opened.stop_accepting_work()
            return True

        try:
            request = await self.cancel_watcher.run_until_cancelled(
                doing,
                find_request=lambda: store.runs.find_cancel_request(run.at),
                stop_accepting_work=stop_accepting_work,
            )
            if request is None or not doing.cancelled():
                ending = await self._get_result(doing, opened, run)
            else:
                ending = await self._summarize_partial(store, run, counted=opened.partial_counts)
        except asyncio.CancelledError:
            with suppress(ConflictError):  # another process closed it as dead: that end stays
                await finish_despite_cancel(self._close_stopped(doing, opened, run))
            raise
        if request is not None:
            ending = _to_cancelled(ending, request.reason)
        return await self._close_handle(opened, run, ending)

    async def close_cancelled(self, store: TenantStores, run: Run, request: CancelRequest) -> Run:
        """Close a run as CANCELLED that was asked to stop and whose process died."""
        ending = await self._summarize_partial(store, run)
        ending = replace(ending, reason=f"{request.reason}; {PROCESS_DIED}")
        return await self.close_run(store, run, ending, timings=[])

    async def _close_stopped(
        self, doing: asyncio.Future[RunResult], opened: RunHandle, run: Run
    ) -> Run:
        if doing.cancelled() or not doing.done() or doing.exception() is not None:
            ending = await self._summarize_partial(opened.store, run, counted=opened.partial_counts)
            ending = replace(ending, reason=STOPPED)
        else:
            ending = _to_cancelled(doing.result(), STOPPED)
        return await self._close_handle(opened, run, ending)

    async def _close_handle(self, opened: RunHandle, run: Run, ending: RunResult) -> Run:
        run = replace(run, manifest=replace(run.manifest, rule=opened.rule))
        return await self.close_run(opened.store, run, ending, timings=opened.timings)

    async def _get_result(
        self, doing: asyncio.Future[RunResult], opened: RunHandle, run: Run
    ) -> RunResult:
        """Return how work ended that is over; an exception becomes an end with a reason."""
        try:
            return doing.result()
        except StokerError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001  # the one place: a fault of ours ends one run, not all
            reason = f"internal error: {type(error).__name__}: {error}"
        ending = await self._summarize_partial(opened.store, run, counted=opened.partial_counts)
        return replace(ending, state=RunState.FAILED, reason=reason)

    async def _summarize_partial(
        self, store: TenantStores, run: Run, *, counted: Mapping[str, int] | None = None
    ) -> RunResult:
        """Return what a run that was cut off had come to: what it did, cost, and what remains.

        `counted` is what its work had counted by then, where that is known.
        """
        try:
            partial = await self.summarize(store, run)
        except StokerError:
            partial = await summarize_nothing(store, run)  # that it ended matters more
        return replace(partial, counts={**(counted or {}), **partial.counts})

    async def close_run(
        self, store: TenantStores, run: Run, ending: RunResult, *, timings: list[StepTiming]
    ) -> Run:
        """Write how a run ended."""
        now = self.clock.now()
        ended = _build_ended_run(run, ending, timings, now=now)
        await self._write_end(store, ended)
        self.observer(
            RunEnded(
                at=now,
                tenant=store.tenant,
                run=ended.name,
                kind=ended.kind,
                state=ended.state.value,
                reason=ended.reason,
            )
        )
        return ended

    async def _write_end(self, store: TenantStores, ended: Run) -> None:
        # The work is done and only we know how it went: a store that is away for a time, or whose
        # answer was lost, must not make a finished run look dead.
        unsure = False

        async def write() -> None:
            nonlocal unsure
            there = await store.runs.find_run(ended.at) if unsure else None
            if there is not None and there.ended_at == ended.ended_at:
                return
            try:
                await store.runs.finish_run(ended)
            except UncertainError:
                unsure = True
                raise

        await retry(write, delays=CLOSE_RETRY_DELAYS, sleep=self.clock.sleep)

    async def close_dead_runs(self, store: TenantStores, lease: Lease, *, kind: str) -> list[Run]:
        """Close what an earlier holder of this lease left running; return those runs.

        CANCELLED if there was a cancel request, else FAILED.
        """
        return [
            await self.close_dead_run(store, run)
            for run in await store.runs.list_runs(kind=kind, limit=MAX_DEAD_RUNS)
            if run.state is RunState.RUNNING and run.key.fencing_token < lease.fencing_token
        ]

    async def close_dead_run(self, store: TenantStores, run: Run) -> Run:
        """Close a run whose process died: CANCELLED if there was a cancel request, else FAILED.

        Its counts are as far as the store has them. Raises ConflictError when it has ended
        meanwhile.
        """
        if (request := await store.runs.find_cancel_request(run.at)) is not None:
            return await self.close_cancelled(store, run, request)
        ending = replace(
            await self._summarize_partial(store, run), state=RunState.FAILED, reason=PROCESS_DIED
        )
        now = self.clock.now()
        ended = _build_ended_run(run, ending, [], now=now)
        await store.runs.finish_run(ended)
        self.observer(RunGivenUp(at=now, tenant=store.tenant, run=ended.name, reason=PROCESS_DIED))
        return ended


async def _build_busy_error(store: TenantStores, kind: str) -> ConflictError:
    seen = await store.schedule.find_lease(get_lease_name(kind))
    gone = ""
    if seen is not None and seen.owner:
        at = f"{compute_expiry(seen):%Y-%m-%d %H:%M:%S} UTC"
        gone = f"; if its process is gone, try again after {at}"
    return ConflictError(
        f"{kind} is running for {store.tenant} already; "
        f"see it with: stoker runs list --tenant {store.tenant}{gone}"
    )


def _build_ended_run(
    run: Run, ending: RunResult, timings: list[StepTiming], *, now: datetime
) -> Run:
    # Reasons may quote foreign text, which must not keep the end from being stored.
    manifest = replace(
        run.manifest,
        counts=dict(ending.counts),
        cost=dict(ending.cost),
        selected=ending.selected,
        sources=ending.sources,
        steps=tuple(timings),
        reasons=tuple(map(clean_text, ending.reasons)),
        remaining=ending.remaining,
        lacking=ending.lacking,
        resume_at=ending.resume_at,
    )
    return run.end(ending.state, at=now, reason=clean_text(ending.reason), manifest=manifest)


def _to_cancelled(ending: RunResult, because: str) -> RunResult:
    """Return the result of cancelled work: DONE and FAILED stay."""
    if ending.state in (RunState.DONE, RunState.FAILED):
        return ending
    return replace(
        ending,
        state=RunState.CANCELLED,
        reason=because,
        reasons=(
            *filter(None, [ending.reason]),
            *(reason for reason in ending.reasons if reason not in ending.reason),
        ),
        resume_at=None,
    )


def build_manifest(own: Settings) -> Manifest:
    """Return the manifest of a run that starts with a tenant's settings."""
    snapshot = own.snapshot()
    return Manifest(
        config_hash=compute_config_hash(snapshot), config=snapshot, caps=own.list_cap_values()
    )


async def run_for_tenants(
    tenants: Sequence[TenantId],
    work: Callable[[TenantId], Awaitable[_Result]],
    *,
    concurrency: int,
) -> tuple[list[_Result], list[tuple[TenantId, StokerError]]]:
    """Run the work for each tenant, at most `concurrency` at once.

    Returns the results, and the tenants whose work raised: one tenant's error does not stop the
    others. Any other exception, and cancellation, ends all.
    """
    slots = asyncio.Semaphore(concurrency)

    async def run(tenant: TenantId) -> _Result | StokerError:
        async with slots:
            try:
                return await work(tenant)
            except StokerError as error:
                return error

    ended = await asyncio.gather(*(run(tenant) for tenant in tenants))
    done = [each for each in ended if not isinstance(each, StokerError)]
    failed = [
        (tenant, each)
        for tenant, each in zip(tenants, ended, strict=True)
        if isinstance(each, StokerError)
    ]
    return done, failed
