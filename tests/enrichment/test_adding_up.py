"""What a run comes to, read back from a store: its units, what the ledger says, its rows."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from stoker.accounts.model import SentRow
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Request
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.crm.upsert import UNDONE
from stoker.enrichment.summary import added_up, spent_under, written_by
from stoker.ledger.chain import Note
from stoker.memory.backend import MemoryBackend
from stoker.runs.model import Run, RunKey, RunState

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
RUN, OTHER = "20300101_120000", "20300101_110000"
CAP = Cap(scope=Scope.TENANT, unit="calls", window=WindowKind.DAY, limit=1000)
YEAR = timedelta(days=365)


class Desk:
    """One tenant's money, spent by hand."""

    def __init__(self):
        self.store = MemoryBackend().tenant(TenantId("acme"))

    async def promise(self, key, *, run=RUN, account="c1", at=NOON):
        request = Request(
            key=key, connector="tavily", amounts={"calls": 3}, run=run, account=account
        )
        await self.store.money.reserve(
            request, caps=[CAP], reset=ResetRule(), owner="me", until=at + YEAR, now=at
        )

    async def pay(self, key, *, at=NOON, **how):
        await self.promise(key, at=at, **how)
        await self.store.money.settle(key, {"calls": 2}, now=at)


def at_desk(scenario):
    async def whole():
        return await scenario(Desk())

    return asyncio.run(whole())


def test_a_run_cost_what_was_settled_under_it_and_nobody_knows_what_is_told_apart():
    async def scenario(desk):
        await desk.pay("before", run=OTHER, at=NOON - timedelta(hours=1))
        await desk.pay("a")
        await desk.pay("b", account="c2")
        await desk.pay("beside", run=OTHER)
        await desk.promise("lost")
        await desk.store.money.keep_aside("lost", reason="cut off", now=NOON)
        summary = await added_up(desk.store, RUN)
        assert summary.cost == {"tavily/calls": 4}
        assert summary.unknown == {"tavily/calls": 3}
        assert summary.counts == {"unknown tavily/calls": 3}
        assert (await spent_under(desk.store, RUN, account="c2")).settled == {"tavily/calls": 2}

    at_desk(scenario)


def test_a_run_whose_name_is_a_second_ahead_of_its_first_promise_misses_none():
    async def scenario(desk):
        await desk.pay("a", at=NOON - timedelta(seconds=2))
        assert (await spent_under(desk.store, RUN)).settled == {"tavily/calls": 2}

    at_desk(scenario)


class Counted:
    """A ledger that counts how many entries were read."""

    def __init__(self, real):
        self._real, self.read = real, 0

    async def entries(self, *, after=0, limit=1000):
        found = await self._real.entries(after=after, limit=limit)
        self.read += len(found)
        return found


def test_only_what_was_entered_while_the_run_went_on_is_read_however_long_the_ledger_is():
    async def scenario(desk):
        def notes(at):
            return [Note(at=at, kind="ODD", subject="s", reason="")] * 5000

        ledger = desk.store.ledger
        await ledger.append(notes(NOON - timedelta(days=1)))
        await desk.pay("a")
        await desk.promise("late")
        await ledger.append(notes(NOON + timedelta(days=1)))
        await desk.store.money.settle("late", {"calls": 1}, now=NOON + timedelta(days=1))
        run = Run(key=RunKey(NOON, 1), kind="nightly").ended(RunState.FAILED, at=NOON)
        counted = Counted(ledger)
        store = replace(desk.store, ledger=counted)
        found = await spent_under(store, RUN, ended=run)
        assert found.settled == {"tavily/calls": 3}  # as it is known now
        assert counted.read < 2000

    at_desk(scenario)


def test_rows_a_run_wrote_are_counted_and_those_nobody_read_back_are_told_apart():
    async def scenario(desk):
        rows = [
            SentRow(
                external_id=f"row{number}",
                model="res.partner",
                digest=digest,
                values={},
                before={},
                run=run,
                at=NOON,
            )
            for number, (digest, run) in enumerate(
                [("d", RUN), ("e", RUN), ("", RUN), (f"{UNDONE}d", RUN), ("d", OTHER)]
            )
        ]
        await desk.store.nights.keep_sent(rows)
        assert await written_by(desk.store, RUN) == {"crm_written": 2, "crm_unknown": 1}
        assert await written_by(desk.store, "20300101_130000") == {}

    at_desk(scenario)
