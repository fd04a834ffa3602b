"""Random sequences about tenants, companies and units, done to all backends and compared.

A sequence is told by its seed. There is one list of tenants, so each has a backend to itself.
"""

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone

from contracts.accounts import (
    bare,
    company,
    connection,
    contact,
    dossier,
    ended,
    finding,
    score,
    sent,
    tenant,
    unit,
)
from contracts.backends import ACME, UMBRELLA
from contracts.knowledge import NOW
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import CompanyRecord, EmailStatus
from stoker.base.errors import StokerError
from stoker.base.types import Depth
from stoker.context import Backend, TenantStores
from stoker.enrichment.model import END_STATES, WorkItem, WorkState

RUNS = ["20260207_013000", "20260208_013000"]
OWNERS = ["", "w1", "w2", "w3"]
TEXTS = ["", "plain", "ünï – 日本語 🙂", "quote ' and \\"]
BAD_TEXTS = ["a\0b", "half \ud800"]

Verb = Callable[[Backend], Awaitable[object]]


class NightSequence:
    """One sequence of verbs, made up as it goes along."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = NOW
        self.open: list[WorkItem] = []  # of Acme's first run, so that some ends are real ones

    def next(self) -> tuple[str, Verb]:
        rng = self.rng
        verb = rng.choice(
            [self.setting, self.directory, self.candidates, self.look]
            + [self.companies] * 3
            + [self.plan, self.claim, self.claim, self.keep, self.release]
            + [self.finish] * 6
            + [self.send, self.send]
        )
        return verb()

    def directory(self) -> tuple[str, Verb]:
        one = tenant(
            self.rng.choice(["acme", "umbrella", "bolt", "NO"]), active=self.rng.random() < 0.5
        )
        return f"put_tenant {one}", lambda b: b.directory().save_tenant(one)

    def setting(self) -> tuple[str, Verb]:
        whose, now, word = self.owner(), self.now(), self.text()
        years = (2000, self.rng.choice([2001, 2025]))
        return self.rng.choice(
            [
                (
                    f"put_onboarded {now}",
                    lambda b: whose(b).accounts.complete_setup_step(word, at=now),
                ),
                (f"put_mark {now}", lambda b: whose(b).accounts.set_registry_cursor(now)),
                (
                    f"put_rule {word!r} {years}",
                    lambda b: whose(b).accounts.save_rule(IcpRule(name=word, years=years)),
                ),
                (
                    f"put_connection {word!r} {now}",
                    lambda b: whose(b).accounts.save_connection(
                        connection(url=word, key_expires_at=now)
                    ),
                ),
            ]
        )

    def companies(self) -> tuple[str, Verb]:
        whose, now, rng = self.owner(), self.now(), self.rng
        some = [
            rng.choice([bare, company])(
                f"T{rng.randint(0, 7)}",
                name=self.text(),
                live=rng.random() < 0.8,
                website=rng.choice(["", "https://a.test"]),
                employees=rng.choice([None, 0, 5]),
                last_seen_at=rng.choice([None, NOW]),
            )
            for _ in range(rng.randint(0, 5))
        ]
        return f"upsert_companies {now} {some}", (
            lambda b: whose(b).accounts.upsert_companies(some, now=now)
        )

    def candidates(self) -> tuple[str, Verb]:
        whose, rule = self.owner(), self.rng.choice(["default", "other"])
        some = [f"T{self.rng.randint(0, 9)}" for _ in range(self.rng.randint(0, 6))]
        after, upto = self.rng.choice(["", "T3"]), self.rng.choice([None, "T6"])
        return f"put_candidates {rule} {some} {after} {upto}", (
            lambda b: whose(b).accounts.save_candidates(some, rule=rule, after=after, upto=upto)
        )

    def look(self) -> tuple[str, Verb]:
        whose, rng = self.owner(), self.rng
        after, limit, uen = rng.choice(["", "T2"]), rng.randint(0, 4), f"T{rng.randint(0, 9)}"
        run, least = rng.choice([None, *RUNS]), rng.choice([None, 0.0, 0.5])
        states = rng.sample(list(WorkState), rng.randint(0, 3))
        return rng.choice(
            [
                (
                    f"dossiers {after!r} {limit} {run} {least}",
                    lambda b: whose(b).accounts.list_company_records(
                        after=after, limit=limit, run=run, least=least
                    ),
                ),
                (
                    f"candidates {after!r} {limit}",
                    lambda b: whose(b).accounts.list_candidates(
                        rule="default", after=after, limit=limit
                    ),
                ),
                (
                    f"units {states} {limit}",
                    lambda b: whose(b).nights.list_items(
                        RUNS[0], states=states, after=1, limit=limit
                    ),
                ),
                ("count_visited_since", lambda b: whose(b).accounts.count_visited_since(NOW)),
                (f"last_look {uen}", lambda b: whose(b).nights.find_last_items([uen])),
            ]
        )

    def plan(self) -> tuple[str, Verb]:
        whose, run, rng = self.owner(), a_run(self.rng), self.rng
        # Mostly each company at a place of its own, as a real plan has it.
        places = rng.sample(range(30), rng.randint(0, 5))
        some = [
            unit(
                place,
                company=f"T{place if rng.random() < 0.97 else rng.randint(0, 29)}",
                depth=rng.choice(list(Depth)),
                reason=self.text(),
            )
            for place in places
        ]
        return f"plan_units {run} {some}", lambda b: whose(b).nights.insert_items(run, some)

    def claim(self) -> tuple[str, Verb]:
        whose, run, owner = self.owner(), a_run(self.rng), self.rng.choice(OWNERS)
        now, limit = self.now(), self.rng.randint(0, 4)
        until = now + timedelta(seconds=self.rng.choice([0, 30, 300]))
        return f"take_units {run} {owner!r} {now} {until} {limit}", (
            lambda b: whose(b).nights.claim_items(
                run, owner=owner, until=until, now=now, limit=limit
            )
        )

    def keep(self) -> tuple[str, Verb]:
        whose, run, owner = self.owner(), a_run(self.rng), self.rng.choice(OWNERS)
        until = self.now()
        return f"keep_units {run} {owner!r} {until}", (
            lambda b: whose(b).nights.extend_claims(run, owner=owner, until=until)
        )

    def release(self) -> tuple[str, Verb]:
        whose, run, owner = self.owner(), a_run(self.rng), self.rng.choice(OWNERS)
        return f"give_back_units {run} {owner!r}", (
            lambda b: whose(b).nights.release_items(run, owner=owner)
        )

    def finish(self) -> tuple[str, Verb]:
        whose, run, rng = self.owner(), a_run(self.rng), self.rng
        one = unit(rng.randint(0, 9), owner=rng.choice(OWNERS))
        if self.open and rng.random() < 0.6:
            whose, run, one = (lambda backend: backend.tenant(ACME)), RUNS[0], rng.choice(self.open)
        states = list(WorkState) if rng.random() < 0.1 else [WorkState.DONE, WorkState.DROPPED]
        end = ended(one, state=rng.choice(states), reasons=(self.text(),), ended_at=self.now())
        found = self.found(one.company) if rng.random() < 0.8 else None
        return f"finish_item {run} {end} {found}", (
            lambda b: whose(b).nights.finish_item(run, end, found)
        )

    def found(self, uen: str) -> CompanyRecord:
        rng = self.rng
        whole = dossier(
            uen,
            company=company(uen, name=self.text(), last_seen_at=rng.choice([None, self.now()])),
            facts=tuple(finding(value=self.text()) for _ in range(rng.randint(0, 2))),
            contacts=tuple(
                contact(title=self.text(), verdict=rng.choice(list(EmailStatus)))
                for _ in range(rng.randint(0, 3))
            ),
            score=rng.choice([None, score(rng.choice([0.0, 0.5, 1.0]))]),
            run=rng.choice(["", *RUNS]),
            looked_at=rng.choice([None, self.now()]),
            notes=rng.choice([{}, {"a": self.text()}]),
            extracted_from=self.text(),
        )
        return CompanyRecord(company=bare(uen)) if rng.random() < 0.1 else whole

    def send(self) -> tuple[str, Verb]:
        whose, rng = self.owner(), self.rng
        rows = [
            sent(
                rng.choice("abc"),
                run=a_run(rng),
                digest=self.text(),
                values={"a": self.text()},
                before=rng.choice([{}, {"a": rng.randint(0, 9)}]),
                at=self.now(),
            )
            for _ in range(rng.randint(0, 3))
        ]
        return f"keep_sent {rows}", lambda b: whose(b).nights.save_sent_rows(rows)

    def owner(self) -> Callable[[Backend], TenantStores]:
        name = self.rng.choice([ACME, ACME, ACME, UMBRELLA])
        return lambda backend: backend.tenant(name)

    def now(self) -> datetime:
        self.clock += timedelta(seconds=self.rng.choice([0, 1, 90]))
        back = timedelta(seconds=self.rng.choice([0] * 8 + [1, 600]))
        zone = timezone(timedelta(hours=self.rng.choice([0, 8, -5])))
        now = (self.clock - back).astimezone(zone)
        return now.replace(tzinfo=None) if self.rng.random() < 0.005 else now

    def text(self) -> str:
        return self.rng.choice(BAD_TEXTS if self.rng.random() < 0.005 else TEXTS)


def a_run(rng: random.Random) -> str:
    return rng.choice([RUNS[0], *RUNS])


async def dump(backend: Backend) -> list[object]:
    """Return everything there is."""
    found: list[object] = [await backend.directory().list_tenants()]
    for store in map(backend.tenant, (ACME, UMBRELLA)):
        accounts, nights = store.accounts, store.nights
        found += [
            await accounts.list_setup_steps(),
            await accounts.find_registry_cursor(),
        ]
        found += [await accounts.find_rule(word) for word in TEXTS if word]
        found += [await accounts.find_connection(), await accounts.list_companies()]
        found += [await accounts.find_company_record(f"T{n}") for n in range(10)]
        found += [await accounts.list_candidates(rule=rule) for rule in ("default", "other")]
        found += [await accounts.list_company_records(), await nights.find_sent_rows("abc")]
        for run in RUNS:
            found += [await nights.list_items(run), await nights.count_items(run)]
            found += [await nights.list_sent_rows(run)]
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
    """Do one sequence to both; return how many units ended, and the first step they differ at."""
    sequence, ends = NightSequence(seed), 0
    for _ in range(steps):
        units = await model.tenant(ACME).nights.list_items(RUNS[0])
        sequence.open = [one for one in units if one.state not in END_STATES]
        said, verb = sequence.next()
        expected, got = await outcome(verb, model), await outcome(verb, other)
        if got != expected:
            return ends, f"seed {seed}: {said}: expected {expected}, got {got}"
        ends += said.startswith("finish_item") and expected is True
    expected, got = await dump(model), await dump(other)
    return ends, None if got == expected else f"seed {seed}: dump: expected {expected}, got {got}"
