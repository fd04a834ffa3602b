"""A registered entity, and the loads that brought it.

The register is the same for all tenants. Callers pass the time; moments come back in UTC.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

# The register comes in files by the first letter of a name; all of them together are all of it.
PARTS = frozenset((*string.ascii_uppercase, "Others"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One registered entity, as its register last described it."""

    uen: str
    name: str
    kind: str  # Local Company, Limited Liability Partnership, …
    company_type: str = ""
    status: str  # as the register says it
    live: bool  # what that status means
    registered_on: date | None = None
    ssic: str = ""  # five digits, leading zero included
    ssic_secondary: str = ""
    activity: str = ""  # in the entity's own words
    street: str = ""  # block, street, level, unit and building in one line
    postal_code: str = ""
    officers: int | None = None
    former_names: tuple[str, ...] = ()
    raw: Mapping[str, str] = field(default_factory=dict)  # every column that says something
    digest: str  # of raw: the same row has the same digest
    changed_at: datetime | None = None  # when it was last seen to differ; set by the store
    gone_at: datetime | None = None  # when a whole register was read without it


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCount:
    """How rows compared with what was known."""

    new: int = 0
    changed: int = 0
    same: int = 0
    rejected: int = 0
    gone: int = 0

    @property
    def rows_read(self) -> int:
        """How many rows there were, those that could not be read included."""
        return self.new + self.changed + self.same + self.rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One reading of one file of the register."""

    id: str  # the digest of the file: the same file is the same load
    release: str  # of the register, e.g. 2025-12-31; a later one sorts later
    part: str  # which part of the register the file is: A … Z, Others, or a name of its own
    source: str  # where it came from, as a person would recognise it
    began_at: datetime
    ended_at: datetime | None = None
    count: LoadCount = field(default_factory=LoadCount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A row that could not be read, kept with the reason."""

    load: str
    line: int
    reason: str
    text: str  # the row as it was, cleaned and cut
    number: int = 0  # given by the store, rising


@dataclass(frozen=True, slots=True, kw_only=True)
class IndustryCode:
    version: str  # of the classification, e.g. 2020
    code: str
    title: str
    level: str  # section, division, group, class, subclass


def is_whole_register(parts: Collection[str]) -> bool:
    """Say whether these parts are all of the register, so that absence from them means something.

    An entity that was renamed is in another letter's file, so absence from one means nothing.
    """
    return frozenset(parts) >= PARTS


def choose_change_time(now: datetime, *, latest: datetime | None) -> datetime:
    """Return the date of a change made now, when the latest one before it was dated so.

    Later than all before, whatever the clock says: who has read up to a date has read them all.
    """
    return now if latest is None or now > latest else latest + timedelta(microseconds=1)
