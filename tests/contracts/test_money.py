"""What every money store promises: the gate cannot be overspent, and it remembers why it spoke."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta, timezone

import pytest

from contracts.backends import ACME, UMBRELLA, refused
from stoker.base.errors import ConfigError, ConflictError
from stoker.budgets.caps import Cap, CapChange, Scope
from stoker.budgets.charges import Refusal, SpendRequest, Totals
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.budgets.verify import find_shared_mismatches, verify_ledger
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.ledger.chain import NewEntry, find_first_break
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
DAILY = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100)
LUSHA = Cap(
    scope=Scope.TENANT_CONNECTOR,
    unit="credits",
    window=WindowKind.HOUR,
    limit=60,
    connector="lusha",
)
EVERYBODY = Cap(
    scope=Scope.CONNECTOR, unit="credits", window=WindowKind.DAY, limit=80, connector="lusha"
)
RULE = ResetRule("Asia/Singapore", time(0, 0))


def wants(key, number=10, **said):
    return SpendRequest(key=key, connector="lusha", amounts={"credits": number}, **said)


async def reserve(store, key, number=10, *, caps=(DAILY,), now=NOW, owner="me", reset=RULE, **said):
    return await store.budgets.reserve(
        wants(key, number, **said),
        caps=caps,
        reset=reset,
        owner=owner,
        until=now + timedelta(minutes=1),
        now=now,
    )


async def used(store, cap=DAILY):
    """The one window of a cap that was ever used."""
    [only] = [usage.used for usage in await store.budgets.list_usage() if usage.cap == cap.id]
    return only


async def kinds(store):
    return [entry.kind for entry in await store.ledger.list_entries()]


async def test_a_reservation_counts_as_reserved_until_it_is_settled(store):
    hold = await reserve(store, "k")
    assert (hold.status, hold.owner, hold.reserved_at) == (ReservationStatus.SENT, "me", NOW)
    assert await used(store) == Totals(settled=0, reserved=10)
    after = await store.budgets.settle("k", {"credits": 7}, now=LATER)
    assert (after.status, after.actual, after.closed_at) == (
        ReservationStatus.SETTLED,
        {"credits": 7},
        LATER,
    )
    assert await used(store) == Totals(settled=7, reserved=0)
    assert await store.budgets.find_reservation("k") == after
    assert await kinds(store) == ["RESERVED", "SETTLED"]


async def test_a_hold_comes_back_as_it_was_given(store):
    said = {"run": "20260207_013000", "account": "Ünï 日本 🙂", "sends_at_once": False}
    zone = timezone(timedelta(hours=8))
    hold = await reserve(
        store, "k ' \" é", caps=[DAILY, LUSHA, EVERYBODY], now=NOW.astimezone(zone), **said
    )
    assert await store.budgets.find_reservation("k ' \" é") == hold
    assert (hold.run, hold.account, hold.status) == (
        said["run"],
        said["account"],
        ReservationStatus.RESERVED,
    )
    assert hold.until.tzinfo is UTC
    assert [charge.cap for charge in hold.charges] == [EVERYBODY.id, DAILY.id, LUSHA.id]
    assert await store.budgets.find_reservation("other") is None


async def test_what_does_not_fit_is_refused_with_its_reason_and_uses_up_nothing(store):
    await reserve(store, "a", 60)
    answer = await reserve(store, "b", 41)
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.cap) == ("CAP_TENANT_DAY", DAILY.id)
    assert (answer.used, answer.limit) == (60, 100)
    assert answer.resets_at == datetime(2026, 2, 7, 16, tzinfo=UTC)
    assert await used(store) == Totals(reserved=60)
    assert await store.budgets.find_reservation("b") is None
    assert await kinds(store) == ["RESERVED", "REFUSED"]
    smaller = await reserve(store, "b", 40)
    assert smaller.status is ReservationStatus.SENT
    assert await used(store) == Totals(reserved=100)


@pytest.mark.parametrize("full", [DAILY, LUSHA, EVERYBODY], ids=lambda cap: cap.scope.value)
async def test_every_cap_is_charged_or_none_is(backend, full):
    caps = [replace(cap, limit=15 if cap is full else 1000) for cap in (DAILY, LUSHA, EVERYBODY)]

    store = backend.tenant(ACME)
    await reserve(store, "a", 10, caps=caps)
    answer = await reserve(store, "b", 10, caps=caps)
    assert (answer.reason, answer.cap) == (full.reason, full.id)
    totals = [*await store.budgets.list_usage(), *await backend.shared().list_usage()]
    assert [usage.used for usage in totals] == [Totals(reserved=10)] * 3
    if full.shared:
        assert (answer.used, answer.limit) == (0, 0)  # they would speak of other tenants
        assert "15" not in answer.message


async def test_tenants_share_a_shared_cap_and_nothing_else(backend):
    acme, umbrella = backend.tenant(ACME), backend.tenant(UMBRELLA)
    caps = [DAILY, EVERYBODY]
    await reserve(acme, "k", 50, caps=caps)
    assert isinstance(await reserve(umbrella, "k", 31, caps=caps), Refusal)
    await reserve(umbrella, "k", 30, caps=caps)
    [shared] = await backend.shared().list_usage()
    assert (shared.cap, shared.used) == (EVERYBODY.id, Totals(reserved=80))
    await acme.budgets.settle("k", {"credits": 20}, now=LATER)
    assert (await backend.shared().list_usage())[0].used == Totals(settled=20, reserved=30)
    assert await used(acme) == Totals(settled=20)
    assert await used(umbrella) == Totals(reserved=30)
    assert [
        hold.key
        for hold in await umbrella.budgets.list_reservations(phases=[ReservationStatus.SENT])
    ] == ["k"]
    assert await acme.budgets.list_reservations(phases=list(OPEN_STATUSES)) == []


async def test_the_same_key_is_the_same_answer_and_with_other_inputs_a_conflict(store):
    first = await reserve(store, "k", 60)
    assert await reserve(store, "k", 60, owner="another") == first
    await refused(reserve(store, "k", 61), ConflictError)
    settled = await store.budgets.settle("k", {"credits": 60}, now=LATER)
    assert await reserve(store, "k", 60) == settled
    await store.budgets.stop("", reason="over", now=LATER)
    assert await reserve(store, "k", 60) == settled
    assert await used(store) == Totals(settled=60)
    assert await kinds(store) == ["RESERVED", "SETTLED", "STOPPED"]


async def test_callers_at_once_never_get_more_than_there_is(store):
    answers = await asyncio.gather(*(reserve(store, f"k{n}", 7) for n in range(20)))
    granted = [answer for answer in answers if not isinstance(answer, Refusal)]
    assert len(granted) == 14
    assert await used(store) == Totals(reserved=98)
    entries = await store.ledger.list_entries()
    assert find_first_break(entries) is None
    assert sorted(entry.kind for entry in entries) == ["REFUSED"] * 6 + ["RESERVED"] * 14


async def test_concurrent_callers_with_one_key_get_one_reservation(store):
    answers = await asyncio.gather(*(reserve(store, "k", 10) for _ in range(8)))
    assert len({answer.reserved_at for answer in answers}) == 1
    assert await used(store) == Totals(reserved=10)
    assert await kinds(store) == ["RESERVED"]


async def test_a_cost_above_the_reservation_is_recorded_and_binds_the_next_request(store):
    await reserve(store, "a", 90)
    after = await store.budgets.settle("a", {"credits": 140}, now=LATER)
    assert after.actual == {"credits": 140}
    assert await used(store) == Totals(settled=140)
    last = (await store.ledger.list_entries())[-1]
    assert last.data["overrun"] == {"credits": 50}
    assert isinstance(await reserve(store, "b", 0), Refusal)


async def test_an_uncertain_reservation_stays_until_it_is_settled(store):
    await reserve(store, "k", 10)
    aside = await store.budgets.mark_uncertain("k", reason="no answer came", now=LATER)
    assert await store.budgets.expire_reservations(now=NOW + timedelta(days=300)) == []
    assert await store.budgets.list_reservations(phases=[ReservationStatus.UNCERTAIN]) == [aside]
    assert await used(store) == Totals(reserved=10)
    await store.budgets.settle("k", {"credits": 10}, now=LATER)
    assert await used(store) == Totals(settled=10)


async def test_when_an_owner_dies_what_was_not_sent_comes_back_and_the_rest_is_kept_aside(store):
    await reserve(store, "not sent", sends_at_once=False)
    await reserve(store, "sent at once")
    await reserve(store, "sent later", sends_at_once=False)
    assert (await store.budgets.mark_sent("sent later", now=NOW)).status is ReservationStatus.SENT
    await reserve(store, "alive", now=LATER)
    assert await used(store) == Totals(reserved=40)
    gone = await store.budgets.expire_reservations(now=LATER)
    assert [(hold.key, hold.status) for hold in gone] == [
        ("not sent", ReservationStatus.EXPIRED),
        ("sent at once", ReservationStatus.UNCERTAIN),
        ("sent later", ReservationStatus.UNCERTAIN),
    ]
    assert [await store.budgets.find_reservation(hold.key) for hold in gone] == gone
    assert await used(store) == Totals(reserved=30)
    assert await store.budgets.expire_reservations(now=LATER) == []
    assert (
        await kinds(store) == ["RESERVED"] * 3 + ["SENT", "RESERVED", "EXPIRED"] + ["UNCERTAIN"] * 2
    )


async def test_an_owner_that_renews_its_lease_keeps_its_reservations(store):
    for key in ("a", "b", "c"):
        await reserve(store, key, sends_at_once=key != "a")
    await reserve(store, "d", owner="other")
    await store.budgets.settle("c", {}, now=NOW)
    until = LATER + timedelta(minutes=1)
    assert await store.budgets.renew_leases("me", until=until, now=LATER) == 2
    assert [hold.key for hold in await store.budgets.expire_reservations(now=LATER)] == ["d"]
    assert await store.budgets.renew_leases("me", until=LATER, now=LATER) == 2
    assert (await store.budgets.find_reservation("a")).until == until  # never shortened
    assert await store.budgets.renew_leases("nobody", until=until, now=LATER) == 0


async def test_a_clock_set_back_a_little_expires_no_new_reservation(store):
    await store.ledger.append([NewEntry(at=LATER, kind="ODD", subject="", reason="")])
    late = LATER - timedelta(minutes=4)  # and a lease is a minute long
    hold = await reserve(store, "a", now=late, sends_at_once=False)
    assert hold.until - hold.reserved_at == timedelta(minutes=1)
    assert await store.budgets.expire_reservations(now=late) == []
    [gone] = await store.budgets.expire_reservations(now=LATER + timedelta(minutes=1))
    assert gone.status is ReservationStatus.EXPIRED


@pytest.mark.parametrize("behind", [timedelta(minutes=4), timedelta(minutes=-4), timedelta(0)])
async def test_hosts_whose_clocks_differ_by_more_than_a_lease_expire_reservations_alike(
    store, behind
):
    lease = timedelta(minutes=1)

    async def lapsed(store, *, now):
        return [hold.key for hold in await store.budgets.expire_reservations(now=now)]

    for minute in range(10):
        here = NOW + minute * lease
        there = here - behind
        if minute == 0:
            await reserve(store, "theirs", now=there, owner="they", sends_at_once=False)
        await reserve(store, f"ours {minute}", 1, now=here)
        if minute < 5:
            assert await store.budgets.renew_leases("they", until=there + lease, now=there) == 1
            assert "theirs" not in await lapsed(store, now=here)
    # They fell silent five minutes ago; a clock that was ahead is waited for, and no longer.
    gone = await lapsed(store, now=NOW + 10 * lease)
    assert (
        gone or (await store.budgets.find_reservation("theirs")).status is ReservationStatus.EXPIRED
    )


@pytest.mark.parametrize("naive", [False, True], ids=["", "naive twin"])
async def test_a_host_whose_clock_is_behind_renews_by_ledger_time(store, naive):
    minute = timedelta(minutes=1)

    await reserve(store, "theirs", now=NOW, owner="they")
    await reserve(store, "ours", now=NOW + 2 * minute)
    # Their clock is three minutes behind ours, and a lease is one minute long. The twin does
    # not say what its clock shows, so that the end of its lease is taken as it stands.
    theirs = NOW - minute
    told = NOW + 2 * minute if naive else theirs
    await store.budgets.renew_leases("they", until=theirs + minute, now=told)
    silent = [hold.key for hold in await store.budgets.expire_reservations(now=NOW + 2 * minute)]
    assert silent == (["theirs"] if naive else [])
    if not naive:
        assert (await store.budgets.find_reservation("theirs")).until == NOW + 3 * minute


@pytest.mark.parametrize("how", ["released", "expired"])
async def test_a_cost_known_only_after_its_reservation_was_released_is_counted(backend, how):
    caps = [DAILY, EVERYBODY]

    store = backend.tenant(ACME)
    await reserve(store, "k", 60, caps=caps, sends_at_once=False)
    if how == "released":
        await store.budgets.release("k", reason="not on the invoice", now=NOW)
    else:
        await store.budgets.expire_reservations(now=LATER)
    await reserve(store, "other", 70, caps=caps, now=LATER)
    late = await store.budgets.settle("k", {"credits": 50}, now=LATER)
    assert (late.status, late.reason, late.actual) == (
        ReservationStatus.SETTLED,
        "SETTLED_LATE",
        {"credits": 50},
    )
    assert await store.budgets.find_reservation("k") == late
    assert await used(store) == Totals(settled=50, reserved=70)
    assert [usage.used for usage in await backend.shared().list_usage()] == [
        Totals(settled=50, reserved=70)
    ]
    last = (await store.ledger.list_entries())[-1]
    assert (last.kind, last.data["code"]) == ("SETTLED", "SETTLED_LATE")
    assert (last.data["from"], last.data["overrun"]) == (how.upper(), {"credits": 50})
    assert (await reserve(store, "next", 0, now=LATER)).used == 120
    # Twice is once; another cost, or taking it back, is a conflict.
    again = await store.budgets.settle("k", {"credits": 50}, now=LATER + timedelta(hours=1))
    assert again == late
    await refused(store.budgets.settle("k", {"credits": 51}, now=LATER), ConflictError)
    await refused(store.budgets.release("k", reason="", now=LATER), ConflictError)
    assert await used(store) == Totals(settled=50, reserved=70)
    verdict = await verify_ledger(store)
    assert (verdict.problems, await shared_problems(backend, verdict)) == ((), [])


@pytest.mark.parametrize("how", ["released", "expired"])
async def test_a_released_reservation_counts_again_once_its_outcome_is_uncertain(store, how):
    await reserve(store, "k", 60, sends_at_once=False)
    if how == "released":
        await store.budgets.release("k", reason="no", now=LATER)
    else:
        await store.budgets.expire_reservations(now=LATER)
    aside = await store.budgets.mark_uncertain("k", reason="it timed out", now=LATER)
    assert (aside.status, aside.closed_at) == (ReservationStatus.UNCERTAIN, None)
    assert await store.budgets.list_reservations(phases=list(OPEN_STATUSES)) == [aside]
    assert await used(store) == Totals(reserved=60)
    assert isinstance(await reserve(store, "next", 41, now=LATER), Refusal)
    assert (await verify_ledger(store)).problems == ()
    await store.budgets.release("k", reason="really not", now=LATER)
    assert await used(store) == Totals()
    await store.budgets.settle("k", {"credits": 3}, now=LATER)
    assert await used(store) == Totals(settled=3)
    assert (await verify_ledger(store)).problems == ()


async def shared_problems(backend, verdict):
    return await find_shared_mismatches(backend.shared(), [verdict])


SIX = ResetRule("UTC", time(6, 0))
RULES = [
    RULE,
    SIX,
    ResetRule("America/New_York", time(0, 0)),
    ResetRule("Asia/Singapore", time(9, 29)),
    ResetRule("Asia/Kolkata", time(17, 45)),
]


@pytest.mark.parametrize("window", [WindowKind.HOUR, WindowKind.DAY, WindowKind.WEEK])
async def test_changing_when_budgets_reset_opens_no_second_budget(store, window):
    cap = replace(DAILY, window=window)

    for number, rule in enumerate(RULES * 2):
        answer = await reserve(store, f"k{number}", 30, caps=[cap], reset=rule)
        assert isinstance(answer, Refusal) == (number >= 3)
    assert (answer.cap, answer.used, answer.limit) == (cap.id, 90, 100)
    assert "10 of 100 left" in answer.message
    await reserve(store, "the last ten", 10, caps=[cap], reset=RULES[-1])
    for rule in RULES:
        assert isinstance(await reserve(store, "more", 1, caps=[cap], reset=rule), Refusal)
    assert (await verify_ledger(store)).problems == ()
    assert all(usage.used.total <= 100 for usage in await store.budgets.list_usage())


async def test_what_is_settled_or_given_back_after_the_change_counts_so_in_both_windows(store):
    await reserve(store, "a", 50)
    await reserve(store, "b", 40, reset=SIX)
    await store.budgets.settle("a", {"credits": 20}, now=NOW)
    assert (await reserve(store, "c", 41, reset=SIX)).used == 60
    await store.budgets.settle("b", {"credits": 70}, now=NOW)
    assert (await reserve(store, "c", 11)).used == 90
    await reserve(store, "d", 10)
    await store.budgets.release("d", reason="", now=NOW)
    assert (await reserve(store, "e", 11, reset=SIX)).used == 90
    assert (await verify_ledger(store)).problems == ()


async def test_yesterday_and_today_count_together_where_the_new_window_overlaps_both(store):
    midnight = datetime(2026, 2, 7, 16, tzinfo=UTC)  # in Singapore
    hour = timedelta(hours=1)

    await reserve(store, "yesterday", 60, now=midnight - hour)
    await reserve(store, "today", 30, now=midnight + hour)
    # 06:00 UTC began before either, and ends after.
    over = await reserve(store, "more", 11, now=midnight + 2 * hour, reset=SIX)
    assert (over.used, over.resets_at) == (90, datetime(2026, 2, 8, 6, tzinfo=UTC))
    await reserve(store, "more", 10, now=midnight + 2 * hour, reset=SIX)
    assert isinstance(await reserve(store, "x", 1, now=midnight + 3 * hour, reset=SIX), Refusal)
    # Today's window was charged with it, yesterday's too, and the day after is free again.
    assert (await reserve(store, "x", 61, now=midnight + 3 * hour)).used == 40
    tomorrow = datetime(2026, 2, 9, 6, tzinfo=UTC)
    assert (
        await reserve(store, "fresh", 100, now=tomorrow, reset=SIX)
    ).status is ReservationStatus.SENT


async def test_callers_at_once_with_different_rules_share_one_budget(store):
    asking = [
        reserve(store, f"k{n}", 7, reset=RULES[n % len(RULES)], caps=[DAILY]) for n in range(30)
    ]
    answers = await asyncio.gather(*asking)
    granted = [answer for answer in answers if not isinstance(answer, Refusal)]
    assert len(granted) == 14
    assert (await verify_ledger(store)).problems == ()


async def test_a_cap_that_was_added_binds_callers_who_do_not_know_of_it(backend):
    store, weekly = backend.tenant(ACME), "tenant_connector/lusha/credits/week"
    await reserve(store, "a", 5)
    await store.budgets.change_cap(CapChange(cap=weekly, limit=10), now=NOW)
    await reserve(store, "b", 6)
    answer = await reserve(store, "c", 5)
    assert (answer.reason, answer.cap, answer.used) == ("CAP_CONNECTOR_WEEK", weekly, 6)
    await backend.shared().change_cap(CapChange(cap=EVERYBODY.id, limit=1), now=NOW)
    answer = await reserve(store, "d", 2)
    assert (answer.reason, answer.cap) == ("CAP_SHARED_DAY", EVERYBODY.id)


async def test_a_tenant_cannot_change_a_shared_cap(store):
    change = CapChange(cap=EVERYBODY.id, limit=10**9)
    await refused(store.budgets.change_cap(change, now=NOW), ConfigError)
    assert await store.budgets.list_cap_changes() == {}
    assert await kinds(store) == []


async def test_a_unit_without_a_cap_cannot_be_spent(store):
    tokens = replace(DAILY, unit="tokens")
    await refused(reserve(store, "k", caps=[tokens]), ConfigError)
    await refused(reserve(store, "k", caps=[]), ConfigError)
    assert await kinds(store) == []


@pytest.mark.parametrize("stopped", ["", "lusha"])
@pytest.mark.parametrize("everybody", [False, True])
async def test_nothing_is_granted_while_a_stop_is_in_force(backend, stopped, everybody):
    store, shared = backend.tenant(ACME), backend.shared()
    await reserve(store, "in flight")
    if everybody:
        await shared.stop(stopped, reason="a bill came", now=NOW)
    else:
        await store.budgets.stop(stopped, reason="a bill came", now=NOW)
    answer = await reserve(store, "k")
    assert answer.reason == "STOPPED"
    assert "a bill came" in answer.message
    other = await reserve(backend.tenant(UMBRELLA), "k")
    assert isinstance(other, Refusal) is everybody
    [stop] = await store.budgets.list_stops()
    assert (stop.tenant, stop.connector) == (None if everybody else ACME, stopped)
    await store.budgets.settle("in flight", {"credits": 1}, now=NOW)
    if everybody:
        assert await shared.resume(stopped, now=NOW)
    else:
        assert await store.budgets.resume(stopped, now=NOW)
    assert (await reserve(store, "k")).status is ReservationStatus.SENT


async def test_a_clock_that_went_back_over_midnight_does_not_reopen_yesterday(store):
    midnight = datetime(2026, 2, 7, 16, tzinfo=UTC)  # in Singapore

    yesterday = await reserve(store, "a", 90, now=midnight - timedelta(hours=1))
    today = await reserve(store, "b", 90, now=midnight + timedelta(minutes=1))
    assert yesterday.charges[0].window != today.charges[0].window
    back = await reserve(store, "c", 1, now=midnight - timedelta(hours=2))
    assert back.reason == "CLOCK_WENT_BACK"
    again = await reserve(store, "c", 1, now=midnight - timedelta(hours=2))
    assert again.reason == "CLOCK_WENT_BACK"
    # A little, as honest clocks differ, is let pass, and counts as the time it already was.
    a_little = await reserve(store, "c", 11, now=midnight - timedelta(minutes=3))
    assert (a_little.reason, a_little.used) == ("CAP_TENANT_DAY", 90)
    late = await store.budgets.settle("b", {"credits": 1}, now=midnight - timedelta(hours=2))
    assert late.closed_at == midnight + timedelta(minutes=1)
    moments = [entry.at for entry in await store.ledger.list_entries()]
    assert moments == sorted(moments)


async def test_a_slot_decided_by_a_late_clock_does_not_reopen_yesterday(store):
    midnight = datetime(2026, 2, 7, 16, tzinfo=UTC)  # in Singapore
    late = midnight - timedelta(minutes=3)  # as honest clocks differ

    today = await reserve(store, "a", 100, now=midnight + timedelta(minutes=1))
    slot = OccurrenceResult(
        schedule="nightly",
        due_at=late,
        state=OccurrenceState.MISSED,
        decided_at=late,
        reason="nobody was there",
    )
    assert await store.schedule.record_result(slot, fence=None)
    again = await reserve(store, "b", 1, now=late)
    assert (again.reason, again.used) == ("CAP_TENANT_DAY", 100)
    assert await store.schedule.list_results("nightly") == [slot]
    moments = [entry.at for entry in await store.ledger.list_entries()]
    assert moments == [today.reserved_at] * 3


async def test_a_budget_resets_with_each_window_and_each_run(store):
    per_run = replace(DAILY, window=WindowKind.RUN, limit=10)

    caps = [per_run]
    await reserve(store, "a", 10, caps=caps, run="one")
    assert isinstance(await reserve(store, "b", 1, caps=caps, run="one"), Refusal)
    await reserve(store, "b", 10, caps=caps, run="two")
    await refused(reserve(store, "c", 10, caps=caps), ConfigError)
    await reserve(store, "d", 100)
    await reserve(store, "e", 100, now=NOW + timedelta(days=1))
    assert len(await store.budgets.list_usage()) == 4
