"""The lookups of a plan as jobs: plain values that a program can take away and carry out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from stoker.accounts.model import CompanyId
from stoker.base.types import Depth, Json, PullJobId, TenantId
from stoker.enrichment.model import CRAWL
from stoker.files.columns import compute_columns_digest
from stoker.pulls.planner import DEEP, list_in_order
from stoker.pulls.service import build_pull_job_id
from stoker.pulls.store import PlanningResult, to_decisions

_DIGEST_SHOWN = 16  # characters; enough to tell plans apart


@dataclass(frozen=True, slots=True, kw_only=True)
class PullJob:
    """One lookup that a plan chose.

    The id follows from tenant, account, connector, depth and time bucket; a reservation under the
    same id for anything else is refused.
    """

    pull_job_id: PullJobId
    tenant_id: TenantId
    account_id: CompanyId
    connector_id: str
    depth: Depth
    depth_units: int
    scheduled_at: datetime
    correlation_id: str  # the run that stored the plan, or the digest of one that was not stored
    budget_remaining: int  # pull units of the plan's budget, after this job and those before it

    def as_json(self) -> dict[str, Json]:
        """Return the job for programs."""
        return {
            **asdict(self),
            "depth": self.depth.value,
            "scheduled_at": self.scheduled_at.isoformat(),
        }


def list_pull_jobs(
    tenant: TenantId, pulls: PlanningResult, *, bucket: timedelta, run: str = ""
) -> list[PullJob]:
    """Return the chosen lookups in the order in which they are carried out.

    `bucket` is the time within which a repeated lookup is the same job.
    """
    inputs, plan, left = pulls.inputs, pulls.plan, pulls.inputs.limits.budget
    correlation = run or _build_correlation(pulls)
    jobs = []
    for row in list_in_order(plan).tolist():
        depth = Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW
        accounts, account = inputs.accounts, CompanyId(inputs.ids[row])
        units = int((accounts.deep_units if depth is Depth.DEEP else accounts.units)[row])
        left -= units
        jobs.append(
            PullJob(
                pull_job_id=build_pull_job_id(
                    tenant=tenant,
                    account=account,
                    connector=CRAWL,
                    depth=depth,
                    at=pulls.at,
                    bucket=bucket,
                ),
                tenant_id=tenant,
                account_id=account,
                connector_id=CRAWL,
                depth=depth,
                depth_units=units,
                scheduled_at=pulls.at,
                correlation_id=correlation,
                budget_remaining=left,
            )
        )
    return jobs


def _build_correlation(pulls: PlanningResult) -> str:
    """Return a name for a plan that no run stores: the same for the same decisions."""
    digest = compute_columns_digest(to_decisions(pulls).to_columns())
    return f"{pulls.at:%Y%m%d_%H%M%S}-{digest[:_DIGEST_SHOWN]}"
