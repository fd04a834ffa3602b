"""What can be told from a record about who had it in hand last, and whether it was put away.

Which columns say so is Odoo's business. What follows from it for a row that is sent is decided in
`upserts`, for one that is taken back in `taking_back`.
"""

from __future__ import annotations

from stoker.core.crm import CrmRecord
from stoker.core.model import Json

MAKER, WRITER, ACTIVE = "create_uid", "write_uid", "active"
HANDS = (MAKER, WRITER, ACTIVE)  # to be asked for beside a row's own columns
_NOBODY = 1  # the number of the CRM's own robot, which is not a person


def is_archived(record: CrmRecord) -> bool:
    """Say whether a record is put away; one whose CRM does not tell is not."""
    return ACTIVE in record.values and not record.values[ACTIVE]


def worked_on(record: CrmRecord) -> bool:
    """Say whether a person wrote it last; one who uses our own key cannot be told from us."""
    maker, writer = (_number(record.values.get(column)) for column in (MAKER, WRITER))
    return maker is not None and writer is not None and writer not in (maker, _NOBODY)


def _number(user: Json) -> int | None:
    first = user[0] if isinstance(user, list | tuple) and user else user
    return first if isinstance(first, int) and not isinstance(first, bool) else None
