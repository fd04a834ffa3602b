"""Compute each cap's balance (settled, reserved, free, limit, reset) and the cost of one run.

settled + reserved + free = limit, unless more was charged than reserved or a cap was lowered; then
the balance has the excess in `over`. `find_mismatches` lists where the reserved total differs from
the open reservations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from stoker.base.jsontools import get_object
from stoker.budgets.caps import Cap, CapChange, compute_effective_limit
from stoker.budgets.charges import (
    CapWindow,
    Totals,
    compute_overlap,
    get_reset_rule,
    list_overlapping_windows,
)
from stoker.budgets.reservations import OPEN_STATUSES, Reservation, ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind, compute_window, format_reset
from stoker.ledger.chain import LedgerEntry
from stoker.ledger.query import EntryKind, LedgerFilter, get_data_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CapBalance:
    """One cap in one window."""

    cap: str
    window: str
    used: Totals
    limit: int | None  # None: there is no such cap any more, only reservations under it
    resets: str
    raised_until: datetime | None = None  # set while a raise is in force

    @property
    def free(self) -> int:
        """What may still be reserved."""
        return max((self.limit or 0) - self.used.total, 0)

    @property
    def over(self) -> int:
        """How much more is used than the cap allows."""
        return 0 if self.limit is None else max(self.used.total - self.limit, 0)


def list_balances(
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[CapWindow, Totals],
    *,
    reset: ResetRule,
    now: datetime,
) -> list[CapBalance]:
    """Return the current window of each cap, and every other with something reserved, sorted by
    cap.

    The current window includes what overlapping windows used: they began under another reset rule
    and count against the limit. A cap per run has many windows at once; without any it has a line
    with nothing used.
    """
    found: list[CapBalance] = []
    known = set()
    for cap in sorted(caps, key=lambda cap: cap.id):
        known.add(cap.id)
        found += _list_cap_balances(
            cap, changes.get(cap.id), used, reset=get_reset_rule(cap, reset), now=now
        )
    for (cap_id, window), there in sorted(used.items()):
        if cap_id not in known and there.reserved:
            gone = "there is no such cap any more"
            found.append(CapBalance(cap=cap_id, window=window, used=there, limit=None, resets=gone))
    return sorted(found, key=lambda line: (line.cap, line.window))


def list_current_balances(
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[CapWindow, Totals],
    *,
    reset: ResetRule,
    now: datetime,
) -> list[tuple[Cap, CapBalance, datetime]]:
    """Return the balance of a tenant's own caps in the current window, and when it ends.

    Without caps per run, as the next run has its own, and without shared caps.
    """
    own = {cap.id: cap for cap in caps if cap.window is not WindowKind.RUN and not cap.shared}
    found = []
    for line in list_balances(own.values(), changes, used, reset=reset, now=now):
        if line.cap in own:
            window = compute_window(own[line.cap].window, now, reset=reset)
            if line.window == window.name:
                found.append((own[line.cap], line, window.end))
    return found


def compute_left(
    connectors: Iterable[str],
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[CapWindow, Totals],
    *,
    reset: ResetRule,
    now: datetime,
    run: str = "",
) -> dict[str, dict[str, int]]:
    """Return how much of each unit each connector may still use in a run that begins now.

    The minimum over all caps of any scope and window; shared caps count, and a cap per run is
    unused but for what `run` used, which the new one goes on with. A unit without a cap is
    missing; the empty connector stands for spending without a connector.
    """
    found: dict[str, dict[str, int]] = {name: {} for name in connectors}
    for cap in caps:
        change = changes.get(cap.id)
        if cap.window is WindowKind.RUN:
            spent = used.get((cap.id, f"run {run}"), Totals()).total
            free = max(compute_effective_limit(cap, change, now=now) - spent, 0)
        else:
            window = compute_window(cap.window, now, reset=get_reset_rule(cap, reset)).name
            lines = _list_cap_balances(cap, change, used, reset=get_reset_rule(cap, reset), now=now)
            free = next(line.free for line in lines if line.window == window)
        for name, units in found.items():
            if cap.connector in ("", name):
                units[cap.unit] = min(units.get(cap.unit, free), free)
    return found


def find_mismatches(
    reservations: Iterable[Reservation], used: Mapping[CapWindow, Totals]
) -> list[str]:
    """Return a sentence for each window whose reserved total is not what open reservations add up
    to.

    Caps that tenants share are passed over: one tenant's reservations cannot explain them.
    """
    reserved_amounts: dict[CapWindow, int] = {}
    for reservation in reservations:
        for charge in reservation.charges if reservation.status in OPEN_STATUSES else ():
            if not charge.shared:
                place = (charge.cap, charge.window)
                reserved_amounts[place] = reserved_amounts.get(place, 0) + charge.amount
    return [
        f"{place[0]} in {place[1]}: {used.get(place, Totals()).reserved} is reserved, but its open "
        f"reservations add up to {reserved_amounts.get(place, 0)}"
        for place in sorted(reserved_amounts.keys() | used.keys())
        if reserved_amounts.get(place, 0) != used.get(place, Totals()).reserved
    ]


def _list_cap_balances(
    cap: Cap,
    change: CapChange | None,
    used: Mapping[CapWindow, Totals],
    *,
    reset: ResetRule,
    now: datetime,
) -> Iterator[CapBalance]:
    windows = {
        window: "this window has ended"
        for (cap_id, window), there in used.items()
        if cap_id == cap.id and there.reserved
    }
    if cap.window is WindowKind.RUN:
        last = max((window for cap_id, window in used if cap_id == cap.id), default="run")
        windows |= dict.fromkeys([last, *windows], "does not reset; the next run has its own")
    else:
        current = compute_window(cap.window, now, reset=reset)
        others = list_overlapping_windows(cap, current, used)
        for other in others:
            if other.name in windows:
                windows[other.name] = "counts in the window of now too"
        windows[current.name] = format_reset(current, now=now, reset=reset)
        place = (cap.id, current.name)
        own = used.get(place, Totals())
        before = compute_overlap(own, ((other, used[cap.id, other.name]) for other in others))
        both = Totals(settled=own.settled + before.settled, reserved=own.reserved + before.reserved)
        used = {**used, place: both}
    until = change.raised_until if change else None
    for window, resets in windows.items():
        yield CapBalance(
            cap=cap.id,
            window=window,
            used=used.get((cap.id, window), Totals()),
            limit=compute_effective_limit(cap, change, now=now),
            resets=resets,
            raised_until=until if until is not None and now < until else None,
        )


_OPENING_KINDS = (EntryKind.RESERVED.value, EntryKind.UNCERTAIN.value)

_CLOSING_KINDS = (EntryKind.SETTLED.value, EntryKind.RELEASED.value, EntryKind.EXPIRED.value)

_MAYBE_SPENT_STATUSES = (ReservationStatus.SENT, ReservationStatus.UNCERTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What was spent, by connector and unit: tavily/calls."""

    settled: Mapping[str, int]
    unknown: Mapping[str, int]  # reserved besides, and with an unknown outcome


class RunCostCounter:
    """Adds up what a run spent, for one account or for all. Memory is that of open reservations."""

    def __init__(self, run: str, *, account: str | None = None) -> None:
        self._filter = LedgerFilter(run=run, account=account)
        self._settled: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._open: dict[str, None] = {}

    @property
    def open_keys(self) -> tuple[str, ...]:
        """The keys of reservations that are still open after the entries so far."""
        return tuple(self._open)

    def add(self, entries: Iterable[LedgerEntry]) -> None:
        """Count these entries too; they come in the ledger's order."""
        for entry in entries:
            if not self._filter.matches(entry):
                continue
            if entry.kind in _OPENING_KINDS:
                self._open[entry.subject] = None
            elif entry.kind in _CLOSING_KINDS:
                self._open.pop(entry.subject, None)
            if entry.kind == EntryKind.SETTLED:
                actual = get_object(entry.data.get("actual"))
                _add_amounts(self._settled, get_data_text(entry, "connector"), actual)

    def add_open_reservation(self, reservation: Reservation) -> None:
        """Count an open reservation by its current status: one never sent is not spent."""
        if reservation.key not in self._open:
            return
        del self._open[reservation.key]
        if reservation.status is ReservationStatus.SETTLED:
            _add_amounts(self._settled, reservation.connector, reservation.actual)
        elif reservation.status in _MAYBE_SPENT_STATUSES:
            _add_amounts(self._unknown, reservation.connector, reservation.amounts)

    def get_cost(self) -> RunCost:
        """Return the cost so far, without what is still open."""
        return RunCost(
            settled=dict(sorted(self._settled.items())), unknown=dict(sorted(self._unknown.items()))
        )


def _add_amounts(total: Counter[str], connector: str, amounts: Mapping[str, object]) -> None:
    for unit, amount in amounts.items():
        if isinstance(amount, int):
            total[f"{connector}/{unit}"] += amount
