"""Run one tenant's discovery: read sources, save postings, add signals, export, clean up.

Imports sources in the order of the settings, batch by batch, so that memory stays flat and the same
input gives the same files. Sources are read ahead, a few at a time; one that asks for a short wait
is tried again, one that fails is reported, and the others continue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.events import SourceFailed
from stoker.base.retry import compute_backoff
from stoker.db.database import delete_in_batches
from stoker.discovery.duplicates import DuplicateIndex, compute_duplicate_keys
from stoker.discovery.enrichment import VERSION, score_job
from stoker.discovery.files import PostingFiles
from stoker.discovery.matching import EmployerIndex, add_hiring_signals
from stoker.discovery.model import Listing, Postings, Validators
from stoker.discovery.sources import (
    SourceRecord,
    SourceReport,
    SourceSpec,
    SourceState,
    build_counts,
    build_display_names,
    build_summary,
    compute_outcome,
    list_reasons,
)
from stoker.runs.model import Run, StepTiming, format_run_name
from stoker.runs.prune import apply_retention
from stoker.runs.service import RunHandle, RunResult
from stoker.runs.settings import RetentionRule

if TYPE_CHECKING:
    from stoker.discovery.settings import DiscoverySettings
    from stoker.heat.settings import HeatSettings

KIND = "discovery"
PAGE_SIZE = 1000
TRUNCATED_REASON = "it lists more than is taken from one source"
MAX_SHOWN_REJECTS = 100  # listed with their positions; the others are only counted
MAX_ATTEMPTS = 3
MAX_WAIT = timedelta(minutes=2)  # a source that asks us to wait for longer, is


ReadSource = Callable[[SourceSpec, Validators | None], AsyncIterator[Postings]]
"""Yields what a source lists, batch by batch; with known validators, it may be unchanged.

Raises TransientError when later may work, PermanentError when there is nothing to read, and
ConfigError when a person must act first.
"""


class DiscoveryRun:
    """The job of a discovery run. Without `files` it writes none, without `retention` it keeps all.

    At most `concurrency` sources are read at once; `zone` is where days begin.
    """

    kind = KIND

    def __init__(
        self,
        rule: DiscoverySettings,
        *,
        heat: HeatSettings,
        read_source: ReadSource,
        files: PostingFiles | None,
        concurrency: int = 4,
        zone: str = "UTC",
        retention: RetentionRule | None = None,
    ) -> None:
        self._rule, self._heat, self._read_source, self._files = rule, heat, read_source, files
        self._concurrency, self._zone, self._retention = concurrency, zone, retention

    async def __call__(self, run: RunHandle) -> RunResult:
        """Discover. Sources that fail make the run PARTIAL, or FAILED when all of them do."""
        rule, sources = self._rule, self._rule.sources
        if not sources:
            raise ConfigError("there is no source of postings; set discovery.sources")
        intake = _Importer(run, rule)
        with run.time_step("read") as step:
            reports = await self._read_sources(run, intake)
            step.items = intake.saved
        with run.time_step("signals") as step:
            hired = await add_hiring_signals(
                run.store,
                sources,
                intake.employers,
                strength=rule.signal_strength,
                heat=self._heat,
                listed_at=run.key.at,
                now=run.clock.now(),
            )
            step.items = hired.matched
        if self._files is not None:
            with run.time_step("export") as step:
                this = Run(key=run.key, kind=run.kind)
                step.items = await self._files.write(run.store.runs, this, enriched=rule.enrich)
                summary = build_summary(run.key.at, reports, exported=intake.saved)
                await self._files.write_summary(this, summary)
        stuck: tuple[str, ...] = ()
        if self._retention is not None:
            with run.time_step("retention") as step:
                step.items = await _delete_old(run, self._retention, zone=self._zone)
                if self._files is not None:
                    deleted, wrong = await _delete_old_files(run, self._retention, self._files)
                    step.items, stuck = step.items + deleted, (wrong,) if wrong else ()
        totals = {
            "kept": intake.saved,
            "enriched": intake.saved if rule.enrich else 0,
            "scored": intake.saved if rule.enrich else 0,
            "employers_matched": hired.accounts,
            "matched": hired.matched,
            "signals": hired.new,
        }
        state, reason = compute_outcome(reports)
        return RunResult(
            state=state,
            reason=reason,
            counts=build_counts(reports, totals),
            selected=tuple(build_display_names(sources).values()),
            sources=tuple(
                StepTiming(step=each.name, seconds=each.elapsed.total_seconds(), items=each.listed)
                for each in reports
            ),
            reasons=(*list_reasons(reports, rejects=intake.rejects), *stuck),
            remaining=tuple(each.name for each in reports if each.state is SourceState.FAILED),
        )

    async def _read_sources(self, run: RunHandle, intake: _Importer) -> list[SourceReport]:
        known = {seen.name: seen for seen in await run.store.listings.list_sources()}
        wanted = [
            (source, await _find_usable_validators(run, known.get(source.name)))
            for source in self._rule.sources
        ]
        reports = []
        ahead = prefetch_sources(
            wanted, self._read_source, concurrency=self._concurrency, clock=run.clock
        )
        async with aclosing(ahead) as readings:
            async for reading in readings:
                before = known.get(reading.source.name)
                report = await intake.import_source(reading, before)
                await _record_source(run, reading.source.name, before, report)
                reports.append(report)
        return reports


class SourceReader:
    """One source as it is being read; the first batch is on its way already."""

    def __init__(
        self, source: SourceSpec, batches: AsyncGenerator[Postings, None], clock: Clock
    ) -> None:
        self.source, self._batches, self._clock = source, batches, clock
        self.elapsed = timedelta(0)  # spent reading this source so far
        self._next: asyncio.Task[Postings | None] = asyncio.create_task(self._read_next())

    async def read_batch(self) -> Postings | None:
        """Return what the source lists next; None when that was all. Raises as `ReadSource`."""
        batch = await self._next
        if batch is not None:
            self._next = asyncio.create_task(self._read_next())
        return batch

    async def close(self) -> None:
        """Stop reading the source, wherever it is."""
        self._next.cancel()
        await asyncio.wait([self._next])
        if not self._next.cancelled():
            self._next.exception()  # already raised, or no longer needed
        await self._batches.aclose()

    async def _read_next(self) -> Postings | None:
        began = self._clock.elapsed()
        try:
            return await anext(self._batches, None)
        finally:
            self.elapsed += self._clock.elapsed() - began


async def prefetch_sources(
    wanted: Sequence[tuple[SourceSpec, Validators | None]],
    read_source: ReadSource,
    *,
    concurrency: int,
    clock: Clock,
) -> AsyncGenerator[SourceReader, None]:
    """Yield sources in their order, each under way already; at most so many at once."""
    waiting = deque(wanted)
    going: deque[SourceReader] = deque()
    try:
        while waiting or going:
            while waiting and len(going) < concurrency:
                source, known = waiting.popleft()
                batches = _read_with_retry(read_source, source, known, clock)
                going.append(SourceReader(source, batches, clock))
            yield going[0]
            await going.popleft().close()
    finally:
        for reading in going:
            await reading.close()


async def _read_with_retry(
    read_source: ReadSource, source: SourceSpec, known: Validators | None, clock: Clock
) -> AsyncGenerator[Postings, None]:
    for attempt in range(1, MAX_ATTEMPTS + 1):
        begun = False
        try:
            async for batch in read_source(source, known):
                begun = True
                yield batch
            return
        except TransientError as error:
            wait = error.retry_after or compute_backoff(attempt, chance=0.5)
            if begun or attempt == MAX_ATTEMPTS or wait > MAX_WAIT:
                raise
        await clock.sleep(wait)


class _Importer:
    """Imports postings of sources into the run and the store, and collects employers."""

    def __init__(self, run: RunHandle, rule: DiscoverySettings) -> None:
        self._run = run
        self._rule = rule
        self._duplicates = DuplicateIndex() if len(rule.sources) > 1 else None
        self._display_names = build_display_names(rule.sources)
        self.employers = EmployerIndex()
        self.rejects: list[str] = []
        self.saved = 0

    async def import_source(
        self, reading: SourceReader, before: SourceRecord | None
    ) -> SourceReport:
        """Take in one source to its end, or as far as it can be read."""
        source = reading.source
        report = SourceReport(name=self._display_names[source.name])
        while True:
            try:
                batch = await reading.read_batch()
            except (TransientError, PermanentError, ConfigError) as error:
                report.state, report.reason = SourceState.FAILED, str(error)
                break
            if batch is None:
                break
            self._add_counts(batch, report)
            if batch.unchanged and before is not None:
                await self._import_stored(source, before, report)
            else:
                await self._import_listings(source, batch.listings, report)
        if self._duplicates is not None:
            self._duplicates.finish_source()
        report.elapsed = reading.elapsed
        return report

    def _add_counts(self, batch: Postings, report: SourceReport) -> None:
        report.requests += batch.requests
        report.rejected += batch.rejected
        report.truncated |= batch.truncated
        report.validators = batch.validators
        report.columns = batch.columns or report.columns
        if batch.unchanged:
            report.state = SourceState.UNCHANGED
        room = MAX_SHOWN_REJECTS - len(self.rejects)
        self.rejects += [
            f"{report.name}, {each.where}: {each.reason}" for each in batch.rejects[:room]
        ]

    async def _import_stored(
        self, source: SourceSpec, before: SourceRecord, report: SourceReport
    ) -> None:
        """Take in once more what an unchanged source listed the last time."""
        after, since = "", before.read_at or before.tried_at
        while page := await self._run.store.listings.list_listings(
            source.name, since=since, after=after, limit=PAGE_SIZE
        ):
            after = page[-1].listing.job.id
            await self._import_listings(source, [each.listing for each in page], report)

    async def _import_listings(
        self, source: SourceSpec, listings: Sequence[Listing], report: SourceReport
    ) -> None:
        run, store = self._run, self._run.store
        # Not on the event loop: addresses from outside may be of any kind.
        marked = await asyncio.to_thread(self._recognize, source, listings)
        # In the order of their ids: stores put rows beside each other then.
        own = sorted(
            (each for each in marked if not each.is_duplicate), key=lambda each: each.job.id
        )
        report.listed += len(marked)
        report.twins += len(marked) - len(own)
        # What does not need the other is written together, so that one commit is for both.
        new, saved = await _await_both(
            store.listings.save_listings(source.name, marked, at=run.key.at),
            store.runs.insert_jobs(run.key, [listing.job for listing in own]),
        )
        report.new, self.saved = report.new + new, self.saved + saved
        if self._rule.enrich:
            says = [listing.enriched for listing in own]
            scores = [score_job(each, self._rule) for each in says]
            await _await_both(
                store.runs.insert_enriched(run.key, says),
                store.runs.insert_scores(run.key, scores),
            )

    def _recognize(self, source: SourceSpec, listings: Sequence[Listing]) -> Sequence[Listing]:
        """Return postings with duplicates marked; the employers of the others are known after."""
        marked = self._mark_duplicates(listings)
        for each in marked:
            if not each.is_duplicate:
                self.employers.add_posting(source, each.job)
        return marked

    def _mark_duplicates(self, listings: Sequence[Listing]) -> Sequence[Listing]:
        if self._duplicates is None:
            return [
                replace(each, is_duplicate=False) if each.is_duplicate else each
                for each in listings
            ]
        found = self._duplicates.mark_duplicates(
            [compute_duplicate_keys(listing.job) for listing in listings]
        )
        return [
            listing if listing.is_duplicate is twin else replace(listing, is_duplicate=twin)
            for listing, twin in zip(listings, found, strict=True)
        ]


async def _await_both(one: Awaitable[int], other: Awaitable[int]) -> tuple[int, int]:
    """Return both answers; when one fails, only after the other has ended, too."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    if isinstance(first, BaseException):
        raise first
    if isinstance(second, BaseException):
        raise second
    return first, second


async def _find_usable_validators(run: RunHandle, seen: SourceRecord | None) -> Validators | None:
    """Return a source's validators, or None unless all it listed is still stored."""
    if seen is None or seen.read_at is None or seen.version != VERSION:
        return None
    there = await run.store.listings.count_listings(
        seen.name, since=seen.read_at, before=run.key.at
    )
    return seen.validators if there == seen.listed else None


async def _record_source(
    run: RunHandle, name: str, before: SourceRecord | None, report: SourceReport
) -> None:
    """Save how reading a source went, and complete its report."""
    at, listings = run.key.at, run.store.listings
    if report.state is SourceState.FAILED:
        old = before or SourceRecord(name=name, state=report.state, tried_at=at)
        await listings.save_source(
            replace(old, state=report.state, tried_at=at, reason=report.reason)
        )
        run.observer(
            SourceFailed(
                at=run.clock.now(),
                tenant=run.store.tenant,
                run=Run(key=run.key, kind=run.kind).name,
                source=report.name,
                reason=report.reason,
            )
        )
        return
    was_read = before is not None and before.state is not SourceState.FAILED
    if before is not None and was_read and report.state is SourceState.UNCHANGED:
        report.reason = before.reason  # what is unchanged is as little whole as it was
    elif report.truncated:
        report.reason = TRUNCATED_REASON
    if before is not None and before.read_at is not None:
        report.gone = await listings.count_listings(name, since=before.read_at, before=at)
    there = await listings.count_listings(name, since=at, before=at + timedelta(seconds=1))
    await listings.save_source(
        SourceRecord(
            name=name,
            state=report.state,
            tried_at=at,
            read_at=at,
            version=VERSION,
            validators=report.validators,
            listed=there,
            reason=report.reason,
        )
    )


async def _delete_old(run: RunHandle, rule: RetentionRule, *, zone: str) -> int:
    """Delete old runs, and postings that have not been listed for as long."""
    now = run.clock.now()
    gone = (await apply_retention(run, rule=rule, zone=zone, now=now)).rows
    before = run.key.at - timedelta(days=rule.days)
    return gone + await delete_in_batches(
        partial(run.store.listings.delete_listings, before=before)
    )


async def _delete_old_files(
    run: RunHandle, rule: RetentionRule, files: PostingFiles
) -> tuple[int, str]:
    """Delete the files of deleted runs; files younger than the retention stay."""
    remaining = {each.name for each in await run.store.runs.list_runs()}
    before = format_run_name(run.key.at - timedelta(days=rule.days))
    return await files.delete_files(lambda name: name < before and name not in remaining)
