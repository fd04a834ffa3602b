"""What commands and schedules do with discovery: build runs, carry them out, try sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.base.process_pool import ProcessPool
from stoker.base.types import TenantId
from stoker.context import Context, TenantContext
from stoker.discovery.boards import BOARD_APIS, CONNECTOR, AllBoards, Board
from stoker.discovery.feeds import Feeds
from stoker.discovery.files import PostingFiles, read_job_file
from stoker.discovery.model import Postings, Validators, split_postings
from stoker.discovery.run import DiscoveryRun
from stoker.discovery.sources import SourceKind, SourceSpec, build_display_names, parse_source
from stoker.enrichment.runner import build_runner, run_now
from stoker.http.client import build_http_client
from stoker.http.unpaid import build_unpaid_calls
from stoker.runs.service import run_for_tenants
from stoker.scheduling.service import Scheduler, build_task

if TYPE_CHECKING:
    from stoker.runs.model import Run


async def read_source(
    tenant: TenantContext, source: SourceSpec, known: Validators | None
) -> AsyncIterator[Postings]:
    """Yield what a tenant's source lists, wherever it is. Raises as `ReadSource`."""
    if source.kind is SourceKind.FILE:
        path = tenant.settings.directory / source.address
        async for batch in read_job_file(path, company=source.company):
            yield batch
        return
    is_feed = source.kind is SourceKind.FEED
    reader = build_feeds(tenant) if is_feed else build_board(tenant, source.kind)
    found = await reader.read_postings(source.address, company=source.company, known=known)
    for batch in split_postings(found):
        yield batch


def build_board(tenant: TenantContext, vendor: str, *, despite_stops: bool = False) -> Board:
    """Build what reads a vendor's boards: greenhouse, lever or ashby."""
    return Board(
        tenant.process.get(build_http_client),
        BOARD_APIS[vendor],
        base_url=tenant.settings.get_value(f"boards.{vendor}_url"),
        turn=tenant.process.get(build_unpaid_calls).for_hosts(
            CONNECTOR, tenant.id, despite_stops=despite_stops
        ),
        pool=tenant.process.get(build_reading_pool),
    )


def build_reading_pool(context: Context) -> ProcessPool:
    """Build the worker processes in which answers of boards and feeds are read."""
    return ProcessPool()


def build_all_boards(tenant: TenantContext) -> AllBoards:
    """Build all boards, to see whether they are there."""
    return AllBoards([build_board(tenant, vendor, despite_stops=True) for vendor in BOARD_APIS])


def build_feeds(tenant: TenantContext) -> Feeds:
    """Build what reads feeds of postings, wherever they are, as gently as sites are read."""
    gap = timedelta(seconds=tenant.settings.crawl.gap_s)
    turn = tenant.process.get(build_unpaid_calls).for_hosts(CONNECTOR, tenant.id, gap=gap)
    pool = tenant.process.get(build_reading_pool)
    return Feeds(tenant.process.get(build_http_client), turn=turn, pool=pool)


def build_posting_files(
    tenant: TenantContext,
    *,
    out: Path | None = None,
    all_columns: bool = False,
    summary_only: bool = False,
) -> PostingFiles:
    """Return the files of a tenant: in `out`, or else where its settings say.

    A tenant that is not alone has a directory of its own below, because runs of two tenants may
    have one name.
    """
    own, is_alone = tenant.settings, len(tenant.process.settings.tenants) == 1
    place = own.directory / (own.discovery.out if out is None else out)
    return PostingFiles(
        place if is_alone else place / tenant.id,
        of_ours=out is None,
        roles=own.discovery.roles,
        all_columns=all_columns,
        summary_only=summary_only,
    )


def build_discovery_run(
    tenant: TenantContext, *, files: PostingFiles | None, enrich: bool | None = None
) -> DiscoveryRun:
    """Return a tenant's discovery; without files, it writes none."""
    own = tenant.settings
    return DiscoveryRun(
        own.discovery if enrich is None else replace(own.discovery, enrich=enrich),
        heat=own.heat,
        read_source=partial(read_source, tenant),
        files=files,
        concurrency=own.get_connector(CONNECTOR).concurrency,
        zone=own.scheduling.timezone,
        retention=own.retention if own.retention.enabled else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverOptions:
    """What a person asks of a discovery."""

    enrich: bool = False
    scheduled: bool = False
    summary_only: bool = False  # writes no file, or into `out` the summary alone
    all_columns: bool = False
    out: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryReport:
    """One discovery that was carried out, and the files it wrote."""

    tenant: TenantId
    run: Run
    files: tuple[Path, ...]


async def run_discoveries(
    context: Context, tenants: tuple[TenantId, ...], options: DiscoverOptions
) -> tuple[list[DiscoveryReport], list[tuple[TenantId, StokerError]]]:
    """Carry out discoveries side by side; return how they went, and which did not begin."""

    async def discover(name: TenantId) -> list[DiscoveryReport]:
        tenant = context.for_tenant(name)
        files = None
        if options.out is not None or not options.summary_only:
            files = build_posting_files(
                tenant,
                out=options.out,
                all_columns=options.all_columns,
                summary_only=options.summary_only,
            )
        # A setting that is on stays on: the flag only adds to it.
        discovery = build_discovery_run(tenant, files=files, enrich=options.enrich or None)
        if options.scheduled:
            scheduler = Scheduler([], backend=context.backend, runner=build_runner(context))
            runs = await scheduler.run_task(build_task(tenant, discovery))
        else:
            runs = [await run_now(tenant, discovery)]
        return [
            DiscoveryReport(
                tenant=name, run=run, files=files.list_existing(run.name) if files else ()
            )
            for run in runs
        ]

    done, failed = await run_for_tenants(
        tenants, discover, concurrency=context.settings.scheduling.tenant_concurrency
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
    columns: str = ""


async def try_sources(tenant: TenantContext, names: Sequence[str]) -> list[SourceTest]:
    """Read sources once and store nothing: those named, or else all of a tenant's.

    Raises ConfigError for a name that is none.
    """
    known = {source.name: source for source in tenant.settings.discovery.sources}
    # A name as it is shown counts as well, so that no secret has to be typed twice.
    shown = {name: known[key] for key, name in build_display_names(known.values()).items()}
    wanted = [
        known.get(name.strip()) or shown.get(name.strip()) or parse_source(name)
        for name in dict.fromkeys(names)
    ]
    chosen = {source.name: source for source in wanted} or known
    display_names = build_display_names(chosen.values())
    return list(
        await asyncio.gather(
            *(
                _try_source(display_names[name], read_source(tenant, source, None))
                for name, source in chosen.items()
            )
        )
    )


async def _try_source(name: str, batches: AsyncIterator[Postings]) -> SourceTest:
    postings = rejected = 0
    first = reject = columns = ""
    try:
        async for batch in batches:
            postings += len(batch.listings)
            rejected += batch.rejected
            columns = batch.columns or columns
            if batch.listings and not first:
                job = batch.listings[0].job
                first = ", ".join(part for part in (job.title, job.company, job.location) if part)
            if batch.rejects and not reject:
                reject = f"{batch.rejects[0].where}: {batch.rejects[0].reason}"
    except (TransientError, PermanentError, ConfigError) as error:
        return SourceTest(name=name, error=str(error))
    return SourceTest(
        name=name,
        postings=postings,
        rejected=rejected,
        first=first,
        reject=reject,
        columns=columns,
    )
