"""How full each cap is, as people are told: settled, reserved, free, limit, and when it resets.

The numbers add up: settled + reserved + free = limit, unless more was charged than promised or a
cap was lowered, and then the statement says by how much it is over. What is reserved must be what
the open promises add up to, and `unaccounted` says where it is not.

What was spent under a run, by the entries of a ledger: what was settled, what nobody knows.

Entries are added up as they are read. Which of them are read, and how a promise that is still open
stands by now, is told by whoever reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from stoker.base.jsontools import object_in
from stoker.budgets.caps import Cap, CapChange, limit_in_force
from stoker.budgets.charges import Place, Used, carried, overlapping, reset_for
from stoker.budgets.reservations import OPEN, Hold, Phase
from stoker.budgets.windows import ResetRule, WindowKind, resets_text, window_at
from stoker.ledger.chain import Entry
from stoker.ledger.query import MoneyKind, Selection, said


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One cap in one window."""

    cap: str
    window: str
    used: Used
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


def statements(
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[Place, Used],
    *,
    reset: ResetRule,
    now: datetime,
) -> list[Statement]:
    """Return the window each cap is in now, and every other that still has something reserved.

    Sorted by cap. What windows that overlap the one of now gave away is in it: they began under
    another rule for resetting, and it counts against the limit. A cap per run is in many windows
    at once; one that is in none yet has a line with nothing used.
    """
    found: list[Statement] = []
    known = set()
    for cap in sorted(caps, key=lambda cap: cap.id):
        known.add(cap.id)
        found += _of_cap(cap, changes.get(cap.id), used, reset=reset_for(cap, reset), now=now)
    for (cap_id, window), there in sorted(used.items()):
        if cap_id not in known and there.reserved:
            gone = "there is no such cap any more"
            found.append(Statement(cap=cap_id, window=window, used=there, limit=None, resets=gone))
    return sorted(found, key=lambda line: (line.cap, line.window))


def of_now(
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[Place, Used],
    *,
    reset: ResetRule,
    now: datetime,
) -> list[tuple[Cap, Statement, datetime]]:
    """Return a tenant's own caps as they stand in the window of now, and when that ends.

    Caps per run are left out, as the next run has its own; and those that tenants share.
    """
    own = {cap.id: cap for cap in caps if cap.window is not WindowKind.RUN and not cap.shared}
    found = []
    for line in statements(own.values(), changes, used, reset=reset, now=now):
        if line.cap in own:
            window = window_at(own[line.cap].window, now, reset=reset)
            if line.window == window.name:
                found.append((own[line.cap], line, window.end))
    return found


def left_of(
    connectors: Iterable[str],
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    used: Mapping[Place, Used],
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
            free = limit_in_force(cap, change, now=now)
        else:
            window = window_at(cap.window, now, reset=reset_for(cap, reset)).name
            lines = _of_cap(cap, change, used, reset=reset_for(cap, reset), now=now)
            free = next(line.free for line in lines if line.window == window)
        for name, units in found.items():
            if cap.connector in ("", name):
                units[cap.unit] = min(units.get(cap.unit, free), free)
    return found


def unaccounted(holds: Iterable[Hold], used: Mapping[Place, Used]) -> list[str]:
    """Return a sentence for each window whose reserved total is not what open promises add up to.

    Caps that tenants share are passed over: one tenant's promises cannot explain them.
    """
    promised: dict[Place, int] = {}
    for hold in holds:
        for charge in hold.charges if hold.phase in OPEN else ():
            if not charge.shared:
                place = (charge.cap, charge.window)
                promised[place] = promised.get(place, 0) + charge.amount
    return [
        f"{place[0]} in {place[1]}: {used.get(place, Used()).reserved} is reserved, but its open "
        f"promises add up to {promised.get(place, 0)}"
        for place in sorted(promised.keys() | used.keys())
        if promised.get(place, 0) != used.get(place, Used()).reserved
    ]


def _of_cap(
    cap: Cap,
    change: CapChange | None,
    used: Mapping[Place, Used],
    *,
    reset: ResetRule,
    now: datetime,
) -> Iterator[Statement]:
    windows = {
        window: "this window has ended"
        for (cap_id, window), there in used.items()
        if cap_id == cap.id and there.reserved
    }
    if cap.window is WindowKind.RUN:
        last = max((window for cap_id, window in used if cap_id == cap.id), default="run")
        windows |= dict.fromkeys([last, *windows], "does not reset; the next run has its own")
    else:
        current = window_at(cap.window, now, reset=reset)
        others = overlapping(cap, current, used)
        for other in others:
            if other.name in windows:
                windows[other.name] = "counts in the window of now too"
        windows[current.name] = resets_text(current, now=now, reset=reset)
        place = (cap.id, current.name)
        own = used.get(place, Used())
        before = carried(own, ((other, used[cap.id, other.name]) for other in others))
        both = Used(settled=own.settled + before.settled, reserved=own.reserved + before.reserved)
        used = {**used, place: both}
    until = change.raised_until if change else None
    for window, resets in windows.items():
        yield Statement(
            cap=cap.id,
            window=window,
            used=used.get((cap.id, window), Used()),
            limit=limit_in_force(cap, change, now=now),
            resets=resets,
            raised_until=until if until is not None and now < until else None,
        )


_OPENS = (MoneyKind.RESERVED.value, MoneyKind.UNCERTAIN.value)

_CLOSES = (MoneyKind.SETTLED.value, MoneyKind.RELEASED.value, MoneyKind.EXPIRED.value)

_MAYBE_SPENT = (Phase.SENT, Phase.UNCERTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent, by connector and unit: tavily/calls."""

    settled: Mapping[str, int]
    unknown: Mapping[str, int]  # promised besides, and nobody knows what became of it


class Spending:
    """Adds up what a run spent, for one account or for all. Memory is that of open promises."""

    def __init__(self, run: str, *, account: str | None = None) -> None:
        self._wanted = Selection(run=run, account=account)
        self._settled: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._open: dict[str, None] = {}

    @property
    def open(self) -> tuple[str, ...]:
        """The keys of promises of which the entries so far do not say how they ended."""
        return tuple(self._open)

    def add(self, entries: Iterable[Entry]) -> None:
        """Count these entries too; they come in the ledger's order."""
        for entry in entries:
            if not self._wanted.wants(entry):
                continue
            if entry.kind in _OPENS:
                self._open[entry.subject] = None
            elif entry.kind in _CLOSES:
                self._open.pop(entry.subject, None)
            if entry.kind == MoneyKind.SETTLED:
                actual = object_in(entry.data.get("actual"))
                _count(self._settled, said(entry, "connector"), actual)

    def stands(self, hold: Hold) -> None:
        """Count an open promise as it stands by now: one never sent is not spent."""
        if hold.key not in self._open:
            return
        del self._open[hold.key]
        if hold.phase is Phase.SETTLED:
            _count(self._settled, hold.connector, hold.actual)
        elif hold.phase in _MAYBE_SPENT:
            _count(self._unknown, hold.connector, hold.amounts)

    def spent(self) -> Spent:
        """Return what it comes to so far; what is still open is not in it."""
        return Spent(
            settled=dict(sorted(self._settled.items())), unknown=dict(sorted(self._unknown.items()))
        )


def _count(total: Counter[str], connector: str, amounts: Mapping[str, object]) -> None:
    for unit, amount in amounts.items():
        if isinstance(amount, int):
            total[f"{connector}/{unit}"] += amount
