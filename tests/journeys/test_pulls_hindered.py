"""What stands in the way of pulls, for real: stops, spent caps, vendors that say later, rates."""

from datetime import timedelta

from night_house import ACME, Days
from stoker.app import open_app
from stoker.base.types import Depth
from stoker.enrichment.runner import run_now
from stoker.pulls.columns import CHOSEN, Decision
from stoker.pulls.explain import explain
from stoker.pulls.planner import DEEP, NOT, SHALLOW
from stoker.pulls.reports import iterate_differences
from stoker.pulls.service import PlanJob, PullPlanner, to_work_items
from stoker.pulls.store import list_active_constraints, load_plan, replay_plan, to_decisions

CALLS = "tenant_connector/tavily/calls/day"
LOOKS = "tenant_connector/crawl/pull_units/day"
MONEY = "tenant/*/money:USD/day"
LATER = {"tavily.fault.busy": 1, "tavily.retry_after": "1800"}


async def met(house):
    """Have accounts that nobody has looked at yet."""
    await house.night(steps=("refresh", "candidates"))
    await house.sweep()


async def planned(app):
    return (await PullPlanner(app.for_tenant(ACME)).quote_plan(now=app.clock.now())).pulls


def whys(pulls):
    return [Decision(code) for code in pulls.plan.why.tolist()]


def told(pulls, row):
    inputs = pulls.inputs
    return explain(
        row,
        inputs.accounts,
        inputs.limits,
        now=pulls.at,
        rule=inputs.rule,
        plan=pulls.plan,
        constraints=inputs.constraints,
    )


def numbers_of(explained):
    """Return which cap was in the way, what it had left and its limit."""
    constraint = explained.constraint
    return constraint.cap, constraint.had, constraint.limit


async def kept_alike(house, run):
    """Say whether a kept plan is made again as it was, with what stood in its way."""
    found = await load_plan(house.store(), run.name)
    again = to_decisions(replay_plan(found.inputs, now=found.record.at))
    return not list(iterate_differences(found.decisions, again)), found


async def test_a_spent_cap_of_a_connector_leaves_the_looks_it_has_room_for_and_refuses_none(
    anywhere,
):
    async with anywhere(companies=8) as house:
        await met(house)
        await house.limit(CALLS, 3)
        quoted = await PullPlanner(house.app.for_tenant(ACME)).quote_plan(now=house.app.clock.now())
        run = await house.pull()
        after = await planned(house.app)
        [line] = [
            entry
            for entry in await house.store().ledger.list_entries(limit=1000)
            if entry.kind == "PLAN"
        ]
        pulls, quote = quoted.pulls, quoted.quote
        (same, found), units = await kept_alike(house, run), await house.units(run)

    assert whys(pulls).count(Decision.CAP_CONNECTOR_DAY) == 6  # 1.4 calls a look
    assert (len(pulls.plan.chosen), {unit.depth for unit in units}) == (2, {Depth.DEEP})
    assert not quote.refused
    assert not any("tavily was not called" in each for unit in units for each in unit.reasons)
    assert run.manifest.cost["tavily/calls"] == 2  # their own sites say enough
    [numbers] = line.data["hindrances"]
    assert (numbers["cap"], numbers["had"], numbers["looks"]) == (CALLS, 3, 2)
    assert same
    assert found.inputs.limits.deep_cap == 2
    spent = [row for row, why in enumerate(whys(after)) if why is Decision.CAP_CONNECTOR_DAY]
    assert len(spent) == 6  # the day has too little left for them
    assert numbers_of(told(after, spent[0])) == (CALLS, 1, 3)


async def test_a_stopped_vendor_leaves_shallow_looks_and_the_reason_they_are_not_deep(anywhere):
    clock = Days()
    async with anywhere(companies=5, clock=clock) as house:
        await house.night(limit=3)
        await house.sweep()
        clock.proceed = timedelta(days=40)
        free = await planned(house.app)
        now = clock.now()
        await house.app.backend.shared().stop("lusha", reason="the bill", now=now)
        before = house.charged()
        run = await house.pull()
        same, found = await kept_alike(house, run)
        stopped = await planned(house.app)
        after, units = house.charged(), await house.units(run)

    assert free.plan.depth.tolist().count(DEEP) >= 2
    assert sorted(found.decisions.depth.tolist()) == [NOT, NOT, SHALLOW, SHALLOW, SHALLOW]
    never = [row for row, depth in enumerate(found.decisions.depth.tolist()) if depth == NOT]
    assert {Decision(int(found.decisions.why[row])) for row in never} == {Decision.PAUSED}
    assert same
    assert after.get("lusha") == before.get("lusha")
    assert {unit.depth for unit in units} == {Depth.SHALLOW}
    assert run.manifest.counts["selected"] == 3
    [because] = list_active_constraints(stopped)
    assert (because.why, because.connector, because.stop_text) == (
        Decision.PAUSED,
        "lusha",
        "the bill",
    )


async def test_a_stop_of_an_unneeded_connector_or_another_tenant_blocks_nothing(here):
    async with here(companies=3) as house:
        await met(house)
        now = house.app.clock.now()
        await house.store().budgets.stop("odoo", reason="", now=now)
        crm = await planned(house.app)
        other = house.app.backend.tenant("bolt")
        await other.budgets.stop("", reason="", now=now)
        others = await planned(house.app)
        await house.store().budgets.stop("crawl", reason="", now=now)
        own = await planned(house.app)
    for each in (crm, others):
        assert set(whys(each)) <= set(CHOSEN)
    assert set(whys(own)) == {Decision.PAUSED}
    assert not to_work_items(own)


async def test_a_vendor_that_answers_later_is_left_alone_by_every_process(anywhere):
    async with anywhere(companies=4, dials=LATER) as house:
        await house.night(limit=1)
        await house.sweep()
        async with open_app(house.app.settings) as other:
            pulls = await planned(other)
    refused = [row for row, why in enumerate(whys(pulls)) if why is Decision.COOLING_DOWN]
    assert len(refused) >= 3
    found = told(pulls, refused[0])
    assert found.constraint.connector == "tavily"
    assert timedelta(minutes=25) < found.constraint.until - pulls.at <= timedelta(minutes=30)


async def test_a_rate_too_slow_for_so_many_looks_refuses_the_rest_until_the_time_is_over(anywhere):
    slow = {
        "STOKER_OPENAI_CALLS": "2",
        "STOKER_OPENAI_BURST": "1",
        "STOKER_OPENAI_PER_S": "7200",
        "STOKER_SCHEDULING_DEADLINE_MINUTES": "125",
    }

    async with anywhere(companies=6, more_environment=slow) as house:
        await met(house)
        job = PlanJob(planner=PullPlanner(house.app.for_tenant(ACME)))
        run = await run_now(house.app.for_tenant(ACME), job)
        pulls = job.get_planned(run).pulls
        same, found = await kept_alike(house, run)
    assert whys(pulls).count(Decision.RATE_LIMIT) == 3  # three readings in 125 minutes, 0.8 a look
    assert same
    explained = told(pulls, whys(pulls).index(Decision.RATE_LIMIT))
    assert (explained.constraint.had, explained.constraint.looks) == (3, 3)
    assert explained.constraint.until - pulls.at == timedelta(minutes=125)
    assert found.inputs.constraints == pulls.inputs.constraints


async def test_a_connectors_own_cap_is_reported_apart_from_the_tenants(here):
    async with here(companies=4) as house:
        await met(house)
        await house.limit(LOOKS, 7)
        pulls = await planned(house.app)
    assert whys(pulls).count(Decision.CAP_CONNECTOR_DAY) == 2
    row = whys(pulls).index(Decision.CAP_CONNECTOR_DAY)
    assert numbers_of(told(pulls, row)) == (LOOKS, 7, 7)
    assert pulls.plan.spent == 6
    assert pulls.inputs.limits.budget > 7


async def test_money_of_the_tenant_is_the_tenants_cap_and_a_cap_of_nothing_means_going_without(
    here,
):
    async with here(companies=4) as house:
        await met(house)
        await house.limit(MONEY, 1)
        money = await planned(house.app)
        await house.limit(MONEY, 10_000)
        await house.limit(CALLS, 0)
        without = await planned(house.app)
    assert whys(money).count(Decision.CAP_TENANT_DAY) == 3  # a cent is reserved for a reading
    row = whys(money).index(Decision.CAP_TENANT_DAY)
    assert numbers_of(told(money, row)) == (MONEY, 1, 1)
    assert set(whys(without)) <= set(CHOSEN)
    assert not any(each.connector == "tavily" for each in without.inputs.constraints)
