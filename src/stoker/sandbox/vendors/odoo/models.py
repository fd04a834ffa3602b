"""The models and fields of the fake Odoo, and the records that exist from the start.

Names are those of a version 19 server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OdooField:
    kind: str  # char, text, html, boolean, integer, float, selection, date, datetime, many2one, …
    label: str
    relation: str = ""
    choices: Mapping[str, str] | None = None  # labels by code
    required: bool = False
    readonly: bool = False
    computed: bool = False  # worked out when it is read, and read only when it is named


def _build_field(
    kind: str, label: str, *, required: bool = False, readonly: bool = False
) -> OdooField:
    return OdooField(kind=kind, label=label, required=required, readonly=readonly)


def _build_many2one(
    relation: str, label: str, *, required: bool = False, readonly: bool = False
) -> OdooField:
    return OdooField(
        kind="many2one", label=label, relation=relation, required=required, readonly=readonly
    )


def _build_many2many(relation: str, label: str) -> OdooField:
    return OdooField(kind="many2many", label=label, relation=relation)


def _build_computed(kind: str, label: str, relation: str = "") -> OdooField:
    return OdooField(kind=kind, label=label, relation=relation, readonly=True, computed=True)


def _build_selection(
    label: str, choices: Mapping[str, str], *, required: bool = False, readonly: bool = False
) -> OdooField:
    return OdooField(
        kind="selection", label=label, choices=choices, required=required, readonly=readonly
    )


MAGIC: Mapping[str, OdooField] = {
    "id": _build_field("integer", "ID", readonly=True),
    "display_name": _build_field("char", "Display Name", readonly=True),
    "create_uid": _build_many2one("res.users", "Created by", readonly=True),
    "create_date": _build_field("datetime", "Created on", readonly=True),
    "write_uid": _build_many2one("res.users", "Last Updated by", readonly=True),
    "write_date": _build_field("datetime", "Last Updated on", readonly=True),
}

_NAME = _build_field("char", "Name", required=True)
_ACTIVE = _build_field("boolean", "Active")
_COLOR = _build_field("integer", "Color")

_THREAD = {  # of a record that people can write notes on
    "message_ids": _build_computed("one2many", "Messages", "mail.message"),
    "message_follower_ids": _build_computed("one2many", "Followers", "mail.followers"),
    "activity_ids": _build_computed("one2many", "Activities", "mail.activity"),
}

_ADDRESS = {
    "street": _build_field("char", "Street"),
    "street2": _build_field("char", "Street2"),
    "city": _build_field("char", "City"),
    "zip": _build_field("char", "Zip"),
    "country_id": _build_many2one("res.country", "Country"),
}
ADDRESS = tuple(_ADDRESS)

# `mobile` is not among a partner's fields: version 19 has dropped it.
MODELS: Mapping[str, Mapping[str, OdooField]] = {
    "res.partner": {
        "name": _build_field("char", "Name"),
        "active": _ACTIVE,
        "is_company": _build_field("boolean", "Is a Company"),
        "parent_id": _build_many2one("res.partner", "Related Company"),
        "commercial_partner_id": _build_computed("many2one", "Commercial Entity", "res.partner"),
        "type": _build_selection(
            "Address Type",
            {
                "contact": "Contact",
                "invoice": "Invoice",
                "delivery": "Delivery",
                "other": "Other",
            },
        ),
        "company_registry": _build_field("char", "Company ID"),
        "vat": _build_field("char", "Tax ID"),
        "ref": _build_field("char", "Reference"),
        "website": _build_field("char", "Website Link"),
        "email": _build_field("char", "Email"),
        "email_normalized": _build_computed("char", "Normalized Email"),
        "phone": _build_field("char", "Phone"),
        "function": _build_field("char", "Job Position"),
        "industry_id": _build_many2one("res.partner.industry", "Industry"),
        "category_id": _build_many2many("res.partner.category", "Tags"),
        **_ADDRESS,
        "user_id": _build_many2one("res.users", "Salesperson"),
        "company_id": _build_many2one("res.company", "Company"),
        "comment": _build_field("html", "Notes"),
        **_THREAD,
    },
    "crm.lead": {
        "name": _build_field("char", "Opportunity", required=True),
        "active": _ACTIVE,
        "type": _build_selection(
            "Type", {"lead": "Lead", "opportunity": "Opportunity"}, required=True
        ),
        "partner_id": _build_many2one("res.partner", "Contact"),
        "commercial_partner_id": _build_computed("many2one", "Commercial Entity", "res.partner"),
        "partner_name": _build_field("char", "Company Name"),
        "contact_name": _build_field("char", "Contact Name"),
        "function": _build_field("char", "Job Position"),
        "email_from": _build_field("char", "Email"),
        "phone": _build_field("char", "Phone"),
        "website": _build_field("char", "Website"),
        **_ADDRESS,
        "description": _build_field("html", "Notes"),
        "priority": _build_selection(
            "Priority", {"0": "Low", "1": "Medium", "2": "High", "3": "Very High"}
        ),
        "probability": _build_field("float", "Probability"),
        "won_status": _build_computed("char", "Is Won"),
        "expected_revenue": _build_field("float", "Expected Revenue"),
        "stage_id": _build_many2one("crm.stage", "Stage"),
        "team_id": _build_many2one("crm.team", "Sales Team"),
        "user_id": _build_many2one("res.users", "Salesperson"),
        "company_id": _build_many2one("res.company", "Company"),
        "tag_ids": _build_many2many("crm.tag", "Tags"),
        "source_id": _build_many2one("utm.source", "Source"),
        **_THREAD,
    },
    "mail.activity": {
        "res_model_id": _build_many2one("ir.model", "Document Model"),
        "res_model": _build_computed("char", "Related Document Model"),
        "res_id": _build_field("integer", "Related Document ID"),
        "activity_type_id": _build_many2one("mail.activity.type", "Activity Type"),
        "summary": _build_field("char", "Summary"),
        "note": _build_field("html", "Note"),
        "date_deadline": _build_field("date", "Due Date", required=True),
        "user_id": _build_many2one("res.users", "Assigned to"),
    },
    "mail.message": {
        "model": _build_field("char", "Related Document Model"),
        "res_id": _build_field("integer", "Related Document ID"),
        "author_id": _build_many2one("res.partner", "Author"),
        "message_type": _build_selection(
            "Type", {"email": "Incoming Email", "comment": "Comment", "notification": "System"}
        ),
        "body": _build_field("html", "Contents"),
    },
    "mail.followers": {
        "res_model": _build_field("char", "Related Document Model Name"),
        "res_id": _build_field("integer", "Related Document ID"),
        "partner_id": _build_many2one("res.partner", "Related Partner"),
    },
    "sale.order": {
        "name": _build_field("char", "Order Reference"),
        "partner_id": _build_many2one("res.partner", "Customer", required=True),
    },
    "crm.lead.scoring.frequency": {
        "variable": _build_field("char", "Variable"),
        "value": _build_field("char", "Value"),
        "won_count": _build_field("float", "Won Count"),
        "lost_count": _build_field("float", "Lost Count"),
        "team_id": _build_many2one("crm.team", "Sales Team"),
    },
    "base.partner.merge.automatic.wizard": {
        "dst_partner_id": _build_many2one("res.partner", "Destination Contact"),
        "partner_ids": _build_many2many("res.partner", "Contacts"),
    },
    "crm.merge.opportunity": {
        "opportunity_ids": _build_many2many("crm.lead", "Leads/Opportunities"),
    },
    "crm.tag": {"name": _NAME, "color": _COLOR},
    "res.partner.category": {
        "name": _NAME,
        "active": _ACTIVE,
        "color": _COLOR,
        "parent_id": _build_many2one("res.partner.category", "Category"),
    },
    "res.company": {"name": _NAME},
    "res.country": {"name": _NAME, "code": _build_field("char", "Country Code")},
    "res.users": {
        "name": _NAME,
        "login": _build_field("char", "Login"),
        "partner_id": _build_many2one("res.partner", "Related Partner"),
    },
    "res.partner.industry": {"name": _NAME, "full_name": _build_field("char", "Full Name")},
    "crm.stage": {"name": _NAME, "sequence": _build_field("integer", "Sequence")},
    "crm.team": {"name": _NAME},
    "utm.source": {"name": _NAME},
    "mail.activity.type": {"name": _NAME},
    "ir.model": {"name": _NAME, "model": _build_field("char", "Model")},
    "ir.model.data": {
        "name": _NAME,
        "module": _build_field("char", "Module"),
        "model": _build_field("char", "Model Name"),
        "res_id": _build_field("integer", "Record ID"),
    },
}

LABELS: Mapping[str, str] = {  # what the server calls a model
    "res.partner": "Contact",
    "crm.lead": "Lead",
    "ir.model.data": "Model Data",
    "res.country": "Country",
}

COMMERCIAL = frozenset({"company_registry", "vat", "industry_id"})
"""What a contact has from its company, also when it is searched for."""

OWN_COMPANY = 1
"""The company that every user works for; the other one has its own records."""

STANDING_RECORDS: Mapping[str, tuple[tuple[str, Mapping[str, str | int]], ...]] = {
    "res.company": (
        ("base.main_company", {"name": "Our Company"}),
        ("base.second_company", {"name": "Other Company"}),
    ),
    "res.country": (
        ("base.sg", {"name": "Singapore", "code": "SG"}),
        ("base.my", {"name": "Malaysia", "code": "MY"}),
        ("base.id", {"name": "Indonesia", "code": "ID"}),
        ("base.us", {"name": "United States", "code": "US"}),
        ("base.uk", {"name": "United Kingdom", "code": "GB"}),
    ),
    "res.partner.industry": tuple(
        (f"base.res_partner_industry_{section}", {"name": name})
        for section, name in (
            ("A", "Agriculture"),
            ("B", "Mining"),
            ("C", "Manufacturing"),
            ("D", "Energy supply"),
            ("E", "Water supply"),
            ("F", "Construction"),
            ("G", "Wholesale/Retail"),
            ("H", "Transportation/Logistics"),
            ("I", "Food/Hospitality"),
            ("J", "IT/Communication"),
            ("K", "Finance/Insurance"),
            ("L", "Real Estate"),
            ("M", "Scientific"),
            ("N", "Administrative/Utilities"),
            ("O", "Public Administration"),
            ("P", "Education"),
            ("Q", "Health/Social"),
            ("R", "Entertainment"),
            ("S", "Other Services"),
            ("T", "Households"),
            ("U", "Extraterritorial"),
        )
    ),
    "crm.stage": (
        ("crm.stage_lead1", {"name": "New", "sequence": 1}),
        ("crm.stage_lead2", {"name": "Qualified", "sequence": 2}),
        ("crm.stage_lead3", {"name": "Proposition", "sequence": 3}),
        ("crm.stage_lead4", {"name": "Won", "sequence": 70}),
    ),
    "crm.team": (("sales_team.team_sales_department", {"name": "Sales"}),),
    "mail.activity.type": (
        ("mail.mail_activity_data_email", {"name": "Email"}),
        ("mail.mail_activity_data_call", {"name": "Call"}),
        ("mail.mail_activity_data_todo", {"name": "To-Do"}),
    ),
    "ir.model": (
        ("base.model_res_partner", {"name": "Contact", "model": "res.partner"}),
        ("crm.model_crm_lead", {"name": "Lead", "model": "crm.lead"}),
    ),
}

DEFAULTS: Mapping[str, Mapping[str, str | bool | int]] = {
    "res.partner": {"active": True, "type": "contact", "is_company": False},
    "crm.lead": {"active": True, "priority": "0", "stage_id": 1, "probability": 0},
    "res.partner.category": {"active": True},
    "mail.activity": {"activity_type_id": 3},
}
