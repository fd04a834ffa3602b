"""One pull, under an id that follows from what it is.

The same account, connector and depth in the same time bucket is the same pull, however often it is
planned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError, ConflictError
from stoker.base.types import Depth, Json, PullJobId, TenantId, to_utc
from stoker.pulls.capacity import Ints
from stoker.pulls.columns import PlanAccounts, PullLimits
from stoker.pulls.planner import DEEP, NO_SLOT, PullPlan

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MIN_BUCKET = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullJob:
    """A look that was chosen. Made by `build_pull_job`, which knows its id."""

    pull_job_id: PullJobId
    tenant_id: TenantId
    account_id: CompanyId
    connector_id: str
    depth: Depth
    depth_units: int
    scheduled_at: datetime
    correlation_id: str  # of the run that chose it
    budget_remaining: int  # the tenant's units after this one and all that were chosen before it

    def as_json(self) -> dict[str, Json]:
        """Return it as it is written down."""
        return {
            "pull_job_id": self.pull_job_id,
            "tenant_id": self.tenant_id,
            "account_id": self.account_id,
            "connector_id": self.connector_id,
            "depth": self.depth.value,
            "depth_units": self.depth_units,
            "scheduled_at": self.scheduled_at.isoformat(),
            "correlation_id": self.correlation_id,
            "budget_remaining": self.budget_remaining,
        }


def to_time_bucket(at: datetime, *, bucket: timedelta) -> datetime:
    """Return the start of the stretch of time, counted from 1970, that this moment falls in."""
    if bucket < _MIN_BUCKET:
        raise ConfigError(f"pulls are the same within a minute or longer, not {bucket}")
    at = to_utc(at, what="the time of a pull")
    return at - (at - _EPOCH) % bucket


def build_pull_job_id(
    *,
    tenant: TenantId,
    account: CompanyId,
    connector: str,
    depth: Depth,
    at: datetime,
    bucket: timedelta,
) -> PullJobId:
    """Return the id of a pull: the same for the same pull in the same stretch of time, always."""
    start = to_time_bucket(at, bucket=bucket)
    # As JSON, so that no two different pulls can read the same.
    named = json.dumps([tenant, account, connector, depth.value, start.isoformat()])
    return PullJobId(hashlib.sha256(named.encode()).hexdigest()[:32])


def build_pull_job(
    *,
    tenant: TenantId,
    account: CompanyId,
    connector: str,
    depth: Depth,
    units: int,
    at: datetime,
    bucket: timedelta,
    run: str,
    remaining: int,
) -> PullJob:
    """Return a pull under its id."""
    return PullJob(
        pull_job_id=build_pull_job_id(
            tenant=tenant,
            account=account,
            connector=connector,
            depth=depth,
            at=at,
            bucket=bucket,
        ),
        tenant_id=tenant,
        account_id=account,
        connector_id=connector,
        depth=depth,
        depth_units=units,
        scheduled_at=to_utc(at, what="the time of a pull"),
        correlation_id=run,
        budget_remaining=remaining,
    )


def is_same_pull(known: PullJob, asked: PullJob) -> bool:
    """Say whether a pull was asked for before. Raises ConflictError for its id with other inputs.

    When it is scheduled and by which run may differ; what it is and costs may not.
    """
    if known.pull_job_id != asked.pull_job_id:
        return False
    one, other = _to_inputs(known), _to_inputs(asked)
    if one != other:
        differing = ", ".join(name for name in one if one[name] != other[name])
        raise ConflictError(
            f"the pull {asked.pull_job_id} was asked for with another {differing}; "
            "ask again under its own id"
        )
    return True


def iterate_pull_jobs(
    plan: PullPlan,
    accounts: PlanAccounts,
    limits: PullLimits,
    *,
    tenant: int,
    name: TenantId,
    ids: Sequence[CompanyId],
    connectors: Sequence[str],
    minutes: Ints,
    day: datetime,
    bucket: timedelta,
    run: str,
) -> Iterator[PullJob]:
    """Yield one tenant's pulls in the order of their worth, each at its minute from `day` on.

    `ids` are those of the tenant's accounts as they stand in the plan; `minutes` are of all that
    were chosen. Whose turn does not come before the day is over is passed over.
    """
    first = int((accounts.tenant < tenant).sum())
    left = int(limits.budget[tenant])
    for row, minute in zip(plan.chosen.tolist(), minutes.tolist(), strict=True):
        if accounts.tenant[row] != tenant:
            continue
        deep = plan.depth[row] == DEEP
        units = int(accounts.deep_units[row] if deep else accounts.units[row])
        if minute == NO_SLOT:
            continue
        left -= units
        yield build_pull_job(
            tenant=name,
            account=ids[row - first],
            connector=connectors[int(accounts.connector[row])],
            depth=Depth.DEEP if deep else Depth.SHALLOW,
            units=units,
            at=day + timedelta(minutes=minute),
            bucket=bucket,
            run=run,
            remaining=left,
        )


def _to_inputs(job: PullJob) -> dict[str, Json]:
    return {
        "tenant": job.tenant_id,
        "account": job.account_id,
        "connector": job.connector_id,
        "depth": job.depth.value,
        "units": job.depth_units,
    }
