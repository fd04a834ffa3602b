"""A tenant's discovery: read its sources, keep what they list, say who hires, export, forget.

Sources are taken in by the order settings have them in, batch by batch, so memory stays flat and
the same input gives the same files. A source that fails is told of, and the others go on.

A tenant's discovery put together from settings: its sources, what is made of them, its files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.events import SourceFailed
from stoker.base.types import TenantId
from stoker.discovery.boards import AskedSource, FileSource
from stoker.discovery.enrichment import VERSION, JobScoreRule, job_score
from stoker.discovery.export import PostingFiles
from stoker.discovery.hiring import HiringRule, tell_who_hires
from stoker.discovery.matching import Employers, Twins, twin_keys
from stoker.discovery.model import Listing, Postings, Validators
from stoker.discovery.reader import Errand, Reading, read_ahead
from stoker.discovery.report import SourceReport, Totals, counts_of, ending_of, reasons_of
from stoker.discovery.sources import (
    PostingSource,
    SourceKind,
    SourceSeen,
    SourceState,
    WantedSource,
    shown_names,
)
from stoker.runs.model import Run, RunStore, StepTiming, run_name
from stoker.runs.prune import forgotten
from stoker.runs.retention import RetentionRule
from stoker.runs.service import Ending, OpenRun

if TYPE_CHECKING:
    from stoker.connectors import Connectors
    from stoker.settings import Settings

KIND = "discovery"

PAGE = 1000

NOT_WHOLE = "it lists more than is taken from one source"

MOST_REJECTS = 100  # told with their places; the others are only counted


class Artifacts(Protocol):
    """Writes what a run found to files that other programs open."""

    async def write(self, runs: RunStore, run: Run, *, enriched: bool) -> int:
        """Write a run's files, each whole or not at all; return how many rows that were."""
        ...

    async def forget(self, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
        """Remove the files of forgotten runs; return how many, and what was wrong, if anything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOrder:
    """What one discovery does."""

    sources: tuple[WantedSource, ...]
    enrich: bool = False
    score: JobScoreRule = field(default_factory=JobScoreRule)
    hiring: HiringRule = field(default_factory=HiringRule)
    at_once: int = 4  # sources being read
    zone: str = "UTC"
    retention: RetentionRule | None = None  # None: nothing is forgotten


@dataclass(kw_only=True)
class _Taken:
    """What one source listed, as far as it was taken in."""

    listed: int = 0
    new: int = 0
    twins: int = 0
    rejected: int = 0
    requests: int = 0
    more: bool = False
    unchanged: bool = False
    validators: Validators = field(default_factory=Validators)
    failed: str = ""


class Discovery:
    """The discovery of one tenant."""

    kind = KIND

    def __init__(
        self,
        order: DiscoveryOrder,
        *,
        open_source: Callable[[WantedSource], PostingSource],
        artifacts: Artifacts | None,
    ) -> None:
        self._order = order
        self._open = open_source
        self._artifacts = artifacts

    async def __call__(self, run: OpenRun) -> Ending:
        """Discover. Sources that fail make the run PARTIAL, or FAILED when all of them do."""
        order = self._order
        if not order.sources:
            raise ConfigError("there is no source of postings; set discovery.sources")
        intake = _Intake(run, order)
        with run.step("read") as step:
            reports = await self._read(run, intake)
            step.items = intake.kept
        with run.step("signals") as step:
            hired = await tell_who_hires(
                run.store,
                order.sources,
                intake.employers,
                rule=order.hiring,
                listed_at=run.key.at,
                now=run.clock.now(),
            )
            step.items = hired.matched
        if self._artifacts is not None:
            with run.step("export") as step:
                this = Run(key=run.key, kind=run.kind)
                step.items = await self._artifacts.write(
                    run.store.runs, this, enriched=order.enrich
                )
        stuck: tuple[str, ...] = ()
        if order.retention is not None:
            with run.step("retention") as step:
                step.items = await _forget(run, order.retention, zone=order.zone)
                if self._artifacts is not None:
                    files, wrong = await _forget_files(run, order.retention, self._artifacts)
                    step.items, stuck = step.items + files, (wrong,) if wrong else ()
        totals = Totals(
            kept=intake.kept,
            enriched=intake.kept if order.enrich else 0,
            scored=intake.kept if order.enrich else 0,
            employers_matched=hired.accounts,
            matched=hired.matched,
            signals=hired.new,
        )
        state, reason = ending_of(reports)
        return Ending(
            state=state,
            reason=reason,
            counts=counts_of(reports, totals),
            selected=tuple(shown_names(order.sources).values()),
            sources=tuple(
                StepTiming(step=each.name, seconds=each.took.total_seconds(), items=each.listed)
                for each in reports
            ),
            reasons=(*reasons_of(reports, rejects=intake.rejects), *stuck),
            remaining=tuple(each.name for each in reports if each.state is SourceState.FAILED),
        )

    async def _read(self, run: OpenRun, intake: _Intake) -> list[SourceReport]:
        known = {seen.name: seen for seen in await run.store.listings.sources()}
        errands = [
            Errand(source=source, known=await _usable(run, known.get(source.name)))
            for source in self._order.sources
        ]
        reports = []
        ahead = read_ahead(errands, self._open, at_once=self._order.at_once, clock=run.clock)
        async with aclosing(ahead) as readings:
            async for reading in readings:
                before = known.get(reading.errand.source.name)
                taken = await intake.take_in(reading, before)
                shown = intake.shown[reading.errand.source.name]
                reports.append(await _reported(run, reading, before, taken, shown=shown))
        return reports


class _Intake:
    """Takes in what sources list: into the run, into memory, and whom it speaks of."""

    def __init__(self, run: OpenRun, order: DiscoveryOrder) -> None:
        self._run = run
        self._order = order
        self._twins = Twins() if len(order.sources) > 1 else None
        self.shown = shown_names(order.sources)
        self.employers = Employers()
        self.rejects: list[str] = []
        self.kept = 0

    async def take_in(self, reading: Reading, before: SourceSeen | None) -> _Taken:
        """Take in one source to its end, or as far as it can be read."""
        source, taken = reading.errand.source, _Taken()
        while True:
            try:
                batch = await reading.batch()
            except (TransientError, PermanentError, ConfigError) as error:
                taken.failed = str(error)
                break
            if batch is None:
                break
            self._count(source, batch, taken)
            if batch.unchanged and before is not None:
                await self._remembered(source, before, taken)
            else:
                await self._listed(source, batch.listings, taken)
        if self._twins is not None:
            self._twins.next_source()
        return taken

    def _count(self, source: WantedSource, batch: Postings, taken: _Taken) -> None:
        taken.requests += batch.requests
        taken.rejected += batch.rejected
        taken.more |= batch.more
        taken.unchanged |= batch.unchanged
        taken.validators = batch.validators
        room = MOST_REJECTS - len(self.rejects)
        self.rejects += [
            f"{self.shown[source.name]}, {each.where}: {each.because}"
            for each in batch.rejects[:room]
        ]

    async def _remembered(self, source: WantedSource, before: SourceSeen, taken: _Taken) -> None:
        """Take in once more what an unchanged source listed the last time."""
        after, since = "", before.read_at or before.tried_at
        while page := await self._run.store.listings.listings(
            source.name, since=since, after=after, limit=PAGE
        ):
            after = page[-1].listing.job.id
            await self._listed(source, [each.listing for each in page], taken)

    async def _listed(
        self, source: WantedSource, listings: Sequence[Listing], taken: _Taken
    ) -> None:
        run, store = self._run, self._run.store
        marked = self._marked(listings)
        # In the order of their ids: stores put rows beside each other then.
        own = sorted((each for each in marked if not each.twin), key=lambda each: each.job.id)
        taken.listed += len(marked)
        taken.twins += len(marked) - len(own)
        # What does not need the other is written together, so that one commit is for both.
        new, kept = await _both(
            store.listings.put_listings(source.name, marked, at=run.key.at),
            store.runs.insert_jobs(run.key, [listing.job for listing in own]),
        )
        taken.new, self.kept = taken.new + new, self.kept + kept
        if self._order.enrich:
            says = [listing.enriched for listing in own]
            scores = [job_score(each, self._order.score) for each in says]
            await _both(
                store.runs.insert_enriched(run.key, says),
                store.runs.insert_scores(run.key, scores),
            )
        for listing in own:
            self.employers.want(source, listing.job)

    def _marked(self, listings: Sequence[Listing]) -> Sequence[Listing]:
        if self._twins is None:
            return [replace(each, twin=False) if each.twin else each for each in listings]
        found = self._twins.among([twin_keys(listing.job) for listing in listings])
        return [
            listing if listing.twin is twin else replace(listing, twin=twin)
            for listing, twin in zip(listings, found, strict=True)
        ]


async def _both(one: Awaitable[int], other: Awaitable[int]) -> tuple[int, int]:
    """Return both answers; when one fails, only after the other has ended, too."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    if isinstance(first, BaseException):
        raise first
    if isinstance(second, BaseException):
        raise second
    return first, second


async def _usable(run: OpenRun, seen: SourceSeen | None) -> Validators | None:
    """Return what to ask a source with: nothing, unless all it listed is still remembered."""
    if seen is None or seen.read_at is None or seen.version != VERSION:
        return None
    there = await run.store.listings.count_listings(
        seen.name, since=seen.read_at, before=run.key.at
    )
    return seen.validators if there == seen.listed else None


async def _reported(
    run: OpenRun, reading: Reading, before: SourceSeen | None, taken: _Taken, *, shown: str
) -> SourceReport:
    """Remember how a source was found, and return it as it stands in the summary."""
    name, at, listings = reading.errand.source.name, run.key.at, run.store.listings
    known = taken.unchanged and before is not None and before.state is not SourceState.FAILED
    # What is unchanged is as little whole as it was.
    lacks = before.because if known and before else NOT_WHOLE if taken.more else ""
    if taken.failed:
        old = before or SourceSeen(name=name, state=SourceState.FAILED, tried_at=at)
        await listings.put_source(
            replace(old, state=SourceState.FAILED, tried_at=at, because=taken.failed)
        )
        run.observer(
            SourceFailed(
                at=run.clock.now(),
                tenant=run.store.tenant,
                run=Run(key=run.key, kind=run.kind).name,
                source=shown,
                reason=taken.failed,
            )
        )
        state, gone = SourceState.FAILED, 0
    else:
        state = SourceState.UNCHANGED if taken.unchanged else SourceState.READ
        since = before.read_at if before else None
        gone = await listings.count_listings(name, since=since, before=at) if since else 0
        there = await listings.count_listings(name, since=at, before=at + timedelta(seconds=1))
        await listings.put_source(
            SourceSeen(
                name=name,
                state=state,
                tried_at=at,
                read_at=at,
                version=VERSION,
                validators=taken.validators,
                listed=there,
                because=lacks,
            )
        )
    return SourceReport(
        name=shown,
        state=state,
        because=taken.failed or lacks,
        listed=taken.listed,
        new=taken.new,
        gone=gone,
        twins=taken.twins,
        rejected=taken.rejected,
        requests=taken.requests,
        took=reading.took,
    )


async def _forget(run: OpenRun, rule: RetentionRule, *, zone: str) -> int:
    """Let old runs go, and postings that have not been listed for as long."""
    now = run.clock.now()
    gone = (await forgotten(run, rule=rule, zone=zone, now=now)).rows
    before = run.key.at - timedelta(days=rule.days)
    while some := await run.store.listings.forget_listings(before=before):
        gone += some
    return gone


async def _forget_files(run: OpenRun, rule: RetentionRule, artifacts: Artifacts) -> tuple[int, str]:
    """Let files go whose runs have, whoever forgot them; a file as young as a kept run stays."""
    kept = {each.name for each in await run.store.runs.runs()}
    before = run_name(run.key.at - timedelta(days=rule.days))
    return await artifacts.forget(lambda name: name < before and name not in kept)


def order_of(
    own: Settings, *, enrich: bool | None = None, retention: RetentionRule | None = None
) -> DiscoveryOrder:
    """Return what a tenant's discovery does, as its settings say, or as somebody asks for."""
    said = own.discovery
    return DiscoveryOrder(
        sources=said.sources,
        enrich=said.enrich if enrich is None else enrich,
        score=said.rule(),
        hiring=HiringRule(
            strength=said.signal_strength, heat=own.heat.rule(), tiers=own.heat.tiers()
        ),
        at_once=own.boards.concurrency,
        zone=own.scheduling.timezone,
        retention=retention,
    )


def opening(
    connectors: Connectors, tenant: TenantId, *, directory: Path
) -> Callable[[WantedSource], PostingSource]:
    """Return what opens a tenant's sources, wherever they are."""

    def opened(source: WantedSource) -> PostingSource:
        if source.kind is SourceKind.FILE:
            return FileSource(directory, source)
        if source.kind is SourceKind.FEED:
            return AskedSource(connectors.feeds(tenant), source)
        return AskedSource(connectors.board(source.kind, tenant), source)

    return opened


def files_for(own: Settings, tenant: TenantId, *, out: Path | None, alone: bool) -> PostingFiles:
    """Return where a tenant's files go: where somebody says, else where its settings do.

    A tenant that is not alone has a directory of its own below, because runs of two tenants may
    have one name.
    """
    place = own.directory / (own.discovery.out if out is None else out)
    return PostingFiles(place if alone else place / tenant, of_ours=out is None)


def discovery_for(
    tenant: TenantId,
    order: DiscoveryOrder,
    *,
    own: Settings,
    connectors: Connectors,
    files: PostingFiles | None,
) -> Discovery:
    """Return a tenant's discovery; without files, it writes none."""
    open_source = opening(connectors, tenant, directory=own.directory)
    return Discovery(order, open_source=open_source, artifacts=files)
