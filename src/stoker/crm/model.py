"""Rows and records of a CRM, what one write changes, and what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoker.base.types import Json

PARTNER = "res.partner"

LEAD = "crm.lead"

Cell = str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyIdentity:
    """What a company is recognised by where people have it already."""

    number: str = ""
    website: str = ""
    mail_domains: tuple[str, ...] = ()  # its own, no free mail host's
    name: str = ""  # its legal name


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
    spare_links: Mapping[str, str] = field(default_factory=dict)  # where those cannot be linked
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of records, for `values`
    names_on_create: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    match_by: tuple[str, str] | None = None  # column and value, when its id is not known
    is_unique: bool = False  # only one such record may exist, even a person's
    company: CompanyIdentity | None = None  # how a person's record of it is recognised
    person_email: str = ""  # how a person's record of this person is recognised
    digest: str = ""  # of the row before names were replaced by records; empty: none were
    tag_columns: frozenset[str] = frozenset()  # values that are several records, as `3,7`


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmField:
    """One field of a model, as the CRM describes it."""

    kind: str
    readonly: bool = False
    choices: tuple[str, ...] = ()  # empty: any
    label: str = ""  # as people there read it
    required: bool = False


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
    # Cells instead of the links, for when what they link to is refused.
    spare: Mapping[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """The result of one row: its record, or `reason` why it has none."""

    external_id: str
    id: int | None = None
    reason: str = ""
    is_retryable: bool = False  # a retry may work; otherwise the row itself was refused
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """The values we last wrote into a CRM record, and the values before that."""

    external_id: str
    model: str
    digest: str
    values: Mapping[str, Json]  # as we wrote them
    before: Mapping[str, Json]  # as they were when this run first wrote; empty: it made the record
    run: str  # or `FOUND_IN_CRM`: no run on record wrote it
    at: datetime
    # Other digests that need no sending, see `list_settled_digests`; `find_sent_rows` fills them.
    settled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRow:
    """A row that the last export did not write, and why."""

    external_id: str
    model: str
    run: str
    is_refused: bool  # by the CRM; otherwise it was left to people
    reason: str
    at: datetime
