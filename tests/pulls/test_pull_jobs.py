"""Pulls as jobs: the same pull has the same id; another one under it is an error."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pull_cases import NOW, case
from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError, ConflictError
from stoker.base.types import Depth, TenantId
from stoker.pulls.jobs import (
    build_pull_job,
    build_pull_job_id,
    is_same_pull,
    iterate_pull_jobs,
    to_time_bucket,
)
from stoker.pulls.planner import NO_SLOT, assign_slots, plan_pulls

DAY = timedelta(days=1)
names = st.text(min_size=1, max_size=8)
asks = st.fixed_dictionaries(
    {
        "tenant": names.map(TenantId),
        "account": names.map(CompanyId),
        "connector": names,
        "depth": st.sampled_from(Depth),
        "at": st.integers(-(10**7), 10**7).map(lambda minutes: NOW + timedelta(minutes=minutes)),
    }
)


@given(asks, asks)
def test_ids_are_equal_exactly_when_everything_but_the_time_within_the_bucket_is(one, other):
    def what(ask):
        return {**ask, "at": to_time_bucket(ask["at"], bucket=DAY)}

    same = build_pull_job_id(**one, bucket=DAY) == build_pull_job_id(**other, bucket=DAY)
    assert same == (what(one) == what(other))
    assert build_pull_job_id(**what(one), bucket=DAY) == build_pull_job_id(**one, bucket=DAY)


def test_a_twin_that_joins_names_with_a_sign_is_caught():
    ask = {"connector": "crawl", "depth": Depth.DEEP, "at": NOW, "bucket": DAY}
    one = build_pull_job_id(tenant=TenantId("a"), account=CompanyId("b|c"), **ask)
    other = build_pull_job_id(tenant=TenantId("a|b"), account=CompanyId("c"), **ask)
    assert "|".join(["a", "b|c"]) == "|".join(["a|b", "c"])
    assert one != other


def job(**about):
    given = {
        "tenant": TenantId("acme"),
        "account": CompanyId("u1"),
        "connector": "crawl",
        "depth": Depth.SHALLOW,
        "units": 1,
        "at": NOW,
        "bucket": DAY,
        "run": "20261116_060000",
        "remaining": 9,
    }
    return build_pull_job(**{**given, **about})


def test_the_same_pull_again_is_known_whoever_planned_it_and_another_cost_is_a_conflict():
    assert is_same_pull(job(), job(at=NOW + timedelta(hours=1), run="later", remaining=3))
    assert not is_same_pull(job(), job(depth=Depth.DEEP))
    assert not is_same_pull(job(), job(at=NOW + DAY))
    with pytest.raises(ConflictError, match="another units"):
        is_same_pull(job(), job(units=2))
    with pytest.raises(ConflictError, match="another account"):
        is_same_pull(job(), replace(job(), account_id=CompanyId("u2")))


def test_a_bucket_is_a_minute_or_longer_and_begins_where_time_does():
    assert to_time_bucket(NOW, bucket=DAY) == datetime(2026, 11, 16, tzinfo=UTC)
    with pytest.raises(ConfigError, match="minute"):
        to_time_bucket(NOW, bucket=timedelta(0))


@given(st.integers(0, 2**32 - 1))
def test_a_plans_jobs_are_its_chosen_accounts_and_what_remains_is_never_below_nothing(seed):
    accounts, limits, rule = case(seed)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    minutes = assign_slots(accounts.connector, plan.chosen, np.array([0.01, 2.0]))
    jobs = []
    for tenant in range(limits.tenants):
        ids = [CompanyId(str(row)) for row in np.flatnonzero(accounts.tenant == tenant)]
        found = list(
            iterate_pull_jobs(
                plan,
                accounts,
                limits,
                tenant=tenant,
                name=TenantId(f"t{tenant}"),
                ids=ids,
                connectors=["crawl", "lusha"],
                minutes=minutes,
                day=NOW,
                bucket=DAY,
                run="r",
            )
        )
        assert all(job.budget_remaining >= 0 for job in found)
        assert sum(job.depth_units for job in found) <= plan.spent[tenant]
        jobs += found
    wanted = plan.chosen[minutes != NO_SLOT]
    assert [job.account_id for job in jobs] == [str(row) for row in wanted]
    assert len({job.pull_job_id for job in jobs}) == len(jobs)
    assert all(job.as_json()["depth_units"] >= 1 for job in jobs)
