"""`stoker sources`: which sources of postings a tenant has, and whether each can be read.

Listing asks nobody. Testing reads a source once and keeps nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.cli.output import CommandContext
    from stoker.discovery.sources import PostingSource, SourceRecord, SourceSpec

_NO_SOURCES = (
    "no source is set; set discovery.sources, and try one with: stoker sources test KIND:PLACE"
)


@click.group()
def sources() -> None:
    """List sources of postings; see whether each can be read."""


@sources.command("list")
@tenant_option
@json_option
@pass_context
def list_sources(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show a tenant's sources, and how each was found the last time. Nobody is asked."""
    from stoker.discovery.sources import build_display_names

    lines = run_async(_list_sources(asked, tenant))
    shown = build_display_names(source for source, _ in lines)
    if as_json:
        print_json([_to_source_json(source, seen, shown[source.name]) for source, seen in lines])
        return
    print_table(
        ["source", "whose", "domain", "last time", "read at (utc)", "postings", "why"],
        [
            (
                shown[source.name],
                source.company,
                source.domain,
                seen.state.value if seen else "never tried",
                f"{seen.read_at:%Y-%m-%d %H:%M}" if seen and seen.read_at else "never",
                seen.listed if seen else 0,
                seen.reason if seen else "",
            )
            for source, seen in lines
        ],
        empty=_NO_SOURCES,
    )


async def _list_sources(
    asked: CommandContext, tenant: str | None
) -> list[tuple[SourceSpec, SourceRecord | None]]:
    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        seen = {each.name: each for each in await app.backend.tenant(whose).listings.list_sources()}
        wanted = app.settings.for_tenant(whose).discovery.sources
        return [(source, seen.get(source.name)) for source in wanted]


def _to_source_json(source: SourceSpec, seen: SourceRecord | None, shown: str) -> Json:
    return {
        "name": shown,
        "kind": source.kind.value,
        "place": source.display_name.partition(":")[2],
        "company": source.company,
        "domain": source.domain,
        "state": seen.state.value if seen else None,
        "tried_at": seen.tried_at.isoformat() if seen else None,
        "read_at": seen.read_at.isoformat() if seen and seen.read_at else None,
        "postings": seen.listed if seen else 0,
        "conditional": bool(seen and (seen.validators.etag or seen.validators.last_modified)),
        "because": seen.reason if seen else "",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _TestResult:
    """What one reading of a source gave."""

    name: str  # as it may be shown
    error: str = ""
    postings: int = 0
    rejected: int = 0
    first: str = ""
    reject: str = ""


@sources.command("test")
@click.argument("names", nargs=-1, metavar="[SOURCE]...")
@tenant_option
@json_option
@pass_context
def try_sources(
    asked: CommandContext, names: tuple[str, ...], tenant: str | None, as_json: bool
) -> Exit:
    """Read sources once, whether they are set or not, and keep nothing.

    SOURCE is KIND:PLACE, e.g. greenhouse:acme; without any, all that are set. Exit code 1 when one
    cannot be read.
    """
    found = run_async(_test_sources(asked, names, tenant))
    if as_json:
        rows: list[Json] = [
            {
                "name": each.name,
                "ok": not each.error,
                "because": each.error,
                "postings": each.postings,
                "rejected": each.rejected,
                "first": each.first,
                "first_reject": each.reject,
            }
            for each in found
        ]
        print_json(rows)
    else:
        print_table(
            ["source", "", "postings", "rejected", "the first of them, or why"],
            [
                (
                    each.name,
                    "WRONG" if each.error else "ok",
                    each.postings,
                    each.rejected,
                    each.error or each.first,
                )
                for each in found
            ],
            empty=_NO_SOURCES,
        )
        for each in found:
            if each.reject:
                print_text(f"{each.name}, the first that was rejected: {each.reject}")
    return Exit.PROBLEMS if any(each.error for each in found) else Exit.OK


async def _test_sources(
    asked: CommandContext, names: tuple[str, ...], tenant: str | None
) -> list[_TestResult]:
    import asyncio

    from stoker.discovery.service import build_source_opener
    from stoker.discovery.sources import build_display_names, parse_source

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        own = app.settings.for_tenant(whose)
        known = {source.name: source for source in own.discovery.sources}
        # As it is shown, a source is meant as well: nobody has to type a secret twice.
        meant = {
            shown: known[name] for name, shown in build_display_names(known.values()).items()
        } | known
        wanted = [meant.get(name.strip()) or parse_source(name) for name in dict.fromkeys(names)]
        opened = build_source_opener(app.connectors, whose, directory=own.directory)
        chosen = {each.name: each for each in wanted} or known
        shown = build_display_names(chosen.values())
        return list(
            await asyncio.gather(
                *(_test_source(shown[name], opened(each)) for name, each in chosen.items())
            )
        )


async def _test_source(name: str, opened: PostingSource) -> _TestResult:
    postings = rejected = 0
    first = reject = ""
    try:
        async for batch in opened.read(None):
            postings += len(batch.listings)
            rejected += batch.rejected
            if batch.listings and not first:
                job = batch.listings[0].job
                first = ", ".join(part for part in (job.title, job.company, job.location) if part)
            if batch.rejects and not reject:
                reject = f"{batch.rejects[0].where}: {batch.rejects[0].reason}"
    except (TransientError, PermanentError, ConfigError) as error:
        return _TestResult(name=name, error=str(error))
    return _TestResult(name=name, postings=postings, rejected=rejected, first=first, reject=reject)
