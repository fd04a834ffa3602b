"""Start and execute runs in this process, with a summary of those that were cut off."""

from __future__ import annotations

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
    """Run a job for a tenant, due or not. Raises ConflictError while one is running."""
    manifest = build_manifest(tenant.settings)
    return await build_runner(tenant.process).run_now(tenant.store, job, manifest=manifest)
