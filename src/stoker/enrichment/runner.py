"""Start and execute runs in this process, with a summary of those that were cut off."""

from __future__ import annotations

from stoker.base.clock import clock_went_backwards
from stoker.base.events import ClockBehind
from stoker.context import Context, TenantContext
from stoker.enrichment.outcomes import summarize_partial_run
from stoker.runs.leases import LEASE_LENGTH, LeaseHolder
from stoker.runs.model import Run
from stoker.runs.service import RunJob, Runner, build_manifest


def build_runner(context: Context) -> Runner:
    """Return what starts and executes runs in this process."""
    leases = LeaseHolder(
        owner=context.owner,
        clock=context.clock,
        observer=context.observer,
        length=LEASE_LENGTH,
    )
    return Runner(leases=leases, summarize=summarize_partial_run)


async def run_now(tenant: TenantContext, job: RunJob) -> Run:
    """Run a job for a tenant, due or not. Raises ConflictError while one is running.

    A clock that went back is reported: the job runs, and the budget grants it nothing.
    """
    now, seen = tenant.clock.now(), await tenant.store.schedule.find_latest_entry_at()
    if seen is not None and clock_went_backwards(now, latest=seen):
        tenant.process.observer(ClockBehind(at=now, tenant=tenant.id, seen=seen))
    manifest = build_manifest(tenant.settings)
    return await build_runner(tenant.process).run_now(tenant.store, job, manifest=manifest)
