"""Resume what earlier runs of the same day left unfinished, under the new run's name.

Open items of a killed or stopped run become the new run's. After a run that finished, skipped items
of the day are tried again. Paid answers are cached elsewhere; nothing here spends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.accounts.store import AccountStore
from stoker.base.errors import ConfigError
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.context import TenantStores
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.pull_units import CRAWL, PULL_UNITS
from stoker.nightly.targets import (
    OPEN_STATES,
    RETRYABLE_STATES,
    UnfinishedWork,
    compute_open_capacity,
    limit_to_capacity,
)
from stoker.runs.model import Run, RunState, parse_run_name
from stoker.runs.service import RunHandle

_RUNS_READ_FIRST = 20  # runs at first; a day has few

_FINISHED_STATES = (RunState.DONE, RunState.PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedWork:
    """Units of earlier runs, as the new one is to do them."""

    run: str  # the latest of those that had them
    items: tuple[WorkItem, ...]
    paid_companies: frozenset[CompanyId] = frozenset()  # whose look today is paid for already
    already_retried: bool = False  # all of them were tried again today already: others come first


async def find_unfinished_work(
    run: RunHandle, *, kind: str, reset: ResetRule, killed_only: bool = False
) -> ResumedWork | None:
    """Return what this tenant's runs of the day left unfinished; None to select new ones.

    After a run that did not finish, its open items; no items if only its end is missing. Otherwise
    what another lookup may complete, from any run of the day. With `killed_only`, a run that
    finished has left nothing.
    """
    day = compute_window(WindowKind.DAY, run.clock.now(), reset=reset)
    leftovers, latest, ended_since = UnfinishedWork(paid_as=f"{CRAWL}/{PULL_UNITS}"), None, False
    for earlier in await _list_runs_of_day(run, kind=kind, began_at=day.start):
        if not await run.store.nights.count_items(earlier.name):
            # It died before it had chosen, had nothing to go on with, or was about something else.
            ended_since = ended_since or (latest is None and earlier.state in _FINISHED_STATES)
            continue
        latest = latest or earlier
        if killed_only and latest.state in _FINISHED_STATES:
            return None
        async for page in run.store.nights.iter_items(earlier.name):
            leftovers.add(earlier.name, page)
        if killed_only:
            break
    if latest is None:
        return None
    killed = latest.state not in _FINISHED_STATES
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


async def get_selection(store: TenantStores, name: str, *, again: bool) -> ResumedWork:
    """Return exactly the selection of an earlier run, without what is done unless it is wanted.

    Raises ConfigError when there is no such run or it selected no company.
    """
    if await store.runs.find_run(parse_run_name(name)) is None:
        raise ConfigError(f"there is no run {name}; see: stoker runs list")
    if not await store.nights.count_items(name):
        raise ConfigError(f"run {name} selected no companies; choose a nightly run that did")
    states = tuple(WorkState) if again else tuple(set(WorkState) - {WorkState.DONE})
    pages = store.nights.iter_items(name, states=states)
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
