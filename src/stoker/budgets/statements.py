"""How full each cap is, as people are told: settled, reserved, free, limit, and when it resets.

The numbers add up: settled + reserved + free = limit, unless more was charged than promised or a
cap was lowered, and then the statement says by how much it is over. What is reserved must be what
the open promises add up to, and `find_mismatches` says where it is not.

What was spent under a run, by the entries of a ledger: what was settled, what nobody knows.

Entries are added up as they are read. Which of them are read, and how a promise that is still open
stands by now, is told by whoever reads them.
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
    limit: int | None  # None: there is no such cap any more, only promises under it
    resets: str
    raised_until: datetime | None = None  # set while a raise is in force

    @property
    def free(self) -> int:
        """What may still be promised."""
        return max((self.limit or 0) - self.used.total, 0)

    @property
    def over(self) -> int:
        """By how much more is gone than the cap allows."""
        return 0 if self.limit is None else max(self.used.total - self.limit, 0)


def list_balances(
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[CapWindow, Totals],
    *,
    reset: ResetRule,
    now: datetime,
) -> list[CapBalance]:
    """Return the window each cap is in now, and every other that still has something reserved.

    Sorted by cap. What windows that overlap the one of now gave away is in it: they began under
    another rule for resetting, and it counts against the limit. A cap per run is in many windows
    at once; one that is in none yet has a line with nothing used.
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
    """Return a tenant's own caps as they stand in the window of now, and when that ends.

    Caps per run are left out, as the next run has its own; and those that tenants share.
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
) -> dict[str, dict[str, int]]:
    """Return how much of each unit each connector may still be asked for by a run that begins now.

    What its narrowest cap leaves, whichever scope and window that has: a cap that tenants share
    counts like one's own, and one per run is unused. A unit that nobody has limited is not there;
    the empty connector stands for what is spent on nobody in particular.
    """
    found: dict[str, dict[str, int]] = {name: {} for name in connectors}
    for cap in caps:
        change = changes.get(cap.id)
        if cap.window is WindowKind.RUN:
            free = compute_effective_limit(cap, change, now=now)
        else:
            window = compute_window(cap.window, now, reset=get_reset_rule(cap, reset)).name
            lines = _list_cap_balances(cap, change, used, reset=get_reset_rule(cap, reset), now=now)
            free = next(line.free for line in lines if line.window == window)
        for name, units in found.items():
            if cap.connector in ("", name):
                units[cap.unit] = min(units.get(cap.unit, free), free)
    return found


def find_mismatches(holds: Iterable[Reservation], used: Mapping[CapWindow, Totals]) -> list[str]:
    """Return a sentence for each window whose reserved total is not what open promises add up to.

    Caps that tenants share are passed over: one tenant's promises cannot explain them.
    """
    promised: dict[CapWindow, int] = {}
    for hold in holds:
        for charge in hold.charges if hold.status in OPEN_STATUSES else ():
            if not charge.shared:
                place = (charge.cap, charge.window)
                promised[place] = promised.get(place, 0) + charge.amount
    return [
        f"{place[0]} in {place[1]}: {used.get(place, Totals()).reserved} is reserved, but its open "
        f"promises add up to {promised.get(place, 0)}"
        for place in sorted(promised.keys() | used.keys())
        if promised.get(place, 0) != used.get(place, Totals()).reserved
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
    unknown: Mapping[str, int]  # promised besides, and nobody knows what became of it


class RunCostCounter:
    """Adds up what a run spent, for one account or for all. Memory is that of open promises."""

    def __init__(self, run: str, *, account: str | None = None) -> None:
        self._filter = LedgerFilter(run=run, account=account)
        self._settled: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._open: dict[str, None] = {}

    @property
    def open_keys(self) -> tuple[str, ...]:
        """The keys of promises of which the entries so far do not say how they ended."""
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

    def add_open_reservation(self, hold: Reservation) -> None:
        """Count an open promise as it stands by now: one never sent is not spent."""
        if hold.key not in self._open:
            return
        del self._open[hold.key]
        if hold.status is ReservationStatus.SETTLED:
            _add_amounts(self._settled, hold.connector, hold.actual)
        elif hold.status in _MAYBE_SPENT_STATUSES:
            _add_amounts(self._unknown, hold.connector, hold.amounts)

    def get_cost(self) -> RunCost:
        """Return what it comes to so far; what is still open is not in it."""
        return RunCost(
            settled=dict(sorted(self._settled.items())), unknown=dict(sorted(self._unknown.items()))
        )


def _add_amounts(total: Counter[str], connector: str, amounts: Mapping[str, object]) -> None:
    for unit, amount in amounts.items():
        if isinstance(amount, int):
            total[f"{connector}/{unit}"] += amount
