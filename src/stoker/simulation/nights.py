"""Nights and pulls of a few tenants on a virtual clock, with things going wrong, and what broke.

When a night is due, whom it looks at, what the gate grants and what is left out when time runs
short are the product's own decisions, asked as the engine asks them. Accounts change by chance,
the same for the same seed. What was broken is counted by `night_promises`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from stoker.accounts.model import CompanyId, Standing
from stoker.base.types import Depth
from stoker.budgets.caps import Cap, CapChange, Scope, limit_in_force
from stoker.budgets.charges import Charge, Refused, Request, Used, first_refusal
from stoker.budgets.gate import Standing as MoneyStanding
from stoker.budgets.gate import considered
from stoker.budgets.windows import ResetRule, WindowKind, window_at, window_named
from stoker.calendar.recurrence import Cron, Due, Schedule, due
from stoker.enrichment.forecast import projected_finish, to_shed
from stoker.enrichment.model import Unit
from stoker.heat.beliefs import BeliefRule, Beliefs, Floats, drifted, observed
from stoker.heat.tiers import TierRule
from stoker.nightly.targets import DepthRule, select
from stoker.pulls.columns import Accounts, PullRule, account_values, accounts_of, in_days, limits_of
from stoker.pulls.planner import DEEP, DayPlan, in_turn, plan_day
from stoker.rate_limits.rate_limit import Rate, pushed_back, rest, turn
from stoker.simulation.faults import BadNights, Place, Trouble, bad_nights, first_day, places
from stoker.simulation.invariants import Auditor, Breach
from stoker.simulation.world import World, population

_TICK = timedelta(minutes=10)  # between two looks at the schedule

_DAY = timedelta(days=1)

_ENOUGH_SEEN = 10  # looks, before their pace is believed

_UNITS, _CREDITS = "pull_units", "credits"

_SITE, _PEOPLE = "crawl", "lusha"

_FEWEST_SECONDS, _MOST_SECONDS = 20, 70  # that a look takes

_PUSHED_SHARE = 0.9  # of looks, while vendors ask to be left alone

_PUSHED_SECONDS = (120, 360)  # and for how long they do


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What tenants do every night, and what they may use."""

    accounts: int = 200
    units: int = 100  # a day
    credits: int = 15
    companies: int = 6  # of a night, before pulls have the rest
    may_take: timedelta = timedelta(minutes=90)
    rule: PullRule = field(default_factory=lambda: PullRule(floor=timedelta(days=21)))


def granted(
    request: Request,
    caps: Sequence[Cap],
    standing: MoneyStanding,
    *,
    reset: ResetRule,
    now: datetime,
) -> tuple[Charge, ...] | Refused:
    """Return what a request is charged, or who says no: as every store asks the core."""
    wanted = considered(request, caps, standing, reset=reset, now=now)
    if isinstance(wanted, Refused):
        return wanted
    return first_refusal(wanted, standing.opened) or wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Practice:
    """How everything is decided: by the product, unless a test wants to see others caught."""

    due: Callable[[datetime, datetime | None, Schedule], Due] = due
    plan: Callable[..., DayPlan] = plan_day
    grants: Callable[..., tuple[Charge, ...] | Refused] = granted
    sheds: Callable[..., tuple[Unit, ...]] = to_shed


@dataclass(slots=True, kw_only=True)
class Tally:
    """How nights went."""

    nights: int = 0
    looks: int = 0
    deep: int = 0
    refused: int = 0  # looks, or parts of them, that a cap had no room for
    shed: int = 0
    pushed_back: int = 0
    killed: int = 0  # nights that were under way when the program stopped
    said: int = 0  # accounts, night by night, that a plan said it cannot keep to the floor
    breaches: list[Breach] = field(default_factory=list)


def rehearsed(
    *,
    nights: int,
    injected: Collection[Trouble] = (),
    order: Order | None = None,
    seed: int = 0,
    practice: Practice | None = None,
    told: Callable[[], None] = lambda: None,
) -> Tally:
    """Return how so many nights of every tenant went; `told` is called when one is over."""
    total = Tally()
    for number, place in enumerate(places(injected)):
        tenant = _Tenant(
            place,
            bad_nights(place, nights=nights, injected=injected),
            first=first_day(nights),
            order=order or Order(),
            practice=practice or Practice(),
            seed=seed + number,
            tally=total,
        )
        tenant.live(nights, told=told)
        total.breaches += tenant.auditor.breaches
    return total


class _Tenant:
    """One tenant, its accounts and its money."""

    def __init__(
        self,
        place: Place,
        bad: BadNights,
        *,
        first: date,
        order: Order,
        practice: Practice,
        seed: int,
        tally: Tally,
    ) -> None:
        self._place, self._bad, self._order, self._practice = place, bad, order, practice
        self._tally, self._first = tally, first
        self._luck = np.random.default_rng([seed, 7])
        self._world: World = population(order.accounts, seed=seed)
        self._ids = [CompanyId(f"{place.tenant}-{row:05}") for row in range(order.accounts)]
        self._rows = {account: row for row, account in enumerate(self._ids)}
        self._reset = ResetRule(place.zone, time(0, 0))
        self._caps = (
            Cap(scope=Scope.TENANT, unit=_UNITS, window=WindowKind.DAY, limit=order.units),
            Cap(
                scope=Scope.TENANT_CONNECTOR,
                connector=_PEOPLE,
                unit=_CREDITS,
                window=WindowKind.DAY,
                limit=order.credits,
            ),
        )
        self._used: dict[tuple[str, str], Used] = {}
        self._rate = Rate(calls=60, per=timedelta(minutes=1), burst=5)
        self._next_at: datetime | None = None
        self._beliefs = BeliefRule()
        self._rank = _ranks(self._world.posture)
        prior = self._beliefs.prior(self._rank)
        self._changes, self._days = prior.changes.copy(), prior.days.copy()
        self._looked: list[datetime] = []
        self._deep_looked: list[datetime] = []
        self._said: frozenset[str] = frozenset()
        self.auditor = Auditor(place, bad, first=first, floor=_floor(order.rule), limit=self._limit)

    def live(self, nights: int, *, told: Callable[[], None]) -> None:
        """Go through so many days, a look at the schedule every few minutes."""
        first = self._first
        now = datetime.combine(first, time(0, 0), UTC) - _DAY
        ends = self._place.night(first + _DAY * nights) - timedelta(hours=2)
        ages = self._luck.random((2, len(self._ids)))
        self._looked = [now - 10 * _DAY * age for age in ages[0].tolist()]
        self._deep_looked = [now - 20 * _DAY * age for age in ages[1].tolist()]
        schedule = Cron(self._place.cron, self._place.zone)
        last: datetime | None = self._place.night(first) - timedelta(hours=1)
        now = self._place.night(first) - timedelta(minutes=30)
        while now < ends:
            outage = self._bad.down_at(now)
            if outage is not None:
                now = outage.end
                continue
            decided = self._practice.due(now, last, schedule)
            last = max([last, *decided.run, *decided.missed]) if last else now
            for instant in decided.run:
                now = self._night(instant, now)
                told()
            now += _TICK
        self.auditor.over(nights)

    def _night(self, instant: datetime, now: datetime) -> datetime:
        """Do one night: first companies in their order, then pulls for what is left."""
        self.auditor.began(instant)
        self._tally.nights += 1
        self._forget_windows(now)
        deadline, down = now + self._order.may_take, self._bad.next_down(now)
        now, alive = self._flow(self._selected(now), now, deadline, down)
        if alive:
            now, alive = self._flow(self._pulled(now), now, deadline, down)
        if not alive:
            self._tally.killed += 1
            return now
        self.auditor.ended(at=now, deadline=deadline)
        looked = dict(zip(self._ids, self._looked, strict=True))
        self.auditor.waits(looked, said=self._said, at=now)
        return now

    def _selected(self, now: datetime) -> tuple[Unit, ...]:
        standings = [
            Standing(
                id=account,
                scored=True,
                contacts=1,
                last_seen_at=looked,
                last_looked_at=deep,
                heat=float(posture),
            )
            for account, looked, deep, posture in zip(
                self._ids, self._looked, self._deep_looked, self._world.posture, strict=True
            )
        ]
        today = window_at(WindowKind.DAY, now, reset=self._reset).start
        fresh = [each for each in standings if self._looked[self._rows[each.id]] < today]
        chosen = select(
            fresh,
            cap=self._order.companies,
            now=now,
            rule=DepthRule(),
            pull_units=self._left(now),
            day_began_at=today,
        )
        return chosen.units

    def _pulled(self, now: datetime) -> tuple[Unit, ...]:
        accounts = self._accounts(now)
        limits = limits_of(np.array([self._left(now)], np.int64))
        plan = self._practice.plan(accounts, limits, now=now, rule=self._order.rule)
        self._said = frozenset(self._ids[row] for row in plan.unkept.tolist())
        self._tally.said += len(self._said)
        return tuple(
            Unit(
                company=self._ids[row],
                place=place,
                depth=Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW,
            )
            for place, row in enumerate(in_turn(plan).tolist())
        )

    def _accounts(self, now: datetime) -> Accounts:
        rule, size = self._order.rule, len(self._ids)
        units = np.full(size, DepthRule().shallow_units, np.int32)
        deep_units = np.full(size, DepthRule().deep_units, np.int32)
        heat, quiet = self._world.posture, np.full(size, 30.0)
        value, deep_value = account_values(
            tier=self._rank,
            heat=heat,
            quiet=quiet,
            posture=self._world.posture,
            units=units,
            deep_units=deep_units,
            rule=rule,
            beliefs=self._beliefs,
        )
        looked = _in_days(self._looked)
        known = drifted(
            Beliefs(changes=self._changes, days=self._days),
            np.maximum(in_days(now) - looked, 0.0),
            prior=self._beliefs.prior(self._rank),
            half_life=self._beliefs.half_life,
        )
        return accounts_of(
            known,
            looked=looked,
            deep_looked=_in_days(self._deep_looked),
            value=value,
            deep_value=deep_value,
            units=units,
            deep_units=deep_units,
            tier=self._rank,
            heat=heat,
            quiet=quiet,
            posture=self._world.posture,
        )

    def _flow(
        self, units: Sequence[Unit], now: datetime, deadline: datetime, down: datetime
    ) -> tuple[datetime, bool]:
        """Look at one after the other; return when that ended, and whether the program lived."""
        began, ended, waiting = now, 0, list(units)
        expected = timedelta(seconds=_MOST_SECONDS) * len(waiting)
        while waiting:
            finish = projected_finish(
                began_at=began, now=now, ended=ended, left=len(waiting), expected=expected
            )
            if (finish or now) > deadline and (ended >= _ENOUGH_SEEN or now >= deadline):
                pace = max((now - began) / max(ended, 1), timedelta(seconds=1))
                gone = self._practice.sheds(waiting, now=now, deadline=deadline, per_unit=pace)
                left_out = {unit.place for unit in gone}
                waiting = [unit for unit in waiting if unit.place not in left_out]
                self._tally.shed += len(gone)
            if not waiting:
                break
            unit = waiting.pop(0)
            now = self._look(unit, now)
            ended += 1
            if now >= down:
                return down, False
        return now, True

    def _look(self, unit: Unit, now: datetime) -> datetime:
        """Make one look; return when it ended."""
        depths = DepthRule()
        cost = depths.deep_units if unit.depth is Depth.DEEP else depths.shallow_units
        if not self._pays(unit, _SITE, _UNITS, cost, now):
            return now
        now = self._turn(now)
        deep = unit.depth is Depth.DEEP and self._pays(unit, _PEOPLE, _CREDITS, 1, now)
        now += timedelta(seconds=int(self._luck.integers(_FEWEST_SECONDS, _MOST_SECONDS)))
        self._learn(self._rows[unit.company], deep=deep, now=now)
        self.auditor.looked(unit.company, at=now)
        self._tally.looks += 1
        self._tally.deep += deep
        return now

    def _turn(self, now: datetime) -> datetime:
        """Wait until the vendor may be called, and if it asks to be left alone, that long."""
        asked_to_wait = False
        while True:
            decided = turn(self._rate, self._next_at, now=now)
            self._next_at = decided.next_at
            if not decided.allowed:
                now = decided.at
                continue
            pushed = not asked_to_wait and any(each.has(now) for each in self._bad.pushed)
            if not pushed or self._luck.random() >= _PUSHED_SHARE:
                return now
            asked_to_wait = True
            self._tally.pushed_back += 1
            wait = timedelta(seconds=int(self._luck.integers(*_PUSHED_SECONDS)))
            until = rest(self._rate, until=now + wait)
            self._next_at = pushed_back(self._next_at, until=until)

    def _pays(self, unit: Unit, connector: str, what: str, amount: int, now: datetime) -> bool:
        request = Request(
            key=f"{unit.company}/{connector}/{now.isoformat()}",
            connector=connector,
            amounts={what: amount},
            account=unit.company,
        )
        standing = MoneyStanding(changes=self._said_about_caps(now), opened=self._used)
        answer = self._practice.grants(request, self._caps, standing, reset=self._reset, now=now)
        if isinstance(answer, Refused):
            self._tally.refused += 1
            return False
        for charge in answer:
            where = (charge.cap, charge.window)
            used = self._used.get(where, Used())
            self._used[where] = replace(used, settled=used.settled + charge.amount)
            self.auditor.spent(charge.cap, charge.amount, at=now)
        return True

    def _learn(self, row: int, *, deep: bool, now: datetime) -> None:
        one = np.array([row])
        looked = _in_days([self._looked[row]])
        age = np.maximum(in_days(now) - looked, 0.0)
        found = self._world.surface.changes.found(
            one, looked=looked, now=in_days(now), luck=self._luck
        )
        after = observed(
            Beliefs(changes=self._changes[one], days=self._days[one]),
            found,
            age=age,
            elapsed=age,
            prior=self._beliefs.prior(self._rank[one]),
            half_life=self._beliefs.half_life,
        )
        self._changes[row], self._days[row] = after.changes[0], after.days[0]
        self._looked[row] = now
        if deep:
            self._deep_looked[row] = now

    def _left(self, now: datetime) -> int:
        cap, window = self._caps[0], window_at(WindowKind.DAY, now, reset=self._reset)
        limit = limit_in_force(cap, self._said_about_caps(now).get(cap.id), now=now)
        return max(limit - self._used.get((cap.id, window.name), Used()).total, 0)

    def _said_about_caps(self, now: datetime) -> dict[str, CapChange]:
        cap = self._caps[0]
        if not any(each.has(now) for each in self._bad.cut):
            return {}
        return {cap.id: CapChange(cap=cap.id, limit=cap.limit // 3)}

    def _limit(self, cap: str, at: datetime) -> int:
        """Return what an outsider knows a cap to be: what was set, and what was injected."""
        limit = next(each.limit for each in self._caps if each.id == cap)
        cut = cap == self._caps[0].id and any(each.has(at) for each in self._bad.cut)
        return limit // 3 if cut else limit

    def _forget_windows(self, now: datetime) -> None:
        old = now - 3 * _DAY
        self._used = {
            place: used for place, used in self._used.items() if window_named(place[1]).end > old
        }


def _ranks(posture: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rule = TierRule()
    return np.searchsorted(np.array([rule.warm_from, rule.hot_from + 0.2]), posture, side="right")


def _floor(rule: PullRule) -> timedelta:
    return rule.floor if rule.floor is not None else timedelta(days=36_600)


def _in_days(moments: Sequence[datetime]) -> Floats:
    return np.array([in_days(each) for each in moments])
