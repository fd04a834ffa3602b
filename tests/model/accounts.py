"""Who the tenants are, and one tenant's companies, in dictionaries: the model of the other stores.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from model.attention import MemoryPullStore
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Candidate,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    CrmConnection,
    LeadScore,
    Tenant,
    UpsertCount,
    merge_company,
    merge_company_record,
)
from stoker.accounts.schema import (
    COMPANIES,
    CONNECTIONS,
    CONTACTS,
    EMAILS,
    FACTS,
    FEATURES,
    RULES,
    SCORES,
    TENANTS,
)
from stoker.base.types import TenantId, to_utc
from stoker.db.codec import validate_text
from stoker.db.values import validate_key


class MemoryDirectory:
    """A `Directory` in this process."""

    def __init__(self) -> None:
        self._tenants: dict[TenantId, Tenant] = {}

    async def save_tenant(self, tenant: Tenant) -> bool:
        known = self._tenants.get(TENANTS.store(tenant).id)
        self._tenants[tenant.id] = tenant
        return tenant != known

    async def list_tenants(self) -> list[Tenant]:
        return [self._tenants[tenant] for tenant in sorted(self._tenants)]


class MemoryAccounts:
    """An `AccountStore` in this process; how hot companies are is told by their attention."""

    def __init__(self, attention: MemoryPullStore) -> None:
        self._attention = attention
        self._onboarded: dict[str, datetime] = {}
        self._rules: dict[str, IcpRule] = {}
        self._connection: CrmConnection | None = None
        self._dossiers: dict[CompanyId, CompanyRecord] = {}
        self._looked: set[CompanyId] = set()
        self._candidates: dict[str, set[CompanyId]] = {}
        self._mark: datetime | None = None

    async def complete_setup_step(self, step: str, *, at: datetime) -> None:
        self._onboarded.setdefault(validate_key(step, what="a step"), to_utc(at))

    async def list_setup_steps(self) -> dict[str, datetime]:
        return dict(sorted(self._onboarded.items()))

    async def save_rule(self, rule: IcpRule) -> None:
        self._rules[rule.name] = RULES.store(rule)

    async def find_rule(self, name: str) -> IcpRule | None:
        return self._rules.get(validate_key(name, what="a rule's name"))

    async def save_connection(self, connection: CrmConnection) -> None:
        self._connection = CONNECTIONS.store(connection)

    async def find_connection(self) -> CrmConnection | None:
        return self._connection

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> UpsertCount:
        now, new, changed, same = to_utc(now), 0, 0, 0
        for said in [COMPANIES.store(company) for company in companies]:
            known = self._dossiers.get(said.id)
            if known is None:
                new += 1
                self._dossiers[said.id] = CompanyRecord(company=replace(said, last_seen_at=now))
            elif merge_company(known.company, replace(said, last_seen_at=None)) == known.company:
                same += 1
            else:
                changed += 1
                company = merge_company(known.company, replace(said, last_seen_at=now))
                self._dossiers[said.id] = replace(known, company=company)
        return UpsertCount(new=new, changed=changed, same=same)

    async def list_companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        return [dossier.company for dossier in self._page(after)][:limit]

    async def save_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        fitting = {one for one in map(validate_company_id, ids) if _is_between(one, after, upto)}
        validate_text(after + (upto or ""), what="a company's id")
        before = self._candidates.get(validate_key(rule, what="a rule's name"), set())
        staying = {one for one in before if not _is_between(one, after, upto)}
        self._candidates[rule] = staying | fitting

    async def list_candidates(
        self, *, rule: str, after: str = "", limit: int = 1000
    ) -> list[Candidate]:
        fitting = self._candidates.get(validate_key(rule, what="a rule's name"), set())
        return [
            Candidate(
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

    async def count_visited_since(self, since: datetime) -> int:
        looked = [dossier.looked_at for dossier in self._dossiers.values()]
        return sum(at is not None and at >= since for at in looked)

    async def list_visited_since(
        self, companies: Sequence[CompanyId], since: datetime
    ) -> set[CompanyId]:
        records = [self._dossiers.get(validate_company_id(company)) for company in companies]
        return {
            record.company.id
            for record in records
            if record is not None and record.looked_at is not None and record.looked_at >= since
        }

    async def find_company_record(self, company: CompanyId) -> CompanyRecord | None:
        return self._dossiers.get(validate_company_id(company))

    async def list_company_records(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[CompanyRecord]:
        if run is not None:
            validate_key(run, what="a run's name")
        return [
            dossier
            for dossier in self._page(after)
            if dossier.company.id in self._looked
            and run in (None, dossier.run)
            and (least is None or (dossier.score is not None and dossier.score.value >= least))
        ][:limit]

    async def find_registry_cursor(self) -> datetime | None:
        return self._mark

    async def set_registry_cursor(self, at: datetime) -> None:
        self._mark = to_utc(at)

    def put_dossier(self, said: CompanyRecord) -> None:
        """Put what was found out in place of what was known, as part of another verb."""
        company = said.company.id
        known = self._dossiers.get(company)
        self._dossiers[company] = merge_company_record(known, said) if known else said
        self._looked.add(company)

    def _page(self, after: str) -> list[CompanyRecord]:
        validate_text(after, what="a company's id")
        return [self._dossiers[company] for company in sorted(self._dossiers) if company > after]


def validate_company_id(company: CompanyId) -> CompanyId:
    return CompanyId(validate_key(company, what="a company's id"))


def validate_company_record(record: CompanyRecord) -> CompanyRecord:
    """Return a record as a store returns it."""
    score = record.score
    return CompanyRecord(
        company=COMPANIES.store(record.company),
        contacts=tuple(
            Contact(**CONTACTS.store(contact), **EMAILS.store(contact))
            for contact in record.contacts
        ),
        score=score and LeadScore(**SCORES.store(score), **FEATURES.store(score)),
        **FACTS.store(record),
    )


def _is_between(one: str, after: str, upto: str | None) -> bool:
    return one > after and (upto is None or one <= upto)
