"""Whether a CRM would take what a night sends: rights, apps, required fields, who sees it.

Each check is a line: ok, or what a sales administrator can do about it. Nothing is written there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.jsontools import get_line, get_object
from stoker.base.types import Json
from stoker.budgets.model import Health
from stoker.context import TenantContext
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.odoo import Odoo, open_crm
from stoker.tenants.model import CrmConnection
from stoker.vendors.table import OdooSettings

_OWN_COLUMNS: Mapping[str, frozenset[str]] = {  # required ones that every row of ours has
    PARTNER: frozenset({"name"}),
    LEAD: frozenset({"name", "type"}),
}
_NAMES = {PARTNER: "companies and contacts", LEAD: "leads"}
_RIGHTS = {PARTNER: "Contact / Creation", LEAD: "Sales / User: All Documents"}
_MAX_NAMED = 5  # fields in one line


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmCheck:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str


async def check_crm(crm: Odoo, *, lead_type: str = "auto") -> list[CrmCheck]:
    """Look at the CRM as our user sees it. Never raises for what the CRM does.

    `lead_type` is what leads are created as; `auto` is as new ones are there.
    """
    health = await crm.check()
    checks = [CrmCheck(what="connection", ok=health.ok, detail=health.detail)]
    if not health.ok:
        return checks
    try:
        checks.append(await _check_rights(crm, PARTNER))
        checks.append(await _check_required(crm, PARTNER))
        leads = await _check_leads(crm)
        checks.append(leads)
        if leads.ok:
            checks.append(await _check_required(crm, LEAD))
            checks.append(await _check_who_sees(crm, lead_type))
    except (ConfigError, PermanentError, TransientError) as error:
        checks.append(CrmCheck(what="checks", ok=False, detail=str(error)))
    return checks


async def check_connection(
    tenant: TenantContext, connection: CrmConnection | None
) -> list[CrmCheck]:
    """Check the CRM of a connection, or of the settings. Never raises for what the CRM does."""
    try:
        crm = open_crm(tenant, connection, despite_stops=True)
    except ConfigError as error:  # its key is missing, or must not go there
        return [CrmCheck(what="connection", ok=False, detail=str(error))]
    # As the settings say, where they say it.
    lead_type = getattr(tenant.settings.get_vendor(OdooSettings), "lead_type", "auto")
    return await check_crm(crm, lead_type=lead_type)


class ConnectedCrm:
    """The CRM a tenant is connected to, for `stoker connectors test`."""

    def __init__(self, tenant: TenantContext) -> None:
        self._tenant = tenant

    async def check(self) -> Health:
        """Check the very place that is connected."""
        connection = await self._tenant.store.setup.find_connection()
        return to_health(await check_connection(self._tenant, connection))


def to_health(checks: Sequence[CrmCheck]) -> Health:
    """Return all checks as one: what is wrong, or where the connection leads."""
    wrong = [f"{check.what}: {check.detail}" for check in checks if not check.ok]
    detail = "; ".join(wrong) if wrong and checks[0].ok else checks[0].detail
    return Health(ok=not wrong, detail=detail)


async def _check_leads(crm: Odoo) -> CrmCheck:
    try:
        return await _check_rights(crm, LEAD)
    except PermanentError:
        detail = "the CRM app is not installed there; companies and contacts are sent without leads"
        return CrmCheck(what=_NAMES[LEAD], ok=False, detail=detail)


async def _check_rights(crm: Odoo, model: str) -> CrmCheck:
    """Ask whether our user may create and change records of a model."""
    missing = [each for each in ("create", "write") if not await _has_access(crm, model, each)]
    if not missing:
        return CrmCheck(what=_NAMES[model], ok=True, detail="our user may create and change them")
    verbs = " and ".join({"create": "create", "write": "change"}[each] for each in missing)
    detail = f"our user may not {verbs} them; give it the right {_RIGHTS[model]!r}"
    return CrmCheck(what=_NAMES[model], ok=False, detail=detail)


async def _has_access(crm: Odoo, model: str, operation: str) -> bool:
    try:
        return await crm.ask(model, "has_access", {"operation": operation}, ids=[]) is True
    except PermanentError:  # before version 18, or there is no such model
        arguments: dict[str, Json] = {"operation": operation, "raise_exception": False}
        return await crm.ask(model, "check_access_rights", arguments) is True


async def _check_required(crm: Odoo, model: str) -> CrmCheck:
    """Find required fields that neither we fill nor the CRM by itself."""
    attributes: Json = ["required", "readonly", "string"]
    fields = get_object(await crm.ask(model, "fields_get", {"attributes": attributes}))
    wanted = [
        name
        for name, each in sorted(fields.items())
        if get_object(each).get("required") is True
        and get_object(each).get("readonly") is not True
        and name not in _OWN_COLUMNS[model]
    ]
    filled = await _list_defaults(crm, model, wanted) if wanted else ()
    missing = [name for name in wanted if name not in filled]
    what = f"fields of {_NAMES[model]}"
    if not missing:
        return CrmCheck(what=what, ok=True, detail="none is required that stays empty")
    named = ", ".join(f"{get_line(fields[name], 'string')} ({name})" for name in missing)
    if len(missing) > _MAX_NAMED:
        named = f"{', '.join(missing[:_MAX_NAMED])} and {len(missing) - _MAX_NAMED} more"
    verb = "is" if len(missing) == 1 else "are"
    detail = f"{named} {verb} required and stays empty; give it a default value in Odoo"
    return CrmCheck(what=what, ok=False, detail=detail)


async def _list_defaults(crm: Odoo, model: str, names: Sequence[str]) -> Collection[str]:
    try:
        answer = await crm.ask(model, "default_get", {"fields": list[Json](names)})
    except PermanentError:  # the argument's name before version 19
        answer = await crm.ask(model, "default_get", {"fields_list": list[Json](names)})
    return [name for name, value in get_object(answer).items() if value not in (None, False, "")]


async def _check_who_sees(crm: Odoo, lead_type: str) -> CrmCheck:
    """Find out whether sales people find what we create."""
    answer = await crm.ask(LEAD, "default_get", {"fields": ["type"]})
    uses_leads = get_object(answer).get("type") == "lead"
    kind = lead_type if lead_type != "auto" else "lead" if uses_leads else "opportunity"
    what = "who sees leads"
    if kind == "lead" and not uses_leads:
        detail = (
            "they would be created as leads, whose menu is hidden there: switch on CRM / "
            "Configuration / Settings / Leads, or create opportunities"
        )
        return CrmCheck(what=what, ok=False, detail=detail)
    where = "the menu Leads" if kind == "lead" else "the pipeline"
    detail = f"created as {kind}; sales people find them in {where}"
    return CrmCheck(what=what, ok=True, detail=detail)
