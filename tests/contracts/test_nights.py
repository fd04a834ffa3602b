"""What every store promises about a night's units of work, and about rows sent to a CRM."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from contracts.accounts import (
    LATER_RUN,
    RUN,
    UNTIL,
    dossier,
    ended,
    planned,
    sent,
    taken,
    unit,
)
from contracts.backends import ACME, UMBRELLA, refused
from contracts.knowledge import HOUR, NOW
from stoker.base.errors import ConfigError, ConflictError
from stoker.base.types import Depth
from stoker.crm.upsert import UNDONE_PREFIX
from stoker.enrichment.model import END_STATES, WorkState


def held(one, owner="w1", until=UNTIL):
    return replace(one, state=WorkState.CLAIMED, owner=owner, claimed_until=until)


async def test_units_come_back_in_their_order_as_planned(store):
    units = [unit(2), unit(0, depth=Depth.SHALLOW), unit(1, company="A", reason="ünï 🙂")]
    assert await store.work_items.insert_items(RUN, units) == 3
    assert await store.work_items.list_items(RUN) == [units[1], units[2], units[0]]
    assert await store.work_items.list_items(RUN, after=0, limit=1) == [units[2]]
    assert await store.work_items.list_items("another") == []
    assert await store.work_items.count_items("another") == {}


async def test_a_unit_already_planned_stays_as_it_is(store):
    await planned(store.work_items, 3)
    [first] = await taken(store.work_items, limit=1)
    again = [unit(0, reason="other"), unit(9, company="T1"), unit(3), unit(4, company="T3")]
    assert await store.work_items.insert_items(RUN, again) == 1
    assert await store.work_items.list_items(RUN) == [first, unit(1), unit(2), unit(3)]
    assert await store.work_items.insert_items(RUN, []) == 0


async def test_the_units_of_a_deleted_run_are_deleted_in_batches(store, backend):
    for run in (LATER_RUN, RUN):
        await planned(store.work_items, 3, run=run)
    await planned(backend.tenant(UMBRELLA).work_items, 1)
    assert await store.work_items.list_item_runs() == [RUN, LATER_RUN]
    assert [await store.work_items.delete_items(RUN, limit=2) for _ in range(3)] == [2, 1, 0]
    assert await store.work_items.list_item_runs() == [LATER_RUN]
    assert len(await store.work_items.list_items(LATER_RUN)) == 3
    assert await backend.tenant(UMBRELLA).work_items.list_item_runs() == [RUN]


async def test_two_units_never_have_one_place(store):
    await planned(store.work_items, 2)
    for clash in ([unit(5), unit(1, company="X")], [unit(5), unit(5, company="X")]):
        await refused(store.work_items.insert_items(RUN, clash), ConflictError)
    await refused(store.work_items.insert_items(RUN, [unit(5), unit(-1)]))
    await refused(store.work_items.insert_items(RUN, [unit(5), unit(2**80)]))
    await refused(store.work_items.insert_items("", [unit(5)]))
    assert len(await store.work_items.list_items(RUN)) == 2
    assert await store.work_items.insert_items(LATER_RUN, [unit(1, company="X")]) == 1


async def test_units_are_taken_in_their_order_each_once(store):
    units = await planned(store.work_items, 5)
    assert await taken(store.work_items, limit=2) == [held(units[0]), held(units[1])]
    assert await taken(store.work_items, owner="w2", limit=2) == [
        held(units[2], "w2"),
        held(units[3], "w2"),
    ]
    assert await taken(store.work_items, limit=0) == []
    assert await taken(store.work_items) == [held(units[4])]
    assert await taken(store.work_items) == []
    assert await taken(store.work_items, run="another") == []
    assert await store.work_items.count_items(RUN) == {WorkState.CLAIMED: 5}


async def test_a_unit_whose_owner_fell_silent_is_taken_by_the_next(store):
    units = await planned(store.work_items, 3)
    await taken(store.work_items, limit=1)
    await taken(store.work_items, limit=1, until=UNTIL + HOUR)
    assert await taken(store.work_items, owner="w2", limit=1, now=UNTIL - HOUR / 60) == [
        held(units[2], "w2")
    ]
    later = UNTIL + 2 * HOUR
    assert await taken(store.work_items, owner="w3", now=UNTIL, until=later) == [
        held(units[0], "w3", later),
        held(units[2], "w3", later),
    ]
    assert (await store.work_items.list_items(RUN))[1] == held(units[1], until=UNTIL + HOUR)


async def test_an_owner_keeps_what_it_has_for_longer_and_never_for_less(store):
    await planned(store.work_items, 4)
    await taken(store.work_items, limit=2)
    await taken(store.work_items, owner="w2", limit=1)
    assert await store.work_items.extend_claims(RUN, owner="w1", until=UNTIL + HOUR) == 2
    assert await store.work_items.extend_claims(RUN, owner="w1", until=NOW) == 2
    assert await store.work_items.extend_claims(RUN, owner="nobody", until=UNTIL) == 0
    assert await store.work_items.extend_claims("another", owner="w1", until=UNTIL) == 0
    untils = [one.claimed_until for one in await store.work_items.list_items(RUN)]
    assert untils == [UNTIL + HOUR, UNTIL + HOUR, UNTIL, None]


async def test_what_an_owner_gives_back_is_free_again(store):
    units = await planned(store.work_items, 4)
    mine = await taken(store.work_items, limit=3)
    await taken(store.work_items, owner="w2", limit=1)
    assert await store.work_items.finish_item(RUN, ended(mine[0]), None)
    assert await store.work_items.release_items(RUN, owner="w1") == 2
    assert await store.work_items.release_items(RUN, owner="w1") == 0
    assert (await store.work_items.list_items(RUN))[1:] == [
        units[1],
        units[2],
        held(units[3], "w2"),
    ]
    assert [one.rank for one in await taken(store.work_items, owner="w3")] == [1, 2]


@pytest.mark.parametrize("state", sorted(END_STATES))
async def test_a_unit_ends_together_with_what_is_known_of_its_company(store, state):
    await planned(store.work_items, 2)
    _, one = await taken(store.work_items)
    end = ended(one, state=state)
    assert await store.work_items.finish_item(RUN, replace(end, rank=77), dossier())
    assert (await store.work_items.list_items(RUN))[1] == end
    assert await store.accounts.find_company_record("T1") == dossier()
    assert await store.work_items.count_items(RUN) == {WorkState.CLAIMED: 1, state: 1}


async def test_a_unit_ends_once(store):
    await planned(store.work_items, 2)
    _, one = await taken(store.work_items)
    assert await store.work_items.finish_item(RUN, ended(one), None)
    late = ended(one, state=WorkState.FAILED)
    assert not await store.work_items.finish_item(RUN, late, dossier())
    assert (await store.work_items.list_items(RUN))[1] == ended(one)
    assert await store.accounts.find_company_record("T1") is None
    assert await taken(store.work_items, now=UNTIL + HOUR, limit=9) != []
    assert (await store.work_items.list_items(RUN))[1] == ended(one)


async def test_an_owner_that_comes_late_is_refused_and_writes_nothing(store):
    await planned(store.work_items, 2)
    _, mine = await taken(store.work_items)
    _, theirs = await taken(store.work_items, owner="w2", now=UNTIL, until=UNTIL + HOUR)
    assert not await store.work_items.finish_item(RUN, ended(mine), dossier())
    assert await store.work_items.extend_claims(RUN, owner="w1", until=UNTIL + 9 * HOUR) == 0
    assert await store.work_items.release_items(RUN, owner="w1") == 0
    assert (await store.work_items.list_items(RUN))[1] == theirs
    assert await store.accounts.find_company_record("T1") is None
    assert await store.work_items.finish_item(RUN, ended(theirs), dossier())
    assert await store.accounts.find_company_record("T1") == dossier()


async def test_a_unit_given_back_is_not_its_former_owners_to_end(store):
    [waiting] = await planned(store.work_items, 1)
    [mine] = await taken(store.work_items)
    await store.work_items.release_items(RUN, owner="w1")
    assert not await store.work_items.finish_item(RUN, ended(mine), None)
    assert await store.work_items.list_items(RUN) == [waiting]


async def test_an_unclaimed_item_can_be_dropped_only_while_it_is_unclaimed(store):
    first, second = await planned(store.work_items, 2)
    shed = ended(first, state=WorkState.DROPPED)
    assert await store.work_items.finish_item(RUN, shed, None)
    [theirs] = await taken(store.work_items)
    assert not await store.work_items.finish_item(RUN, ended(second, state=WorkState.DROPPED), None)
    assert await store.work_items.list_items(RUN) == [shed, theirs]
    assert not await store.work_items.finish_item(RUN, ended(unit(7)), None)
    assert not await store.work_items.finish_item("another", shed, None)


async def test_what_is_no_end_or_of_another_company_is_refused_unwritten(store):
    await planned(store.work_items, 2)
    _, one = await taken(store.work_items)
    for state in set(WorkState) - END_STATES:
        await refused(store.work_items.finish_item(RUN, ended(one, state=state), None))
    await refused(store.work_items.finish_item(RUN, ended(one), dossier("T2")))
    await refused(
        store.work_items.finish_item(RUN, ended(one, ended_at=NOW.replace(tzinfo=None)), None),
        ConfigError,
    )
    await refused(store.work_items.finish_item(RUN, ended(one, seconds={"a": float("nan")}), None))
    assert (await store.work_items.list_items(RUN))[1] == one


async def test_units_are_found_by_state_in_pages(store):
    await planned(store.work_items, 6)
    for one in await taken(store.work_items, limit=4):
        state = WorkState.DONE if one.rank % 2 else WorkState.DEGRADED
        await store.work_items.finish_item(RUN, ended(one, state=state), None)

    async def places(**asked):
        return [one.rank for one in await store.work_items.list_items(RUN, **asked)]

    assert await places(states=[WorkState.DONE]) == [1, 3]
    assert await places(states=[WorkState.WAITING, WorkState.DEGRADED]) == [0, 2, 4, 5]
    assert await places(states=[WorkState.WAITING, WorkState.DEGRADED], after=0, limit=2) == [
        2,
        4,
    ]
    assert await places(states=[WorkState.DROPPED]) == []
    assert await store.work_items.count_items(RUN) == {
        WorkState.DONE: 2,
        WorkState.DEGRADED: 2,
        WorkState.WAITING: 2,
    }


async def test_the_last_look_is_that_of_the_newest_run(store):
    assert await store.work_items.find_last_items(["T0"]) == {}
    await planned(store.work_items, 1, run=LATER_RUN)
    await planned(store.work_items, 2)
    assert await store.work_items.find_last_items([]) == {}
    assert await store.work_items.find_last_items(["T0", "T1", "T1", "T9"]) == {
        "T0": (LATER_RUN, unit(0)),
        "T1": (RUN, unit(1)),
    }


async def test_of_many_takers_each_unit_goes_to_one(backend, record_property):
    takers, count = 12, 150

    nights = backend.tenant(ACME).work_items
    await planned(nights, count)

    async def worker(owner):
        mine = []
        while some := await taken(backend.tenant(ACME).work_items, owner=owner, limit=4):
            assert {one.owner for one in some} == {owner}
            mine += [one.company for one in some]
            assert await nights.finish_item(RUN, ended(some[0]), None)
        return mine

    won = await asyncio.gather(*(worker(f"w{n}") for n in range(takers)))
    times = Counter(company for mine in won for company in mine)
    assert len(times) == count
    twice = sum(n - 1 for n in times.values())
    record_property("fault", f"{takers} takers at once: n={count} units, {twice} taken twice")
    assert twice == 0


async def test_of_an_owner_and_the_one_who_took_over_one_ends_the_unit(backend):
    store = backend.tenant(ACME)
    await planned(store.work_items, 30)
    mine = await taken(store.work_items)
    theirs = await taken(store.work_items, owner="w2", now=UNTIL, until=UNTIL + HOUR)
    ends = await asyncio.gather(
        *(store.work_items.finish_item(RUN, ended(one), None) for one in mine),
        *(store.work_items.finish_item(RUN, ended(one), None) for one in theirs),
        *(store.work_items.finish_item(RUN, ended(one), None) for one in theirs),
    )
    assert (sum(ends[:30]), sum(ends)) == (0, 30)


async def test_units_of_two_tenants_have_nothing_to_do_with_each_other(backend):
    ours, theirs = backend.tenant(ACME), backend.tenant(UMBRELLA)
    await planned(ours.work_items, 2)
    assert await taken(theirs.work_items) == []
    assert await theirs.work_items.list_items(RUN) == []
    assert await theirs.work_items.count_items(RUN) == {}
    assert await theirs.work_items.find_last_items(["T1"]) == {}
    await planned(theirs.work_items, 2)
    _, mine = await taken(ours.work_items)
    await ours.crm.save_sent_rows([sent()])
    assert not await theirs.work_items.finish_item(RUN, ended(mine), dossier())
    assert await theirs.work_items.release_items(RUN, owner="w1") == 0
    assert await theirs.work_items.extend_claims(RUN, owner="w1", until=UNTIL) == 0
    assert await theirs.crm.find_sent_rows(["stoker.T1"]) == {}
    assert await theirs.crm.list_sent_rows(RUN) == []
    await theirs.crm.save_sent_rows([sent(digest="theirs")])
    assert await ours.crm.list_sent_rows(RUN) == [sent()]
    assert (await ours.work_items.list_items(RUN))[1] == mine


async def test_pages_of_units_hold_while_units_are_taken_and_ended(store):
    await planned(store.work_items, 60)

    async def read():
        found = []
        while page := await store.work_items.list_items(
            RUN, after=found[-1] if found else -1, limit=7
        ):
            found += [one.rank for one in page]
        return found

    async def work():
        while some := await taken(store.work_items, limit=5):
            for one in some:
                await store.work_items.finish_item(RUN, ended(one), None)

    found, _, _ = await asyncio.gather(read(), work(), work())
    assert found == list(range(60))


async def test_sent_rows_are_found_by_id_and_by_run(store):
    rows = [sent(f"stoker.{n:04}", before={} if n % 2 else {"a": 1}) for n in range(1_203)]
    await store.crm.save_sent_rows(rows[::-1])
    found = await store.crm.find_sent_rows([row.external_id for row in rows] + ["nobody's"])
    assert list(found.values()) == rows
    assert await store.crm.find_sent_rows([]) == {}
    assert await store.crm.list_sent_rows(RUN, limit=2) == rows[:2]
    assert await store.crm.list_sent_rows(RUN, after="stoker.0001", limit=1) == [rows[2]]
    assert await store.crm.list_sent_rows("another") == []


async def test_what_was_there_before_a_run_stays_as_the_run_first_found_it(store):
    await store.crm.save_sent_rows([sent()])
    again = sent(digest="new", values={"name": "B"}, before={"name": "ours"}, at=NOW + HOUR)
    await store.crm.save_sent_rows([again])
    kept = replace(again, before=sent().before)
    assert await store.crm.find_sent_rows(["stoker.T1"]) == {"stoker.T1": kept}
    assert await store.crm.list_sent_rows(RUN) == [kept]


async def test_what_was_last_written_is_the_latest_whichever_run_wrote_it(store):
    first = sent(run=LATER_RUN, at=NOW)
    second = sent(run=RUN, at=NOW + HOUR, values={"name": "restored"}, before={})
    await store.crm.save_sent_rows([second, first])
    assert await store.crm.find_sent_rows(["stoker.T1"]) == {"stoker.T1": second}
    assert await store.crm.list_sent_rows(LATER_RUN) == [first]
    assert await store.crm.list_sent_rows(RUN) == [second]


async def test_undone_rows_of_any_run_are_listed_with_the_latest_write(store):
    rows = [
        sent(run=f"2026020{n}_000000", digest=digest, at=NOW + n * HOUR)
        for n, digest in enumerate(
            ["stands", f"{UNDONE_PREFIX}second", f"{UNDONE_PREFIX}third"], start=1
        )
    ]
    await store.crm.save_sent_rows(rows)
    found = await store.crm.find_sent_rows(["stoker.T1"])
    assert found == {"stoker.T1": replace(rows[2], settled=frozenset({"stands", "second"}))}

    first = replace(rows[0], digest=f"{UNDONE_PREFIX}first", at=NOW + 9 * HOUR)
    await store.crm.save_sent_rows([replace(first, settled=frozenset({"nothing to keep"}))])
    found = await store.crm.find_sent_rows(["stoker.T1"])
    assert found == {"stoker.T1": replace(first, settled=frozenset({"second", "third"}))}
    assert await store.crm.list_sent_rows(first.run) == [first]


async def test_claiming_items_needs_an_owner_and_a_time(store):
    await planned(store.work_items, 1)
    await refused(taken(store.work_items, owner=""))
    await refused(taken(store.work_items, owner="half \ud800"))
    await refused(taken(store.work_items, run=""))
    await refused(taken(store.work_items, now=NOW.replace(tzinfo=None)), ConfigError)
    await refused(store.work_items.extend_claims(RUN, owner="", until=UNTIL))
    await refused(store.work_items.release_items(RUN, owner=""))
    assert await store.work_items.list_items(RUN) == [unit()]
