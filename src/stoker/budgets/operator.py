"""What an operator reads and does about budgets: balances, caps, open reservations, stops.

Each change is one transaction of a store, with its ledger entry. The second half is how caps,
reservations and stops are shown to people and programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from stoker.base.errors import ConfigError
from stoker.base.formats import format_amount, format_duration, format_time
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import (
    Cap,
    CapChange,
    Scope,
    compute_effective_limit,
    get_cap_unit,
    parse_cap,
    validate_connector,
)
from stoker.budgets.model import Stop
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    Reservation,
    ReservationStatus,
    compute_overrun,
)
from stoker.budgets.service import build_reset_rule, list_caps, list_shared_caps
from stoker.budgets.statements import CapBalance, find_mismatches, list_balances
from stoker.budgets.verify import list_open_reservations, to_totals
from stoker.budgets.windows import ResetRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stoker.context import Context

ALL_TENANTS = "everybody"  # in JSON, the tenant of what all tenants share

_CONNECTOR_NAMES = {"openai": "OpenAI", "zerobounce": "ZeroBounce"}

_UNIT_NAMES = {"pull_units": "research units", "money": "money"}

MAX_READS = 5  # of a store in use, before numbers that do not add up are believed


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPosition:
    """One tenant's caps, open reservations, stops, and totals that do not add up."""

    tenant: TenantId
    balances: list[CapBalance]
    reservations: list[Reservation]
    stops: list[Stop]
    mismatches: list[str]


class CapUpdate(NamedTuple):
    """A change to a cap that was made."""

    tenant: TenantId | None  # None: shared by all tenants
    cap: Cap
    was: int | None  # the limit before, without a temporary raise; None: the cap is new
    raised: int = 0  # the temporary limit in force before; 0 when there was none


class StopResult(NamedTuple):
    """The stops now in force, and the reservations made before that still run."""

    stops: list[Stop]
    in_flight: list[tuple[TenantId, Reservation]]
    is_known_connector: bool


async def read_position(app: Context, tenant: TenantId, *, now: datetime) -> BudgetPosition:
    """Return a tenant's position now, without shared caps."""
    money = app.backend.tenant(tenant).budgets
    caps = [cap for cap in await list_caps(app.for_tenant(tenant)) if not cap.shared]
    changes = await money.list_cap_changes()
    for _ in range(MAX_READS):
        # Two readings, and a worker may spend in between; then both are read again.
        used = to_totals(await money.list_usage())
        reservations = await list_open_reservations(money)
        mismatches = find_mismatches(reservations, used)
        if not mismatches:
            break
    return BudgetPosition(
        tenant=tenant,
        balances=list_balances(
            caps, changes, used, reset=build_reset_rule(app.settings.for_tenant(tenant)), now=now
        ),
        reservations=reservations,
        stops=await money.list_stops(),
        mismatches=mismatches,
    )


async def list_shared_balances(app: Context, *, now: datetime) -> list[CapBalance]:
    """Return the balances of the caps that tenants share."""
    shared = app.backend.shared()
    used = to_totals(await shared.list_usage())
    caps, changes = await list_shared_caps(app), await shared.list_cap_changes()
    return list_balances(caps, changes, used, reset=ResetRule(), now=now)


async def set_cap(
    app: Context, cap_id: str, limit: int, *, tenant: TenantId | None, known: Iterable[str]
) -> CapUpdate:
    """Set a cap's limit from now on, or add the cap; a temporary raise ends.

    Raises ConfigError for a new cap of a connector that is not among those `known`: it would bind
    nothing, and may be a typo.
    """
    cap, now = parse_cap(cap_id, limit=limit), app.clock.now()
    limits = await _find_limits(app, cap, tenant=tenant, now=now)
    if limits is None and cap.connector and cap.connector not in (names := list(known)):
        raise ConfigError(
            f"there is no connector {cap.connector}, so this cap would bind nothing; "
            f"there are: {', '.join(names)}"
        )
    was, raised = limits or (None, 0)
    change = CapChange(
        cap=cap.id,
        limit=limit,
        raised_to=limit if raised else None,
        raised_until=now if raised else None,
    )
    await _save_change(app, cap, change, tenant=tenant)
    return CapUpdate(None if cap.shared else tenant, cap, was, raised)


async def raise_cap(
    app: Context, cap_id: str, limit: int, *, until: datetime, tenant: TenantId | None
) -> CapUpdate:
    """Let a cap allow more until a time. Raises ConfigError for a limit it has already."""
    cap = parse_cap(cap_id, limit=limit)
    limits = await _find_limits(app, cap, tenant=tenant, now=app.clock.now())
    if limits is None:
        raise ConfigError(f"there is no cap {cap.id} to raise; list the caps: stoker caps list")
    if limit <= limits[0]:
        raise ConfigError(
            f"{cap.id} already allows {limits[0]}, so {limit} raises nothing; to lower it: "
            f"stoker caps set {cap.id} {limit}"
        )
    change = CapChange(cap=cap.id, raised_to=limit, raised_until=until)
    await _save_change(app, cap, change, tenant=tenant)
    return CapUpdate(None if cap.shared else tenant, cap, *limits)


async def settle_by_hand(
    app: Context, tenant: TenantId, key: str, actual: Mapping[str, int]
) -> Reservation:
    """Settle a reservation of unknown outcome at a cost; a unit left out cost nothing."""
    money = app.backend.tenant(tenant).budgets
    reservation = await _get_undecided(app, tenant, key)
    if more := sorted(set(actual) - set(reservation.amounts)):
        units = ", ".join(sorted(reservation.amounts))
        raise ConfigError(f"{key} reserved {units}, not {', '.join(more)}")
    return await money.settle(key, actual, now=app.clock.now())


async def release_by_hand(app: Context, tenant: TenantId, key: str, *, reason: str) -> Reservation:
    """Release a reservation of unknown outcome under which nothing was bought."""
    if not reason.strip():
        raise ConfigError("--reason is empty; give the evidence that nothing was bought")
    await _get_undecided(app, tenant, key)
    money = app.backend.tenant(tenant).budgets
    return await money.release(key, reason=reason, now=app.clock.now())


async def stop_spending(
    app: Context, tenant: TenantId | None, connector: str, *, reason: str, known: Iterable[str]
) -> StopResult:
    """Refuse every reservation from now on, in every process; of a connector or (empty) of all.

    Stopping twice is the same as once. Calls that were reserved before go on and are settled.
    `known` are the connectors there are: a stop of another is kept too, and may be a typo.
    """
    if connector:
        validate_connector(connector)
    now = app.clock.now()
    if tenant is not None:
        await app.backend.tenant(tenant).budgets.stop(connector, reason=reason, now=now)
        tenants: Sequence[TenantId] = [tenant]
    else:
        await app.backend.shared().stop(connector, reason=reason, now=now)
        tenants = [known.id for known in app.settings.tenants]
    in_flight = [
        (each, reservation)
        for each in tenants
        for reservation in await list_open_reservations(
            app.backend.tenant(each).budgets, connector=connector
        )
    ]
    capped = {cap.connector for each in tenants for cap in await list_caps(app.for_tenant(each))}
    is_known = not connector or connector in {*known, *capped}
    return StopResult(await list_stops(app, tenant), in_flight, is_known)


async def resume_spending(app: Context, tenant: TenantId | None, connector: str) -> bool:
    """End the stop with this tenant and connector; return whether there was one."""
    if connector:
        validate_connector(connector)
    now = app.clock.now()
    if tenant is not None:
        return await app.backend.tenant(tenant).budgets.resume(connector, now=now)
    return await app.backend.shared().resume(connector, now=now)


async def list_stops(app: Context, tenant: TenantId | None) -> list[Stop]:
    """Return the stops in force for a tenant; for None, the shared ones and every tenant's own."""
    if tenant is not None:
        return await app.backend.tenant(tenant).budgets.list_stops()
    stops = await app.backend.shared().list_stops()
    for known in app.settings.tenants:
        own = await app.backend.tenant(known.id).budgets.list_stops()
        stops += [each for each in own if each.tenant]
    return stops


async def _get_undecided(app: Context, tenant: TenantId, key: str) -> Reservation:
    """Return a reservation that a person may end: no worker holds it any more."""
    found = await app.backend.tenant(tenant).budgets.find_reservation(key)
    if found is None:
        raise ConfigError(f"{tenant} has no reservation {key!r}; list them: stoker holds")
    if found.status not in OPEN_STATUSES:
        raise ConfigError(
            f"{key} is {found.status} already; see: stoker ledger list --tenant {tenant}"
        )
    if found.status is not ReservationStatus.UNCERTAIN and app.clock.now() < found.until:
        raise ConfigError(
            f"{found.owner} works on {key} until {found.until:%Y-%m-%d %H:%M:%S} UTC at least and "
            "will settle it; wait for that"
        )
    return found


async def _find_limits(
    app: Context, wanted: Cap, *, tenant: TenantId | None, now: datetime
) -> tuple[int, int] | None:
    """Return a cap's lasting limit and its temporary one (0 for none); None without such a cap."""
    if wanted.shared:
        caps, changes = await list_shared_caps(app), await app.backend.shared().list_cap_changes()
    else:
        owner = _check_tenant(wanted, tenant)
        caps = await list_caps(app.for_tenant(owner))
        changes = await app.backend.tenant(owner).budgets.list_cap_changes()
    cap = next((cap for cap in caps if cap.id == wanted.id), None)
    if cap is None:
        return None
    change = changes.get(cap.id)
    lasting = compute_effective_limit(
        cap, change and CapChange(cap=cap.id, limit=change.limit), now=now
    )
    # A raise below the limit counts too: it would be above a limit set lower.
    until = change.raised_until if change else None
    is_raised = change is not None and until is not None and now < until
    return lasting, (change.raised_to or 0) if change and is_raised else 0


async def _save_change(
    app: Context, cap: Cap, change: CapChange, *, tenant: TenantId | None
) -> None:
    now = app.clock.now()
    if not cap.shared:
        owner = _check_tenant(cap, tenant)
        await app.backend.tenant(owner).budgets.change_cap(change, now=now)
        return
    if tenant is not None:
        raise ConfigError(f"{cap.id} is shared by all tenants; leave out --tenant")
    await app.backend.shared().change_cap(change, now=now)


def _check_tenant(cap: Cap, tenant: TenantId | None) -> TenantId:
    if tenant is None:
        raise ConfigError(f"{cap.id} is one tenant's; choose a tenant with --tenant")
    return tenant


def parse_cap_name(text: str) -> str:
    """Return a cap's id from its id or its short name.

    `tavily/calls/day` is a tenant's cap on one connector, `money:USD/day` one on all together.
    """
    parts = text.split("/")
    if len(parts) == 3:
        return f"{Scope.TENANT_CONNECTOR}/{text}"
    return f"{Scope.TENANT}/*/{text}" if len(parts) == 2 else text


def to_cap_name(cap_id: str) -> str:
    """Return the short name of a cap; a shared cap has none but its id."""
    for start in (f"{Scope.TENANT_CONNECTOR}/", f"{Scope.TENANT}/*/"):
        if cap_id.startswith(start):
            return cap_id.removeprefix(start)
    return cap_id


def format_cap(cap_id: str) -> str:
    """Return a cap in words: `Tavily calls per day`, `Money per day`."""
    _, connector, unit, window = cap_id.split("/")
    kind = unit.partition(":")[0]
    words = _UNIT_NAMES.get(kind, kind)
    if connector == "*":
        return f"{words.capitalize()} per {window}"
    return f"{format_connector(connector)} {words} per {window}"


def format_connector(connector: str) -> str:
    """Return a connector's name as its maker writes it."""
    return _CONNECTOR_NAMES.get(connector, connector.capitalize())


def format_cap_amount(cap_id: str, amount: int) -> str:
    """Return an amount that a cap counts, without its unit; money in major units."""
    unit = get_cap_unit(cap_id)
    if unit.startswith("money:"):
        return format_amount(unit, amount).partition(" ")[2]
    return f"{amount:,}"


def format_stop(stop: Stop) -> str:
    """Return who and what a stop is about, since when and why."""
    tenants = stop.tenant or "all tenants"
    what = f"{tenants}: {stop.connector}" if stop.connector else tenants
    reason = f" Reason: {stop.reason}" if stop.reason else ""
    return f"Spending is stopped for {what} since {format_time(stop.since)}.{reason}"


def format_resume_command(stop: Stop) -> str:
    """Return the command that ends a stop."""
    tenant = f" --tenant {stop.tenant}" if stop.tenant else ""
    connector = f" --connector {stop.connector}" if stop.connector else ""
    return f"stoker resume{tenant}{connector}"


def format_lease(reservation: Reservation, *, now: datetime) -> str:
    """Return how long a worker still holds a reservation, or what it waits for."""
    if reservation.status is ReservationStatus.UNCERTAIN:
        return "waits for your decision"
    if now < reservation.until:
        return f"ends in {format_duration(reservation.until - now)}"
    return f"ended {format_duration(now - reservation.until)} ago"


def to_balance_json(tenant: str, balance: CapBalance) -> Json:
    """Return a cap's balance for programs."""
    return {
        "tenant": tenant,
        "cap": balance.cap,
        "name": to_cap_name(balance.cap),
        "window": balance.window,
        "used": balance.used.settled,
        "reserved": balance.used.reserved,
        "free": balance.free,
        "over": balance.over,
        "limit": balance.limit,
        "raised_until": balance.raised_until.isoformat() if balance.raised_until else None,
        "resets": balance.resets,
    }


def to_stop_json(stop: Stop) -> dict[str, Json]:
    """Return a stop for programs."""
    return {
        "tenant": stop.tenant,
        "connector": stop.connector,
        "since": stop.since.isoformat(),
        "reason": stop.reason,
    }


def to_reservation_json(tenant: TenantId, reservation: Reservation) -> dict[str, Json]:
    """Return a reservation for programs; one that has ended also says what it cost."""
    view: dict[str, Json] = {
        "tenant": tenant,
        "key": reservation.key,
        "connector": reservation.connector,
        "phase": reservation.status.value,
        "amounts": dict(reservation.amounts),
        "owner": reservation.owner,
        "reserved_at": reservation.reserved_at.isoformat(),
        "until": reservation.until.isoformat(),
        "run": reservation.run,
        "account": reservation.account,
        "reason": reservation.reason,
    }
    if reservation.status in (ReservationStatus.SETTLED, ReservationStatus.RELEASED):
        view |= {"actual": dict(reservation.actual), "overrun": compute_overrun(reservation)}
    return view
