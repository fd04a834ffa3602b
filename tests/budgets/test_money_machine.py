"""Any sequence of what can happen to money, on the pure functions, against a model that only adds.

The gate here is what a store is without its database: the core's functions and three dictionaries.
The model is written on its own: it keeps a list of promises and sums it up from the beginning each
time, works out windows by plain division, and has a vendor with a charge counter of its own. The
rule by which budgets reset changes on the way, as settings do.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from itertools import combinations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stoker.base.errors import ConflictError
from stoker.budgets import reservations as holds
from stoker.budgets.caps import Cap, CapChange, Scope, merge_changes
from stoker.budgets.charges import (
    Refusal,
    SpendRequest,
    Totals,
    find_clock_refusal,
    find_refusal,
    list_charges,
)
from stoker.budgets.ledger_entries import (
    Replay,
    build_cap_entry,
    build_refused_entry,
    build_reserved_entry,
    build_status_entry,
    find_differences,
)
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.ledger.chain import chain_entries, find_first_break

START = datetime(2026, 11, 13, 15, 50, tzinfo=UTC)
HOUR, LEASE = timedelta(hours=1), timedelta(minutes=10)
RULES = {  # by how many hours they are ahead of days that begin at midnight in UTC
    2: ResetRule("Asia/Singapore", time(6, 0)),
    0: ResetRule("UTC", time(0, 0)),
    -9: ResetRule("Asia/Tokyo", time(18, 0)),
}
LUSHA = {"connector": "lusha"}
CAPS = [
    Cap(scope=Scope.TENANT_CONNECTOR, **LUSHA, unit="credits", window=WindowKind.DAY, limit=12),
    Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.WEEK, limit=30),
    Cap(scope=Scope.TENANT, unit="money:USD", window=WindowKind.RUN, limit=25),
    Cap(scope=Scope.CONNECTOR, **LUSHA, unit="credits", window=WindowKind.HOUR, limit=9),
]
FACTORS = {"credits": 1, "money:USD": 2}


@dataclass
class Gate:
    """What a store does in one transaction, in memory."""

    kept: dict = field(default_factory=dict)
    totals: dict = field(default_factory=dict)
    changes: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    latest: datetime | None = None
    rule: ResetRule = RULES[2]

    def reserve(self, request, *, now):
        if request.key in self.kept:
            return self.kept[request.key]
        late = find_clock_refusal(now, latest=self.latest)
        at = self._at(now)
        opened = self.opened()
        wanted = list_charges(request, CAPS, self.changes, reset=self.rule, now=at, opened=opened)
        refused = late or find_refusal(wanted, self.totals)
        if refused:
            self.notes.append(build_refused_entry(request, refused, now=at))
            return refused
        hold = holds.build_reservation(request, tuple(wanted), owner="me", until=at + LEASE, now=at)
        self.kept[hold.key] = hold
        self.count(hold, sign=1)
        self.notes.append(build_reserved_entry(hold, now=at))
        return hold

    def move(self, key, step, *, now):
        before = self.kept[key]
        at = self._at(now)
        after = step(before, at)
        if after is before:
            return after
        self.count(before, sign=-1)
        self.count(after, sign=1)
        self.kept[key] = after
        self.notes.append(build_status_entry(before, after, now=at))
        return after

    def opened(self):
        return self.totals

    def lapse(self, hold, at):
        return holds.expire_reservation(hold, now=at)

    def settle(self, hold, actual, at):
        return holds.settle_reservation(hold, actual, now=at)

    def change_cap(self, change, *, now):
        self.changes[change.cap] = merge_changes(self.changes.get(change.cap), change)
        self.notes.append(build_cap_entry(change, now=self._at(now)))

    def count(self, hold, *, sign):
        for place, (spent, promised) in holds.compute_totals(hold).items():
            there = self.totals.get(place, Totals())
            self.totals[place] = Totals(
                settled=there.settled + sign * spent, reserved=there.reserved + sign * promised
            )

    def _at(self, now):
        self.latest = now if self.latest is None else max(now, self.latest)
        return self.latest


@dataclass
class Promised:
    """One promise as the model sees it."""

    amount: int
    run: str
    own: dict  # by cap, the window it was asked for in
    places: dict  # by cap, all windows it was charged to
    until: datetime
    state: str
    charged: int = 0  # by the vendor, on its own counter
    cost: int = 0
    late: bool = False  # it had been given back when its cost became known
    again: bool = False  # it had been given back when it was kept aside


def plain_window(cap, at, run, ahead):
    """The window of a moment, by division: from when until when, in seconds."""
    if cap.window is WindowKind.RUN:
        return run
    if cap.shared:
        ahead = 0
    length = {"hour": 3600, "day": 86400, "week": 7 * 86400}[cap.window]
    shift = ahead * 3600 + (3 * 86400 if cap.window is WindowKind.WEEK else 0)  # 1970: a Thursday
    start = (int(at.timestamp()) + shift) // length * length - shift
    return (start, start + length)


def overlap(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one[0] < other[1] and other[0] < one[1]


class MoneyMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.get_gate = Gate()
        self.now = self.latest = START
        self.model: dict[str, Promised] = {}
        self.limits = {cap.id: cap.limit for cap in CAPS}
        self.raised: dict[str, tuple[int, datetime]] = {}
        self.highest: dict = {}
        self.names: dict = {}
        self.proceed = 2

    @initialize()
    def claim_key(self):
        self.get_gate.latest = START

    def limit(self, cap):
        to, until = self.raised.get(cap.id, (0, START))
        return max(self.limits[cap.id], to) if self.latest < until else self.limits[cap.id]

    def tick(self):
        """Move to the latest time the gate has seen; only what asks the gate shows it a clock."""
        self.latest = max(self.latest, self.now)

    def given_away(self, place, cap):
        factor = FACTORS[cap.unit]
        there = [one for one in self.model.values() if place in one.places[cap.id]]
        reserved = sum(one.amount for one in there if one.state in ("held", "sent", "aside"))
        return sum(one.cost for one in there) * factor, reserved * factor

    @rule(passed=st.integers(-150, 1800) | st.integers(0, 20))
    def time_passes_or_jumps(self, passed):
        self.now += passed * timedelta(minutes=1)

    @rule(
        amount=st.integers(0, 10),
        run=st.sampled_from(["r1", "r2"]),
        at_once=st.booleans(),
    )
    def reserve(self, amount, run, at_once):
        key = f"k{len(self.model)}"
        request = SpendRequest(
            key=key,
            connector="lusha",
            amounts={unit: amount * factor for unit, factor in FACTORS.items()},
            run=run,
            sends_at_once=at_once,
        )
        went_back = self.latest - self.now > timedelta(minutes=5)
        self.tick()
        own = {cap.id: plain_window(cap, self.latest, run, self.proceed) for cap in CAPS}
        places = {
            cap.id: {own[cap.id]} | {at for at in self.opened(cap) if overlap(at, own[cap.id])}
            for cap in CAPS
        }
        room = all(
            gone + amount * FACTORS[cap.unit] <= self.limit(cap)
            for cap in CAPS
            for gone in self.gone(cap, own[cap.id], places[cap.id])
        )

        answer = self.get_gate.reserve(request, now=self.now)

        assert isinstance(answer, Refusal) == (went_back or not room)
        if isinstance(answer, Refusal):
            return
        self.model[key] = Promised(
            amount=amount,
            run=run,
            own=own,
            places=places,
            until=self.latest + LEASE,
            state="sent" if at_once else "held",
        )
        for cap in CAPS:
            for window in places[cap.id]:
                place = (cap.id, window)
                self.highest[place] = max(self.highest.get(place, 0), self.limit(cap))
            charged = [charge.window for charge in answer.charges if charge.cap == cap.id]
            assert len(charged) == len(places[cap.id])
            for window, told in zip(sorted(places[cap.id]), charged, strict=True):
                assert self.names.setdefault((cap.id, window), told) == told

    def opened(self, cap):
        """All windows of a cap that were ever charged."""
        return {window for one in self.model.values() for window in one.places[cap.id]}

    def gone(self, cap, own, charged):
        """How full each window is that a request is charged to, the one it is asked for in first.

        Of that one, also what others gave away by themselves: whichever of them, of all that do
        not overlap each other, is the most.
        """
        spent, promised = self.given_away(own, cap)
        others = {window: self.given_away(window, cap) for window in charged - {own}}
        alone = {
            window: max(0, there[0] - spent) + max(0, there[1] - promised)
            for window, there in others.items()
        }
        apart = [
            some
            for count in range(len(others) + 1)
            for some in combinations(others, count)
            if not any(overlap(one, other) for one, other in combinations(some, 2))
        ]
        carried = max(sum(alone[window] for window in some) for some in apart)
        return [spent + promised + carried, *(sum(there) for there in others.values())]

    @rule(ahead=st.sampled_from(sorted(RULES)))
    def settings_change_when_budgets_reset(self, ahead):
        self.proceed = ahead
        self.get_gate.rule = RULES[ahead]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def reserve_again_under_a_used_key(self, data):
        key = data.draw(st.sampled_from(sorted(self.model)))
        request = SpendRequest(key=key, connector="lusha", amounts={"credits": 9999})

        assert self.get_gate.reserve(request, now=self.now) is self.get_gate.kept[key]

    def pick(self, data):
        key = data.draw(st.sampled_from(sorted(self.model)))
        return key, self.model[key]

    def moved(self, key, step, *, to, allowed):
        """Try a step; it must go exactly when the model says so."""
        self.tick()
        if allowed:
            self.get_gate.move(key, step, now=self.now)
            self.model[key].state = to
        else:
            with pytest.raises(ConflictError):
                self.get_gate.move(key, step, now=self.now)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def send(self, data):
        key, one = self.pick(data)
        self.moved(
            key,
            lambda hold, at: holds.mark_sent(hold),
            to="sent",
            allowed=one.state in ("held", "sent"),
        )

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def the_vendor_charges(self, data):
        """At any time after a promise may have been sent, also when its owner has long died."""
        _, one = self.pick(data)
        if one.state in ("sent", "aside"):
            one.charged = one.amount

    @precondition(lambda self: self.model)
    @rule(data=st.data(), over=st.sampled_from([0, 0, 0, 3]), less=st.integers(0, 3))
    def settle(self, data, over, less):
        """At what the vendor charged: the promise, less of it, or more, also long after."""
        key, one = self.pick(data)
        returned = one.state in ("back", "gone")
        cost = (one.charged or max(one.amount - less, 0)) + over
        if one.state == "settled":
            cost = one.cost
        actual = {unit: cost * factor for unit, factor in FACTORS.items()}

        def step(hold, at):
            return self.get_gate.settle(hold, actual, at)

        to = one.state if returned and not cost else "settled"
        one.late = one.late or (returned and cost > 0)
        self.moved(key, step, to=to, allowed=True)
        one.cost = one.charged = cost

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def release(self, data):
        key, one = self.pick(data)
        if one.charged and one.state != "settled":
            return  # nobody who was charged says that nothing was done
        to = "gone" if one.state == "gone" else "back"

        def step(hold, at):
            return holds.release_reservation(hold, now=at, reason="nothing was done")

        self.moved(key, step, to=to, allowed=one.state != "settled")

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def mark_uncertain(self, data):
        key, one = self.pick(data)

        def step(hold, at):
            return holds.mark_uncertain(hold, reason="no answer")

        one.again = one.again or one.state in ("back", "gone")
        self.moved(key, step, to="aside", allowed=one.state != "settled")

    @precondition(lambda self: self.model)
    @rule()
    def owners_that_fell_silent_lapse(self):
        self.tick()
        for key, one in self.model.items():
            self.get_gate.move(key, self.get_gate.lapse, now=self.now)
            if self.latest >= one.until:
                one.state = {"held": "gone", "sent": "aside"}.get(one.state, one.state)

    @rule(cap=st.sampled_from(CAPS), limit=st.integers(0, 40))
    def a_limit_is_set(self, cap, limit):
        self.tick()
        self.limits[cap.id] = limit
        self.get_gate.change_cap(CapChange(cap=cap.id, limit=limit), now=self.now)

    @rule(cap=st.sampled_from(CAPS), to=st.integers(0, 60), hours=st.integers(-1, 40))
    def a_limit_is_raised_for_a_while(self, cap, to, hours):
        self.tick()
        until = self.latest + hours * HOUR
        self.raised[cap.id] = (to, until)
        self.get_gate.change_cap(
            CapChange(cap=cap.id, raised_to=to, raised_until=until), now=self.now
        )

    def total(self, cap, window):
        return self.get_gate.totals.get((cap, window), Totals())

    @invariant()
    def the_totals_are_what_the_model_adds_up_to(self):
        for cap in CAPS:
            for place in self.opened(cap):
                settled, reserved = self.given_away(place, cap)
                total = self.total(cap.id, self.names[cap.id, place])
                assert total == Totals(settled=settled, reserved=reserved)

    @invariant()
    def each_window_of_the_model_is_one_of_the_gates(self):
        assert len({(cap, name) for (cap, _), name in self.names.items()}) == len(self.names)

    @invariant()
    def no_cap_gave_away_more_than_it_ever_allowed_but_for_overruns(self):
        """I1, on the vendor's own counter, for every two windows that overlap together."""
        for cap, place in self.highest:
            for other in {
                at for at_cap, at in self.highest if at_cap == cap and overlap(at, place)
            }:
                there = [one for one in self.model.values() if one.own[cap] in (place, other)]
                factor = FACTORS[cap.split("/")[2]]
                over = sum(
                    one.charged if one.late or one.again else max(one.cost - one.amount, 0)
                    for one in there
                )
                highest = max(self.highest[cap, place], self.highest[cap, other])
                assert sum(one.charged for one in there) * factor <= highest + over * factor

    @invariant()
    def what_is_spent_or_promised_is_never_less_than_the_vendor_charged(self):
        """I2: money may be counted that was not spent, never the other way round."""
        for (cap, place), name in self.names.items():
            there = [one for one in self.model.values() if one.own[cap] == place]
            charged = sum(one.charged for one in there) * FACTORS[cap.split("/")[2]]
            assert self.total(cap, name).total >= charged

    def teardown(self):
        """The ledger alone gives the same totals and the same open promises, in pages or whole."""
        entries = chain_entries(self.get_gate.notes, after=None)
        own = {
            place: used for place, used in self.get_gate.totals.items() if place[0][:5] == "tenan"
        }
        shared = {
            place: self.get_gate.totals[place] for place in self.get_gate.totals.keys() - own.keys()
        }
        replay = Replay()
        for page in range(0, len(entries), 7):
            replay.read(entries[page : page + 7])

        assert find_first_break(entries) is None
        assert replay.faults == []
        assert find_differences(replay.own, own) == []
        assert find_differences(replay.shared, shared) == []
        assert {key: promise.status for key, promise in replay.open.items()} == {
            key: hold.status
            for key, hold in self.get_gate.kept.items()
            if hold.status in holds.OPEN_STATUSES
        }


TestMoney = MoneyMachine.TestCase
TestMoney.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


@pytest.mark.parametrize(("back", "granted"), [(6, True), (7, False)])
def test_a_charge_by_the_vendor_does_not_show_the_gate_a_later_clock(back, granted):
    """The gate has seen minute 0; what the vendor does in minute 1 it does not see."""

    class FirstKey:
        def draw(self, strategy):
            return "k0"

    machine = MoneyMachine()
    machine.claim_key()
    machine.reserve(amount=0, run="r1", at_once=True)
    machine.time_passes_or_jumps(passed=1)
    machine.the_vendor_charges(data=FirstKey())
    machine.time_passes_or_jumps(passed=-back)
    machine.reserve(amount=0, run="r1", at_once=True)

    assert len(machine.get_gate.kept) == 1 + granted
    machine.teardown()
