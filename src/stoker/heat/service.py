"""Keep a tenant's heat current: imported signals, what lookups show, and sweeps.

Signals update heat when they arrive; a sweep applies what only the passing of time changes. It
works page by page, so a million accounts fit into memory. Each batch of an import is atomic: an
import that stops half-way and is repeated counts each signal once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from stoker.accounts.model import Candidate, CompanyId, CompanyRecord, LeadScore
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError
from stoker.base.types import Depth
from stoker.context import TenantContext, TenantStores
from stoker.crawl.model import SiteVisit
from stoker.db.database import delete_in_batches
from stoker.files.tables import JSON_LINES_SUFFIXES, TableRow, read_table
from stoker.heat.heat import score_heats
from stoker.heat.model import Signal, Tier
from stoker.heat.settings import ChangeRateRule, HeatSettings
from stoker.heat.signals import (
    REQUIRED_COLUMNS,
    SIGNAL_COLUMNS,
    compute_posture,
    observe_lookup,
    parse_signal,
)
from stoker.heat.store import HeatStore
from stoker.runs.model import RunState
from stoker.runs.service import RunHandle, RunResult
from stoker.scheduling.service import Task, build_task

KIND = "sweep"

BATCH_SIZE = 1000

MAX_ERRORS_SHOWN = 1000  # listed with their reasons; the others are only counted

_PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The counts of a sweep."""

    accounts: int = 0
    new: int = 0  # accounts that had no heat before
    warmer: int = 0  # in a higher tier than before
    cooler: int = 0
    moved: int = 0  # by another process meanwhile, and left alone: its heat is newer
    hot: int = 0
    warm: int = 0
    cold: int = 0


@dataclass(frozen=True, kw_only=True)
class HeatSweep:
    """Recomputes all heats of a tenant, and adds accounts that fit and have no heat yet."""

    heat: HeatSettings
    icp_rule: str
    kind: str = KIND

    async def __call__(self, run: RunHandle) -> RunResult:
        """Run the sweep and return its counts."""
        with run.time_step(KIND) as step:
            result = await self.recompute(run.store, clock=run.clock)
            step.items = result.accounts
        return RunResult(state=RunState.DONE, counts=asdict(result))

    async def recompute(self, store: TenantStores, *, clock: Clock) -> SweepResult:
        """Add accounts that fit and have no heat yet, then recompute every heat.

        The day's heats go into the history, and what is too old leaves it.
        """
        new = await self.update_accounts(store, clock)
        result = await self._recompute(store.heat, clock, new=new)
        before = (clock.now() - self.heat.history).date()
        await delete_in_batches(partial(store.heat.delete_old_history, before=before))
        return result

    async def update_accounts(self, store: TenantStores, clock: Clock) -> int:
        """Add accounts that fit and have no heat yet, and set the postures that a person gave.

        Returns how many are new.
        """
        new, after, last = 0, "", ""
        known: dict[CompanyId, float] = {}
        while page := await store.accounts.list_candidates(
            rule=self.icp_rule, after=after, limit=_PAGE_SIZE
        ):
            after = page[-1].id
            # Heats come in the same order, so each page of them is read once.
            while last < after and (
                heats := await store.heat.list_heats(after=last, limit=_PAGE_SIZE)
            ):
                known |= {heat.account: heat.state.posture for heat in heats}
                last = heats[-1].account
            unmet = {
                one.id: compute_posture(await _find_score(store, one), given=one.posture)
                for one in page
                if one.id not in known
            }
            # An import that a lookup overtook: what a person gave is set again.
            given = {
                one.id: one.posture
                for one in page
                if one.posture is not None and known.get(one.id, one.posture) != one.posture
            }
            known = {account: known[account] for account in known if account > after}
            if given:
                await store.heat.update_postures(given, rule=self.heat, now=clock.now())
            if unmet:
                new += await store.heat.update_postures(unmet, rule=self.heat, now=clock.now())
        return new

    async def _recompute(self, heats: HeatStore, clock: Clock, *, new: int) -> SweepResult:
        accounts = warmer = cooler = put = 0
        tiers = dict.fromkeys(Tier, 0)
        after = ""
        while page := await heats.list_heats(after=after, limit=_PAGE_SIZE):
            after = page[-1].account
            now = score_heats(page, now=clock.now(), rule=self.heat)
            put += await heats.update_heats(now, expected=page)
            await heats.save_history(now)
            accounts += len(page)
            for before, heat in zip(page, now, strict=True):
                tiers[heat.tier] += 1
                warmer += heat.tier.rank > before.tier.rank
                cooler += heat.tier.rank < before.tier.rank
        return SweepResult(
            accounts=accounts,
            new=new,
            warmer=warmer,
            cooler=cooler,
            moved=accounts - put,
            hot=tiers[Tier.HOT],
            warm=tiers[Tier.WARM],
            cold=tiers[Tier.COLD],
        )


async def _find_score(store: TenantStores, candidate: Candidate) -> LeadScore | None:
    record = await store.accounts.find_company_record(candidate.id) if candidate.scored else None
    return record.score if record else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFeedback:
    """The rules by which a tenant's lookups update heat and change rates."""

    heat: HeatSettings
    beliefs: ChangeRateRule

    async def record_lookup(
        self,
        store: TenantStores,
        *,
        run: str,
        depth: Depth,
        visit: SiteVisit | None,
        before: CompanyRecord,
        after: CompanyRecord,
        now: datetime,
        cut_short: bool = False,
        unanswered: bool = False,
    ) -> None:
        """Update posture, change rates and signals from one lookup, after it was saved.

        The caller calls it only if anything was looked at. Under the lookup's own key, so
        repeating it changes nothing. A crash in between loses what the lookup showed, and never
        records anything wrong.
        """
        observation = observe_lookup(
            look=f"{run}/{before.company.id}",
            depth=depth,
            visit=visit,
            before=before,
            after=after,
            at=now,
            cut_short=cut_short,
            unanswered=unanswered,
        )
        score, given = after.score or before.score, before.company.posture
        postures = {before.company.id: compute_posture(score, given=given)}
        await store.heat.update_postures(postures, rule=self.heat, now=now)
        await store.heat.record_lookups([observation.observed], rule=self.beliefs)
        if observation.signals:
            await store.heat.add_signals(observation.signals, rule=self.heat, now=now)


@dataclass(slots=True, kw_only=True)
class ImportResult:
    """What came of a table of signals."""

    new: int = 0
    known: int = 0
    accounts: set[CompanyId] = field(default_factory=set)  # whose heat moved
    rejected: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)  # line and reason, the first ones

    def add_error(self, line: int, because: str) -> None:
        """Count a bad row, and keep the reason of the first ones."""
        self.rejected += 1
        if len(self.errors) < MAX_ERRORS_SHOWN:
            self.errors.append((line, because))


def read_signal_rows(path: Path) -> Iterator[TableRow]:
    """Yield every row of a file. Raises ConfigError when it cannot be read at all."""
    json_lines = path.suffix.lower() in JSON_LINES_SUFFIXES
    columns = {name: (name,) for name in SIGNAL_COLUMNS}
    try:
        with path.open("rb") as file:
            yield from read_table(file, columns, required=REQUIRED_COLUMNS, json_lines=json_lines)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


async def import_signals(
    store: TenantStores,
    rows: Iterable[TableRow],
    *,
    heat: HeatSettings,
    zone: ZoneInfo,
    clock: Clock,
) -> ImportResult:
    """Insert the signal of every good row; return what came of all of them."""
    done, left = ImportResult(), iter(rows)
    known: dict[CompanyId, bool] = {}
    while batch := list(islice(left, BATCH_SIZE)):
        now, signals = clock.now(), list[Signal]()
        for row in batch:
            parsed = row.wrong or parse_signal(row.cells, zone=zone, now=now)
            if isinstance(parsed, str):
                done.add_error(row.line, parsed)
                continue
            account = parsed.account
            if account not in known:
                known[account] = await store.accounts.find_company_record(account) is not None
            if known[account]:
                signals.append(parsed)
            else:
                done.add_error(row.line, f"no company {account!r} is known to {store.tenant}")
        added = await store.heat.add_signals(signals, rule=heat, now=now)
        done.new += added.new
        done.known += added.known
        done.accounts.update(each.account for each in added.heats)
    return done


def build_heat_sweep(tenant: TenantContext) -> HeatSweep:
    """Return what brings a tenant's heats up to date."""
    own = tenant.settings
    return HeatSweep(heat=own.heat, icp_rule=own.icp.rule_name)


def build_sweep_task(tenant: TenantContext) -> Task:
    """Return a tenant's sweep as a task, due every so often, whatever its nights are."""
    return build_task(tenant, build_heat_sweep(tenant), every=tenant.settings.heat.sweep_every)
