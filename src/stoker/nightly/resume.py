"""Resume what earlier runs of the same day left unfinished, under the new run's name.

Open items of a killed or stopped run become the new run's. After a run that finished, skipped items
of the day are tried again, by company with its latest item; items whose retries are used up come
last. Paid answers are cached elsewhere; nothing here spends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.accounts.store import AccountStore
from stoker.base.errors import ConfigError
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.context import TenantStores
from stoker.enrichment.forecast import FINISHED_RUN_STATES
from stoker.enrichment.model import CRAWL, PULL_UNITS, WorkItem, WorkState, is_lookup
from stoker.nightly.targets import compute_open_capacity, limit_to_capacity
from stoker.runs.model import Run, parse_run_name
from stoker.runs.service import RunHandle

_RUNS_READ_FIRST = 20  # runs at first; a day has few

OPEN_STATES = frozenset({WorkState.WAITING, WorkState.CLAIMED})

RETRYABLE_STATES = OPEN_STATES | {WorkState.DROPPED, WorkState.DEGRADED, WorkState.FAILED}
"""What another look of the same day may make good; an outcome that is not known is no such thing"""

MAX_TRIES = 2  # per day, after which untried companies come first

_PAID_COST = f"{CRAWL}/{PULL_UNITS}"  # a cost of an item whose lookup was paid for

_FAILED_TRY_STATES = frozenset({WorkState.DEGRADED, WorkState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedWork:
    """Units of earlier runs, as the new one is to do them."""

    run: str  # the latest of those that had them
    items: tuple[WorkItem, ...]
    paid_companies: frozenset[CompanyId] = frozenset()  # whose look today is paid for already
    already_retried: bool = False  # all of them were tried again today already: others come first


@dataclass(slots=True)
class _CompanyWork:
    item: WorkItem | None = None  # its latest of the day; an idle one does not count
    run: str = ""
    age: int = 0  # how many runs of the day came after that one
    tries: int = 0  # that did not finish it, since one that did
    paid: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedItem:
    """An item that an earlier run of the day left."""

    item: WorkItem
    run: str
    tries: int = 0  # of this day that did not finish it
    paid: bool = False  # whether a look at it today may be paid for already

    @property
    def retries_used_up(self) -> bool:
        """Whether it was tried often enough for others to come first."""
        return self.tries >= MAX_TRIES


class UnfinishedWork:
    """Collects the items of one day's runs, the newest run first, and lists unfinished ones."""

    def __init__(self) -> None:
        self._companies: dict[CompanyId, _CompanyWork] = {}
        self._runs: list[str] = []

    def add(self, run: str, units: Iterable[WorkItem]) -> None:
        """Consider some units of a run; one run after the other, from the newest to the oldest."""
        if run not in self._runs:
            self._runs.append(run)
        age = len(self._runs) - 1
        for item in units:
            known = self._companies.setdefault(item.company, _CompanyWork())
            # An item that only scored or verified, or had no vendor to ask, looked nothing up.
            idle = item.state is WorkState.DONE and not is_lookup(item)
            # A worker that died may have paid; the end that would say so is missing.
            known.paid |= item.state is WorkState.CLAIMED or _PAID_COST in item.cost
            if known.finished:
                continue
            known.tries += idle or item.state in _FAILED_TRY_STATES
            known.finished = not idle and item.state not in RETRYABLE_STATES
            if known.item is None and not idle:
                known.item, known.run, known.age = item, run, age

    def list_unfinished(
        self, states: Collection[WorkState] = RETRYABLE_STATES
    ) -> tuple[UnfinishedItem, ...]:
        """Return what is left in these states, in the order it is to be gone on with.

        First what was not tried yet, in the order of the latest run that had it; then what was
        tried, the longest ago first; and at last what was tried in vain, in the same way.
        """
        found = [
            (
                _get_order(known),
                UnfinishedItem(item=item, run=known.run, tries=known.tries, paid=known.paid),
            )
            for known in self._companies.values()
            if (item := known.item) is not None and item.state in states
        ]
        return tuple(leftover for _, leftover in sorted(found, key=lambda each: each[0]))


def _get_order(known: _CompanyWork) -> tuple[int, int, int, str]:
    tries = min(known.tries, MAX_TRIES)
    place, company = (known.item.rank, known.item.company) if known.item else (0, "")
    return (tries, -known.age if tries else known.age, place, company)


async def find_unfinished_work(
    run: RunHandle, *, kind: str, reset: ResetRule, killed_only: bool = False
) -> ResumedWork | None:
    """Return what this tenant's runs of the day left unfinished; None to select new ones.

    After a run that did not finish, its open items; no items if only its end is missing. Otherwise
    what another lookup may complete, from any run of the day. With `killed_only`, a run that
    finished has left nothing.
    """
    day = compute_window(WindowKind.DAY, run.clock.now(), reset=reset)
    leftovers, latest, ended_since = UnfinishedWork(), None, False
    for earlier in await _list_runs_of_day(run, kind=kind, began_at=day.start):
        if not await run.store.work_items.count_items(earlier.name):
            # It died before it had chosen, had nothing to go on with, or was about something else.
            ended_since = ended_since or (latest is None and earlier.state in FINISHED_RUN_STATES)
            continue
        latest = latest or earlier
        if killed_only and latest.state in FINISHED_RUN_STATES:
            return None
        async for page in run.store.work_items.iter_items(earlier.name):
            leftovers.add(earlier.name, page)
        if killed_only:
            break
    if latest is None:
        return None
    killed = latest.state not in FINISHED_RUN_STATES
    broken_off = leftovers.list_unfinished(OPEN_STATES) if killed else ()
    if killed and not broken_off and not ended_since:
        return ResumedWork(run=latest.name, items=())  # only its end is missing
    found = broken_off or leftovers.list_unfinished(RETRYABLE_STATES)
    if not found:
        return None  # what is lacking, no look makes good; others may have waited
    return ResumedWork(
        run=max(each.run for each in found),
        items=_renumber_items((each.item, each.run) for each in found),
        paid_companies=frozenset(each.item.company for each in found if each.paid),
        already_retried=not broken_off and all(each.retries_used_up for each in found),
    )


async def find_budget_run(run: RunHandle, *, kind: str, reset: ResetRule) -> str:
    """Return the run whose caps per run count what this one spends; mostly itself.

    A run started after one of the same day that was killed, cancelled or failed goes on with that
    one's budget, and so with the first of several: starting again gives no second budget.
    """
    day = compute_window(WindowKind.DAY, run.clock.now(), reset=reset)
    first = Run(key=run.key, kind=run.kind).name
    for earlier in await _list_runs_of_day(run, kind=kind, began_at=day.start):
        if earlier.state in FINISHED_RUN_STATES:
            break
        first = earlier.name
    return first


async def get_selection(store: TenantStores, name: str, *, again: bool) -> ResumedWork:
    """Return exactly the selection of an earlier run, without what is done unless it is wanted.

    Raises ConfigError when there is no such run or it selected no company.
    """
    if await store.runs.find_run(parse_run_name(name)) is None:
        raise ConfigError(f"there is no run {name}; see: stoker runs list")
    if not await store.work_items.count_items(name):
        raise ConfigError(f"run {name} selected no companies; choose a nightly run that did")
    states = tuple(WorkState) if again else tuple(set(WorkState) - {WorkState.DONE})
    pages = store.work_items.iter_items(name, states=states)
    items = [item async for page in pages for item in page]
    return ResumedWork(run=name, items=_renumber_items((item, name) for item in items))


async def limit_to_daily_cap(
    accounts: AccountStore,
    units: Sequence[WorkItem],
    *,
    cap: int,
    limit: int | None,
    began_at: datetime,
    chosen: int = 0,
) -> tuple[WorkItem, ...]:
    """Return those of these items that the daily company cap and the run's limit allow.

    A company visited since the day began may be visited again; of the others, only as many as the
    cap leaves after `chosen` ones.
    """
    looked_at = await accounts.count_visited_since(began_at) + chosen
    left = None if limit is None else max(limit - chosen, 0)
    visited: set[CompanyId] = set()
    if len(units) > compute_open_capacity(cap, looked_at_today=looked_at):
        companies = [item.company for item in units]
        visited = await accounts.list_visited_since(companies, began_at)
    return limit_to_capacity(units, cap=cap, limit=left, looked_at_today=looked_at, again=visited)


async def _list_runs_of_day(run: RunHandle, *, kind: str, began_at: datetime) -> list[Run]:
    """Return the runs of this kind that the day has had before this one, newest first."""
    many = _RUNS_READ_FIRST
    found = await run.store.runs.list_runs(kind=kind, limit=many)
    while len(found) == many and found[-1].at >= began_at:
        many *= 2
        found = await run.store.runs.list_runs(kind=kind, limit=many)
    return [each for each in found if began_at <= each.at < run.key.at]


def _renumber_items(found: Iterable[tuple[WorkItem, str]]) -> tuple[WorkItem, ...]:
    return tuple(
        WorkItem(
            company=item.company,
            rank=place,
            depth=item.depth,
            reason=_format_origin(item, name),
            is_first=item.is_first,
        )
        for place, (item, name) in enumerate(found)
    )


def _format_origin(item: WorkItem, name: str) -> str:
    return item.reason if item.reason.startswith("left by") else f"left by {name}; {item.reason}"
