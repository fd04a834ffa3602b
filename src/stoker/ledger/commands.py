"""`stoker ledger`: what was decided and spent, and whether the record is sound.

A command reads the tenants' ledgers or, with `--shared`, the installation's own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count, format_time
from stoker.base.jsontools import compact_json, get_object
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
from stoker.ledger.query import EntryKind, LedgerFilter, get_data_text
from stoker.ledger.read import list_latest, read_pages

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.budgets.verify import LedgerReport
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.files.export import Row
    from stoker.ledger.chain import LedgerEntry
    from stoker.ledger.store import LedgerStore
    from stoker.pulls.decision_entries import DecisionList

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

_MAX_DELETED_SHOWN = 3  # plans

_PLAN_KIND = "PLAN"

_DECISION_KINDS = frozenset({EntryKind.CHOSEN.value, EntryKind.NOT_CHOSEN.value})

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


plan_option = click.option(
    "--plan", metavar="RUN", help="The decisions of the plan of this run, or of the latest."
)


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
@plan_option
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
    plan: str | None,
    limit: int | None,
    before: int | None,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Show entries, newest first.

    --account also shows what each stored plan decided about the account, --plan every decision of
    one plan: selected or not, with reason and numbers, read from the stored plan whose digest the
    ledger has.
    """
    selection, limit = _build_filter(**filters), limit or _ALL
    found: list[tuple[str, LedgerEntry]] = []
    deleted: list[tuple[str, LedgerEntry]] = []
    names: dict[tuple[str, str], str] = {}
    async with asked.open_app(only_to_read=True) as app:
        chosen = list_ledgers(app, tenants, shared=shared)
        if before is not None and (len(chosen) > 1 or plan):
            raise ConfigError("--before counts in one ledger; choose a tenant with --tenant")
        if shared and plan:
            raise ConfigError("plans are a tenant's; leave out --shared")
        for owner, book in chosen:
            if shared or not (plan or selection.account):
                latest = await list_latest(book, selection, before=before, limit=limit)
                found.extend((owner, entry) for entry in latest)
                continue
            read = await _read_decisions(
                app, owner, plan, selection, before=before, limit=limit, single=len(chosen) == 1
            )
            found.extend((owner, entry) for entry in read.entries)
            deleted.extend((owner, entry) for entry in read.deleted)
        if len(chosen) > 1 and not plan:
            found.sort(key=lambda pair: (pair[1].at, pair[0], pair[1].seq), reverse=True)
        more = max(len(found) - limit, 0) if plan else 0
        del found[limit:]
        if not as_json and (plan or selection.account):
            names = await _find_names(app, found)
    if as_json:
        print_json([to_entry_json(*pair) for pair in found])
        return
    if plan and found:
        _print_decisions(found, names)
    else:
        print_table(
            ["tenant", "seq", "at (utc)", "kind", "about", "reason"],
            [
                (
                    _format_owner(owner),
                    entry.seq,
                    f"{entry.at:%Y-%m-%d %H:%M:%S}",
                    entry.kind,
                    _format_subject(entry, names.get((owner, entry.subject), "")),
                    _format_reason(entry),
                )
                for owner, entry in found
            ],
            empty="No such entries.",
        )
    for owner, entry in deleted[:_MAX_DELETED_SHOWN]:
        print_text(
            f"The decisions of plan {entry.subject} were deleted with its run (retention); its "
            f"totals: stoker ledger show {entry.seq} --tenant {owner}"
        )
    if len(deleted) > _MAX_DELETED_SHOWN:
        print_text(f"and those of {len(deleted) - _MAX_DELETED_SHOWN} older plans.")
    if more:
        print_text(f"{format_count(more, 'more decision')}; --limit 0 shows all.")
    elif len(chosen) == 1 and len(found) == limit and found[-1][1].seq > 1 and not plan:
        print_text(f"Older entries: repeat with --before {found[-1][1].seq}")


def _print_decisions(
    found: Sequence[tuple[str, LedgerEntry]], names: Mapping[tuple[str, str], str]
) -> None:
    """Print the decisions of plans, what they have in common once."""
    for owner in dict.fromkeys(owner for owner, _ in found):
        entries = [entry for whose, entry in found if whose == owner]
        first = entries[0]
        print_text(
            f"{owner}: plan of run {get_data_text(first, 'run')}, {format_time(first.at)}, policy "
            f"{get_data_text(first, 'policy')}; entry {first.seq} has its digest, which the stored "
            "plan matches"
        )
        print_table(
            ["account", "name", "decision", "depth", "last research", "value"],
            [
                (
                    entry.subject,
                    names.get((owner, entry.subject), ""),
                    get_data_text(entry, "code"),
                    get_data_text(entry, "depth"),
                    _format_age(entry.data["age_days"]),
                    f"{float(str(entry.data['value_per_unit'])):.3g}",
                )
                for entry in entries
            ],
            right=["value"],
        )
        print_text(
            f"Value is per pull unit; the cutoff was {float(str(first.data['cutoff'])):.3g}. "
            f"One account in full: stoker why {owner}/{first.subject}"
        )


def _format_age(days: Json) -> str:
    return "never" if days is None else f"{float(str(days)):.1f} days ago"


async def _read_decisions(
    app: Context,
    owner: str,
    plan: str | None,
    selection: LedgerFilter,
    *,
    before: int | None,
    limit: int,
    single: bool,
) -> DecisionList:
    """Return a tenant's entries with the decisions of its plans, or those of one plan."""
    from stoker.base.types import TenantId
    from stoker.pulls.decision_entries import (
        DecisionList,
        list_account_entries,
        list_plan_decisions,
        require_plan,
    )

    store = app.backend.tenant(TenantId(owner))
    if plan is None:
        return await list_account_entries(store, selection, before=before, limit=limit)
    found = await list_plan_decisions(store, plan, selection)
    return require_plan(found, plan, owner) if single else found or DecisionList()


async def _find_names(
    app: Context, found: Sequence[tuple[str, LedgerEntry]]
) -> dict[tuple[str, str], str]:
    """Return the names of the accounts that decisions are about, by tenant and id."""
    from stoker.accounts.model import CompanyId
    from stoker.base.types import TenantId

    names: dict[tuple[str, str], str] = {}
    for owner in {owner for owner, _ in found}:
        ids = [
            CompanyId(entry.subject)
            for whose, entry in found
            if whose == owner and entry.kind in _DECISION_KINDS
        ]
        known = await app.backend.tenant(TenantId(owner)).accounts.find_names(ids)
        names |= {(owner, account): name for account, name in known.items()}
    return names


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
@plan_option
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
    plan: str | None,
    limit: int | None,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Write entries to a file, oldest first, tenant by tenant.

    --account includes what stored plans decided about it, --plan writes every decision of one plan.
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
        if shared and plan:
            raise ConfigError("plans are a tenant's; leave out --shared")
        place = out and asked.directory / out
        with open_export(kind, EXPORT_COLUMNS, out=place, replace=force) as writing:
            for owner, book in chosen:
                left = limit or None
                pages = read_pages(book)
                if plan or (selection.account and not shared):
                    pages = _read_decision_pages(app, owner, book, plan, selection)
                async for page in pages:
                    wanted = [entry for entry in page if selection.matches(entry)][:left]
                    writing.add([to_export_row(owner, entry) for entry in wanted])
                    count += len(wanted)
                    if left is not None and (left := left - len(wanted)) == 0:
                        break
    if as_json:
        print_json({"entries": count, "out": str(out), "format": kind})
    elif out is not None:
        print_text(f"Wrote {format_count(count, 'entry')} to {out}.")


async def _read_decision_pages(
    app: Context, owner: str, book: LedgerStore, plan: str | None, selection: LedgerFilter
) -> AsyncIterator[Sequence[LedgerEntry]]:
    """Yield a ledger's pages with the decisions of plans in them, or those of one plan."""
    from stoker.base.types import TenantId
    from stoker.pulls.decision_entries import expand_entry, list_plan_decisions, require_plan

    store = app.backend.tenant(TenantId(owner))
    if plan is not None:
        yield require_plan(await list_plan_decisions(store, plan, selection), plan, owner).entries
        return
    async for page in read_pages(book):
        found = [await expand_entry(store, entry, selection) for entry in page]
        yield [entry for each in found for entry in each.entries]


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


def _format_subject(entry: LedgerEntry, name: str = "") -> str:
    """Return what an entry is about; a vendor call's key is long and shown by `ledger show`."""
    if name:
        return f"{name} ({entry.subject})"
    connector, _, key = entry.subject.partition("/")
    if connector != get_data_text(entry, "connector") or len(key) <= _MAX_KEY_SHOWN:
        return entry.subject
    account = get_data_text(entry, "account")
    call = f"account {account}" if account else f"{key[:_MAX_KEY_SHOWN]}…"
    return f"{format_connector(connector)}, {call}"


def _format_reason(entry: LedgerEntry) -> str:
    if entry.kind == _PLAN_KIND and not entry.reason:
        counts = get_object(entry.data, "counts")
        decided = ", ".join(
            f"{number} {code}" for code, number in counts.items() if code not in ("shallow", "deep")
        )
        accounts = get_data_text(entry, "accounts")
        return f"{accounts} accounts: {decided or 'none'}; ledger list --plan {entry.subject}"
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
