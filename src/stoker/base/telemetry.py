"""Turns events into lines: one a person can read on a terminal, JSON lines elsewhere.

In everything that is written, known secrets are replaced, and characters that could move a cursor,
hide or reorder text are made visible.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import TextIO
from urllib.parse import quote, quote_plus

from stoker.base.errors import ConfigError
from stoker.base.events import Event
from stoker.base.types import Json

FORMATS = ("auto", "human", "json")

LEVELS = ("debug", "info", "warning", "error")

REDACTED = "[secret]"

MIN_SECRET_LENGTH = 6  # shorter ones would black out ordinary words

# Control characters, DEL and C1; soft hyphen, Arabic letter mark, Mongolian vowel separator;
# zero-width, bidi and invisible operators; line and paragraph separators; BOM, interlinear marks;
# variation selectors, surrogates and the tag characters that smuggle ASCII unseen.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31"}


def escape_invisible(text: str) -> str:
    """Return text in which every character is seen as itself, on one line."""
    return _INVISIBLE.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


class Redactor:
    """Takes known secrets out of anything that is about to be shown."""

    def __init__(self, secrets: Iterable[str]) -> None:
        shapes = {shape for secret in secrets for shape in _list_encodings(secret)}
        # The longest first: a secret may be part of another.
        ordered = sorted(shapes, key=lambda shape: (-len(shape), shape))
        self._secrets = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def redact(self, text: str) -> str:
        """Return the text with every known secret replaced, also where it was URL-quoted."""
        return self._secrets.sub(REDACTED, text) if self._secrets else text

    def redact_json(self, value: Json) -> Json:
        """Return the value with every text in it redacted, keys as well."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(key): self.redact_json(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.redact_json(item) for item in value]
        return value


class Telemetry:
    """An `Observer` that writes lines. A stream that cannot be written to stops no work."""

    def __init__(
        self, stream: TextIO, *, human: bool, level: str, redactor: Redactor, colour: bool = False
    ) -> None:
        self._stream = stream
        self._human = human
        self._min_level = LEVELS.index(level)
        self._colour = colour
        self.redactor = redactor
        self.level = level

    def __call__(self, event: Event) -> None:
        known = {field.name: _to_json(getattr(event, field.name)) for field in fields(event)}
        known.pop("at")
        known.pop("tenant")
        self.write(
            at=event.at,
            level=event.level.value,
            what=type(event).__name__,
            tenant=event.tenant,
            sentence=event.message(),
            known=known,
        )

    def write(
        self,
        *,
        at: datetime,
        level: str,
        what: str,
        sentence: str,
        tenant: str | None = None,
        known: Mapping[str, Json] | None = None,
    ) -> None:
        """Write one line, if it is important enough."""
        if LEVELS.index(level) < self._min_level:
            return
        at = at.astimezone(UTC)
        if self._human:
            line = self._format_human(at, level, tenant, sentence)
        else:
            line = self._format_json(
                {
                    "at": at.isoformat(),
                    "level": level,
                    "event": what,
                    "tenant": tenant,
                    "message": sentence,
                    **(known or {}),
                }
            )
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # A full disk, a closed pipe or a closed stream: the work matters more than its log.
            return

    def _format_human(self, at: datetime, level: str, tenant: str | None, sentence: str) -> str:
        shown = level.upper() if level in ("warning", "error") else level
        if self._colour:
            shown = f"\x1b[{_COLOURS[level]}m{shown}\x1b[0m"
        whose = f"{tenant}: " if tenant else ""
        text = escape_invisible(self.redactor.redact(whose + sentence))
        return f"{at:%Y-%m-%d %H:%M:%S}Z {shown} {text}"

    def _format_json(self, line: Mapping[str, Json]) -> str:
        # ASCII only, so every unseen character is written as an escape.
        return json.dumps(self.redactor.redact_json(line), ensure_ascii=True)


def build_telemetry(
    stream: TextIO,
    *,
    form: str = "auto",
    level: str = "info",
    secrets: Iterable[str] = (),
    no_colour: bool = False,
) -> Telemetry:
    """Return the observer for a stream: human lines on a terminal, JSON lines elsewhere.

    Colour only on a terminal, and never when the user set NO_COLOR.
    """
    if form not in FORMATS or level not in LEVELS:
        raise ConfigError(
            f"logging is {form!r} at {level!r}; allowed: {', '.join(FORMATS)} "
            f"at {', '.join(LEVELS)}"
        )
    terminal = stream.isatty()
    return Telemetry(
        stream,
        human=form == "human" or (form == "auto" and terminal),
        level=level,
        redactor=Redactor(secrets),
        colour=terminal and not no_colour,
    )


@contextmanager
def capture_library_logs(telemetry: Telemetry) -> Iterator[None]:
    """Send what libraries log to the same place, redacted, until the block ends."""
    handler, root = _TelemetryHandler(telemetry), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(telemetry.level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


class _TelemetryHandler(logging.Handler):
    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__()
        self._telemetry = telemetry

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, LookupError):  # a library's slip must not stop our work
            text = f"{record.msg} {record.args!r}"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        names = {10: "debug", 20: "info", 30: "warning"}
        self._telemetry.write(
            at=datetime.fromtimestamp(record.created, UTC),
            level=names.get(min(record.levelno // 10 * 10, 40), "error"),
            what=record.name,
            sentence=text,
        )


def _list_encodings(secret: str) -> set[str]:
    if len(secret) < MIN_SECRET_LENGTH:
        return set()
    as_json = json.dumps(secret)[1:-1]
    return {secret, as_json, repr(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)}


def _to_json(value: object) -> Json:
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_to_json(each) for each in value]
    return str(value)
