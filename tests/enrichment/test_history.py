"""What earlier nights took, and how much of it is believed."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import Company, CompanyId
from stoker.backends.sqlite import MemoryBackend, SqliteBackend
from stoker.base.types import Depth, Step, TenantId
from stoker.enrichment.forecast import (
    ANSWER_LIFETIME,
    MAX_LOOKUPS_PER_NIGHT,
    MAX_NIGHTS,
    LookupKind,
    VendorCapacity,
    VendorNeed,
    add_first_lookup_shares,
    adjust_by_history,
    compute_capacity,
    compute_first_lookup_shares,
    compute_quote,
    list_recent_lookups,
    list_skipped_vendors,
    list_vendors_to_ask,
    measure_usage,
)
from stoker.enrichment.model import KIND, SkippedStep, SkipReason, WorkItem, WorkState
from stoker.enrichment.schema import ITEMS
from stoker.runs.model import Manifest, Run, RunKey, RunState
from stoker.vendors.table import REPEAT_SHARE, VENDOR_STEPS

DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW
FIRST, AGAIN = LookupKind.FIRST, LookupKind.AGAIN
NOW = datetime(2026, 11, 16, tzinfo=UTC)
NEED = VendorNeed(connector="lusha", calls=0.6, cost={"calls": 1, "credits": 1})
BATCH = VendorNeed(connector="zerobounce", calls=0.8, cost={"calls": 100}, batch_size=100)
ALL = frozenset(VENDOR_STEPS)
NO_OPENAI = SkippedStep(step=Step.EXTRACT, cause=SkipReason.REFUSED, connector="openai")
NOT_DEEP = SkippedStep(step=Step.CRAWL, cause=SkipReason.REFUSED, connector="crawl")
_new = count()


def unit(company="", *, depth=DEEP, first=True, lacks=None, **amounts):
    """A unit as it ended: what it cost, as `connector_unit`, and what it first did without."""
    saved = amounts.pop("saved", {})
    return WorkItem(
        company=CompanyId(company or f"new {next(_new)}"),
        rank=0,
        depth=depth,
        is_first=first,
        state=WorkState.DEGRADED if lacks else WorkState.DONE,
        skipped=(lacks,) if lacks else (),
        cost={name.replace("_", "/"): amount for name, amount in amounts.items()},
        saved=saved,
        seconds={Step.CRAWL: 1.0},
        ended_at=NOW,
    )


def night(looks, *, depth=DEEP, **cost):
    """So many looks at companies nobody had looked at, of which each took this much."""
    return [unit(depth=depth, **cost) for _ in range(looks)]


def test_each_night_has_its_average_and_an_odd_one_changes_little():
    nights = [
        night(10, zerobounce_calls=2),
        night(500, zerobounce_calls=90),
        night(30, zerobounce_calls=3) + night(5, depth=SHALLOW, tavily_calls=7),
    ]
    of = measure_usage(nights, "zerobounce")
    assert of[FIRST].per_lookup == {"calls": 3}
    assert (of[FIRST].nights, of[FIRST].evidence) == (3, 10 + MAX_LOOKUPS_PER_NIGHT + 30)
    assert (of[LookupKind.SHALLOW].nights, of[LookupKind.SHALLOW].per_lookup) == (1, {})


def test_without_a_look_of_a_kind_nothing_is_told_of_it():
    assert measure_usage([], "lusha") == {}
    assert list(measure_usage([night(1, lusha_calls=1)], "lusha")) == [FIRST]


def needed(need, nights):
    rooms = {need.connector: VendorCapacity(usage=measure_usage(nights, need.connector))}
    return adjust_by_history({DEEP: [need]}, rooms)


def test_without_history_what_was_expected_stays():
    assert needed(NEED, []) == {DEEP: [NEED]}
    assert compute_quote({DEEP: 10}, {DEEP: [NEED]}, {}, at_once=1).nights == 0


def test_one_night_is_believed_in_part_and_more_nights_more():
    seen = []
    for nights in range(6):
        [need] = needed(NEED, [night(60, lusha_calls=3, lusha_credits=6) for _ in range(nights)])[
            DEEP
        ]
        seen.append(need.calls)
    assert seen == sorted(seen)
    assert 0.6 < seen[1] < 0.9 * 3 < seen[5] < 3
    assert 1 < need.cost["credits"] < 2 * need.cost["calls"]


def test_what_looks_never_take_is_soon_hardly_expected():
    [need] = needed(NEED, [night(60) for _ in range(3)])[DEEP]
    assert 0 < need.calls < 0.1


def test_a_batch_is_learned_in_what_it_holds():
    [need] = needed(BATCH, [night(300, zerobounce_calls=2) for _ in range(5)])[DEEP]
    assert 1.9 < need.calls < 2
    assert need.cost == {"calls": 100}
    told = compute_quote(
        {DEEP: 50}, {DEEP: [need]}, {"zerobounce": VendorCapacity(per_minute=5)}, at_once=8
    )
    assert 95 < told.calls["zerobounce"] <= told.cost["zerobounce/calls"] <= 100
    assert told.p50.total_seconds() < 60  # a hundred addresses are one call, not a hundred


def test_what_caps_refuse_of_a_batch_is_told_in_what_it_holds():
    rooms = {"zerobounce": VendorCapacity(calls_left=0.3)}
    told = compute_quote({DEEP: 100}, {DEEP: [BATCH]}, rooms, at_once=8)
    assert round(told.calls["zerobounce"], 6) == 30
    assert round(told.refused["zerobounce"], 6) == 50


def test_a_shallow_look_needs_what_earlier_ones_took_of_those_a_deep_one_asks():
    nights = [night(20, depth=SHALLOW, lusha_calls=1, tavily_calls=1) for _ in range(2)]
    rooms = {"lusha": VendorCapacity(usage=measure_usage(nights, "lusha"))}
    [need] = adjust_by_history({SHALLOW: [], DEEP: [NEED]}, rooms)[SHALLOW]
    assert need.connector == "lusha"
    assert 0.5 < need.calls < 1


def test_room_is_reckoned_by_what_a_call_takes():
    nights = [night(60, openai_calls=1, openai_tokens=1000) for _ in range(5)]
    rough = compute_capacity("openai", free={"tokens": 60_000}, per_minute=60)
    known = compute_capacity(
        "openai", free={"tokens": 60_000}, per_minute=60, took=measure_usage(nights, "openai")
    )
    assert rough.calls_left < known.calls_left < 60


def test_a_first_look_took_what_kept_answers_saved_it_too():
    resumed = [unit(tavily_calls=1), unit(saved={"tavily/calls": 1})]
    assert measure_usage([resumed], "tavily")[FIRST].per_lookup == {"calls": 1}


def test_a_look_at_whom_others_looked_before_took_only_what_it_cost():
    kept = {"tavily/calls": 1}
    first = [unit("a", tavily_calls=1), unit("b", tavily_calls=1)]
    again = [unit("a", saved=kept), unit("b", first=False, saved=kept)]
    of = measure_usage([again, first], "tavily")
    assert of[FIRST].per_lookup == {"calls": 1}
    assert (of[AGAIN].evidence, of[AGAIN].per_lookup) == (2, {})


def test_who_did_without_a_vendor_teaches_nothing_of_it_nor_of_those_asked_later():
    cut = [
        *(unit(tavily_calls=1, openai_calls=1, zerobounce_calls=3) for _ in range(8)),
        *(unit(tavily_calls=1, lacks=NO_OPENAI, zerobounce_calls=1) for _ in range(22)),
    ]
    looks = {name: measure_usage([cut], name)[FIRST] for name in ("tavily", "openai", "zerobounce")}
    assert [of.per_lookup["calls"] for of in looks.values()] == [1, 1, 3]
    assert [of.evidence for of in looks.values()] == [30, 8, 8]


def test_who_made_up_for_an_earlier_night_teaches_nothing():
    cut = [unit("a", tavily_calls=1, lacks=NO_OPENAI)]
    again = [unit("a", saved={"tavily/calls": 1}, openai_calls=1)]
    assert measure_usage([again, cut], "openai") == {}
    assert measure_usage([again, cut], "tavily")[FIRST].evidence == 1


@pytest.mark.parametrize(
    ("reason", "without"),
    [
        ("crawl: a deep look did not fit into what is left; this one is shallow", ALL),
        ("extract: tavily was not asked: it is full", "tavily openai lusha zerobounce"),
        ("extract: openai was not asked: it is full", "openai lusha zerobounce"),
        ("extract: another process has been asking this", "tavily openai lusha zerobounce"),
        ("contacts: lusha answered 503", "lusha zerobounce"),
        ("verify: zerobounce was not asked: it is full", "zerobounce"),
        ("score: openai was not asked: it is full", "openai"),
        ("something nobody foresaw", ALL),
    ],
)
def test_an_older_row_says_in_its_first_sentence_whom_it_did_without(reason, without):
    written = replace(unit(lacks=NO_OPENAI), reasons=(reason,), reason="never scored; deep")
    values = ITEMS.values(written) | {"skipped": None, "first_lookup": None}
    item = ITEMS.read(list(values.values()))
    expected = ALL if without is ALL else set(without.split())
    assert (list_skipped_vendors(item), item.is_first) == (expected, True)


@pytest.mark.parametrize("vendor", VENDOR_STEPS)
def test_who_did_without_a_vendor_did_without_those_asked_later(vendor):
    names = list(VENDOR_STEPS)
    skipped = SkippedStep(step=VENDOR_STEPS[vendor], cause=SkipReason.LATER, connector=vendor)
    assert list_skipped_vendors(unit(lacks=skipped)) == set(names[names.index(vendor) :])


def anew(last, *, depth=DEEP, later=timedelta(days=1)):
    return list_vendors_to_ask(last, depth=depth, now=NOW + later)


def test_nobody_is_asked_anew_while_answers_are_good():
    assert anew(None) == ALL
    assert anew(unit(tavily_calls=1)) == frozenset()
    assert anew(unit(tavily_calls=1), later=ANSWER_LIFETIME) == ALL


def test_what_was_refused_is_asked_anew_however_deep_the_look_and_what_was_heard_is_not():
    cut = unit(tavily_calls=1, zerobounce_calls=1, lacks=NO_OPENAI)
    assert anew(cut) == anew(cut, depth=SHALLOW) == {"openai", "lusha"}


def test_a_look_that_had_to_be_shallow_is_made_up_for_by_a_deep_one_only():
    cut = unit(lacks=NOT_DEEP)
    assert (anew(cut), anew(cut, depth=SHALLOW)) == (ALL, frozenset())


def test_who_was_chosen_and_never_looked_at_is_asked_as_it_would_have_been():
    waiting = WorkItem(company=CompanyId("c"), rank=0, depth=DEEP, is_first=True)
    assert anew(waiting) == ALL
    assert anew(None, depth=SHALLOW) == frozenset()
    scored = WorkItem(company=CompanyId("c"), rank=0, depth=DEEP)
    assert anew(scored) == frozenset()


def test_tonights_need_lies_where_the_share_of_those_who_ask_anew_puts_it():
    nights = [
        [unit(f"c{n}", first=False) for n in range(30)],
        [unit(f"c{n}", lusha_calls=1) for n in range(30)],
    ]
    took = measure_usage(nights, "lusha")
    needs = {}
    for looks in ([ALL] * 4, [ALL, set(), set(), set()], [set()] * 4):
        share = compute_first_lookup_shares((DEEP, frozenset(asked)) for asked in looks)["lusha"]
        rooms = {"lusha": VendorCapacity(usage=took, first_lookup_shares=share)}
        [need] = adjust_by_history({DEEP: [NEED]}, rooms)[DEEP]
        needs[share[DEEP]] = need.calls
    assert 0.9 * 1 <= needs[1.0] <= 1
    assert needs[0.0] <= REPEAT_SHARE * 0.6
    assert needs[0.25] == pytest.approx(0.25 * needs[1.0] + 0.75 * needs[0.0])


def test_a_shallow_look_that_makes_up_for_a_refusal_needs_what_a_first_one_does():
    rooms = {
        "lusha": VendorCapacity(
            first_lookup_shares=compute_first_lookup_shares([(SHALLOW, frozenset({"lusha"}))])[
                "lusha"
            ]
        )
    }
    [need] = adjust_by_history({SHALLOW: [], DEEP: [NEED]}, rooms)[SHALLOW]
    assert need == NEED


nights_lists = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(list(Depth)), st.integers(0, 9)), max_size=6
)


@given(nights_lists, st.integers(0, 200), st.integers(0, 200))
def test_a_quote_lies_between_what_was_expected_and_what_nights_took(seen, deep, shallow):
    nights = [night(looks, depth=depth, lusha_calls=amount) for looks, depth, amount in seen]
    took = measure_usage(nights, "lusha")
    rooms = {"lusha": VendorCapacity(usage=took)}
    needs = {SHALLOW: [], DEEP: [NEED]}
    told = compute_quote({DEEP: deep, SHALLOW: shallow}, needs, rooms, at_once=1)
    low = high = 0.0
    for kind, looks, prior in ((FIRST, deep, 0.6), (LookupKind.SHALLOW, shallow, 0.0)):
        known = took[kind].per_lookup.get("calls", 0.0) if kind in took else prior
        low, high = low + looks * min(prior, known), high + looks * max(prior, known)
    assert low - 1e-6 <= told.calls.get("lusha", 0.0) <= high + 1e-6
    assert told == compute_quote({DEEP: deep, SHALLOW: shallow}, needs, rooms, at_once=1)
    assert told.nights == max((each.nights for each in took.values()), default=0)


DAY = timedelta(days=1)


async def had(
    store,
    day,
    *,
    looks=3,
    state=RunState.DONE,
    kind=KIND,
    ends=WorkState.DONE,
    step=Step.CRAWL,
    skipped=(),
):
    """Write down a run of so many companies as it would have been."""
    run = Run(key=RunKey(NOW + day * DAY, 1), kind=kind)
    await store.runs.insert_run(run)
    units = [
        WorkItem(company=CompanyId(f"c{place}"), rank=place, depth=Depth.DEEP)
        for place in range(looks)
    ]
    await store.work_items.insert_items(run.name, units)
    until = run.at + DAY
    taken = await store.work_items.claim_items(
        run.name, owner="w", until=until, now=run.at, limit=looks or 1
    )
    for unit in taken:
        spent = {"cost": {"tavily/calls": day}, "seconds": {step.value: 0.5}}
        ended = replace(unit, state=ends, ended_at=run.at, skipped=skipped, **spent)
        assert await store.work_items.finish_item(run.name, ended, None)
    if state is not RunState.RUNNING:
        manifest = Manifest(counts={"selected": looks})
        await store.runs.finish_run(run.end(state, at=until, manifest=manifest))


@pytest.fixture(params=["memory", "sqlite"])
def at_store(request, tmp_path):
    """Run a scenario on a tenant's store."""

    def run(scenario):
        async def whole():
            memory = request.param == "memory"
            backend = MemoryBackend() if memory else SqliteBackend(tmp_path / "stoker.db")
            try:
                await backend.migrate()
                store = backend.tenant(TenantId("acme"))
                companies = [Company(id=CompanyId(f"c{n}"), name=f"C{n}") for n in range(9)]
                await store.accounts.upsert_companies(companies, now=NOW)
                return await scenario(store)
            finally:
                await backend.close()

        return asyncio.run(whole())

    return run


def days(nights):
    return [night[0].cost["tavily/calls"] for night in nights]


def test_only_nights_that_came_to_their_end_and_looked_at_somebody_count(at_store):
    async def scenario(store):
        assert await list_recent_lookups(store) == []
        await had(store, 1)
        await had(store, 2, state=RunState.PARTIAL, ends=WorkState.DEGRADED)
        await had(store, 3, state=RunState.FAILED)
        await had(store, 4, state=RunState.CANCELLED)
        await had(store, 5, looks=0)
        await had(store, 6, ends=WorkState.DROPPED)
        await had(store, 7, kind="pulls")
        await had(store, 9, step=Step.SCORE)
        await had(store, 8, state=RunState.RUNNING)
        return await list_recent_lookups(store)

    nights = at_store(scenario)
    assert days(nights) == [2, 1]
    assert [len(night) for night in nights] == [3, 3]


def test_the_newest_few_are_read_and_those_first_in_their_order(at_store):
    async def scenario(store):
        for day in range(1, MAX_NIGHTS + 3):
            await had(store, day, looks=4)
        return await list_recent_lookups(store, looks=2)

    nights = at_store(scenario)
    assert days(nights) == list(range(MAX_NIGHTS + 2, 2, -1))
    assert [[unit.rank for unit in night] for night in nights] == [[0, 1]] * MAX_NIGHTS


def test_nights_of_one_date_count_as_one_of_the_few(at_store):
    async def several(store):
        for day in range(1, MAX_NIGHTS + 2):
            await had(store, day)
        await had(store, MAX_NIGHTS + 1.2)
        await had(store, MAX_NIGHTS + 1.4)
        return await list_recent_lookups(store)

    assert days(at_store(several)) == [
        MAX_NIGHTS + 1.4,
        MAX_NIGHTS + 1.2,
        *range(MAX_NIGHTS + 1, 1, -1),
    ]


class Counted:
    """A part of a store that counts how often it is called."""

    def __init__(self, part):
        self._part, self.calls = part, 0

    def __getattr__(self, verb):
        self.calls += 1
        return getattr(self._part, verb)


def test_the_last_lookups_of_all_companies_are_read_in_one_call(at_store):
    async def scenario(store):
        await had(store, 1, looks=5)
        items = [
            WorkItem(company=CompanyId(f"c{rank}"), rank=rank, depth=Depth.DEEP)
            for rank in range(9)
        ]
        nights = Counted(store.work_items)
        capacity = {"tavily": VendorCapacity(calls_left=7)}
        await add_first_lookup_shares(replace(store, work_items=nights), items, capacity, now=NOW)
        return nights.calls

    assert at_store(scenario) == 1


def test_who_was_looked_at_lately_does_not_ask_anew_and_who_was_refused_asks_those(at_store):
    refused = SkippedStep(step=Step.CONTACTS, cause=SkipReason.REFUSED, connector="lusha")

    async def scenario(store):
        await had(store, 1, looks=2)
        await had(store, 2, looks=1, ends=WorkState.DEGRADED, skipped=(refused,))
        units = [
            WorkItem(company=CompanyId(f"c{place}"), rank=place, depth=Depth.DEEP)
            for place in range(4)
        ]
        rooms = {name: VendorCapacity(calls_left=7) for name in ("tavily", "lusha")}
        return await add_first_lookup_shares(store, units, rooms, now=NOW + 3 * DAY)

    rooms = at_store(scenario)
    assert {name: room.first_lookup_shares for name, room in rooms.items()} == {
        "tavily": {Depth.DEEP: 2 / 4},
        "lusha": {Depth.DEEP: 3 / 4},
    }
    assert {room.calls_left for room in rooms.values()} == {7}
