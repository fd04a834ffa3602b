"""`stoker sources`: which sources of postings a tenant has, and whether each can be read.

Listing asks nobody. Testing reads a source once and keeps nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.cli.options import one_tenant, takes_tenant
from stoker.cli.output import Exit, pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.cli.output import Asked
    from stoker.discovery.sources import PostingSource, SourceSeen, WantedSource

_NONE = "no source is set; set discovery.sources, and try one with: stoker sources test KIND:PLACE"


@click.group()
def sources() -> None:
    """List sources of postings; see whether each can be read."""


@sources.command("list")
@takes_tenant
@takes_json
@pass_asked
def list_sources(asked: Asked, tenant: str | None, as_json: bool) -> None:
    """Show a tenant's sources, and how each was found the last time. Nobody is asked."""
    from stoker.discovery.sources import shown_names

    lines = run_async(_listed(asked, tenant))
    shown = shown_names(source for source, _ in lines)
    if as_json:
        show_json([_json(source, seen, shown[source.name]) for source, seen in lines])
        return
    show_table(
        ["source", "whose", "domain", "last time", "read at (utc)", "postings", "why"],
        [
            (
                shown[source.name],
                source.company,
                source.domain,
                seen.state.value if seen else "never tried",
                f"{seen.read_at:%Y-%m-%d %H:%M}" if seen and seen.read_at else "never",
                seen.listed if seen else 0,
                seen.because if seen else "",
            )
            for source, seen in lines
        ],
        empty=_NONE,
    )


async def _listed(asked: Asked, tenant: str | None) -> list[tuple[WantedSource, SourceSeen | None]]:
    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        seen = {each.name: each for each in await app.backend.tenant(whose).listings.sources()}
        wanted = app.settings.for_tenant(whose).discovery.sources
        return [(source, seen.get(source.name)) for source in wanted]


def _json(source: WantedSource, seen: SourceSeen | None, shown: str) -> Json:
    return {
        "name": shown,
        "kind": source.kind.value,
        "place": source.shown.partition(":")[2],
        "company": source.company,
        "domain": source.domain,
        "state": seen.state.value if seen else None,
        "tried_at": seen.tried_at.isoformat() if seen else None,
        "read_at": seen.read_at.isoformat() if seen and seen.read_at else None,
        "postings": seen.listed if seen else 0,
        "conditional": bool(seen and (seen.validators.etag or seen.validators.last_modified)),
        "because": seen.because if seen else "",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What one reading of a source gave."""

    name: str  # as it may be shown
    wrong: str = ""
    postings: int = 0
    rejected: int = 0
    first: str = ""
    reject: str = ""


@sources.command("test")
@click.argument("names", nargs=-1, metavar="[SOURCE]...")
@takes_tenant
@takes_json
@pass_asked
def try_sources(asked: Asked, names: tuple[str, ...], tenant: str | None, as_json: bool) -> Exit:
    """Read sources once, whether they are set or not, and keep nothing.

    SOURCE is KIND:PLACE, e.g. greenhouse:acme; without any, all that are set. Exit code 1 when one
    cannot be read.
    """
    found = run_async(_tried_all(asked, names, tenant))
    if as_json:
        rows: list[Json] = [
            {
                "name": each.name,
                "ok": not each.wrong,
                "because": each.wrong,
                "postings": each.postings,
                "rejected": each.rejected,
                "first": each.first,
                "first_reject": each.reject,
            }
            for each in found
        ]
        show_json(rows)
    else:
        show_table(
            ["source", "", "postings", "rejected", "the first of them, or why"],
            [
                (
                    each.name,
                    "WRONG" if each.wrong else "ok",
                    each.postings,
                    each.rejected,
                    each.wrong or each.first,
                )
                for each in found
            ],
            empty=_NONE,
        )
        for each in found:
            if each.reject:
                say(f"{each.name}, the first that was rejected: {each.reject}")
    return Exit.PROBLEMS if any(each.wrong for each in found) else Exit.OK


async def _tried_all(asked: Asked, names: tuple[str, ...], tenant: str | None) -> list[_Tried]:
    import asyncio

    from stoker.discovery.service import opening
    from stoker.discovery.sources import shown_names, wanted_source

    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        own = app.settings.for_tenant(whose)
        known = {source.name: source for source in own.discovery.sources}
        # As it is shown, a source is meant as well: nobody has to type a secret twice.
        meant = {shown: known[name] for name, shown in shown_names(known.values()).items()} | known
        wanted = [meant.get(name.strip()) or wanted_source(name) for name in dict.fromkeys(names)]
        opened = opening(app.connectors, whose, directory=own.directory)
        chosen = {each.name: each for each in wanted} or known
        shown = shown_names(chosen.values())
        return list(
            await asyncio.gather(
                *(_tried(shown[name], opened(each)) for name, each in chosen.items())
            )
        )


async def _tried(name: str, opened: PostingSource) -> _Tried:
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
                reject = f"{batch.rejects[0].where}: {batch.rejects[0].because}"
    except (TransientError, PermanentError, ConfigError) as error:
        return _Tried(name=name, wrong=str(error))
    return _Tried(name=name, postings=postings, rejected=rejected, first=first, reject=reject)
