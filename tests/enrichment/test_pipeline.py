"""One company's night among others: each fails alone, waits alone, and is written down whole."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from night_house import ACME, house
from stoker.accounts.contacts import choose_best_contact, find_own_mailbox
from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method
from stoker.accounts.model import EmailStatus
from stoker.accounts.websites import get_host
from stoker.base.cancellation import cancel_and_wait
from stoker.base.clock import SystemClock
from stoker.base.errors import ConfigError, TransientError
from stoker.base.events import ConnectorRests, NightProgress
from stoker.base.types import Depth
from stoker.budgets.model import Paid
from stoker.budgets.service import build_budget
from stoker.crawl.service import build_crawler
from stoker.enrichment.model import KIND, WorkState
from stoker.enrichment.runner import build_runner, run_now
from stoker.enrichment.workers import HEARTBEAT_INTERVAL, LEASE_LENGTH, POLL_INTERVAL
from stoker.nightly.plan import Capacity, NightlyPlanner
from stoker.nightly.service import NightlyRun
from stoker.nightly.setup import (
    build_exporter,
    build_nightly_options,
    build_vendors,
)
from stoker.runs.leases import Lease
from stoker.runs.model import Manifest, RunKey, RunState
from stoker.runs.service import RunHandle
from stoker.vendors.zerobounce import build_verifier

BATCHES_WAIT = timedelta(milliseconds=50)


class Desk:
    """A night put together by hand, some of its parts replaced by ones that misbehave."""

    def __init__(
        self,
        house,
        *,
        at_once=8,
        may_take=timedelta(hours=1),
        planning=None,
        again=False,
        exports=None,
        sent_together=50,
        **sources,
    ):
        app = self.app = house.app
        own = app.settings.for_tenant(ACME)
        order = build_nightly_options(own)
        order = replace(
            order,
            concurrency=at_once,
            time_limit=may_take,
            batch_wait=BATCHES_WAIT,
            include_done=again,
            export_batch_size=sent_together,
        )

        async def means(_run=""):
            if planning is not None:
                await planning()
            return Capacity()

        self.store = house.store()
        self.night = NightlyRun(
            app.for_tenant(ACME),
            order,
            planner=NightlyPlanner(order, registry=app.backend.registry(), read_capacity=means),
            vendors=replace(build_vendors(app.for_tenant(ACME)), **sources),
            exporter=exports,
        )

    async def go(self, store=None):
        now = self.app.clock.now().replace(microsecond=0)
        self.run = f"{now:%Y%m%d_%H%M%S}"
        run = RunHandle(
            key=RunKey(now, 1),
            kind=KIND,
            store=store or self.store,
            clock=self.app.clock,
            observer=self.app.observer,
        )
        ending = await self.night(run)
        units = await self.store.work_items.list_items(self.run)
        return ending, {unit.company: unit for unit in units}


class Visits:
    """Visits sites for real, after doing something first."""

    def __init__(self, real, before):
        self._real, self._before = real, before

    async def visit(self, url, *, known=()):
        await self._before(url)
        return await self._real.visit(url, known=known)


def visits_of(house, before):
    return Visits(house.app.get(build_crawler), before)


async def at(tmp_path, journey, **how):
    async with house(tmp_path, troubles=False, **{"companies": 5, **how}) as here:
        return await journey(here)


async def test_a_company_nobody_can_work_on_fails_alone_and_says_why(tmp_path):
    async def journey(house):
        calls = Counter()

        async def brittle(pages, *, excerpts=()):
            calls["plain"] += 1
            if calls["plain"] == 2:
                raise RecursionError("too deep")
            real = build_vendors(house.app.for_tenant(ACME))
            return await real.extract_facts(pages, excerpts=excerpts)

        desk = Desk(house, extract_facts=brittle, at_once=1)
        first = await run_now(house.app.for_tenant(ACME), desk.night)
        units = await house.units(first)
        return first, {unit.company: unit for unit in units}, await house.night()

    ending, units, again = await at(tmp_path, journey)

    states = Counter(unit.state for unit in units.values())
    assert states == {WorkState.DONE: 4, WorkState.FAILED: 1}
    [bad] = [unit for unit in units.values() if unit.state is WorkState.FAILED]
    assert bad.reasons == ("internal error: RecursionError: too deep",)
    assert ending.state is RunState.PARTIAL
    assert "1 of 5 companies failed" in ending.reason
    assert again.manifest.selected == (bad.company,)  # whoever runs it again has mended something
    assert again.state is RunState.DONE


async def test_a_slow_site_holds_up_nobody_else(tmp_path):
    async def journey(house):
        others, seen = asyncio.Event(), []

        async def first_waits_for_all(url):
            seen.append(url)
            if len(seen) == 5:
                others.set()
            if len(seen) == 1:
                await asyncio.wait_for(others.wait(), 120)

        return await Desk(house, crawler=visits_of(house, first_waits_for_all), at_once=2).go()

    _, units = await at(tmp_path, journey)
    assert {unit.state for unit in units.values()} == {WorkState.DONE}


class SeenExports:
    """The real export, and it says when something was sent."""

    def __init__(self, house):
        self._exporter = build_exporter(house.app.for_tenant(ACME))
        self.first, self.sent = [], asyncio.Event()

    def __call__(self, run):
        self.run = run
        self._real = self._exporter(run)
        self.get_result = self._real.get_result
        return self

    async def send(self, companies):
        await self._real.send(companies)
        self.first.extend(companies)
        self.sent.set()

    async def flush(self, **how):
        return await self._real.flush(**how)


async def test_a_slow_site_does_not_keep_the_others_results_from_the_crm(tmp_path):
    async def journey(house):
        slow, seen = [], SeenExports(house)

        async def until_something_was_sent(url):
            if not slow:
                slow.append(url)
            if url == slow[0]:
                await seen.sent.wait()

        visits = visits_of(house, until_something_was_sent)
        desk = Desk(house, crawler=visits, exports=seen, at_once=3, sent_together=2)
        return *await desk.go(), seen.first

    ending, units, first = await at(tmp_path, journey)
    assert {unit.state for unit in units.values()} == {WorkState.DONE}
    assert len(set(first)) >= 2
    assert ending.counts["crm_written"] > 5
    assert ending.counts["crm_same"] == 0


async def settled_under(store, run):
    """What the ledger says was settled under a run, entry by entry."""
    found = Counter()
    for entry in await store.ledger.list_entries(limit=10_000):
        if entry.kind == "SETTLED" and entry.data.get("run") == run:
            for unit, amount in entry.data["actual"].items():
                found[f"{entry.data['connector']}/{unit}"] += amount
    return found


async def test_a_whole_night_cost_what_its_units_did_and_what_the_ledger_says(tmp_path):
    async def journey(house):
        ended = await house.night()
        return ended, await house.units(ended), await settled_under(house.store(), ended.name)

    ended, units, settled = await at(tmp_path, journey)
    by_units = Counter()
    for unit in units:
        by_units.update(unit.cost)
    assert by_units["crawl/pull_units"] > 0
    assert ended.manifest.cost == settled
    assert +Counter(ended.manifest.cost) == +by_units


async def test_a_night_that_is_asked_to_stop_says_what_it_spent_and_wrote_by_then(tmp_path):
    async def journey(house):
        slow, seen = [], SeenExports(house)

        async def stopped_once_something_was_sent(url):
            if not slow:
                slow.append(url)
            if url == slow[0]:
                await seen.sent.wait()
                seen.run.stop_accepting_work()

        visits = visits_of(house, stopped_once_something_was_sent)
        desk = Desk(house, crawler=visits, exports=seen, at_once=3, sent_together=2)
        ending, units = await desk.go()
        rows = await house.store().crm.list_sent_rows(desk.run)
        return ending, units, rows, await settled_under(house.store(), desk.run)

    ending, units, rows, settled = await at(tmp_path, journey)
    by_units = Counter()
    for unit in units.values():
        by_units.update(unit.cost)
    assert ending.state is RunState.PARTIAL
    assert "records may wait for the CRM" in ending.reason
    assert ending.counts["crm_written"] == len(rows) > 0
    assert ending.cost == settled
    # The one under way was paid for, though no unit says so.
    assert ending.cost["crawl/pull_units"] > by_units["crawl/pull_units"]


async def test_a_night_that_is_cut_off_says_what_it_spent_and_wrote_and_how_many_were_through(
    tmp_path,
):
    async def journey(house):
        seen, slow = SeenExports(house), []

        async def the_first_never_ends(url):
            if not slow:
                slow.append(url)
            if url == slow[0]:
                await asyncio.Event().wait()

        visits = visits_of(house, the_first_never_ends)
        desk = Desk(house, crawler=visits, exports=seen, at_once=2, sent_together=2)
        store, app = house.store(), house.app
        lease = Lease(name="run", owner="me", fencing_token=1, heartbeat=1, until=app.clock.now())
        runner = build_runner(app)
        begun = await runner.start_run(store, lease, kind=KIND, manifest=Manifest())
        doing = asyncio.ensure_future(runner.execute(store, begun, desk.night))
        await seen.sent.wait()
        await cancel_and_wait(doing, at_once=True)
        run = await store.runs.find_run(begun.at)
        rows = await house.store().crm.list_sent_rows(run.name)
        return run, rows, await settled_under(house.store(), run.name)

    run, rows, settled = await at(tmp_path, journey)
    counts, steps = run.manifest.counts, {step.step: step for step in run.manifest.steps}
    assert (run.state, run.reason) == (RunState.CANCELLED, "stopped before it was finished")
    assert run.manifest.cost == settled
    assert (counts["selected"], counts["candidates"]) == (5, 5)
    assert counts["crm_written"] + counts.get("crm_unknown", 0) == len(rows)
    assert counts["crm_written"] > 0
    assert steps["companies"].items >= 2
    assert len(run.manifest.remaining) == 5 - steps["companies"].items


async def test_who_waits_for_a_verdict_holds_no_place(tmp_path):
    async def journey(house):
        everybody, seen = asyncio.Event(), []

        async def noted(url):
            seen.append(url)
            if len(seen) == 5:
                everybody.set()

        class Late:
            """Verifies nobody before every site was visited."""

            name = "zerobounce"

            def __init__(self):
                self._real = build_verifier(house.app.for_tenant(ACME))
                self.price = self._real.price

            async def ask(self, question, *, key):
                await asyncio.wait_for(everybody.wait(), 120)
                done = await self._real.ask(question, key=key)
                return Paid(answer=done.answer, cost=done.cost)

            async def check(self):
                return await self._real.check()

        return await Desk(house, crawler=visits_of(house, noted), verifier=Late(), at_once=1).go()

    _, units = await at(tmp_path, journey)
    assert {unit.state for unit in units.values()} == {WorkState.DONE}


class Sleeper(SystemClock):
    """The machine's clock, and it can be told how long the machine was held still."""

    still = timedelta(0)

    def now(self):
        return super().now() + self.still

    def elapsed(self):
        return super().elapsed() + self.still

    async def sleep_on(self, _=None):
        self.still = LEASE_LENGTH + timedelta(seconds=1)


async def test_who_was_held_still_for_longer_than_its_lease_begins_and_pays_nothing_more(tmp_path):
    clock = Sleeper()

    async def journey(house):
        desk = Desk(house, at_once=1, crawler=visits_of(house, clock.sleep_on))
        ending, units = await desk.go()
        return ending, units, house.charged(), await desk.store.accounts.list_company_records()

    ending, units, charged, known = await at(tmp_path, journey, clock=clock)
    assert (ending.state, known) == (RunState.PARTIAL, [])
    assert {unit.state for unit in units.values()} == {WorkState.WAITING}
    assert "held still" in ending.reason
    assert set(charged) == {"tavily"}
    assert charged["tavily"]["credits"] == 1  # what led to the first site


async def test_who_was_held_still_while_choosing_leaves_the_night_to_others(tmp_path):
    clock = Sleeper()

    async def journey(house):
        desk = Desk(house, planning=clock.sleep_on)
        return *await desk.go(), house.charged()

    ending, units, charged = await at(tmp_path, journey, clock=clock)
    assert (ending.state, units, charged) == (RunState.CANCELLED, {}, {})
    assert "held still" in ending.reason


@pytest.mark.parametrize("at_once", [1, 3])
async def test_no_more_companies_are_visited_at_once_than_there_are_places(tmp_path, at_once):
    async def journey(house):
        real, here, most = house.app.get(build_crawler), Counter(), []

        class Counting:
            async def visit(self, url, *, known=()):
                here["now"] += 1
                most.append(here["now"])
                try:
                    return await real.visit(url, known=known)
                finally:
                    here["now"] -= 1

        await Desk(house, crawler=Counting(), at_once=at_once).go()
        return max(most)

    assert await at(tmp_path, journey) <= at_once


async def test_an_answer_that_was_lost_after_it_was_charged_is_not_bought_again_the_same_day(
    tmp_path,
):
    clock = SkippingClock()

    async def journey(house):
        house.box.faults.set_value("tavily.fault.close", 1)
        desk = Desk(house, again=True)
        ending, units = await desk.go()
        house.box.faults.set_value("tavily.fault.close", 0)
        charged = house.charged()["tavily"]["credits"]
        await asyncio.sleep(1.1)  # runs are named by the second
        _, later = await desk.go()
        charged_then = house.charged()["tavily"]["credits"]
        clock.passed = timedelta(days=2)
        _, anew = await desk.go()
        return ending, units, charged, later, charged_then, anew

    ending, units, charged, later, charged_then, anew = await at(
        tmp_path, journey, companies=3, clock=clock
    )

    assert {unit.state for unit in units.values()} == {WorkState.UNKNOWN}
    assert ending.state is RunState.PARTIAL
    assert charged == charged_then == 3
    assert {unit.state for unit in later.values()} == {WorkState.UNKNOWN}
    assert all("is called again after" in unit.reasons[0] for unit in later.values())
    assert {unit.state for unit in anew.values()} == {WorkState.DONE}
    assert all("tavily was called again" in unit.reasons[0] for unit in anew.values())


class Silent:
    """Visits sites on which nobody can be written to."""

    def __init__(self, house):
        self._real = house.app.get(build_crawler)

    async def visit(self, url, *, known=()):
        return replace(await self._real.visit(url, known=known), facts=())


def silent_desk(house, **how):
    """A night whose companies' sites name nobody."""

    async def nothing(pages, *, excerpts=()):
        return ExtractedFacts(facts=())

    return Desk(house, crawler=Silent(house), extract_facts=nothing, llm=None, **how)


async def test_people_are_asked_for_where_pages_give_only_a_mailbox(tmp_path):
    async def journey(house):
        async def mailbox_only(pages, *, excerpts=()):
            mailboxes = [
                Fact.build(
                    FactField.EMAIL,
                    f"info@{get_host(page.url)}",
                    source=page.url,
                    how=Method.LINK,
                    confidence=0.9,
                )
                for page in pages
            ]
            return ExtractedFacts(facts=tuple(mailboxes))

        desk = Desk(house, crawler=Silent(house), extract_facts=mailbox_only, llm=None)
        ending, _ = await desk.go()
        return ending, await house.store().accounts.list_company_records()

    ending, known = await at(tmp_path, journey, companies=2)

    assert ending.cost["lusha/calls"] == 4
    assert all(find_own_mailbox(record).email.startswith("info@") for record in known)
    assert all(choose_best_contact(record).source == "lusha" for record in known)


async def test_people_are_asked_for_only_where_pages_name_no_address(tmp_path):
    async def journey(house):
        await Desk(house).go()
        return house.charged()

    async def silent_journey(house):
        ending, _ = await silent_desk(house).go()
        return ending, await house.store().accounts.list_company_records(), house.charged()

    talking = await at(tmp_path, journey, companies=2)
    (tmp_path / "silent").mkdir()
    ending, known, charged = await at(tmp_path / "silent", silent_journey, companies=2)

    assert "lusha" not in talking
    assert charged["lusha"]["credits"] >= 2
    assert ending.cost["lusha/calls"] == 4  # who there is, then their addresses
    people = [contact for dossier in known for contact in dossier.contacts]
    assert people
    assert {contact.source for contact in people} == {"lusha"}
    assert all(contact.name and contact.email for contact in people)


class Flaky:
    """A part of a store that fails so often before it does what it is asked."""

    def __init__(self, part, verb, times, error=TransientError):
        self._part, self._verb, self._left, self._build_error = part, verb, times, error

    def __getattr__(self, verb):
        if verb == self._verb and self._left:
            self._left -= 1
            raise self._build_error("the store is away")
        return getattr(self._part, verb)


async def test_a_store_that_is_away_for_a_moment_costs_no_company(tmp_path):
    async def journey(house):
        desk = Desk(house, at_once=1)
        store = replace(desk.store, work_items=Flaky(desk.store.work_items, "finish_item", 2))
        ending, units = await desk.go(store)
        return ending, units, house.charged()

    ending, units, charged = await at(tmp_path, journey, companies=2)

    assert {unit.state for unit in units.values()} == {WorkState.DONE}
    assert charged["tavily"]["credits"] == 2
    assert ending.state is RunState.DONE


async def test_one_failed_reservation_of_a_lookup_does_not_end_the_night(tmp_path):
    async def journey(house):
        desk = Desk(house, at_once=1)
        gate = await house.app.for_tenant(ACME).open(build_budget)
        gate._money = Flaky(gate._money, "reserve", 1)
        ending, units = await desk.go()
        return ending, units

    ending, units = await at(tmp_path, journey, companies=2)

    assert {unit.state for unit in units.values()} == {WorkState.DONE}
    assert ending.state is RunState.DONE


async def test_a_store_that_stays_away_ends_the_night_and_leaves_its_units_to_the_next(tmp_path):
    async def journey(house):
        desk = Desk(house, at_once=2)
        gone = Flaky(desk.store.work_items, "finish_item", 1000, ConfigError)
        with pytest.raises(ConfigError, match="away"):
            await desk.go(replace(desk.store, work_items=gone))
        return await desk.store.work_items.count_items(desk.run)

    assert await at(tmp_path, journey, companies=3) == {WorkState.WAITING: 3}


async def test_a_night_without_any_key_still_reads_sites_it_knows(tmp_path):
    async def journey(house):
        nobody = dict.fromkeys(("search", "llm", "people", "reveal", "verifier"))
        return await Desk(house, **nobody).go(), house.charged()

    (ending, units), charged = await at(tmp_path, journey, companies=2)

    assert charged == {}
    assert {unit.state for unit in units.values()} == {WorkState.DONE}
    assert any("no key is set" in reason for reason in ending.reasons)


class SkippingClock(SystemClock):
    """The machine's clock, until somebody lets time pass."""

    passed = timedelta(0)

    def now(self):
        return super().now() + self.passed

    async def sleep(self, duration):
        # Signs of life are shown whenever time is let pass.
        quick = timedelta(milliseconds=1)
        await super().sleep(quick if duration == HEARTBEAT_INTERVAL else duration)


class HurriedClock(SkippingClock):
    """The same, with waits that are forty times shorter."""

    async def sleep(self, duration):
        await super().sleep(duration if duration == HEARTBEAT_INTERVAL else duration / 40)


async def test_a_long_planning_does_not_make_companies_look_slow(tmp_path):
    clock = HurriedClock()

    async def takes_long():
        for _ in range(150):
            clock.passed += timedelta(seconds=20)
            await asyncio.sleep(0.005)

    async def journey(house):
        visited = []

        def told():
            return [each for each in house.told.of_type(NightProgress) if each.ended]

        async def until_the_watch_has_looked(url):
            visited.append(url)
            while len(visited) > 1 and not told():  # a recorder rings no bell
                await asyncio.sleep(0.05)

        visits = visits_of(house, until_the_watch_has_looked)
        await Desk(house, crawler=visits, at_once=1, planning=takes_long).go()
        return told()[0]

    progress = await at(tmp_path, journey, clock=clock)

    # One of five is done in seconds; an hour has room for the others, fifty minutes of it gone.
    assert not progress.late


class Ahead(SystemClock):
    """The machine's clock, as far ahead as wanted."""

    proceed = timedelta(0)

    def now(self):
        return super().now() + self.proceed


class AtDepth:
    """Plans as planned, but all looks at one depth."""

    def __init__(self, real, depth):
        self._real, self._depth = real, depth

    async def plan(self, run):
        plan = await self._real.plan(run)
        units = tuple(replace(unit, depth=self._depth) for unit in plan.items)
        return replace(plan, items=units, count_by_depth=Counter(unit.depth for unit in units))


async def test_what_a_shallow_look_only_saw_is_read_by_the_next_deep_one_and_only_then(tmp_path):
    async def journey(house):
        clock, costs = house.app.clock, []
        for depth in (None, Depth.SHALLOW, Depth.DEEP, Depth.DEEP):
            desk = Desk(house, again=True)
            if depth is None:  # nobody is looked at; but then their sites are known
                run = RunHandle(
                    key=RunKey(clock.now().replace(microsecond=0), 1),
                    kind=KIND,
                    store=desk.store,
                    clock=clock,
                    observer=house.app.observer,
                )
                await desk.night._planner.plan(run)
                companies = [
                    replace(each, website=f"http://{house.box.world.find_by_uen(each.id).domain}/")
                    for each in await desk.store.accounts.list_companies()
                ]
                await desk.store.accounts.upsert_companies(companies, now=clock.now())
                continue
            desk.night._planner = AtDepth(desk.night._planner, depth)
            ending, _ = await desk.go()
            costs.append(ending.cost)
            clock.proceed += timedelta(seconds=2)  # a run is named by its second
        return costs

    shallow, deep, again = await at(tmp_path, journey, clock=Ahead(), companies=4)

    assert set(shallow) == {"crawl/pull_units"}
    assert deep["openai/calls"] == 4
    assert "openai/calls" not in again


async def test_whom_a_shallow_look_finds_because_it_was_owed_is_verified_too(tmp_path):
    async def journey(house):
        house.box.faults.set_value("lusha.status", 401)
        await silent_desk(house).go()
        owed = [each.notes["owed"] for each in await house.store().accounts.list_company_records()]
        house.box.faults.set_value("lusha.status", 0)
        house.app.clock.proceed = timedelta(days=1)
        desk = silent_desk(house, again=True)
        desk.night._planner = AtDepth(desk.night._planner, Depth.SHALLOW)
        await desk.go()
        return owed, await house.store().accounts.list_company_records()

    owed, known = await at(tmp_path, journey, clock=Ahead(), companies=2)

    assert owed == ["contacts"] * 2
    people = [contact for each in known for contact in each.contacts]
    assert {contact.source for contact in people} == {"lusha"}
    assert all(contact.verdict is not EmailStatus.UNVERIFIED for contact in people if contact.email)


class Watchful(SystemClock):
    """The machine's clock, on which whoever watches looks at once."""

    async def sleep(self, duration):
        await super().sleep(timedelta(milliseconds=1) if duration == POLL_INTERVAL else duration)


async def test_a_night_behind_a_vendor_that_wants_to_be_left_alone_names_it_and_ends_no_sooner(
    tmp_path,
):
    async def journey(house):
        night = asyncio.create_task(Desk(house).go())

        def waiting():
            return [each for each in house.told.of_type(NightProgress) if each.waits_for]

        while not (told := waiting()):  # a recorder rings no bell
            await asyncio.sleep(0.01)
        night.cancel()
        await asyncio.gather(night, return_exceptions=True)
        return told[-1], house.told.of_type(ConnectorRests)

    progress, rests = await at(
        tmp_path, journey, clock=Watchful(), dials={"zerobounce.status": 429}, companies=3
    )

    [event] = rests  # once for all companies
    assert (event.connector, event.until - event.at) == ("zerobounce", timedelta(minutes=10))
    assert progress.waits_for == "zerobounce"
    assert abs(progress.waits_until - event.until) < timedelta(minutes=1)
    assert progress.finish == progress.waits_until
    assert not progress.late


class Uncounted:
    """Units of work that nobody can count."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    async def count_items(self, run):
        raise ValueError("there are no numbers")


async def test_a_fault_of_the_watch_stops_nobody_and_is_told(tmp_path):
    async def journey(house):
        desk = Desk(house)
        store = replace(desk.store, work_items=Uncounted(desk.store.work_items))
        return await desk.go(store)

    ending, units = await at(tmp_path, journey, clock=Watchful())

    assert {unit.state for unit in units.values()} == {WorkState.DONE}
    assert any("ValueError: there are no numbers" in reason for reason in ending.reasons)


class StoppedClock(SkippingClock):
    """A clock on which time passes only when a test lets it."""

    def __init__(self):
        super().__init__()
        self._stopped_at = super().now()

    def now(self):
        return self._stopped_at + self.passed


async def test_a_night_that_ends_after_its_deadline_says_how_late_and_because_of_what(tmp_path):
    clock = StoppedClock()

    async def journey(house):
        real = build_verifier(house.app.for_tenant(ACME))

        class Hanging:
            """Answers, after longer than the whole night may take."""

            name, price = real.name, real.price

            async def ask(self, question, *, key):
                while clock.passed < 9 * quarter:
                    clock.passed += quarter
                    await asyncio.sleep(0.005)  # those who watch have their turn
                return await real.ask(question, key=key)

            async def check(self):
                return await real.check()

        quarter, minute = timedelta(seconds=15), timedelta(minutes=1)
        late, _ = await Desk(house, verifier=Hanging(), may_take=minute).go()
        whole, _ = await Desk(house, again=True).go()
        return late, whole

    late, whole = await at(tmp_path, journey, companies=2, clock=clock)

    assert "after its deadline, because 2 companies were still in progress" in late.reason
    assert late.reason.startswith("it ended 1 m 15 s after")
    assert "deadline" not in whole.reason
