"""What is written to take a run's writes into a CRM back: what was there before, where it is ours.

A field somebody changed since is theirs and stays. A record that was made is archived, never
deleted: people may have hung notes and tasks on it that nobody here can see, and a person can bring
it back. Talking to the CRM is not done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.core.crm import CrmRecord
from stoker.core.crm_people import ACTIVE, worked_on
from stoker.core.model import Json
from stoker.core.upserts import ID, PLACE, Remembered, is_ours

ARCHIVED: Mapping[str, Json] = {ACTIVE: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What is written to take one row back; empty when nothing of it is left to take back."""

    values: Mapping[str, Json]
    left: tuple[str, ...] = ()  # columns somebody changed since
    because: str = ""  # why a record that was made or brought back is not archived


def undone(sent: Remembered, record: CrmRecord) -> Undoing:
    """Return how to restore what was there before, where nobody has changed it since.

    `record` has our columns, and who made and last wrote it where the CRM tells.
    """
    ours = {column: value for column, value in sent.values.items() if column not in (ID, PLACE)}
    theirs = tuple(
        column
        for column, value in ours.items()
        if not is_ours(value, record.values.get(column))
        and not (sent.before and is_ours(sent.before.get(column), record.values.get(column)))
    )
    if not sent.before:
        if theirs:
            return Undoing(values={}, left=theirs)
        if worked_on(record):
            return Undoing(values={}, because="somebody has worked on it since it was made")
        return Undoing(values=ARCHIVED)
    restored: dict[str, Json] = {
        column: sent.before.get(column) or False
        for column in ours
        if column not in theirs
        and (sent.before.get(column) or False) != (record.values.get(column) or False)
    }
    if ACTIVE in restored and (theirs or worked_on(record)):
        del restored[ACTIVE]
        because = "somebody has worked on it since it was brought back"
        return Undoing(values=restored, left=theirs, because=because)
    return Undoing(values=restored, left=theirs)


def meant(sent: Remembered, undoing: Undoing) -> dict[str, Json]:
    """Return what to remember before a row is taken back: for each field either may be found."""
    kept = dict(sent.values)
    for column in undoing.values.keys() & kept.keys():
        ours = kept[column]
        kept[column] = [*(ours if isinstance(ours, list) else [ours]), sent.before.get(column)]
    return kept


def remembered_after(sent: Remembered, undoing: Undoing) -> dict[str, Json]:
    """Return what to remember of a row once it was taken back.

    What was restored is ours as it was before, so a later night that has something new to say may
    say it; what people changed is theirs as before.
    """
    kept = dict(sent.values)
    for column, value in sent.values.items() if sent.before else ():
        # One of several: an earlier try got as far as the CRM and not back here.
        if column in undoing.values or (isinstance(value, list) and column not in undoing.left):
            kept[column] = sent.before.get(column)
        elif column == ACTIVE:
            # Not archived by this: if it is archived, somebody else did it.
            del kept[column]
    return kept
