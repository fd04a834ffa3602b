"""Nights on a virtual clock: nothing breaks for the product, and what cuts corners is caught."""

import ast
import inspect
import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from click.testing import CliRunner

from stoker.budgets.charges import list_charges
from stoker.calendar.recurrence import DueOccurrences
from stoker.pulls.planner import plan_pulls
from stoker.simulation import nights as rehearsal
from stoker.simulation.commands import simulate
from stoker.simulation.faults import (
    FaultPlan,
    InjectedFault,
    Interval,
    Invariant,
    InvariantChecker,
    SimTenant,
    build_fault_plan,
    choose_first_day,
    list_sim_tenants,
    parse_faults,
)
from stoker.simulation.nights import DecisionFunctions, SimOptions, simulate_nights

SMALL = SimOptions(accounts=60, units=45, credits=8, companies=3)
NIGHTS = 30
EVERYTHING = frozenset(InjectedFault)


def broken(practice, *injected):
    found = simulate_nights(nights=NIGHTS, injected=injected, order=SMALL, practice=practice)
    return {each.invariant for each in found.violations}, found


@pytest.fixture(scope="module")
def ours():
    return simulate_nights(nights=NIGHTS, injected=EVERYTHING, order=SMALL)


def test_no_promise_breaks_whatever_goes_wrong(ours):
    assert ours.violations == []


def test_what_is_injected_does_happen(ours):
    assert ours.killed >= 2
    assert ours.pushed_back > 20
    assert ours.shed > 10
    assert ours.refused > 10
    assert ours.nights == 3 * NIGHTS - 3  # of two days without the program only one night is missed


def test_the_same_seed_gives_the_same_nights(ours):
    assert simulate_nights(nights=NIGHTS, injected=EVERYTHING, order=SMALL) == ours


def test_without_trouble_every_night_is_done_and_nothing_is_left_out():
    found = simulate_nights(nights=14, order=SMALL)
    assert (found.violations, found.shed, found.killed, found.pushed_back) == ([], 0, 0, 0)
    assert found.nights == 2 * 14


def test_the_checker_shares_no_rule_with_the_product():
    source = ast.parse(inspect.getsource(inspect.getmodule(InvariantChecker)))
    imported = {node.module for node in ast.walk(source) if isinstance(node, ast.ImportFrom)}
    assert {each for each in imported if each.startswith("stoker.")} == {
        "stoker.accounts.model",  # what an account is called
        "stoker.base.errors",
    }


def test_a_schedule_that_reads_the_wall_is_caught_on_both_nights_clocks_are_set():
    def by_the_wall(now, last, schedule):
        hour, minute = reversed([int(part) for part in schedule.expression.split()[:2]])
        wall = now.astimezone(ZoneInfo(schedule.zone))
        due = (wall.hour, wall.minute - wall.minute % 10) == (hour, minute)
        return DueOccurrences(run=(now,) if due and now != last else (), reason="")

    promises, found = broken(DecisionFunctions(due=by_the_wall), InjectedFault.DST)
    assert promises >= {Invariant.ONE_RUN}
    ones = [each for each in found.violations if each.invariant is Invariant.ONE_RUN]
    assert {(each.tenant, each.day) for each in ones} == {
        ("london", date(2026, 3, 29)),
        ("sydney", date(2026, 4, 5)),
    }


def test_a_gate_that_read_its_caps_in_the_morning_is_caught_when_one_is_cut():
    def unaware(request, caps, standing, *, reset, now):
        wanted = list_charges(request, caps, {}, reset=reset, now=now, opened=standing.open_windows)
        for charge in wanted:
            used = standing.open_windows.get((charge.cap, charge.window))
            if used and used.total + charge.amount > charge.limit:
                return rehearsal.grant_charges(request, caps, standing, reset=reset, now=now)
        return tuple(wanted)

    promises, found = broken(DecisionFunctions(grants=unaware), InjectedFault.CAP_CUT)
    assert promises == {Invariant.CAPS}
    assert {each.night for each in found.violations} <= set(range(NIGHTS * 65 // 100, NIGHTS))


def test_nights_that_leave_nothing_out_are_caught_when_vendors_are_slow():
    promises, _ = broken(DecisionFunctions(sheds=lambda waiting, **_: ()), InjectedFault.TOO_MANY)
    assert promises == {Invariant.DEADLINE}


def test_a_plan_that_gives_up_on_some_without_saying_so_is_caught():
    def only_the_best(accounts, limits, *, now, rule):
        known = accounts.posture > 0.3
        some = replace(
            accounts,
            value=np.where(known, accounts.value, 0.0),
            deep_value=np.where(known, accounts.deep_value, 0.0),
        )
        return plan_pulls(some, limits, now=now, rule=replace(rule, floor=None))

    assert broken(DecisionFunctions(plan=only_the_best))[0] == {Invariant.FLOOR}


def test_a_program_that_forgets_what_it_missed_is_caught_after_an_outage():
    from stoker.calendar.recurrence import CatchUp, compute_due

    def forgetful(now, last, schedule):
        return compute_due(now, last, schedule, catch_up=CatchUp.NONE, grace=timedelta(minutes=15))

    assert Invariant.ONE_RUN in broken(DecisionFunctions(due=forgetful), InjectedFault.OUTAGE)[0]


PLACE = SimTenant(tenant="a", zone="Europe/London", at=time(1, 30))
START = datetime(2026, 3, 1, 1, 30, tzinfo=UTC)


def auditor(**bad):
    return InvariantChecker(
        PLACE,
        FaultPlan(**bad),
        first=date(2026, 3, 1),
        floor=timedelta(days=10),
        limit=lambda cap, at: 5,
    )


def test_the_auditor_counts_caps_looks_nights_waits_and_minutes_by_the_wall():
    found = auditor()
    found.record_start(START)
    for _ in range(5):
        found.record_spending("cap", 1, at=START)
    found.record_lookup("x", at=START)
    found.record_end(at=START + timedelta(minutes=100), deadline=START + timedelta(minutes=90))
    found.check_waits({"x": START - timedelta(days=12)}, reported=(), at=START)
    found.finish(1)
    assert found.violations == []
    found.record_start(START + timedelta(hours=3))
    found.record_spending("cap", 1, at=START)
    found.record_lookup("x", at=START + timedelta(hours=20))
    found.record_end(at=START + timedelta(minutes=101), deadline=START + timedelta(minutes=90))
    late = {"x": START - timedelta(days=12, minutes=1)}
    found.check_waits(late, reported=("x",), at=START)
    assert len(found.violations) == 4
    found.check_waits(late, reported=(), at=START)
    found.finish(2)
    assert {each.invariant for each in found.violations} == set(Invariant)
    assert [each.night for each in found.violations] == [1, 1, 1, 1, 1, 2]


def test_a_wait_in_which_the_program_was_down_is_not_held_against_it():
    down = Interval(start=START - timedelta(days=5), end=START - timedelta(days=3))
    found = auditor(down=(down,))
    found.check_waits({"x": START - timedelta(days=14)}, reported=(), at=START)
    assert found.violations == []
    found.check_waits({"x": START - timedelta(days=14, minutes=1)}, reported=(), at=START)
    assert len(found.violations) == 1


@pytest.mark.parametrize("nights", [12, 40, 90, 365])
def test_clocks_are_set_and_everything_goes_wrong_within_the_rehearsal(nights):
    begins, ends = choose_first_day(nights), choose_first_day(nights) + timedelta(days=nights)
    assert begins <= date(2026, 3, 29) < ends
    assert begins <= date(2026, 4, 5) < ends
    for place in list_sim_tenants(EVERYTHING):
        bad = build_fault_plan(place, nights=nights, injected=EVERYTHING)
        for stretch in (*bad.down, *bad.throttled, *bad.cap_cuts):
            assert begins <= place.to_local_day(stretch.start) < ends


def test_the_command_says_zero_broken_and_what_happened():
    asked = ["nights", "--nights", "14", "--accounts", "40", "--json"]
    result = CliRunner().invoke(simulate, asked, standalone_mode=False)
    told = json.loads(result.output)
    assert told["breaches"] == []
    assert set(told["broken"].values()) == {0}
    assert told["injected"] == sorted(EVERYTHING)
    assert (told["tenants"], told["counts"]["nights"] > 30) == (3, True)
    shown = CliRunner().invoke(
        simulate, ["nights", "--nights", "12", "--accounts", "20", "--inject", ""]
    )
    assert "no cap is exceeded" in shown.output
    assert "failures: none" in shown.output


def test_a_trouble_nobody_knows_is_refused():
    assert parse_faults(" outage , 429 ") == {InjectedFault.OUTAGE, InjectedFault.TOO_MANY}
    assert parse_faults("") == frozenset()
    with pytest.raises(Exception, match="there is no fault 'flood'; there are outage, dst"):
        parse_faults("outage,flood")
