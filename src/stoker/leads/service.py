"""List a tenant's leads, and write them to files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from stoker.accounts.model import CompanyRecord
from stoker.base.types import TenantId
from stoker.leads.export import to_lead_row

if TYPE_CHECKING:
    from stoker.context import Context
    from stoker.files.export import ExportWriter

PAGE_SIZE = 200

Lead = tuple[TenantId, CompanyRecord]


async def iterate_leads(
    app: Context, tenant: TenantId, *, least: float | None = None, run: str | None = None
) -> AsyncIterator[list[CompanyRecord]]:
    """Yield pages of the companies scored at least so much, by default what becomes a lead."""
    if least is None:
        least = app.settings.for_tenant(tenant).score.min_export
    accounts, after = app.backend.tenant(tenant).accounts, ""
    while page := await accounts.list_company_records(
        after=after, limit=PAGE_SIZE, run=run, least=least
    ):
        after = page[-1].company.id
        yield page


async def list_best_leads(
    app: Context, tenants: Iterable[TenantId], *, least: float | None, limit: int | None
) -> list[Lead]:
    """Return the leads of all tenants together, best first."""
    best: list[Lead] = []
    for tenant in tenants:
        async for page in iterate_leads(app, tenant, least=least):
            leads = [*best, *((tenant, record) for record in page)]
            best = sorted(leads, key=_get_sort_key)[:limit]
    return best


async def write_leads(
    app: Context,
    tenants: Iterable[TenantId],
    file: ExportWriter,
    *,
    least: float | None,
    run: str | None,
) -> int:
    """Write leads to a file, tenant by tenant; return how many there were."""
    count = 0
    for tenant in tenants:
        async for page in iterate_leads(app, tenant, least=least, run=run):
            file.add([to_lead_row(tenant, record) for record in page])
            count += len(page)
    return count


def _get_sort_key(lead: Lead) -> tuple[float, str, str]:
    tenant, record = lead
    return (-record.score.value if record.score else 0.0, tenant, record.company.id)
