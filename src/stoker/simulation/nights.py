"""Simulate nightly runs and pulls of a few tenants on a virtual clock, with injected faults.

When a run is due, what it looks up, what the budget grants and what is dropped when time runs short
are the product's own decisions. Accounts change at random, the same for the same seed. `invariants`
checks the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from stoker.accounts.model import Candidate, CompanyId
from stoker.base.types import Depth
from stoker.budgets.caps import Cap, CapChange, Scope, compute_effective_limit
from stoker.budgets.charges import BudgetState as MoneyStanding
from stoker.budgets.charges import (
    Charge,
    Refusal,
    SpendRequest,
    Totals,
    evaluate_request,
    find_refusal,
)
from stoker.budgets.windows import ResetRule, WindowKind, compute_window, parse_window
from stoker.calendar.recurrence import Cron, DueOccurrences, Schedule, compute_due
from stoker.enrichment.model import WorkItem
from stoker.enrichment.workers import choose_items_to_drop, project_finish
from stoker.heat.beliefs import ChangeRates, Floats, build_prior, decay_to_prior, update_rates
from stoker.heat.settings import ChangeRateRule, TierRule
from stoker.nightly.targets import DepthRule, choose_targets
from stoker.pulls.columns import PlanAccounts, PullLimits, to_epoch_days, validate_accounts
from stoker.pulls.planner import DEEP, PullPlan, list_in_order, plan_pulls
from stoker.pulls.settings import PullRule
from stoker.pulls.value import compute_values
from stoker.rate_limits.rate_limit import (
    Rate,
    check_rate,
    compute_postponed_until,
    postpone_next_at,
)
from stoker.simulation.faults import (
    FaultPlan,
    InjectedFault,
    InvariantChecker,
    SimTenant,
    Violation,
    build_fault_plan,
    choose_first_day,
    list_sim_tenants,
)
from stoker.simulation.world import SimWorld, build_population

_TICK = timedelta(minutes=10)  # between two checks of the schedule

_DAY = timedelta(days=1)

_MIN_SAMPLES = 10  # lookups, before their pace is estimated

_UNITS, _CREDITS = "pull_units", "credits"

_SITE, _PEOPLE = "crawl", "lusha"

_MIN_SECONDS, _MAX_SECONDS = 20, 70  # that a lookup takes

_THROTTLED_SHARE = 0.9  # of lookups, while vendors ask to be left alone

_THROTTLED_SECONDS = (120, 360)  # and for how long they do


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What simulated tenants do every night, and what they may use."""

    accounts: int = 200
    units: int = 100  # a day
    credits: int = 15
    companies: int = 6  # of a night, before pulls have the rest
    may_take: timedelta = timedelta(minutes=90)
    rule: PullRule = field(default_factory=lambda: PullRule(floor=timedelta(days=21)))


def grant_charges(
    request: SpendRequest,
    caps: Sequence[Cap],
    standing: MoneyStanding,
    *,
    reset: ResetRule,
    now: datetime,
) -> tuple[Charge, ...] | Refusal:
    """Return the charges of a request, or its refusal, as every store decides."""
    wanted = evaluate_request(request, caps, standing, reset=reset, now=now)
    if isinstance(wanted, Refusal):
        return wanted
    return find_refusal(wanted, standing.open_windows) or wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFunctions:
    """The decision functions: the product's own, unless a test replaces one to see it caught."""

    due: Callable[[datetime, datetime | None, Schedule], DueOccurrences] = compute_due
    plan: Callable[..., PullPlan] = plan_pulls
    grants: Callable[..., tuple[Charge, ...] | Refusal] = grant_charges
    sheds: Callable[..., tuple[WorkItem, ...]] = choose_items_to_drop


@dataclass(slots=True, kw_only=True)
class NightTally:
    """How nights went."""

    nights: int = 0
    looks: int = 0
    deep: int = 0
    refused: int = 0  # lookups, or parts of them, that a cap had no room for
    shed: int = 0
    pushed_back: int = 0
    killed: int = 0  # nights that were under way when the program stopped
    said: int = 0  # accounts, night by night, that a plan reported over the floor
    violations: list[Violation] = field(default_factory=list)


def simulate_nights(
    *,
    nights: int,
    injected: Collection[InjectedFault] = (),
    order: SimOptions | None = None,
    seed: int = 0,
    practice: DecisionFunctions | None = None,
    on_night_done: Callable[[], None] = lambda: None,
) -> NightTally:
    """Simulate so many nights of every tenant; `on_night_done` is called after each."""
    total = NightTally()
    for number, place in enumerate(list_sim_tenants(injected)):
        tenant = _TenantSimulation(
            place,
            build_fault_plan(place, nights=nights, injected=injected),
            first=choose_first_day(nights),
            order=order or SimOptions(),
            practice=practice or DecisionFunctions(),
            seed=seed + number,
            tally=total,
        )
        tenant.run_nights(nights, on_night_done=on_night_done)
        total.violations += tenant.checker.violations
    return total


class _TenantSimulation:
    """One tenant, its accounts and its money."""

    def __init__(
        self,
        place: SimTenant,
        bad: FaultPlan,
        *,
        first: date,
        order: SimOptions,
        practice: DecisionFunctions,
        seed: int,
        tally: NightTally,
    ) -> None:
        self._place, self._bad, self._order, self._practice = place, bad, order, practice
        self._tally, self._first = tally, first
        self._random = np.random.default_rng([seed, 7])
        self._world: SimWorld = build_population(order.accounts, seed=seed)
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
        self._used: dict[tuple[str, str], Totals] = {}
        self._rate = Rate(calls=60, per=timedelta(minutes=1), burst=5)
        self._next_at: datetime | None = None
        self._beliefs = ChangeRateRule()
        self._rank = _to_ranks(self._world.posture)
        prior = build_prior(self._beliefs, self._rank)
        self._changes, self._days = prior.changes.copy(), prior.days.copy()
        self._looked: list[datetime] = []
        self._deep_looked: list[datetime] = []
        self._reported: frozenset[str] = frozenset()
        self.checker = InvariantChecker(
            place, bad, first=first, floor=_get_floor(order.rule), limit=self._get_limit
        )

    def run_nights(self, nights: int, *, on_night_done: Callable[[], None]) -> None:
        """Simulate so many days, checking the schedule every few minutes."""
        first = self._first
        now = datetime.combine(first, time(0, 0), UTC) - _DAY
        ends = self._place.get_night_start(first + _DAY * nights) - timedelta(hours=2)
        ages = self._random.random((2, len(self._ids)))
        self._looked = [now - 10 * _DAY * age for age in ages[0].tolist()]
        self._deep_looked = [now - 20 * _DAY * age for age in ages[1].tolist()]
        schedule = Cron(self._place.cron, self._place.zone)
        last: datetime | None = self._place.get_night_start(first) - timedelta(hours=1)
        now = self._place.get_night_start(first) - timedelta(minutes=30)
        while now < ends:
            outage = self._bad.find_outage(now)
            if outage is not None:
                now = outage.end
                continue
            decided = self._practice.due(now, last, schedule)
            last = max([last, *decided.run, *decided.missed]) if last else now
            for instant in decided.run:
                now = self._run_night(instant, now)
                on_night_done()
            now += _TICK
        self.checker.finish(nights)

    def _run_night(self, instant: datetime, now: datetime) -> datetime:
        """Do one night: first companies in their order, then pulls for what is left."""
        self.checker.record_start(instant)
        self._tally.nights += 1
        self._delete_old_windows(now)
        deadline, down = now + self._order.may_take, self._bad.get_next_outage_start(now)
        now, alive = self._process_items(self._select_companies(now), now, deadline, down)
        if alive:
            now, alive = self._process_items(self._plan_pulls(now), now, deadline, down)
        if not alive:
            self._tally.killed += 1
            return now
        self.checker.record_end(at=now, deadline=deadline)
        looked = dict(zip(self._ids, self._looked, strict=True))
        self.checker.check_waits(looked, reported=self._reported, at=now)
        return now

    def _select_companies(self, now: datetime) -> tuple[WorkItem, ...]:
        standings = [
            Candidate(
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
        today = compute_window(WindowKind.DAY, now, reset=self._reset).start
        fresh = [each for each in standings if self._looked[self._rows[each.id]] < today]
        chosen = choose_targets(
            fresh,
            cap=self._order.companies,
            now=now,
            rule=DepthRule(),
            pull_units=self._compute_left(now),
            day_began_at=today,
        )
        return chosen.items

    def _plan_pulls(self, now: datetime) -> tuple[WorkItem, ...]:
        accounts = self._build_accounts(now)
        limits = PullLimits(budget=self._compute_left(now))
        plan = self._practice.plan(accounts, limits, now=now, rule=self._order.rule)
        self._reported = frozenset(self._ids[row] for row in plan.floor_missed.tolist())
        self._tally.said += len(self._reported)
        return tuple(
            WorkItem(
                company=self._ids[row],
                rank=place,
                depth=Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW,
            )
            for place, row in enumerate(list_in_order(plan).tolist())
        )

    def _build_accounts(self, now: datetime) -> PlanAccounts:
        rule, size = self._order.rule, len(self._ids)
        units = np.full(size, DepthRule().shallow_units, np.int32)
        deep_units = np.full(size, DepthRule().deep_units, np.int32)
        heat, quiet = self._world.posture, np.full(size, 30.0)
        value, deep_value = compute_values(self._world.posture.astype(np.float32), rule=rule)
        looked = _to_days_column(self._looked)
        known = decay_to_prior(
            ChangeRates(changes=self._changes, days=self._days),
            np.maximum(to_epoch_days(now) - looked, 0.0),
            prior=build_prior(self._beliefs, self._rank),
            half_life=self._beliefs.half_life,
        )
        return validate_accounts(
            known,
            looked=looked,
            deep_looked=_to_days_column(self._deep_looked),
            value=value,
            deep_value=deep_value,
            units=units,
            deep_units=deep_units,
            tier=self._rank,
            heat=heat,
            quiet=quiet,
            posture=self._world.posture,
        )

    def _process_items(
        self, units: Sequence[WorkItem], now: datetime, deadline: datetime, down: datetime
    ) -> tuple[datetime, bool]:
        """Look up items in order; return when that ended, and whether the program survived."""
        began, ended, waiting = now, 0, list(units)
        expected = timedelta(seconds=_MAX_SECONDS) * len(waiting)
        while waiting:
            finish = project_finish(
                began_at=began, now=now, ended=ended, left=len(waiting), expected=expected
            )
            if (finish or now) > deadline and (ended >= _MIN_SAMPLES or now >= deadline):
                pace = max((now - began) / max(ended, 1), timedelta(seconds=1))
                gone = self._practice.sheds(waiting, now=now, deadline=deadline, per_unit=pace)
                left_out = {unit.rank for unit in gone}
                waiting = [unit for unit in waiting if unit.rank not in left_out]
                self._tally.shed += len(gone)
            if not waiting:
                break
            unit = waiting.pop(0)
            now = self._run_lookup(unit, now)
            ended += 1
            if now >= down:
                return down, False
        return now, True

    def _run_lookup(self, unit: WorkItem, now: datetime) -> datetime:
        """Run one lookup; return when it ended."""
        depths = DepthRule()
        cost = depths.deep_units if unit.depth is Depth.DEEP else depths.shallow_units
        if not self._try_spend(unit, _SITE, _UNITS, cost, now):
            return now
        now = self._wait_for_vendor(now)
        deep = unit.depth is Depth.DEEP and self._try_spend(unit, _PEOPLE, _CREDITS, 1, now)
        now += timedelta(seconds=int(self._random.integers(_MIN_SECONDS, _MAX_SECONDS)))
        self._learn(self._rows[unit.company], deep=deep, now=now)
        self.checker.record_lookup(unit.company, at=now)
        self._tally.looks += 1
        self._tally.deep += deep
        return now

    def _wait_for_vendor(self, now: datetime) -> datetime:
        """Wait until the vendor may be called, including its back-off; return when."""
        asked_to_wait = False
        while True:
            decided = check_rate(self._rate, self._next_at, now=now)
            self._next_at = decided.next_at
            if not decided.allowed:
                now = decided.at
                continue
            pushed = not asked_to_wait and any(each.contains(now) for each in self._bad.throttled)
            if not pushed or self._random.random() >= _THROTTLED_SHARE:
                return now
            asked_to_wait = True
            self._tally.pushed_back += 1
            wait = timedelta(seconds=int(self._random.integers(*_THROTTLED_SECONDS)))
            until = compute_postponed_until(self._rate, until=now + wait)
            self._next_at = postpone_next_at(self._next_at, until=until)

    def _try_spend(
        self, unit: WorkItem, connector: str, what: str, amount: int, now: datetime
    ) -> bool:
        request = SpendRequest(
            key=f"{unit.company}/{connector}/{now.isoformat()}",
            connector=connector,
            amounts={what: amount},
            account=unit.company,
        )
        standing = MoneyStanding(changes=self._build_overrides(now), open_windows=self._used)
        answer = self._practice.grants(request, self._caps, standing, reset=self._reset, now=now)
        if isinstance(answer, Refusal):
            self._tally.refused += 1
            return False
        for charge in answer:
            where = (charge.cap, charge.window)
            used = self._used.get(where, Totals())
            self._used[where] = replace(used, settled=used.settled + charge.amount)
            self.checker.record_spending(charge.cap, charge.amount, at=now)
        return True

    def _learn(self, row: int, *, deep: bool, now: datetime) -> None:
        one = np.array([row])
        looked = _to_days_column([self._looked[row]])
        age = np.maximum(to_epoch_days(now) - looked, 0.0)
        found = self._world.surface.changes.find_changed(
            one, looked=looked, now=to_epoch_days(now), luck=self._random
        )
        after = update_rates(
            ChangeRates(changes=self._changes[one], days=self._days[one]),
            found,
            age=age,
            elapsed=age,
            prior=build_prior(self._beliefs, self._rank[one]),
            half_life=self._beliefs.half_life,
        )
        self._changes[row], self._days[row] = after.changes[0], after.days[0]
        self._looked[row] = now
        if deep:
            self._deep_looked[row] = now

    def _compute_left(self, now: datetime) -> int:
        cap, window = self._caps[0], compute_window(WindowKind.DAY, now, reset=self._reset)
        limit = compute_effective_limit(cap, self._build_overrides(now).get(cap.id), now=now)
        return max(limit - self._used.get((cap.id, window.name), Totals()).total, 0)

    def _build_overrides(self, now: datetime) -> dict[str, CapChange]:
        cap = self._caps[0]
        if not any(each.contains(now) for each in self._bad.cap_cuts):
            return {}
        return {cap.id: CapChange(cap=cap.id, limit=cap.limit // 3)}

    def _get_limit(self, cap: str, at: datetime) -> int:
        """Return a cap's limit as an outsider knows it: what was set, and what was injected."""
        limit = next(each.limit for each in self._caps if each.id == cap)
        cut = cap == self._caps[0].id and any(each.contains(at) for each in self._bad.cap_cuts)
        return limit // 3 if cut else limit

    def _delete_old_windows(self, now: datetime) -> None:
        old = now - 3 * _DAY
        self._used = {
            place: used for place, used in self._used.items() if parse_window(place[1]).end > old
        }


def _to_ranks(posture: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rule = TierRule()
    return np.searchsorted(np.array([rule.warm_from, rule.hot_from + 0.2]), posture, side="right")


def _get_floor(rule: PullRule) -> timedelta:
    return rule.floor if rule.floor is not None else timedelta(days=36_600)


def _to_days_column(moments: Sequence[datetime]) -> Floats:
    return np.array([to_epoch_days(each) for each in moments])
