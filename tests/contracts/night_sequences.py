"""Random sequences about tenants, companies, work items and rows sent to a CRM."""

from datetime import timedelta

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
from contracts.agreement import TEXTS, Sequence
from contracts.backends import ACME
from contracts.knowledge import NOW
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import CompanyRecord, EmailStatus
from stoker.base.types import Depth
from stoker.enrichment.model import END_STATES, WorkState

RUNS = ["20260207_013000", "20260208_013000"]
OWNERS = ["", "w1", "w2", "w3"]
RULES = ["default", "other"]


class NightSequence(Sequence):
    bad_share = 0.005

    async def observe(self, reference):
        await super().observe(reference)
        items = await reference.tenant(ACME).nights.list_items(RUNS[0])
        self.open = [item for item in items if item.state not in END_STATES]

    def next(self):
        return self.rng.choice(
            [self.set_up, self.save_tenant, self.save_candidates, self.read]
            + [self.upsert_companies] * 3 + [self.insert_items] + [self.claim_items] * 2
            + [self.extend_claims, self.release_items] + [self.finish_item] * 6
            + [self.save_sent_rows] * 2
        )()  # fmt: skip

    def save_tenant(self):
        name, active = self.rng.choice(["acme", "umbrella", "bolt", "NO"]), self.rng.random() < 0.5
        return self.call("directory.save_tenant", tenant(name, active=active))

    def set_up(self):
        now, word = self.now(), self.text()
        rule = IcpRule(name=word, years=(2000, self.rng.choice([2001, 2025])))
        return self.rng.choice(
            [
                self.call("accounts.complete_setup_step", word, at=now),
                self.call("accounts.set_registry_cursor", now),
                self.call("accounts.save_rule", rule),
                self.call("accounts.save_connection", connection(url=word, key_expires_at=now)),
            ]
        )

    def upsert_companies(self):
        rng = self.rng
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
        return self.call("accounts.upsert_companies", some, now=self.now())

    def save_candidates(self):
        some = [f"T{self.rng.randint(0, 9)}" for _ in range(self.rng.randint(0, 6))]
        after, upto = self.rng.choice(["", "T3"]), self.rng.choice([None, "T6"])
        rule = self.rng.choice(RULES)
        return self.call("accounts.save_candidates", some, rule=rule, after=after, upto=upto)

    def read(self):
        rng = self.rng
        page = {"after": rng.choice(["", "T2"]), "limit": rng.randint(0, 4)}
        run, least = rng.choice([None, *RUNS]), rng.choice([None, 0.0, 0.5])
        states = rng.sample(list(WorkState), rng.randint(0, 3))
        return rng.choice(
            [
                self.call("accounts.list_company_records", **page, run=run, least=least),
                self.call("accounts.list_candidates", rule="default", **page),
                self.call("nights.list_items", RUNS[0], states=states, after=1, limit=3),
                self.call("accounts.count_visited_since", NOW),
                self.call("nights.find_last_items", [f"T{rng.randint(0, 9)}"]),
            ]
        )

    def insert_items(self):
        rng = self.rng
        # Mostly each company at a rank of its own, as in a real plan.
        ranks = rng.sample(range(30), rng.randint(0, 5))
        some = [
            unit(
                rank,
                company=f"T{rank if rng.random() < 0.97 else rng.randint(0, 29)}",
                depth=rng.choice(list(Depth)),
                reason=self.text(),
            )
            for rank in ranks
        ]
        return self.call("nights.insert_items", self.run(), some)

    def claim_items(self):
        now, owner = self.now(), self.rng.choice(OWNERS)
        until = now + timedelta(seconds=self.rng.choice([0, 30, 300]))
        limit = self.rng.randint(0, 4)
        return self.call(
            "nights.claim_items", self.run(), owner=owner, until=until, now=now, limit=limit
        )

    def extend_claims(self):
        owner = self.rng.choice(OWNERS)
        return self.call("nights.extend_claims", self.run(), owner=owner, until=self.now())

    def release_items(self):
        return self.call("nights.release_items", self.run(), owner=self.rng.choice(OWNERS))

    def finish_item(self):
        run, rng = self.run(), self.rng
        item = unit(rng.randint(0, 9), owner=rng.choice(OWNERS))
        if self.open and rng.random() < 0.6:
            self.tenant, run, item = ACME, RUNS[0], rng.choice(self.open)
        states = list(WorkState) if rng.random() < 0.1 else [WorkState.DONE, WorkState.DROPPED]
        end = ended(item, state=rng.choice(states), reasons=(self.text(),), ended_at=self.now())
        record = self.record(item.company) if rng.random() < 0.8 else None
        return self.call("nights.finish_item", run, end, record)

    def record(self, uen):
        rng = self.rng
        if rng.random() < 0.1:
            return CompanyRecord(company=bare(uen))
        return dossier(
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

    def save_sent_rows(self):
        rng = self.rng
        rows = [
            sent(
                rng.choice("abc"),
                run=self.run(),
                digest=self.text(),
                values={"a": self.text()},
                before=rng.choice([{}, {"a": rng.randint(0, 9)}]),
                at=self.now(),
            )
            for _ in range(rng.randint(0, 3))
        ]
        return self.call("nights.save_sent_rows", rows)

    async def dump(self, backend):
        found = [await backend.directory().list_tenants()]
        for stores in map(backend.tenant, set(self.tenants)):
            accounts, nights = stores.accounts, stores.nights
            found += [await accounts.list_setup_steps(), await accounts.find_registry_cursor()]
            found += [await accounts.find_rule(word) for word in TEXTS if word]
            found += [await accounts.find_connection(), await accounts.list_companies()]
            found += [await accounts.find_company_record(f"T{n}") for n in range(10)]
            found += [await accounts.list_candidates(rule=rule) for rule in RULES]
            found += [await accounts.list_company_records(), await nights.find_sent_rows("abc")]
            for run in RUNS:
                found += [await nights.list_items(run), await nights.count_items(run)]
                found += [await nights.list_sent_rows(run)]
        return found

    def is_counted(self, step, answer):
        return step.startswith("nights.finish_item") and answer is True

    def run(self):
        return self.rng.choice([RUNS[0], *RUNS])
