"""Populations that change, fail and tell of themselves in other ways than by steady chance.

Each is made of one seed: accounts as `build_population` draws them, with one thing different. What
differs is drawn ahead of time, so that it is the same for every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Flags, Floats
from stoker.simulation.world import (
    LEAD_DAYS,
    RecordedChanges,
    SimWorld,
    SteadyChanges,
    WorldLevel,
    build_population,
    guess_ranks,
)

_PARETO = 1.3  # exponent of heavy-tailed values
_DEAD, _FAILING, _DOWN = 0.1, 0.1, 0.1  # shares: of accounts, of lookups, of time
_OUTAGE_DAYS = 5.0
_CHILDREN, _CHILD_DAYS = 0.5, 3.0  # changes that one change brings about, and how soon
_REGIME_DAYS, _REGIME_FACTOR = 45.0, 4.0
_DRIFT_DAYS, _DRIFT = 30.0, 0.5  # a step of the rate's logarithm, and its spread
_RECALL, _PRECISION = 0.6, 0.5
_SCORE_NOISE = 1.7  # of a lead score's guess of an account's value


def build_scenario(name: str, accounts: int, *, days: int, seed: int = 0) -> SimWorld:
    """Return a named population. Raises ConfigError for an unknown name."""
    if name not in SCENARIOS:
        raise ConfigError(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    luck = np.random.default_rng([seed, 11])
    return SCENARIOS[name](build_population(accounts, seed=seed), days, luck)


def _with_events(world: SimWorld, draw: Callable[[float], Floats], days: int) -> SimWorld:
    rates = world.surface.changes.rates
    times = [np.sort(draw(float(rate))) for rate in rates]
    times = [each[(each > -LEAD_DAYS) & (each < days)] for each in times]
    changes = RecordedChanges(
        at=np.concatenate(times),
        first=np.concatenate([[0], np.cumsum([len(each) for each in times])]),
        days=float(days),
    )
    return replace(world, surface=WorldLevel(value=world.surface.value, changes=changes))


def _draw_steady(rate: float, begin: float, end: float, luck: np.random.Generator) -> Floats:
    return luck.uniform(begin, end, luck.poisson(rate * (end - begin)))


def _make_periodic(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    def draw(rate: float) -> Floats:
        every = 1.0 / rate
        regular = np.arange(-LEAD_DAYS - every * luck.random(), days, every)
        return np.asarray(regular + luck.normal(0.0, 0.1 * every, len(regular)))

    return _with_events(world, draw, days)


def _make_self_exciting(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    def draw(rate: float) -> Floats:
        parents = _draw_steady(rate * (1 - _CHILDREN), -LEAD_DAYS, days, luck)
        found = [parents]
        while len(parents):
            parents = np.repeat(parents, luck.poisson(_CHILDREN, len(parents)))
            parents = parents + luck.exponential(_CHILD_DAYS, len(parents))
            found.append(parents)
        return np.concatenate(found)

    return _with_events(world, draw, days)


def _draw_pieces(
    rate: float, pieces: Iterator[tuple[float, float, float]], luck: np.random.Generator
) -> Floats:
    return np.concatenate(
        [_draw_steady(rate * times, begin, end, luck) for begin, end, times in pieces]
    )


def _make_drifting(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    def list_pieces() -> Iterator[tuple[float, float, float]]:
        begin, drift = -LEAD_DAYS, 0.0
        while begin < days:
            yield begin, begin + _DRIFT_DAYS, float(np.exp(drift))
            begin, drift = begin + _DRIFT_DAYS, drift + luck.normal(0.0, _DRIFT)

    return _with_events(world, lambda rate: _draw_pieces(rate, list_pieces(), luck), days)


def _make_flips(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    def list_pieces() -> Iterator[tuple[float, float, float]]:
        begin, fast = -LEAD_DAYS, bool(luck.integers(2))
        while begin < days:
            end = begin + luck.exponential(_REGIME_DAYS)
            yield begin, end, _REGIME_FACTOR if fast else 1 / _REGIME_FACTOR
            begin, fast = end, not fast

    return _with_events(world, lambda rate: _draw_pieces(rate, list_pieces(), luck), days)


def _make_dead(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    gone = luck.random(len(world)) < _DEAD
    rates = np.where(gone, 0.0, world.surface.changes.rates)
    level = WorldLevel(value=world.surface.value, changes=SteadyChanges(rates=rates))
    return replace(world, surface=level, gone=gone)


def _make_pareto(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    value = 1.0 + luck.pareto(_PARETO, len(world))
    value /= value.mean()
    return replace(
        world,
        surface=WorldLevel(value=value, changes=world.surface.changes),
        posture=guess_ranks(value, luck),
    )


def _make_failing(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    return replace(world, down=luck.random((days, len(world))) < _FAILING)


def _make_outages(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    down: Flags = np.zeros((days, len(world)), np.bool_)
    down[0] = luck.random(len(world)) < _DOWN
    ends = 1.0 / _OUTAGE_DAYS
    begins = ends * _DOWN / (1 - _DOWN)
    for day in range(1, days):
        drawn = luck.random(len(world))
        down[day] = np.where(down[day - 1], drawn >= ends, drawn < begins)
    return replace(world, down=down)


def _make_lead_scores(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    noisy = np.log(world.surface.value) + _SCORE_NOISE * luck.standard_normal(len(world))
    place = (np.argsort(np.argsort(noisy)) + 0.5) / len(world)
    return replace(world, posture=np.round(0.58 + 0.39 * place**0.4, 2))


def _make_signals(world: SimWorld, days: int, luck: np.random.Generator) -> SimWorld:
    world = _with_events(world, lambda rate: _draw_steady(rate, -LEAD_DAYS, days, luck), days)
    changes = world.surface.changes
    assert isinstance(changes, RecordedChanges)  # noqa: S101  # for the type checker
    owner = np.repeat(np.arange(len(world)), np.diff(changes.first))
    told = (changes.at >= 0) & (luck.random(len(owner)) < _RECALL)
    signals = np.zeros((days, len(world)), np.bool_)
    # A change of a day is told of on the next.
    on = np.minimum(changes.at[told].astype(np.int64) + 1, days - 1)
    signals[on, owner[told]] = True
    wrong = int(told.sum() * (1 - _PRECISION) / _PRECISION)
    likely = np.diff(changes.first) / max(len(owner), 1)
    signals[luck.integers(0, days, wrong), luck.choice(len(world), wrong, p=likely)] = True
    return replace(world, signals=signals)


SCENARIOS: dict[str, Callable[[SimWorld, int, np.random.Generator], SimWorld]] = {
    "steady": lambda world, days, luck: world,
    "periodic": _make_periodic,
    "self-exciting": _make_self_exciting,
    "drifting": _make_drifting,
    "flips": _make_flips,
    "dead": _make_dead,
    "pareto": _make_pareto,
    "failing": _make_failing,
    "outages": _make_outages,
    "lead scores": _make_lead_scores,
    "signals": _make_signals,
}
