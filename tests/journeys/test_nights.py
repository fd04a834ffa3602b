"""Whole nightly runs: settings, a store, production connectors, and the sandbox to ask."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from night_house import ACME, ANYBODY, BOLT, Days
from stoker.accounts.model import EmailStatus
from stoker.base.events import CompanyEnded, NightPlanned
from stoker.base.types import Depth, Step
from stoker.budgets.verify import verify_ledger
from stoker.crawl.model import build_corpus_key
from stoker.enrichment.model import WorkState
from stoker.runs.model import RunState
from stoker.sandbox.world.site_faults import SiteFault

TAVILY = "tenant_connector/tavily/calls/day"
TOKENS = "tenant_connector/openai/tokens/day"
PULLS = "tenant/*/pull_units/day"
VERIFICATIONS = "tenant_connector/zerobounce/calls/day"
TO_SELECT = (Step.REFRESH, Step.CANDIDATES, Step.SELECT)


async def test_two_tenants_have_their_nights_and_know_their_companies_afterwards(anywhere):
    async with anywhere(companies=6, troubles=True) as house:
        runs = await house.nights(ACME, BOLT)
        known = [await house.records(tenant) for tenant in (ACME, BOLT)]
        sound = [await verify_ledger(house.store(tenant)) for tenant in (ACME, BOLT)]

    for run, records in zip(runs, known, strict=True):
        assert run.state is RunState.DONE, run.manifest.reasons
        assert run.manifest.counts["units_done"] == 6
        assert set(run.manifest.selected) == {record.company.id for record in records}
        for record in records:
            truth = house.box.world.find_by_uen(record.company.id)
            assert record.company.website == f"http://{truth.domain}/"
            assert record.score.rationale
            assert any(contact.email for contact in record.contacts)
        troubles = [house.box.world.find_by_uen(each.company.id).trouble for each in records]
        thin = troubles.count(SiteFault.THIN)  # the vendor reads pages about these
        assert thin == 3
        steps = {timing.step for timing in run.manifest.steps}
        assert steps >= {"refresh", "candidates", "select", "crawl", "extract", "score", "export"}
        assert run.manifest.cost["tavily/calls"] == 6 + thin
        assert run.manifest.counts["crm_written"] > 6
    assert [verdict.problems for verdict in sound] == [(), ()]
    assert len(house.told.of_type(CompanyEnded)) == 12
    assert {event.companies for event in house.told.of_type(NightPlanned)} == {6}


def list_unverified(records):
    contacts = [contact for record in records for contact in record.contacts if contact.email]
    return [each.email for each in contacts if each.verdict is EmailStatus.UNVERIFIED]


async def test_a_second_night_on_unchanged_sites_pays_no_vendor(here):
    clock = Days()
    async with here(companies=5, troubles=True, clock=clock) as house:
        await house.night()
        before, paid = await house.records(), house.charged()
        clock.proceed = timedelta(days=1)
        again = await house.night()
        after, paid_then = await house.records(), house.charged()
        clock.proceed = timedelta(days=2)
        third = await house.night()
        last, paid_last = await house.records(), house.charged()

    assert again.state is third.state is RunState.DONE
    for each in (paid, paid_then, paid_last):
        each.pop("odoo")
    # Three addresses a company are verified in a night: the fourth of one was left.
    assert (len(list_unverified(before)), list_unverified(after)) == (1, [])
    paid["zerobounce"]["credits"] += 1
    assert paid_last == paid_then == paid
    assert again.manifest.cost == {
        "crawl/pull_units": 5,
        "zerobounce/calls": 1,
        "zerobounce/credits": 1,
    }
    assert set(third.manifest.cost) == {"crawl/pull_units"}
    for records in (after, last):
        assert [each.facts for each in records] == [each.facts for each in before]
        assert [each.score for each in records] == [each.score for each in before]
    assert again.manifest.counts["crm_written"] == third.manifest.counts["crm_written"] == 0


async def test_a_rerun_on_the_same_day_looks_up_the_rest_unless_again_is_given(here):
    async with here(companies=4, more="scheduling.daily_cap_per_tenant = 3") as house:
        first = await house.night(limit=2)
        rest, empty = await house.night(), await house.night()
        plan = await house.plan()
        again = await house.night(again=True, limit=2)

    selected = first.manifest.selected + rest.manifest.selected
    assert (len(first.manifest.selected), len(set(selected))) == (2, 3)  # the cap is for a day
    assert rest.manifest.counts["looked_at_today"] == 2
    assert (empty.state, empty.manifest.selected) == (RunState.DONE, ())
    assert "stoker nightly --again" in empty.reason
    assert (plan.items, plan.visited_today, plan.over_cap) == ((), 3, 1)
    assert len(again.manifest.selected) == 2


async def test_a_cap_degrades_the_night_and_the_next_run_does_what_was_left(here):
    async with here(companies=6) as house:
        await house.limit(TAVILY, 2)
        first = await house.night()
        charged, items = house.charged()["tavily"]["credits"], await house.units(first)
        await house.limit(TAVILY, 1000)
        second = await house.night()
        known = await house.records()

    assert (first.state, charged) == (RunState.PARTIAL, 2)
    assert any("tavily was not called" in reason for reason in first.manifest.reasons)
    assert first.manifest.resume_at is not None
    degraded = [item for item in items if item.state is WorkState.DEGRADED]
    assert len(degraded) == 4
    assert second.state is RunState.DONE
    assert set(second.manifest.selected) == {item.company for item in degraded}
    assert house.charged()["tavily"]["credits"] == 6
    assert all(record.score is not None for record in known)


async def test_a_stop_lets_nothing_begin_and_resuming_lets_the_night_go_on(here):
    async with here(companies=4) as house:
        money = house.store().budgets
        await money.stop("", reason="the bill", now=house.app.clock.now())
        stopped, charged = await house.night(), house.charged()
        await money.resume("", now=house.app.clock.now())
        resumed = await house.night()

    assert stopped.state is RunState.PARTIAL
    assert len(stopped.manifest.remaining) == 4
    assert any("the bill" in reason for reason in stopped.manifest.reasons)
    assert charged == {}
    assert resumed.state is RunState.DONE
    assert set(resumed.manifest.selected) == set(stopped.manifest.remaining)


@pytest.mark.parametrize("connector", ["", "crawl", "openai"])
async def test_a_night_calls_no_vendor_that_its_plan_had_stopped(here, connector):
    async with here(companies=4) as house:
        now = house.app.clock.now()
        await house.app.backend.shared().stop(connector, reason="the bill", now=now)
        plan, night = await house.plan(), await house.night()

    quoted = {name for name, calls in plan.quote.calls.items() if calls}
    called = {name.partition("/")[0] for name, amount in night.manifest.cost.items() if amount}
    assert called <= quoted
    others = {"crawl", "tavily", "lusha", "zerobounce"}
    assert quoted == (others if connector == "openai" else set())
    assert [stop.connector for stop in plan.stops] == [connector]
    assert plan.quote.refused[connector or "crawl"] == 4


async def test_a_night_cancelled_in_the_middle_goes_on_and_pays_nothing_twice(here):
    async with here(companies=8, at_once=2) as house:
        night = asyncio.create_task(house.night())
        while len(house.told.of_type(CompanyEnded)) < 3 and not night.done():
            await asyncio.sleep(0.01)
        night.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await night
        [stopped] = await house.store().runs.list_runs(kind="nightly")
        again = await house.night()
        items = [*await house.units(stopped), *await house.units(again)]

    assert stopped.state is RunState.CANCELLED
    assert again.state in (RunState.DONE, RunState.PARTIAL)
    ends = (WorkState.DONE, WorkState.UNKNOWN)
    ended = [item.company for item in items if item.state in ends]
    assert sorted(ended) == sorted({item.company for item in items})
    assert len(ended) == 8
    assert house.charged()["tavily"]["credits"] <= 8


async def test_no_more_companies_are_looked_up_than_pull_units_pay_for(here):
    async with here(companies=6) as house:
        await house.limit(PULLS, 7)
        run = await house.night()
        items = await house.units(run)
        await house.limit(PULLS, 100)
        more = await house.night()

    assert (run.state, more.state) == (RunState.PARTIAL, RunState.DONE)
    assert run.manifest.resume_at is not None
    assert [item.depth for item in items] == [Depth.DEEP, Depth.DEEP, Depth.SHALLOW]
    assert run.manifest.cost["crawl/pull_units"] == 6  # the shallow lookup had no vendor to ask
    assert set(run.manifest.selected) & set(more.manifest.selected) == {items[2].company}
    assert len({*run.manifest.selected, *more.manifest.selected}) == 6
    assert run.manifest.counts["over_budget"] == 3


async def test_emails_that_a_cap_left_unverified_are_verified_in_the_next_run(here):
    def count_verified(records):
        contacts = [contact for record in records for contact in record.contacts if contact.email]
        return sum(contact.verdict is not EmailStatus.UNVERIFIED for contact in contacts)

    async with here(companies=2) as house:
        await house.limit(VERIFICATIONS, 1)
        first, before = await house.night(), await house.records()
        await house.limit(VERIFICATIONS, 1000)
        second, after = await house.night(), await house.records()

    assert (first.state, count_verified(before)) == (RunState.PARTIAL, 1)
    assert second.state is RunState.DONE
    assert count_verified(after) > 1


async def test_what_a_vendor_refused_all_night_is_done_in_the_next(here):
    async with here(companies=3, dials={"openai.status": 401}) as house:
        first, before = await house.night(), await house.records()
        house.box.faults.set_value("openai.status", 0)
        second, after = await house.night(), await house.records()

    assert first.state is RunState.PARTIAL
    assert "openai/tokens" not in first.manifest.cost
    # One company has a fourth address, which is left to the next night.
    owed = sorted(record.notes["owed"] for record in before)
    assert owed == ["extract", "extract", "extract,verify"]
    assert len(list_unverified(before)) == 1
    assert second.state is RunState.DONE
    assert second.manifest.cost["openai/calls"] == 3
    assert house.charged()["tavily"]["credits"] == 3  # answered the first time, not paid again
    assert second.manifest.cost["zerobounce/credits"] == 1
    assert [record.notes["owed"] for record in after] == [""] * 3


@pytest.mark.parametrize(("status", "searches", "lookups"), [(401, 1000, 0), (0, 1, 1)])
async def test_a_company_without_a_known_site_costs_no_pull_units(here, status, searches, lookups):
    async with here(companies=4, dials={"tavily.status": status}) as house:
        await house.limit(TAVILY, searches)
        night = await house.night()
        usage = await house.store().budgets.list_usage()
        known = await house.records()

    [units] = [each.used.total for each in usage if each.cap == PULLS]
    assert night.state is RunState.PARTIAL
    assert units == 3 * lookups == night.manifest.cost.get("crawl/pull_units", 0)
    assert sum(each.looked_at is not None for each in known) == lookups
    assert [each.notes["owed"] for each in known].count("extract") == 4 - lookups
    lacking = {each.company.id for each in known if each.notes["owed"]}
    assert set(night.manifest.lacking) == lacking
    assert night.manifest.remaining == ()
    assert night.manifest.caps[TAVILY] == searches
    assert night.manifest.rule == ANYBODY.as_json()


async def test_verifying_and_scoring_alone_pay_no_pull_units(here):
    steps = (Step.SELECT, Step.VERIFY, Step.SCORE)
    async with here(companies=3) as house:
        await house.limit(VERIFICATIONS, 0)
        await house.night()
        before = await house.records()
        await house.limit(VERIFICATIONS, 100)
        await house.limit(PULLS, 0)
        verifying = await house.night(steps=steps)
        scoring = await house.night(steps=(Step.SELECT, Step.SCORE))
        plan, after = await house.plan(steps=steps), await house.records()

    assert verifying.state is scoring.state is RunState.DONE
    assert set(verifying.manifest.cost) == {"zerobounce/calls", "zerobounce/credits"}
    assert scoring.manifest.cost == {}
    assert len(verifying.manifest.selected) == len(scoring.manifest.selected) == 3
    assert "crawl/pull_units" not in plan.quote.cost
    assert [each.looked_at for each in after] == [each.looked_at for each in before]


async def test_skipped_steps_are_neither_taken_nor_quoted(here):
    async with here(companies=3) as house:
        whole = (await house.plan()).quote
        crawl = (await house.plan(steps=(*TO_SELECT, Step.CRAWL))).quote
        steps = tuple(step for step in Step if step not in (Step.VERIFY, Step.EXPORT))
        run = await house.night(steps=steps)

    assert set(whole.calls) == {"crawl", "tavily", "openai", "lusha", "zerobounce"}
    assert whole.cost["crawl/pull_units"] == 9
    assert whole.cost["openai/money:USD"] > 0
    assert (set(crawl.calls), set(crawl.cost)) == ({"crawl"}, {"crawl/pull_units"})
    assert run.state is RunState.DONE
    assert not {"zerobounce", "odoo"} & set(house.charged())


@pytest.mark.parametrize("stored", [True, False])
async def test_page_texts_are_stored_only_if_wanted_and_bounded(here, stored):
    more = f"crawl.persist_corpus = {str(stored).lower()}\nextract.corpus_char_limit = 400"
    async with here(companies=3, more=more) as house:
        run = await house.night()
        keys = [build_corpus_key(company) for company in run.manifest.selected]
        found = await house.store().answers.find_answers(keys)

    assert len(found) == (3 if stored else 0)
    for each in found.values():
        assert 0 < len(each.answer["text"]) <= 400
        assert each.answer["run"] == run.name
        assert each.answer["pages"]


@pytest.mark.parametrize("step", [Step.SCORE, Step.VERIFY])
async def test_a_run_without_lookups_leaves_what_was_selected_to_the_next(here, step):
    async with here(companies=4) as house:
        chosen = await house.night(steps=TO_SELECT)
        idle = await house.night(steps=(step,))
        exporting = await house.night(steps=(Step.EXPORT,))
        whole = await house.night()

    assert (chosen.manifest.counts["selected"], idle.manifest.selected) == (4, ())
    assert "--from-manifest" in idle.reason
    assert exporting.manifest.counts["crm_written"] == 0
    assert set(whole.manifest.selected) == set(chosen.manifest.selected)
    assert whole.manifest.counts["units_done"] == 4


async def test_a_company_never_looked_up_is_not_scored_even_if_a_run_names_it(here):
    async with here(companies=3) as house:
        chosen = await house.night(steps=TO_SELECT)
        scoring = await house.night(steps=(Step.SCORE, Step.EXPORT), from_run=chosen.name)
        items, known = await house.units(scoring), await house.records()

    assert scoring.state is RunState.PARTIAL
    assert {item.state for item in items} == {WorkState.FAILED}
    assert scoring.manifest.counts["crm_written"] == 0
    assert not any(each.looked_at for each in known)


async def test_what_was_left_is_quoted_at_what_it_still_costs_also_during_a_stop(here):
    async with here(companies=4) as house:
        await house.limit(TOKENS, 0)
        night = await house.night()
        paid = await house.plan()
        await house.limit(PULLS, 0)
        without = await house.plan()
        await house.store().budgets.stop("", reason="", now=house.app.clock.now())
        stopped = await house.plan()

    assert len(paid.items) == len(without.items) == 4
    assert paid.quote.cost["crawl/pull_units"] == without.quote.cost["crawl/pull_units"] == 0
    assert "crawl" not in {*without.quote.refused, *stopped.quote.refused}
    assert stopped.resumed_from == night.name
    assert {name for name, calls in stopped.quote.calls.items() if calls} == {"crawl"}


async def test_a_lookup_without_a_vendor_to_ask_costs_nothing(here):
    skipped = {Step.EXTRACT, Step.CONTACTS, Step.VERIFY}
    async with here(companies=3) as house:
        run = await house.night(steps=tuple(step for step in Step if step not in skipped))
        known = await house.records()

    assert run.manifest.cost == {}
    assert {(each.looked_at, each.score) for each in known} == {(None, None)}
    vendors = ("tavily", "openai", "lusha", "zerobounce")
    assert not any(house.charged().get(name) for name in vendors)


async def test_what_failed_twice_waits_behind_others_and_is_done_once_it_can_be(here):
    async with here(companies=6) as house:
        await house.limit(TAVILY, 0)
        first, second = await house.night(limit=2), await house.night(limit=2)
        third = await house.night(limit=3)
        await house.limit(TAVILY, 1000)
        fourth, fifth = await house.night(), await house.night()

    failed = first.manifest.selected
    assert second.manifest.selected == failed
    assert not {*third.manifest.selected} & {*failed}
    assert fourth.state is fifth.state is RunState.DONE
    assert fourth.manifest.selected == (*third.manifest.selected, *failed)
    assert len(fifth.manifest.selected) == 1
