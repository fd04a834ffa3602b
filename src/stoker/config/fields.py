"""What a setting's value may be: how each kind is read from text or TOML, and what is allowed.

A kind turns what was given into a value, or raises: ValueError when what is allowed says it all,
ConfigError when there is more to say. `Secret` is here because being secret is a property of a
value, wherever it goes.

What is known about one setting besides its value, and how a section says it.

Sections are dataclasses whose fields carry this along; everything shown about settings is made
from it. Which settings there are is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import time
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from stoker.base.types import Json, TenantId, storable, tenant_id
from stoker.calendar.cron import cron_line
from stoker.calendar.timezones import zone_named

_Type = TypeVar("_Type")

MASK = "[secret]"

_YES_NO = {"true": True, "yes": True, "on": True, "1": True}

_YES_NO |= {"false": False, "no": False, "off": False, "0": False}

# A URL that holds no surprise; anything else is masked as a whole.
_PLAIN_URL = re.compile(
    r"(?P<scheme>[a-z]{1,30})://(?:(?P<user>[^:@/?#]*)(?P<colon>:[^@/?#]*)?@)?(?P<place>[^@?#]*)"
    r"(?:\?[^@#]*)?"
)

_IN_URL = re.compile(r"(?:(?<=://)[^:/]*:(?=.*@)|password=)((?:(?!@[^@]*$)[^&])+)")

_HOUR_MINUTE = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


class Secret:
    """A value that shows itself to nobody who does not ask by `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself, to hand to the one who needs it and nobody else."""
        return self._value

    def masked(self) -> str:
        """Return what may be shown: nothing, or a URL without its password and parameters."""
        url = _PLAIN_URL.fullmatch(self._value)
        if url is None:
            return MASK
        user = "" if url["user"] is None else url["user"] + (f":{MASK}" if url["colon"] else "")
        return f"{url['scheme']}://{user}{'@' if url['user'] is not None else ''}{url['place']}"

    def parts(self) -> list[str]:
        """Return every text that must never be shown: the value, and a URL's passwords."""
        from urllib.parse import unquote

        found = [match[1] for match in _IN_URL.finditer(self._value)]
        return [self._value, *(text for raw in found for text in {raw, unquote(raw)} if text)]

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down; pass it by hand")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of value: what it is called, what it allows, how it is read."""

    name: str
    allowed: str
    read: Callable[[Any, bool], Any] = field(repr=False)  # (given, typed) -> value or ValueError
    secret: bool = False
    shown: Callable[[str], str] = field(default=str, repr=False)  # as an error may repeat it


def _boolean(given: Any, typed: bool) -> bool:
    if typed:
        return _exactly(bool, given)
    if str(given).strip().lower() not in _YES_NO:
        raise ValueError
    return _YES_NO[str(given).strip().lower()]


BOOLEAN = Kind(name="true or false", allowed="true, false", read=_boolean)

# NO_COLOR's own convention: that it is there counts, not what it says.
PRESENT = Kind(
    name="true or false",
    allowed="true, false; in the environment anything means true",
    read=lambda given, typed: _exactly(bool, given) if typed else _YES_NO.get(given, True),
)


def integer(low: int, high: int) -> Kind:
    """A whole number within a range, both ends allowed."""

    def read(given: Any, typed: bool) -> int:
        if typed and isinstance(given, bool):
            raise ValueError
        value = _exactly(int, given) if typed else _whole(str(given))
        if not low <= value <= high:
            raise ValueError
        return value

    return Kind(name="whole number", allowed=f"a whole number, {low} to {high}", read=read)


def number(low: float, high: float) -> Kind:
    """A number within a range, both ends allowed."""

    def read(given: Any, typed: bool) -> float:
        if isinstance(given, bool) or (typed and not isinstance(given, int | float)):
            raise ValueError
        value = float(given)
        if not low <= value <= high:  # also refuses NaN, which is in no range
            raise ValueError
        return value

    return Kind(name="number", allowed=f"a number, {low:g} to {high:g}", read=read)


def choice(*allowed: str) -> Kind:
    """One of a few words."""

    def read(given: Any, typed: bool) -> str:
        if _exactly(str, given).strip() not in allowed:
            raise ValueError
        return str(given).strip()

    return Kind(name="choice", allowed=", ".join(allowed), read=read)


def member(kind: type[StrEnum]) -> Kind:
    """One member of an enumeration, said by its value."""
    words = choice(*(item.value for item in kind))
    return Kind(
        name=words.name,
        allowed=words.allowed,
        read=lambda given, typed: kind(words.read(given, typed)),
    )


def _text(given: Any, typed: bool) -> str:
    text = _exactly(str, given).strip()
    if not text or not storable(text) or not text.isprintable():
        raise ValueError
    return text


TEXT = Kind(name="text", allowed="text on one line", read=_text)

PATH = Kind(name="path", allowed="a path", read=lambda given, typed: Path(_text(given, typed)))

SECRET = Kind(
    name="secret",
    allowed="text",
    read=lambda given, typed: Secret(_text(given, typed)),
    secret=True,
)


def _postgres_url(given: Any, typed: bool) -> Secret:
    text = _text(given, typed)
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError
    return Secret(text)


POSTGRES_URL = Kind(
    name="secret URL",
    allowed="postgresql://user:password@host:port/database",
    read=_postgres_url,
    secret=True,
)


def _cron(given: Any, typed: bool) -> str:
    text = _text(given, typed)
    cron_line(text)
    return text


CRON = Kind(name="cron line", allowed="five cron fields, e.g. 0 1 * * *", read=_cron)


def _zone(given: Any, typed: bool) -> str:
    return zone_named(_text(given, typed)).key


ZONE = Kind(name="time zone", allowed="an IANA zone, e.g. Asia/Singapore or UTC", read=_zone)


def _hour_minute(given: Any, typed: bool) -> time:
    found = _HOUR_MINUTE.fullmatch(_exactly(str, given).strip())
    if not found:
        raise ValueError
    return time(int(found[1]), int(found[2]))


HOUR_MINUTE = Kind(name="time of day", allowed="HH:MM in UTC, 00:00 to 23:59", read=_hour_minute)

WALL_TIME = Kind(
    name="time of day", allowed="HH:MM on the tenant's wall, 00:00 to 23:59", read=_hour_minute
)


def _currency(given: Any, typed: bool) -> str:
    text = _exactly(str, given).strip()
    if not re.fullmatch(r"[A-Z]{3}", text):
        raise ValueError
    return text


CURRENCY = Kind(name="currency", allowed="three capital letters, e.g. USD", read=_currency)


def _tenant(given: Any, typed: bool) -> TenantId:
    return tenant_id(_exactly(str, given).strip())


TENANT = Kind(name="tenant id", allowed="the id of a tenant", read=_tenant)


def _tenants(given: Any, typed: bool) -> tuple[TenantId, ...]:
    parts: Sequence[Any] = given if typed and isinstance(given, list) else str(given).split(",")
    wanted = [part for part in parts if not isinstance(part, str) or part.strip()]
    return tuple(dict.fromkeys(_tenant(part, typed) for part in wanted))


TENANTS = Kind(name="tenant ids", allowed="tenant ids separated by commas", read=_tenants)


def _exactly(kind: type[_Type], given: Any) -> _Type:
    if not isinstance(given, kind):
        raise ValueError("wrong type")  # noqa: TRY004 - to the reader of a setting it is a value
    return given


def _whole(text: str) -> int:
    # int() alone would also take "1_000" and digits of other alphabets.
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError
    return int(text)


def show(value: object) -> str:
    """Return a value as a person may read it."""
    if value is None:
        return "not set"
    if isinstance(value, Secret):
        return value.masked()
    plain = _plain(value)
    if isinstance(plain, bool):
        return str(plain).lower()
    return (", ".join(map(str, plain)) or "none") if isinstance(plain, list) else str(plain)


def as_json(value: object, *, secret: bool = False) -> Json:
    """Return a value as JSON; of a secret, only whether it is set."""
    if secret:
        return "not set" if value is None else "set"
    return _plain(value)


def _plain(value: object) -> Json:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return [str(item) for item in value]
    if isinstance(value, time):
        return f"{value:%H:%M}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known about one setting besides its value."""

    kind: Kind
    help: str
    env: tuple[str, ...] = ()  # the first is its name, the rest are aliases
    per_tenant: bool = False  # a tenant's own table may say otherwise


def setting(kind: Kind, default: Any, help: str, *env: str, per_tenant: bool = False) -> Any:  # noqa: A002 - it is what the sentence is
    """Return a section's field: of this kind, with this default, explained in this sentence."""
    about = Explained(kind=kind, help=help, env=env, per_tenant=per_tenant)
    return field(default=default, metadata={"about": about})


def tenant_setting(kind: Kind, default: Any, help: str, *env: str) -> Any:  # noqa: A002 - as above
    """As `setting`, for one that a tenant's own table may say otherwise."""
    return setting(kind, default, help, *env, per_tenant=True)
