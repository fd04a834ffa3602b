"""A registered entity, the loads that brought it, and the store of the public register.

The register is the same for all tenants. Callers pass the time; moments come back in UTC.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Protocol

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
    changed_at: datetime | None = None  # when it was last seen to differ; told by the store
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


class RegistryStore(Protocol):
    """The public register of companies, as last read; it belongs to no tenant."""

    async def begin_load(self, load: Load) -> None:
        """Remember that a file is being read, with nothing counted or rejected yet.

        The same load again starts it over.
        """
        ...

    async def load_entities(
        self, load: Load, rows: Sequence[Entity], *, now: datetime
    ) -> LoadCount:
        """Put entities in place of what was known of their numbers, if they differ in anything.

        Returns how many were new, changed and the same; what is the same is not written again.
        Changed ones are dated `now`, or just after the latest date there is when that is not
        earlier, so whoever follows the changes misses none. One that was gone is back, and has
        changed. Atomic. Reading a row twice is reading it once. Raises ConflictError, and writes
        nothing, unless the load was begun and has not ended.
        """
        ...

    async def reject_rows(self, load: Load, rejects: Sequence[Reject]) -> None:
        """Keep rows that could not be read, with the reason, under their line of the load.

        A line has one reject, the latest. Raises ConflictError as `load_entities` does, and
        PermanentError when one of them is of another load.
        """
        ...

    async def end_load(self, load: Load, *, now: datetime) -> Load:
        """Remember how a load went, as counted by whoever read it, and return it so.

        When it and other ended loads of the same release cover the whole register, entities last
        seen in an earlier release are marked as gone, dated as changed ones are; otherwise absence
        means nothing. Raises ConflictError when the load was never begun.
        """
        ...

    async def list_loads(self, *, limit: int = 100) -> list[Load]: ...

    async def list_rejects(self, *, after: int = 0, limit: int = 1000) -> list[Reject]:
        """Return one page of the rows that could not be read, oldest first."""
        ...

    async def find_entity(self, uen: str) -> Entity | None: ...

    async def list_changed_entities(
        self, *, since: datetime | None = None, after: str = "", limit: int = 1000
    ) -> list[Entity]:
        """Return one page of the entities that are new, changed or gone since then.

        In order of (changed_at, uen), beginning after `since`, or within it after a number: pass
        the last one's `changed_at` and `uen` to go on.
        """
        ...

    async def count_entities(self, *, by: str = "status") -> dict[str, int]:
        """Return how many entities there are: by status, kind, division of industry or state.

        A division is the first two digits of the industry, a state live, closed or gone; what is
        gone is counted by state only. Raises PermanentError for another word.
        """
        ...

    async def load_codes(self, version: str, codes: Sequence[IndustryCode]) -> None:
        """Put a classification of industries in place of what was known of this version. Atomic.

        Raises PermanentError when a code is of another version or there twice.
        """
        ...

    async def list_codes(self, version: str) -> list[IndustryCode]:
        """Return a version's classification, in code order; empty when it was never loaded."""
        ...
