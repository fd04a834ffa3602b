"""Every decision of a plan is a job or a refusal that people can read, and the ledger vouches."""

import json
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, case
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.cli.main import main
from stoker.cli.output import Exit
from stoker.enrichment.pipeline import build_pull_key
from stoker.files.columns import encode_columns
from stoker.ledger.query import LedgerFilter
from stoker.pulls.columns import Decision
from stoker.pulls.decision_entries import list_account_entries, list_plan_decisions
from stoker.pulls.jobs import list_pull_jobs
from stoker.pulls.planner import NOT
from stoker.pulls.service import build_pull_job_id
from stoker.pulls.store import PlanSnapshot, replay_plan, save_plan, to_decisions

ACME, DAY = TenantId("acme"), timedelta(days=1)
EVERYTHING = LedgerFilter()
UNITS = Cap(scope=Scope.TENANT, unit="pull_units", window=WindowKind.DAY, limit=100)


def plan_of(seed, **how):
    accounts, limits, rule = case(seed, **how)
    ids = [f"a{n:03}" for n in range(len(accounts))]
    return replay_plan(PlanSnapshot(ids=ids, accounts=accounts, limits=limits, rule=rule), now=NOW)


def plan_of_74():
    return next(
        pulls
        for pulls in (plan_of(seed, most=80) for seed in range(1000))
        if len(pulls.inputs.ids) == 74 and 1 < len(pulls.plan.chosen) < 74
    )


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_the_jobs_of_a_plan_are_what_it_chose_and_never_exceed_its_budget(seed):
    pulls = plan_of(seed)
    jobs = list_pull_jobs(ACME, pulls, bucket=DAY, run="20261116_060000")
    chosen = {pulls.inputs.ids[row] for row in pulls.plan.chosen.tolist()}
    assert {job.account_id for job in jobs} == chosen
    assert sum(job.depth_units for job in jobs) == pulls.plan.spent
    left = [pulls.inputs.limits.budget, *(job.budget_remaining for job in jobs)]
    spent = [job.depth_units for job in jobs]
    assert [before - after for before, after in pairwise(left)] == spent
    assert all(number >= 0 for number in left)
    assert len({job.pull_job_id for job in jobs}) == len(jobs)
    for job in jobs:
        assert job.pull_job_id == build_pull_job_id(
            tenant=ACME,
            account=job.account_id,
            connector=job.connector_id,
            depth=job.depth,
            at=job.scheduled_at,
            bucket=DAY,
        )
        assert job.correlation_id == "20261116_060000"


def test_a_plan_that_is_not_stored_has_a_correlation_id_of_its_own():
    pulls = plan_of_74()
    [one] = {job.correlation_id for job in list_pull_jobs(ACME, pulls, bucket=DAY)}
    assert one.startswith("20261116_060000-")
    assert {job.correlation_id for job in list_pull_jobs(ACME, pulls, bucket=DAY)} == {one}


async def open_store():
    backend = MemoryBackend()
    await backend.migrate()
    return backend.tenant(ACME)


async def test_the_same_job_id_with_other_inputs_is_an_error():
    store, [job, *_] = await open_store(), list_pull_jobs(ACME, plan_of_74(), bucket=DAY)

    async def reserve(**changes):
        request = {
            "key": build_pull_key(job.pull_job_id),
            "connector": job.connector_id,
            "amounts": {"pull_units": job.depth_units},
            "account": job.account_id,
        }
        return await store.budgets.reserve(
            SpendRequest(**request | changes),
            caps=[UNITS],
            reset=ResetRule(),
            owner="w",
            until=NOW + DAY,
            now=NOW,
        )

    first = await reserve()
    assert await reserve() == first  # the same again is the same reservation
    for other in ({"amounts": {"pull_units": job.depth_units + 1}}, {"connector": "tavily"}):
        with pytest.raises(ConflictError, match="was used for another request"):
            await reserve(**other)


async def test_the_ledger_names_every_account_a_plan_decided_about():
    store, pulls = await open_store(), plan_of_74()
    await save_plan(store, "20261116_060000", pulls)
    found = await list_plan_decisions(store, "20261116_060000", EVERYTHING)
    [in_chain] = await store.ledger.list_entries()

    assert [entry.subject for entry in found.entries] == list(pulls.inputs.ids)  # all 74
    decided = {entry.subject: entry for entry in found.entries}
    for row, account in enumerate(pulls.inputs.ids):
        entry = decided[account]
        assert entry.kind == ("NOT_CHOSEN" if pulls.plan.depth[row] == NOT else "CHOSEN")
        assert entry.data["code"] == Decision(int(pulls.plan.why[row])).name
        assert entry.data["value_per_unit"] == pytest.approx(float(pulls.plan.score[row]))
        assert entry.data["cutoff"] == pulls.plan.price
        assert entry.reason
        assert (entry.seq, entry.digest, entry.at) == (in_chain.seq, in_chain.digest, NOW)
    codes = LedgerFilter(code=found.entries[0].data["code"])
    some = await list_plan_decisions(store, "latest", codes)
    assert 0 < len(some.entries) < 74
    assert await list_plan_decisions(store, "another", EVERYTHING) is None


async def test_an_account_has_the_decisions_of_all_plans_newest_first():
    store, pulls = await open_store(), plan_of_74()
    for run in ("20261116_060000", "20261117_060000", "20261118_060000"):
        await save_plan(store, run, pulls)
    of_one = LedgerFilter(account="a007")
    found = await list_account_entries(store, of_one, limit=2)
    assert [entry.data["run"] for entry in found.entries] == ["20261118_060000", "20261117_060000"]
    found = await list_account_entries(store, of_one, before=2, limit=9)
    assert [entry.data["run"] for entry in found.entries] == ["20261116_060000"]
    assert (await list_account_entries(store, LedgerFilter(account="x"), limit=9)).entries == ()


async def test_decisions_that_retention_deleted_are_named_and_not_made_up():
    store, pulls = await open_store(), plan_of_74()
    await save_plan(store, "20261116_060000", pulls)
    await store.plans.delete_plans(["20261116_060000"])
    found = await list_plan_decisions(store, "20261116_060000", EVERYTHING)
    assert found.entries == ()
    assert [entry.subject for entry in found.deleted] == ["20261116_060000"]
    found = await list_account_entries(store, LedgerFilter(account="a001"), limit=9)
    assert (found.entries, len(found.deleted)) == ((), 1)


async def test_a_stored_plan_that_was_changed_is_not_read_as_the_ledgers():
    store, pulls = await open_store(), plan_of_74()
    await save_plan(store, "20261116_060000", pulls)
    record = await store.plans.find_plan("20261116_060000")
    decisions = to_decisions(pulls).to_columns()
    forged = encode_columns({**decisions, "why": np.full(74, Decision.PAUSED, np.uint8)})
    await store.plans.delete_plans(["20261116_060000"])
    await store.plans.insert_plan(record, forged)
    with pytest.raises(PermanentError, match="does not match its digest"):
        await list_plan_decisions(store, "latest", EVERYTHING)

    other = plan_of(3)
    await store.plans.delete_plans(["20261116_060000"])
    elsewhere = await open_store()
    await save_plan(elsewhere, "20261116_060000", other)
    forged = await elsewhere.plans.find_plan("20261116_060000")
    await store.plans.insert_plan(forged, encode_columns(to_decisions(other).to_columns()))
    with pytest.raises(PermanentError, match="is not the one that entry 1 of the ledger records"):
        await list_plan_decisions(store, "latest", EVERYTHING)


@pytest.fixture
def stoker(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n")
    rows = "".join(f"a{n:02},Account {n},a{n:02}.example,0.{n:02}\n" for n in range(1, 75))
    (tmp_path / "list.csv").write_text(f"account_id,name,domain,posture\n{rows}")

    def run(*words):
        code = main(["-C", str(tmp_path), "--set", "logging.level=error", *words])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    run("accounts", "import", "list.csv")
    return run


def load(stoker, *words):
    return json.loads(stoker(*words, "--json")[1])


def test_a_plan_lists_its_jobs_and_the_ledger_every_decision(stoker):
    budget = ("--set", "caps.pull_units_per_day=6")
    [dry] = load(stoker, *budget, "pulls", "plan", "--dry-run")
    [plan] = load(stoker, *budget, "pulls", "plan")
    assert {job["correlation_id"] for job in plan["jobs"]} == {plan["run"]}
    assert [job["account_id"] for job in dry["jobs"]] == [job["account_id"] for job in plan["jobs"]]
    assert [set(job) for job in plan["jobs"]] == [
        {
            "pull_job_id",
            "tenant_id",
            "account_id",
            "connector_id",
            "depth",
            "depth_units",
            "scheduled_at",
            "correlation_id",
            "budget_remaining",
        }
    ] * len(plan["jobs"])
    assert 0 < len(plan["jobs"]) < 74

    entries = load(stoker, "ledger", "list", "--plan", plan["run"], "--limit", "0")
    assert len({entry["subject"] for entry in entries}) == 74
    chosen = {entry["subject"] for entry in entries if entry["kind"] == "CHOSEN"}
    assert chosen == {job["account_id"] for job in plan["jobs"]}
    [one] = load(stoker, "ledger", "list", "--account", "a01")
    assert (one["data"]["run"], one["data"]["age_days"]) == (plan["run"], None)
    code, out, _ = stoker("ledger", "list", "--plan", "latest", "--limit", "3")
    assert (code, "Account 1" in out, "71 more decisions; --limit 0 shows all." in out) == (
        0,
        True,
        True,
    )
    assert "ledger list --plan" in stoker("ledger", "list", "--kind", "plan")[1]
    written = json.loads(stoker("ledger", "export", "--plan", "latest", "--format", "json")[1])
    assert [entry["account"] for entry in written] == [entry["subject"] for entry in entries]
    written = json.loads(stoker("ledger", "export", "--account", "a01", "--format", "json")[1])
    assert [entry["account"] for entry in written] == ["a01"]


def test_a_plan_that_is_not_there_and_one_of_all_tenants_are_one_line(stoker):
    code, _, err = stoker("ledger", "list", "--plan", "20261116_060000")
    assert code == Exit.CONFIG
    assert "has no plan of run '20261116_060000'; list plans with: stoker ledger list" in err
    assert stoker("ledger", "list", "--shared", "--plan", "latest")[0] == Exit.CONFIG


def test_a_replay_names_accounts_beside_their_ids_and_units_beside_numbers(stoker):
    stoker("--set", "caps.pull_units_per_day=6", "pulls", "plan")
    out = stoker("pulls", "replay", "latest", "--cap", "pull_units=60")[1]
    assert "Account 55 (a55)" in out.split("more accounts: ")[1]
    assert "pull units" in out
    assert "up to date right after, by value" in out
    assert "of the time" in stoker("pulls", "price")[1]


def count_codes(stoker, *settings):
    """Return how many accounts each reason has, in the plan that is stored now."""
    [plan] = load(stoker, *settings, "pulls", "plan")
    entries = load(stoker, "ledger", "list", "--plan", plan["run"], "--limit", "0")
    return Counter(entry["data"]["code"] for entry in entries), entries


def test_a_stop_and_a_slow_vendor_are_reasons_with_their_numbers(stoker):
    slow = ("tavily.calls=1", "tavily.burst=1", "tavily.per_s=43200", "keys.tavily=tv-12345678")
    flags = [word for each in slow for word in ("--set", each)]
    codes, entries = count_codes(stoker, *flags)
    assert codes["RATE_LIMIT"] > 60
    limited = next(entry for entry in entries if entry["data"]["code"] == "RATE_LIMIT")
    assert limited["data"]["limit"]["connector"] == "tavily"
    assert "tavily may be called" in limited["reason"]

    stoker("stop", "--tenant", "acme", "--reason", "look first")
    codes, entries = count_codes(stoker)
    assert codes == {"PAUSED": 74}
    assert "spending is stopped: look first" in entries[0]["reason"]
