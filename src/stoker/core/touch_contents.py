"""What a touch says where it is handed over: to a program, and to a person's CRM.

Names and addresses came from strangers: texts are cleaned and bounded, markup is escaped.
"""

from __future__ import annotations

from html import escape

from stoker.core.coverage.values import Touch
from stoker.core.coverage.writing import touch_json
from stoker.core.crm import PARTNER, Cell, CrmRow, external_id, sendable_text
from stoker.core.model import Json, TenantId
from stoker.core.upserts import Write, digest_of

ACTIVITY = "mail.activity"
_PARTNERS = "base.model_res_partner"
_TODO = "mail.mail_activity_data_todo"


def touch_content(tenant: TenantId, delivery: str, touch: Touch) -> dict[str, Json]:
    """Return a touch as programs get it."""
    return {"kind": "touch", "delivery": delivery, "tenant": tenant, **touch_json(touch)}


def partner_row(tenant: TenantId, touch: Touch) -> CrmRow:
    """Return whom an activity is about; whoever has that website already is the one."""
    return CrmRow(
        model=PARTNER,
        external_id=external_id(tenant, "profile", touch.url),
        values={},
        once={"name": sendable_text(touch.name) or touch.url, "website": touch.url},
        look=("website", touch.url),
        alone=True,
    )


def partner_write(row: CrmRow) -> Write:
    """Return what makes that partner."""
    return Write(row=row, cells=row.once, digest=digest_of(row), before={}, intent={})


def activity_write(
    tenant: TenantId, delivery: str, touch: Touch, *, partner: int, user: str = ""
) -> Write:
    """Return what makes a touch an activity on a partner's record, for a user if one is named."""
    wait = "never touched" if touch.days_since is None else f"{touch.days_since} days since"
    forced = ", overdue" if touch.forced else ""
    cells: dict[str, Cell] = {
        "summary": f"Touch {sendable_text(touch.name) or touch.url}",
        "note": f"<p>{escape(sendable_text(touch.url))}</p><p>{wait}{forced}; due "
        f"{touch.at:%H:%M} UTC</p>",
        "date_deadline": touch.day.isoformat(),
        "res_model_id/id": _PARTNERS,
        "res_id": str(partner),
        "activity_type_id/id": _TODO,
    }
    if user:
        cells["user_id/id"] = user
    row = CrmRow(model=ACTIVITY, external_id=external_id(tenant, "touch", delivery), values={})
    return Write(row=row, cells=cells, digest=digest_of(row), before={}, intent={})
