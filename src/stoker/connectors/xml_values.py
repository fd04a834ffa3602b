"""XML-RPC on the wire: calls written, answers read within bounds.

An answer that declares a document type or entities is refused unread; so is one too deep or with
too many values. What calls mean is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from xml.parsers import expat
from xml.sax.saxutils import escape

from stoker.core.model import Json, clean_text
from stoker.errors import PermanentError

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
