"""A tenant's discovery put together from settings: its sources, what is made of them, its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stoker.config.settings import Settings
from stoker.connecting import Connectors
from stoker.connectors.boards.sources import AskedSource, FileSource
from stoker.connectors.posting_files import PostingFiles
from stoker.core.model import TenantId
from stoker.core.posting_sources import SourceKind, WantedSource
from stoker.core.retention import RetentionRule
from stoker.engine.discovering import Discovery, DiscoveryOrder
from stoker.engine.hiring import HiringRule
from stoker.listings import PostingSource


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
