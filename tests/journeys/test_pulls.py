"""Pulls from end to end: heat, a plan, looks through the gate, and what they teach."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from night_house import ACME, Days
from stoker.base.errors import ConflictError
from stoker.base.events import CompanyEnded
from stoker.base.types import Depth
from stoker.budgets.service import build_budget, build_reset_rule
from stoker.budgets.verify import verify_ledger
from stoker.enrichment.model import END_STATES
from stoker.enrichment.pipeline import LookupPayments
from stoker.files.columns import decode_columns
from stoker.heat.model import Signal, SignalKind
from stoker.pulls.columns import CHOSEN, Decision
from stoker.pulls.planner import plan_pulls
from stoker.pulls.service import PullPlanner, to_work_items
from stoker.pulls.store import decode_decisions, parse_inputs
from stoker.runs.model import RunState

UNITS = "tenant/*/pull_units/day"


async def decided(house, run):
    plans = house.store().plans
    record = await plans.find_plan(run)
    parts = [
        await plans.find_plan_part(run, number) for number in range(record.header["decision_parts"])
    ]
    return record, decode_decisions(parts)


async def test_pulls_pay_their_units_once_and_every_account_has_its_reason(anywhere):
    async with anywhere(companies=6) as house:
        await house.night(steps=("refresh", "candidates"))
        met = await house.sweep()
        await house.limit(UNITS, 7)
        run = await house.pull()
        record, told = await decided(house, run.name)
        sound = await verify_ledger(house.store())
        plans = [
            entry
            for entry in await house.store().ledger.list_entries(limit=1000)
            if entry.kind == "PLAN"
        ]
        units = await house.units(run)

    assert met.new == 6
    assert run.manifest.cost["crawl/pull_units"] == 6  # two deep looks: nothing is known yet
    assert len(told.account) == 6
    chosen = [account for account, why in zip(told.account, told.why, strict=True) if why in CHOSEN]
    assert sorted(unit.company for unit in units) == sorted(chosen)
    assert record.header["spent"] <= record.header["budget"] == 7
    assert {unit.depth for unit in units} == {Depth.DEEP}
    assert sum(record.header["counts"][name] for name in ("shallow", "deep")) == len(chosen)
    assert [entry.data["digest"] for entry in plans] == [record.header["digest"]]
    assert sound.problems == ()


async def test_a_plan_made_again_from_what_was_kept_says_the_same(here):
    async with here(companies=8) as house:
        await house.night(limit=3)
        await house.sweep()
        await house.limit(UNITS, 30)
        run = await house.pull()
        record, told = await decided(house, run.name)
        first, many = record.header["decision_parts"], record.header["input_parts"]
        plans = house.store().plans
        parts = [await plans.find_plan_part(run.name, first + each) for each in range(many)]
    inputs = parse_inputs(decode_columns(parts), record.header)
    again = plan_pulls(inputs.accounts, inputs.limits, now=record.at, rule=inputs.rule)
    assert again.why.tolist() == told.why.tolist()
    assert again.depth.tolist() == told.depth.tolist()


async def test_lookups_teach_change_rates_and_fresh_accounts_wait(here):
    clock = Days()
    async with here(companies=4, clock=clock) as house:
        await house.night()
        await house.sweep()
        planning = PullPlanner(house.app.for_tenant(ACME))
        rest = (await planning.quote_plan(now=clock.now())).pulls
        clock.proceed = timedelta(days=2)
        [first, *_] = rest.inputs.ids
        signal = Signal(id="s", account=first, kind=SignalKind.IMPORTED, at=clock.now())
        own = house.app.settings.for_tenant(ACME).heat
        await house.store().heat.add_signals([signal], rule=own, now=clock.now())
        due = (await planning.quote_plan(now=clock.now())).pulls
        run = await house.pull()
        beliefs = await house.store().heat.list_change_rates()

    assert {Decision(code) for code in rest.plan.why.tolist()} == {Decision.FRESH_ENOUGH}
    assert to_work_items(due)[0].company == first  # its signal made what we know older than it is
    assert run.state is RunState.DONE
    assert all(belief.surface.changes is not None for belief in beliefs)


async def test_a_pull_is_asked_for_once_in_its_stretch_of_time(here):
    async with here(companies=3) as house:
        await house.night(steps=("refresh", "candidates"))
        await house.sweep()
        planning, store = PullPlanner(house.app.for_tenant(ACME)), house.store()
        before = (await planning.quote_plan(now=house.app.clock.now())).pulls
        unit = to_work_items(before)[0]

        def job(company, depth, now):
            return planning.build_job_id(company, depth, now)

        def looking(units, run):
            return LookupPayments(
                gate,
                store.budgets,
                prices={Depth.SHALLOW: units, Depth.DEEP: units},
                reset=build_reset_rule(house.app.settings.for_tenant(ACME)),
                run=run,
                pull_id=job,
            )

        gate, now = await house.app.for_tenant(ACME).open(build_budget), house.app.clock.now()
        paid = await (await looking(1, "one").reserve(unit.company, unit.depth, now=now)).settle()
        again = await (await looking(1, "two").reserve(unit.company, unit.depth, now=now)).settle()
        with pytest.raises(ConflictError, match="another price"):
            await looking(2, "three").reserve(unit.company, unit.depth, now=now)
        after = (await planning.quote_plan(now=now)).pulls

    assert (dict(paid), dict(again)) == ({"pull_units": 1}, {})
    row = list(after.inputs.ids).index(unit.company)
    assert Decision(int(after.plan.why[row])) is Decision.DUPLICATE_PULL_JOB_ID


async def test_a_refused_reservation_does_not_use_up_the_pull(here):
    async with here(companies=3) as house:
        await house.night(steps=("refresh", "candidates"))
        await house.sweep()
        await house.limit(UNITS, 0)
        none = await house.pull()
        await house.limit(UNITS, 100)
        some = await house.pull()
    assert none.manifest.counts["selected"] == 0
    assert some.manifest.counts["selected"] == 3
    assert some.manifest.cost["crawl/pull_units"] > 0


async def test_pulls_that_were_stopped_go_on_and_pay_for_nothing_twice(anywhere):
    async with anywhere(companies=8, at_once=2) as house:
        await house.night(steps=("refresh", "candidates"))
        await house.sweep()
        first = asyncio.create_task(house.pull())
        while not house.told.of_type(CompanyEnded):
            await asyncio.sleep(0.01)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        rest = await house.pull()
        [stopped] = (await house.store().runs.list_runs(kind="pulls"))[1:]
        holds = await house.store().budgets.list_usage()
        units, others = await house.units(stopped), await house.units(rest)

    assert stopped.state is RunState.CANCELLED
    # A vendor that was being asked when it was stopped may have been paid: then it is not DONE.
    assert rest.state in (RunState.DONE, RunState.PARTIAL), rest.manifest.reasons
    assert len(units) == 8
    through = [unit.company for unit in (*units, *others) if unit.state in END_STATES]
    assert sorted(through) == sorted(unit.company for unit in units)  # each exactly once
    [used] = [each.used for each in holds if each.cap == UNITS]
    assert used.settled == sum({Depth.DEEP: 3, Depth.SHALLOW: 1}[unit.depth] for unit in units)
    assert used.reserved == 0


async def test_an_account_outside_the_icp_is_in_no_plan_however_hot(here):
    async with here(companies=3) as house:
        await house.night(steps=("refresh", "candidates"))
        await house.sweep()
        now, own = house.app.clock.now(), house.app.settings.for_tenant(ACME).heat
        hot = Signal(id="s", account="stranger", kind=SignalKind.POSTING, at=now)
        await house.store().heat.add_signals([hot], rule=own, now=now)
        pulls = (await PullPlanner(house.app.for_tenant(ACME)).quote_plan(now=now)).pulls
    assert len(pulls.inputs.ids) == 3
    assert "stranger" not in pulls.inputs.ids


async def test_a_lookup_that_did_not_take_place_writes_nothing(here):
    async with here(companies=6) as house:
        await house.night(steps=("refresh", "candidates"))
        await house.sweep()
        await house.limit("tenant_connector/tavily/calls/day", 2)
        run = await house.night()
        visited = {each.company.id for each in await house.records() if each.looked_at}
        learned = {each.account for each in await house.store().heat.list_change_rates()}
        assert len(await house.units(run)) == 6
        assert learned == visited
        assert 0 < len(learned) < 6
