"""Random sequences of money verbs, with tenants and connectors of their own."""

from datetime import UTC, datetime, time, timedelta

from contracts.agreement import BAD_TEXTS, Sequence
from contracts.money_model import MoneyModel
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, CapChange, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.reservations import OPEN_STATUSES, Reservation, ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.rate_limits.rate_limit import Rate

START = datetime(2026, 2, 7, 15, 20, tzinfo=UTC)  # not long before midnight in Singapore
RULE = ResetRule("Asia/Singapore")
HALF_PAST = ResetRule("UTC", time(15, 30))
OWNERS = ["one", "two", "drei–3"]
UNITS = ["credits", "calls"]


class MoneySequence(Sequence):
    reference = MoneyModel
    seconds = (0, 1, 30, 90, 300)
    seconds_back = (0,) * 12 + (120,) * 3 + (3600,)
    at_once = 6

    def __init__(self, seed):
        super().__init__(seed)
        self.clock = START
        self.tenants = [TenantId(f"s{seed}-{name}") for name in ("a", "b")]
        self.connectors = [f"v{seed}-{name}" for name in ("x", "y")]
        self.caps = [
            self.cap(Scope.TENANT, unit, window)
            for unit in UNITS
            for window in (WindowKind.HOUR, WindowKind.DAY)
        ]
        for connector in self.connectors:
            self.caps += [
                self.cap(Scope.CONNECTOR, "credits", WindowKind.WEEK, connector=connector),
                self.cap(Scope.TENANT_CONNECTOR, "credits", WindowKind.RUN, connector=connector),
            ]

    def cap(self, scope, unit, window, **more):
        limit = self.rng.randint(20, 80)
        return Cap(scope=scope, unit=unit, window=window, limit=limit, **more)

    def next(self):
        return self.rng.choice(
            [self.reserve] * 8 + [self.change_status] * 8 + [self.change_leases] * 2
            + [self.change_rules] * 2 + [self.read] * 3 + [self.share] * 4
        )()  # fmt: skip

    def reserve(self):
        now = self.now()
        units = self.rng.sample(UNITS, self.rng.randint(1, 2))
        request = SpendRequest(
            key=self.key(),
            connector=self.rng.choice(self.connectors),
            amounts={unit: self.rng.choice([0, 1, 5, 15, 90]) for unit in units},
            run=self.rng.choice(["r1", "r2"]) if self.rng.random() < 0.95 else None,
            account=self.rng.choice([None, self.text()]),
            sends_at_once=self.rng.random() < 0.7,
        )
        return self.call(
            "budgets.reserve",
            request,
            caps=self.rng.sample(self.caps, len(self.caps) - (self.rng.random() < 0.1)),
            reset=self.rng.choice([RULE, RULE, ResetRule(), HALF_PAST]),
            owner=self.owner(),
            until=now + timedelta(minutes=self.rng.randint(0, 9)),
            now=now,
        )

    def change_status(self):
        key, now, text = self.key(), self.now(), self.text()
        actual = {self.rng.choice(UNITS): self.rng.choice([0, 1, 5, 15, 200, -1])}
        return self.rng.choice(
            [
                self.call("budgets.mark_sent", key, now=now),
                self.call("budgets.settle", key, actual, now=now),
                self.call("budgets.release", key, reason=text, now=now),
                self.call("budgets.mark_uncertain", key, reason=text, now=now),
            ]
        )

    def change_leases(self):
        now = self.now()
        until = now + timedelta(minutes=self.rng.randint(-9, 9))
        return self.rng.choice(
            [
                self.call("budgets.expire_reservations", now=now),
                self.call("budgets.renew_leases", self.owner(), until=until, now=now),
            ]
        )

    def change_rules(self):
        """Change a cap, stop a connector, or resume it more often than it is stopped."""
        now, text = self.now(), self.text()
        connector = self.rng.choice(["", *self.connectors])
        mine = self.rng.choice(self.connectors)
        cap, limit = self.rng.choice(self.caps), self.rng.choice([None, 0, 10, 100])
        temporary = {"raised_to": 120, "raised_until": now + timedelta(minutes=9)}
        change = CapChange(cap=cap.id, limit=limit, **self.rng.choice([{}, temporary]))
        return self.rng.choice(
            [
                self.call("budgets.change_cap", change, now=now),
                self.call("shared.change_cap", change, now=now),
                self.call("budgets.stop", connector, reason=text, now=now),
                self.call("shared.stop", mine, reason=text, now=now),
                *[self.call("budgets.resume", connector, now=now)] * 4,
                *[self.call("shared.resume", mine, now=now)] * 2,
            ]
        )

    def read(self):
        statuses = self.rng.sample(list(ReservationStatus), self.rng.randint(0, 6))
        statuses, key = self.rng.choice([statuses, list(OPEN_STATUSES)]), self.key()
        page = {"after": key, "limit": self.rng.randint(0, 9)}
        return self.rng.choice(
            [
                self.call("budgets.find_reservation", key),
                self.call("budgets.list_reservations", phases=statuses, **page),
                ("everything", self.dump),
            ]
        )

    def share(self):
        key, now, owner = self.rng.choice(self.connectors), self.now(), self.owner()
        until = now + timedelta(seconds=self.rng.choice([-60, -1, 1, 30, 120, 4000, 86_400]))
        rate = Rate(calls=6, per=timedelta(minutes=1), burst=self.rng.randint(1, 3))
        slot = {"places": self.rng.randint(0, 2), "owner": owner, "until": until, "now": now}
        return self.rng.choice(
            [
                *[self.call("shared.acquire_call", key, rate, now=now)] * 2,
                self.call("shared.delay_until", key, until=until),
                self.call("shared.find_next_at", key),
                *[self.call("shared.acquire_slot", key, **slot)] * 2,
                self.call("shared.release_slot", key, owner=owner),
            ]
        )

    async def dump(self, backend):
        """Return all money of the sequence's tenants and connectors: others share the backend."""
        shared, mine = backend.shared(), ("", *self.connectors)
        changes = await shared.list_cap_changes()
        found = [
            [stop for stop in await shared.list_stops() if stop.connector in mine],
            [usage for usage in await shared.list_usage() if usage.cap.split("/")[1] in mine],
            {cap: change for cap, change in changes.items() if cap.split("/")[1] in mine},
            [
                (entry.kind, entry.subject, entry.reason, entry.data)
                for entry in await shared.ledger.list_entries(limit=100_000)
                if any(name in entry.subject.split("/") for name in self.connectors)
            ],
        ]
        for stores in map(backend.tenant, self.tenants):
            money = stores.budgets
            found += [
                await money.list_reservations(phases=list(ReservationStatus), limit=100_000),
                await money.list_usage(),
                await money.list_cap_changes(),
                [stop for stop in await money.list_stops() if stop.connector in mine],
                await stores.ledger.list_entries(limit=100_000),
            ]
        return found

    def is_counted(self, step, answer):
        return step.startswith("budgets.reserve") and isinstance(answer, Reservation)

    def key(self):
        return f"k{self.rng.randint(0, 14)}"

    def owner(self):
        return self.rng.choice([*BAD_TEXTS, "x" * 501] if self.rng.random() < 0.02 else OWNERS)
