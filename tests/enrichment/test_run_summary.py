"""What a run comes to, read back from a store: its units, what the ledger says, its rows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.crm.model import SentRow
from stoker.crm.upsert import UNDONE_PREFIX
from stoker.enrichment.summary import compute_run_cost, count_crm_rows, summarize_run
from stoker.ledger.chain import NewEntry
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
        request = SpendRequest(
            key=key, connector="tavily", amounts={"calls": 3}, run=run, account=account
        )
        await self.store.money.reserve(
            request, caps=[CAP], reset=ResetRule(), owner="me", until=at + YEAR, now=at
        )

    async def pay(self, key, *, at=NOON, **how):
        await self.promise(key, at=at, **how)
        await self.store.money.settle(key, {"calls": 2}, now=at)


async def at_desk(scenario):
    return await scenario(Desk())


async def test_a_run_cost_what_was_settled_under_it_and_nobody_knows_what_is_told_apart():
    async def scenario(desk):
        await desk.pay("before", run=OTHER, at=NOON - timedelta(hours=1))
        await desk.pay("a")
        await desk.pay("b", account="c2")
        await desk.pay("beside", run=OTHER)
        await desk.promise("lost")
        await desk.store.money.mark_uncertain("lost", reason="cut off", now=NOON)
        summary = await summarize_run(desk.store, RUN)
        assert summary.cost == {"tavily/calls": 4}
        assert summary.unknown == {"tavily/calls": 3}
        assert summary.counts == {"unknown tavily/calls": 3}
        assert (await compute_run_cost(desk.store, RUN, account="c2")).settled == {
            "tavily/calls": 2
        }

    await at_desk(scenario)


async def test_a_run_whose_name_is_a_second_ahead_of_its_first_promise_misses_none():
    async def scenario(desk):
        await desk.pay("a", at=NOON - timedelta(seconds=2))
        assert (await compute_run_cost(desk.store, RUN)).settled == {"tavily/calls": 2}

    await at_desk(scenario)


class Counted:
    """A ledger that counts how many entries were read."""

    def __init__(self, real):
        self._real, self.read = real, 0

    async def list_entries(self, *, after=0, limit=1000):
        found = await self._real.list_entries(after=after, limit=limit)
        self.read += len(found)
        return found

    async def list_latest(self, *, limit):
        self.read += limit
        return await self._real.list_latest(limit=limit)


async def test_only_what_was_entered_while_the_run_went_on_is_read_however_long_the_ledger_is():
    async def scenario(desk):
        def notes(at):
            return [NewEntry(at=at, kind="ODD", subject="s", reason="")] * 5000

        ledger = desk.store.ledger
        await ledger.append(notes(NOON - timedelta(days=1)))
        await desk.pay("a")
        await desk.promise("late")
        await ledger.append(notes(NOON + timedelta(days=1)))
        await desk.store.money.settle("late", {"calls": 1}, now=NOON + timedelta(days=1))
        run = Run(key=RunKey(NOON, 1), kind="nightly").end(RunState.FAILED, at=NOON)
        counted = Counted(ledger)
        store = replace(desk.store, ledger=counted)
        found = await compute_run_cost(store, RUN, ended=run)
        assert found.settled == {"tavily/calls": 3}  # as it is known now
        assert counted.read < 2000

    await at_desk(scenario)


async def test_rows_a_run_wrote_are_counted_and_those_nobody_read_back_are_told_apart():
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
                [("d", RUN), ("e", RUN), ("", RUN), (f"{UNDONE_PREFIX}d", RUN), ("d", OTHER)]
            )
        ]
        await desk.store.crm.save_sent_rows(rows)
        assert await count_crm_rows(desk.store, RUN) == {"crm_written": 2, "crm_unknown": 1}
        assert await count_crm_rows(desk.store, "20300101_130000") == {}

    await at_desk(scenario)
