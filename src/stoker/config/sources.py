"""Where settings come from: a TOML file, a .env file, the environment, flags.

Each source becomes a flat list of given values, every one with its origin, down to the line. What
the values mean, and which are allowed, is `config`'s business. Nothing here touches this
process's environment: it is handed in.
"""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError

MAX_FILE_BYTES = 1_000_000  # bytes; a settings file is never this long, a wrong path often is

_AT_LINE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)$")

_TABLE = re.compile(r"\s*\[")

# What brackets are found between: texts of one line and comments, which may hold some.
_TOKEN = re.compile(
    r"""\"{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|\#.*|[\[\]{}]""",
)

_NESTED = re.compile(r"""(?:[\[{][^\[\]{}"'#]*){100}""")  # opened a hundred times, never closed

# Where a text of many lines ends; up to two quotes before the last three belong to it.
_QUOTE_ENDS = {
    '"' * 3: re.compile(r'\\.|"{3,5}'),
    "'" * 3: re.compile(r"'{3,5}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawValue:
    """One value as it was given. Text sources give text; TOML gives numbers, lists and so on."""

    key: str  # dotted, or the name of an environment variable
    value: Any
    origin: str
    typed: bool = False  # TOML says what type a value has; elsewhere everything is text


def read_toml(path: Path) -> list[RawValue]:
    """Return every value of a TOML file under its dotted key, in the order of the file.

    A table's heading is given as well, as an empty table: that it is there can mean something.
    Raises ConfigError naming the file and line when it cannot be read.
    """
    text = _read_text(path)
    too_deep = ConfigError(f"{path.name}: brackets or names nested too deep; no setting is")
    if _NESTED.search(text):  # the parser would run out of stack on it
        raise too_deep
    try:
        tomllib.loads(text)
        return list(_iter_statements(path.name, text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_format_toml_error(path, text, str(error))) from error
    except ValueError:
        raise ConfigError(
            f"{path.name}: a number has thousands of digits; no setting has"
        ) from None
    except RecursionError:
        raise too_deep from None


def read_env_file(path: Path) -> list[RawValue]:
    """Return every NAME=VALUE of a .env file, letter for letter: `$` stands for itself."""
    from dotenv.parser import parse_stream  # here, because most commands never need it

    seen: dict[str, int] = {}
    values = []
    for binding in parse_stream(io.StringIO(_read_text(path))):
        line = binding.original.line
        if binding.error:
            raise ConfigError(f"{path.name}:{line}: this is not NAME=VALUE; fix or remove the line")
        if binding.key is None or binding.value is None:
            continue
        if binding.key in seen:
            raise ConfigError(
                f"{path.name}:{line}: {binding.key} is given twice, first on line "
                f"{seen[binding.key]}; keep one"
            )
        seen[binding.key] = line
        values.append(RawValue(key=binding.key, value=binding.value, origin=f"{path.name}:{line}"))
    return values


def read_environment(environment: Mapping[str, str]) -> list[RawValue]:
    """Return the environment's variables."""
    return [
        RawValue(key=name, value=value, origin=f"environment {name}")
        for name, value in environment.items()
    ]


def read_flags(flags: Mapping[str, str]) -> list[RawValue]:
    """Return the settings of the command line, by dotted key."""
    return [RawValue(key=key, value=value, origin="flag") for key, value in flags.items()]


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: {len(raw)} bytes is too long for a settings file; wrong path?")
    try:
        # Editors on Windows put a byte order mark in front; it is not part of the first key.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path.name}:{line}: not UTF-8; save the file as UTF-8") from error
    return text.replace("\r\n", "\n")


def _format_toml_error(path: Path, text: str, message: str) -> str:
    found = _AT_LINE.search(message)
    line = found["line"] if found and found["line"] else text.rstrip("\n").count("\n") + 1
    what = _AT_LINE.sub("", message)
    if what.startswith(("Cannot overwrite a value", "Cannot declare")):
        what = "this key or table is given twice; keep one"
    return f"{path.name}:{line}: not TOML: {what}"


def _iter_statements(name: str, text: str) -> Iterator[RawValue]:
    """Walk a document known to be sound, one statement at a time, to learn each one's line."""
    table = ""
    for started, statement in _split_statements(text):
        for key, value in _flatten(tomllib.loads(statement)):
            if _TABLE.match(statement):
                table = key
                # An empty table, or for [[…]] a list with one in it, which no setting is.
                yield RawValue(key=key, value=value, origin=f"{name}:{started}", typed=True)
            else:
                dotted = f"{table}.{key}" if table else key
                yield RawValue(key=dotted, value=value, origin=f"{name}:{started}", typed=True)


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement and its first line's number; a value may go over many lines."""
    lines: list[str] = []
    depth, quote = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        lines.append(line)
        depth, quote = _scan_line(line, depth, quote)
        if not depth and not quote:
            yield number - len(lines) + 1, "\n".join(lines)
            lines = []


def _scan_line(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Return how many brackets are open after a line, and the quotes of a text that goes on."""
    at = 0
    while found := (_QUOTE_ENDS[quote] if quote else _TOKEN).search(line, at):
        at, token = found.end(), found[0]
        if quote:
            quote = quote if token.startswith("\\") else ""
        elif token in _QUOTE_ENDS:
            quote = token
        else:
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
    return depth, quote


def _flatten(parsed: Mapping[str, Any], *, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in parsed.items():
        dotted = f"{above}.{key}" if above else key
        if isinstance(value, dict) and value:
            yield from _flatten(value, above=dotted)
        else:
            yield dotted, value
