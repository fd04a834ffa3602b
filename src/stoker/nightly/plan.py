"""Tonight's units: what an earlier run left, exactly an earlier selection, or a new one; its quote.

Brings the tenant's companies and candidates up to date first. Nothing here asks a vendor or
spends, so a plan can be made to be looked at only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import AccountStore, CompanyId
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, Step
from stoker.budgets.model import Stop, concerning
from stoker.budgets.windows import ResetRule, WindowKind, window_at
from stoker.context import Store
from stoker.enrichment.forecast import Quote, Room, and_refused, quote, shut
from stoker.enrichment.model import KIND, OF_COMPANIES, Unit, looks
from stoker.enrichment.pull_units import CONNECTOR, UNIT
from stoker.enrichment.recent_runs import rooms_tonight
from stoker.enrichment.vendor_needs import expected
from stoker.leads.scoring import ScoreRule
from stoker.nightly.resume import TakenOver, fitting_into_the_day, left_undone, selection_of
from stoker.nightly.targets import (
    PLENTY,
    DepthRule,
    Selection,
    Targets,
    affordable,
    find_candidates,
    places,
    select_targets,
)
from stoker.registry.model import RegistryStore
from stoker.registry.refresh import Refreshed, refresh
from stoker.runs.service import OpenRun

CRM = "odoo"  # whom results go to, as stops name it

_CHOSE_NOBODY = (
    "no companies were chosen, because select is left out; "
    "take it too, or name an earlier run with --from-manifest"
)

_NONE_ASKED_FOR = "no companies were asked for: the night's limit is 0"

_CAP_REACHED = "the day's cap on companies is reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightOrder:
    """What a night is to do, for one tenant."""

    rule_name: str = "default"
    companies: int = 1000  # at most in a day
    limit: int | None = None  # at most in this night
    depths: DepthRule = field(default_factory=DepthRule)
    score: ScoreRule = field(default_factory=ScoreRule)
    steps: tuple[Step, ...] = tuple(Step)
    at_once: int = 8
    parked: int = 200
    gathers_for: timedelta = timedelta(seconds=2)  # addresses, before a batch goes
    sent_together: int = 50  # companies that go into the CRM while others flow
    corpus_limit: int = 50_000
    keeps_corpus: bool = False
    may_take: timedelta = timedelta(minutes=90)
    reset: ResetRule = field(default_factory=ResetRule)
    from_run: str = ""  # exactly that run's selection
    again: bool = False  # also who was looked at today; with from_run: also what is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a night has to go by: pull units left today, and what each connector allows."""

    tenant_units: int = PLENTY  # pull units, whatever they are spent on
    connector_units: int = PLENTY  # of the connector that looks go through
    rooms: Mapping[str, Room] = field(default_factory=dict)

    @property
    def pull_units(self) -> int:
        """How many pull units looks may take."""
        return min(self.tenant_units, self.connector_units)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlan:
    """Tonight's units in order, where they come from, and what they are expected to take."""

    rule: IcpRule
    units: tuple[Unit, ...]
    looks: Mapping[Depth, int]  # how many units of each depth
    quote: Quote
    taken_over_from: str = ""
    refreshed: Refreshed = field(default_factory=Refreshed)
    candidates: int = 0
    over_cap: int = 0
    over_budget: int = 0
    looked_at_today: int = 0  # and so not chosen again
    room_at: datetime | None = None  # when there are pull units again for those over budget
    nobody: str = ""  # why there is no company to look at, and what to do about it
    stops: tuple[Stop, ...] = ()  # by which some or all of it is refused

    @property
    def companies(self) -> int:
        """How many units there are, or were when it was planned."""
        return sum(self.looks.values())

    @property
    def deep(self) -> int:
        """How many of the looks are deep."""
        return self.looks.get(Depth.DEEP, 0)


class Planning:
    """Plans nights of one tenant."""

    def __init__(
        self,
        order: NightOrder,
        *,
        registry: RegistryStore,
        means: Callable[[], Awaitable[Means]],
    ) -> None:
        self._order = order
        self._registry = registry
        self._means = means

    async def plan(self, run: OpenRun) -> NightPlan:
        """Return the plan of a night. Raises ConfigError when the tenant has no rule."""
        order, accounts = self._order, run.store.accounts
        rule = await accounts.rule(order.rule_name)
        if rule is None:
            raise ConfigError(
                f"there is no rule {order.rule_name!r} that says which companies to look for; "
                "set it with: stoker icp set"
            )
        refreshed, means = Refreshed(), await self._means()
        stops = await self._stops(run.store, means)
        if Step.REFRESH in order.steps:
            with run.step(Step.REFRESH) as step:
                refreshed = await refresh(self._registry, accounts, clock=run.clock)
                step.items = refreshed.read
        if Step.CANDIDATES in order.steps:
            with run.step(Step.CANDIDATES) as step:
                step.items = await find_candidates(accounts, rule)
        earlier = await self._earlier(run)
        day, looking = (
            window_at(WindowKind.DAY, run.clock.now(), reset=order.reset),
            looks(order.steps),
        )
        if Step.SELECT not in order.steps or (earlier is not None and not earlier.in_vain):
            units = await self._fitting(accounts, earlier, day.start)
            means = await self._tonight(run, units, means)
            return NightPlan(
                rule=rule,
                units=units,
                looks=_by_depth(units),
                quote=self._quote(units, means, stops, paid=earlier.paid if earlier else ()),
                taken_over_from=earlier.run if earlier else "",
                refreshed=refreshed,
                over_cap=len(earlier.units) - len(units) if earlier else 0,
                nobody=self._why_none_is_left(earlier, units),
                stops=stops,
            )
        with run.step(Step.SELECT) as step:
            targets = Targets(
                cap=order.companies,
                limit=order.limit,
                day_began_at=day.start if looking else None,
                again=order.again,
                known=self._works and not looking,
                aside=[unit.company for unit in earlier.units] if earlier else (),
            )
            chosen = await select_targets(
                accounts,
                rule,
                targets,
                now=run.clock.now(),
                depths=order.depths,
                pull_units=means.pull_units if looking else PLENTY,
            )
            step.items = len(chosen.units)
        units = (*chosen.units, *await self._fitting(accounts, earlier, day.start, chosen.units))
        means = await self._tonight(run, units, means)
        return NightPlan(
            rule=rule,
            units=units,
            looks=_by_depth(units),
            quote=self._quote(units, means, stops, paid=earlier.paid if earlier else ()),
            taken_over_from=earlier.run if earlier and not chosen.units else "",
            refreshed=refreshed,
            candidates=chosen.candidates,
            over_cap=chosen.over_cap,
            over_budget=chosen.over_budget,
            looked_at_today=chosen.looked_at_today,
            room_at=day.end if chosen.over_budget else None,
            nobody="" if units else await self._why_nobody(accounts, rule, chosen),
            stops=stops,
        )

    async def _tonight(self, run: OpenRun, units: tuple[Unit, ...], means: Means) -> Means:
        rooms = await rooms_tonight(run.store, units, means.rooms, now=run.clock.now())
        return replace(means, rooms=rooms)

    @property
    def _works(self) -> bool:
        return any(step in OF_COMPANIES for step in self._order.steps)

    async def _earlier(self, run: OpenRun) -> TakenOver | None:
        if self._order.from_run:
            return await selection_of(run.store, self._order.from_run, again=self._order.again)
        # Whoever does not look leaves what is undone to the run that does; whoever wants everybody
        # again has them chosen anew.
        if not looks(self._order.steps) or self._order.again:
            return None
        return await left_undone(run, kind=KIND, reset=self._order.reset)

    async def _fitting(
        self,
        accounts: AccountStore,
        earlier: TakenOver | None,
        began_at: datetime,
        chosen: tuple[Unit, ...] = (),
    ) -> tuple[Unit, ...]:
        """Return what there is room for of what is taken over, behind those that were chosen."""
        order, found = self._order, earlier.units if earlier else ()
        if not found or not looks(order.steps):
            return found[: places(order.companies, limit=order.limit)]
        fitting = await fitting_into_the_day(
            accounts,
            found,
            cap=order.companies,
            limit=order.limit,
            began_at=began_at,
            chosen=len(chosen),
        )
        return tuple(replace(unit, place=len(chosen) + unit.place) for unit in fitting)

    def _why_none_is_left(self, earlier: TakenOver | None, units: tuple[Unit, ...]) -> str:
        if units:
            return ""
        if earlier is None:
            return _CHOSE_NOBODY if self._works else ""
        if not earlier.units:
            return f"run {earlier.run} had left nothing to do"
        return _NONE_ASKED_FOR if self._order.limit == 0 else _CAP_REACHED

    async def _why_nobody(self, accounts: AccountStore, rule: IcpRule, chosen: Selection) -> str:
        if self._order.limit == 0:
            return _NONE_ASKED_FOR
        if chosen.looked_at_today or chosen.over_cap:
            return _all_looked_at(chosen)
        if chosen.candidates:
            return ""
        if await accounts.companies(limit=1):
            return f"no company fits rule {rule.name!r}; see it with: stoker icp show"
        return (
            "no companies are known yet; read the register with: stoker registry import --download"
        )

    async def _stops(self, store: Store, means: Means) -> tuple[Stop, ...]:
        """Return the stops that stand in the way of any step tonight."""
        steps = self._order.steps
        needs = expected(set(means.rooms), steps=steps)
        asked = {each.connector for of_depth in needs.values() for each in of_depth}
        asked |= {CONNECTOR} if looks(steps) else set()
        asked |= {CRM} if Step.EXPORT in steps else set()
        return concerning(await store.money.stops(), asked)

    def _quote(
        self,
        units: tuple[Unit, ...],
        means: Means,
        stops: tuple[Stop, ...],
        *,
        paid: Collection[CompanyId] = (),
    ) -> Quote:
        order, stopped = self._order, {stop.connector for stop in stops}
        needs = expected(set(means.rooms), steps=order.steps)
        looking = looks(order.steps)
        # A look that is paid for goes on, and its site is free; whoever else is asked refuses.
        refusing = set(means.rooms) - {CONNECTOR} if "" in stopped else stopped - {CONNECTOR}
        allowed = not looking or not stopped & {"", CONNECTOR}
        begun = tuple(unit for unit in units if allowed or unit.company in paid)
        told = quote(
            _by_depth(begun),
            needs,
            shut(means.rooms, connectors=refusing),
            at_once=order.at_once,
        )
        if len(begun) < len(units):
            not_begun = _by_depth(units) - _by_depth(begun)
            nothing = shut(means.rooms, connectors=means.rooms)
            told = and_refused(told, quote(not_begun, needs, nothing, at_once=order.at_once))
        if not units or not looking:
            return told
        pulls, left_out = affordable(
            (unit.depth for unit in units if unit.company not in paid),
            rule=order.depths,
            pull_units=means.pull_units if allowed else 0,
        )
        refused = {CONNECTOR: float(left_out)} if left_out else {}
        return replace(
            told,
            cost={f"{CONNECTOR}/{UNIT}": pulls, **told.cost},
            refused={**told.refused, **refused},
        )


def _by_depth(units: tuple[Unit, ...]) -> Counter[Depth]:
    return Counter(unit.depth for unit in units)


def _all_looked_at(chosen: Selection) -> str:
    found = [f"{chosen.looked_at_today} of {chosen.candidates} candidates were looked at today"]
    if chosen.over_cap:
        found.append(_CAP_REACHED)
    again = "; look at them again with: stoker nightly --again"
    told = " and ".join(found if chosen.looked_at_today else found[1:])
    return told + (again if chosen.looked_at_today else "")
