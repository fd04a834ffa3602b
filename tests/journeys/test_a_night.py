"""Whole nights: settings, SQLite, production connectors, and a make-believe internet to ask."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

import pg
from night_house import ACME, ANYBODY, BOLT, Days, house
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import EmailStatus
from stoker.base.events import CompanyEnded, NightPlanned
from stoker.base.types import Depth, Step
from stoker.budgets.caps import CapChange
from stoker.budgets.verify import verify_ledger
from stoker.crawl.page_text import build_corpus_key
from stoker.enrichment.model import WorkState
from stoker.runs.model import RunState

TAVILY = "tenant_connector/tavily/calls/day"
PULLS = "tenant/*/pull_units/day"
VERIFICATIONS = "tenant_connector/zerobounce/calls/day"


@pytest.fixture(params=["memory", "sqlite"])
def at(request, tmp_path):
    """Opens an installation on a store of this kind."""

    def opening(**how):
        return house(tmp_path, backend=request.param, **{"troubles": False, **how})

    return opening


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request, tmp_path):
    """Opens an installation on a store of any kind."""
    environment = {}
    if request.param == "postgres":
        _, app_url = pg.fresh_database(request.getfixturevalue("postgres"))
        environment["STOKER_STORAGE_POSTGRES_URL"] = app_url

    def opening(**how):
        return house(tmp_path, backend=request.param, environment=environment, **how)

    return opening


async def knowledge(house, tenant=ACME):
    return await house.store(tenant).accounts.list_company_records(limit=1000)


async def limited(house, cap, limit, tenant=ACME):
    now = house.app.clock.now()
    await house.store(tenant).money.change_cap(CapChange(cap=cap, limit=limit), now=now)


async def test_two_tenants_have_their_night_and_know_their_companies_afterwards(anywhere):
    async with anywhere(companies=6) as house:
        runs = await house.nights(ACME, BOLT)
        known = [await knowledge(house, tenant) for tenant in (ACME, BOLT)]
        sound = [await verify_ledger(house.store(tenant)) for tenant in (ACME, BOLT)]
        runs, known, sound, world, told = runs, known, sound, house.box.world, house.told

    for run, dossiers in zip(runs, known, strict=True):
        assert run.state is RunState.DONE, run.manifest.reasons
        assert run.manifest.counts["units_done"] == 6
        assert set(run.manifest.selected) == {dossier.company.id for dossier in dossiers}
        for dossier in dossiers:
            truth = world.find_by_uen(dossier.company.id)
            assert dossier.company.website == f"http://{truth.domain}/"
            assert dossier.score is not None
            assert dossier.score.rationale
            assert any(contact.email for contact in dossier.contacts)
        steps = {timing.step for timing in run.manifest.steps}
        assert steps >= {"refresh", "candidates", "select", "crawl", "extract", "score", "export"}
        assert run.manifest.cost["tavily/calls"] == 6
        assert run.manifest.counts["crm_written"] > 6
    assert [verdict.problems for verdict in sound] == [(), ()]
    assert len(told.of_type(CompanyEnded)) == 12
    assert {event.companies for event in told.of_type(NightPlanned)} == {6}


async def test_a_second_night_on_sites_that_did_not_change_pays_nobody(at):
    clock = Days()
    async with at(companies=5, troubles=True, clock=clock) as house:
        await house.night()
        known, paid = await knowledge(house), house.charged()
        clock.proceed = timedelta(days=1)
        again = await house.night()
        again, before, after, paid, paid_then = (
            again,
            known,
            await knowledge(house),
            paid,
            house.charged(),
        )

    assert again.state is RunState.DONE
    paid.pop("odoo"), paid_then.pop("odoo")
    assert paid_then == paid
    assert set(again.manifest.cost) == {"crawl/pull_units"}
    assert [each.facts for each in after] == [each.facts for each in before]
    assert [each.score for each in after] == [each.score for each in before]
    assert again.manifest.counts["crm_written"] == 0


async def test_a_rerun_of_the_same_day_looks_at_nobody_again_unless_it_is_asked_to(at):
    async with at(companies=4, more="scheduling.daily_cap_per_tenant = 3") as house:
        first = await house.night(limit=2)
        rest, nobody = await house.night(), await house.night()
        told = {"clock": house.app.clock, "observer": house.app.observer}
        plan = await house.app.build_nightly_run(ACME).plan(house.store(), **told)
        first, rest, nobody, plan, again = (
            first,
            rest,
            nobody,
            plan,
            await house.night(again=True, limit=2),
        )

    seen = first.manifest.selected + rest.manifest.selected
    assert (len(first.manifest.selected), len(set(seen))) == (2, 3)  # the cap is that of a day
    assert rest.manifest.counts["looked_at_today"] == 2
    assert (nobody.state, nobody.manifest.selected) == (RunState.DONE, ())
    assert "3 of 4 candidates were looked at today" in nobody.reason
    assert "stoker nightly --again" in nobody.reason
    assert (plan.items, plan.visited_today, plan.over_cap) == ((), 3, 1)
    assert len(again.manifest.selected) == 2


async def test_a_cap_degrades_the_night_and_the_next_run_goes_on_where_it_left_off(at):
    async with at(companies=6) as house:
        await limited(house, TAVILY, 2)
        first = await house.night()
        charged = house.charged()["tavily"]["credits"]
        units = await house.units(first)
        await limited(house, TAVILY, 1000)
        second = await house.night()
        first, charged, units, second, charges, known = (
            first,
            charged,
            units,
            second,
            house.charged(),
            await knowledge(house),
        )

    assert (first.state, charged) == (RunState.PARTIAL, 2)
    assert "4 of 6 did without something" in first.reason
    assert any(TAVILY in reason for reason in first.manifest.reasons)
    assert first.manifest.resume_at is not None
    degraded = [unit for unit in units if unit.state is WorkState.DEGRADED]
    assert len(degraded) == 4
    assert second.state is RunState.DONE
    assert set(second.manifest.selected) == {unit.company for unit in degraded}
    assert charges["tavily"]["credits"] == 6
    assert all(dossier.score is not None for dossier in known)


async def test_a_stop_lets_nothing_begin_and_taking_it_back_lets_the_night_go_on(at):
    async with at(companies=4) as house:
        money, now = house.store().money, house.app.clock.now()
        await money.stop("", reason="the bill", now=now)
        stopped = await house.night()
        charged = house.charged()
        await money.resume("", now=house.app.clock.now())
        stopped, charged, resumed = stopped, charged, await house.night()

    assert stopped.state is RunState.PARTIAL
    assert len(stopped.manifest.remaining) == 4
    assert any("the bill" in reason for reason in stopped.manifest.reasons)
    assert charged == {}
    assert resumed.state is RunState.DONE
    assert set(resumed.manifest.selected) == set(stopped.manifest.remaining)


@pytest.mark.parametrize("connector", ["", "crawl", "openai"])
async def test_a_night_takes_none_of_what_its_plan_said_is_stopped(at, connector):
    async with at(companies=4) as house:
        now = house.app.clock.now()
        await house.app.backend.shared().stop(connector, reason="the bill", now=now)
        told = {"clock": house.app.clock, "observer": house.app.observer}
        plan = await house.app.build_nightly_run(ACME).plan(house.store(), **told)
        plan, night = plan, await house.night()

    quoted = {name for name, calls in plan.quote.calls.items() if calls}
    asked = {name.partition("/")[0] for name, amount in night.manifest.cost.items() if amount}
    assert asked <= quoted
    assert quoted == (
        {"crawl", "tavily", "lusha", "zerobounce"} if connector == "openai" else set()
    )
    assert [stop.connector for stop in plan.stops] == [connector]
    assert plan.quote.refused[connector or "crawl"] == 4


async def test_a_plan_of_what_was_left_quotes_looks_that_are_paid_for_in_spite_of_a_stop(at):
    async with at(companies=4) as house:
        await limited(house, "tenant_connector/openai/tokens/day", 0)
        night = await house.night()
        await house.store().money.stop("", reason="", now=house.app.clock.now())
        told = {"clock": house.app.clock, "observer": house.app.observer}
        night, plan = night, await house.app.build_nightly_run(ACME).plan(house.store(), **told)

    assert plan.resumed_from == night.name
    assert plan.quote.calls["crawl"] > 0
    assert "crawl" not in plan.quote.refused
    assert not any(calls for name, calls in plan.quote.calls.items() if name != "crawl")


async def test_a_night_that_was_stopped_in_the_middle_goes_on_and_pays_nothing_twice(at):
    async with at(companies=8, at_once=2) as house:
        night = asyncio.create_task(house.night())
        while len(house.told.of_type(CompanyEnded)) < 3 and not night.done():
            await asyncio.sleep(0.01)
        night.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await night
        [stopped] = await house.store().runs.list_runs(kind="nightly")
        again = await house.night()
        both = [*await house.units(stopped), *await house.units(again)]
        stopped, again, units, charges = stopped, again, both, house.charged()

    assert stopped.state is RunState.CANCELLED
    assert again.state in (RunState.DONE, RunState.PARTIAL)
    ended = [unit.company for unit in units if unit.state is WorkState.DONE]
    unsure = [unit.company for unit in units if unit.state is WorkState.UNKNOWN]
    assert sorted(ended + unsure) == sorted({unit.company for unit in units})
    assert len(ended + unsure) == 8
    assert charges["tavily"]["credits"] <= 8


async def test_no_more_companies_are_looked_at_than_pull_units_pay_for(at):
    async with at(companies=6) as house:
        await limited(house, PULLS, 7)
        run = await house.night()
        await limited(house, PULLS, 100)
        run, units, more = run, await house.units(run), await house.night()

    assert (run.state, more.state) == (RunState.PARTIAL, RunState.DONE)
    assert "3 candidates wait, because no pull units are left" in run.reason
    assert run.manifest.resume_at is not None
    assert [unit.depth for unit in units] == [Depth.DEEP, Depth.DEEP, Depth.SHALLOW]
    assert run.manifest.cost["crawl/pull_units"] == 6  # the shallow look had nobody to ask
    assert set(run.manifest.selected) & set(more.manifest.selected) == {units[2].company}
    assert len({*run.manifest.selected, *more.manifest.selected}) == 6
    assert run.manifest.counts["over_budget"] == 3


async def test_a_tenant_without_a_rule_is_told_so_and_the_others_night_is_whole(at):
    async with at(companies=2, ruled=(ACME,)) as house:
        whole, without = await house.nights(ACME, BOLT)

    assert whole.state is RunState.DONE
    assert without.state is RunState.CANCELLED
    assert "stoker icp set" in without.reason


async def test_addresses_no_money_was_left_for_are_verified_the_next_night(at):
    async with at(companies=2) as house:
        await limited(house, VERIFICATIONS, 1)
        first = await house.night()
        unverified = await knowledge(house)
        await limited(house, VERIFICATIONS, 1000)
        second = await house.night()
        first, before, second, after = first, unverified, second, await knowledge(house)

    def told(dossiers):
        return sum(
            contact.verdict is not EmailStatus.UNVERIFIED
            for dossier in dossiers
            for contact in dossier.contacts
            if contact.email
        )

    assert first.state is RunState.PARTIAL
    assert told(before) == 1
    assert second.state is RunState.DONE
    assert told(after) > 1


async def test_a_vendor_that_refuses_a_night_long_is_made_up_for_in_the_next(at):
    async with at(companies=3, dials={"openai.status": 401}) as house:
        first = await house.night()
        owed = [dossier.notes for dossier in await knowledge(house)]
        house.box.faults.set_value("openai.status", 0)
        second = await house.night()
        first, owed, second, charged, known = (
            first,
            owed,
            second,
            house.charged(),
            await knowledge(house),
        )

    assert first.state is RunState.PARTIAL
    assert "openai/tokens" not in first.manifest.cost
    assert [notes["owed"] for notes in owed] == ["extract"] * 3
    assert second.state is RunState.DONE
    assert second.manifest.cost["openai/calls"] == 3
    assert charged["tavily"]["credits"] == 3  # what was answered the first time is not paid again
    assert [dossier.notes["owed"] for dossier in known] == [""] * 3


@pytest.mark.parametrize(("status", "searches", "looks"), [(401, 1000, 0), (0, 1, 1)])
async def test_who_cannot_be_found_costs_no_look_and_counts_as_not_looked_at(
    at, status, searches, looks
):
    async with at(companies=4, dials={"tavily.status": status}) as house:
        await limited(house, TAVILY, searches)
        night = await house.night()
        used = await house.store().money.list_usage()
        [units] = [use.used.total for use in used if use.cap == PULLS]
        night, units, known = night, units, await knowledge(house)

    assert night.state is RunState.PARTIAL
    assert units == 3 * looks == night.manifest.cost.get("crawl/pull_units", 0)
    assert sum(each.looked_at is not None for each in known) == looks
    assert [each.notes["owed"] for each in known].count("extract") == 4 - looks
    lacking = {each.company.id for each in known if each.notes["owed"]}
    assert set(night.manifest.lacking) == lacking
    assert night.manifest.remaining == ()
    assert night.manifest.caps[TAVILY] == searches
    assert night.manifest.rule == ANYBODY.as_json()


async def test_the_selection_of_an_earlier_run_can_be_repeated_exactly(at):
    async with at(companies=6) as house:
        first = await house.night(limit=3)
        missing = await house.night(from_run=first.name)
        again = await house.night(from_run=first.name, again=True)

    assert len(first.manifest.selected) == 3
    assert missing.manifest.selected == ()
    assert again.manifest.selected == first.manifest.selected


async def test_a_plan_asks_nobody_and_promises_nothing(at):
    async with at(companies=4) as house:
        night = house.app.build_nightly_run(ACME)
        plan = await night.plan(house.store(), clock=house.app.clock, observer=house.app.observer)
        plan, log, usage, charged = (
            plan,
            house.box.log,
            await house.store().money.list_usage(),
            house.charged(),
        )

    assert len(plan.items) == 4
    assert plan.quote.calls["tavily"] == 4
    assert (log, usage, charged) == ([], [], {})


async def test_verifying_and_scoring_alone_are_no_look_and_pay_no_pull_units(at):
    async with at(companies=3) as house:
        await limited(house, VERIFICATIONS, 0)
        await house.night()
        looked = [each.looked_at for each in await knowledge(house)]
        await limited(house, VERIFICATIONS, 100)
        await limited(house, PULLS, 0)
        steps = (Step.SELECT, Step.VERIFY, Step.SCORE)
        verifying = await house.night(steps=steps)
        scoring = await house.night(steps=(Step.SELECT, Step.SCORE))
        told = {"clock": house.app.clock, "observer": house.app.observer}
        plan = await house.app.build_nightly_run(ACME, steps=steps).plan(house.store(), **told)
        looked, verifying, scoring, plan, known = (
            looked,
            verifying,
            scoring,
            plan,
            await knowledge(house),
        )

    assert verifying.state is scoring.state is RunState.DONE
    assert set(verifying.manifest.cost) == {"zerobounce/calls", "zerobounce/credits"}
    assert scoring.manifest.cost == {}
    assert len(verifying.manifest.selected) == len(scoring.manifest.selected) == 3
    assert not {"crawl/pull_units"} & set(plan.quote.cost)
    assert [each.looked_at for each in known] == looked


async def test_steps_that_are_skipped_are_not_taken(at):
    async with at(companies=3) as house:
        steps = tuple(step for step in Step if step not in (Step.VERIFY, Step.EXPORT))
        run = await house.night(steps=steps)
        run, charged = run, house.charged()

    assert run.state is RunState.DONE
    assert not {"zerobounce", "odoo"} & set(charged)


@pytest.mark.parametrize("kept", [True, False])
async def test_what_pages_said_is_kept_only_where_somebody_wants_it_and_bounded(at, kept):
    more = f"crawl.persist_corpus = {str(kept).lower()}\nextract.corpus_char_limit = 400"
    async with at(companies=3, more=more) as house:
        run = await house.night()
        keys = [build_corpus_key(company) for company in run.manifest.selected]
        run, found = run, await house.store().answers.find_answers(keys)

    assert len(found) == (3 if kept else 0)
    for each in found.values():
        assert 0 < len(each.answer["text"]) <= 400
        assert each.answer["run"] == run.name
        assert each.answer["pages"]


async def test_a_limit_holds_for_what_an_earlier_run_left_too(at):
    async with at(companies=5) as house:
        await limited(house, TAVILY, 0)
        first = await house.night()
        first, second = first, await house.night(limit=2)

    assert (first.state, len(first.manifest.selected)) == (RunState.PARTIAL, 5)
    assert second.manifest.selected == first.manifest.selected[:2]
    assert second.manifest.counts["over_cap"] == 3


async def test_a_run_that_only_exports_leaves_what_is_undone_to_the_next(at):
    async with at(companies=3) as house:
        await limited(house, TAVILY, 0)
        first = await house.night()
        exporting = await house.night(steps=(Step.EXPORT,))
        await limited(house, TAVILY, 100)
        first, exporting, last = first, exporting, await house.night()

    assert (exporting.state, exporting.manifest.selected) == (RunState.DONE, ())
    assert last.manifest.selected == first.manifest.selected


async def test_a_night_without_anybody_to_look_at_says_why_and_what_to_do(at):
    async with at(companies=2) as house:
        crawling = await house.night(steps=(Step.CRAWL,))
        nobody_fits = IcpRule(industries=("99999",))
        await house.store().accounts.save_rule(nobody_fits)
        crawling, picky = crawling, await house.night()

    assert "--from-manifest" in crawling.reason
    assert "stoker icp show" in picky.reason


async def test_an_empty_register_is_said_to_be_empty(at):
    async with at(companies=0) as house:
        assert "stoker registry import" in (await house.night()).reason


async def test_a_quote_is_about_the_steps_that_are_taken_and_names_pull_units_and_money(at):
    async with at(companies=4) as house:
        told = {"clock": house.app.clock, "observer": house.app.observer}
        whole = await house.app.build_nightly_run(ACME).plan(house.store(), **told)
        crawl = house.app.build_nightly_run(ACME, steps=(*tuple(Step)[:3], Step.CRAWL))
        whole, crawl = whole.quote, (await crawl.plan(house.store(), **told)).quote

    assert set(whole.calls) == {"crawl", "tavily", "openai", "lusha", "zerobounce"}
    assert whole.cost["crawl/pull_units"] == 12
    assert whole.cost["openai/money:USD"] > 0
    assert (set(crawl.calls), set(crawl.cost)) == ({"crawl"}, {"crawl/pull_units"})
