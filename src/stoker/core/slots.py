"""What became of each instant of a schedule.

An instant is decided once, by whoever writes its record first; the record carries a sentence
saying why. Which instants there are is `cadence`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.core.ledger import Note
from stoker.core.model import in_utc
from stoker.core.runs import run_name


class SlotState(StrEnum):
    """The three things that can become of an instant."""

    STARTED = "STARTED"
    MISSED = "MISSED"  # nobody was there in time, and a later instant ran instead
    OVERLAP = "OVERLAP"  # the run before it was still going


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One instant of one schedule, decided."""

    schedule: str
    instant: datetime
    state: SlotState
    decided_at: datetime
    reason: str = ""
    run_at: datetime | None = None  # the run it started


def slot_note(slot: Slot, *, latest: datetime | None = None) -> Note:
    """Return the line the ledger keeps of a decided instant, never earlier than its last one.

    A clock that is a little late would otherwise reopen, for money, a window that is over.
    """
    return Note(
        at=slot.decided_at if latest is None else max(slot.decided_at, latest),
        kind=slot.state.value,
        subject=f"{slot.schedule}@{in_utc(slot.instant).isoformat()}",
        reason=slot.reason,
        data={"run": run_name(slot.run_at)} if slot.run_at else {},
    )
