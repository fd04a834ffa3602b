"""A tenant's Odoo: records found by our external ids, changed by `load` alone.

The server's version decides the protocol. A plain sales user may not search external ids, only ask
which one a record has, so records are found by their stored numbers, or by their values, and then
asked.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.jsontools import get_line, get_list, get_object
from stoker.base.retry import parse_retry_after
from stoker.base.strict_json import parse_json
from stoker.base.types import Json
from stoker.budgets.model import Health
from stoker.context import TenantContext
from stoker.crm.model import (
    PARTNER,
    Cell,
    CrmField,
    CrmRecord,
    CrmRow,
    RowResult,
    RowWrite,
    SentRow,
)
from stoker.crm.odoo_load import load_rows, split_batches
from stoker.crm.odoo_protocols import (
    ALLOW_PRIVATE,
    NAME,
    Json2,
    OdooProtocol,
    OdooServer,
    Turn,
    XmlRpc,
)
from stoker.crm.upsert import ACTIVE, AUTHOR_FIELDS, ID
from stoker.http.api_client import check_health
from stoker.http.client import HttpClient, Request, build_http_client
from stoker.http.fields import is_sandbox_key, is_sandbox_url, require_allowed_url
from stoker.http.unpaid import build_unpaid_calls
from stoker.tenants.model import CrmConnection
from stoker.vendors.table import OdooSettings

DEADLINE = timedelta(seconds=60)

MIN_JSON2_VERSION = 19

IDS_PER_CALL = 500

OWN_PREFIX = "stoker."

MAX_FOUND = 2_000  # records with equal values; more are not searched

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(?:\.[a-z0-9_]{1,64}){0,5}")

_VERSION = re.compile(r"([0-9]{1,3})(?:\.[0-9]{1,3})?")

_LINK_KINDS = ("many2one", "many2many")

_LINK_ENDINGS = ("_id", "_ids")

PAGE_SIZE = 1000  # records

_INCLUDE_ARCHIVED: Mapping[str, Json] = {"active_test": False}


class Odoo:
    """One tenant's database. Every verb may be repeated: twice is once.

    `protocol` is `json2` or `xmlrpc`; empty: by the server's version.

    `login` is needed before version 19 only. `turn` is awaited before every request.
    """

    name = NAME

    def __init__(
        self,
        http: HttpClient,
        *,
        url: str,
        database: str,
        key: str,
        login: str = "",
        protocol: str = "",
        deadline: timedelta = DEADLINE,
        turn: Turn | None = None,
        may_be_private: bool = False,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if protocol not in ("", "json2", "xmlrpc"):
            raise ConfigError(f"odoo speaks json2 and xmlrpc, not {protocol!r}")
        self._server = OdooServer(
            http=http,
            url=url.rstrip("/"),
            database=database,
            login=login,
            key=key,
            deadline=deadline,
            turn=turn or _go_at_once,
            may_be_private=may_be_private,
        )
        self._protocol, self._chance, self._sleep = protocol, chance, sleep
        self._calls: OdooProtocol | None = None
        self._fields: dict[str, Mapping[str, CrmField]] = {}

    def __repr__(self) -> str:
        return f"Odoo({self._server.url!r}, {self._server.database!r})"

    @property
    def database_id(self) -> str:
        """Which database this is: equal for the same one, and for no other."""
        return f"{self._server.url.lower()} {self._server.database}"

    async def ask(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
    ) -> Json:
        """Call a method that changes nothing, and return its result."""
        calls = await self._get_protocol()
        return await calls.call(_check_model_name(model), method, arguments, ids=ids)

    async def check(self) -> Health:
        """Check whether Odoo answers and accepts our key. Never raises."""

        async def look() -> str:
            calls = await self._get_protocol()
            await self.ping()
            await self._load_fields(PARTNER)  # every export begins with it
            return f"{calls.name} at {self._server.url}, database {self._server.database}"

        return await check_health(look)

    async def fields(self, model: str) -> Mapping[str, CrmField]:
        """Return a model's fields by name; read once, then cached."""
        if model not in self._fields:
            self._fields[model] = await self._load_fields(model)
        return self._fields[model]

    async def find_records(
        self, rows: Sequence[CrmRow], *, known: Mapping[str, int]
    ) -> dict[str, CrmRecord]:
        """Return the records of these rows, by external id, archived or not.

        `known` has the records' numbers as far as they are stored. For a row that must be
        `is_unique`, a person's record is returned when there is none of ours.
        """
        found: dict[str, CrmRecord] = {}
        for model in dict.fromkeys(row.model for row in rows):
            of_model = [row for row in rows if row.model == model]
            has = await self.fields(model)
            columns = sorted({name for row in of_model for name in row.values if name in has})
            ids = [known[row.external_id] for row in of_model if row.external_id in known]
            for some in split_batches(ids, IDS_PER_CALL):
                term: Json = ["id", "in", list(some)]
                for record in await self.search(model, [term], fields=columns, limit=IDS_PER_CALL):
                    found[record.external_id] = record
            rest = [row for row in of_model if row.external_id not in found]
            found |= await self._find_by_value(model, rest, columns, has)
        return {
            row.external_id: to_plain_record(found[row.external_id], await self.fields(row.model))
            for row in rows
            if row.external_id in found
        }

    async def upsert(self, writes: Sequence[RowWrite]) -> dict[str, RowResult]:
        """Create or change records by their external ids; return the result of each.

        A row that is refused is set aside and the others are written. Of many callers that write
        one id at once, all succeed in turn or are retryable; there is never a second record.
        Raises ConfigError only.
        """
        fields = self._fields  # those that were asked for before
        return await load_rows(
            await self._get_protocol(),
            [
                replace(each, cells=_to_load_cells(each, fields.get(each.row.model, {})))
                for each in writes
            ],
            chance=self._chance,
            sleep=self._sleep,
            fields=fields,
        )

    async def change(self, model: str, ids: Sequence[int], values: Mapping[str, Json]) -> None:
        """Set fields of records, also to nothing (False); of all of them or of none."""
        has_links = any(name.endswith(_LINK_ENDINGS) for name in values)
        fields = await self.fields(model) if has_links else {}
        changes: dict[str, Json] = {
            name: _to_written(value, fields[name].kind if name in fields else "")
            for name, value in values.items()
        }
        await self.call(model, "write", {"vals": changes}, ids=ids)

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json:
        """Call a method that may be called twice, and return its result."""
        calls = await self._get_protocol()
        return await calls.call(
            _check_model_name(model), method, arguments, ids=ids, context=context
        )

    async def ping(self) -> None:
        """Ask something that costs nothing. Raises as every call does."""
        none: dict[str, Json] = {"domain": [["id", "=", 0]]}
        if await self.call(PARTNER, "search_count", none) != 0:
            raise TransientError("odoo sent an unexpected answer")

    async def find_reference(self, module: str, name: str) -> tuple[str, int | None] | None:
        """Return the model and number of an external id, None when there is none.

        The number is None for a record that our user may not see.
        """
        try:
            answer = await self.call(
                "ir.model.data",
                "check_object_reference",
                {"module": module, "xml_id": name},
                context=_INCLUDE_ARCHIVED,
            )
        except PermanentError:
            return None
        if not isinstance(answer, list) or len(answer) != 2 or not isinstance(answer[0], str):
            return None
        number = answer[1]
        is_seen = isinstance(number, int) and not isinstance(number, bool)
        return answer[0], number if is_seen else None

    async def list_own_ids(self, model: str, ids: Sequence[int]) -> dict[str, int]:
        """Return all of our external ids that these records have, with the records' numbers."""
        calls = await self._get_protocol()
        own: dict[str, int] = {}
        for some in split_batches(ids, IDS_PER_CALL):
            named = await calls.external_ids(_check_model_name(model), some)
            several = [id_ for id_, names in named.items() if any(names)]
            if several and not calls.lists_all_ids:
                with suppress(PermanentError, ConfigError):  # it may refuse to show them
                    named |= await calls.all_external_ids(model, several)
            own |= {
                name: id_
                for id_, names in named.items()
                for name in names
                if name.startswith(OWN_PREFIX)
            }
        return own

    async def search_values(
        self, model: str, domain: Sequence[Json], *, fields: Sequence[str], after: int
    ) -> dict[int, Mapping[str, Json]]:
        """Return one page of records that match, by number, beginning after one."""
        arguments: dict[str, Json] = {
            "domain": [*domain, ["id", ">", after]],
            "fields": list(fields),
            "limit": PAGE_SIZE,
            "order": "id",
        }
        rows = await self.call(model, "search_read", arguments, context=_INCLUDE_ARCHIVED)
        if not isinstance(rows, list):
            raise TransientError(f"odoo did not answer a search of {model} with records")
        return {id_: get_object(each) for each in rows if (id_ := _get_id(each)) is not None}

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
        calls = await self._get_protocol()
        terms: list[Json] = [*domain, ["id", ">", after]] if after else list(domain)
        arguments: dict[str, Json] = {
            "domain": terms,
            "fields": list(fields) or ["id"],
            "limit": limit,
            "order": "id",
        }
        rows = await calls.call(
            _check_model_name(model), "search_read", arguments, context=_INCLUDE_ARCHIVED
        )
        if not isinstance(rows, list):
            raise TransientError(f"odoo did not answer a search of {model} with records")
        records = {id_: each for each in rows[:limit] if (id_ := _get_id(each)) is not None}
        named = await self._list_external_ids(calls, model, list(records))
        return [
            CrmRecord(
                id=id_,
                external_id=named.get(id_, ""),
                values={name: get_object(each).get(name) or None for name in fields},
            )
            for id_, each in records.items()
        ]

    async def _load_fields(self, model: str) -> Mapping[str, CrmField]:
        wanted: Json = ["type", "readonly", "selection", "string", "required"]
        calls = await self._get_protocol()
        answer = await calls.call(_check_model_name(model), "fields_get", {"attributes": wanted})
        described = get_object(answer)
        if not described:
            raise TransientError(f"odoo did not say which fields {model} has")
        return {name: _to_field(each) for name, each in described.items()}

    async def _find_by_value(
        self,
        model: str,
        rows: Sequence[CrmRow],
        columns: Sequence[str],
        has: Mapping[str, CrmField],
    ) -> dict[str, CrmRecord]:
        """Find records whose numbers are not known by what they say."""
        found: dict[str, CrmRecord] = {}
        by_column: dict[str, list[CrmRow]] = {}
        for row in rows:
            if row.match_by is not None and row.match_by[0].partition(".")[0] in has:
                by_column.setdefault(row.match_by[0], []).append(row)
        for column, of_column in by_column.items():
            for some in split_batches(of_column, IDS_PER_CALL):
                values = list(dict.fromkeys(row.match_by[1] for row in some if row.match_by))
                domain: list[Json] = [[column, "in", list[Json](values)]]
                if all(row.on_create.get("is_company") for row in some):
                    # A contact has its company's number too.
                    domain.append(["is_company", "=", True])
                wanted = sorted({*columns, column} & has.keys())
                records = await self.search(model, domain, fields=wanted, limit=MAX_FOUND)
                found |= _match_rows(some, records)
        return found

    async def _list_external_ids(
        self, calls: OdooProtocol, model: str, ids: Sequence[int]
    ) -> dict[int, str]:
        """Return each record's external id, ours first if it has several."""
        named: dict[int, str] = {}
        for some in split_batches(ids, IDS_PER_CALL):
            names_by_id = await calls.external_ids(_check_model_name(model), some)
            # Where the server shows a foreign id, ours may be behind it.
            theirs = [
                id_
                for id_, names in names_by_id.items()
                if any(names) and not _choose_own_id(names)
            ]
            if theirs and not calls.lists_all_ids:
                with suppress(PermanentError, ConfigError):  # it may refuse to show them
                    names_by_id |= await calls.all_external_ids(_check_model_name(model), theirs)
            named |= {
                id_: _choose_own_id(names) or next(iter(names), "")
                for id_, names in names_by_id.items()
            }
        return named

    async def _get_protocol(self) -> OdooProtocol:
        if self._calls is None:
            protocol = self._protocol or await self._detect_protocol()
            self._calls = (Json2 if protocol == "json2" else XmlRpc)(self._server)
        return self._calls

    async def _detect_protocol(self) -> str:
        """Return the protocol of the server's version; a server that hides it is an old one."""
        server = self._server
        url = f"{server.url}/web/version"
        call = Request(
            method="GET",
            url=url,
            deadline=server.deadline,
            max_bytes=10_000,
            is_vendor=True,
            may_be_private=server.may_be_private,
            private_setting=ALLOW_PRIVATE,
        )
        await server.turn()
        try:
            reply = await server.http.send(call)
        except PermanentError as error:
            raise ConfigError(f"odoo cannot be reached at its address: {error}") from error
        except UncertainError as error:
            raise TransientError(f"{error}; a retry is safe") from error
        if reply.status >= 500 or reply.status == 429:
            raise TransientError(
                f"odoo does not return its version now ({reply.status})",
                retry_after=parse_retry_after(reply.headers),
            )
        try:
            data = parse_json(reply.body) if reply.status == 200 else None
        except PermanentError as error:
            raise TransientError("odoo returned an unreadable version; try again") from error
        version = _parse_version(data)
        return "json2" if version is not None and version >= MIN_JSON2_VERSION else "xmlrpc"


async def _go_at_once() -> None:
    """Wait for nothing."""


def _match_rows(rows: Iterable[CrmRow], records: Sequence[CrmRecord]) -> dict[str, CrmRecord]:
    ours = {record.external_id: record for record in records}
    found = {row.external_id: ours[row.external_id] for row in rows if row.external_id in ours}
    for row in rows:
        if row.is_unique and row.match_by is not None and row.external_id not in found:
            column, value = row.match_by
            others = [each for each in records if each.values.get(column) == value]
            if others:
                active = [each for each in others if each.values.get(ACTIVE)]  # not archived
                found[row.external_id] = (active or others)[0]
    return found


def _parse_version(data: Json) -> int | None:
    """Return the major version; `saas~18.3` is an 18."""
    info = get_list(data, "version_info", most=1)
    text = str(info[0]) if info else get_line(data, "version")
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def _to_field(described: Json) -> CrmField:
    choices = get_list(described, "selection", most=500)
    return CrmField(
        kind=get_line(described, "type"),
        readonly=get_object(described).get("readonly") is True,
        choices=tuple(str(each[0]) for each in choices if isinstance(each, list) and each),
        label=get_line(described, "string"),
        required=get_object(described).get("required") is True,
    )


def to_plain_record(record: CrmRecord, fields: Mapping[str, CrmField]) -> CrmRecord:
    """Return a record whose links to others are texts: `7`, or `3,7` for several."""
    values = {
        column: _to_plain_link(value)
        if column in fields and column not in AUTHOR_FIELDS and fields[column].kind in _LINK_KINDS
        else value
        for column, value in record.values.items()
    }
    return replace(record, values=values)


def _to_plain_link(value: Json) -> Json:
    if not isinstance(value, list) or not value:
        return None
    is_one = len(value) == 2 and isinstance(value[1], str)
    numbers = sorted(each for each in value[: 1 if is_one else None] if isinstance(each, int))
    return ",".join(map(str, numbers)) or None


def _to_load_cells(write: RowWrite, fields: Mapping[str, CrmField]) -> dict[str, Cell]:
    return {
        f"{column}/.id" if column in fields and fields[column].kind in _LINK_KINDS else column: cell
        for column, cell in write.cells.items()
    }


def _to_written(value: Json, kind: str) -> Json:
    """Return a value as `write` takes it."""
    if kind == "many2many":
        numbers: list[Json] = [int(each) for each in str(value or "").split(",") if each]
        return [[6, 0, numbers]]
    if kind == "many2one" and isinstance(value, str):
        return int(value)
    return value


def _choose_own_id(names: Iterable[str]) -> str:
    return next((each for each in names if each.startswith(OWN_PREFIX)), "")


def _get_id(record: Json) -> int | None:
    id_ = get_object(record).get("id")
    return id_ if isinstance(id_, int) and not isinstance(id_, bool) else None


def _check_model_name(model: str) -> str:
    if not _NAME.fullmatch(model):
        raise PermanentError("this is not the name of an Odoo model")
    return model


def open_crm(
    tenant: TenantContext, connection: CrmConnection | None = None, *, despite_stops: bool = False
) -> Odoo:
    """Return a tenant's Odoo, from its own connection or else from settings.

    A stop ends what is sent there, unless `despite_stops`: a person looks or undoes something.
    Raises ConfigError when it is off.
    """
    section = tenant.settings.get_vendor(OdooSettings)
    key = section.key
    url = (connection and connection.url) or section.url or ""
    database = (connection and connection.database) or section.database or ""
    needs = {"odoo.url": url, "odoo.database": database, "keys.odoo": key}
    missing = [setting for setting, value in needs.items() if not value]
    if key is None or missing:
        raise ConfigError(f"odoo is off for {tenant.id}: {tenant.settings.format_missing(missing)}")
    require_allowed_url(url, setting=ALLOW_PRIVATE, may_be_private=section.allow_private)
    if is_sandbox_url(url) and not is_sandbox_key(key):
        raise ConfigError(
            f"{url} is fake, and {tenant.id}'s Odoo key may be real: it is not sent there"
        )
    process = tenant.process
    return process.parts.get(
        (Odoo, tenant.id, url, database, despite_stops, section.allow_private),
        lambda: Odoo(
            process.get(build_http_client),
            url=url,
            database=database,
            key=key.reveal(),
            login=section.login or "",
            protocol="" if section.protocol == "auto" else section.protocol,
            may_be_private=section.allow_private,
            turn=process.get(build_unpaid_calls).for_vendor(
                NAME, tenant.id, despite_stops=despite_stops
            ),
        ),
    )


async def read_records(
    rows: Iterable[CrmRow], *, crm: Odoo, known: Mapping[str, int]
) -> dict[str, CrmRecord]:
    """Return the records of rows by external id, with who edited them."""
    asked = [
        replace(row, values={**dict.fromkeys((*AUTHOR_FIELDS, *row.links), ""), **row.values})
        for row in rows
    ]
    return await crm.find_records(asked, known=known) if asked else {}


def get_known_ids(sent: Mapping[str, SentRow]) -> dict[str, int]:
    """Return the records' numbers in the CRM by external id, as far as they are stored."""
    return {
        external_id: number
        for external_id, each in sent.items()
        if isinstance(number := each.values.get(ID), int)
    }
