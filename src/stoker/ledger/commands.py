"""`stoker ledger`: what was decided and spent, and whether the record is sound.

Whose ledger a command reads: tenants' own, or that of what operators do for everybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stoker.base.errors import ConfigError
from stoker.base.jsontools import compact_json
from stoker.budgets.verify import Mark, shared_differences, verified, verified_orders
from stoker.cli.export import FORMATS, export
from stoker.cli.options import chosen_tenants, moment, one_tenant, takes_tenant, takes_tenants
from stoker.cli.output import Exit, pass_asked, run_async, say, show_json, show_table, takes_json
from stoker.ledger.query import Selection, said
from stoker.ledger.read import newest, pages

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import Json
    from stoker.budgets.verify import Verdict
    from stoker.cli.export import Row
    from stoker.cli.output import Asked
    from stoker.ledger.chain import Entry, LedgerStore

EVERYBODY = "everybody"


class Book(NamedTuple):
    """A ledger, and whose it is as listings say it."""

    whose: str
    ledger: LedgerStore


def takes_shared(command: _Command) -> _Command:
    """Give a command `--shared`, passed to it as `shared`."""
    return click.option(
        "--shared",
        is_flag=True,
        help="What operators did for everybody (stops, shared caps) instead of a tenant's ledger.",
    )(command)


def books(app: App, tenants: tuple[str, ...], *, shared: bool) -> list[Book]:
    """Return the ledgers asked for: those of tenants, or the one of what is done for everybody."""
    if shared:
        if tenants:
            raise ConfigError("--shared is of no tenant; leave out --tenant, or --shared")
        return [Book(EVERYBODY, app.backend.shared().ledger)]
    return [
        Book(tenant, app.backend.tenant(tenant).ledger)
        for tenant in chosen_tenants(app.settings, tenants)
    ]


_Command = TypeVar("_Command", bound=Callable[..., Any])

COLUMNS = {
    "tenant": str,
    "seq": int,
    "at": datetime,
    "kind": str,
    "subject": str,
    "reason": str,
    "code": str,
    "connector": str,
    "account": str,
    "run": str,
    "data": dict,
    "previous": str,
    "digest": str,
}

_SEQ = click.IntRange(1, 2**63 - 1)  # what every store can count to

_HEAD = re.compile(r"[0-9]{1,18}:[0-9a-f]{64}")

_FILTERS = [
    click.option("--kind", metavar="KIND", help="Only entries of this kind, e.g. REFUSED."),
    click.option("--reason", metavar="TEXT", help="Only with this reason code, or words of it."),
    click.option("--account", metavar="ID", help="Only about this account."),
    click.option("--connector", metavar="NAME", help="Only about this connector."),
    click.option("--run", metavar="RUN", help="Only of this run, e.g. 20260207_013000."),
    click.option("--since", metavar="TIME", help="Not before: a date, or a time with its offset."),
    click.option("--until", metavar="TIME", help="Before: a date, or a time with its offset."),
]


def takes_filters(command: _Command) -> _Command:
    """Give a command the ledger's filters, passed to it one by one."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group()
def ledger() -> None:
    """List, show, verify and export the ledger."""


@ledger.command("list")
@takes_tenants
@takes_shared
@takes_filters
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Show at most this many.",
)
@click.option("--before", type=_SEQ, metavar="SEQ", help="Go on below this entry.")
@takes_json
@pass_asked
def list_entries(
    asked: Asked,
    /,
    tenants: tuple[str, ...],
    shared: bool,
    limit: int,
    before: int | None,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Show entries, newest first."""
    listing = _list(
        asked,
        tenants,
        _selection(**filters),
        shared=shared,
        limit=limit,
        before=before,
        as_json=as_json,
    )
    run_async(listing)


async def _list(
    asked: Asked,
    tenants: tuple[str, ...],
    selection: Selection,
    *,
    shared: bool,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    found: list[tuple[str, Entry]] = []
    async with asked.app(only_to_read=True) as app:
        chosen = books(app, tenants, shared=shared)
        if before is not None and len(chosen) > 1:
            raise ConfigError("--before counts in one ledger; say whose with --tenant")
        for whose, book in chosen:
            there = await newest(book, selection, before=before, limit=limit)
            found += [(whose, entry) for entry in there]
    if len(chosen) > 1:
        found.sort(key=lambda pair: (pair[1].at, pair[0], pair[1].seq), reverse=True)
    found = found[:limit]
    if as_json:
        show_json([entry_json(*pair) for pair in found])
        return
    show_table(
        ["tenant", "seq", "at (utc)", "kind", "about", "reason"],
        [
            (
                whose,
                entry.seq,
                f"{entry.at:%Y-%m-%d %H:%M:%S}",
                entry.kind,
                entry.subject,
                _why(entry),
            )
            for whose, entry in found
        ],
        empty="no such entries",
    )
    if len(chosen) == 1 and len(found) == limit and found[-1][1].seq > 1:
        say(f"older ones: the same with --before {found[-1][1].seq}")


@ledger.command("show")
@click.argument("seq", type=_SEQ, metavar="SEQ")
@takes_tenant
@takes_shared
@takes_json
@pass_asked
def show_entry(asked: Asked, seq: int, tenant: str | None, shared: bool, as_json: bool) -> None:
    """Show everything one entry says. SEQ is its number, as `stoker ledger list` shows it."""
    run_async(_show(asked, seq, tenant=tenant, shared=shared, as_json=as_json))


async def _show(asked: Asked, seq: int, *, tenant: str | None, shared: bool, as_json: bool) -> None:
    async with asked.app(only_to_read=True) as app:
        whose, book = _one_book(app, tenant, shared=shared)
        found = await book.entries(after=seq - 1, limit=1)
    if not found or found[0].seq != seq:
        raise ConfigError(
            f"{whose} has no ledger entry {seq}; see those there are with: "
            f"stoker ledger list {'--shared' if shared else f'--tenant {whose}'}"
        )
    [entry] = found
    if as_json:
        show_json(entry_json(whose, entry))
        return
    say(f"entry {entry.seq} of {whose}: {entry.kind} {entry.subject}")
    say(f"  {entry.reason or 'no reason was given'}")
    say(f"  at {entry.at:%Y-%m-%d %H:%M:%S} UTC; digest {entry.digest}, after {entry.previous}")
    show_table(
        ["data", "value"],
        [
            (name, value if isinstance(value, str | int) else compact_json(value))
            for name, value in sorted(entry.data.items())
        ],
        empty="no further data",
    )


@ledger.command("verify")
@takes_tenants
@takes_shared
@click.option(
    "--head",
    metavar="SEQ:DIGEST",
    help="What an earlier verify of this ledger said its head was; it must still be there.",
)
@takes_json
@pass_asked
def verify(
    asked: Asked, tenants: tuple[str, ...], shared: bool, head: str | None, as_json: bool
) -> Exit:
    """Recompute every total from the entries, check the chain, and compare.

    Exit code 1 when something differs; the entry where the chain breaks is named. What tenants
    share is compared too when no tenant is named: its caps' totals, and the stops and caps that
    operators ordered. Keep the head it prints somewhere else: with it, also entries taken off the
    end are found.
    """
    mark = _mark(head) if head is not None else None
    if shared and tenants:
        raise ConfigError("--shared is of no tenant; leave out --tenant, or --shared")
    if mark and not shared and len(set(tenants)) != 1:
        raise ConfigError("--head is of one ledger; say whose with --tenant, or --shared")
    return run_async(_verify(asked, tenants, shared=shared, mark=mark, as_json=as_json))


async def _verify(
    asked: Asked, tenants: tuple[str, ...], *, shared: bool, mark: Mark | None, as_json: bool
) -> Exit:
    verdicts: list[tuple[str, Verdict]] = []
    totals: list[str] = []
    async with asked.app(only_to_read=True) as app:
        all_of_them = [tenant.id for tenant in app.settings.tenants]
        chosen = chosen_tenants(app.settings, tenants) if tenants else all_of_them
        before = await app.backend.shared().usage()
        if not shared:
            doors = [app.backend.tenant(tenant) for tenant in chosen]
            verdicts = [(door.tenant, await verified(door, mark=mark)) for door in doors]
        if not shared and not tenants:
            totals = await shared_differences(
                app.backend.shared(), [one for _, one in verdicts], before=before
            )
        if not tenants:
            orders = await verified_orders(app.backend.shared(), mark=mark)
            if shared or orders.entries or orders.problems:
                verdicts.append((EVERYBODY, orders))
    bad = sum(len(verdict.problems) for _, verdict in verdicts) + len(totals)
    if as_json:
        told = [_verdict_json(*pair) for pair in verdicts if pair[0] != EVERYBODY]
        ordered = [_verdict_json(*pair) for pair in verdicts if pair[0] == EVERYBODY]
        everybody = ordered[0] if ordered else None
        show_json({"ok": not bad, "tenants": told, "shared": totals, "everybody": everybody})
        return Exit.PROBLEMS if bad else Exit.OK
    for whose, verdict in verdicts:
        agree = "orders are in force" if whose == EVERYBODY else "totals agree"
        sound = f"the chain is sound and {agree}" if not verdict.problems else "WRONG"
        say(f"{whose}: {verdict.entries} entries, {sound}")
        for problem in verdict.problems:
            say(f"  {problem}")
        if verdict.head and not verdict.problems:
            say(f"  head {_head(verdict)}")
    for problem in totals:
        say(f"shared: {problem}")
    return Exit.PROBLEMS if bad else Exit.OK


@ledger.command("export")
@click.option(
    "--format", "kind", type=click.Choice(list(FORMATS)), required=True, help="What to write."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to; stdout otherwise. Parquet needs it.",
)
@click.option("--force", is_flag=True, help="Replace a file that is already there.")
@takes_tenants
@takes_shared
@takes_filters
@click.option("--limit", type=click.IntRange(1), help="Write at most this many of each tenant.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print how many went where as JSON; needs --out."
)
@pass_asked
def export_entries(
    asked: Asked,
    /,
    kind: str,
    out: Path | None,
    force: bool,
    tenants: tuple[str, ...],
    shared: bool,
    limit: int | None,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Write entries to a file, oldest first, tenant by tenant.

    In CSV, text that a spreadsheet could take for a formula has a ' in front; on a terminal,
    characters that could move the cursor are made visible.
    """
    selection = _selection(**filters)
    if as_json and out is None:
        raise ConfigError(
            "--json tells what was written where, and needs --out FILE; "
            "for the entries themselves use --format json"
        )
    exporting = _export(
        asked, tenants, selection, shared=shared, kind=kind, out=out, force=force, limit=limit
    )
    count = run_async(exporting)
    if as_json:
        show_json({"entries": count, "out": str(out), "format": kind})
    elif out is not None:
        say(f"{count} entries are in {out}")


async def _export(
    asked: Asked,
    tenants: tuple[str, ...],
    selection: Selection,
    *,
    shared: bool,
    kind: str,
    out: Path | None,
    force: bool,
    limit: int | None,
) -> int:
    count = 0
    async with asked.app(only_to_read=True) as app:
        place = out and asked.directory / out
        chosen = books(app, tenants, shared=shared)
        with export(kind, COLUMNS, out=place, replace=force) as writing:
            for whose, book in chosen:
                left = limit
                async for page in pages(book):
                    wanted = [entry for entry in page if selection.wants(entry)][:left]
                    writing.add([export_row(whose, entry) for entry in wanted])
                    count += len(wanted)
                    if left is not None and (left := left - len(wanted)) == 0:
                        break
    return count


def export_row(tenant: str, entry: Entry) -> Row:
    """Return an entry as a row: what it says most often has a column of its own."""
    about = {name: said(entry, name) for name in ("code", "connector", "account", "run")}
    return {
        "tenant": tenant,
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "subject": entry.subject,
        "reason": entry.reason,
        **about,
        "data": entry.data,
        "previous": entry.previous,
        "digest": entry.digest,
    }


def entry_json(tenant: str, entry: Entry) -> Json:
    """Return an entry for programs."""
    return {
        "tenant": tenant,
        "seq": entry.seq,
        "at": entry.at.isoformat(),
        "kind": entry.kind,
        "subject": entry.subject,
        "reason": entry.reason,
        "data": entry.data,
        "previous": entry.previous,
        "digest": entry.digest,
    }


def _selection(*, since: str | None, until: str | None, **rest: str | None) -> Selection:
    start = moment(since, what="--since") if since else None
    end = moment(until, what="--until") if until else None
    if start and end and start >= end:
        raise ConfigError(f"--since {start.isoformat()} is not before --until {end.isoformat()}")
    return Selection(since=start, until=end, **rest)


def _one_book(app: App, tenant: str | None, *, shared: bool) -> Book:
    named = (tenant,) if tenant is not None else ()
    if shared or tenant is not None:
        return books(app, named, shared=shared)[0]
    return books(app, (one_tenant(app.settings, None),), shared=False)[0]


def _why(entry: Entry) -> str:
    code = said(entry, "code")
    return f"{code}: {entry.reason}" if code else entry.reason


def _verdict_json(tenant: str, verdict: Verdict) -> Json:
    return {
        "tenant": tenant,
        "entries": verdict.entries,
        "problems": list(verdict.problems),
        "head": _head(verdict),
    }


def _head(verdict: Verdict) -> str | None:
    return f"{verdict.head.seq}:{verdict.head.digest}" if verdict.head else None


def _mark(text: str) -> Mark:
    if not _HEAD.fullmatch(text):
        raise ConfigError(f"--head {text!r} is not SEQ:DIGEST; copy what an earlier verify printed")
    seq, _, digest = text.partition(":")
    return Mark(int(seq), digest)
