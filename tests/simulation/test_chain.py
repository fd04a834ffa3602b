"""The rehearsed chain chooses what a store, sweeps, plans and lessons choose, day by day."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, Contact, LeadScore
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.crawl.model import PageState, SiteVisit, VisitOutcome
from stoker.heat.model import Signal, SignalKind
from stoker.heat.service import HeatSweep, LookupFeedback
from stoker.heat.settings import ChangeRateRule, HeatSettings
from stoker.pulls.columns import Decision, PullLimits, to_epoch_days
from stoker.pulls.planner import DEEP, plan_pulls
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.store import PlanningResult, PlanSnapshot, find_owed, save_plan
from stoker.pulls.worth import build_accounts
from stoker.simulation.chain import AccountChain, ChainRule, LookupResults
from stoker.simulation.policies import START
from stoker.testing import FakeClock

ACCOUNTS, DAYS, BUDGET = 40, 100, 9
HEAT = HeatSettings(sweep_every=timedelta(hours=6))
BELIEFS = ChangeRateRule()
SITE = "https://a.test"


class Store:
    """One tenant's store and services, at work for the same accounts."""

    def __init__(self, posture, rule):
        self.posture, self.rule = posture, replace(rule, tiers=HEAT)
        self.store = MemoryBackend().tenant(TenantId("acme"))
        self.clock = FakeClock(START)
        self.sweeping = HeatSweep(heat=HEAT, icp_rule="default")
        self.feedback = LookupFeedback(heat=HEAT, beliefs=BELIEFS)
        self.ids = [CompanyId(f"A{row:03}") for row in range(len(posture))]
        self.looked = set()
        self.met = dict.fromkeys(self.ids, 0)  # how many people are known

    async def open(self):
        postures = dict(zip(self.ids, self.posture.tolist(), strict=True))
        await self.store.heat.update_postures(postures, rule=HEAT, now=START)

    def known(self, account):
        contacts = tuple(
            Contact(email=f"{nth}@a.test", source="site", confidence=1.0)
            for nth in range(self.met[account])
        )
        score = LeadScore(
            value=float(self.posture[self.ids.index(account)]),
            bucket=Bucket.LOW,
            rationale="so",
            feature_hash="x",
            features={},
        )
        company = Company(id=account, name=account, website=SITE)
        looked_at = START if account in self.looked else None
        return CompanyRecord(company=company, looked_at=looked_at, score=score, contacts=contacts)

    async def look(self, account, *, depth, outcome, changed, deep_changed, now):
        before = self.known(account)
        self.met[account] += deep_changed
        self.looked.add(account)
        seen = PageState(url=SITE, status=200, seen_at=now, changed_at=now if changed else START)
        await self.feedback.record_lookup(
            self.store,
            run=f"{now:%Y%m%d_%H%M%S}",
            depth=depth,
            visit=SiteVisit(site=SITE, outcome=outcome, reason="so", seen=(seen,)),
            before=before,
            after=self.known(account),
            now=now,
        )

    async def sweep(self, now):
        self.clock.jump(now)
        await self.sweeping.recompute(self.store, clock=self.clock)

    async def plan(self, now):
        columns = await self.store.heat.read_columns()
        accounts = build_accounts(
            columns,
            now=to_epoch_days(now),
            units=1,
            deep_units=3,
            barred=Decision.FREE,
            rule=self.rule,
            beliefs=BELIEFS,
        )
        limits = PullLimits(budget=BUDGET, owed=await find_owed(self.store))
        plan = plan_pulls(accounts, limits, now=now, rule=self.rule)
        inputs = PlanSnapshot(
            ids=columns.accounts, accounts=accounts, limits=limits, rule=self.rule
        )
        made = PlanningResult(at=now, inputs=inputs, plan=plan)
        await save_plan(self.store, f"{now:%Y%m%d_%H%M%S}", made)
        return plan


@pytest.mark.parametrize(
    "rule", [PullRule(), PullRule(policy=Policy.TIERS)], ids=["by value", "tiers"]
)
async def test_the_rehearsed_chain_chooses_what_the_store_chooses_for_100_days(rule):
    luck = np.random.default_rng(5)
    posture = np.round(luck.random(ACCOUNTS), 3)
    rates = np.exp(luck.normal(np.log(0.1), 1.3, ACCOUNTS))
    gone = luck.random(ACCOUNTS) < 0.05
    there = Store(posture, rule)
    await there.open()
    chain = AccountChain(posture, rule=ChainRule(heat=HEAT, pulls=rule, beliefs=BELIEFS), now=START)
    seen_on = np.full(ACCOUNTS, 0.0)
    swept_at, kinds = START, set()
    for day in range(DAYS):
        now = START + timedelta(days=day)
        while swept_at <= now:
            await there.sweep(swept_at)
            chain.sweep(swept_at)
            swept_at += HEAT.sweep_every
        told = np.flatnonzero(luck.random(ACCOUNTS) < 0.01)
        signals = [
            Signal(id=f"{day}/{row}", account=there.ids[row], kind=SignalKind.IMPORTED, at=now)
            for row in told
        ]
        await there.store.heat.add_signals(signals, rule=HEAT, now=now)
        chain.add_signals(told, np.ones(len(told)), now=now, seen=False)
        real = await there.plan(now)
        rehearsed = chain.plan(PullLimits(budget=BUDGET), now=now)
        assert rehearsed.why.tolist() == real.why.tolist(), day
        assert rehearsed.depth.tolist() == real.depth.tolist(), day
        kinds |= set(real.depth.tolist())
        rows = real.chosen
        failed = (luck.random(len(rows)) < 0.1) | gone[rows]
        changed = luck.random(len(rows)) >= np.exp(-rates[rows] * (day + 1 - seen_on[rows]))
        deep = real.depth[rows] == DEEP
        deep_changed = deep & (luck.random(len(rows)) < 0.3)
        seen_on[rows[~failed]] = day
        for nth, row in enumerate(rows.tolist()):
            outcome = VisitOutcome.READ
            if failed[nth]:
                outcome = VisitOutcome.GONE if gone[row] else VisitOutcome.FAILED
            await there.look(
                there.ids[row],
                depth=Depth.DEEP if deep[nth] else Depth.SHALLOW,
                outcome=outcome,
                changed=bool(changed[nth]),
                deep_changed=bool(deep_changed[nth]),
                now=now,
            )
        chain.learn(
            LookupResults(
                rows=rows,
                deep=deep,
                failed=failed,
                gone=gone[rows],
                changed=changed,
                deep_changed=deep_changed,
                brought=np.full(len(rows), np.nan),
            ),
            now=now,
        )
    assert kinds == {0, 1, 2}
