"""Who the tenants are, and one tenant's companies, in dictionaries: the model of the other stores.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Company,
    CompanyId,
    CrmConnection,
    Dossier,
    Standing,
    Tenant,
    Upserted,
    User,
    merged_company,
    merged_dossier,
)
from stoker.accounts.row_checks import (
    kept_between,
    kept_company,
    kept_connection,
    kept_id,
    kept_rule,
    kept_run_name,
    kept_tenant,
    kept_user,
)
from stoker.base.types import TenantId, in_utc
from stoker.db.codec import kept_text
from stoker.db.values import kept_name
from stoker.memory.attention import MemoryAttention


class MemoryDirectory:
    """A `Directory` in this process."""

    def __init__(self) -> None:
        self._tenants: dict[TenantId, Tenant] = {}

    async def put_tenant(self, tenant: Tenant) -> bool:
        known = self._tenants.get(kept_tenant(tenant).id)
        self._tenants[tenant.id] = tenant
        return tenant != known

    async def tenants(self) -> list[Tenant]:
        return [self._tenants[tenant] for tenant in sorted(self._tenants)]


class MemoryAccounts:
    """An `AccountStore` in this process; how hot companies are is told by their attention."""

    def __init__(self, attention: MemoryAttention) -> None:
        self._attention = attention
        self._users: dict[str, User] = {}
        self._onboarded: dict[str, datetime] = {}
        self._rules: dict[str, IcpRule] = {}
        self._connection: CrmConnection | None = None
        self._dossiers: dict[CompanyId, Dossier] = {}
        self._looked: set[CompanyId] = set()
        self._candidates: dict[str, set[CompanyId]] = {}
        self._mark: datetime | None = None

    async def put_user(self, user: User) -> None:
        self._users[user.id] = kept_user(user)

    async def users(self) -> list[User]:
        return [self._users[name] for name in sorted(self._users)]

    async def put_onboarded(self, step: str, *, at: datetime) -> None:
        self._onboarded.setdefault(kept_name(step, what="a step"), in_utc(at))

    async def onboarding(self) -> dict[str, datetime]:
        return dict(sorted(self._onboarded.items()))

    async def put_rule(self, rule: IcpRule) -> None:
        self._rules[rule.name] = kept_rule(rule)

    async def rule(self, name: str) -> IcpRule | None:
        return self._rules.get(kept_name(name, what="a rule's name"))

    async def put_connection(self, connection: CrmConnection) -> None:
        self._connection = kept_connection(connection)

    async def connection(self) -> CrmConnection | None:
        return self._connection

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> Upserted:
        now, new, changed, same = in_utc(now), 0, 0, 0
        for said in [kept_company(company) for company in companies]:
            known = self._dossiers.get(said.id)
            if known is None:
                new += 1
                self._dossiers[said.id] = Dossier(company=replace(said, last_seen_at=now))
            elif merged_company(known.company, replace(said, last_seen_at=None)) == known.company:
                same += 1
            else:
                changed += 1
                company = merged_company(known.company, replace(said, last_seen_at=now))
                self._dossiers[said.id] = replace(known, company=company)
        return Upserted(new=new, changed=changed, same=same)

    async def companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        return [dossier.company for dossier in self._page(after)][:limit]

    async def put_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        fitting = kept_between([kept_id(one) for one in ids], after=after, upto=upto)
        before = self._candidates.get(kept_name(rule, what="a rule's name"), set())
        self._candidates[rule] = (before - kept_between(before, after=after, upto=upto)) | fitting

    async def candidates(self, *, rule: str, after: str = "", limit: int = 1000) -> list[Standing]:
        fitting = self._candidates.get(kept_name(rule, what="a rule's name"), set())
        return [
            Standing(
                id=dossier.company.id,
                scored=dossier.score is not None,
                contacts=len(dossier.contacts),
                last_seen_at=dossier.company.last_seen_at,
                last_looked_at=dossier.looked_at,
                heat=self._attention.score(dossier.company.id),
            )
            for dossier in self._page(after)
            if dossier.company.id in fitting
        ][:limit]

    async def looked_at_since(self, since: datetime) -> int:
        looked = [dossier.looked_at for dossier in self._dossiers.values()]
        return sum(at is not None and at >= since for at in looked)

    async def dossier(self, company: CompanyId) -> Dossier | None:
        return self._dossiers.get(kept_id(company))

    async def dossiers(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[Dossier]:
        if run is not None:
            kept_run_name(run)
        return [
            dossier
            for dossier in self._page(after)
            if dossier.company.id in self._looked
            and run in (None, dossier.run)
            and (least is None or (dossier.score is not None and dossier.score.value >= least))
        ][:limit]

    async def mark(self) -> datetime | None:
        return self._mark

    async def put_mark(self, at: datetime) -> None:
        self._mark = in_utc(at)

    def put_dossier(self, said: Dossier) -> None:
        """Put what was found out in place of what was known, as part of another verb."""
        company = said.company.id
        known = self._dossiers.get(company)
        self._dossiers[company] = merged_dossier(known, said) if known else said
        self._looked.add(company)

    def _page(self, after: str) -> list[Dossier]:
        kept_text(after, what="a company's id")
        return [self._dossiers[company] for company in sorted(self._dossiers) if company > after]
