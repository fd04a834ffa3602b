"""What every store promises about signals, heats, what looks taught, and plans as decided."""

import asyncio
import math
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from contracts.accounts import company
from contracts.attending import (
    AT_ONCE,
    BELIEFS,
    DAY,
    HOUR,
    LATER_RUN,
    NOW,
    RULE,
    RUN,
    listed,
    look,
    plan,
    signal,
    sweep,
)
from contracts.backends import ACME, UMBRELLA, refused
from heat_cases import compute_heat
from stoker.base.errors import ConfigError, ConflictError
from stoker.heat.beliefs import learn_change_rates
from stoker.heat.heat import new_account_heat, score_heat
from stoker.heat.model import (
    AccountChangeRate,
    AddedSignals,
    DataLevel,
    LookupAttempts,
    SignalKind,
    Tier,
)
from stoker.ledger.chain import NewEntry


def after(*signals, account="T1", now=NOW, **more):
    return compute_heat(new_account_heat(account, now=now), signals, now=now, rule=RULE, **more)


def later(heat, now):
    return score_heat(heat, now=now, rule=RULE)


async def test_signals_are_remembered_and_move_their_accounts_heat(store):
    ones = [
        signal("a", at=NOW - 3 * HOUR, kind=SignalKind.SITE_CHANGED, source="ünï 🙂"),
        signal("b", at=NOW - 2 * HOUR, strength=1.0),
        signal("d", at=NOW - 2 * HOUR, strength=0.0, source=""),
    ]
    other = signal("c", account="T0", kind=SignalKind.IMPORTED)
    heats = (after(other, account="T0"), after(*ones))
    told = await store.heat.add_signals([*ones, other], **AT_ONCE)
    assert told == AddedSignals(new=4, heats=heats)
    assert await store.heat.list_heats() == list(heats)
    assert await store.heat.find_heat("T1") == heats[1]
    assert await store.heat.find_heat("T9") is None
    assert await store.heat.list_signals("T1") == [ones[1], ones[2], ones[0]]
    assert await store.heat.list_signals("T1", limit=1) == [ones[1]]
    assert await store.heat.list_signals("T9") == []
    assert await store.heat.add_signals([], **AT_ONCE) == AddedSignals()


async def test_a_signal_added_twice_counts_once_even_if_it_differs(store):
    ones = [signal("a"), signal("b"), signal("a", account="T2", strength=1.0)]
    first = await store.heat.add_signals(ones, **AT_ONCE)
    assert (first.new, first.known) == (2, 1)
    before = await store.heat.list_heats()
    again = [*ones, signal("b", at=NOW, strength=1.0)]
    told = await store.heat.add_signals(again, rule=RULE, now=NOW + DAY)
    assert told == AddedSignals(known=4)
    assert await store.heat.list_heats() == before == [after(*ones[:2])]
    assert await store.heat.list_signals("T1") == ones[:2]


async def test_a_signal_dated_ahead_is_kept_as_of_its_arrival(store):
    ahead = signal("a", at=(NOW + DAY).astimezone(timezone(timedelta(hours=8))))
    await store.heat.add_signals([ahead], **AT_ONCE)
    assert await store.heat.list_signals("T1") == [replace(ahead, at=NOW)]
    assert await store.heat.find_heat("T1") == after(replace(ahead, at=NOW))


async def test_signals_added_concurrently_each_count_once(store):
    ones = [signal(f"s{n}", at=NOW - n * HOUR, strength=0.25) for n in range(12)]

    async def tell(n):
        some = [*ones[n:], *ones[:n], signal(f"own {n}", account="T2", at=NOW, strength=0.5)]
        return await store.heat.add_signals(some, **AT_ONCE)

    told = await asyncio.gather(*map(tell, range(6)))
    assert sum(one.new for one in told) == 12 + 6
    found = {heat.account: heat for heat in await store.heat.list_heats()}
    assert math.isclose(found["T1"].state.mass, after(*ones).state.mass)
    assert found["T1"].state.peak == after(*ones).state.peak
    alike = [signal(f"{n}", account="T2", at=NOW, strength=0.5) for n in range(6)]
    assert math.isclose(found["T2"].state.mass, after(*alike, account="T2", now=NOW).state.mass)


async def test_postures_are_put_where_they_differ_and_make_accounts_known(store):
    await store.heat.add_signals([signal(account="B")], **AT_ONCE)
    some = {"C": 0.25, "A": 0.0, "B": 1.0}
    assert await store.heat.update_postures(some, **AT_ONCE) == 3
    assert await store.heat.list_heats() == [
        after(account="A", posture=0.0),
        after(signal(account="B"), account="B", posture=1.0),
        after(account="C", posture=0.25),
    ]
    before = await store.heat.list_heats()
    late = {"rule": RULE, "now": NOW + 9 * DAY}
    assert await store.heat.update_postures(some, **late) == 0
    assert await store.heat.list_heats() == before
    assert await store.heat.update_postures(some | {"A": 5e-324}, **late) == 1
    warmer = compute_heat(before[0], posture=5e-324, **late)
    assert await store.heat.list_heats() == [warmer, *before[1:]]
    assert await store.heat.update_postures({}, **late) == 0


async def test_a_sweep_puts_heats_in_place_of_those_it_read(store):
    await store.heat.add_signals([signal(str(n), account=f"T{n}") for n in range(5)], **AT_ONCE)
    before = await store.heat.list_heats()
    assert await sweep(store.heat, now=NOW + DAY) == (5, 5)
    swept = await store.heat.list_heats()
    assert swept == [later(heat, NOW + DAY) for heat in before]
    assert swept != before
    assert await store.heat.update_heats([], expected=[]) == 0


async def test_a_heat_that_moved_since_it_was_read_is_left_alone(store):
    attention = store.heat
    await attention.add_signals([signal(str(n), account=f"T{n}") for n in range(4)], **AT_ONCE)
    await attention.update_postures({"T3": 0.5}, **AT_ONCE)
    read = await attention.list_heats()
    await attention.add_signals([signal("x", account="T1", at=NOW - DAY)], **AT_ONCE)
    await attention.update_postures({"T2": 0.125}, **AT_ONCE)
    moved = await attention.list_heats()
    gone = after(account="T9")
    told = await sweep(attention, now=NOW + HOUR, seen=[*read, gone])
    assert told == (2, 5)
    assert await attention.list_heats() == [
        later(read[0], NOW + HOUR),
        *moved[1:3],
        later(read[3], NOW + HOUR),
    ]
    assert await sweep(attention, now=NOW + HOUR, seen=read) == (0, 4)


async def test_a_heat_is_as_expected_only_when_all_of_it_is(store):
    await store.heat.add_signals([signal()], **AT_ONCE)
    [heat] = await store.heat.list_heats()
    state, factors = heat.state, heat.factors
    for other in (
        {"score": math.nextafter(heat.score, 1.0)},
        {"tier": Tier.HOT},
        {"tier_since": NOW - HOUR},
        {"below_since": NOW},
        {"computed_at": NOW - timedelta(microseconds=1)},
        {"updated_at": NOW - HOUR},
        {"factors": replace(factors, posture_score=0.75)},
        {"factors": replace(factors, signal_recency=0.75)},
        {"factors": replace(factors, signal_volume=0.75)},
        {"state": replace(state, posture=0.5)},
        {"state": replace(state, peak=0.0)},
        {"state": replace(state, mass=math.nextafter(state.mass, 9.0))},
        {"state": replace(state, as_of=None)},
        {"state": replace(state, latest=())},
    ):
        differing = replace(heat, **other)
        assert await store.heat.update_heats([heat], expected=[differing]) == 0
        assert await store.heat.update_heats([differing], expected=[heat]) == 1
        assert await store.heat.list_heats() == [differing]
        assert await store.heat.update_heats([heat], expected=[differing]) == 1


async def test_heats_are_put_only_in_place_of_those_of_the_same_accounts_each_once(store):
    await store.heat.add_signals([signal("a", account="A"), signal("b", account="B")], **AT_ONCE)
    a, b = await store.heat.list_heats()
    for some, expected in (([a], [b]), ([a], []), ([a, b], [b, a]), ([a, a], [a, a])):
        await refused(store.heat.update_heats(some, expected=expected))
    for bad in (math.nan, -0.5, 1.5, math.inf):
        wrong = replace(b, score=bad)
        await refused(store.heat.update_heats([a, wrong], expected=[a, b]))
        wrong = replace(b, factors=replace(b.factors, signal_volume=bad))
        await refused(store.heat.update_heats([a, wrong], expected=[a, b]))
    nowhere = replace(b, computed_at=NOW.replace(tzinfo=None))
    await refused(store.heat.update_heats([a, nowhere], expected=[a, b]), ConfigError)
    assert await store.heat.list_heats() == [a, b]
    elsewhere = timezone(timedelta(hours=-5))
    moved = replace(b, tier_since=b.tier_since.astimezone(elsewhere))
    assert await store.heat.update_heats([moved], expected=[moved]) == 1
    assert await store.heat.list_heats() == [a, b]


async def test_sweeps_and_signals_at_once_lose_no_signal(store):
    accounts = [f"T{n}" for n in range(3)]
    await store.heat.update_postures(dict.fromkeys(accounts, 0.5), **AT_ONCE)

    async def tell(n):
        some = [signal(f"{one} {n}", account=one, strength=0.5) for one in accounts]
        await store.heat.add_signals(some, **AT_ONCE)

    async def sweeps(n):
        await sweep(store.heat, now=NOW + n * HOUR)

    await asyncio.gather(*(verb(n) for n in range(6) for verb in (tell, sweeps)))
    for heat in await store.heat.list_heats():
        alike = [signal(f"{n}", account=heat.account, strength=0.5) for n in range(6)]
        assert heat.state == after(*alike, account=heat.account, posture=0.5).state


async def test_heats_come_page_by_page_and_the_hottest_by_score(store):
    postures = {"B": 1.0, "A": 0.25, "D": 1.0, "C": 0.75, "É": 0.0, "a": 0.25}
    await store.heat.update_postures(postures, **AT_ONCE)
    # Two signals within an hour make an account HOT, whatever its score.
    close = [signal(f"{n}", account="A", at=NOW, strength=0.1) for n in range(2)]
    await store.heat.add_signals(close, **AT_ONCE)

    async def pages(limit):
        found, after = [], ""
        while page := await store.heat.list_heats(after=after, limit=limit):
            found += [heat.account for heat in page]
            after = found[-1]
        return found

    assert await pages(1) == await pages(4) == ["A", "B", "C", "D", "a", "É"]

    async def hottest(**asked):
        return [heat.account for heat in await store.heat.list_hottest(**asked)]

    assert await hottest() == ["B", "D", "C", "A", "a", "É"]
    assert await hottest(limit=3) == ["B", "D", "C"]
    assert await hottest(tier=Tier.HOT) == ["A"]
    assert await hottest(tier=Tier.WARM, limit=1) == ["B"]
    assert await hottest(tier=Tier.COLD) == ["C", "a", "É"]
    assert await hottest(limit=0) == []


async def test_candidates_are_as_hot_as_they_were_last_reckoned(store):
    await store.accounts.upsert_companies([company("T1"), company("T2")], now=NOW)
    await store.accounts.save_candidates(["T1", "T2"], rule="default")
    await store.heat.add_signals([signal(account="T2")], **AT_ONCE)

    async def heats():
        return [one.heat for one in await store.accounts.list_candidates(rule="default")]

    assert await heats() == [0.0, after(signal(account="T2"), account="T2").score]
    await sweep(store.heat, now=NOW + 30 * DAY)
    [heat] = await store.heat.list_heats()
    assert await heats() == [0.0, heat.score]
    assert heat.score > 0.0


async def test_looks_teach_what_the_core_says_and_each_once(store):
    await store.heat.update_postures({"T1": 1.0, "T3": 0.0}, **AT_ONCE)
    close = [signal(f"{n}", account="T2", at=NOW) for n in range(2)]
    await store.heat.add_signals(close, **AT_ONCE)
    looks = [
        look(f"{one} {days}", account=one, at=NOW + days * DAY, surface=changed, deep=deep)
        for one in ("T1", "T2", "T3", "T4")
        for days, changed, deep in ((0, True, None), (3, False, True), (9, True, False))
    ]
    tiers = {"T1": Tier.WARM, "T2": Tier.HOT, "T3": Tier.COLD}
    expected = learn_change_rates(looks, known={}, tiers=tiers, rule=BELIEFS)
    assert await store.heat.record_lookups(looks[::-1], rule=BELIEFS) == 12
    assert await store.heat.list_change_rates() == [expected[one] for one in sorted(expected)]
    [first, *_] = await store.heat.list_change_rates()
    assert first.deep == expected["T1"].deep != first.surface
    again = [replace(one, at=one.at + 30 * DAY, surface=True) for one in looks]
    assert await store.heat.record_lookups(again, rule=BELIEFS) == 0
    assert await store.heat.record_lookups([], rule=BELIEFS) == 0
    assert await store.heat.list_change_rates(after="T1", limit=2) == [
        expected["T2"],
        expected["T3"],
    ]

    new = look("new", account="T4", at=NOW + 12 * DAY, surface=True)
    assert await store.heat.record_lookups([*looks, new, new], rule=BELIEFS) == 1
    more = learn_change_rates([new], known=expected, tiers={}, rule=BELIEFS)["T4"]
    assert (await store.heat.list_change_rates())[3] == more
    assert more.deep == expected["T4"].deep


async def test_a_first_look_and_one_that_saw_nothing_are_remembered_as_such(store):
    gone = replace(look("c", account="T3", surface=None), failed=True, gone=True)
    await store.heat.record_lookups(
        [look("a"), look("b", account="T2", surface=None), gone], rule=BELIEFS
    )
    known = [
        AccountChangeRate("T1", DataLevel(NOW), attempts=LookupAttempts(2.0, 1.9)),
        AccountChangeRate("T2"),
        AccountChangeRate("T3", attempts=LookupAttempts(2.0, 0.9, NOW, 30.0)),
    ]
    assert await store.heat.list_change_rates() == known


async def test_lookups_recorded_concurrently_each_count_once(store):
    await store.heat.record_lookups([look("first")], rule=BELIEFS)
    looks = [look(f"k{n}", at=NOW + n * DAY, surface=False) for n in range(1, 5)]
    told = await asyncio.gather(*(store.heat.record_lookups(looks, rule=BELIEFS) for _ in range(6)))
    assert sorted(told) == [0, 0, 0, 0, 0, 4]
    expected = learn_change_rates([look("first"), *looks], known={}, tiers={}, rule=BELIEFS)
    [belief] = await store.heat.list_change_rates()
    assert belief.surface.seen_at == expected["T1"].surface.seen_at
    assert belief.surface[1:] == pytest.approx(expected["T1"].surface[1:])


async def test_columns_say_what_heats_beliefs_and_signals_since_the_last_look_say(store):
    attention = store.heat
    await attention.update_postures({f"T{n}": n / 8 for n in range(5)}, **AT_ONCE)
    looks = [
        look("a", account="T1", at=NOW - 5 * HOUR, deep=False),
        look("b", account="T1", at=NOW - 3 * HOUR, surface=True),
        look("c", account="T2", at=NOW, surface=None, deep=True),
        look("d", account="nobody has heard of", at=NOW),
    ]
    await attention.record_lookups(looks, rule=BELIEFS)
    told = [
        signal(f"{n} {one}", account=one, at=NOW - n * HOUR, strength=n / 10)
        for n in range(1, 7)
        for one in ("T1", "T2", "T3")
    ]
    await attention.add_signals(told, **AT_ONCE)
    heats, beliefs = await attention.list_heats(), await attention.list_change_rates()
    found = await attention.read_columns()
    assert found.accounts == ["T0", "T1", "T2", "T3", "T4"]
    assert found.heat.tolist() == [heat.score for heat in heats]
    assert found.posture.tolist() == [heat.state.posture for heat in heats]
    assert found.tier.tolist() == [heat.tier.rank for heat in heats]
    epoch = NOW.replace(year=1970, month=1, day=1, hour=0, minute=0)
    today = (NOW - epoch) / DAY
    assert found.tier_since.tolist() == [today] * 5
    never, unknown = [-math.inf], [math.nan]
    assert found.surface_at.tolist() == [*never, (NOW - 3 * HOUR - epoch) / DAY, *never * 3]
    assert found.deep_at.tolist() == [*never, (NOW - 5 * HOUR - epoch) / DAY, today, *never * 2]
    learned_of = [*unknown, beliefs[0].surface.changes, *unknown * 3]
    assert found.surface_changes.tolist() == pytest.approx(learned_of, nan_ok=True, rel=0)
    assert found.surface_days[1] == beliefs[0].surface.days
    assert found.deep_changes.tolist() == pytest.approx(unknown * 5, nan_ok=True)
    # Of T1, those after the last look count; of accounts never seen on the surface, all do.
    assert found.signals.tolist() == [0.0, math.fsum([0.1, 0.2]), 2.1, 2.1, 0.0]
    page = listed(await attention.read_columns(after="T1", limit=2))
    assert page == {name: column[2:4] for name, column in listed(found).items()}
    empty = await attention.read_columns(after="T4")
    assert set(map(len, listed(empty).values())) == {0}


async def test_old_signals_and_looks_go_oldest_first_and_what_they_did_stays(store):
    ones = [signal(f"s{n}", at=NOW - n * DAY) for n in range(5)]
    looks = [look(f"k{n}", at=NOW - n * DAY) for n in range(5)]
    await store.heat.add_signals(ones, **AT_ONCE)
    await store.heat.record_lookups(looks, rule=BELIEFS)
    known = await store.heat.list_heats(), await store.heat.list_change_rates()
    for prune in (store.heat.delete_old_signals, store.heat.delete_old_lookups):
        assert await prune(before=NOW - DAY, limit=2) == 2
        assert await prune(before=NOW - DAY) == 1
        assert await prune(before=NOW - DAY) == 0
    assert await store.heat.list_signals("T1") == ones[:2]
    assert (
        await store.heat.list_heats(),
        await store.heat.list_change_rates(),
    ) == known
    # A key that is still known teaches nothing; all of them were made before the last look.
    assert await store.heat.record_lookups(looks[:2], rule=BELIEFS) == 0


async def test_a_plan_is_kept_whole_and_decided_once(store):
    parts = [b"\0\xff" * 3, b"", bytes(range(256)) * 4096]
    elsewhere = plan(at=NOW.astimezone(timezone(timedelta(hours=8))))
    assert await store.plans.insert_plan(elsewhere, parts)
    assert not await store.plans.insert_plan(plan(), parts)
    assert await store.plans.find_plan(RUN) == plan()
    found = [await store.plans.find_plan_part(RUN, n) for n in (0, 1, 2, 3, -1)]
    assert found == [*parts, None, None]
    for another, some in (
        (plan(policy="tiers"), parts),
        (plan(header={}), parts),
        (plan(at=NOW + HOUR), parts),
        (plan(), parts[:2]),
        (plan(), [*parts, b""]),
        (plan(), parts[::-1]),
    ):
        await refused(store.plans.insert_plan(another, some), ConflictError)
    assert await store.plans.list_plans() == [plan()]
    assert await store.plans.find_plan_part(RUN, 2) == parts[2]


async def test_a_plan_and_its_ledger_entry_are_written_together_or_not_at_all(store):
    entry = NewEntry(at=NOW, kind="PLAN", subject=RUN, reason="", data={"run": RUN})

    bad = replace(entry, data={"price": math.nan})
    await refused(store.plans.insert_plan(plan(), [b"part"], entry=bad))
    assert await store.plans.find_plan(RUN) is None
    assert await store.plans.find_plan_part(RUN, 0) is None
    assert await store.ledger.list_entries() == []
    assert await store.plans.insert_plan(plan(), [b"part"], entry=entry)
    assert not await store.plans.insert_plan(plan(), [b"part"], entry=entry)
    await refused(store.plans.insert_plan(plan(header={}), [b"part"], entry=entry), ConflictError)
    assert [each.data for each in await store.ledger.list_entries()] == [entry.data]


async def test_plans_are_listed_newest_first_and_dropped_with_their_parts(store):
    for run in (RUN, LATER_RUN, "20260209_013000"):
        assert await store.plans.insert_plan(plan(run), [b"one", run.encode()])
    names = [kept.run for kept in await store.plans.list_plans(limit=2)]
    assert names == ["20260209_013000", LATER_RUN]
    assert await store.plans.delete_plans([RUN, LATER_RUN, RUN, "another"]) == 2
    assert await store.plans.delete_plans([RUN]) == 0
    assert await store.plans.delete_plans([]) == 0
    assert [kept.run for kept in await store.plans.list_plans()] == ["20260209_013000"]
    assert await store.plans.find_plan(RUN) is None
    assert await store.plans.find_plan_part(RUN, 0) is None
    assert await store.plans.insert_plan(plan(header={}), [])
    assert await store.plans.find_plan_part(RUN, 0) is None


async def test_numbers_come_back_to_the_last_digit(store):
    numbers = [0.0, 5e-324, 2.2250738585072014e-308, 0.1, 1 / 3, math.nextafter(1.0, 0.0), 1.0]

    for n, number in enumerate(numbers):
        account = f"T{n}"
        one = signal(f"s{n}", account=account, strength=number)
        told = await store.heat.add_signals([one], **AT_ONCE)
        assert await store.heat.list_signals(account) == [one]
        await store.heat.update_postures({account: number}, **AT_ONCE)
        assert told.heats[0] == after(one, account=account)
        heat = after(one, account=account, posture=number)
        assert await store.heat.find_heat(account) == heat
        heavy = replace(heat, state=replace(heat.state, mass=1.7976931348623157e308))
        assert await store.heat.update_heats([heavy], expected=[heat]) == 1
        assert await store.heat.find_heat(account) == heavy


async def test_another_tenant_sees_nothing_and_has_the_same_ids_for_itself(backend):
    mine, theirs = (backend.tenant(name) for name in (ACME, UMBRELLA))

    async def known(store):
        attention = store.heat
        return (
            await attention.list_heats(),
            await attention.list_signals("T1"),
            await attention.list_change_rates(),
            await store.plans.list_plans(),
            await store.plans.find_plan_part(RUN, 0),
            await attention.list_hottest(),
        )

    async def fill(store):
        await store.heat.add_signals([signal()], **AT_ONCE)
        await store.heat.record_lookups([look()], rule=BELIEFS)
        await store.plans.insert_plan(plan(), [b"part"])

    nothing = await known(theirs)
    await fill(mine)
    assert await known(theirs) == nothing == ([], [], [], [], None, [])
    await theirs.plans.delete_plans([RUN])
    await theirs.heat.delete_old_signals(before=NOW + DAY)
    assert len((await known(mine))[1]) == 1
    await fill(theirs)
    assert await known(theirs) == await known(mine)


async def test_what_no_moment_or_number_can_be_is_refused_and_nothing_is_written(store):
    naive = NOW.replace(tzinfo=None)
    attention, late = store.heat, {"rule": RULE, "now": naive}
    await refused(attention.add_signals([signal()], **late), ConfigError)
    await refused(attention.update_postures({"T1": 0.5}, **late), ConfigError)
    await refused(attention.delete_old_signals(before=naive), ConfigError)
    await refused(attention.delete_old_lookups(before=naive), ConfigError)
    await refused(store.plans.insert_plan(plan(at=naive), []), ConfigError)
    await refused(store.plans.insert_plan(plan(header={"x": math.nan}), []))
    await refused(store.plans.insert_plan(plan(), [b"x" * (64 * 2**20 + 1)]))
    for bad in (math.nan, math.inf, -1e-9, 1.0000001):
        await refused(attention.update_postures({"T0": 0.5, "T1": bad}, **AT_ONCE))
    assert await attention.list_heats() == []
    assert await store.plans.list_plans() == []


async def test_heat_has_a_history_of_days_on_which_it_changed(store):
    heat = store.heat
    await heat.add_signals([signal("a", strength=1.0)], **AT_ONCE)
    [first] = await heat.list_heats()
    assert await heat.save_history([first]) == 1
    assert await heat.save_history([first]) == 0  # as it was
    assert await heat.save_history([later(first, NOW + timedelta(minutes=5))]) == 0  # hardly
    evening, week = later(first, NOW + 20 * HOUR), later(first, NOW + 7 * DAY)
    assert await heat.save_history([evening]) == 1  # the same day: the last of it counts
    assert await heat.save_history([week]) == 1
    assert [(day.on, day.score, day.tier) for day in await heat.list_history("T1")] == [
        (week.computed_at.date(), week.score, week.tier),
        (NOW.date(), evening.score, evening.tier),
    ]
    assert (await heat.list_history("T1", limit=1))[0].factors == week.factors
    assert await heat.list_history("T9") == []


async def test_old_days_leave_the_history_the_oldest_first(store):
    await store.heat.update_postures({"T1": 0.2, "T2": 0.8}, **AT_ONCE)
    for n in range(3):
        await store.heat.update_postures({"T1": 0.2 + n / 10}, rule=RULE, now=NOW + n * DAY)
        await store.heat.save_history(await store.heat.list_heats())
    assert len(await store.heat.list_history("T1")) == 3
    assert len(await store.heat.list_history("T2")) == 1
    until = (NOW + 2 * DAY).date()
    assert await store.heat.delete_old_history(before=until, limit=1) == 1
    assert await store.heat.delete_old_history(before=until) == 2
    assert [day.on for day in await store.heat.list_history("T1")] == [until]
    assert await store.heat.list_history("T2") == []
    assert await store.heat.delete_old_history(before=until) == 0
