"""Several nights of one day: who is taken over, who is chosen anew, and what a look may cost."""

from datetime import timedelta

import pytest

from night_house import ACME, ANYBODY, house
from stoker.accounts.icp import IcpRule
from stoker.base.types import Step
from stoker.budgets.caps import CapChange
from stoker.enrichment.model import WorkState
from stoker.runs.model import PROCESS_DIED, Run, RunKey, RunState

TAVILY = "tenant_connector/tavily/calls/day"
TOKENS = "tenant_connector/openai/tokens/day"
PULLS = "tenant/*/pull_units/day"
TO_SELECT = (Step.REFRESH, Step.CANDIDATES, Step.SELECT)


@pytest.fixture(params=["memory", "sqlite"])
def at(request, tmp_path):
    """Opens an installation on a store of this kind."""

    def opening(**how):
        return house(tmp_path, backend=request.param, **{"troubles": False, **how})

    return opening


async def limited(house, cap, limit):
    now = house.app.clock.now()
    await house.store().money.change_cap(CapChange(cap=cap, limit=limit), now=now)


async def planned(house, **how):
    told = {"clock": house.app.clock, "observer": house.app.observer}
    return await house.app.build_nightly_run(ACME, **how).plan(house.store(), **told)


async def looked_at(house):
    known = await house.store().accounts.list_company_records(limit=1000)
    return {each.company.id for each in known if each.looked_at is not None}


@pytest.mark.parametrize("step", [Step.SCORE, Step.VERIFY])
async def test_who_does_not_look_leaves_the_unlooked_to_who_does(at, step):
    async with at(companies=4) as house:
        chosen = await house.night(steps=TO_SELECT)
        idle = await house.night(steps=(step,))
        exporting = await house.night(steps=(Step.EXPORT,))
        chosen, idle, exporting, whole = chosen, idle, exporting, await house.night()

    assert (chosen.manifest.counts["selected"], idle.manifest.selected) == (4, ())
    assert "--from-manifest" in idle.reason
    assert exporting.manifest.counts["crm_written"] == 0
    assert set(whole.manifest.selected) == set(chosen.manifest.selected)
    assert whole.manifest.counts["units_done"] == 4


async def test_who_was_never_looked_at_is_not_scored_even_if_it_is_named(at):
    async with at(companies=3) as house:
        chosen = await house.night(steps=TO_SELECT)
        scoring = await house.night(steps=(Step.SCORE, Step.EXPORT), from_run=chosen.name)
        scoring, units, looked = scoring, await house.units(scoring), await looked_at(house)

    assert scoring.state is RunState.PARTIAL
    assert {unit.state for unit in units} == {WorkState.FAILED}
    assert "never looked up" in units[0].reasons[0]
    assert (scoring.manifest.counts["crm_written"], looked) == (0, set())


async def test_a_night_that_lacks_what_no_look_makes_good_is_followed_by_a_new_choice(at):
    async with at(companies=5, dials={"odoo.status": 503}) as house:
        first = await house.night(limit=2)
        house.box.faults.set_value("odoo.status", 0)
        first, second = first, await house.night()

    assert (first.state, first.manifest.counts["units_done"]) == (RunState.PARTIAL, 2)
    assert second.state is RunState.DONE
    assert len(second.manifest.selected) == 3
    assert not set(second.manifest.selected) & set(first.manifest.selected)


async def test_the_days_cap_counts_whoever_was_looked_at_whatever_the_rule_says_now(at):
    async with at(companies=6, more="scheduling.daily_cap_per_tenant = 3") as house:
        await house.night(limit=2)
        accounts = house.store().accounts
        nobody = IcpRule(industries=("99999",), employees=(0, 10_000), years=(1900, 2100))
        await accounts.save_rule(nobody)
        await planned(house)  # nobody is a candidate any more
        await accounts.save_rule(ANYBODY)
        rest = await house.night()
        again = await planned(house, again=True)
        rest, again, looked, after = rest, again, await looked_at(house), await planned(house)

    assert (len(rest.manifest.selected), len(looked)) == (1, 3)
    assert {unit.company for unit in again.items} == looked
    assert (after.items, after.over_cap) == ((), 3)
    assert "the day's cap on companies is reached" in after.empty_reason


async def test_a_limit_of_none_says_so_also_when_there_is_something_to_go_on_with(at):
    async with at(companies=3) as house:
        fresh = await planned(house, limit=0)
        await limited(house, TAVILY, 0)
        await house.night()
        fresh, resumed = fresh, await house.night(limit=0)

    assert (
        fresh.empty_reason
        == resumed.reason
        == "no companies were asked for: the night's limit is 0"
    )


async def test_what_is_gone_on_with_is_quoted_at_what_it_still_costs(at):
    async with at(companies=4) as house:
        await limited(house, TOKENS, 0)
        await house.night()
        paid = await planned(house)
        await limited(house, PULLS, 0)
        paid, without = paid, await planned(house)

    assert len(paid.items) == len(without.items) == 4
    assert paid.quote.cost["crawl/pull_units"] == without.quote.cost["crawl/pull_units"] == 0
    assert "crawl" not in without.quote.refused


async def test_what_was_chosen_and_not_begun_is_quoted_as_far_as_pull_units_go(at):
    async with at(companies=4) as house:
        await house.night(steps=TO_SELECT)
        await limited(house, PULLS, 7)
        plan = await planned(house)

    assert len(plan.items) == 4
    assert plan.quote.cost["crawl/pull_units"] == 7  # two deep looks and a shallow one
    assert plan.quote.refused["crawl"] == 1


async def test_a_look_that_can_ask_nobody_costs_nothing_and_says_so(at):
    async with at(companies=3) as house:
        steps = tuple(set(Step) - {Step.EXTRACT, Step.CONTACTS, Step.VERIFY})
        run = await house.night(steps=tuple(sorted(steps, key=list(Step).index)))
        known = await house.store().accounts.list_company_records(limit=1000)
        run, units, charged, known = run, await house.units(run), house.charged(), known

    assert run.manifest.cost == {}
    assert {(each.looked_at, each.score) for each in known} == {(None, None)}
    assert not any(charged.get(name) for name in ("tavily", "openai", "lusha", "zerobounce"))
    assert all("no lookup was paid for" in unit.reasons[0] for unit in units)


async def test_a_limit_in_between_takes_nothing_away_from_what_the_day_left(at):
    async with at(companies=12) as house:
        chosen = await house.night(steps=TO_SELECT, limit=8)
        await limited(house, TAVILY, 0)
        short = await house.night(limit=3)
        await limited(house, TAVILY, 1000)
        chosen, short, plan, rest, after = (
            chosen,
            short,
            await planned(house),
            await house.night(),
            await planned(house),
        )
    everybody = chosen.manifest.selected

    assert short.manifest.selected == everybody[:3]
    assert rest.manifest.selected == tuple(unit.company for unit in plan.items)
    assert rest.manifest.selected == (*everybody[3:], *everybody[:3])
    assert rest.manifest.counts["units_done"] == 8
    assert len(after.items) == 4
    assert not {unit.company for unit in after.items} & {*everybody}


async def test_who_did_without_something_is_made_up_for_whatever_limit_came_in_between(at):
    async with at(companies=6) as house:
        await limited(house, TOKENS, 0)
        first = await house.night()
        await limited(house, TOKENS, 1_000_000)
        first, short, rest, after = (
            first,
            await house.night(limit=2),
            await house.night(),
            await planned(house),
        )

    assert (short.state, rest.state) == (RunState.DONE, RunState.DONE)
    assert (*short.manifest.selected, *rest.manifest.selected) == first.manifest.selected
    assert after.items == ()


async def test_what_is_tried_in_vain_keeps_nobody_else_waiting_and_is_made_good_once_it_can_be(at):
    async with at(companies=6) as house:
        await limited(house, TAVILY, 0)
        first = await house.night(limit=2)
        second = await house.night(limit=2)
        third = await house.night(limit=3)
        await limited(house, TAVILY, 1000)
        first, second, third, fourth, fifth = (
            first,
            second,
            third,
            await house.night(),
            await house.night(),
        )
    vain = first.manifest.selected

    assert second.manifest.selected == vain
    assert not {*third.manifest.selected} & {*vain}
    assert fourth.state is fifth.state is RunState.DONE
    assert fourth.manifest.selected == (*third.manifest.selected, *vain)
    assert len(fifth.manifest.selected) == 1


@pytest.mark.parametrize("cap", [TAVILY, TOKENS])
async def test_others_are_chosen_before_what_was_tried_in_vain(at, cap):
    async with at(companies=5) as house:
        await limited(house, cap, 0)
        first = await house.night(limit=2)
        await house.night()
        first, four, third = first, await planned(house, limit=4), await house.night()
    vain = first.manifest.selected

    assert [unit.rank for unit in four.items] == [0, 1, 2, 3]
    assert [unit.company in vain for unit in four.items] == [False, False, False, True]
    assert third.manifest.selected[3:] == vain
    assert (third.manifest.counts["selected"], third.manifest.counts["candidates"]) == (5, 5)


@pytest.mark.parametrize("named", [False, True])
async def test_taking_over_and_naming_a_run_are_no_way_around_the_cap_of_the_day(at, named):
    async with at(companies=8, more="scheduling.daily_cap_per_tenant = 3") as house:
        first = await house.night(limit=2)
        chosen = await house.night(steps=TO_SELECT)
        how = {"from_run": chosen.name} if named else {}
        plan, rest = await planned(house, **how), await house.night(**how)
        after = await house.night(**how)
        again = await house.night(from_run=first.name, again=True)
        first, chosen, plan, rest, after, again, looked = (
            first,
            chosen,
            plan,
            rest,
            after,
            again,
            await looked_at(house),
        )

    assert len(chosen.manifest.selected) == 3
    assert (len(plan.items), plan.over_cap) == (1, 2)
    assert rest.manifest.selected == chosen.manifest.selected[:1]
    assert "the day's cap on companies is reached" in after.reason or named
    assert (len(looked), looked) == (3, {*first.manifest.selected, *rest.manifest.selected})
    assert again.manifest.selected == first.manifest.selected


async def test_who_was_looked_at_today_is_finished_also_when_the_day_has_no_place_left(at):
    async with at(companies=5, more="scheduling.daily_cap_per_tenant = 3") as house:
        await limited(house, TOKENS, 0)
        first = await house.night()
        await limited(house, TOKENS, 1_000_000)
        first, second, looked = first, await house.night(), await looked_at(house)

    assert (second.state, len(looked)) == (RunState.DONE, 3)
    assert second.manifest.selected == first.manifest.selected


async def test_a_night_that_died_when_all_was_done_is_ended_by_the_next_and_then_others_are_chosen(
    at,
):
    async with at(companies=4) as house:
        first = await house.night(limit=2)
        units = await house.units(first)
        runs, nights = house.store().runs, house.store().nights
        at_once_after = first.at + timedelta(seconds=1)
        died = Run(key=RunKey(at_once_after, first.key.fencing_token), kind=first.kind)
        await runs.insert_run(died)
        await nights.insert_items(died.name, units)
        await runs.finish_run(died.end(RunState.FAILED, at=at_once_after, reason=PROCESS_DIED))
        ending, others = await house.night(), await house.night()

    assert "had left nothing to do" in ending.reason
    assert len(others.manifest.selected) == 2
