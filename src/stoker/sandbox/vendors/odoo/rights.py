"""The users of the fake Odoo, whose key is whose, and what each of them may do.

Groups and their names are those of a version 19 server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.sandbox.vendors.odoo.models import LABELS

SYSTEM_UID, INTEGRATION_UID, HUMAN_UID = 1, 2, 3

_USER = "base.group_user"
_CONTACTS = "base.group_partner_manager"
_OWN_LEADS = "sales_team.group_sale_salesman"
_ALL_LEADS = "sales_team.group_sale_salesman_all_leads"
_MANAGER = "sales_team.group_sale_manager"
ACCOUNTING = "account.group_account_readonly"
USE_LEADS = "crm.group_use_lead"

_GROUP_NAMES = {
    _USER: "Role / User",
    _CONTACTS: "Contact / Creation",
    _OWN_LEADS: "Sales / User: Own Documents Only",
    _MANAGER: "Sales / Administrator",
    "base.group_system": "Role / Administrator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    login: str
    name: str
    groups: frozenset[str]
    word: str = ""  # what follows the database in this user's key
    external: str = ""  # by which loads name this user


_SALES = frozenset({_USER, _CONTACTS, _OWN_LEADS, _ALL_LEADS})

USERS: Mapping[int, User] = {
    SYSTEM_UID: User(
        login="__system__",
        name="OdooBot",
        groups=frozenset({"base.group_system"}),
        external="base.user_root",
    ),
    INTEGRATION_UID: User(
        login="stoker", name="Stoker Integration", groups=_SALES, external="base.user_admin"
    ),
    HUMAN_UID: User(
        login="mei",
        name="Mei Tan",
        groups=_SALES | {_MANAGER},
        word="human",
        external="base.user_sales",
    ),
    4: User(login="raj", name="Raj Pillai", groups=_SALES - {_ALL_LEADS}, word="own"),
    5: User(login="ida", name="Ida Lim", groups=frozenset({_USER}), word="internal"),
    6: User(login="tom", name="Tom Lee", groups=frozenset({_USER, _CONTACTS}), word="contacts"),
    7: User(login="ana", name="Ana Goh", groups=_SALES | {ACCOUNTING}, word="accounting"),
}
"""Who works here. `odoo-<database>-own-…` is Raj's key, and so on; any other is ours."""

_READ, _CHANGE = ("read",), ("read", "write", "create")
_ALL = (*_CHANGE, "unlink")

_ACCESS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "res.partner": {_USER: _READ, _CONTACTS: _ALL, _OWN_LEADS: _CHANGE},
    "crm.lead": {_OWN_LEADS: _CHANGE, _MANAGER: _ALL},
    "crm.lead.scoring.frequency": {_MANAGER: _READ},
    "sale.order": {_OWN_LEADS: _CHANGE, _MANAGER: _ALL},
    "crm.merge.opportunity": {_OWN_LEADS: _ALL},
    "crm.stage": {_OWN_LEADS: _READ, _MANAGER: _ALL},
    "crm.team": {_USER: _READ, _MANAGER: _ALL},
    "crm.tag": {_OWN_LEADS: _CHANGE, _MANAGER: _ALL},
    "res.partner.category": {_USER: _READ, _CONTACTS: _ALL, _OWN_LEADS: _CHANGE},
    "utm.source": {_USER: _CHANGE},
    "mail.activity": {_USER: _ALL},
    "base.partner.merge.automatic.wizard": {_CONTACTS: _ALL},
    "ir.model": {"base.group_system": _ALL},
    "ir.model.data": {"base.group_system": _ALL},
}
_VERBS = {"read": "access", "write": "modify", "create": "create", "unlink": "delete"}
OPERATIONS = tuple(_VERBS)


def find_user(database: str, key: str) -> int | None:
    """Return whose key this is, or None when it does not open the database."""
    if not key.startswith(f"odoo-{database}-") or len(key) > 200 or "wrong" in key:
        return None
    rest = key.removeprefix(f"odoo-{database}-")
    named = (uid for uid, user in USERS.items() if user.word and rest.startswith(f"{user.word}-"))
    return next(named, INTEGRATION_UID)


def find_access_problem(model: str, operation: str, uid: int) -> str:
    """Return why a user may not do this with a model, in the server's words, or an empty text."""
    groups = _list_groups(model, operation)
    if USERS[uid].groups & groups.keys() or uid == SYSTEM_UID:
        return ""
    allowed = "".join(f"\n\t- {name}" for name in groups.values())
    where = (
        f"This operation is allowed for the following groups:{allowed}"
        if allowed
        else "No group currently allows this operation."
    )
    return (
        f"You are not allowed to {_VERBS[operation]} '{LABELS.get(model, model)}' ({model}) "
        f"records.\n\n{where}\n\nContact your administrator to request access if necessary."
    )


def _list_groups(model: str, operation: str) -> dict[str, str]:
    access = _ACCESS.get(model, {_USER: _READ})
    return {group: _GROUP_NAMES[group] for group, may in access.items() if operation in may}


def can_see(model: str, record: Mapping[str, Any], uid: int) -> bool:
    """Return whether a record is among those a user may see: of leads, own and unassigned ones."""
    if model != "crm.lead" or USERS[uid].groups & {_ALL_LEADS, "base.group_system"}:
        return True
    return record.get("user_id") in (None, False, uid)


def format_hidden(model: str, operation: str, uid: int) -> str:
    """Return what the server says of a record that belongs to another user."""
    return (
        "Uh-oh! Looks like you have stumbled upon some top-secret records.\n\n"
        f"Sorry, {USERS[uid].name} (id={uid}) doesn't have '{operation}' access to:\n"
        f"- {LABELS.get(model, model)} ({model})\n\n"
        "If you really, really need access, perhaps you can win over your friendly administrator "
        "with a batch of freshly baked cookies."
    )
