"""XML-RPC on the wire: calls written, answers read within bounds.

An answer that declares a document type or entities is refused unread; so is one too deep or with
too many values. What calls mean is not known here.

Odoo's JSON-2 protocol, from version 19 on: one POST with named arguments is one call.

It knows which failures mean what. A server's error body has a traceback in it, so nothing of it
goes further than this file. Which calls are made is `odoo`'s business.

Odoo's XML-RPC protocol, for servers before version 19: who we are is asked for once.

The protocol wants our key in every body, so bodies are never shown. Faults carry tracebacks, so
only their numbers count, and the few words that mean: again. Which calls are made is `odoo`'s
business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from xml.parsers import expat
from xml.sax.saxutils import escape

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import list_in, text_in, whole_in
from stoker.base.types import Json, clean_text
from stoker.http.api_client import Answered, Failure, Vendor, usable_key
from stoker.http.client import Http

DEEPEST = 64  # values inside each other

MOST_VALUES = 500_000

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_MOST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Fault:
    """What a server answers instead of a result. Its text may hold a traceback."""

    code: int
    text: str


def written(method: str, params: tuple[Json, ...]) -> bytes:
    """Return a call. Raises PermanentError for a value that cannot be written as XML-RPC."""
    try:
        values = "".join(f"<param><value>{_written(each)}</value></param>" for each in params)
    except RecursionError as error:
        raise PermanentError("a value is too deep to be sent") from error
    return (
        f"<?xml version='1.0'?><methodCall><methodName>{escape(method)}</methodName>"
        f"<params>{values}</params></methodCall>"
    ).encode()


def read_answer(body: bytes) -> Json | Fault:
    """Return what an answer says. Raises PermanentError when it is none."""
    reading = _Reading()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.text
    parser.StartDoctypeDeclHandler = _declared
    parser.EntityDeclHandler = _declared
    try:
        parser.Parse(body, True)
        return reading.result()
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise PermanentError("the answer is not XML-RPC as it should be") from error


def _declared(*_: object) -> None:
    raise ValueError("an answer has no business declaring a document type")


def _written(value: Json) -> str:
    if value is None:
        return "<nil/>"
    if isinstance(value, bool):
        return f"<boolean>{int(value)}</boolean>"
    if isinstance(value, int):
        if abs(value) > _MOST_INT:
            raise PermanentError("a number is too large to be sent")
        return f"<int>{value}</int>"
    if isinstance(value, float):
        if not isfinite(value):
            raise PermanentError("a number is infinite")
        return f"<double>{value!r}</double>"
    if isinstance(value, str):
        return f"<string>{_text(value)}</string>"
    if isinstance(value, Mapping):
        members = "".join(
            f"<member><name>{_text(name)}</name><value>{_written(each)}</value></member>"
            for name, each in value.items()
        )
        return f"<struct>{members}</struct>"
    items = "".join(f"<value>{_written(each)}</value>" for each in value)
    return f"<array><data>{items}</data></array>"


def _text(text: str) -> str:
    if _NOT_XML.search(text):
        raise PermanentError("a text has characters that cannot be sent")
    # A carriage return left as it is would arrive as a line feed.
    return escape(text, {"\r": "&#13;"})


class _Reading:
    """Values as they come; a container waits on the stack until it is closed."""

    def __init__(self) -> None:
        self._stack: list[list[Json] | dict[str, Json]] = []
        self._names: list[str] = []
        self._values: list[Json] = []  # finished, waiting for whoever holds them
        self._open: list[tuple[str, int]] = []  # elements, and how many values stood before
        self._words: list[str] = []
        self._seen = 0
        self._fault = False

    def start(self, name: str, _: dict[str, str]) -> None:
        if len(self._open) > DEEPEST * 4:  # a value of a list stands four elements deeper
            raise ValueError("too deep")
        self._open.append((name, len(self._values)))
        self._words = []
        if name == "value":
            self._seen += 1
            if self._seen > MOST_VALUES:
                raise ValueError("too many values")
        if name == "fault":
            self._fault = True
        if name in ("struct", "array"):
            self._stack.append({} if name == "struct" else [])

    def text(self, words: str) -> None:
        self._words.append(words)

    def end(self, name: str) -> None:
        _, before = self._open.pop()
        words = "".join(self._words)
        self._words = []
        if name in _SCALARS:
            self._values.append(_SCALARS[name](words))
        elif name == "name":
            self._names.append(clean_text(words))
        elif name in ("struct", "array"):
            self._values.append(self._stack.pop())
        elif name == "value":
            if len(self._values) == before:
                self._values.append(clean_text(words))  # a value without a type is a text
            self._placed()

    def result(self) -> Json | Fault:
        (value,) = self._values
        if not self._fault:
            return value
        if not isinstance(value, dict):
            raise ValueError("a fault without its parts")  # noqa: TRY004  # as all else here
        code, text = value.get("faultCode"), value.get("faultString")
        return Fault(code if isinstance(code, int) else 1, str(text))

    def _placed(self) -> None:
        """Put a finished value into the list or struct it stands in."""
        holder = next((each for each, _ in reversed(self._open) if each in _HOLDERS), "")
        if holder == "member":
            struct, name = self._stack[-1], self._names.pop()
            if not isinstance(struct, dict) or name in struct:
                raise ValueError("a member twice, or of no struct")
            struct[name] = self._values.pop()
        elif holder == "data":
            array = self._stack[-1]
            if not isinstance(array, list):
                raise ValueError("data of no array")  # as all else here
            array.append(self._values.pop())


_HOLDERS = {"member", "data", "param", "fault"}


def _integer(text: str) -> int:
    if len(text.strip()) > 20:
        raise ValueError("a number has too many digits")
    return int(text)


def _double(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("a number is infinite")
    return number


def _boolean(text: str) -> bool:
    return {"0": False, "1": True}[text.strip()]


_SCALARS: Mapping[str, Callable[[str], Json]] = {
    "string": clean_text,
    "int": _integer,
    "i4": _integer,
    "i8": _integer,
    "double": _double,
    "boolean": _boolean,
    "dateTime.iso8601": clean_text,
    "nil": lambda _: None,
}

NAME = "odoo"

FAILURES: Mapping[int, Failure] = {
    401: Failure(ConfigError, "refuses our key; make a new one there, they last three months"),
    403: Failure(ConfigError, "does not let our user do this; give it sales and contact rights"),
    404: Failure(PermanentError, "does not have this model, record or method"),
}

# Classes of errors that come again with the same call; every other 500 may have been bad luck.
_LASTING = ("builtins.", "odoo.exceptions.")

_MET = ("SerializationFailure", "DeadlockDetected", "LockNotAvailable", "ConcurrencyError")


class Json2:
    """One database of one server, called with our key."""

    name = "JSON-2"
    names_all = False  # `external_ids` says one of a record's, whoever's it is

    def __init__(
        self, http: Http, *, url: str, database: str, key: str, deadline: timedelta
    ) -> None:
        self._vendor = Vendor(
            http,
            name=NAME,
            base_url=url,
            headers={
                "Authorization": f"bearer {usable_key(NAME, key)}",
                "X-Odoo-Database": database,
            },
            deadline=deadline,
            failures=FAILURES,
            judge=_judged,
        )

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
        try:
            answered = await self._vendor.post(f"/json/2/{model}/{method}", body)
        except UncertainError as error:
            raise lost(error) from error
        return answered.data

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return one external id of each record, empty for those that have none."""
        told = await self.call(model, "get_external_id", {}, ids=ids)
        return {id_: (text_in(told, str(id_)),) for id_ in ids}

    async def all_external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return every external id of records; a record has several once people merged it."""
        return external_ids_in(await self.call(model, "get_metadata", {}, ids=ids))


def external_ids_in(metadata: Json) -> dict[int, tuple[str, ...]]:
    """Return the external ids that a server's word on its records holds, by record."""
    named: dict[int, tuple[str, ...]] = {}
    for record in metadata if isinstance(metadata, list) else ():
        id_ = whole_in(record, "id")
        others = [text_in(each, "xmlid") for each in list_in(record, "xmlids", most=100)]
        if id_ is not None:
            named[id_] = (text_in(record, "xmlid"), *others)
    return named


def lost(error: UncertainError) -> TransientError:
    """Return what a lost answer means where doing it twice is doing it once."""
    return TransientError(f"{error}; it is safe to do it again")


def _judged(answered: Answered) -> StokerError | None:
    name = text_in(answered.data, "name")
    if name.endswith(_MET):
        return TransientError("odoo was changing the same record for somebody else")
    if answered.status == 500 and name.startswith(_LASTING):
        return PermanentError("odoo cannot do this call (500)")
    return None


_AGAIN = ("could not serialize", "deadlock detected", "concurrent update")

_DENIED, _NO_RIGHT = 3, 4


class XmlRpc:
    """One database of one server, called as one user."""

    name = "XML-RPC"
    names_all = True  # `external_ids` says every one of a record's

    def __init__(
        self, http: Http, *, url: str, database: str, login: str, key: str, deadline: timedelta
    ) -> None:
        self._vendor = Vendor(
            http,
            name=NAME,
            base_url=url,
            headers={},
            deadline=deadline,
            failures={404: Failure(ConfigError, "offers no XML-RPC; check its address")},
        )
        if not login:
            raise ConfigError("odoo before version 19 needs the user's login beside its key")
        self._database, self._login = database, login
        self._key = usable_key(NAME, key)
        self._uid: int | None = None

    async def version(self) -> Json:
        """Return what the server says of its version; no key is needed."""
        return await self._called("common", "version", ())

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
        uid = self._uid or await self._authenticated()
        places: list[Json] = [] if ids is None else [list(ids)]
        named = {**arguments, **({"context": context} if context else {})}
        params: tuple[Json, ...] = (self._database, uid, self._key, model, method, places, named)
        return await self._called("object", "execute_kw", params)

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """Return every external id of records, empty for those that have none."""
        # `get_external_id` has numbers for keys, which XML-RPC cannot write: it ends in a fault.
        return external_ids_in(await self.call(model, "get_metadata", {}, ids=ids))

    all_external_ids = external_ids

    async def _authenticated(self) -> int:
        params: tuple[Json, ...] = (self._database, self._login, self._key, {})
        uid = await self._called("common", "authenticate", params)
        if isinstance(uid, bool) or not isinstance(uid, int):
            raise ConfigError("odoo refuses our login and key; check them in the settings")
        self._uid = uid
        return uid

    async def _called(self, service: str, method: str, params: tuple[Json, ...]) -> Json:
        body = written(method, params)
        try:
            reply = await self._vendor.send(
                "POST", f"/xmlrpc/2/{service}", body=body, headers={"content-type": "text/xml"}
            )
        except UncertainError as error:
            raise lost(error) from error
        try:
            answer = read_answer(reply.body)
        except PermanentError as error:
            raise TransientError(
                "odoo gave an unreadable answer; it is safe to ask again"
            ) from error
        if isinstance(answer, Fault):
            raise _failure(answer)
        return answer


def _failure(fault: Fault) -> StokerError:
    if any(words in fault.text for words in _AGAIN):
        return TransientError("odoo was changing the same record for somebody else")
    if fault.code == _DENIED:
        return ConfigError("odoo refuses our login and key; check them in the settings")
    if fault.code == _NO_RIGHT:
        return ConfigError("odoo does not let our user do this; give it sales and contact rights")
    return PermanentError(f"odoo cannot do this call (fault {fault.code})")
