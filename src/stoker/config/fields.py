"""What a setting's value may be, how it is read from text or TOML, and how it is described.

A field type returns the value or raises: ValueError if the allowed values explain the problem,
ConfigError if there is more to say. A `Section` is a frozen dataclass whose fields carry a
`FieldInfo`; everything shown about settings comes from it, and decisions take the section itself
as their rule. `Secret` hides its value wherever it goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import time, timedelta
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from stoker.base.errors import ConfigError
from stoker.base.types import Json, TenantId, is_storable, parse_tenant_id
from stoker.calendar.cron import parse_cron
from stoker.calendar.timezones import get_zone

_Type = TypeVar("_Type")

MASK = "[secret]"

_BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True)
_BOOLEANS |= dict.fromkeys(("false", "no", "off", "0"), False)

# A URL that holds no surprise; anything else is masked as a whole.
_PLAIN_URL = re.compile(
    r"(?P<scheme>[a-z]{1,30})://(?:(?P<user>[^:@/?#]*)(?P<colon>:[^@/?#]*)?@)?(?P<place>[^@?#]*)"
    r"(?:\?[^@#]*)?"
)

_IN_URL = re.compile(r"(?:(?<=://)[^:/]*:(?=.*@)|password=)((?:(?!@[^@]*$)[^&])+)")

_HOUR_MINUTE = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


class Secret:
    """A value that is shown only by `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself, for the vendor or database that needs it."""
        return self._value

    def mask(self) -> str:
        """Return what may be shown: nothing, or a URL without its password and parameters."""
        url = _PLAIN_URL.fullmatch(self._value)
        if url is None:
            return MASK
        user = "" if url["user"] is None else url["user"] + (f":{MASK}" if url["colon"] else "")
        return f"{url['scheme']}://{user}{'@' if url['user'] is not None else ''}{url['place']}"

    def list_parts(self) -> list[str]:
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
class FieldType:
    """One kind of value: what it is called, what it allows, how it is read and written."""

    name: str
    allowed: str
    parse: Callable[[Any, bool], Any] = field(repr=False)  # (given, typed) -> value or ValueError
    is_allowed: Callable[[Any], bool] = field(default=lambda value: True, repr=False)
    to_plain: Callable[[Any], Any] = field(default=lambda value: value, repr=False)  # as given
    secret: bool = False
    format: Callable[[str], str] = field(default=str, repr=False)  # as an error may repeat it

    def read(self, given: Any, typed: bool) -> Any:
        """Return the value that was given, or raise ValueError or ConfigError."""
        value = self.parse(given, typed)
        if not self.is_allowed(value):
            raise ValueError(value)
        return value


def _parse_boolean(given: Any, typed: bool) -> bool:
    if typed:
        return require_type(bool, given)
    if str(given).strip().lower() not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[str(given).strip().lower()]


BOOLEAN = FieldType(name="true or false", allowed="true, false", parse=_parse_boolean)

# NO_COLOR's own convention: that it is there counts, not what it says.
FLAG_IF_SET = FieldType(
    name="true or false",
    allowed="true, false; in the environment anything means true",
    parse=lambda given, typed: require_type(bool, given) if typed else _BOOLEANS.get(given, True),
)


def integer(low: int, high: int) -> FieldType:
    """A whole number within a range, both ends allowed."""

    def parse(given: Any, typed: bool) -> int:
        if typed and isinstance(given, bool):
            raise ValueError
        return require_type(int, given) if typed else _parse_whole(str(given))

    return FieldType(
        name="whole number",
        allowed=f"a whole number, {low} to {high}",
        parse=parse,
        is_allowed=lambda value: low <= value <= high,
    )


def number(low: float, high: float) -> FieldType:
    """A number within a range, both ends allowed."""

    def parse(given: Any, typed: bool) -> float:
        if isinstance(given, bool) or (typed and not isinstance(given, int | float)):
            raise ValueError
        try:
            return float(given)
        except OverflowError as error:  # a whole number of more than 300 digits
            raise ValueError from error

    return FieldType(
        name="number",
        allowed=f"a number, {low:g} to {high:g}",
        parse=parse,
        is_allowed=lambda value: low <= value <= high,  # also refuses NaN, which is in no range
    )


def minutes(low: int, high: int, *, whole: bool = False) -> FieldType:
    """A duration, given as a number of minutes, or as a whole number of them."""
    return _duration("minutes", low, high, whole=whole)


def hours(low: float, high: float) -> FieldType:
    """A duration, given as a number of hours."""
    return _duration("hours", low, high)


def days(low: float, high: float, *, whole: bool = False) -> FieldType:
    """A duration, given as a number of days, or as a whole number of them."""
    return _duration("days", low, high, whole=whole)


def _duration(unit: str, low: float, high: float, *, whole: bool = False) -> FieldType:
    kind = integer(int(low), int(high)) if whole else number(low, high)
    one = timedelta(**{unit: 1})

    def to_plain(value: timedelta | None) -> float | None:
        if value is None:
            return None
        return value // one if whole else value / one

    return replace(
        kind,
        parse=lambda given, typed: timedelta(**{unit: kind.read(given, typed)}),
        is_allowed=lambda value: kind.is_allowed(value / one),
        to_plain=to_plain,
    )


def zero_as_none(kind: FieldType) -> FieldType:
    """The kind of a value that is None where 0 is given."""

    def parse(given: Any, typed: bool) -> Any:
        return kind.parse(given, typed) or None

    def to_plain(value: Any) -> Any:
        return 0.0 if value is None else kind.to_plain(value)

    return replace(
        kind,
        parse=parse,
        is_allowed=lambda value: value is None or kind.is_allowed(value),
        to_plain=to_plain,
    )


def choice(*allowed: str) -> FieldType:
    """One of a few words."""

    def parse(given: Any, typed: bool) -> str:
        if require_type(str, given).strip() not in allowed:
            raise ValueError
        return str(given).strip()

    return FieldType(name="choice", allowed=", ".join(allowed), parse=parse)


def member(kind: type[StrEnum]) -> FieldType:
    """One member of an enumeration, given by its value."""
    words = choice(*(item.value for item in kind))
    return replace(words, parse=lambda given, typed: kind(words.parse(given, typed)))


def _parse_text(given: Any, typed: bool) -> str:
    text = require_type(str, given).strip()
    if not text or not is_storable(text) or not text.isprintable():
        raise ValueError
    return text


TEXT = FieldType(name="text", allowed="text on one line", parse=_parse_text)


def text_type(
    name: str, allowed: str, parse: Callable[[str], Any], *, secret: bool = False
) -> FieldType:
    """A value read from one line of text by `parse`, which raises as `FieldType.read` does."""
    return FieldType(
        name=name,
        allowed=allowed,
        parse=lambda given, typed: parse(_parse_text(given, typed)),
        secret=secret,
    )


def _check_match(pattern: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.match(pattern, text):
            raise ValueError(text)
        return text

    return check


def _check_cron(text: str) -> str:
    parse_cron(text)
    return text


def _parse_hour_minute(text: str) -> time:
    found = _HOUR_MINUTE.fullmatch(text)
    if not found:
        raise ValueError(text)
    return time(int(found[1]), int(found[2]))


PATH = text_type("path", "a path", Path)

SECRET = text_type("secret", "text", Secret, secret=True)

POSTGRES_URL = text_type(
    "secret URL",
    "postgresql://user:password@host:port/database",
    lambda text: Secret(_check_match("postgres(ql)?://")(text)),
    secret=True,
)

CRON = text_type("cron line", "five cron fields, e.g. 0 1 * * *", _check_cron)

ZONE = text_type(
    "time zone", "an IANA zone, e.g. Asia/Singapore or UTC", lambda text: get_zone(text).key
)

HOUR_MINUTE = text_type("time of day", "HH:MM in UTC, 00:00 to 23:59", _parse_hour_minute)

LOCAL_TIME = text_type(
    "time of day", "HH:MM on the tenant's wall, 00:00 to 23:59", _parse_hour_minute
)

CURRENCY = text_type("currency", "three capital letters, e.g. USD", _check_match(r"[A-Z]{3}\Z"))


def _parse_tenant(given: Any, typed: bool) -> TenantId:
    return parse_tenant_id(require_type(str, given).strip())


TENANT = FieldType(name="tenant id", allowed="the id of a tenant", parse=_parse_tenant)


def _parse_tenants(given: Any, typed: bool) -> tuple[TenantId, ...]:
    parts: Sequence[Any] = given if typed and isinstance(given, list) else str(given).split(",")
    wanted = [part for part in parts if not isinstance(part, str) or part.strip()]
    return tuple(dict.fromkeys(_parse_tenant(part, typed) for part in wanted))


TENANTS = FieldType(
    name="tenant ids", allowed="tenant ids separated by commas", parse=_parse_tenants
)


def texts(name: str, allowed: str, parse: Callable[[str], str] = str) -> FieldType:
    """Several texts on one line each, separated by commas; each is read by `parse`."""

    def parse_all(given: Any, typed: bool) -> tuple[str, ...]:
        parts: Sequence[Any] = given if typed and isinstance(given, list) else str(given).split(",")
        wanted = [part for part in parts if not isinstance(part, str) or part.strip()]
        return tuple(dict.fromkeys(parse(_parse_text(part, typed)) for part in wanted))

    return FieldType(name=name, allowed=allowed, parse=parse_all)


def require_type(kind: type[_Type], given: Any) -> _Type:
    """Return the value given if it has this type; raises ValueError otherwise."""
    if not isinstance(given, kind):
        raise ValueError("wrong type")  # noqa: TRY004 - to the reader of a setting it is a value
    return given


def _parse_whole(text: str) -> int:
    # int() alone would also take "1_000" and digits of other alphabets.
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError
    return int(text)


def format_value(value: object) -> str:
    """Return a plain value as a person may read it."""
    if value is None:
        return "not set"
    if isinstance(value, Secret):
        return value.mask()
    plain = to_json_value(value)
    if isinstance(plain, bool):
        return str(plain).lower()
    return (", ".join(map(str, plain)) or "none") if isinstance(plain, list) else str(plain)


def to_json_value(value: object) -> Json:
    """Return a plain value as JSON."""
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
class FieldInfo:
    """What is known about one setting besides its value."""

    kind: FieldType
    help: str
    env: tuple[str, ...] = ()  # the first is its name, the rest are aliases
    per_tenant: bool = False  # a tenant's own table may say otherwise
    # As people write it; the name of the attribute, if empty. A dotted one is in another table
    # than the section's own: a vendor's section has its key, and people set it in [keys].
    key: str = ""
    attribute: str = ""  # filled in by `list_settings`, as the key is
    section: str = ""  # whose attribute it is, filled in where sections have names

    def format(self, value: Any) -> str:
        """Return a value as it may be shown to anyone."""
        return format_value(self.kind.to_plain(value))

    def to_json(self, value: Any) -> Json:
        """Return a value as a snapshot keeps it; of a secret, only whether it is set."""
        if self.kind.secret:
            return "not set" if value is None else "set"
        return to_json_value(self.kind.to_plain(value))


def setting(
    kind: FieldType,
    default: Any,
    help: str,  # noqa: A002 - it is what the sentence is
    *env: str,
    key: str = "",
    per_tenant: bool = False,
) -> Any:
    """Return a section's field: of this kind, with this default, explained in this sentence."""
    about = FieldInfo(kind=kind, help=help, env=env, key=key, per_tenant=per_tenant)
    return field(default=default, metadata={"about": about})


def tenant_setting(kind: FieldType, default: Any, help: str, *env: str, key: str = "") -> Any:  # noqa: A002 - as above
    """As `setting`, for one that a tenant's own table may say otherwise."""
    return setting(kind, default, help, *env, key=key, per_tenant=True)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of the settings, and at once the rule that decisions take.

    Building one with a value out of its range, or with values that contradict each other, raises
    ConfigError: a subclass adds its contradictions to `__post_init__`.
    """

    def __post_init__(self) -> None:
        for about in list_settings(type(self)):
            value = getattr(self, about.attribute)
            if value is not None and not about.kind.is_allowed(value):
                shown = about.format(value)
                raise ConfigError(f"{about.key} is {shown}; allowed: {about.kind.allowed}")


_LISTED: dict[type[Section], tuple[FieldInfo, ...]] = {}


def list_settings(section: type[Section]) -> tuple[FieldInfo, ...]:
    """Return what is known about each setting of a section, in the order of its fields."""
    if section not in _LISTED:
        _LISTED[section] = tuple(
            replace(about, key=about.key or each.name, attribute=each.name)
            for each in fields(section)
            if (about := each.metadata.get("about"))
        )
    return _LISTED[section]
