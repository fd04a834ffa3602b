"""Random sequences of verbs about heat and pulls, done to two stores and compared."""

import random
from dataclasses import replace
from datetime import timedelta, timezone

from contracts.attending import BELIEFS, DAY, HOUR, NOW, RULE, TIERS, listed, look, plan, signal
from contracts.backends import ACME, UMBRELLA
from stoker.base.errors import StokerError
from stoker.heat.heat import score_heats
from stoker.heat.model import LookupObservation, SignalKind, Tier

ACCOUNTS = [f"T{n}" for n in range(7)]
RUNS = ["20260207_013000", "20260208_013000", "20260209_013000"]
TEXTS = ["", "plain", "ünï – 日本語 🙂", "quote ' and \\"]
BAD_TEXTS = ["a\0b", "half \ud800"]
SHARES = [0.0, 5e-324, 0.1, 0.5, 1.0]


class AttentionSequence:
    """One sequence of verbs, made up as it goes along. A seed tells one."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.clock = NOW
        self.read = []  # of Acme's heats, a while ago

    def next(self):
        verbs = (
            [self.list_signals] * 5
            + [self.postures] * 2
            + [self.build_heat_sweep] * 4
            + [self.looks] * 4
        )
        return self.rng.choice(
            [*verbs, self.delete_runs, self.find_plan, self.find_plan, self.drop]
        )()

    def list_signals(self):
        rng, whose, now = self.rng, self.owner(), self.now()
        some = [
            signal(
                f"s{rng.randrange(60)}",
                account=rng.choice(ACCOUNTS),
                kind=rng.choice(list(SignalKind)),
                at=self.clock - rng.choice([-2, 0, 0.1, 1, 5, 400]) * HOUR,
                strength=rng.choice(SHARES),
                source=self.text(),
            )
            for _ in range(rng.randrange(6))
        ]
        return f"add_signals {some} {now}", (
            lambda b: whose(b).add_signals(some, rule=RULE, tiers=TIERS, now=now)
        )

    def postures(self):
        rng, whose, now = self.rng, self.owner(), self.now()
        some = {
            one: rng.choice([*SHARES * 9, 1.5]) for one in rng.sample(ACCOUNTS, rng.randrange(4))
        }
        return f"put_postures {some} {now}", (
            lambda b: whose(b).update_postures(some, rule=RULE, tiers=TIERS, now=now)
        )

    def build_heat_sweep(self):
        """Of what was read just now or a while ago, so that some of it has moved."""
        whose, now, read = self.owner(), self.now(), list(self.read)
        if self.rng.random() < 0.1:
            read = read[::-1] + read[:1]

        async def sweep(backend):
            after = score_heats(read, now=now, rule=RULE, tiers=TIERS)
            return await whose(backend).update_heats(after, expected=read)

        return f"put_heats {read} {now}", sweep

    def looks(self):
        rng, whose = self.rng, self.owner()
        some = [
            look(
                f"k{rng.randrange(80)}",
                account=rng.choice(ACCOUNTS),
                at=self.clock + rng.choice([-30, -1, 0, 0.01, 1]) * DAY,
                surface=rng.choice([None, False, True]),
                deep=rng.choice([None, False, True]),
            )
            for _ in range(rng.randrange(5))
        ]
        if rng.random() < 0.03:
            some += [LookupObservation(key="x" * 501, account="T1", at=NOW)]
        return f"observe {some}", lambda b: whose(b).record_lookups(some, rule=BELIEFS)

    def delete_runs(self):
        rng, whose = self.rng, self.owner()
        before, limit = self.clock - rng.choice([0, 1, 20]) * DAY, rng.randrange(4)
        if rng.random() < 0.5:
            return f"prune_signals {before} {limit}", (
                lambda b: whose(b).delete_old_signals(before=before, limit=limit)
            )
        return f"prune_looks {before} {limit}", (
            lambda b: whose(b).delete_old_lookups(before=before, limit=limit)
        )

    def find_plan(self):
        rng, whose = self.rng, self.owner()
        one = plan(rng.choice(RUNS), policy=rng.choice(["tiers", "optimal"]), header={"n": 1})
        if rng.random() < 0.1:
            one = replace(one, header={"text": self.text()}, run=self.text())
        parts = [b"\0\xff"] * rng.randrange(3)
        return f"keep_plan {one} {parts}", lambda b: whose(b).insert_plan(one, parts)

    def drop(self):
        whose, some = self.owner(), self.rng.sample(RUNS, self.rng.randrange(3))
        return f"drop_plans {some}", lambda b: whose(b).delete_plans(some)

    def owner(self):
        name = self.rng.choice([ACME, ACME, ACME, UMBRELLA])
        return lambda backend: backend.tenant(name).attention

    def now(self):
        self.clock += self.rng.choice([0, 0, 0.25, 1, 5, 30]) * HOUR
        back = self.rng.choice([0] * 8 + [1, 600]) * timedelta(seconds=1)
        zone = timezone(timedelta(hours=self.rng.choice([0, 8, -5])))
        now = (self.clock - back).astimezone(zone)
        return now.replace(tzinfo=None) if self.rng.random() < 0.01 else now

    def text(self):
        return self.rng.choice(BAD_TEXTS if self.rng.random() < 0.01 else TEXTS)


async def dump(backend):
    """Return everything there is."""
    found = []
    for name in (ACME, UMBRELLA):
        attention = backend.tenant(name).attention
        found += [await attention.list_heats(), await attention.list_heats(after="T2", limit=2)]
        found += [await attention.list_hottest(limit=3)]
        found += [await attention.list_hottest(limit=2, tier=tier) for tier in Tier]
        found += [await attention.list_signals(account) for account in ACCOUNTS]
        found += [await attention.list_change_rates(), await attention.list_plans()]
        found += [listed(await attention.read_columns())]
        found += [await attention.find_plan_part(run, n) for run in RUNS for n in range(3)]
    return found


async def outcome(verb, backend):
    """Return what a verb answers, or the kind of error it raises."""
    try:
        return await verb(backend)
    except StokerError as error:
        return type(error).__name__


async def first_difference(seed, *, steps, model, other):
    """Do one sequence to both; return how many heats were swept, and the first step they differ."""
    sequence, swept_heats = AttentionSequence(seed), 0
    for _ in range(steps):
        if sequence.rng.random() < 0.5:
            sequence.read = await model.tenant(ACME).attention.list_heats()
        said, verb = sequence.next()
        expected, got = await outcome(verb, model), await outcome(verb, other)
        if got != expected:
            return swept_heats, f"seed {seed}: {said}: expected {expected}, got {got}"
        if said.startswith("update_heats") and isinstance(expected, int):
            swept_heats += expected
    expected, got = await dump(model), await dump(other)
    if got != expected:
        return swept_heats, f"seed {seed}: dump: expected {expected}, got {got}"
    return swept_heats, None
