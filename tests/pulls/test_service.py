"""Ids of pulls, and runs that make plans."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pull_cases import NOW
from stoker.accounts.model import CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError, TransientError
from stoker.base.types import Depth, TenantId
from stoker.pulls.service import PlanJob, build_pull_job_id, to_time_bucket
from stoker.runs.leases import LeaseHolder
from stoker.runs.model import Manifest, RunState
from stoker.runs.service import Runner
from stoker.testing import FakeClock

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


def test_names_that_read_the_same_when_joined_are_different_pulls():
    ask = {"connector": "crawl", "depth": Depth.DEEP, "at": NOW, "bucket": DAY}
    one, other = (
        build_pull_job_id(tenant=TenantId(tenant), account=CompanyId(account), **ask)
        for tenant, account in (("a", "b|c"), ("a|b", "c"))
    )
    assert one != other


def test_a_bucket_is_a_minute_or_longer_and_begins_where_time_does():
    assert to_time_bucket(NOW, bucket=DAY) == datetime(2026, 11, 16, tzinfo=UTC)
    with pytest.raises(ConfigError, match="minute"):
        to_time_bucket(NOW, bucket=timedelta(0))


class StoreIsAway:
    """A planner that cannot read its inputs."""

    async def quote_plan(self, *, now):
        raise TransientError("the store is away")


async def test_a_plan_that_cannot_be_made_ends_its_run_and_raises_why():
    backend, clock = MemoryBackend(), FakeClock(NOW)
    await backend.migrate()
    leases = LeaseHolder(
        owner="me", clock=clock, observer=lambda _: None, length=timedelta(seconds=30)
    )
    job = PlanJob(planner=StoreIsAway())
    run = await Runner(leases=leases).run_now(
        backend.tenant(TenantId("acme")), job, manifest=Manifest()
    )
    assert (run.kind, run.state, run.reason) == ("plan", RunState.FAILED, "the store is away")
    with pytest.raises(TransientError, match="the store is away"):
        job.get_planned(run)
