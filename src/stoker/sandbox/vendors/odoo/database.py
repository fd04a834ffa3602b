"""One fake Odoo database: records, external ids, and the methods on them.

It behaves as a version 19 server does towards the user who calls. Each method is one transaction.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from stoker.sandbox.vendors.odoo.domains import is_plain, list_fields, parse_domain, to_words
from stoker.sandbox.vendors.odoo.effects import add_effects, find_won_status, normalize_values
from stoker.sandbox.vendors.odoo.errors import (
    build_access_error,
    build_missing_error,
    build_server_error,
    build_validation_error,
)
from stoker.sandbox.vendors.odoo.models import (
    COMMERCIAL,
    DEFAULTS,
    MAGIC,
    MODELS,
    OWN_COMPANY,
    STANDING_RECORDS,
    OdooField,
)
from stoker.sandbox.vendors.odoo.rights import (
    SYSTEM_UID,
    USERS,
    can_see,
    find_access_problem,
    format_hidden,
)

Values = dict[str, Any]
_FIELDS = {model: {**MAGIC, **fields} for model, fields in MODELS.items()}

_INDEXED_FIELDS = {  # words that are just as the record has them
    model: {name for name, field in fields.items() if field.kind == "char" and not field.computed}
    - {"display_name", *COMMERCIAL}
    for model, fields in MODELS.items()
}

_LINKS = {"res.partner": ("parent_id",), "crm.lead": ("partner_id",)}

_EPOCH = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WriteProblem:
    """Why a record cannot be kept, and which field is to blame, if one is."""

    message: str
    field: str = ""
    blames_first: bool = False  # a rule between records: the first row of a load is named too


@dataclass(frozen=True, slots=True, kw_only=True)
class OdooOptions:
    """What a database has installed and how it is set up; a dial turns each of them."""

    apps: frozenset[str] = frozenset({"crm"})
    leads: bool = False  # the option of the CRM app: leads come before opportunities
    required: tuple[str, ...] = ()  # fields that people added, as `crm.lead.x_channel`


class Database:
    """One tenant's Odoo. `records` and `external` are its truth, for tests to look at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: dict[str, dict[int, Values]] = {model: {} for model in MODELS}
        self.external: dict[str, tuple[str, int]] = {}
        self.transactions = 0
        self.options = OdooOptions()
        self._added: dict[str, dict[str, OdooField]] = defaultdict(dict)
        self._last_id = dict.fromkeys(MODELS, 0)
        self._index_by_name: dict[tuple[str, int], list[str]] = {}
        self._index_by_link: dict[tuple[str, int], set[int]] = defaultdict(set)
        for model, rows in STANDING_RECORDS.items():
            for external, values in rows:
                self.bind(external, model, self._insert(model, dict(values), uid=SYSTEM_UID))
        for user in USERS.values():
            own = {"name": user.name, "active": True, "type": "contact"}
            quiet = {"tracking_disable": True}
            partner = self._insert("res.partner", own, uid=SYSTEM_UID, context=quiet)
            values = {"name": user.name, "login": user.login, "partner_id": partner}
            id_ = self._insert("res.users", values, uid=SYSTEM_UID)
            self.bind(user.external or f"base.user_{user.login}", "res.users", id_)

    def configure(self, options: OdooOptions) -> None:
        """Install apps and add the fields that people require."""
        if options == self.options:
            return
        self.options = options
        for path in options.required:
            model, _, name = path.rpartition(".")
            if model in MODELS and name not in self.get_fields(model):
                # The column stays empty in old rows, and then the database cannot require it.
                # Partners are never without: every user is one.
                label = name.removeprefix("x_").replace("_", " ").title()
                self._added[model][name] = OdooField(kind="char", label=label, required=True)

    def has_model(self, model: str) -> bool:
        app = model.partition(".")[0]
        return model in MODELS and (app not in ("crm", "sale") or app in self.options.apps)

    def get_fields(self, model: str) -> Mapping[str, OdooField]:
        added = self._added.get(model)
        return {**_FIELDS[model], **added} if added else _FIELDS[model]

    def check_access(self, model: str, operation: str, *, uid: int) -> None:
        """Raise what the server answers a user who may not do this with any record."""
        if problem := find_access_problem(model, operation, uid):
            raise build_access_error(problem)

    def check_visible(self, model: str, id_: int, operation: str, *, uid: int) -> None:
        """Raise what the server answers when a record belongs to another user."""
        if not can_see(model, self.records[model][id_], uid):
            raise build_access_error(format_hidden(model, operation, uid))

    def build_defaults(self, model: str, given: Mapping[str, Any], *, uid: int) -> Values:
        """Return the values of a new record, those given included."""
        values: Values = dict(DEFAULTS.get(model, {}))
        if model == "crm.lead":
            kind = "lead" if self.options.leads else "opportunity"
            values |= {"type": kind, "user_id": uid, "company_id": OWN_COMPANY}
            if given.get("user_id", uid):
                values["team_id"] = 1
        return {**values, **given}

    def create(
        self,
        model: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        uid: int,
        context: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Make records; all of them or none."""
        self.check_access(model, "create", uid=uid)
        checked = [
            self._validate_values(model, self.build_defaults(model, row, uid=uid)) for row in rows
        ]
        for values in checked:
            if problem := self.find_write_problem(model, values):
                raise build_validation_error(problem.message)
        self.transactions += 1
        return [self._insert(model, values, uid=uid, context=context) for values in checked]

    def write(self, model: str, ids: Sequence[int], values: Mapping[str, Any], *, uid: int) -> bool:
        self.check_access(model, "write", uid=uid)
        records = self.get_records(model, ids)
        for id_ in ids:
            self.check_visible(model, id_, "write", uid=uid)
        changes = [self._validate_values(model, values, record) for record in records]
        for record, change in zip(records, changes, strict=True):
            if problem := self.find_write_problem(model, {**record, **change}, only=change):
                raise build_validation_error(problem.message)
        self.transactions += 1
        for id_, change in zip(ids, changes, strict=True):
            self.put(model, id_, change, uid=uid)
        return True

    def unlink(self, model: str, ids: Sequence[int], *, uid: int) -> bool:
        """Delete records, and what refers to them with them, as far as the server does that."""
        self.check_access(model, "unlink", uid=uid)
        self.get_records(model, ids)
        self.transactions += 1
        self.remove(model, ids)
        return True

    def remove(self, model: str, ids: Sequence[int]) -> None:
        """Take records out, with their external ids and what refers to them."""
        for gone in ids:
            record = self.records[model].pop(gone, {})
            for field in _LINKS.get(model, ()):
                self._index_by_link[field, record.get(field) or 0].discard(gone)
            for external in self._index_by_name.pop((model, gone), ()):
                self.external.pop(external, None)
        self._remove_references(model, set(ids))

    def search(
        self,
        model: str,
        domain: Sequence[Any],
        *,
        uid: int,
        offset: int = 0,
        limit: int | None = None,
        archived: bool = False,
    ) -> list[int]:
        """Return the ids of records that a user may see, in order; archived ones on request."""
        self.check_access(model, "read", uid=uid)
        records, named = self.records[model], list_fields(domain)
        for field in named:  # a server rejects an unknown field even without records
            if field != "id" and field not in self.get_fields(model):
                raise build_server_error(f"Invalid field {field!r} on model {model!r}")
        # Users are partners too; here they are found by their number alone.
        hidden = len(USERS) if model == "res.partner" and "id" not in named else 0
        try:
            test = parse_domain(domain)
            found = [
                id_
                for id_ in _narrow_by_index(domain, model, records)
                if id_ > hidden
                and (archived or records[id_].get("active", True))
                and can_see(model, records[id_], uid)
                and test(lambda field, id_=id_: self.get_value(model, id_, field))  # type: ignore[misc]
            ]
        except (ValueError, RecursionError) as error:
            raise build_server_error(str(error)) from error
        return found[offset : None if not limit else offset + limit]

    def read(
        self, model: str, ids: Sequence[int], fields: Sequence[str] | None, *, uid: int
    ) -> list[Values]:
        """Return records as dictionaries, a many2one as [id, name]; without those that are gone."""
        self.check_access(model, "read", uid=uid)
        known = self.get_fields(model)
        wanted = (
            list(fields) if fields else [name for name, one in known.items() if not one.computed]
        )
        for field in wanted:
            if field not in known:
                raise build_server_error(f"Invalid field {field!r} on model {model!r}")
        there = [id_ for id_ in ids if id_ in self.records[model]]
        for id_ in there:
            self.check_visible(model, id_, "read", uid=uid)
        return [
            {"id": id_} | {field: self._to_shown_value(model, id_, field) for field in wanted}
            for id_ in there
        ]

    def list_external_ids(self, model: str, ids: Iterable[int]) -> dict[int, list[str]]:
        """Return every external id of each record in order; people's merging gives it several."""
        return {id_: self._index_by_name.get((model, id_), []) for id_ in ids}

    def get_records(self, model: str, ids: Sequence[int]) -> list[Values]:
        """Return the records with these ids, or say that one is missing."""
        records = self.records[model]
        for id_ in ids:
            if id_ not in records:
                raise build_missing_error(model, id_)
        return [records[id_] for id_ in ids]

    def get_value(self, model: str, id_: int, path: str) -> Any:
        """Return a field's value as searches see it; a dotted path goes through many2ones."""
        field, _, rest = path.partition(".")
        described = self.get_fields(model).get(field)
        if described is None:
            raise ValueError(f"Invalid field {model}.{field} in condition ({path!r})")
        if field == "id":
            return id_
        record = self.records[model][id_]
        if model == "res.partner" and field in COMMERCIAL and not record.get("is_company"):
            parent = self.records[model].get(record.get("parent_id") or 0)
            record = parent if parent is not None else record
        if field == "display_name":
            return self._get_display_name(model, id_)
        if described.computed:
            value = self._compute_value(model, id_, field)
            if not rest or not value or isinstance(value, tuple):
                return value
            return self.get_value(described.relation, value, rest)
        value = record.get(field, () if described.kind == "many2many" else False)
        if not rest:
            return value
        return self.get_value(described.relation, value, rest) if value else False

    def bind(self, external: str, model: str, id_: int) -> None:
        before = self.external.get(external)
        if before is not None:
            self._index_by_name[before].remove(external)
        self.external[external] = (model, id_)
        insort(self._index_by_name.setdefault((model, id_), []), external)

    def take_next_id(self, model: str) -> int:
        """Take the next number of a model's sequence; numbers are never given back."""
        self._last_id[model] += 1
        return self._last_id[model]

    def put(
        self,
        model: str,
        id_: int,
        values: Values,
        *,
        uid: int,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Make or change one record of a transaction whose values were checked before.

        What a server changes with it, in other records too, is changed as well.
        """
        before = self.records[model].get(id_)
        changes = normalize_values(model, values)
        if before is None:
            made = {"create_uid": uid, "create_date": self._get_write_date()}
            self.records[model][id_] = made
        old = dict(before or {})
        self.touch(model, id_, changes, uid=uid)
        add_effects(self, model, id_, before=old, changes=changes, uid=uid)
        if before is None and model in ("res.partner", "crm.lead"):
            self._begin_thread(model, id_, uid=uid, context=context or {})

    def touch(self, model: str, id_: int, values: Values, *, uid: int) -> None:
        """Set values of one record and nothing else, and note who did it when."""
        record = self.records[model][id_]
        for field in _LINKS.get(model, ()):
            if field in values and record.get(field) != values[field]:
                self._index_by_link[field, record.get(field) or 0].discard(id_)
                self._index_by_link[field, values[field] or 0].add(id_)
        record.update(values, write_uid=uid, write_date=self._get_write_date())

    def list_linked(self, field: str, id_: int) -> list[int]:
        """Return the contacts (`parent_id`) or the leads (`partner_id`) of a partner."""
        return sorted(self._index_by_link.get((field, id_), ()))

    def add_message(self, model: str, id_: int, body: str, *, kind: str, uid: int) -> int:
        """Write a message on a record; the record itself stays as it was."""
        author = self.records["res.users"][uid]["partner_id"]
        values = {"model": model, "res_id": id_, "message_type": kind, "body": body}
        return self._insert("mail.message", {**values, "author_id": author}, uid=uid)

    def _begin_thread(self, model: str, id_: int, *, uid: int, context: Mapping[str, Any]) -> None:
        quiet = context.get("tracking_disable")
        if not quiet and not context.get("mail_create_nosubscribe"):
            partner = self.records["res.users"][uid]["partner_id"]
            values = {"res_model": model, "res_id": id_, "partner_id": partner}
            self._insert("mail.followers", values, uid=uid)
        if not quiet and not context.get("mail_create_nolog"):
            body = f"{'Contact' if model == 'res.partner' else 'Lead/Opportunity'} created"
            self.add_message(model, id_, body, kind="notification", uid=uid)

    def count_lost(self, variable: str, value: str, many: int) -> None:
        """Count lost leads in the statistics that Odoo's predictive scoring uses."""
        table = self.records["crm.lead.scoring.frequency"]
        for row in table.values():
            if (row["variable"], row["value"]) == (variable, value):
                row["lost_count"] += many
                return
        values = {"variable": variable, "value": value, "won_count": 0.1, "lost_count": 0.1 + many}
        self._insert("crm.lead.scoring.frequency", values, uid=SYSTEM_UID)

    def find_write_problem(
        self, model: str, values: Mapping[str, Any], *, only: Mapping[str, Any] | None = None
    ) -> WriteProblem | None:
        """Return why the database would not keep a record with these values.

        `only` are the fields that are written, when the record is there already.
        """
        for name, field in self.get_fields(model).items():
            if field.required and (only is None or name in only) and not values.get(name):
                if model == "res.partner" and name.startswith("x_"):
                    continue  # see `configure`
                text = f"Missing required value for the field '{field.label}' ({name})."
                return WriteProblem(text, field=name)
        if model == "res.partner" and values.get("type") == "contact" and not values.get("name"):
            return WriteProblem("Contacts require a name")
        return self._find_company_problem(values) if model == "crm.lead" else None

    def _find_company_problem(self, values: Mapping[str, Any]) -> WriteProblem | None:
        partner = self.records["res.partner"].get(values.get("partner_id") or 0, {})
        own, other = values.get("company_id"), partner.get("company_id")
        if not own or not other or own == other:
            return None
        company = self.records["res.company"][own]["name"]
        text = (
            "Uh-oh! You\u2019ve got some company inconsistencies here:\n"
            f"- \u201c{values.get('name')}\u201d belongs to company \u201c{company}\u201d and "
            f"\u201cContact\u201d (partner_id: \u201c{partner.get('name')}\u201d) belongs to "
            "another company.\nTo avoid a mess, no company crossover is allowed!"
        )
        return WriteProblem(text, blames_first=True)

    def convert_value(self, field: OdooField, value: Any, before: Any = False) -> Any:
        """Return a value as the field stores it. Raises ValueError for another type."""
        if field.kind == "many2many":
            return self._to_linked_ids(field.relation, value, before)
        if value is None or value is False or value == "":
            return False
        if field.kind == "many2one":
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"Wrong value for {field.label}: {value!r}")
            if value not in self.records[field.relation]:
                raise ValueError(f"{field.relation}({value},) does not exist")
            return value
        if field.kind == "selection":
            if value not in (field.choices or {}):
                raise ValueError(f"Wrong value for {field.label}: {value!r}")
            return value
        return _convert_plain(field, value)

    def _insert(
        self, model: str, values: Values, *, uid: int, context: Mapping[str, Any] | None = None
    ) -> int:
        id_ = self.take_next_id(model)
        self.put(model, id_, values, uid=uid, context=context)
        return id_

    def _compute_value(self, model: str, id_: int, field: str) -> Any:
        record = self.records[model][id_]
        match field:
            case "email_normalized":
                return str(record.get("email") or "").strip().lower() or False
            case "commercial_partner_id":
                return self.find_commercial(id_ if model == "res.partner" else record["partner_id"])
            case "won_status":
                return find_won_status(record)
            case "res_model":
                return (
                    self.records["ir.model"].get(record.get("res_model_id") or 0, {}).get("model")
                )
        relation = self.get_fields(model)[field].relation
        column = "res_model" if relation != "mail.message" else "model"
        there = self.records[relation]
        return tuple(
            each
            for each in there
            if there[each].get("res_id") == id_ and self.get_value(relation, each, column) == model
        )

    def find_commercial(self, id_: int | None) -> int | None:
        """Return the company that a partner belongs to: itself, or the nearest one above."""
        record = self.records["res.partner"].get(id_ or 0)
        if record is None or record.get("is_company") or not record.get("parent_id"):
            return id_ if record else None
        return self.find_commercial(record["parent_id"])

    def _validate_values(
        self, model: str, values: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> Values:
        known = self.get_fields(model)
        converted: Values = {}
        for name, value in values.items():
            field = known.get(name)
            if field is None:
                raise build_server_error(f"Invalid field {name!r} in {model!r}")
            if field.readonly:
                continue
            try:
                converted[name] = self.convert_value(field, value, (before or {}).get(name, ()))
            except ValueError as error:
                raise build_server_error(str(error)) from error
        return converted

    def _to_linked_ids(self, relation: str, value: Any, before: Any) -> tuple[int, ...]:
        linked = list(before or ())
        for command in value or []:
            match command:
                case [6, _, [*ids]]:
                    linked = list(ids)
                case [5, *_]:
                    linked = []
                case [4, id_, *_]:
                    linked.append(id_)
                case [3 | 2, id_, *_]:
                    linked = [one for one in linked if one != id_]
                case _:
                    raise ValueError(f"Unknown command {command!r}")
        for id_ in linked:
            if id_ not in self.records[relation]:
                raise ValueError(f"{relation}({id_},) does not exist")
        return tuple(dict.fromkeys(linked))

    def _remove_references(self, gone_model: str, gone: set[int]) -> None:
        for model, fields in MODELS.items():
            ones = [n for n, f in fields.items() if f.relation == gone_model]
            for record in self.records[model].values() if ones else ():
                for name in ones:
                    value = record.get(name)
                    if isinstance(value, tuple):
                        record[name] = tuple(one for one in value if one not in gone)
                    elif value in gone:
                        record[name] = False

    def _to_shown_value(self, model: str, id_: int, name: str) -> Any:
        field = self.get_fields(model)[name]
        value = self.get_value(model, id_, name)
        if field.kind in ("many2many", "one2many"):
            return list(value)
        if field.kind == "many2one" and value:
            return [value, self._get_display_name(field.relation, value)]
        return value

    def _get_display_name(self, model: str, id_: int) -> str:
        record = self.records[model].get(id_, {})
        name = str(record.get("name") or record.get("summary") or "")
        parent = self.records[model].get(record.get("parent_id") or 0)
        if model == "res.partner" and parent is not None:
            return f"{parent.get('name') or ''}, {name}"
        return name

    def _get_write_date(self) -> str:
        # Time goes on with what is done here: the same requests leave the same records.
        return f"{_EPOCH + timedelta(seconds=self.transactions):%Y-%m-%d %H:%M:%S}"


def _convert_plain(field: OdooField, value: Any) -> Any:
    if field.kind == "boolean":
        return bool(value)
    if field.kind == "integer":
        return int(value)
    if field.kind == "float":
        return float(value)
    if not isinstance(value, str | int | float):
        raise ValueError(f"Wrong value for {field.label}: {type(value).__name__}")  # noqa: TRY004  # as Odoo says it
    text = str(value)
    if field.kind == "date":
        return date.fromisoformat(text[:10]).isoformat()
    if "\0" in text:
        raise ValueError("A string literal cannot contain NUL (0x00) characters.")
    text.encode()  # half a surrogate pair is a ValueError, as where the real one keeps its text
    return text


def _narrow_by_index(
    domain: Sequence[Any], model: str, records: Mapping[int, Values]
) -> Sequence[int]:
    """Return, in order, the records that are worth a closer look, as an index would."""
    if not is_plain(domain):
        return sorted(records)
    ids: Iterable[int] = records
    for field, operator, wanted in domain:
        if field == "id" and operator == "in" and isinstance(wanted, list | tuple):
            ids = {id_ for id_ in wanted if isinstance(id_, int) and id_ in records}
        elif field == "is_company" and operator == "=" and wanted is True:
            ids = [id_ for id_ in ids if records[id_].get("is_company")]
        elif operator == "in" and field in _INDEXED_FIELDS[model] and (words := to_words(wanted)):
            ids = [id_ for id_ in ids if records[id_].get(field) in words]
    return sorted(ids)
