"""Random sequences of money verbs, done to the memory store and to others, compared step by step.

A sequence is told by its seed. It has tenants and connectors of its own, so that many can share a
database; its clock mostly goes forward, sometimes back a little, and sometimes an hour.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone

from contracts.sequences import Difference
from model.backend import MemoryBackend
from stoker.base.errors import StokerError
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, CapChange, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.context import Backend
from stoker.rate_limits.rate_limit import Rate

START = datetime(2026, 2, 7, 15, 20, tzinfo=UTC)  # not long before midnight in Singapore
RULE = ResetRule("Asia/Singapore")
HALF_PAST = ResetRule("UTC", time(15, 30))
TEXTS = ["", "plain", "ünï – 日本語 🙂", "quote ' and \" and \\", "line\nbreak\ttab"]
BAD_TEXTS = ["a\0b", "half \ud800", "x" * 501]
OWNERS = ["one", "two", "drei–3"]
UNITS = ["credits", "calls"]

Step = tuple[str, Callable[[Backend], Awaitable[object]]]


@dataclass(frozen=True)
class Named:
    """What a sequence calls its own: nobody else uses these."""

    tenants: list[TenantId]
    connectors: list[str]


class MoneySequence:
    """One sequence of verbs for two tenants and what they share, made up as it goes along."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names = Named(
            [TenantId(f"s{seed}-{name}") for name in ("a", "b")],
            [f"v{seed}-{name}" for name in ("x", "y")],
        )
        self.clock = START
        self.caps = [
            Cap(scope=Scope.TENANT, unit=unit, window=window, limit=self.rng.randint(20, 80))
            for unit in UNITS
            for window in (WindowKind.HOUR, WindowKind.DAY)
        ]
        for connector in self.names.connectors:
            shared, own = Scope.CONNECTOR, Scope.TENANT_CONNECTOR
            for scope, window in ((shared, WindowKind.WEEK), (own, WindowKind.RUN)):
                limit = self.rng.randint(20, 80)
                self.caps.append(
                    Cap(
                        scope=scope,
                        unit="credits",
                        window=window,
                        limit=limit,
                        connector=connector,
                    )
                )

    def next(self) -> Step:
        make = self.rng.choice(
            [self.reserve] * 8 + [self.move] * 8 + [self.lapse] * 2 + [self.shuffle] * 2
            + [self.look] * 3 + [self.share] * 4
        )  # fmt: skip
        said, verb = make()
        return f"{self.clock:%H:%M:%S} {said}", verb

    def reserve(self) -> Step:
        tenant, now = self.tenant(), self.now()
        units = self.rng.sample(UNITS, self.rng.randint(1, 2))
        request = SpendRequest(
            key=self.key(),
            connector=self.rng.choice(self.names.connectors),
            amounts={unit: self.rng.choice([0, 1, 5, 15, 90]) for unit in units},
            run=self.rng.choice(["r1", "r2"]) if self.rng.random() < 0.95 else None,
            account=self.rng.choice([None, self.text()]),
            sends_at_once=self.rng.random() < 0.7,
        )
        caps = self.rng.sample(self.caps, len(self.caps) - (self.rng.random() < 0.1))
        terms = {
            "caps": caps,
            "reset": self.rng.choice([RULE, RULE, ResetRule(), HALF_PAST]),
            "owner": self.owner(),
            "until": now + timedelta(minutes=self.rng.randint(0, 9)),
            "now": now,
        }
        return f"reserve {request} {terms['owner']!r} {now}", (
            lambda b: b.tenant(tenant).money.reserve(request, **terms)
        )

    def move(self) -> Step:
        tenant, key, now, text = self.tenant(), self.key(), self.now(), self.text()
        actual = {self.rng.choice(UNITS): self.rng.choice([0, 1, 5, 15, 200, -1])}
        return self.rng.choice(
            [
                (f"sent {key}", lambda b: b.tenant(tenant).money.mark_sent(key, now=now)),
                (
                    f"settle {key} {actual}",
                    lambda b: b.tenant(tenant).money.settle(key, actual, now=now),
                ),
                (
                    f"release {key} {text!r}",
                    lambda b: b.tenant(tenant).money.release(key, reason=text, now=now),
                ),
                (
                    f"keep_aside {key} {text!r}",
                    lambda b: b.tenant(tenant).money.mark_uncertain(key, reason=text, now=now),
                ),
            ]
        )

    def lapse(self) -> Step:
        tenant, owner, now = self.tenant(), self.owner(), self.now()
        until = now + timedelta(minutes=self.rng.randint(-9, 9))
        return self.rng.choice(
            [
                (f"expire {now}", lambda b: b.tenant(tenant).money.expire_reservations(now=now)),
                (
                    f"renew {owner!r} {until}",
                    lambda b: b.tenant(tenant).money.renew_leases(owner, until=until, now=now),
                ),
            ]
        )

    def shuffle(self) -> Step:
        tenant, now, text = self.tenant(), self.now(), self.text()
        connector = self.rng.choice(["", *self.names.connectors])
        mine = self.rng.choice(self.names.connectors)
        cap, limit = self.rng.choice(self.caps), self.rng.choice([None, 0, 10, 100])
        raise_it = {"raised_to": 120, "raised_until": now + timedelta(minutes=9)}
        change = CapChange(cap=cap.id, limit=limit, **self.rng.choice([{}, raise_it]))
        return self.rng.choice(
            [
                (f"{change}", lambda b: b.tenant(tenant).money.change_cap(change, now=now)),
                (f"shared {change}", lambda b: b.shared().change_cap(change, now=now)),
                (
                    f"stop {connector} {text!r}",
                    lambda b: b.tenant(tenant).money.stop(connector, reason=text, now=now),
                ),
                (
                    f"shared stop {mine} {text!r}",
                    lambda b: b.shared().stop(mine, reason=text, now=now),
                ),
                *[(f"resume {connector}", resumed(tenant, connector, now))] * 4,
                *[(f"shared resume {mine}", lambda b: b.shared().resume(mine, now=now))] * 2,
            ]
        )

    def look(self) -> Step:
        tenant, key = self.tenant(), self.key()
        phases = self.rng.sample(list(ReservationStatus), self.rng.randint(0, 6))
        phases = self.rng.choice([phases, list(OPEN_STATUSES)])
        limit = self.rng.randint(0, 9)
        return self.rng.choice(
            [
                (f"hold {key}", lambda b: b.tenant(tenant).money.find_reservation(key)),
                (
                    f"holds {phases} {key} {limit}",
                    lambda b: b.tenant(tenant).money.list_reservations(
                        phases=phases, after=key, limit=limit
                    ),
                ),
                (f"everything of {tenant}", lambda b: dump(b, self.names, tenant)),
            ]
        )

    def share(self) -> Step:
        key, now, owner = self.rng.choice(self.names.connectors), self.now(), self.owner()
        until = now + timedelta(seconds=self.rng.choice([-60, -1, 1, 30, 120, 4000, 86_400]))
        rate = Rate(calls=6, per=timedelta(minutes=1), burst=self.rng.randint(1, 3))
        places = self.rng.randint(0, 2)
        return self.rng.choice(
            [
                *[(f"turn {rate} {now}", lambda b: b.shared().acquire_call(key, rate, now=now))]
                * 2,
                (f"push_back {until}", lambda b: b.shared().delay_until(key, until=until)),
                ("next_at", lambda b: b.shared().find_next_at(key)),
                *[
                    (
                        f"take_place {places} {owner!r} {until} {now}",
                        lambda b: b.shared().acquire_slot(
                            key, places=places, owner=owner, until=until, now=now
                        ),
                    )
                ]
                * 2,
                (f"leave_place {owner!r}", lambda b: b.shared().release_slot(key, owner=owner)),
            ]
        )

    def tenant(self) -> TenantId:
        return self.rng.choice(self.names.tenants)

    def key(self) -> str:
        return f"k{self.rng.randint(0, 14)}"

    def owner(self) -> str:
        return self.rng.choice(BAD_TEXTS if self.rng.random() < 0.02 else OWNERS)

    def text(self) -> str:
        return self.rng.choice(BAD_TEXTS[:2] if self.rng.random() < 0.02 else TEXTS)

    def now(self) -> datetime:
        self.clock += timedelta(seconds=self.rng.choice([0, 1, 30, 90, 300]))
        back = self.rng.choice([0] * 12 + [120] * 3 + [3600])
        zone = timezone(timedelta(hours=self.rng.choice([0, 8, -5])))
        now = (self.clock - timedelta(seconds=back, microseconds=back)).astimezone(zone)
        return now.replace(tzinfo=None) if self.rng.random() < 0.01 else now


def resumed(
    tenant: TenantId, connector: str, now: datetime
) -> Callable[[Backend], Awaitable[object]]:
    return lambda b: b.tenant(tenant).money.resume(connector, now=now)


async def dump(backend: Backend, names: Named, tenant: TenantId) -> list[object]:
    """Return everything of a tenant's money, and of what its sequence shares."""
    store, shared = backend.tenant(tenant), backend.shared()
    money, mine = store.money, ("", *names.connectors)
    return [
        await money.list_reservations(phases=list(ReservationStatus), limit=100_000),
        await money.list_usage(),
        await money.list_cap_changes(),
        [stop for stop in await money.list_stops() if stop.connector in mine],
        [stop for stop in await shared.list_stops() if stop.connector in mine],
        [usage for usage in await shared.list_usage() if usage.cap.split("/")[1] in mine],
        {
            cap: change
            for cap, change in (await shared.list_cap_changes()).items()
            if cap.split("/")[1] in mine
        },
        await store.ledger.list_entries(limit=100_000),
        [
            (entry.kind, entry.subject, entry.reason, entry.data)
            for entry in await shared.ledger.list_entries(limit=100_000)
            if any(name in entry.subject.split("/") for name in names.connectors)
        ],
    ]


async def money_compared(
    seed: int, *, steps: int, model: MemoryBackend, others: dict[str, Backend]
) -> tuple[int, list[Difference]]:
    """Do one sequence to all; return how many promises were given, and every difference."""
    sequence, differences = MoneySequence(seed), []
    for _ in range(steps):
        try:
            said, verb = sequence.next()
        except StokerError:
            continue  # the sequence made up a value that cannot even exist
        differences += await _differences(seed, said, verb, model, others)
    granted = 0
    for tenant in sequence.names.tenants:
        granted += len(
            await model.tenant(tenant).money.list_reservations(phases=list(ReservationStatus))
        )

        async def everything(backend: Backend, tenant: TenantId = tenant) -> object:
            return await dump(backend, sequence.names, tenant)

        differences += await _differences(seed, f"dump of {tenant}", everything, model, others)
    return granted, differences


async def _differences(
    seed: int,
    said: str,
    verb: Callable[[Backend], Awaitable[object]],
    model: MemoryBackend,
    others: dict[str, Backend],
) -> list[Difference]:
    expected = await _outcome(verb, model)
    answers = await asyncio.gather(*(_outcome(verb, backend) for backend in others.values()))
    return [
        Difference(seed, said, name, expected, got)
        for name, got in zip(others, answers, strict=True)
        if got != expected
    ]


async def _outcome(verb: Callable[[Backend], Awaitable[object]], backend: Backend) -> object:
    try:
        return await verb(backend)
    except StokerError as error:
        return type(error).__name__
