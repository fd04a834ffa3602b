"""`stoker ledger`: what was decided and spent, and whether the record is sound.

A command reads the tenants' ledgers or, with `--shared`, the installation's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count
from stoker.base.jsontools import compact_json
from stoker.budgets.operator import format_connector
from stoker.budgets.verify import (
    find_shared_mismatches,
    verify_ledger,
    verify_operator_ledger,
)
from stoker.cli.options import (
    COUNT,
    choose_tenant,
    choose_tenants,
    limit_option,
    parse_period,
    since_option,
    tenant_option,
    tenants_option,
    until_option,
)
from stoker.cli.output import (
    Exit,
    async_command,
    export_json_option,
    export_options,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)
from stoker.files.export import FORMATS, open_export
from stoker.ledger.chain import Checkpoint
from stoker.ledger.query import LedgerFilter, get_data_text
from stoker.ledger.read import list_latest, read_pages

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.budgets.verify import LedgerReport
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.files.export import Row
    from stoker.ledger.chain import LedgerEntry
    from stoker.ledger.store import LedgerStore

ALL_TENANTS = "everybody"  # the installation's ledger, in JSON


class LedgerScope(NamedTuple):
    """A ledger, and its owner's name in listings."""

    owner: str
    ledger: LedgerStore


def shared_option(command: _CommandT) -> _CommandT:
    """Give a command `--shared`, passed to it as `shared`."""
    return click.option(
        "--shared",
        is_flag=True,
        help="The installation's ledger (global stops, shared caps) instead of a tenant's.",
    )(command)


def list_ledgers(app: Context, tenants: tuple[str, ...], *, shared: bool) -> list[LedgerScope]:
    """Return the ledgers of the tenants, or the installation's own."""
    if shared:
        if tenants:
            raise ConfigError("--shared is of no tenant; leave out --tenant, or --shared")
        return [LedgerScope(ALL_TENANTS, app.backend.shared().ledger)]
    return [
        LedgerScope(tenant, app.backend.tenant(tenant).ledger)
        for tenant in choose_tenants(app.settings, tenants)
    ]


_CommandT = TypeVar("_CommandT", bound=Callable[..., Any])

EXPORT_COLUMNS = {
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

_SEQ_RANGE = click.IntRange(1, 2**63 - 1)  # what every store can count to

_ALL = 2**31  # entries; more than a terminal is sent

_MAX_KEY_SHOWN = 8  # characters

_CHECKPOINT_PATTERN = re.compile(r"[0-9]{1,18}:[0-9a-f]{64}")

_FILTER_OPTIONS = [
    click.option("--kind", metavar="KIND", help="Only entries of this kind, e.g. REFUSED."),
    click.option(
        "--code", metavar="CODE", help="Only entries with this reason code, e.g. CAP_TENANT_DAY."
    ),
    click.option("--text", metavar="WORDS", help="Only entries with these words in the reason."),
    click.option("--reason", metavar="TEXT", hidden=True, help="A reason code, or words of it."),
    click.option("--account", metavar="ID", help="Only about this account."),
    click.option("--connector", metavar="NAME", help="Only about this connector."),
    click.option("--run", metavar="RUN", help="Only of this run, e.g. 20260207_013000."),
    since_option("From this time on: a date, a time with its offset, or a span (7d, 2h)."),
    until_option("Before this time, written like --since."),
]


def filter_options(command: _CommandT) -> _CommandT:
    """Give a command the ledger's filters, passed to it one by one."""
    for option in reversed(_FILTER_OPTIONS):
        command = option(command)
    return command


@click.group()
def ledger() -> None:
    """List, show, verify and export the ledger."""


@ledger.command("list")
@tenants_option
@shared_option
@filter_options
@limit_option
@click.option("--before", type=_SEQ_RANGE, metavar="SEQ", help="Continue below this entry.")
@json_option
@pass_context
@async_command
async def list_entries(
    asked: CommandContext,
    /,
    tenants: tuple[str, ...],
    shared: bool,
    limit: int | None,
    before: int | None,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Show entries, newest first."""
    selection, limit = _build_filter(**filters), limit or _ALL
    found: list[tuple[str, LedgerEntry]] = []
    async with asked.open_app(only_to_read=True) as app:
        chosen = list_ledgers(app, tenants, shared=shared)
        if before is not None and len(chosen) > 1:
            raise ConfigError("--before counts in one ledger; choose a tenant with --tenant")
        for owner, book in chosen:
            latest = await list_latest(book, selection, before=before, limit=limit)
            found.extend((owner, entry) for entry in latest)
    if len(chosen) > 1:
        found.sort(key=lambda pair: (pair[1].at, pair[0], pair[1].seq), reverse=True)
    del found[limit:]
    if as_json:
        print_json([to_entry_json(*pair) for pair in found])
        return
    print_table(
        ["tenant", "seq", "at (utc)", "kind", "about", "reason"],
        [
            (
                _format_owner(owner),
                entry.seq,
                f"{entry.at:%Y-%m-%d %H:%M:%S}",
                entry.kind,
                _format_subject(entry),
                _format_reason(entry),
            )
            for owner, entry in found
        ],
        empty="No such entries.",
    )
    if len(chosen) == 1 and len(found) == limit and found[-1][1].seq > 1:
        print_text(f"Older entries: repeat with --before {found[-1][1].seq}")


@ledger.command("show")
@click.argument("seq", type=_SEQ_RANGE, metavar="SEQ")
@tenant_option
@shared_option
@json_option
@pass_context
@async_command
async def show_entry(
    asked: CommandContext, seq: int, tenant: str | None, shared: bool, as_json: bool
) -> None:
    """Show one entry in full. SEQ is its number, as `stoker ledger list` shows it."""
    async with asked.open_app(only_to_read=True) as app:
        named = () if shared and tenant is None else (choose_tenant(app.settings, tenant),)
        [(owner, book)] = list_ledgers(app, named, shared=shared)
        found = await book.list_entries(after=seq - 1, limit=1)
    if not found or found[0].seq != seq:
        raise ConfigError(
            f"{_format_owner(owner)} has no ledger entry {seq}; list them: "
            f"stoker ledger list {'--shared' if shared else f'--tenant {owner}'}"
        )
    [entry] = found
    if as_json:
        print_json(to_entry_json(owner, entry))
        return
    print_text(f"entry {entry.seq} of {_format_owner(owner)}: {entry.kind} {entry.subject}")
    print_text(f"  {entry.reason or 'no reason was given'}")
    print_text(
        f"  at {entry.at:%Y-%m-%d %H:%M:%S} UTC; digest {entry.digest}, after {entry.previous}"
    )
    print_table(
        ["data", "value"],
        [
            (name, value if isinstance(value, str | int) else compact_json(value))
            for name, value in sorted(entry.data.items())
        ],
        empty="no further data",
    )


@ledger.command("verify")
@tenants_option
@shared_option
@click.option(
    "--head",
    metavar="SEQ:DIGEST",
    help="The checkpoint that an earlier verify printed; it must still match.",
)
@json_option
@pass_context
@async_command
async def verify(
    asked: CommandContext, tenants: tuple[str, ...], shared: bool, head: str | None, as_json: bool
) -> Exit:
    """Check the hash chain, recompute every total from the entries, and compare.

    Exit code 1 when something differs; the entry where the chain breaks is named. Without --tenant,
    shared caps and stops are compared too. Keep the checkpoint it prints elsewhere: with --head it
    shows whether the newest entries were removed.
    """
    mark = _parse_checkpoint(head) if head is not None else None
    if shared and tenants:
        raise ConfigError("--shared is of no tenant; leave out --tenant, or --shared")
    if mark and not shared and len(set(tenants)) != 1:
        raise ConfigError("--head is of one ledger; choose a tenant with --tenant, or --shared")
    reports: list[tuple[str, LedgerReport]] = []
    async with asked.open_app(only_to_read=True) as app:
        store, now = app.backend.shared(), app.clock.now()
        everyone = [tenant.id for tenant in app.settings.tenants]
        before, totals = await store.list_usage(), []
        for tenant in choose_tenants(app.settings, tenants) if tenants else everyone:
            if not shared:
                own = app.backend.tenant(tenant)
                reports.append((tenant, await verify_ledger(own, mark=mark, now=now)))
        if not shared and not tenants:
            found = [report for _, report in reports]
            totals = await find_shared_mismatches(store, found, before=before, now=now)
        if not tenants:
            orders = await verify_operator_ledger(store, mark=mark)
            if shared or orders.entries or orders.problems:
                reports.append((ALL_TENANTS, orders))
    bad = any(report.problems for _, report in reports) or bool(totals)
    if as_json:
        by_owner = {owner: _to_report_json(owner, report) for owner, report in reports}
        operators = by_owner.pop(ALL_TENANTS, None)
        print_json(
            {
                "ok": not bad,
                "tenants": list(by_owner.values()),
                "shared": totals,
                "everybody": operators,
            }
        )
        return Exit.PROBLEMS if bad else Exit.OK
    for owner, report in reports:
        entries = format_count(report.entries, "entry")
        what = "stops and caps" if owner == ALL_TENANTS else "totals"
        verdict = f"OK: {entries}, hash chain intact, {what} match"
        if report.problems:
            verdict = f"WRONG: {entries}"
        print_text(f"{_format_owner(owner)}: {verdict}")
        for problem in report.problems:
            print_text(f"  {problem}")
        if report.head and not report.problems:
            print_text(f"  {_format_checkpoint(report)}")
    if any(report.head and not report.problems for _, report in reports):
        print_text("Keep these checkpoints elsewhere; `verify --head` compares with one.")
    for problem in totals:
        print_text(f"shared: {problem}")
    return Exit.PROBLEMS if bad else Exit.OK


@ledger.command("export")
@export_options(list(FORMATS), out="The file. Default, and -: stdout, but not for parquet.")
@tenants_option
@shared_option
@filter_options
@click.option(
    "--limit", type=COUNT, metavar="N", help="Write at most N entries per tenant; 0 writes all."
)
@export_json_option
@pass_context
@async_command
async def export_entries(
    asked: CommandContext,
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

    In CSV, a ' precedes text that a spreadsheet could take for a formula; on a terminal, control
    characters are made visible.
    """
    selection = _build_filter(**filters)
    if as_json and out is None:
        raise ConfigError(
            "--json tells what was written where, and needs --out FILE; "
            "for the entries themselves use --format json"
        )
    count = 0
    async with asked.open_app(only_to_read=True) as app:
        chosen = list_ledgers(app, tenants, shared=shared)
        place = out and asked.directory / out
        with open_export(kind, EXPORT_COLUMNS, out=place, replace=force) as writing:
            for owner, book in chosen:
                left = limit or None
                async for page in read_pages(book):
                    wanted = [entry for entry in page if selection.matches(entry)][:left]
                    writing.add([to_export_row(owner, entry) for entry in wanted])
                    count += len(wanted)
                    if left is not None and (left := left - len(wanted)) == 0:
                        break
    if as_json:
        print_json({"entries": count, "out": str(out), "format": kind})
    elif out is not None:
        print_text(f"Wrote {format_count(count, 'entry')} to {out}.")


def to_export_row(tenant: str, entry: LedgerEntry) -> Row:
    """Return an entry as a row; the most common data have columns of their own."""
    about = {name: get_data_text(entry, name) for name in ("code", "connector", "account", "run")}
    return {"tenant": tenant, "seq": entry.seq, **asdict(entry), **about}


def to_entry_json(tenant: str, entry: LedgerEntry) -> Json:
    """Return an entry for programs."""
    at = entry.at.isoformat()
    return {"tenant": tenant, "seq": entry.seq, **asdict(entry), "at": at}


def _build_filter(*, since: str | None, until: str | None, **rest: str | None) -> LedgerFilter:
    from stoker.app import system_clock

    start, end = parse_period(since, until, now=system_clock().now())
    return LedgerFilter(since=start, until=end, **rest)


def _format_owner(owner: str) -> str:
    return "all tenants" if owner == ALL_TENANTS else owner


def _format_subject(entry: LedgerEntry) -> str:
    """Return what an entry is about; a vendor call's key is long and shown by `ledger show`."""
    connector, _, key = entry.subject.partition("/")
    if connector != get_data_text(entry, "connector") or len(key) <= _MAX_KEY_SHOWN:
        return entry.subject
    account = get_data_text(entry, "account")
    call = f"account {account}" if account else f"{key[:_MAX_KEY_SHOWN]}…"
    return f"{format_connector(connector)}, {call}"


def _format_reason(entry: LedgerEntry) -> str:
    code = get_data_text(entry, "code")
    return f"{code}: {entry.reason}" if code else entry.reason


def _to_report_json(tenant: str, verdict: LedgerReport) -> Json:
    return {
        "tenant": tenant,
        "entries": verdict.entries,
        "problems": list(verdict.problems),
        "head": _format_checkpoint(verdict),
    }


def _format_checkpoint(verdict: LedgerReport) -> str | None:
    return f"{verdict.head.seq}:{verdict.head.digest}" if verdict.head else None


def _parse_checkpoint(text: str) -> Checkpoint:
    if not _CHECKPOINT_PATTERN.fullmatch(text):
        raise ConfigError(f"--head {text!r} is not SEQ:DIGEST; copy what an earlier verify printed")
    seq, _, digest = text.partition(":")
    return Checkpoint(int(seq), digest)
