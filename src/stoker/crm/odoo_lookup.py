"""Find out, before a run writes into an Odoo, what is there already and what may be written.

Records of ours by their external ids, also those a lost store knew; companies and persons that
people have, however they wrote them; countries, tags and users by name; whether leads can be sent.
One `OdooLookup` belongs to one run: what it found is asked for once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import get_object
from stoker.base.types import Json
from stoker.crm.matching import COMPANY_COLUMNS, CompanyIndex, Doubt, KnownPerson, find_person
from stoker.crm.model import LEAD, PARTNER, Cell, CompanyIdentity, CrmRecord, CrmRow, SentRow
from stoker.crm.odoo import OWN_PREFIX, Odoo, get_known_ids, read_records, to_plain_record
from stoker.crm.odoo_load import QUIET, split_batches
from stoker.crm.odoo_protocols import OdooRightError
from stoker.crm.store import CrmStore
from stoker.crm.upsert import (
    ACTIVE,
    AUTHOR_FIELDS,
    CRM_KEY,
    FOUND_IN_CRM,
    ID,
    compute_digest,
    is_written_in,
)

_PERSON_COLUMNS = ("parent_id", "commercial_partner_id", "is_company", ACTIVE)

_EMAIL_COLUMNS = ("email_normalized", "email")  # the first that the CRM has

_GUARDED = {"email": "email_from", "phone": "phone"}  # a contact's columns, and a lead's

_TAG_MODELS = {
    "category_id": "res.partner.category",
    "tag_ids": "crm.tag",
    "source_id": "utm.source",
}

_LEAD_DEFAULTS = ("type", "user_id", "team_id")  # set also when settings name nothing that is there

_SEVERAL = frozenset(("category_id", "tag_ids"))

VALUES_PER_CALL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecords:
    """What is there of some rows, by external id."""

    records: Mapping[str, CrmRecord]
    doubts: Mapping[str, str]  # rows that may be a person's record, and why that is not sure


@dataclass(slots=True)
class OdooLookup:
    """What one run knows about a tenant's Odoo."""

    crm: Odoo
    notes: dict[str, str] = field(default_factory=dict)  # what settings name and is not there
    _companies: CompanyIndex = field(default_factory=CompanyIndex)
    _ids: dict[tuple[str, str], str] = field(default_factory=dict)  # by column and name
    _lead_defaults: Mapping[str, Json] | None = None
    _lead_problem: str | None = None

    async def find_lead_problem(self) -> str:
        """Return why no lead can be sent, or an empty text. Asked once."""
        if self._lead_problem is None:
            self._lead_problem = await self._ask_for_lead_problem()
        return self._lead_problem

    async def _ask_for_lead_problem(self) -> str:
        for operation in ("create", "write"):
            try:
                allowed = await self._has_access(LEAD, operation)
            except OdooRightError as error:
                return f"no leads can be sent: {error}"
            except PermanentError:
                return (
                    "no leads can be sent: the CRM app is not installed in this database; install "
                    "it there"
                )
            if not allowed:
                return (
                    f"no leads can be sent: odoo does not let our user {operation} leads; give it "
                    "the right Sales / User: All Documents"
                )
        return ""

    async def _has_access(self, model: str, operation: str) -> bool:
        try:
            answer = await self.crm.call(model, "has_access", {"operation": operation})
        except PermanentError:  # before version 18 it has another name
            answer = await self.crm.call(
                model, "check_access_rights", {"operation": operation, "raise_exception": False}
            )
        return answer is True

    async def take_inventory(
        self, models: Iterable[str], *, store: CrmStore, now: datetime
    ) -> list[SentRow]:
        """Store which of our records are there, where this store never asked; return the new rows.

        A store that was begun anew knows nothing of them, and people may have changed all that
        they could be found by: taken for missing, they would be overwritten.
        """
        place = self.crm.database_id
        added: list[SentRow] = []
        for model in models:
            marker = _build_marker(model, place, now)
            if await store.find_sent_rows([marker.external_id]):
                continue
            own: dict[str, int] = {}
            after = 0
            while page := await self.crm.search_values(model, [], fields=["id"], after=after):
                after = max(page)
                own |= await self.crm.list_own_ids(model, list(page))
            known = await store.find_sent_rows(list(own))
            missing = [
                replace(marker, external_id=name, digest="", values={ID: id_, CRM_KEY: place})
                for name, id_ in own.items()
                if name not in known or not is_written_in(known[name], place)
            ]
            await store.save_sent_rows(missing)
            await store.save_sent_rows([marker])
            added += missing
        return added

    async def find_existing(
        self, rows: Sequence[CrmRow], wanted: Sequence[CrmRow], sent: Mapping[str, SentRow]
    ) -> FoundRecords:
        """Return the records of wanted rows and of what they link to, with who edited them."""
        linked = {id_ for row in wanted for id_ in (*row.links.values(), *row.spare_links.values())}
        asked = {row.external_id: row for row in rows if row.external_id in linked}
        asked |= {row.external_id: row for row in wanted}
        found = await read_records(asked.values(), crm=self.crm, known=get_known_ids(sent))
        missing = [row for id_, row in asked.items() if id_ not in found]
        found |= await self._find_by_reference(missing, sent)
        missing = [
            row
            for id_, row in asked.items()
            if id_ not in found and (id_ not in sent or ID not in sent[id_].values)
        ]
        companies, doubts = await self._recognise_companies(missing)
        found |= companies
        found |= await self._recognise_persons(missing, found)
        return FoundRecords(records=found, doubts=doubts)

    async def _find_by_reference(
        self, rows: Sequence[CrmRow], sent: Mapping[str, SentRow]
    ) -> dict[str, CrmRecord]:
        """Return the records that have the external ids of rows we sent and do not find.

        One whose creation was never answered may be there under any name. Where people merged two
        records, our external id is at the other one now, which is theirs.
        """
        found: dict[str, CrmRecord] = {}
        for row in rows:
            if row.external_id not in sent:
                continue
            module, _, name = row.external_id.partition(".")
            reference = await self.crm.find_reference(module, name)
            if reference is None or reference[0] != row.model or reference[1] is None:
                continue
            known = {row.external_id: reference[1]}
            is_merged = ID in sent[row.external_id].values
            for record in (await self._read_by_id({row.external_id: row}, known)).values():
                found[row.external_id] = replace(
                    record, external_id="" if is_merged else row.external_id
                )
        return found

    async def _recognise_companies(
        self, rows: Sequence[CrmRow]
    ) -> tuple[dict[str, CrmRecord], dict[str, str]]:
        """Return the records of companies that people have, and the doubtful ones."""
        wanted = {row.external_id: row for row in rows if row.company is not None}
        if not wanted:
            return {}, {}
        await self._read_companies()
        ids: dict[str, int] = {}
        doubts: dict[str, str] = {}
        for id_, row in wanted.items():
            matched = self._companies.find(row.company or CompanyIdentity())
            if isinstance(matched, Doubt):
                numbers = ", ".join(map(str, matched.ids[:5]))
                doubts[id_] = f"{matched.reason} (there: {numbers})"
            elif matched is not None:
                ids[id_] = matched.id
        found = await self._read_by_id({id_: wanted[id_] for id_ in ids}, ids)
        return (
            {id_: record for id_, record in found.items() if not _is_other_of_ours(id_, record)},
            doubts,
        )

    async def _read_companies(self) -> None:
        """Read the CRM's companies, later only those that were added since."""
        has = await self.crm.fields(PARTNER)
        columns = [column for column in COMPANY_COLUMNS if column in has]
        companies: list[Json] = [["is_company", "=", True]]
        while page := await self.crm.search_values(
            PARTNER, companies, fields=columns, after=self._companies.last_id
        ):
            for id_, values in page.items():
                self._companies.add(id_, values)

    async def _recognise_persons(
        self, rows: Sequence[CrmRow], found: Mapping[str, CrmRecord]
    ) -> dict[str, CrmRecord]:
        """Return the records of persons that people have, by their addresses."""
        wanted = {
            row.external_id: row
            for row in rows
            if row.person_email and row.external_id not in found
        }
        if not wanted:
            return {}
        has = await self.crm.fields(PARTNER)
        by_email = next((column for column in _EMAIL_COLUMNS if column in has), "email")
        columns = [each for each in (*_PERSON_COLUMNS, by_email) if each in has]
        people: dict[str, list[KnownPerson]] = {}
        emails = sorted({row.person_email for row in wanted.values()})
        for some in split_batches(emails, VALUES_PER_CALL):
            domain: list[Json] = [[by_email, "in", list[Json](some)]]
            page = await self.crm.search_values(PARTNER, domain, fields=columns, after=0)
            for id_, values in page.items():
                email = str(values.get(by_email) or "").casefold()
                people.setdefault(email, []).append(_to_known_person(id_, values))
        ids: dict[str, int] = {}
        for external_id, row in wanted.items():
            company = found.get(row.links.get("parent_id", ""))
            same = people.get(row.person_email, [])
            person = find_person(same, company=company.id if company else None)
            if person is not None:
                ids[external_id] = person.id
        return await self._read_by_id({id_: wanted[id_] for id_ in ids}, ids)

    async def _read_by_id(
        self, rows: Mapping[str, CrmRow], ids: Mapping[str, int]
    ) -> dict[str, CrmRecord]:
        """Return the records with these numbers, whosever they are."""
        found: dict[str, CrmRecord] = {}
        for model in {row.model for row in rows.values()}:
            has = await self.crm.fields(model)
            of_model = {id_: row for id_, row in rows.items() if row.model == model}
            columns = {*AUTHOR_FIELDS, *(c for row in of_model.values() for c in row.values)}
            numbers = sorted({ids[id_] for id_ in of_model})
            records: dict[int, CrmRecord] = {}
            for some in split_batches(numbers, VALUES_PER_CALL):
                term: Json = ["id", "in", list(some)]
                page = await self.crm.search(model, [term], fields=sorted(columns & has.keys()))
                records |= {each.id: to_plain_record(each, has) for each in page}
            found |= {id_: records[ids[id_]] for id_ in of_model if ids[id_] in records}
        return found

    async def find_guarded(
        self, rows: Sequence[CrmRow], records: Mapping[str, CrmRecord]
    ) -> dict[str, set[str]]:
        """Return the columns of existing contacts that must stay, because of leads there.

        Odoo writes a contact's new address into every lead of it, whosever they are.
        """
        changed = {
            row.external_id: {
                column
                for column in _GUARDED.keys() & row.values.keys()
                if row.values[column] != records[row.external_id].values.get(column)
            }
            for row in rows
            if row.model == PARTNER and row.external_id in records
        }
        changed = {id_: columns for id_, columns in changed.items() if columns}
        if not changed:
            return {}
        if await self.find_lead_problem():
            return changed
        guarded: dict[str, set[str]] = {}
        by_number = {records[id_].id: id_ for id_ in changed}
        for some in split_batches(sorted(by_number), VALUES_PER_CALL):
            domain: list[Json] = [["partner_id", "in", list[Json](some)]]
            columns = ["partner_id", *_GUARDED.values()]
            for lead in await self.crm.search(LEAD, domain, fields=columns):
                partner = lead.values.get("partner_id")
                number = partner[0] if isinstance(partner, list) and partner else None
                id_ = by_number.get(number) if isinstance(number, int) else None
                if id_ is not None:
                    kept = _list_kept_columns(lead, records[id_])
                    guarded.setdefault(id_, set()).update(kept & changed[id_])
        return guarded

    async def replace_names(self, rows: Sequence[CrmRow]) -> list[CrmRow]:
        """Return the rows with records' numbers instead of their names.

        What is not there is left out, with a note. A tag or source that is not there is created.
        """
        await self._find_ids(rows)
        return [await self._replace_row_names(row) for row in rows]

    async def _replace_row_names(self, row: CrmRow) -> CrmRow:
        if not row.names and not row.names_on_create:
            return row
        values: dict[str, Cell] = dict(row.values)
        for column, names in row.names.items():
            values |= self._to_cells(column, names)
        on_create: dict[str, Cell] = dict(row.on_create)
        for column, names in row.names_on_create.items():
            cells = self._to_cells(column, names)
            if not cells and column in _LEAD_DEFAULTS:
                cells = await self._choose_lead_default(column, names[0])
            on_create |= cells
        return replace(
            row,
            values=values,
            on_create=on_create,
            names={},
            names_on_create={},
            digest=compute_digest(row),
            tag_columns=frozenset(_SEVERAL & row.names.keys()),
        )

    def _to_cells(self, column: str, names: Sequence[str]) -> dict[str, Cell]:
        ids = [self._ids[column, name] for name in names if self._ids.get((column, name))]
        return {column: ",".join(sorted(ids, key=int))} if ids else {}

    async def _choose_lead_default(self, column: str, name: str) -> dict[str, Cell]:
        if column == "user_id":
            return {column: ""}  # unassigned: without the cell it would be ours
        if column == "type" and name != "auto":
            return {column: name}
        if self._lead_defaults is None:
            wanted: Json = ["type", "team_id"]
            try:
                answer = await self.crm.call(LEAD, "default_get", {"fields": wanted})
            except PermanentError:  # before version 19 the argument has another name
                answer = await self.crm.call(LEAD, "default_get", {"fields_list": wanted})
            self._lead_defaults = get_object(answer)
        value = self._lead_defaults.get(column)
        if isinstance(value, list) and value:
            value = value[0]
        return {column: str(value)} if value else {}

    async def _find_ids(self, rows: Sequence[CrmRow]) -> None:
        """Find the records that rows name and that were not looked for before."""
        wanted: dict[str, set[str]] = {}
        for row in rows:
            for column, named in (*row.names.items(), *row.names_on_create.items()):
                if column != "type":
                    new = {each for each in named if each and (column, each) not in self._ids}
                    wanted.setdefault(column, set()).update(new)
        for column, names in wanted.items():
            if not names:
                continue
            if column == "industry_id":
                for name in names:
                    reference = await self.crm.find_reference(
                        "base", f"res_partner_industry_{name}"
                    )
                    self._ids[column, name] = str((reference and reference[1]) or "")
            elif column == "country_id":
                await self._search_ids(column, "res.country", "code", names)
            elif column == "user_id":
                await self._search_ids(column, "res.users", "login", names)
            elif column == "team_id":
                await self._search_ids(column, "crm.team", "name", names)
            else:
                await self._search_ids(column, _TAG_MODELS[column], "name", names)
                await self._create_tags(column, names)
            for name in names:
                if not self._ids.get((column, name)) and column in _SETTINGS_BY_COLUMN:
                    self.notes[f"{column} {name}"] = (
                        f"{_SETTINGS_BY_COLUMN[column]} names {name[:60]!r}, which is not in that "
                        "Odoo; it was left out"
                    )

    async def _search_ids(self, column: str, model: str, by: str, names: Iterable[str]) -> None:
        for name in names:
            self._ids.setdefault((column, name), "")
        domain: list[Json] = [[by, "in", list[Json](sorted(names))]]
        try:
            page = await self.crm.search_values(model, domain, fields=[by], after=0)
        except (PermanentError, ConfigError):  # our user may not read them
            return
        for id_, values in page.items():
            key = (column, str(values.get(by)))
            self._ids[key] = self._ids.get(key) or str(id_)

    async def _create_tags(self, column: str, names: Iterable[str]) -> None:
        missing = [name for name in sorted(names) if not self._ids[column, name]]
        if not missing:
            return
        data: list[Json] = [[_build_tag_id(column, name), name] for name in missing]
        try:
            answer = await self.crm.call(
                _TAG_MODELS[column],
                "load",
                {"fields": ["id", "name"], "data": data},
                context=QUIET,
            )
        except (PermanentError, ConfigError):
            return
        ids = get_object(answer).get("ids")
        if isinstance(ids, list) and len(ids) == len(missing):
            for name, id_ in zip(missing, ids, strict=True):
                self._ids[column, name] = str(id_)


_SETTINGS_BY_COLUMN = {
    "user_id": "odoo.salesperson",
    "team_id": "odoo.team",
    "category_id": "odoo.tags",
    "tag_ids": "odoo.tags",
    "source_id": "odoo.source",
}


def _build_marker(model: str, place: str, now: datetime) -> SentRow:
    """Return the row that says that this store knows all our records of a model in a CRM."""
    where = blake2b(place.encode(), digest_size=12).hexdigest()
    return SentRow(
        external_id=f"{OWN_PREFIX}inventory_{model}_{where}",
        model=model,
        digest="complete",
        values={CRM_KEY: place},
        before={},
        run=FOUND_IN_CRM,
        at=now,
    )


def _build_tag_id(column: str, name: str) -> str:
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{OWN_PREFIX}{column}_{digest}"


def _is_other_of_ours(external_id: str, record: CrmRecord) -> bool:
    """Return whether a recognised company is one that we sent as another company."""
    if not record.external_id.startswith(OWN_PREFIX):
        return False
    return record.external_id.rpartition("_company_")[2] != external_id.rpartition("_company_")[2]


def _to_known_person(id_: int, values: Mapping[str, Json]) -> KnownPerson:
    def get_number(column: str) -> int | None:
        value = values.get(column)
        first = value[0] if isinstance(value, list) and value else None
        return first if isinstance(first, int) else None

    parent = get_number("parent_id")
    return KnownPerson(
        id=id_,
        is_active=bool(values.get(ACTIVE, True)),
        company=(get_number("commercial_partner_id") or parent) if parent else None,
        is_company=bool(values.get("is_company")),
    )


def _list_kept_columns(lead: CrmRecord, partner: CrmRecord) -> set[str]:
    """Return the contact's columns that must stay because of this lead.

    All of them for a person's lead; for one of ours, those that a person changed there.
    """
    if not lead.external_id.startswith(OWN_PREFIX):
        return set(_GUARDED)
    return {
        column
        for column, of_lead in _GUARDED.items()
        if (value := lead.values.get(of_lead)) and value != partner.values.get(column)
    }
