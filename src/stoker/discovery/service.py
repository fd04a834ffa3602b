"""What commands and schedules do with discovery: build runs, carry them out, try sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.base.types import TenantId
from stoker.discovery.export import PostingFiles
from stoker.discovery.job_files import read_job_file
from stoker.discovery.model import PostingQuery, Postings, Validators
from stoker.discovery.reader import ReadSource
from stoker.discovery.run import DiscoveryRun
from stoker.discovery.sources import SourceKind, SourceSpec, build_display_names, parse_source
from stoker.runs.parallel import run_for_tenants

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.connectors import VendorFactory
    from stoker.runs.model import Run
    from stoker.settings import Settings


def build_source_reader(
    connectors: VendorFactory, tenant: TenantId, *, directory: Path
) -> ReadSource:
    """Return what reads a tenant's sources, wherever they are."""

    async def read(source: SourceSpec, known: Validators | None) -> AsyncIterator[Postings]:
        if source.kind is SourceKind.FILE:
            async for batch in read_job_file(directory / source.address, company=source.company):
                yield batch
            return
        connector = (
            connectors.feeds(tenant)
            if source.kind is SourceKind.FEED
            else connectors.board(source.kind, tenant)
        )
        query = PostingQuery(address=source.address, company=source.company, known=known)
        yield (await connector.ask(query, key=source.name)).answer

    return read


def build_posting_files(
    own: Settings, tenant: TenantId, *, out: Path | None, alone: bool
) -> PostingFiles:
    """Return the files of a tenant: in `out`, or else where its settings say.

    A tenant that is not alone has a directory of its own below, because runs of two tenants may
    have one name.
    """
    place = own.directory / (own.discovery.out if out is None else out)
    return PostingFiles(place if alone else place / tenant, of_ours=out is None)


def build_discovery(
    own: Settings,
    tenant: TenantId,
    *,
    connectors: VendorFactory,
    files: PostingFiles | None,
    enrich: bool | None = None,
) -> DiscoveryRun:
    """Return a tenant's discovery; without files, it writes none."""
    return DiscoveryRun(
        own.discovery if enrich is None else replace(own.discovery, enrich=enrich),
        heat=own.heat,
        read_source=build_source_reader(connectors, tenant, directory=own.directory),
        files=files,
        concurrency=own.boards.concurrency,
        zone=own.scheduling.timezone,
        retention=own.retention if own.retention.enabled else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverOptions:
    """What a person asks of a discovery."""

    enrich: bool = False
    scheduled: bool = False
    writes: bool = True
    out: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryReport:
    """One discovery that was carried out, and the files it wrote."""

    tenant: TenantId
    run: Run
    files: tuple[Path, ...]


async def run_discoveries(
    app: App, tenants: tuple[TenantId, ...], options: DiscoverOptions
) -> tuple[list[DiscoveryReport], list[tuple[TenantId, StokerError]]]:
    """Carry out discoveries side by side; return how they went, and which did not begin."""

    async def discover(tenant: TenantId) -> list[DiscoveryReport]:
        files = app.get_posting_files(tenant, out=options.out) if options.writes else None
        # A setting that is on stays on: the flag only adds to it.
        discovery = app.build_discovery_run(tenant, files=files, enrich=options.enrich or None)
        if options.scheduled:
            runs = await app.build_scheduler(()).run_task(app.build_task(tenant, discovery))
        else:
            runs = [await app.run_now(tenant, discovery)]
        return [
            DiscoveryReport(
                tenant=tenant, run=run, files=files.list_existing(run.name) if files else ()
            )
            for run in runs
        ]

    done, failed = await run_for_tenants(
        tenants, discover, concurrency=app.settings.scheduling.tenant_concurrency
    )
    return [report for reports in done for report in reports], failed


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTest:
    """What reading a source once returned, by the source's name as it may be shown."""

    name: str
    error: str = ""
    postings: int = 0
    rejected: int = 0
    first: str = ""
    reject: str = ""


async def try_sources(
    own: Settings, tenant: TenantId, names: Sequence[str], *, connectors: VendorFactory
) -> list[SourceTest]:
    """Read sources once and store nothing: those named, or else all of a tenant's.

    Raises ConfigError for a name that is none.
    """
    known = {source.name: source for source in own.discovery.sources}
    # A name as it is shown counts as well, so that no secret has to be typed twice.
    shown = {name: known[key] for key, name in build_display_names(known.values()).items()}
    wanted = [
        known.get(name.strip()) or shown.get(name.strip()) or parse_source(name)
        for name in dict.fromkeys(names)
    ]
    chosen = {source.name: source for source in wanted} or known
    display_names = build_display_names(chosen.values())
    read_source = build_source_reader(connectors, tenant, directory=own.directory)
    return list(
        await asyncio.gather(
            *(
                _try_source(display_names[name], read_source(source, None))
                for name, source in chosen.items()
            )
        )
    )


async def _try_source(name: str, batches: AsyncIterator[Postings]) -> SourceTest:
    postings = rejected = 0
    first = reject = ""
    try:
        async for batch in batches:
            postings += len(batch.listings)
            rejected += batch.rejected
            if batch.listings and not first:
                job = batch.listings[0].job
                first = ", ".join(part for part in (job.title, job.company, job.location) if part)
            if batch.rejects and not reject:
                reject = f"{batch.rejects[0].where}: {batch.rejects[0].reason}"
    except (TransientError, PermanentError, ConfigError) as error:
        return SourceTest(name=name, error=str(error))
    return SourceTest(name=name, postings=postings, rejected=rejected, first=first, reject=reject)
