"""Erase one person: everywhere we know of, and for good.

First the person is suppressed, so that nothing brings it back meanwhile. Then the CRM, then every
table but those that say who the person is. While the store still knows the person, files that we
did not write as a store are searched and named. Those tables go last: a run that stops half-way
finds the person again and goes on. The ledger gets an entry without the person.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.accounts.erasure import (
    NO_PROFILE,
    Person,
    is_email_mark,
    is_profile_mark,
    is_searched_name,
    normalize_name,
)
from stoker.accounts.model import CompanyId, CompanyRecord
from stoker.base.errors import ConfigError, PermanentError, StokerError
from stoker.context import TenantContext
from stoker.crm.erasure import CrmErasure, erase_from_crm
from stoker.crm.odoo import Odoo, open_crm
from stoker.crm.rows import build_external_id
from stoker.db.database import Database
from stoker.db.erasure import TableResult, TextErasure, erase_texts
from stoker.db.table import Table
from stoker.ledger.chain import NewEntry
from stoker.maintenance.files import search_files
from stoker.touches import schema as touches_schema
from stoker.touches.profiles import normalize_profile_url
from stoker.touches.setup import find_state_file

ERASED_ENTRY = "ERASED"  # the ledger's kind of entries about erasures

_SAYS_WHO = ("contacts", "lead_emails", "company_findings", "lead_scores")  # erased last

_CACHES = ("vendor_answers", "site_pages")  # whose rows name no company

_TOUCHES = tuple(part.name for part in touches_schema.TABLES if isinstance(part, Table))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    """Whom to erase: by address, by profile, or by name at a company."""

    email: str = ""
    profiles: tuple[str, ...] = ()
    name: str = ""
    company: str = ""

    def __post_init__(self) -> None:
        if self.name and len(normalize_name(self.name)) < 2:
            raise ConfigError("--name has no letters; give the whole name")
        if bool(self.name) != bool(self.company):
            raise ConfigError("a name is a person's only at a company: give --name and --company")
        if self.email and not is_email_mark(self.email.strip()):
            raise ConfigError("EMAIL is not a whole address; give it as jane.doe@acme.test")
        if not all(map(is_profile_mark, self.profiles)):
            raise ConfigError(NO_PROFILE)
        if not (self.email or self.profiles or self.name):
            raise ConfigError("say whom to erase: EMAIL, or --profile, or --name and --company")


@dataclass(slots=True, kw_only=True)
class ErasureReport:
    """What was erased, in numbers; nothing in it names the person but file names may."""

    companies: int = 0
    contacts: int = 0
    tables: dict[str, TableResult] = field(default_factory=dict)
    crm: CrmErasure = field(default_factory=CrmErasure)
    files: list[Path] = field(default_factory=list)  # that contain the person
    unsearched: dict[Path, str] = field(default_factory=dict)  # files and folders, and why
    same_name_profiles: list[str] = field(default_factory=list)  # touched only if named
    moved_aside: list[str] = field(default_factory=list)  # a state file that could not be read
    not_overwritten: str = ""  # why deleted bytes are still in our file
    has_short_name: bool = False  # that would hit other things in texts
    note: str = ""  # about bytes that only the database's owner can overwrite

    @property
    def problems(self) -> list[str]:
        """Return what a person has to do, in sentences."""
        found = [
            f"{name}: {each.left} rows name the person and Stoker may not delete them; "
            "ask the owner of the database, and please report this"
            for name, each in self.tables.items()
            if each.left
        ]
        found += [f"CRM record {id_}: {why}" for id_, why in sorted(self.crm.left.items())]
        found += [f"delete or rewrite {path}" for path in self.files]
        found += [
            f"{path} could not be searched: {why}" for path, why in sorted(self.unsearched.items())
        ]
        found += self.moved_aside
        if self.has_short_name:
            found.append("a name of one word is searched for in no text; look for it yourself")
        found += [self.not_overwritten] if self.not_overwritten else []
        return found


async def erase_person(
    tenant: TenantContext,
    request: ErasureRequest,
    *,
    folders: Sequence[Path] = (),
    live: Sequence[Path] = (),
    without_crm: bool = False,
    dry: bool = False,
    report: ErasureReport | None = None,
) -> ErasureReport:
    """Erase one person of a tenant. Safe to repeat; with `dry` nothing is written.

    Files in `folders` are searched and named, but not the `live` ones, which are the store's own.
    Raises what the CRM and the store raise; the same call then goes on, but may no longer know the
    person's name: a `report` that is given has what was found until then.
    """
    store, now = tenant.store, tenant.clock.now()
    person, records = await _find_person(tenant, request)
    companies = sorted(record.company.id for record in records)
    report = report or ErasureReport()
    report.companies = len(companies)
    report.has_short_name = _has_short_name(person, records)
    suppressed = await store.accounts.read_suppressions()
    if not dry:
        suppressed = await store.accounts.suppress_person(
            person, companies, new_key=secrets.token_bytes(32), now=now
        )
    ids, own = _list_external_ids(tenant, person, records)
    sites = _list_sites(records)
    crm = None if without_crm else await _open_crm(tenant, ids)
    report.crm = await erase_from_crm(
        ids, contacts=own, redact=person.redact, crm=crm, store=store.crm, now=now, dry=dry
    )
    tables = [
        part
        for part in tenant.process.backend.list_tables()
        if part.tenant and part.name != "contact_suppressions"
    ]
    state_file = find_state_file(tenant, report=report.moved_aside.append)
    stores = tenant.process.backend.for_tenant(tenant.id)
    grants = tenant.process.backend.list_grants()

    async def erase_in(table: Table[Any]) -> None:
        database: Database = stores
        if state_file is not None and table.name in _TOUCHES:
            database = state_file
        scope: dict[str, Sequence[str]] = {
            "company_id": companies,
            "account_id": companies,
            "external_id": ids,
        }
        if table.name in _TOUCHES:
            scope["url"] = sites  # a lead's touches name its contact
        found = await _erase_in_table(
            database, table, person, scope, grants=grants[table.name], dry=dry
        )
        if found != TableResult():
            report.tables[table.name] = found

    for table in tables:
        if table.name not in _SAYS_WHO:
            await erase_in(table)
    search = await asyncio.to_thread(search_files, folders, person, live=live)
    report.files, report.unsearched = search.found, search.unsearched
    report.same_name_profiles = await _find_same_names(tenant, person)
    if not dry:
        report.contacts = await store.accounts.erase_suppressed(companies)
    for table in tables:
        if table.name in _SAYS_WHO:
            await erase_in(table)
    if dry:
        report.contacts = sum(
            person.is_contact(contact, at_company=True)
            for record in records
            for contact in record.contacts
        )
    else:
        marks = sorted(suppressed.list_digests(person, companies))
        await store.ledger.append([_build_entry(report, marks, now)])
        try:
            report.note = await tenant.process.backend.overwrite_deleted()
        except StokerError as error:
            report.not_overwritten = str(error)
    return report


async def _find_person(
    tenant: TenantContext, request: ErasureRequest
) -> tuple[Person, list[CompanyRecord]]:
    """Return everything that tells the person, and the records of the companies it is at."""
    accounts = tenant.store.accounts
    person = Person(
        emails=(request.email.strip().lower(),) if request.email else (),
        names=(request.name,) if request.name else (),
        profiles=request.profiles,
    )
    ids = [CompanyId(request.company)] if request.company else []
    for email in person.emails:
        ids += await accounts.find_companies_by_email(email)
    found = [await accounts.find_company_record(id_) for id_ in dict.fromkeys(ids)]
    records = [record for record in found if record is not None]
    if request.company and not records:
        raise ConfigError(f"{tenant.id} has no company {request.company[:60]!r}")
    before = None
    while person != before:  # another address of the same name is the same person
        before = person
        person = _add_marks(person, records)
    others = {
        contact.phone
        for record in records
        for contact in record.contacts
        if not person.is_contact(contact, at_company=True)
    }
    shared = others | {fact.value for record in records for fact in record.facts}
    return replace(person, phones=tuple(p for p in person.phones if p not in shared)), records


def _add_marks(person: Person, records: Iterable[CompanyRecord]) -> Person:
    emails, names, phones = list(person.emails), list(person.names), list(person.phones)
    for record in records:
        for contact in record.contacts:
            if person.is_contact(contact, at_company=True):
                emails += [contact.email.lower()] if contact.email else []
                names += [contact.name] if is_searched_name(contact.name) else []
                phones += [contact.phone] if contact.phone else []
    return replace(
        person,
        emails=tuple(dict.fromkeys(emails)),
        names=tuple(dict.fromkeys(names)),
        phones=tuple(dict.fromkeys(phones)),
    )


def _has_short_name(person: Person, records: Iterable[CompanyRecord]) -> bool:
    names = [
        contact.name
        for record in records
        for contact in record.contacts
        if contact.name and person.is_contact(contact, at_company=True)
    ]
    return not all(map(is_searched_name, (*person.names, *names)))


def _list_external_ids(
    tenant: TenantContext, person: Person, records: Iterable[CompanyRecord]
) -> tuple[list[str], list[str]]:
    """Return the ids of the CRM records that may name the person, and those that are it."""
    ids, own = [], []
    for record in records:
        company = record.company.id
        ids += [build_external_id(tenant.id, kind, company) for kind in ("company", "lead")]
        keys = [
            contact.key
            for contact in record.contacts
            if person.is_contact(contact, at_company=True)
        ]
        # An address that was found later gives a contact another id than its name did.
        keys += [mark.casefold() for mark in (*person.emails, *person.names)]
        own += [
            build_external_id(tenant.id, "contact", f"{company}|{key}")
            for key in dict.fromkeys(keys)
        ]
    return [*ids, *own], own


def _list_sites(records: Iterable[CompanyRecord]) -> list[str]:
    """Return the addresses that the profiles of these companies go by."""
    sites = []
    for record in records:
        with suppress(PermanentError):  # no address: it has no profile
            sites.append(normalize_profile_url(record.company.website))
    return sites


async def _open_crm(tenant: TenantContext, ids: Sequence[str]) -> Odoo | None:
    connection = await tenant.store.setup.find_connection()
    if connection is not None and not connection.active:
        return None
    try:
        return open_crm(tenant, connection, despite_stops=True)
    except ConfigError:
        if await tenant.store.crm.find_sent_rows(ids):
            raise
        return None


async def _erase_in_table(
    database: Database,
    table: Table[Any],
    person: Person,
    scope: Mapping[str, Sequence[str]],
    *,
    grants: str,
    dry: bool,
) -> TableResult:
    """Erase address, phone and profile in all rows, the name in rows of the person's companies.

    `scope` has the ids of those rows, by the columns that may be in a table.
    """
    scope = {name: ids for name, ids in scope.items() if name in {c.name for c in table.columns}}
    passes = [_build_erasure(person, with_names=False, rows={})]
    if scope or table.name in _CACHES:
        passes.append(_build_erasure(person, with_names=True, rows=scope))
    total = TableResult()
    for each in passes:
        if not each.parts:
            continue

        def erase(tx: Any, each: TextErasure = each) -> TableResult:
            return erase_texts(tx, table, each, grants=grants, dry=dry)

        done = await (database.read(erase) if dry else database.write(erase))
        total = TableResult(
            deleted=total.deleted + done.deleted,
            replaced=max(total.replaced, done.replaced) if dry else total.replaced + done.replaced,
            left=max(total.left, done.left),
        )
    return total


def _build_erasure(person: Person, *, with_names: bool, rows: dict[str, Any]) -> TextErasure:
    search = person.build_search(with_names=with_names)
    return TextErasure(parts=[*search.parts, *search.name_parts], redact=search.redact, rows=rows)


def _build_entry(report: ErasureReport, marks: Sequence[str], now: Any) -> NewEntry:
    return NewEntry(
        at=now,
        kind=ERASED_ENTRY,
        subject=f"person/{marks[0][:16]}",
        reason="",
        data={
            "companies": report.companies,
            "contacts": report.contacts,
            "tables": {name: each.deleted + each.replaced for name, each in report.tables.items()},
            "crm_emptied": len(report.crm.emptied),
            "crm_archived": len(report.crm.archived),
            "crm_left": len(report.crm.left),
        },
    )


async def _find_same_names(tenant: TenantContext, person: Person) -> list[str]:
    """Return the touch profiles of the same name: only a person can tell whether they are its."""
    names = {normalize_name(name) for name in person.names}
    found: list[str] = []
    after = ""
    if tenant.settings.touches.state == "file":
        return found
    while names and (page := await tenant.store.touches.list_profiles(after=after, limit=1000)):
        after = page[-1].url
        found += [
            each.url
            for each in page
            if names & {normalize_name(text) for text in (each.name, each.person) if text}
        ]
    return found
