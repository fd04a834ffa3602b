"""A sweep: whoever fits is met once, everybody is reckoned anew, nothing newer is overwritten."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.model import Company, CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.files.tables import TableRow
from stoker.heat.heat import score_heat
from stoker.heat.model import Signal, SignalKind, Tier
from stoker.heat.service import HeatSweep, LookupFeedback, import_signals
from stoker.heat.settings import ChangeRateRule, HeatSettings
from stoker.heat.signals import MIN_POSTURE
from stoker.testing import FakeClock

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
HEAT = HeatSettings()
SWEEP = HeatSweep(heat=HEAT, icp_rule="default")


def signal(account, *, ago, name="one"):
    return Signal(
        id=f"{account}/{name}",
        account=CompanyId(account),
        kind=SignalKind.IMPORTED,
        at=NOW - timedelta(hours=ago),
    )


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
def store():
    return MemoryBackend().tenant(TenantId("acme"))


async def knows(store, *ids, fitting=None):
    companies = [Company(id=CompanyId(each), name=each) for each in ids]
    await store.accounts.upsert_companies(companies, now=NOW)
    fits = [CompanyId(each) for each in (ids if fitting is None else fitting)]
    await store.accounts.save_candidates(fits, rule="default")


async def test_whoever_fits_and_has_no_heat_gets_one_and_only_once(store, clock):
    await knows(store, *(f"c{n:05}" for n in range(12_000)), "stranger")
    await store.accounts.save_candidates(
        [CompanyId(f"c{n:05}") for n in range(0, 12_000, 2)], rule="default"
    )
    first = await SWEEP.recompute(store, clock=clock)
    again = await SWEEP.recompute(store, clock=clock)
    first, again, stranger = first, again, await store.heat.find_heat(CompanyId("stranger"))
    assert (first.accounts, first.new, first.cold) == (6_000, 6_000, 6_000)
    assert (again.accounts, again.new, again.moved) == (6_000, 0, 0)
    assert stranger is None


async def test_a_sweep_says_what_signals_and_time_make_of_an_account(store, clock):
    await knows(store, "a", "b")
    await store.heat.add_signals(
        [signal("a", ago=0.5), signal("a", ago=0.2, name="two")],
        rule=HEAT,
        now=NOW,
    )
    hot = await SWEEP.recompute(store, clock=clock)
    was = await store.heat.find_heat(CompanyId("a"))
    clock.advance(timedelta(days=30))
    await SWEEP.recompute(store, clock=clock)
    clock.advance(timedelta(days=3))
    cooled = await SWEEP.recompute(store, clock=clock)
    now = await store.heat.find_heat(CompanyId("a"))

    assert (hot.hot, hot.cold, hot.new) == (1, 1, 2 - 1)
    assert was.tier is Tier.HOT
    assert (cooled.cooler, now.tier) == (1, Tier.WARM)
    assert now.score < was.score
    assert now.score == score_heat(was, now=clock.now(), rule=HEAT).score
    assert was.state.posture == 0.0  # a signal came first: nobody has said how well it fits


async def test_a_heat_that_moves_while_it_is_reckoned_is_left_alone(store, clock):
    class Busy:
        """Hands a page over, and lets a signal arrive before it is written back."""

        def __init__(self, real):
            self._real = real

        def __getattr__(self, name):
            return getattr(self._real, name)

        async def list_heats(self, **which):
            page = await self._real.list_heats(**which)
            if page:
                await self._real.add_signals([signal("a", ago=0)], rule=HEAT, now=NOW)
            return page

    await knows(store, "a", "b")
    await SWEEP.recompute(store, clock=clock)
    found = await SWEEP._recompute(Busy(store.heat), clock, new=0)
    found, heat = found, await store.heat.find_heat(CompanyId("a"))
    assert (found.accounts, found.moved) == (2, 1)
    assert heat.state.latest == (NOW,)
    assert heat.state.posture == MIN_POSTURE


async def test_good_rows_of_a_table_move_heat_once_and_bad_ones_are_told(store, clock):
    rows = [
        TableRow(2, {"account": "a", "at": "2026-11-16T07:00:00Z"}),
        TableRow(3, {"account": "a", "at": "2026-11-16T07:30:00Z", "strength": "0.5"}),
        TableRow(4, {"account": "nobody", "at": "2026-11-16T07:00:00Z"}),
        TableRow(5, wrong="it is no CSV"),
        TableRow(6, {"account": "a", "at": "soon"}),
    ]

    await knows(store, "a")
    both = [await import_signals(store, rows, heat=HEAT, zone=UTC, clock=clock) for _ in range(2)]
    (first, second), kept = both, await store.heat.list_signals(CompanyId("a"))
    assert (first.new, first.known, first.rejected, first.accounts) == (2, 0, 3, {"a"})
    assert (second.new, second.known, second.accounts) == (0, 2, set())
    assert [line for line, _ in first.errors] == [4, 5, 6]
    assert len(kept) == 2


async def test_a_history_keeps_its_days_and_no_more(store, clock):
    await knows(store, "a")
    await store.heat.add_signals([signal("a", ago=1)], rule=HEAT, now=NOW)
    short = HeatSweep(heat=replace(HEAT, history=timedelta(days=10)), icp_rule="default")
    for _ in range(15):
        await short.recompute(store, clock=clock)
        clock.advance(timedelta(days=1))
    days = [day.on for day in await store.heat.list_history(CompanyId("a"))]
    assert len(days) == len(set(days)) > 5
    assert min(days) >= NOW.date() + timedelta(days=4)  # swept last on day 14


async def test_a_posture_that_a_person_gave_counts_and_outlives_lookups(store, clock):
    given = [Company(id=CompanyId("a"), name="A", posture=0.9), Company(id=CompanyId("b"), name="")]
    await store.accounts.import_accounts(given, rule="default", now=NOW)
    await SWEEP.update_accounts(store, clock)
    postures = {each.account: each.state.posture for each in await store.heat.list_heats()}
    assert postures == {"a": 0.9, "b": MIN_POSTURE}

    before = await store.accounts.find_company_record(CompanyId("a"))
    feedback = LookupFeedback(heat=HEAT, beliefs=ChangeRateRule())
    look = {"run": "r", "depth": Depth.SHALLOW, "visit": None, "before": before, "after": before}
    await feedback.record_lookup(store, **look, now=NOW)
    assert (await store.heat.find_heat(CompanyId("a"))).state.posture == 0.9

    # A lookup that began before an import ended after it: the next sweep sets it right.
    await store.heat.update_postures({CompanyId("a"): 0.1}, rule=HEAT, now=NOW)
    await SWEEP.recompute(store, clock=clock)
    assert (await store.heat.find_heat(CompanyId("a"))).state.posture == 0.9
