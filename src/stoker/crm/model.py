"""Rows and records of a CRM, what one write changes, and what a CRM offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from stoker.base.types import Json
from stoker.budgets.model import Health

PARTNER = "res.partner"

LEAD = "crm.lead"

Cell = str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmRow:
    """One record as we want it. Empty values are not in it: nothing never replaces something.

    `values` are updated as long as no person changes them; `on_create` and `links` are set when the
    record is created and are people's from then on.
    """

    model: str
    external_id: str
    values: Mapping[str, Cell]
    on_create: Mapping[str, Cell] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # column: external id of another row
    match_by: tuple[str, str] | None = (
        None  # column and value to find it by when its id is not known
    )
    is_unique: bool = False  # only one such record may exist, even a person's


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmField:
    """One field of a model, as the CRM describes it."""

    kind: str
    readonly: bool = False
    choices: tuple[str, ...] = ()  # empty: any


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmRecord:
    """A record as it is in the CRM."""

    id: int
    external_id: str  # empty or foreign for a record that is not ours
    values: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWrite:
    """One row to be sent: only these cells, all others stay as they are."""

    row: CrmRow
    cells: Mapping[str, Cell]  # empty: nothing needs sending, only storing
    digest: str
    before: Mapping[str, Json]  # empty: this write creates the record
    # Our values if the answer is lost: for each field the old or the new one.
    intent: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """The result of one row: its record, or `reason` why it has none."""

    external_id: str
    id: int | None = None
    reason: str = ""
    is_retryable: bool = False  # a retry may work; otherwise the row itself was refused
    retry_after: timedelta | None = None


class Crm(Protocol):
    """A tenant's CRM. Every verb may be repeated: twice is once."""

    @property
    def database_id(self) -> str:
        """Which CRM this is: equal for the same database, and for no other."""
        ...

    async def check(self) -> Health:
        """Check whether the CRM answers and accepts our key. Never raises."""
        ...

    async def fields(self, model: str) -> Mapping[str, CrmField]:
        """Return a model's fields by name; read once, then cached."""
        ...

    async def find_records(
        self, rows: Sequence[CrmRow], *, known: Mapping[str, int]
    ) -> dict[str, CrmRecord]:
        """Return what stands in the CRM for these rows, by their external id, archived or not.

        `known` has the records' numbers as far as they are remembered. For a row that must be
        `is_unique`, a person's record is returned when there is none of ours.
        """
        ...

    async def upsert(self, writes: Sequence[RowWrite]) -> dict[str, RowResult]:
        """Make or change records by their external ids; say what became of each.

        A row the CRM refuses is set aside and the others are written. Of many callers that write
        one id at once, all succeed in turn or are retryable; there is never a second record.
        Raises ConfigError only.
        """
        ...

    async def change(self, model: str, ids: Sequence[int], values: Mapping[str, Json]) -> None:
        """Set fields of records, also to nothing (False); of all of them or of none."""
        ...

    async def search(
        self,
        model: str,
        domain: Sequence[Json],
        *,
        fields: Sequence[str],
        limit: int = 1000,
        after: int = 0,
    ) -> list[CrmRecord]:
        """Return one page of the records that match, in id order, beginning after an id."""
        ...
