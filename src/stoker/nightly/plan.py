"""Plan a nightly run: resumed work, an earlier run's selection, or a new one; with a quote.

Updates the tenant's companies and candidates first. Asks no vendor and spends nothing, so a plan
can also be made only to be shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import CompanyId
from stoker.accounts.settings import IcpSettings
from stoker.accounts.store import AccountStore
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, Step
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Totals
from stoker.budgets.model import Stop, filter_stops
from stoker.budgets.service import build_reset_rule, list_caps
from stoker.budgets.statements import CapBalance, compute_left, list_current_balances
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.context import TenantContext, TenantStores
from stoker.crawl.settings import ExtractSettings
from stoker.enrichment.forecast import (
    Quote,
    VendorCapacity,
    add_first_lookup_shares,
    add_refusals,
    close_vendors,
    compute_capacity,
    compute_quote,
    list_recent_lookups,
    list_vendor_needs,
    measure_usage,
)
from stoker.enrichment.model import (
    COMPANY_STEPS,
    CRAWL,
    KIND,
    PULL_UNITS,
    WorkItem,
    has_lookup_step,
)
from stoker.leads.settings import ScoreRule
from stoker.nightly.resume import (
    ResumedWork,
    find_budget_run,
    find_unfinished_work,
    get_selection,
    limit_to_daily_cap,
)
from stoker.nightly.targets import (
    UNLIMITED,
    DepthRule,
    Selection,
    TargetPicker,
    compute_affordable,
    compute_open_capacity,
    select_targets,
    update_candidates,
)
from stoker.registry.service import RefreshCount, refresh_companies
from stoker.registry.store import RegistryStore
from stoker.runs.service import RunHandle
from stoker.scheduling.settings import SchedulingSettings
from stoker.vendors.table import list_paid_vendors

CRM_CONNECTOR = "odoo"  # the CRM's connector, as stops name it

_SELECT_SKIPPED = (
    "no companies were selected, because the step select is skipped; "
    "include it, or name an earlier run with --from-manifest"
)

_LIMIT_IS_ZERO = "no companies selected: the limit is 0"

_CAP_REACHED = "the day's cap on companies is reached"

NO_SELECTION = Selection(items=(), candidates=0, over_cap=0, over_budget=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions:
    """What a nightly run does for one tenant."""

    rule_name: str = IcpSettings.rule_name
    max_companies: int = SchedulingSettings.daily_cap_per_tenant  # at most in a day
    limit: int | None = None  # at most in this night
    depths: DepthRule = field(default_factory=DepthRule)
    score: ScoreRule = field(default_factory=ScoreRule)
    steps: tuple[Step, ...] = tuple(Step)
    concurrency: int = SchedulingSettings.company_concurrency
    max_waiting: int = 200
    batch_wait: timedelta = timedelta(seconds=2)  # addresses, before a batch goes
    export_batch_size: int = 50  # companies that go into the CRM while others flow
    corpus_limit: int = ExtractSettings.corpus_char_limit
    keep_corpus: bool = False
    time_limit: timedelta = timedelta(minutes=SchedulingSettings.deadline_minutes)
    reset: ResetRule = field(default_factory=ResetRule)
    from_run: str = ""  # exactly that run's selection
    include_done: bool = False  # also who was looked at today; with from_run: also what is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What caps and rates allow: pull units left today, and the calls of each connector."""

    tenant_units: int = UNLIMITED  # pull units, whatever they are spent on
    connector_units: int = UNLIMITED  # of the connector that looks go through
    vendors: Mapping[str, VendorCapacity] = field(default_factory=dict)
    balances: Sequence[tuple[Cap, CapBalance, datetime]] = ()  # own caps now, and until when

    @property
    def pull_units(self) -> int:
        """How many pull units lookups may use."""
        return min(self.tenant_units, self.connector_units)


async def read_capacity(tenant: TenantContext, run: str = "") -> Capacity:
    """Return what is left of a tenant's caps now, and how fast its vendors may be called.

    `run` is the one whose caps per run count, for a run that goes on with it.

    For shared caps it sees only what is left, never which tenants used them.
    With it comes what its latest nights took of its vendors.
    """
    now, own, store = tenant.clock.now(), tenant.settings, tenant.store
    caps, shared = await list_caps(tenant), tenant.process.backend.shared()
    reset = build_reset_rule(own)
    changes = {**await shared.list_cap_changes(), **await store.budgets.list_cap_changes()}
    used: dict[tuple[str, str], Totals] = {
        (each.cap, each.window): each.used
        for each in (*await shared.list_usage(), *await store.budgets.list_usage())
    }

    def left(names: Sequence[str], among: Iterable[Cap]) -> dict[str, dict[str, int]]:
        return compute_left(names, among, changes, used, reset=reset, now=now, run=run)

    capacities, nights = {"crawl": VendorCapacity()}, await list_recent_lookups(store)
    for name, free in left(list_paid_vendors(own), caps).items():
        rate = own.get_connector(name).to_rate()
        per_minute = rate.calls * rate.share / rate.per.total_seconds() * 60
        took = measure_usage(nights, name)
        capacities[name] = compute_capacity(name, free=free, per_minute=per_minute, took=took)
    of_all, of_looks = left([""], caps)[""], left(["crawl"], (cap for cap in caps if cap.connector))
    return Capacity(
        tenant_units=of_all.get("pull_units", UNLIMITED),
        connector_units=of_looks["crawl"].get("pull_units", UNLIMITED),
        vendors=capacities,
        balances=list_current_balances(caps, changes, used, reset=reset, now=now),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyPlan:
    """The run's items in order, where they come from, and their estimated cost and time."""

    rule: IcpRule
    items: tuple[WorkItem, ...]
    count_by_depth: Mapping[Depth, int]  # how many units of each depth
    quote: Quote
    resumed_from: str = ""
    refreshed: RefreshCount = field(default_factory=RefreshCount)
    candidates: int = 0
    over_cap: int = 0
    over_budget: int = 0
    visited_today: int = 0  # and so not chosen again
    cap_resets_at: datetime | None = None  # when there are pull units again for those over budget
    empty_reason: str = ""  # why there is no company to research, and what to do about it
    stops: tuple[Stop, ...] = ()  # by which some or all of it is refused

    @property
    def companies(self) -> int:
        """How many items there are, or were when it was planned."""
        return sum(self.count_by_depth.values())

    @property
    def deep(self) -> int:
        """How many of the lookups are deep."""
        return self.count_by_depth.get(Depth.DEEP, 0)


class NightlyPlanner:
    """Plans nightly runs of one tenant."""

    def __init__(
        self,
        options: NightlyOptions,
        *,
        registry: RegistryStore,
        read_capacity: Callable[[str], Awaitable[Capacity]],
    ) -> None:
        self._options = options
        self._registry = registry
        self._read_capacity = read_capacity

    async def plan(self, run: RunHandle) -> NightlyPlan:
        """Return the plan of a run. Raises ConfigError when the tenant has no ICP."""
        options, accounts = self._options, run.store.accounts
        rule = await accounts.find_rule(options.rule_name)
        if rule is None:
            raise ConfigError(f"there is no ICP {options.rule_name!r}; set it with: stoker icp set")
        budget_run = await find_budget_run(run, kind=KIND, reset=options.reset)
        refreshed, capacity = RefreshCount(), await self._read_capacity(budget_run)
        stops = await self._list_stops(run.store, capacity)
        if Step.REFRESH in options.steps:
            with run.time_step(Step.REFRESH) as step:
                refreshed = await refresh_companies(self._registry, accounts, clock=run.clock)
                step.items = refreshed.read
        if Step.CANDIDATES in options.steps:
            with run.time_step(Step.CANDIDATES) as step:
                step.items = await update_candidates(accounts, rule)
        earlier = await self._find_unfinished(run)
        day = compute_window(WindowKind.DAY, run.clock.now(), reset=options.reset)
        chosen: Selection | None = None
        if Step.SELECT in options.steps and (earlier is None or earlier.already_retried):
            chosen = await self._select_targets(run, rule, capacity, earlier, day.start)
        selection = chosen or NO_SELECTION
        items = (
            *selection.items,
            *await self._limit_to_daily_cap(accounts, earlier, day.start, selection.items),
        )
        shares = await add_first_lookup_shares(
            run.store, items, capacity.vendors, now=run.clock.now()
        )
        capacity = replace(capacity, vendors=shares)
        over_cap, reason = selection.over_cap, ""
        if chosen is None and earlier is not None:
            over_cap = len(earlier.items) - len(items)
        if not items:
            reason = (
                self._explain_none_left(earlier)
                if chosen is None
                else await self._explain_empty(accounts, rule, chosen)
            )
        return NightlyPlan(
            rule=rule,
            items=items,
            count_by_depth=_count_by_depth(items),
            quote=self._build_quote(
                items, capacity, stops, paid=earlier.paid_companies if earlier else ()
            ),
            resumed_from=earlier.run if earlier and not selection.items else "",
            refreshed=refreshed,
            candidates=selection.candidates,
            over_cap=over_cap,
            over_budget=selection.over_budget,
            visited_today=selection.visited_today,
            cap_resets_at=day.end if selection.over_budget else None,
            empty_reason=reason,
            stops=stops,
        )

    async def _select_targets(
        self,
        run: RunHandle,
        rule: IcpRule,
        capacity: Capacity,
        earlier: ResumedWork | None,
        day_began_at: datetime,
    ) -> Selection:
        options, looking = self._options, has_lookup_step(self._options.steps)
        with run.time_step(Step.SELECT) as step:
            targets = TargetPicker(
                cap=options.max_companies,
                limit=options.limit,
                day_began_at=day_began_at if looking else None,
                again=options.include_done,
                known=self._has_company_steps and not looking,
                aside=[item.company for item in earlier.items] if earlier else (),
            )
            chosen = await select_targets(
                run.store.accounts,
                rule,
                targets,
                now=run.clock.now(),
                depths=options.depths,
                pull_units=capacity.pull_units if looking else UNLIMITED,
            )
            step.items = len(chosen.items)
        return chosen

    @property
    def _has_company_steps(self) -> bool:
        return any(step in COMPANY_STEPS for step in self._options.steps)

    async def _find_unfinished(self, run: RunHandle) -> ResumedWork | None:
        if self._options.from_run:
            return await get_selection(
                run.store, self._options.from_run, again=self._options.include_done
            )
        # A run without lookups leaves unfinished work to one with lookups; a run that includes
        # companies done today selects all of them.
        if not has_lookup_step(self._options.steps) or self._options.include_done:
            return None
        return await find_unfinished_work(run, kind=KIND, reset=self._options.reset)

    async def _limit_to_daily_cap(
        self,
        accounts: AccountStore,
        earlier: ResumedWork | None,
        began_at: datetime,
        chosen: tuple[WorkItem, ...] = (),
    ) -> tuple[WorkItem, ...]:
        """Return the resumed items that still fit, after the selected ones."""
        options, found = self._options, earlier.items if earlier else ()
        if not found or not has_lookup_step(options.steps):
            return found[: compute_open_capacity(options.max_companies, limit=options.limit)]
        fitting = await limit_to_daily_cap(
            accounts,
            found,
            cap=options.max_companies,
            limit=options.limit,
            began_at=began_at,
            chosen=len(chosen),
        )
        return tuple(replace(item, rank=len(chosen) + item.rank) for item in fitting)

    def _explain_none_left(self, earlier: ResumedWork | None) -> str:
        if earlier is None:
            return _SELECT_SKIPPED if self._has_company_steps else ""
        if not earlier.items:
            return f"run {earlier.run} left no work"
        return _LIMIT_IS_ZERO if self._options.limit == 0 else _CAP_REACHED

    async def _explain_empty(self, accounts: AccountStore, rule: IcpRule, chosen: Selection) -> str:
        if self._options.limit == 0:
            return _LIMIT_IS_ZERO
        if chosen.visited_today or chosen.over_cap:
            return _format_all_visited(chosen)
        if chosen.candidates:
            return ""
        if await accounts.list_companies(limit=1):
            return f"no company matches ICP {rule.name!r}; see it with: stoker icp show"
        return "there are no companies yet; import some: stoker registry import --download"

    async def _list_stops(self, store: TenantStores, capacity: Capacity) -> tuple[Stop, ...]:
        """Return the stops that prevent a step of this run."""
        steps = self._options.steps
        needs = list_vendor_needs(set(capacity.vendors), steps=steps)
        asked = {each.connector for of_depth in needs.values() for each in of_depth}
        asked |= {CRAWL} if has_lookup_step(steps) else set()
        asked |= {CRM_CONNECTOR} if Step.EXPORT in steps else set()
        return filter_stops(await store.budgets.list_stops(), asked)

    def _build_quote(
        self,
        items: tuple[WorkItem, ...],
        capacity: Capacity,
        stops: tuple[Stop, ...],
        *,
        paid: Collection[CompanyId] = (),
    ) -> Quote:
        options, stopped = self._options, {stop.connector for stop in stops}
        needs = list_vendor_needs(set(capacity.vendors), steps=options.steps)
        looking = has_lookup_step(options.steps)
        # A paid lookup continues, and its site is free; stopped vendors refuse.
        refusing = set(capacity.vendors) - {CRAWL} if "" in stopped else stopped - {CRAWL}
        allowed = not looking or not stopped & {"", CRAWL}
        begun = tuple(item for item in items if allowed or item.company in paid)
        quote = compute_quote(
            _count_by_depth(begun),
            needs,
            close_vendors(capacity.vendors, connectors=refusing),
            at_once=options.concurrency,
        )
        if len(begun) < len(items):
            not_begun = _count_by_depth(items) - _count_by_depth(begun)
            nothing = close_vendors(capacity.vendors, connectors=capacity.vendors)
            quote = add_refusals(
                quote, compute_quote(not_begun, needs, nothing, at_once=options.concurrency)
            )
        if not items or not looking:
            return quote
        pulls, left_out = compute_affordable(
            (item.depth for item in items if item.company not in paid),
            rule=options.depths,
            pull_units=capacity.pull_units if allowed else 0,
        )
        refused = {CRAWL: float(left_out)} if left_out else {}
        return replace(
            quote,
            cost={f"{CRAWL}/{PULL_UNITS}": pulls, **quote.cost},
            refused={**quote.refused, **refused},
        )


def _count_by_depth(items: tuple[WorkItem, ...]) -> Counter[Depth]:
    return Counter(item.depth for item in items)


def _format_all_visited(chosen: Selection) -> str:
    found = [f"{chosen.visited_today} of {chosen.candidates} candidates were researched today"]
    if chosen.over_cap:
        found.append(_CAP_REACHED)
    again = "; research them again with: stoker nightly --again"
    text = " and ".join(found if chosen.visited_today else found[1:])
    return text + (again if chosen.visited_today else "")
