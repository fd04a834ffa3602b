"""How commands read and show money: one tenant's position, statements as a table, what was typed.

The commands themselves are in `caps`, `holds` and `stopping`. Nothing is decided here: what fits,
what is free and what adds up stands in the core.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import validate_amount
from stoker.budgets.model import BudgetStore, Stop
from stoker.budgets.reservations import OPEN_STATUSES, Reservation
from stoker.budgets.statements import CapBalance, find_mismatches, list_balances
from stoker.budgets.verify import to_totals
from stoker.budgets.windows import ResetRule
from stoker.cli.options import parse_time
from stoker.cli.output import print_table, print_text
from stoker.ledger.read import PAGE_SIZE

if TYPE_CHECKING:
    from stoker.app import App

MAX_READS = 5  # at a store in use, before numbers that do not add up are believed

_DURATION_PATTERN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?")

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPosition:
    """Where one tenant stands: its caps, its open promises, its stops, and what does not add up."""

    tenant: TenantId
    balances: list[CapBalance]
    reservations: list[Reservation]
    stops: list[Stop]
    mismatches: list[str]


async def read_position(app: App, tenant: TenantId, *, now: datetime) -> BudgetPosition:
    """Return where a tenant stands now. Shared caps are not in it."""
    money = app.backend.tenant(tenant).money
    caps = [cap for cap in await app.list_caps(tenant) if not cap.shared]
    changes = await money.list_cap_changes()
    for _ in range(MAX_READS):
        # Not one reading but two, so somebody may spend in between; then it is looked at again.
        used = to_totals(await money.list_usage())
        holds = await list_open_reservations(money)
        wrong = find_mismatches(holds, used)
        if not wrong:
            break
    lines = list_balances(caps, changes, used, reset=app.get_reset_rule(tenant), now=now)
    return BudgetPosition(
        tenant=tenant,
        balances=lines,
        reservations=holds,
        stops=await money.list_stops(),
        mismatches=wrong,
    )


async def list_shared_balances(app: App, *, now: datetime) -> list[CapBalance]:
    """Return the caps that tenants share, for operators."""
    shared = app.backend.shared()
    used = to_totals(await shared.list_usage())
    caps, changes = await app.list_shared_caps(), await shared.list_cap_changes()
    return list_balances(caps, changes, used, reset=ResetRule(), now=now)


async def list_open_reservations(money: BudgetStore, *, connector: str = "") -> list[Reservation]:
    """Return the promises whose outcome is not known yet, of a connector or (empty) of all."""
    found: list[Reservation] = []
    after = ""
    while page := await money.list_reservations(
        phases=sorted(OPEN_STATUSES), after=after, limit=PAGE_SIZE
    ):
        found += [hold for hold in page if connector in ("", hold.connector)]
        after = page[-1].key
    return found


def show_balances(lines: Iterable[tuple[str, CapBalance]]) -> None:
    """Print statements, each under whom it is about."""
    print_table(
        ["tenant", "cap", "used", "reserved", "free", "limit", "when", "note"],
        [
            (
                whose,
                line.cap,
                line.used.settled,
                line.used.reserved,
                line.free,
                "none" if line.limit is None else line.limit,
                line.resets,
                _format_note(line),
            )
            for whose, line in lines
        ],
        empty="no caps; set one with: stoker caps set CAP LIMIT",
    )


def print_stops(stops: Iterable[Stop]) -> None:
    """Print the stops in force, one line each; nothing when there are none."""
    for stop in stops:
        print_text(format_stop(stop))


def format_stop(stop: Stop) -> str:
    """Say of a stop whom and what it is about, since when, and because of what."""
    whose, since = stop.tenant or "everybody", f"{stop.since:%Y-%m-%d %H:%M} UTC"
    why = stop.reason or "no reason was given"
    what = stop.connector or "every connector"
    return f"STOPPED for {whose}: {what}, since {since}: {why}"


def format_resume_command(stop: Stop) -> str:
    """Return the command that takes a stop back."""
    tenant = f" --tenant {stop.tenant}" if stop.tenant else ""
    connector = f" --connector {stop.connector}" if stop.connector else ""
    return f"stoker resume{tenant}{connector}"


def to_balance_json(whose: str, line: CapBalance) -> Json:
    """Return a statement for programs."""
    return {
        "tenant": whose,
        "cap": line.cap,
        "window": line.window,
        "used": line.used.settled,
        "reserved": line.used.reserved,
        "free": line.free,
        "over": line.over,
        "limit": line.limit,
        "raised_until": line.raised_until.isoformat() if line.raised_until else None,
        "resets": line.resets,
    }


def to_stop_json(stop: Stop) -> dict[str, Json]:
    """Return a stop for programs."""
    return {
        "tenant": stop.tenant,
        "connector": stop.connector,
        "since": stop.since.isoformat(),
        "reason": stop.reason,
    }


def parse_amount(text: str, *, what: str) -> int:
    """Return the amount that was typed, or say which can be."""
    if not _INTEGER.fullmatch(text):
        raise ConfigError(f"{what} is {text!r}; write a whole number, e.g. 500")
    return validate_amount(int(text), what=what)


def parse_until(text: str, *, now: datetime) -> datetime:
    """Return the moment that was typed, as such or as a while from now; it must lie ahead."""
    found = _DURATION_PATTERN.fullmatch(text)
    if found and any(found.groups()):
        days, hours, minutes = (int(part or 0) for part in found.groups())
        until = now + timedelta(days=days, hours=hours, minutes=minutes)
    else:
        try:
            until = parse_time(text, what="--until")
        except ConfigError as error:
            raise ConfigError(f"{error}; or a while from now: 2h, 90m, 3d") from None
    if until <= now:
        raise ConfigError(
            f"--until {text} is not ahead: it is {now:%Y-%m-%d %H:%M} UTC now; "
            "give a later moment or a while, e.g. 2h"
        )
    return until


def _format_note(line: CapBalance) -> str:
    parts = []
    if line.over:
        parts.append(f"over by {line.over}")
    if line.raised_until:
        parts.append(f"raised until {line.raised_until:%Y-%m-%d %H:%M} UTC")
    return "; ".join(parts)
