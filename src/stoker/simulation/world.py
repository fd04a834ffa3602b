"""The accounts of a simulation: what they are worth, when they change, how fresh copies are.

A random population changes at steady rates, so the expected freshness of copies is exact. A trace
is a CSV file, with gzip or without, of items and the unix times at which they changed; an
importance file has items and numbers, and items that are not in the trace are ignored. Times are
days since the start of the simulation.

Freshness of copies has four exact metrics: the share of time a copy is up to date; the changes it
has missed, the k-th counting 1/k; the value left of a change when a lookup finds it; and how long
that takes. Each is weighted by the account's value. Changes at steady rates are integrated in
closed form; nothing is sampled.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol

import numpy as np

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Flags, Floats, Ints

VALUE_HALF_LIFE_DAYS = 14.0  # days in which an unfound change loses all but 37 % of its value

_EULER = 0.5772156649015329

_SERIES_LIMIT, _TERMS = 3.0, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpan:
    """The time from `since` until `now` that each account's copy of one lookup was in use."""

    accounts: Ints
    value: Floats
    looked_at: Floats  # when the copy was made, at or before `since`
    since: Floats
    now: float
    ends_in_lookup: bool  # otherwise the simulation ends, and what is not found stays unfound


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessTally:
    """What became of copies, each account weighed by its value. Tallies add up."""

    days: float = 0.0
    fresh: float = 0.0  # days with nothing missed
    missed: float = 0.0  # days times changes missed, the k-th counting 1/k
    changes: float = 0.0
    captured: float = 0.0  # changes found, each by what is left of its worth by then
    waited: float = 0.0  # days times changes that wait to be found

    def __add__(self, other: FreshnessTally) -> FreshnessTally:
        return FreshnessTally(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(self)
            }
        )

    @property
    def freshness(self) -> float:
        """Return the share of time that copies are up to date; of no time, all of it."""
        return self.fresh / self.days if self.days else 1.0

    @property
    def harmonic(self) -> float:
        """Return the changes that copies miss at a time, the k-th counting 1/k."""
        return self.missed / self.days if self.days else 0.0

    @property
    def capture(self) -> float:
        """Return the value that lookups find, as a share of all changes' value in the same time."""
        return self.captured / self.changes if self.changes else 1.0

    @property
    def delay(self) -> float:
        """Return the days from a change until it is found, on average."""
        # By how many wait at a time, which counts those that are never found as well.
        return self.waited / self.changes if self.changes else 0.0


def compute_steady_tally(rates: Floats, stretch: CopySpan) -> FreshnessTally:
    """Return what is expected of copies of accounts that change by chance at these rates."""
    value, days, whole = stretch.value, stretch.now - stretch.since, stretch.now - stretch.looked_at
    begin, end = rates * (stretch.since - stretch.looked_at), rates * whole
    # By the time's length rather than as a difference, which loses all digits at small rates.
    fresh = np.exp(-begin) * _compute_mean_decay(rates * days) * days
    missed = np.divide(
        integrate_ein(end) - integrate_ein(begin), rates, out=np.zeros_like(rates), where=rates > 0
    )
    rate = value * rates
    captured = (
        rate @ (VALUE_HALF_LIFE_DAYS * -np.expm1(-whole / VALUE_HALF_LIFE_DAYS))
        if stretch.ends_in_lookup
        else 0.0
    )
    return FreshnessTally(
        days=float(value @ days),
        fresh=float(value @ fresh),
        missed=float(value @ missed),
        changes=float(rate @ days),
        captured=float(captured),
        waited=float(rate @ (days * (whole - days / 2))),
    )


def integrate_ein(x: Floats) -> Floats:
    """Return the integral of `compute_ein` from 0 to x."""
    return x * compute_ein(x) - (x + np.expm1(-x))


def compute_ein(x: Floats) -> Floats:
    """Return the expected 1 + 1/2 + … + 1/N of a Poisson number N with this mean."""
    near, far = np.minimum(x, _SERIES_LIMIT), np.maximum(x, _SERIES_LIMIT)
    series = np.zeros_like(near)
    for k in range(_TERMS, 0, -1):  # x - x²/(2·2!) + x³/(3·3!) - …, innermost first
        series = near / k * (1.0 / k - series)
    fraction = far.copy()  # the rest of the logarithm, as a continued fraction
    for k in range(_TERMS, 0, -1):
        fraction = far + k / (1.0 + k / fraction)
    return np.where(x < _SERIES_LIMIT, series, np.log(far) + _EULER + np.exp(-far) / fraction)


def _compute_mean_decay(x: Floats) -> Floats:
    """Return the mean of e^-s for s from 0 to x."""
    return np.divide(-np.expm1(-x), x, out=np.ones_like(x), where=x > 0)


RATE_MEDIAN, RATE_SPREAD = 0.05, 1.49  # changes a day: half below 0.05, one in twenty above 0.58

VALUE_SPREAD = 1.28  # the most valuable tenth holds half of all value, a hundredth 15 % of it

CORRELATION = 0.3  # what is valuable changes a little more

GUESS_CORRELATION = 0.85  # spread of what is guessed of an account's value around what it is

DEEP_VALUE, DEEP_RATE = 0.4, 0.3  # of an account's value; of the rate of what a shallow lookup sees

MAX_ACCOUNTS = 5_000_000


class ChangeProcess(Protocol):
    """When accounts change."""

    @property
    def rates(self) -> Floats:
        """Return how often each changes a day, on average over the whole simulation."""

    def find_changed(
        self, accounts: Ints, *, looked: Floats, now: float, luck: np.random.Generator
    ) -> Flags:
        """Return at which of these accounts anything changed after the last lookup, up to now."""

    def compute_tally(self, stretch: CopySpan) -> FreshnessTally:
        """Return what became of the copies of these accounts in this stretch of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldLevel:
    """One side of every account: what being up to date about it is worth, and when it changes."""

    value: Floats
    changes: ChangeProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class SimWorld:
    """Accounts; only deep lookups see the deep level, where there is one."""

    surface: WorldLevel
    deep: WorldLevel | None = None
    posture: Floats  # 0 to 1: the account's guessed rank by value
    down: Flags | None = None  # by day and account: lookups fail
    gone: Flags | None = None  # by account: its site is gone for good
    signals: Flags | None = None  # by day and account: something outside tells of a change

    def __len__(self) -> int:
        return len(self.posture)

    @property
    def levels(self) -> tuple[WorldLevel, ...]:
        """Return the surface, and the deep level where there is one."""
        return (self.surface,) if self.deep is None else (self.surface, self.deep)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyChanges:
    """Changes by chance, each account at a rate of its own that never changes."""

    rates: Floats

    def find_changed(
        self, accounts: Ints, *, looked: Floats, now: float, luck: np.random.Generator
    ) -> Flags:
        unchanged = np.exp(-self.rates[accounts] * (now - looked))
        return luck.random(len(accounts)) >= unchanged

    def compute_tally(self, stretch: CopySpan) -> FreshnessTally:
        return compute_steady_tally(self.rates[stretch.accounts], stretch)


def build_population(accounts: int, *, seed: int = 0, deep: bool = False) -> SimWorld:
    """Return a random population, the same one for the same seed. Raises ConfigError."""
    if not 1 <= accounts <= MAX_ACCOUNTS:
        raise ConfigError(f"a simulation has 1 to {MAX_ACCOUNTS:,} accounts, not {accounts:,}")
    luck = np.random.default_rng([seed, 1])
    pace, worth, deep_pace = luck.standard_normal((3, accounts))
    worth = CORRELATION * pace + np.sqrt(1 - CORRELATION**2) * worth
    value = np.exp(VALUE_SPREAD * worth)
    value /= value.mean()
    rates = RATE_MEDIAN * np.exp(RATE_SPREAD * pace)
    posture = guess_ranks(value, luck)
    if not deep:
        return SimWorld(
            surface=WorldLevel(value=value, changes=SteadyChanges(rates=rates)), posture=posture
        )
    deep_rates = DEEP_RATE * RATE_MEDIAN * np.exp(RATE_SPREAD * deep_pace)
    return SimWorld(
        surface=WorldLevel(value=(1 - DEEP_VALUE) * value, changes=SteadyChanges(rates=rates)),
        deep=WorldLevel(value=DEEP_VALUE * value, changes=SteadyChanges(rates=deep_rates)),
        posture=posture,
    )


def draw_values(accounts: int, *, seed: int = 0) -> Floats:
    """Return values distributed as a population's, for accounts without known values."""
    value = np.exp(VALUE_SPREAD * np.random.default_rng([seed, 2]).standard_normal(accounts))
    return np.asarray(value / value.mean())


def guess_ranks(value: Floats, luck: np.random.Generator) -> Floats:
    """Return each account's rank by value, from 0 to 1, as a noisy guess."""
    guess = np.log(value) + GUESS_CORRELATION * luck.standard_normal(len(value))
    places = np.empty(len(value))
    places[np.argsort(guess, kind="stable")] = (np.arange(len(value)) + 0.5) / len(value)
    return places


LEAD_DAYS = (
    60.0  # days before the simulation that are known too: its first copies are that old at most
)

_DAY = 86_400.0

_MAX_TIMESTAMP = 253_402_300_799.0  # unix time: the last second of the year 9999

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChanges:
    """Changes as they were recorded: each account's moments, in order, account after account."""

    at: Floats  # days since the simulation began, from -LEAD to its end
    first: Ints  # where each account's moments begin, and where the last one's end
    days: float  # how long the simulation is
    _line: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        owner = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        object.__setattr__(self, "_line", self._to_line(owner, self.at))

    @property
    def rates(self) -> Floats:
        return np.diff(self.first) / (self.days + LEAD_DAYS)

    def find_changed(
        self, accounts: Ints, *, looked: Floats, now: float, luck: np.random.Generator
    ) -> Flags:
        return self._find_next_change(accounts, looked) < self._find_next_change(accounts, now)

    def compute_tally(self, stretch: CopySpan) -> FreshnessTally:
        accounts, value, now = stretch.accounts, stretch.value, stretch.now
        copied = self._find_next_change(accounts, stretch.looked_at)
        lacking = self._find_next_change(accounts, now) - copied
        # One row for every change that a copy lacks at the end, the nth of its account.
        owner = np.repeat(np.arange(len(accounts)), lacking)
        nth = np.arange(len(owner)) - np.repeat(np.cumsum(lacking) - lacking, lacking)
        at, since = self.at[copied[owner] + nth], stretch.since[owner]
        lacked = now - np.maximum(at, since)
        fresh = now - stretch.since
        fresh[owner[nth == 0]] -= lacked[nth == 0]
        weight = value[owner]
        return FreshnessTally(
            days=float(value @ (now - stretch.since)),
            fresh=float(value @ fresh),
            missed=float(weight @ (lacked / (nth + 1))),
            changes=float(weight[at > since].sum()),
            captured=float(weight @ np.exp((at - now) / VALUE_HALF_LIFE_DAYS))
            if stretch.ends_in_lookup
            else 0.0,
            waited=float(weight @ lacked),
        )

    def _find_next_change(self, accounts: Ints, moment: Floats | float) -> Ints:
        """Return the place of each account's first change after its moment."""
        return np.searchsorted(self._line, self._to_line(accounts, moment), side="right")

    def _to_line(self, accounts: Ints, moment: Floats | float) -> Floats:
        # Accounts lie one after the other on one long line, so that one search finds them all.
        beside = np.maximum(moment, -LEAD_DAYS - 1.0)
        return accounts.astype(np.float64) * (self.days + LEAD_DAYS + 2.0) + beside


def read_trace(
    trace: Path, *, days: int, importance: Path | None = None, seed: int = 0
) -> SimWorld:
    """Return the trace's items over its last so many days. Raises ConfigError.

    Without an importance values are made up; an item it does not name is worth the least it names.
    """
    moments: dict[str, set[float]] = {}
    for line, item, at in _read_rows(trace):
        if not 0 <= at <= _MAX_TIMESTAMP:
            raise ConfigError(f"{trace.name}, line {line}: {at:g} is no unix time")
        moments.setdefault(item, set()).add(at)
    if not moments:
        raise ConfigError(f"{trace.name} has no changes; it needs rows of an item and a unix time")
    end = max(map(max, moments.values()))
    began = end - days * _DAY
    items = sorted(moments)
    times = [
        sorted((at - began) / _DAY for at in moments[item] if at >= began - LEAD_DAYS * _DAY)
        for item in items
    ]
    value = draw_values(len(items), seed=seed)
    if importance is not None:
        value = _read_values(items, importance)
    changes = RecordedChanges(
        at=np.array([at for each in times for at in each]),
        first=np.concatenate([[0], np.cumsum([len(each) for each in times])]),
        days=float(days),
    )
    return SimWorld(
        surface=WorldLevel(value=value, changes=changes),
        posture=guess_ranks(value, np.random.default_rng([seed, 3])),
    )


def _read_values(items: list[str], importance: Path) -> Floats:
    known: dict[str, float] = {}
    for line, item, number in _read_rows(importance):
        if not 0 <= number < math.inf:
            raise ConfigError(f"{importance.name}, line {line}: {number:g} is no importance")
        known[item] = number
    least = min((number for number in known.values() if number > 0), default=0.0)
    if not least or known.keys().isdisjoint(items):
        raise ConfigError(f"{importance.name} gives none of the trace's items an importance")
    value = np.array([max(known.get(item, least), least) for item in items])
    return np.asarray(value / value.mean())


def _read_rows(path: Path) -> Iterator[tuple[int, str, float]]:
    """Yield the line, the first cell and the number in the second of every row but the head."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == _GZIP
        opened = gzip.open if packed else open
        with opened(path, "rt", encoding="utf-8", newline="") as text:
            rows = csv.reader(text)
            next(rows, None)
            for row in rows:
                if row:
                    yield rows.line_num, row[0], float(row[1])
    except (IndexError, ValueError) as problem:
        raise ConfigError(
            f"{path.name} is no CSV file of items and numbers below a head: {problem}"
        ) from problem
    except (OSError, EOFError, zlib.error, csv.Error) as problem:
        raise ConfigError(f"{path.name} cannot be read: {problem}") from problem
