from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, Step, TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.crm.model import SentRow
from stoker.crm.upsert import UNDONE_PREFIX
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.outcomes import (
    MAX_REASONS_SHOWN,
    LateItems,
    LookupLog,
    SummaryBuilder,
    compute_run_cost,
    count_crm_rows,
    format_lateness,
    summarize_run,
)
from stoker.enrichment.schema import ITEMS
from stoker.ledger.chain import NewEntry
from stoker.runs.model import Run, RunKey, RunState
from stoker.testing import FakeClock

amounts = st.dictionaries(st.sampled_from(["tavily/calls", "crawl/pull_units"]), st.integers(0, 9))
units = st.lists(
    st.builds(
        WorkItem,
        company=st.text("abc", min_size=1).map(CompanyId),
        rank=st.integers(0, 99),
        depth=st.sampled_from(list(Depth)),
        state=st.sampled_from(list(WorkState)),
        reasons=st.lists(st.text("xyz", min_size=1), max_size=3).map(tuple),
        cost=amounts,
        seconds=st.dictionaries(st.sampled_from(["crawl", "verify"]), st.floats(0, 100)),
    )
)


def summary(*pages):
    tally = SummaryBuilder()
    for page in pages:
        tally.add(page)
    return tally.build()


@given(units, units)
def test_adding_up_page_by_page_is_adding_up_at_once(one, other):
    assert summary(one, other) == summary([*one, *other])


@given(units)
def test_a_night_adds_up_to_what_its_units_say(all_of_them):
    told = summary(all_of_them)
    assert sum(told.states.values()) == len(told.selected) == len(all_of_them)
    for name, amount in told.cost.items():
        assert amount == sum(unit.cost.get(name, 0) for unit in all_of_them)
    assert len(told.reasons) <= MAX_REASONS_SHOWN


@given(units)
def test_a_night_is_done_only_when_nothing_was_left_out(all_of_them):
    state, reason = summary(all_of_them).compute_outcome()
    whole = {unit.state for unit in all_of_them} <= {WorkState.DONE}
    assert (state is RunState.DONE) == whole
    assert bool(reason) == any(unit.state is not WorkState.DONE for unit in all_of_them)


@given(units)
def test_what_remains_is_what_was_never_looked_at(all_of_them):
    left = {WorkState.WAITING, WorkState.CLAIMED, WorkState.DROPPED}
    expected = [unit.company for unit in all_of_them if unit.state in left]
    assert list(summary(all_of_them).remaining) == expected


def ended(write):
    """An item of which this was written down while it was worked on."""
    log = LookupLog(WorkItem(company=CompanyId("a"), rank=0, depth=Depth.DEEP), clock=FakeClock())
    write(log)
    return log.build_result()


def as_stored_earlier(item):
    """The same item from a row of before causes were stored: it has sentences alone."""
    return ITEMS.read(list((ITEMS.values(item) | {"causes": None}).values()))


def refused(left, needed):
    cap = "tenant_connector/openai/tokens/day"
    message = f"{cap} has {left} of 15000 left, {needed} needed"
    refusal = Refusal(reason="CAP_REACHED", message=message, cap=cap, used=0, limit=15_000)
    return ended(lambda log: log.record_failure(Step.EXTRACT, "openai", refusal))


def unreadable(site):
    why = f"http://{site}.test/ did not answer in time"
    return ended(lambda log: log.add_note(f"failed, {why}", step=Step.CRAWL, cause=why))


def nothing_at(page):
    where = f"nothing could be read at https://{page}.test/a"
    return ended(lambda log: log.add_note(where, step=Step.EXTRACT))


@pytest.mark.parametrize("stored", [lambda item: item, as_stored_earlier])
@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([unreadable("one"), unreadable("two")], "its site did not answer in time"),
        ([nothing_at("a"), nothing_at("b")], "nothing could be read at an address"),
        (
            [refused(6091, 7715), refused(1296, 6312)],
            "openai was not called: OpenAI tokens per day has too little left of 15,000",
        ),
    ],
)
def test_what_two_companies_lack_for_one_cause_is_counted_as_one_reason(items, reason, stored):
    assert summary(map(stored, items)).reasons == (f"2 companies: {reason}",)


DEADLINE = datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def unit(after, *, state=WorkState.DONE, **seconds):
    return WorkItem(
        company=CompanyId("a"),
        rank=0,
        depth=Depth.DEEP,
        state=state,
        seconds=seconds,
        ended_at=DEADLINE + after if after is not None else None,
    )


def told(*units, flowed, ended):
    stragglers = LateItems(DEADLINE)
    stragglers.add(units)
    return format_lateness(
        deadline=DEADLINE,
        flowed_at=DEADLINE + flowed,
        ended_at=DEADLINE + ended,
        stragglers=stragglers,
    )


@pytest.mark.parametrize("ended", [-60 * SECOND, 0 * SECOND, SECOND / 2])
def test_a_night_that_ended_in_time_has_nothing_to_explain(ended):
    assert told(unit(ended), flowed=ended, ended=ended) == ""


def test_a_late_night_says_how_late_and_who_was_under_way_with_what():
    units = [
        unit(75 * SECOND, crawl=3.0, verify=70.0),
        unit(40 * SECOND, crawl=9.0, verify=30.0),
        unit(-9 * SECOND, crawl=500.0),
        unit(SECOND, state=WorkState.DROPPED),
        unit(None, state=WorkState.WAITING),
    ]
    assert told(*units, flowed=75 * SECOND, ended=80 * SECOND) == (
        "it ended 1 m 20 s after its deadline, because 2 companies were still in progress, "
        "longest in verify"
    )
    assert "1 company was still" in told(units[0], flowed=75 * SECOND, ended=80 * SECOND)


def test_companies_that_were_cut_off_are_not_counted_but_told():
    late = told(unit(None, state=WorkState.CLAIMED), flowed=600 * SECOND, ended=600 * SECOND)
    assert late == "it ended 10 m 0 s after its deadline, because companies were still in progress"


def test_a_crm_that_took_long_is_told_apart():
    late = told(unit(-SECOND, crawl=1.0), flowed=-SECOND, ended=30 * SECOND)
    assert late == "it ended 30 s after its deadline, because the CRM was still being filled"


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
        await self.store.budgets.reserve(
            request, caps=[CAP], reset=ResetRule(), owner="me", until=at + YEAR, now=at
        )

    async def pay(self, key, *, at=NOON, **how):
        await self.promise(key, at=at, **how)
        await self.store.budgets.settle(key, {"calls": 2}, now=at)


async def at_desk(scenario):
    return await scenario(Desk())


async def test_a_run_cost_what_was_settled_under_it_and_nobody_knows_what_is_told_apart():
    async def scenario(desk):
        await desk.pay("before", run=OTHER, at=NOON - timedelta(hours=1))
        await desk.pay("a")
        await desk.pay("b", account="c2")
        await desk.pay("beside", run=OTHER)
        await desk.promise("lost")
        await desk.store.budgets.mark_uncertain("lost", reason="cut off", now=NOON)
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
        await desk.store.budgets.settle("late", {"calls": 1}, now=NOON + timedelta(days=1))
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
