"""Random sequences about heat, lookups and pull plans."""

from dataclasses import replace

from contracts.agreement import Sequence
from contracts.attending import BELIEFS, DAY, HOUR, NOW, RULE, TIERS, listed, look, plan, signal
from contracts.backends import ACME
from stoker.heat.heat import score_heats
from stoker.heat.model import LookupObservation, SignalKind, Tier

ACCOUNTS = [f"T{n}" for n in range(7)]
RUNS = ["20260207_013000", "20260208_013000", "20260209_013000"]
SHARES = [0.0, 5e-324, 0.1, 0.5, 1.0]


class HeatSequence(Sequence):
    seconds = (0, 0, 900, 3600, 18_000, 108_000)
    heats = ()  # of Acme, as they were some steps ago

    async def observe(self, reference):
        await super().observe(reference)
        if self.rng.random() < 0.5:
            self.heats = await reference.tenant(ACME).attention.list_heats()

    def next(self):
        return self.rng.choice(
            [self.add_signals] * 5 + [self.update_postures] * 2 + [self.update_heats] * 4
            + [self.record_lookups] * 4 + [self.delete_old] + [self.insert_plan] * 2
            + [self.delete_plans]
        )()  # fmt: skip

    def add_signals(self):
        rng, now = self.rng, self.now()
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
        return self.call("attention.add_signals", some, rule=RULE, tiers=TIERS, now=now)

    def update_postures(self):
        accounts = self.rng.sample(ACCOUNTS, self.rng.randrange(4))
        some = {one: self.rng.choice([*SHARES * 9, 1.5]) for one in accounts}
        return self.call("attention.update_postures", some, rule=RULE, tiers=TIERS, now=self.now())

    def update_heats(self):
        """Sweep what was read just now or some steps ago: some of it has changed since."""
        heats = list(self.heats)
        if self.rng.random() < 0.1:
            heats = heats[::-1] + heats[:1]
        after = score_heats(heats, now=self.now(), rule=RULE, tiers=TIERS)
        return self.call("attention.update_heats", after, expected=heats)

    def record_lookups(self):
        rng = self.rng
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
        return self.call("attention.record_lookups", some, rule=BELIEFS)

    def delete_old(self):
        before, limit = self.clock - self.rng.choice([0, 1, 20]) * DAY, self.rng.randrange(4)
        verb = self.rng.choice(["delete_old_signals", "delete_old_lookups"])
        return self.call(f"attention.{verb}", before=before, limit=limit)

    def insert_plan(self):
        rng = self.rng
        one = plan(rng.choice(RUNS), policy=rng.choice(["tiers", "optimal"]), header={"n": 1})
        if rng.random() < 0.1:
            one = replace(one, header={"text": self.text()}, run=self.text())
        return self.call("attention.insert_plan", one, [b"\0\xff"] * rng.randrange(3))

    def delete_plans(self):
        return self.call("attention.delete_plans", self.rng.sample(RUNS, self.rng.randrange(3)))

    async def dump(self, backend):
        found = []
        for name in set(self.tenants):
            heats = backend.tenant(name).attention
            found += [await heats.list_heats(), await heats.list_heats(after="T2", limit=2)]
            found += [await heats.list_hottest(limit=3)]
            found += [await heats.list_hottest(limit=2, tier=tier) for tier in Tier]
            found += [await heats.list_signals(account) for account in ACCOUNTS]
            found += [await heats.list_change_rates(), await heats.list_plans()]
            found += [listed(await heats.read_columns())]
            found += [await heats.find_plan_part(run, n) for run in RUNS for n in range(3)]
        return found

    def is_counted(self, step, answer):
        return step.startswith("attention.update_heats") and isinstance(answer, int) and answer > 0
