"""Run one tenant's discovery: read sources, save postings, add signals, export, clean up.

Imports sources in the order of the settings, batch by batch, so that memory stays flat and the same
input gives the same files. A source that fails is reported and the others continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.events import SourceFailed
from stoker.db.database import delete_in_batches
from stoker.discovery.enrichment import VERSION, score_job
from stoker.discovery.files import PostingFiles
from stoker.discovery.matching import (
    DuplicateIndex,
    EmployerIndex,
    add_hiring_signals,
    compute_duplicate_keys,
)
from stoker.discovery.model import Listing, Postings, Validators
from stoker.discovery.reader import FetchJob, ReadSource, SourceReader, prefetch_sources
from stoker.discovery.report import (
    SourceReport,
    Totals,
    build_counts,
    compute_outcome,
    list_reasons,
)
from stoker.discovery.sources import (
    SourceRecord,
    SourceSpec,
    SourceState,
    build_display_names,
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


@dataclass(kw_only=True)
class _SourceCounts:
    """What one source listed, as far as it was taken in."""

    listed: int = 0
    new: int = 0
    twins: int = 0
    rejected: int = 0
    requests: int = 0
    truncated: bool = False
    unchanged: bool = False
    validators: Validators = field(default_factory=Validators)
    error: str = ""


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
        stuck: tuple[str, ...] = ()
        if self._retention is not None:
            with run.time_step("retention") as step:
                step.items = await _delete_old(run, self._retention, zone=self._zone)
                if self._files is not None:
                    deleted, wrong = await _delete_old_files(run, self._retention, self._files)
                    step.items, stuck = step.items + deleted, (wrong,) if wrong else ()
        totals = Totals(
            kept=intake.saved,
            enriched=intake.saved if rule.enrich else 0,
            scored=intake.saved if rule.enrich else 0,
            employers_matched=hired.accounts,
            matched=hired.matched,
            signals=hired.new,
        )
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
        fetch_jobs = [
            FetchJob(
                source=source, known=await _find_usable_validators(run, known.get(source.name))
            )
            for source in self._rule.sources
        ]
        reports = []
        ahead = prefetch_sources(
            fetch_jobs, self._read_source, concurrency=self._concurrency, clock=run.clock
        )
        async with aclosing(ahead) as readings:
            async for reading in readings:
                before = known.get(reading.fetch_job.source.name)
                taken = await intake.import_source(reading, before)
                shown = intake.display_names[reading.fetch_job.source.name]
                reports.append(await _record_source(run, reading, before, taken, shown=shown))
        return reports


class _Importer:
    """Imports postings of sources into the run and the store, and collects employers."""

    def __init__(self, run: RunHandle, rule: DiscoverySettings) -> None:
        self._run = run
        self._rule = rule
        self._duplicates = DuplicateIndex() if len(rule.sources) > 1 else None
        self.display_names = build_display_names(rule.sources)
        self.employers = EmployerIndex()
        self.rejects: list[str] = []
        self.saved = 0

    async def import_source(
        self, reading: SourceReader, before: SourceRecord | None
    ) -> _SourceCounts:
        """Take in one source to its end, or as far as it can be read."""
        source, taken = reading.fetch_job.source, _SourceCounts()
        while True:
            try:
                batch = await reading.read_batch()
            except (TransientError, PermanentError, ConfigError) as error:
                taken.error = str(error)
                break
            if batch is None:
                break
            self._add_counts(source, batch, taken)
            if batch.unchanged and before is not None:
                await self._import_stored(source, before, taken)
            else:
                await self._import_listings(source, batch.listings, taken)
        if self._duplicates is not None:
            self._duplicates.finish_source()
        return taken

    def _add_counts(self, source: SourceSpec, batch: Postings, taken: _SourceCounts) -> None:
        taken.requests += batch.requests
        taken.rejected += batch.rejected
        taken.truncated |= batch.truncated
        taken.unchanged |= batch.unchanged
        taken.validators = batch.validators
        room = MAX_SHOWN_REJECTS - len(self.rejects)
        self.rejects += [
            f"{self.display_names[source.name]}, {each.where}: {each.reason}"
            for each in batch.rejects[:room]
        ]

    async def _import_stored(
        self, source: SourceSpec, before: SourceRecord, taken: _SourceCounts
    ) -> None:
        """Take in once more what an unchanged source listed the last time."""
        after, since = "", before.read_at or before.tried_at
        while page := await self._run.store.listings.list_listings(
            source.name, since=since, after=after, limit=PAGE_SIZE
        ):
            after = page[-1].listing.job.id
            await self._import_listings(source, [each.listing for each in page], taken)

    async def _import_listings(
        self, source: SourceSpec, listings: Sequence[Listing], taken: _SourceCounts
    ) -> None:
        run, store = self._run, self._run.store
        marked = self._mark_duplicates(listings)
        # In the order of their ids: stores put rows beside each other then.
        own = sorted(
            (each for each in marked if not each.is_duplicate), key=lambda each: each.job.id
        )
        taken.listed += len(marked)
        taken.twins += len(marked) - len(own)
        # What does not need the other is written together, so that one commit is for both.
        new, saved = await _await_both(
            store.listings.save_listings(source.name, marked, at=run.key.at),
            store.runs.insert_jobs(run.key, [listing.job for listing in own]),
        )
        taken.new, self.saved = taken.new + new, self.saved + saved
        if self._rule.enrich:
            says = [listing.enriched for listing in own]
            scores = [score_job(each, self._rule) for each in says]
            await _await_both(
                store.runs.insert_enriched(run.key, says),
                store.runs.insert_scores(run.key, scores),
            )
        for listing in own:
            self.employers.add_posting(source, listing.job)

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
    run: RunHandle,
    reading: SourceReader,
    before: SourceRecord | None,
    taken: _SourceCounts,
    *,
    shown: str,
) -> SourceReport:
    """Save how reading a source went, and return its report."""
    name, at, listings = reading.fetch_job.source.name, run.key.at, run.store.listings
    known = taken.unchanged and before is not None and before.state is not SourceState.FAILED
    # What is unchanged is as little whole as it was.
    lacks = before.reason if known and before else TRUNCATED_REASON if taken.truncated else ""
    if taken.error:
        old = before or SourceRecord(name=name, state=SourceState.FAILED, tried_at=at)
        await listings.save_source(
            replace(old, state=SourceState.FAILED, tried_at=at, reason=taken.error)
        )
        run.observer(
            SourceFailed(
                at=run.clock.now(),
                tenant=run.store.tenant,
                run=Run(key=run.key, kind=run.kind).name,
                source=shown,
                reason=taken.error,
            )
        )
        state, gone = SourceState.FAILED, 0
    else:
        state = SourceState.UNCHANGED if taken.unchanged else SourceState.READ
        since = before.read_at if before else None
        gone = await listings.count_listings(name, since=since, before=at) if since else 0
        there = await listings.count_listings(name, since=at, before=at + timedelta(seconds=1))
        await listings.save_source(
            SourceRecord(
                name=name,
                state=state,
                tried_at=at,
                read_at=at,
                version=VERSION,
                validators=taken.validators,
                listed=there,
                reason=lacks,
            )
        )
    return SourceReport(
        name=shown,
        state=state,
        reason=taken.error or lacks,
        listed=taken.listed,
        new=taken.new,
        gone=gone,
        twins=taken.twins,
        rejected=taken.rejected,
        requests=taken.requests,
        elapsed=reading.elapsed,
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
