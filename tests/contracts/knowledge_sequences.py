"""Random sequences about the register, pages and answers, done to all backends and compared.

A sequence is told by its seed. There is one register, so each sequence has a backend to itself.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from contracts.backends import ACME, UMBRELLA
from contracts.knowledge import NOW, PARTS, answer, entity, load, page, reject
from stoker.base.errors import StokerError
from stoker.context import Backend
from stoker.registry.model import IndustryCode, Load, LoadCount

RELEASES = ["2026-01-31", "2026-02-28", "2026-03-31"]
# Most of the register is read by the first step, so that few loads more make a release whole.
FEW = ["A", "B", "Others"]
TEXTS = ["", "plain", "ünï – 日本語 🙂", "quote ' and \\"]
BAD_TEXTS = ["a\0b", "half \ud800"]

Verb = Callable[[Backend], Awaitable[object]]


class KnowledgeSequence:
    """One sequence of verbs, made up as it goes along."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = NOW

    def next(self) -> tuple[str, Verb]:
        rng = self.rng
        return rng.choice(
            [self.begin, self.end, self.end, self.rejects, self.pages, self.answers]
            + [self.entities] * 6
            + [self.follow, self.look]
        )()

    def begin(self) -> tuple[str, Verb]:
        one = replace(self.load(), began_at=self.now(), source=self.text())
        return f"begin_load {one}", lambda b: b.registry().begin_load(one)

    def entities(self) -> tuple[str, Verb]:
        one, now = self.load(), self.now()
        rows = [
            entity(
                f"T{self.rng.randint(0, 9)}",
                name=self.text(),
                officers=self.rng.choice([None, 1]),
                ssic=self.rng.choice(["", "01111"]),
                live=self.rng.random() < 0.5,
            )
            for _ in range(self.rng.randint(0, 6))
        ]
        return f"load_entities {one.id} {now} {rows}", (
            lambda b: b.registry().load_entities(one, rows, now=now)
        )

    def end(self) -> tuple[str, Verb]:
        count = LoadCount(new=self.rng.randint(0, 9), rejected=1, gone=5)
        one, now = replace(self.load(), count=count), self.now()
        return f"end_load {one.id} {now}", lambda b: b.registry().end_load(one, now=now)

    def rejects(self) -> tuple[str, Verb]:
        one = self.load()
        lines = [self.rng.randint(0, 5) for _ in range(self.rng.randint(0, 4))]
        bad = [reject(line, of=one, reason=self.text()) for line in lines]
        return f"reject_rows {one.id} {bad}", lambda b: b.registry().reject_rows(one, bad)

    def pages(self) -> tuple[str, Verb]:
        tenant, site = self.rng.choice([ACME, UMBRELLA]), self.rng.choice(["a.test", "b.test"])
        if self.rng.random() < 0.2:
            return f"forget_site {site}", lambda b: b.tenant(tenant).pages.delete_site(site)
        seen = [
            page(self.rng.choice("abc") + self.text(), etag=self.text(), seen_at=self.now())
            for _ in range(self.rng.randint(0, 3))
        ]
        return f"remember_pages {tenant} {site} {seen}", (
            lambda b: b.tenant(tenant).pages.save_pages(site, seen)
        )

    def answers(self) -> tuple[str, Verb]:
        tenant, now, limit = self.rng.choice([ACME, UMBRELLA]), self.now(), self.rng.randint(0, 3)
        if self.rng.random() < 0.3:
            return f"forget_answers {tenant} {now} {limit}", (
                lambda b: b.tenant(tenant).answers.delete_answers(before=now, limit=limit)
            )
        kept = [
            answer(
                self.rng.choice("abcd"),
                answer=self.rng.choice([None, 1, self.text(), [self.text()], {"a": 0.1}]),
                expires_at=self.now(),
            )
            for _ in range(self.rng.randint(0, 3))
        ]
        return f"keep_answers {tenant} {kept}", (
            lambda b: b.tenant(tenant).answers.save_answers(kept)
        )

    def follow(self) -> tuple[str, Verb]:
        since = self.rng.choice([None, NOW, self.clock, self.clock - timedelta(minutes=5)])
        after, limit = self.rng.choice(["", "T0", "T5"]), self.rng.randint(0, 5)
        return f"entities_changed {since} {after!r} {limit}", (
            lambda b: b.registry().list_changed_entities(since=since, after=after, limit=limit)
        )

    def look(self) -> tuple[str, Verb]:
        by, uen = self.rng.choice(["status", "division", "state"]), f"T{self.rng.randint(0, 9)}"
        version = self.rng.choice(["2020", "2025"])
        codes = [
            IndustryCode(version="2020", code=one, title=self.text(), level="class")
            for one in self.rng.sample("ABC", 2)
        ]
        return self.rng.choice(
            [
                (f"count_entities {by}", lambda b: b.registry().count_entities(by=by)),
                (f"entity {uen}", lambda b: b.registry().find_entity(uen)),
                (f"load_codes {codes}", lambda b: b.registry().load_codes(version, codes)),
            ]
        )

    def load(self) -> Load:
        return load(self.rng.choice(FEW), release=self.rng.choice(RELEASES))

    def now(self) -> datetime:
        self.clock += timedelta(seconds=self.rng.choice([0, 1, 90]))
        back = timedelta(seconds=self.rng.choice([0] * 8 + [1, 600]))
        zone = timezone(timedelta(hours=self.rng.choice([0, 8, -5])))
        now = (self.clock - back).astimezone(zone)
        return now.replace(tzinfo=None) if self.rng.random() < 0.01 else now

    def text(self) -> str:
        return self.rng.choice(BAD_TEXTS if self.rng.random() < 0.01 else TEXTS)


async def begun(backend: Backend) -> None:
    """Read all but a few parts of each release, empty, and begin the rest."""
    registry = backend.registry()
    for one in [load(part, release=release) for release in RELEASES for part in PARTS]:
        await registry.begin_load(one)
        if one.part not in FEW:
            await registry.end_load(one, now=NOW)


async def dump(backend: Backend) -> list[object]:
    """Return everything there is."""
    registry = backend.registry()
    found = [
        await registry.list_changed_entities(),
        await registry.list_loads(),
        await registry.list_rejects(),
    ]
    found += [await registry.list_codes("2020"), await registry.list_codes("2025")]
    for store in map(backend.tenant, (ACME, UMBRELLA)):
        found += [await store.pages.list_pages("a.test"), await store.pages.list_pages("b.test")]
        found.append(await store.answers.find_answers("abcd"))
    return found


async def outcome(verb: Verb, backend: Backend) -> object:
    """Return what a verb answers, or the kind of error it raises."""
    try:
        return await verb(backend)
    except StokerError as error:
        return type(error).__name__


async def first_difference(
    seed: int, *, steps: int, model: Backend, other: Backend
) -> tuple[int, str | None]:
    """Do one sequence to both; return how many entities went, and the first step they differ at."""
    sequence = KnowledgeSequence(seed)
    await begun(model)
    await begun(other)
    gone = 0
    for _ in range(steps):
        said, verb = sequence.next()
        expected, got = await outcome(verb, model), await outcome(verb, other)
        if got != expected:
            return gone, f"seed {seed}: {said}: expected {expected}, got {got}"
        gone += expected.count.gone if isinstance(expected, Load) else 0
    expected, got = await dump(model), await dump(other)
    return gone, None if got == expected else f"seed {seed}: dump: expected {expected}, got {got}"
