"""What the engine needs from those it asks: connectors, and a memory of what they said.

A connector answers one need through one vendor and says what it cost; it decides nothing, pays
nothing and waits for nobody's turn. Memories are a tenant's own, except the registry, which is
public and the same for everybody. Stores are told the time; what comes back is in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from stoker.core.crm import CrmField, CrmRecord, CrmRow
from stoker.core.entities import Entity, IndustryCode, Load, LoadCount, Reject
from stoker.core.model import Json
from stoker.core.pages import PageSeen
from stoker.core.quotas import Quota
from stoker.core.upserts import Write

Answer = TypeVar("Answer")
Question_contra = TypeVar("Question_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[Answer]):
    """What a step did: the answer it got, what that cost by unit, and what it left of a quota."""

    answer: Answer
    cost: Mapping[str, int]
    quota: Quota | None = None  # only ever slows us down


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a connector says of itself: is the vendor there, does it take our key, what is left."""

    ok: bool
    detail: str


class Connector(Protocol[Question_contra, Answer]):
    """One need, answered by one vendor. Its caps, rates and stops go by its name."""

    @property
    def name(self) -> str:
        """The connector's name, as in caps: `tavily`."""
        ...

    def price(self, question: Question_contra) -> Mapping[str, int]:
        """Return the most that one call with this question may cost, by unit.

        It is promised before the call. Raises PermanentError for a question no vendor can answer.
        """
        ...

    async def ask(self, question: Question_contra, *, key: str) -> Done[Answer]:
        """Ask once, and return the answer with what it cost; the key goes along where it counts.

        It never tries again by itself. Raises TransientError when nothing was done and later may
        work (with `retry_after` if the vendor said when), PermanentError when nothing was done
        and this question will not work, UncertainError when it may have been charged (with
        `broke_down` if the vendor itself said that it failed), and ConfigError when no question
        will work before a person acts: a key refused, credits gone, a feature not in the plan.
        """
        ...

    async def check(self) -> Health:
        """Find out at no cost whether the vendor is there and takes our key. Never raises."""
        ...


class Pacer(Protocol):
    """Waits for a turn: one clock per host or vendor key, for all tenants and all workers."""

    async def turn(self, host: str, *, gap: timedelta) -> None:
        """Wait until a request to this host may go, at least `gap` after the one before."""
        ...

    async def push_back(self, host: str, *, until: datetime) -> None:
        """Let nothing go to this host before then; it never makes it sooner."""
        ...


class PageStore(Protocol):
    """What one tenant's earlier visits to sites saw: enough to ask only for what changed."""

    async def pages(self, site: str) -> list[PageSeen]:
        """Return what is known of a site's pages, by address."""
        ...

    async def remember_pages(self, site: str, pages: Sequence[PageSeen]) -> None:
        """Remember pages of a site, each in place of what was known of its address. Atomic."""
        ...

    async def forget_site(self, site: str) -> int:
        """Forget a site; return how many pages that were."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An answer somebody paid for, kept so that nobody pays for it again while it is good."""

    key: str
    connector: str
    answer: Json
    cost: Mapping[str, int]
    at: datetime
    good_until: datetime


class AnswerStore(Protocol):
    """One tenant's paid answers. An answer is there before its promise is settled."""

    async def keep_answers(self, answers: Sequence[Kept]) -> None:
        """Keep answers, each in place of an older one under its key. Atomic."""
        ...

    async def answers(self, keys: Sequence[str]) -> dict[str, Kept]:
        """Return the answers kept under these keys, good or no longer good, by key."""
        ...

    async def forget_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        """Forget at most so many answers that were good until before then; return how many."""
        ...


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

    async def loads(self, *, limit: int = 100) -> list[Load]:
        """Return loads, newest first."""
        ...

    async def rejects(self, *, after: int = 0, limit: int = 1000) -> list[Reject]:
        """Return one page of the rows that could not be read, oldest first."""
        ...

    async def entity(self, uen: str) -> Entity | None:
        """Return an entity by its number."""
        ...

    async def entities_changed(
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

    async def codes(self, version: str) -> list[IndustryCode]:
        """Return a version's classification, in code order; empty when it was never loaded."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserting:
    """What became of one row: it has a record, or it has not and `because` says why."""

    external_id: str
    id: int | None = None
    because: str = ""
    later: bool = False  # it may well work another time; otherwise the row itself was refused
    retry_after: timedelta | None = None


class Crm(Protocol):
    """A tenant's CRM. Everything here may be done twice: twice is once.

    So nothing is ever uncertain. Its verbs raise TransientError when later may work, ConfigError
    when a person must act first, and PermanentError when the CRM will not have it.
    """

    @property
    def place(self) -> str:
        """Which CRM this is: the same text for the same database, another one for any other."""
        ...

    async def check(self) -> Health:
        """Find out whether the CRM is there and takes our key. Never raises."""
        ...

    async def fields(self, model: str) -> Mapping[str, CrmField]:
        """Return a model's fields by name; asked once, then remembered."""
        ...

    async def found(
        self, rows: Sequence[CrmRow], *, known: Mapping[str, int]
    ) -> dict[str, CrmRecord]:
        """Return what stands in the CRM for these rows, by their external id, archived or not.

        `known` has the records' numbers as far as they are remembered. For a row that must be
        `alone`, a record of somebody else's stands in when there is none of ours.
        """
        ...

    async def upsert(self, writes: Sequence[Write]) -> dict[str, Upserting]:
        """Make or change records by their external ids; say what became of each.

        A row the CRM refuses is set aside and the others are written. Of many callers that write
        one id at once, all succeed in turn or are told later; there is never a second record.
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
