"""Odoo's protocols: JSON-2, and XML-RPC with answers parsed within bounds.

XML with a document type is refused, and so are deep and endless values. A server's own words are
never passed on: they may hold tracebacks and other people's data. What they name is: a field, a
right and its groups, a missing app, another company's record.
"""

from __future__ import annotations

import re
import xmlrpc.client
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from typing import Any
from xml.parsers import expat

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import get_count, get_line, get_list, get_object
from stoker.base.types import Json, clean_text
from stoker.crm.model import CrmField
from stoker.http.api_client import StatusMeaning, VendorApi, VendorResponse, check_api_key
from stoker.http.client import HttpClient

MAX_DEPTH = 64  # values inside each other

MAX_VALUES = 500_000

_FORBIDDEN_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_INFINITE = re.compile("<double>(?:-?inf|nan)<")

_MAX_PARSED_INT = 10**20


@dataclass(frozen=True, slots=True)
class Fault:
    """What a server answers instead of a result. Its text may hold a traceback."""

    code: int
    text: str


def encode_call(method: str, params: tuple[Any, ...]) -> bytes:
    """Return a call as XML. Raises PermanentError for a value that XML-RPC cannot hold."""
    try:
        text = xmlrpc.client.dumps(params, method, allow_none=True)
    except (OverflowError, TypeError, RecursionError) as error:
        raise PermanentError("a value is too large or too deep to be sent") from error
    if _FORBIDDEN_IN_XML.search(text) or _INFINITE.search(text):
        raise PermanentError("a text has characters that cannot be sent, or a number is infinite")
    # A raw carriage return would arrive as a line feed.
    return text.replace("\r", "&#13;").encode()


def parse_response(body: bytes) -> Json | Fault:
    """Parse an answer. Raises PermanentError when it is not one."""
    reader = xmlrpc.client.Unmarshaller()
    reader.xml("", None)  # expat decodes
    values = depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal values, depth
        depth, values = depth + 1, values + (name == "value")
        # A value of a list stands four elements deeper.
        if depth > MAX_DEPTH * 4 or values > MAX_VALUES:
            raise ValueError("too deep, or too many values")
        reader.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        reader.end(name)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = _refuse_declaration
    parser.EntityDeclHandler = _refuse_declaration
    try:
        parser.Parse(body, True)
        (value,) = reader.close()
        return _to_json(value)
    except xmlrpc.client.Fault as fault:
        code, text = fault.faultCode, fault.faultString
        return Fault(code if isinstance(code, int) else 1, clean_text(str(text)))
    except (expat.ExpatError, xmlrpc.client.Error, ValueError, LookupError, TypeError) as error:
        raise PermanentError("the answer is not XML-RPC as it should be") from error


def _refuse_declaration(*_: object) -> None:
    raise ValueError("an answer has no business declaring a document type")


def _to_json(value: Any) -> Json:
    """Return a parsed value with clean texts and plain numbers. Raises ValueError."""
    if isinstance(value, dict):
        return {clean_text(name): _to_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_to_json(each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < _MAX_PARSED_INT:
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, str | xmlrpc.client.DateTime):
        return clean_text(str(value))
    raise ValueError("a value of another kind, or too large a number")


NAME = "odoo"

ALLOW_PRIVATE = "odoo.allow_private"  # the setting

_NO_DATABASE = "odoo has no such database, or it is away; check odoo.url and odoo.database"

_NO_KEY = "refuses our key; make a new one there, they last three months"

_NO_RIGHT_HINT = "give it sales and contact rights"

STATUSES: Mapping[int, StatusMeaning] = {
    401: StatusMeaning(ConfigError, _NO_KEY),
    403: StatusMeaning(ConfigError, f"does not let our user do this; {_NO_RIGHT_HINT}"),
    404: StatusMeaning(PermanentError, "does not have this model, record or method"),
}

MAX_GROUPS = 4  # named in one reason

_MAX_NAME_LENGTH = 60  # characters of a group or a label

_GROUP = re.compile(r"^\s+- (.+)$", re.MULTILINE)

_FIELD_RIGHT = re.compile(r"[\"'“]([a-z][a-z0-9_]{1,62})[\"'”][^\n]*\(([a-z][a-z0-9_.]{1,62})\)")

_OTHER_COMPANY = re.compile(r"\(([a-z][a-z0-9_]{1,62}): ")

_QUOTED = re.compile(r"[0-9]+|[\"'“‘«][^\"'”’»]*[\"'”’»]")


class OdooPlaceError(TransientError):
    """The address or database is wrong, or the database is away: the server does not say which."""


class OdooRightError(ConfigError):
    """Our user lacks a right."""


def describe_refusal(
    text: str, *, column: str, sent: Iterable[str], fields: Mapping[str, CrmField], model: str
) -> str:
    """Return why a row was refused: the field, the right or the rule that the server names."""
    name = column.partition("/")[0]
    if name:
        named = _format_field(name, fields)
        if name in {each.partition("/")[0] for each in sent}:
            return f"odoo does not take our value of {named}; check what that field allows"
        return (
            f"odoo requires {named}, which we do not fill; give it a default there, or fill it "
            "with odoo.map"
        )
    if right := describe_right(text, model=model):
        return f"odoo {right}"
    if (other := _OTHER_COMPANY.search(text)) and other[1] in fields:
        named = _format_field(other[1], fields)
        return (
            f"odoo refuses it because {named} belongs to another company there; let our user work "
            "in both companies, or share that record"
        )
    return "odoo refuses this row and names no field; enter it there by hand to see why"


def describe_right(text: str, *, model: str = "") -> str:
    """Return which right is missing and which groups have it; empty when the text names none."""
    about = f" with {model}" if model else ""
    if right := _FIELD_RIGHT.search(text):
        return f"does not let our user read {right[1]} of {right[2]}; give it that right there"
    groups = [_to_short_line(each) for each in _GROUP.findall(text)][:MAX_GROUPS]
    if not groups or _OTHER_COMPANY.search(text):
        return ""
    return f"does not let our user do this{about}; put it into one of: {', '.join(groups)}"


def is_lasting_refusal(text: str) -> bool:
    """Return whether a message names something that a retry does not change."""
    return bool(describe_right(text) or _OTHER_COMPANY.search(text))


def normalize_message(text: str) -> str:
    """Return a message without the values in it: equal for errors of one kind."""
    return " ".join(_QUOTED.sub("", text).split())


def _format_field(name: str, fields: Mapping[str, CrmField]) -> str:
    known = fields.get(name)
    label = _to_short_line(known.label) if known else ""
    return f"{label} ({name})" if label and label != name else name


def _to_short_line(text: str) -> str:
    return " ".join(clean_text(text).split())[:_MAX_NAME_LENGTH]


# Errors that repeat with the same call; any other 500 may be temporary.
_PERMANENT_PREFIXES = ("builtins.", "odoo.exceptions.")

Turn = Callable[[], Awaitable[None]]  # awaited before every request

_CONFLICT_ERRORS = (
    "SerializationFailure",
    "DeadlockDetected",
    "LockNotAvailable",
    "ConcurrencyError",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OdooServer:
    """One database of one server, and how it is called. `turn` is awaited before every request."""

    http: HttpClient
    url: str
    database: str
    login: str  # needed before version 19 only
    key: str = field(repr=False)
    deadline: timedelta
    turn: Turn
    may_be_private: bool = False

    def build_api(
        self,
        headers: Mapping[str, str],
        failures: Mapping[int, StatusMeaning],
        judge: Callable[[VendorResponse], StokerError | None] | None = None,
    ) -> VendorApi:
        """Return what sends requests there."""
        return VendorApi(
            self.http,
            name=NAME,
            base_url=self.url,
            headers=headers,
            deadline=self.deadline,
            failures=failures,
            judge=judge,
            may_be_private=self.may_be_private,
            private_setting=ALLOW_PRIVATE,
        )


class Json2:
    """One database of one server, called with our key."""

    name = "JSON-2"
    lists_all_ids = False  # `external_ids` returns one of a record's ids, ours or not

    def __init__(self, server: OdooServer) -> None:
        self._turn = server.turn
        headers = {
            "Authorization": f"bearer {check_api_key(NAME, server.key)}",
            "X-Odoo-Database": server.database,
        }
        self._vendor = server.build_api(headers, STATUSES, _classify_error)

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json:
        """Call a method that may be called twice, and return its result.

        Raises TransientError when later may work, also when the answer was lost; PermanentError
        and ConfigError as they say.
        """
        body: dict[str, Json] = dict(arguments)
        if ids is not None:
            body["ids"] = list(ids)
        if context:
            body["context"] = context
        await self._turn()
        try:
            answered = await self._vendor.post(f"/json/2/{model}/{method}", body)
        except UncertainError as error:
            raise to_transient_error(error) from error
        return answered.data

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return one external id of each record, empty for those without."""
        names = await self.call(model, "get_external_id", {}, ids=ids)
        return {id_: (get_line(names, str(id_)),) for id_ in ids}

    async def all_external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return every external id of records; a record has several once people merged it."""
        return parse_external_ids(await self.call(model, "get_metadata", {}, ids=ids))


def parse_external_ids(metadata: Json) -> dict[int, tuple[str, ...]]:
    """Return the external ids in a server's metadata, by record."""
    named: dict[int, tuple[str, ...]] = {}
    for record in metadata if isinstance(metadata, list) else ():
        id_ = get_count(record, "id")
        others = [get_line(each, "xmlid") for each in get_list(record, "xmlids", most=100)]
        if id_ is not None:
            named[id_] = (get_line(record, "xmlid"), *others)
    return named


def to_transient_error(error: UncertainError) -> TransientError:
    """Return a lost answer as a TransientError, for calls that may be repeated."""
    return TransientError(f"{error}; it is safe to do it again")


def _classify_error(answered: VendorResponse) -> StokerError | None:
    name = get_line(answered.data, "name")
    text = str(get_object(answered.data).get("message") or "")[:2_000]
    if answered.status == 404 and not name:
        # An Odoo whose database is not there answers with a page, whatever was asked.
        return OdooPlaceError(f"{_NO_DATABASE} (404)")
    if answered.status == 403 and (right := describe_right(text)):
        return OdooRightError(f"odoo {right} (403)")
    if answered.status == 403:
        return OdooRightError(f"odoo does not let our user do this; {_NO_RIGHT_HINT} (403)")
    if name.endswith(_CONFLICT_ERRORS):
        return TransientError("odoo was changing the same record for another user")
    if answered.status == 500 and name.startswith(_PERMANENT_PREFIXES):
        return PermanentError("odoo cannot do this call (500)")
    return None


_RETRYABLE_FAULTS = ("could not serialize", "deadlock detected", "concurrent update")

_DENIED, _NO_RIGHT = 3, 4


class XmlRpc:
    """One database of one server, called as one user."""

    name = "XML-RPC"
    lists_all_ids = True  # `external_ids` returns all of a record's ids

    def __init__(self, server: OdooServer) -> None:
        missing = StatusMeaning(ConfigError, "offers no XML-RPC; check its address")
        self._turn, self._vendor = server.turn, server.build_api({}, {404: missing})
        if not server.login:
            raise ConfigError("odoo before version 19 needs the user's login beside its key")
        self._database, self._login = server.database, server.login
        self._key = check_api_key(NAME, server.key)
        self._uid: int | None = None

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json:
        """Call a method that may be called twice, and return its result. Raises as `Json2`."""
        uid = self._uid or await self._authenticate()
        places: list[Json] = [] if ids is None else [list(ids)]
        named = {**arguments, **({"context": context} if context else {})}
        params: tuple[Json, ...] = (self._database, uid, self._key, model, method, places, named)
        return await self._call_service("object", "execute_kw", params)

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return every external id of records, empty for those without."""
        # `get_external_id` has numbers for keys, which XML-RPC cannot write: it ends in a fault.
        return parse_external_ids(await self.call(model, "get_metadata", {}, ids=ids))

    all_external_ids = external_ids

    async def _authenticate(self) -> int:
        params: tuple[Json, ...] = (self._database, self._login, self._key, {})
        uid = await self._call_service("common", "authenticate", params)
        if isinstance(uid, bool) or not isinstance(uid, int):
            raise ConfigError("odoo refuses our login and key; check them in the settings")
        self._uid = uid
        return uid

    async def _call_service(self, service: str, method: str, params: tuple[Json, ...]) -> Json:
        body = encode_call(method, params)
        await self._turn()
        try:
            reply = await self._vendor.send(
                "POST", f"/xmlrpc/2/{service}", body=body, headers={"content-type": "text/xml"}
            )
        except UncertainError as error:
            raise to_transient_error(error) from error
        try:
            answer = await self._vendor.parse_body(parse_response, reply.body)
        except PermanentError as error:
            raise TransientError(
                "odoo gave an unreadable answer; it is safe to ask again"
            ) from error
        if isinstance(answer, Fault):
            raise _fault_to_error(answer)
        return answer


def _fault_to_error(fault: Fault) -> StokerError:
    if any(words in fault.text for words in _RETRYABLE_FAULTS):
        return TransientError("odoo was changing the same record for another user")
    if "OperationalError" in fault.text:
        return OdooPlaceError(_NO_DATABASE)
    if fault.code == _DENIED:
        return ConfigError("odoo refuses our login and key; check them in the settings")
    if fault.code == _NO_RIGHT:
        right = describe_right(fault.text) or f"does not let our user do this; {_NO_RIGHT_HINT}"
        return OdooRightError(f"odoo {right}")
    return PermanentError(f"odoo cannot do this call (fault {fault.code})")


OdooProtocol = Json2 | XmlRpc
