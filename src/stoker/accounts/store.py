"""Store one tenant's companies with what is known about them in SQL.

An empty value replaces nothing; the row itself decides that, so that two writers about one company
lose neither's values. A company's own row is written first: its lock protects its other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoker.accounts.erasure import Person, Suppressions
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Candidate,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
    SiteOwner,
    SiteVerdict,
    UpsertCount,
    merge_company,
)
from stoker.accounts.schema import (
    CANDIDATES,
    COMPANIES,
    CONTACTS,
    EMAILS,
    FACTS,
    FEATURES,
    RULES,
    SCORES,
    SUPPRESSIONS,
)
from stoker.accounts.websites import get_host
from stoker.base.types import to_utc
from stoker.db.codec import validate_key, validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_optional_db_time,
    split_into_batches,
    to_db_time,
)
from stoker.db.table import split_row

SELECT_REGISTRY_CURSOR = (
    "SELECT at FROM account_marks WHERE tenant_id = :tenant AND name = 'register'"
)

UPSERT_REGISTRY_CURSOR = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, 'register', :at)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = excluded.at
"""

# Locks the candidates; the row itself means nothing.
LOCK_CANDIDATES = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, 'candidates', NULL)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = account_marks.at
"""

SELECT_CANDIDATE_IDS = """
SELECT company_id FROM icp_candidate_companies
WHERE tenant_id = :tenant AND rule = :rule AND company_id > :after
"""

SELECT_CANDIDATE_IDS_UP_TO = f"{SELECT_CANDIDATE_IDS} AND company_id <= :upto"

DELETE_CANDIDATE = """
DELETE FROM icp_candidate_companies WHERE tenant_id = ? AND rule = ? AND company_id = ?
"""

SELECT_CANDIDATES = """
SELECT c.id, s.company_id IS NOT NULL, (SELECT count(*) FROM contacts k
    WHERE k.tenant_id = c.tenant_id AND k.company_id = c.id), c.last_seen, f.looked_at,
    coalesce(h.score, 0.0), c.posture
FROM icp_candidate_companies i JOIN companies c ON c.tenant_id = i.tenant_id AND c.id = i.company_id
LEFT JOIN lead_scores s ON s.tenant_id = c.tenant_id AND s.company_id = c.id
LEFT JOIN company_findings f ON f.tenant_id = c.tenant_id AND f.company_id = c.id
LEFT JOIN account_heats h ON h.tenant_id = c.tenant_id AND h.account_id = c.id
WHERE i.tenant_id = :tenant AND i.rule = :rule AND i.company_id > :after
ORDER BY i.company_id LIMIT :limit
"""

COUNT_VISITED = """
SELECT count(*) FROM company_findings WHERE tenant_id = :tenant AND looked_at >= :since
"""

SELECT_VISITED = """
SELECT f.company_id FROM asked JOIN company_findings f
    ON f.tenant_id = :tenant AND f.company_id = asked.id
WHERE f.looked_at >= :since
"""

SELECT_CONTACTS_BY_EMAIL = """
SELECT DISTINCT company_id FROM lead_emails WHERE tenant_id = :tenant AND lower(email) = :email
"""

SELECT_SUPPRESSIONS = "SELECT name, value FROM contact_suppressions WHERE tenant_id = :tenant"

UPDATE_FACTS = """
UPDATE company_findings SET findings = :findings
WHERE tenant_id = :tenant AND company_id = :company
"""

UPDATE_RATIONALE = """
UPDATE lead_scores SET rationale = :rationale WHERE tenant_id = :tenant AND company_id = :company
"""

DELETE_CONTACTS = "DELETE FROM contacts WHERE tenant_id = :tenant AND company_id = :company"

DELETE_EMAILS = "DELETE FROM lead_emails WHERE tenant_id = :tenant AND company_id = :company"

UPDATE_WEBSITE = "UPDATE companies SET website = :website WHERE tenant_id = :tenant AND id = :id"

UPDATE_GIVEN = """
UPDATE companies SET given = TRUE, posture = coalesce(?, posture) WHERE tenant_id = ? AND id = ?
"""

UPDATE_SITE = """
UPDATE company_findings SET site = :site WHERE tenant_id = :tenant AND company_id = :company
"""

_RECORD_TABLES = (COMPANIES, FACTS, SCORES, FEATURES)

_RECORD_COLUMNS = ", ".join(
    table.names_of(alias) for table, alias in zip(_RECORD_TABLES, "cfsx", strict=True)
)

_JOIN_SCORE = """
LEFT JOIN lead_scores s ON s.tenant_id = c.tenant_id AND s.company_id = c.id
LEFT JOIN lead_features x ON x.tenant_id = c.tenant_id AND x.company_id = c.id
"""

SELECT_RECORD = f"""SELECT {_RECORD_COLUMNS} FROM companies c
LEFT JOIN company_findings f ON f.tenant_id = c.tenant_id AND f.company_id = c.id {_JOIN_SCORE}
WHERE c.tenant_id = :tenant AND c.id = :company
"""

SELECT_RECORDS = f"""SELECT {_RECORD_COLUMNS} FROM company_findings f
JOIN companies c ON c.tenant_id = f.tenant_id AND c.id = f.company_id {_JOIN_SCORE}
WHERE f.tenant_id = :tenant AND f.company_id > :after
"""

WHERE_RUN = " AND f.run = :run"

ORDER_AND_LIMIT = " ORDER BY f.company_id LIMIT :limit"

SELECT_CONTACTS = f"""
SELECT {CONTACTS.names_of("k")}, {EMAILS.names_of("e")}, k.company_id
FROM asked JOIN contacts k ON k.tenant_id = :tenant AND k.company_id = asked.id
LEFT JOIN lead_emails e
    ON e.tenant_id = k.tenant_id AND e.company_id = k.company_id AND e.place = k.place
ORDER BY k.place
"""


class AccountStore:
    """One tenant's companies and what it knows about them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_rule(self, rule: IcpRule) -> None:
        """Save a rule under its name, in place of an older one."""
        await self._database.write(lambda tx: RULES.save(tx, [rule]))

    async def find_rule(self, name: str) -> IcpRule | None:
        wanted = RULES.encode(name=name)
        found = await self._database.read(lambda tx: RULES.find(tx, "name = :name", **wanted))
        return found[0] if found else None

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> UpsertCount:
        """Insert or update companies by id. Atomic.

        Merges as `merge_company`: an empty value or None never replaces a value. New and changed
        companies get `last_seen_at = now`, never earlier than before; the given `last_seen_at` does
        not count. A company given twice is merged twice, in order.
        """
        now = to_utc(now)
        dated = [COMPANIES.store(replace(company, last_seen_at=now)) for company in companies]
        return await self._database.write(lambda tx: _upsert_companies(tx, dated))

    async def import_accounts(
        self, accounts: Sequence[Company], *, rule: str, now: datetime
    ) -> UpsertCount:
        """Insert or update the accounts a person gives, each once; they match the rule. Atomic.

        Empty values replace nothing. A posture or a website replaces what was known: people win.
        """
        now, wanted = to_utc(now), [_validate_id(each.id) for each in accounts]
        dated = [COMPANIES.store(replace(each, last_seen_at=now)) for each in accounts]
        CANDIDATES.encode(rule=rule)

        def put(tx: Transaction) -> UpsertCount:
            known = {company.id: company for company in COMPANIES.find_in(tx, "id", wanted)}
            given = [_complete_account(each, known.get(each.id)) for each in dated]
            changed = [each for each in given if _changes(each, known.get(each.id))]
            # As given, not merged: an empty value must not undo what another writer stored.
            COMPANIES.save(tx, changed)
            if changed:
                rows = [(each.posture, tx.tenant, each.id) for each in changed]
                tx.execute_many(UPDATE_GIVEN, rows)
            for each in changed:
                if each.website:
                    verdict = SiteVerdict(host=get_host(each.website), owner=SiteOwner.GIVEN)
                    site = FACTS.encode(site=verdict)["site"]
                    tx.execute(UPDATE_SITE, company=each.id, site=site)
            tx.execute(LOCK_CANDIDATES)
            fitting = sorted((tx.tenant, rule, each.id) for each in given if each.live)
            if fitting:
                tx.execute_many(f"{CANDIDATES.insert} ON CONFLICT DO NOTHING", fitting)
            new, same = len(given) - len(known), len(given) - len(changed)
            return UpsertCount(new=new, changed=len(changed) - new, same=same)

        return await self._database.write(put) if accounts else UpsertCount()

    async def list_companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        validate_text(after, what="a company's id")
        where = "id > :after ORDER BY id LIMIT :limit"
        return await self._database.read(
            lambda tx: COMPANIES.find(tx, where, after=after, limit=limit)
        )

    async def find_names(self, companies: Iterable[CompanyId]) -> dict[CompanyId, str]:
        """Return the names of those of these companies that are known."""
        ids = sorted(set(map(_validate_id, companies)))
        found = await self._database.read(lambda tx: COMPANIES.find_in(tx, "id", ids))
        return {company.id: company.name for company in found}

    async def save_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        """Save which companies match a rule, in place of earlier candidates. Atomic.

        With `after` and `upto`, only the ids between them (`upto` included) are replaced, for
        callers that go page by page; other ids are ignored.
        """
        values, select_ids = CANDIDATES.encode(rule=rule), SELECT_CANDIDATE_IDS
        values["after"] = validate_text(after, what="a company's id")
        if upto is not None:
            values["upto"] = validate_text(upto, what="a company's id")
            select_ids = SELECT_CANDIDATE_IDS_UP_TO
        matching = {
            _validate_id(one) for one in ids if one > after and (upto is None or one <= upto)
        }

        def replace_candidates(tx: Transaction) -> None:
            tx.execute(LOCK_CANDIDATES)
            before = {one for (one,) in tx.query(select_ids, **values)}
            for query, some in (
                (DELETE_CANDIDATE, before - matching),
                (CANDIDATES.insert, matching - before),
            ):
                if some:
                    tx.execute_many(query, [(tx.tenant, rule, one) for one in sorted(some)])

        await self._database.write(replace_candidates)

    async def list_candidates(
        self, *, rule: str, after: str = "", limit: int = 1000
    ) -> list[Candidate]:
        """Return one page of the companies that match a rule, in id order.

        A company that was never upserted is not among them.
        """
        values = CANDIDATES.encode(rule=rule)
        values |= {"after": validate_text(after, what="a company's id"), "limit": limit}
        rows = await self._database.read(lambda tx: tx.query(SELECT_CANDIDATES, **values))
        return [
            Candidate(
                id=one,
                scored=bool(scored),
                contacts=contacts,
                last_seen_at=from_optional_db_time(last_seen),
                last_looked_at=from_optional_db_time(looked_at),
                heat=float(heat),
                posture=posture,
            )
            for one, scored, contacts, last_seen, looked_at, heat, posture in rows
        ]

    async def count_visited_since(self, since: datetime) -> int:
        """Return how many companies were looked up at this moment or later."""
        moment = to_db_time(since)
        [[count]] = await self._database.read(lambda tx: tx.query(COUNT_VISITED, since=moment))
        return int(count)

    async def list_visited_since(
        self, companies: Sequence[CompanyId], since: datetime
    ) -> set[CompanyId]:
        """Return those of these companies that were looked up at this moment or later."""
        ids, moment = sorted(set(map(_validate_id, companies))), to_db_time(since)

        def find(tx: Transaction) -> set[CompanyId]:
            return {
                CompanyId(company)
                for query, some in split_into_batches(SELECT_VISITED, ids)
                for (company,) in tx.query(query, since=moment, **some)
            }

        return await self._database.read(find) if ids else set()

    async def find_company_record(self, company: CompanyId) -> CompanyRecord | None:
        """Return everything known about a company, or None if it is unknown."""
        _validate_id(company)
        found = await self._database.read(
            lambda tx: _build_records(tx, tx.query(SELECT_RECORD, company=company))
        )
        return found[0] if found else None

    async def give_website(self, company: CompanyId, website: str) -> bool:
        """Set the website a person gives for a company; False when the company is unknown.

        A company never looked up has no verdict yet: its next lookup finds the site given.
        """
        given = SiteVerdict(host=get_host(website), owner=SiteOwner.GIVEN)
        values = COMPANIES.encode(id=_validate_id(company), website=website)
        site = FACTS.encode(site=given)["site"]

        def give(tx: Transaction) -> bool:
            tx.execute(UPDATE_SITE, company=company, site=site)
            return bool(tx.execute(UPDATE_WEBSITE, **values))

        return await self._database.write(give)

    async def list_company_records(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[CompanyRecord]:
        """Return one page of the records of companies that were looked up, in id order.

        With `run`, those that this run wrote last; with `least`, those with at least this score;
        with both, those that satisfy both.
        """
        query, values = SELECT_RECORDS, dict[str, Value](limit=limit)
        values["after"] = validate_text(after, what="a company's id")
        if run is not None:
            query, values = query + WHERE_RUN, values | FACTS.encode(run=_validate_run(run))
        if least is not None:
            query, values = f"{query} AND s.score >= :least", values | {"least": least}
        return await self._database.read(
            lambda tx: _build_records(tx, tx.query(query + ORDER_AND_LIMIT, **values))
        )

    async def find_registry_cursor(self) -> datetime | None:
        """Return up to when register changes have been imported, or None."""
        rows = await self._database.read(lambda tx: tx.query(SELECT_REGISTRY_CURSOR))
        return from_optional_db_time(rows[0][0]) if rows else None

    async def set_registry_cursor(self, at: datetime) -> None:
        """Save up to when register changes have been imported.

        An earlier moment than before imports some of them again.
        """
        moment = to_db_time(at)
        await self._database.write(lambda tx: tx.execute(UPSERT_REGISTRY_CURSOR, at=moment))

    async def find_companies_by_email(self, email: str) -> list[CompanyId]:
        """Return the companies with a contact of this address."""
        wanted = EMAILS.encode(email=email.lower())
        rows = await self._database.read(lambda tx: tx.query(SELECT_CONTACTS_BY_EMAIL, **wanted))
        return sorted(CompanyId(company) for (company,) in rows)

    async def read_suppressions(self) -> Suppressions:
        """Return the hashes of erased persons."""
        return await self._database.read(read_suppressions)

    async def suppress_person(
        self, person: Person, companies: Sequence[CompanyId], *, new_key: bytes, now: datetime
    ) -> Suppressions:
        """Keep a person out from now on; `new_key` is the key of the tenant's first hashes."""

        def suppress(tx: Transaction) -> Suppressions:
            row = {"name": "key", "value": new_key.hex(), "at": now}
            _insert_suppressions(tx, [row])
            known = read_suppressions(tx)
            marks = known.list_digests(person, companies)
            _insert_suppressions(
                tx, [{"name": name, "value": told, "at": now} for name, told in marks.items()]
            )
            return read_suppressions(tx)

        return await self._database.write(suppress)

    async def erase_suppressed(self, companies: Sequence[CompanyId]) -> int:
        """Delete what is stored of erased persons at these companies; return how many contacts."""

        def erase(tx: Transaction) -> int:
            erased, suppressions = 0, read_suppressions(tx)
            for company in companies:
                records = _build_records(tx, tx.query(SELECT_RECORD, company=company))
                for before in records:
                    after = suppressions.filter_record(before)
                    erased += len(before.contacts) - len(after.contacts)
                    _replace_contacts(tx, company, after.contacts)
                    findings = FACTS.encode(findings=after.facts)["findings"]
                    tx.execute(UPDATE_FACTS, company=company, findings=findings)
                    if after.score is not None:
                        rationale = after.score.rationale
                        tx.execute(UPDATE_RATIONALE, company=company, rationale=rationale)
            return erased

        return await self._database.write(erase) if companies else 0


def read_suppressions(tx: Transaction) -> Suppressions:
    """Return the hashes of the tenant's erased persons; empty for most tenants."""
    rows = dict(tx.query(SELECT_SUPPRESSIONS))
    key = bytes.fromhex(rows.pop("key", ""))
    companies = {told.partition("/")[2] for told in rows.values() if told.startswith("name/")}
    return Suppressions(key, frozenset(rows), frozenset(companies))


def _insert_suppressions(tx: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    columns = [SUPPRESSIONS.encode(**row) for row in rows]
    tx.execute_many(
        f"{SUPPRESSIONS.insert} ON CONFLICT DO NOTHING",
        [(tx.tenant, row["name"], row["value"], row["at"]) for row in columns],
    )


def save_company_record(tx: Transaction, record: CompanyRecord) -> None:
    """Replace what is stored about a company by a newer record, merging empty values.

    Erased persons are left out, whatever brought them.
    """
    record = read_suppressions(tx).filter_record(record)
    company = record.company.id
    COMPANIES.save(tx, [record.company])
    FACTS.save(tx, [record], company)
    if record.contacts:
        _replace_contacts(tx, company, record.contacts)
    if record.score is not None:
        SCORES.save(tx, [record.score], company)
        FEATURES.save(tx, [record.score], company)


def _replace_contacts(tx: Transaction, company: str, given: Sequence[Contact]) -> None:
    contacts = list(enumerate(given))
    tx.execute(DELETE_CONTACTS, company=company)
    tx.execute(DELETE_EMAILS, company=company)
    place = (tx.tenant, company)
    rows = [(*place, n, *CONTACTS.to_row(contact)) for n, contact in contacts]
    if rows:
        tx.execute_many(CONTACTS.insert, rows)
    emails = [
        (*place, n, *EMAILS.to_row(contact))
        for n, contact in contacts
        if contact.email or contact.verdict is not EmailStatus.UNVERIFIED
    ]
    if emails:
        tx.execute_many(EMAILS.insert, emails)


def _upsert_companies(tx: Transaction, companies: Sequence[Company]) -> UpsertCount:
    ids = sorted({company.id for company in companies})
    known = {company.id: company for company in COMPANIES.find_in(tx, "id", ids)}
    new, differing = 0, list[Company]()
    for company in companies:
        was = known.get(company.id)
        if was is not None:
            if merge_company(was, replace(company, last_seen_at=None)) == was:
                continue
            known[company.id] = merge_company(was, company)
        else:
            new += 1
            known[company.id] = company
        differing.append(company)
    # As given, not merged: an empty value must not undo what another writer stored.
    COMPANIES.save(tx, differing)
    changed = len(differing) - new
    return UpsertCount(new=new, changed=changed, same=len(companies) - len(differing))


def _complete_account(given: Company, known: Company | None) -> Company:
    """Return an account a person gives, to be saved: a new one has some name."""
    if known is not None:
        return replace(given, live=known.live, is_given=True)
    name = given.name or get_host(given.website) or given.id
    return replace(given, name=name, is_given=True)


def _changes(given: Company, known: Company | None) -> bool:
    """Return whether saving an account a person gives would change anything."""
    if known is None or not known.is_given:
        return True
    return given.posture not in (None, known.posture) or (
        merge_company(known, replace(given, last_seen_at=None)) != known
    )


def _build_records(tx: Transaction, rows: Sequence[Sequence[Any]]) -> list[CompanyRecord]:
    contacts: dict[str, list[Contact]] = {row[0]: [] for row in rows}
    for query, some in split_into_batches(SELECT_CONTACTS, list(contacts)):
        for row in tx.query(query, **some):
            contact, email = split_row(row, CONTACTS, EMAILS)
            address = {} if email[0] is None else EMAILS.read(email)
            contacts[row[-1]].append(Contact(**CONTACTS.read(contact), **address))
    return [_build_record(row, contacts[row[0]]) for row in rows]


def _build_record(row: Sequence[Any], contacts: Sequence[Contact]) -> CompanyRecord:
    company, facts, score, features = split_row(row, *_RECORD_TABLES)
    # A company that was never looked up has no facts, one that was not scored no score.
    found = FACTS.read(facts) if any(value is not None for value in facts) else {}
    return CompanyRecord(
        company=COMPANIES.read(company),
        contacts=tuple(contacts),
        score=None
        if score[0] is None
        else LeadScore(**SCORES.read(score), **FEATURES.read(features)),
        **found,
    )


def _validate_id(company: CompanyId) -> CompanyId:
    return CompanyId(validate_key(company, what="a company's id"))


def _validate_run(run: str) -> str:
    return validate_key(run, what="a run's name")
