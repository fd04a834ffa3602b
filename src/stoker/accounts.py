"""What a night needs remembered: tenants, what they look for, their companies, and its own units.

Verbs of stores, as in `ports`: each atomic, each wholly or not at all, told the time. Everything is
one tenant's own, behind its door, except the directory, which knows only who the tenants are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stoker.core.companies import Company, CompanyId, Dossier, Standing
from stoker.core.icp import IcpRule
from stoker.core.model import Json, TenantId
from stoker.core.nights import Unit, UnitState


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Somebody Stoker works for. Its settings are not here."""

    id: TenantId
    name: str = ""
    active: bool = True


class Directory(Protocol):
    """Who the tenants are. It holds nothing else of theirs."""

    async def put_tenant(self, tenant: Tenant) -> bool:
        """Add or change a tenant; say whether that changed anything.

        Raises ConfigError when its id cannot be one.
        """
        ...

    async def tenants(self) -> list[Tenant]:
        """Return all tenants, in id order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person who may act for a tenant. What proves who they are is not here."""

    id: str  # what they sign in as
    name: str = ""
    role: str
    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmConnection:
    """Where a tenant's results go. Its key is a setting, and never in a store."""

    kind: str  # odoo
    url: str
    database: str
    active: bool = True
    key_expires_at: datetime | None = None  # keys of Odoo last three months at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """How companies compared with what was known."""

    new: int = 0
    changed: int = 0
    same: int = 0


class AccountStore(Protocol):
    """One tenant's companies and what it knows about them."""

    async def put_user(self, user: User) -> None:
        """Remember a person under their id, in place of what was known of them."""
        ...

    async def users(self) -> list[User]:
        """Return everybody who may or might act for this tenant, in id order."""
        ...

    async def put_onboarded(self, step: str, *, at: datetime) -> None:
        """Remember that a step of setting this tenant up was done; the first time counts."""
        ...

    async def onboarding(self) -> dict[str, datetime]:
        """Return the steps of setting this tenant up that were done, and when, by step."""
        ...

    async def put_rule(self, rule: IcpRule) -> None:
        """Remember a rule under its name, in place of an older one."""
        ...

    async def rule(self, name: str) -> IcpRule | None:
        """Return the rule of this name."""
        ...

    async def put_connection(self, connection: CrmConnection) -> None:
        """Remember where results go, in place of where they went before."""
        ...

    async def connection(self) -> CrmConnection | None:
        """Return where results go."""
        ...

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> Upserted:
        """Put companies in place of what was known of their ids, if they differ.

        As `core.merging.merged_company`: what is empty or None never replaces a value. New and
        changed ones are last seen `now`, never earlier than before; what is given as their
        `last_seen_at` does not count. The same company twice is one after the other. Atomic.
        """
        ...

    async def companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        """Return one page of companies, in id order."""
        ...

    async def put_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        """Remember which companies fit a rule, in place of those that did before. Atomic.

        With `after` and `upto`, only of the ids between them, the second among them: whoever goes
        through companies page by page says it so. Ids that are not between them do not count.
        """
        ...

    async def candidates(self, *, rule: str, after: str = "", limit: int = 1000) -> list[Standing]:
        """Return one page of the companies that fit a rule, as targets are chosen from them.

        In id order. A company that was never put here is not among them.
        """
        ...

    async def looked_at_since(self, since: datetime) -> int:
        """Return how many companies were looked at in this moment or later."""
        ...

    async def dossier(self, company: CompanyId) -> Dossier | None:
        """Return everything known about a company, looked at or not; None if there is none."""
        ...

    async def dossiers(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[Dossier]:
        """Return one page of the dossiers of companies that were looked at, in id order.

        With `run`, those which that run wrote last; with `least`, those whose score is at least
        so much; with both, those that are both.
        """
        ...

    async def mark(self) -> datetime | None:
        """Return up to when changes of the register have been taken over."""
        ...

    async def put_mark(self, at: datetime) -> None:
        """Remember up to when changes of the register have been taken over.

        As it is said: earlier than before means taking some of them over again.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """What we last wrote into a record of a tenant's CRM, and what was there before."""

    external_id: str
    model: str
    digest: str
    values: Mapping[str, Json]  # as we wrote them
    before: Mapping[str, Json]  # as they were when this run first wrote; empty: it made the record
    run: str  # or `core.upserts.FOUND`: no run that is remembered wrote it
    at: datetime
    # Other digests that need no sending, as `core.upserts.settled_by` says; `sent_rows` tells them.
    settled: frozenset[str] = frozenset()


class NightStore(Protocol):
    """One tenant's units of work, and what it has written into its CRM."""

    async def plan_units(self, run: str, units: Sequence[Unit]) -> int:
        """Add units to a run; return how many were new. One already there stays as it is.

        Raises ConflictError, and adds nothing, when a new one's place in the order is another's.
        """
        ...

    async def take_units(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[Unit]:
        """Take the next units nobody has, or whose owner fell silent, in their order.

        An owner has fallen silent when its `until` is not after `now`. Atomic: of many takers each
        unit goes to one. Taking lengthens nothing already taken.
        """
        ...

    async def keep_units(self, run: str, *, owner: str, until: datetime) -> int:
        """Lengthen everything this owner has taken; return how many. It never shortens."""
        ...

    async def finish_unit(self, run: str, unit: Unit, dossier: Dossier | None) -> bool:
        """Write down how a unit ended, and what is known about its company now, together.

        False, and nothing is written, when the unit has ended already, has another owner or was
        never planned; one that nobody has taken has the empty owner. Its place stays as planned.
        The dossier replaces what was known, contacts and score included; empty values never do,
        as `core.merging.merged_dossier` says.
        """
        ...

    async def give_back_units(self, run: str, *, owner: str) -> int:
        """Make everything this owner has taken and not finished free again; return how many."""
        ...

    async def units(
        self, run: str, *, states: Sequence[UnitState] = (), after: int = -1, limit: int = 1000
    ) -> list[Unit]:
        """Return one page of a run's units in their order, beginning after a place."""
        ...

    async def count_units(self, run: str) -> dict[UnitState, int]:
        """Return how many units of a run are in each state; a state without any is left out."""
        ...

    async def last_look(self, company: CompanyId) -> tuple[str, Unit] | None:
        """Return the newest run that had this company, by the run's name, and its unit."""
        ...

    async def sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        """Return what was last written under these ids, by id: the latest, whichever run's.

        With what all writes under the id together have settled.
        """
        ...

    async def keep_sent(self, rows: Sequence[SentRow]) -> None:
        """Remember what was written; `before` of the same run stays as it was first kept.

        What another run wrote under the same id is kept beside it, and what is settled follows
        from that alone. Atomic.
        """
        ...

    async def sent_by(self, run: str, *, after: str = "", limit: int = 1000) -> list[SentRow]:
        """Return one page of what a run wrote, in id order."""
        ...
