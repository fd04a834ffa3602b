"""Canonical JSON text and its digest, and lenient reading of fields from foreign JSON.

A field of the wrong type counts as absent; nothing here raises for what the JSON holds. The
caller decides which fields are required.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from math import ceil, isfinite

from stoker.base.types import Json, clean_text

# Made once: making an encoder costs about as much as a small value takes to encode.
_COMPACT_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)


def compact_json(value: Json) -> str:
    """Return the one way we write JSON down: sorted keys, no spaces, ASCII, no NaN."""
    return _COMPACT_ENCODER.encode(value)


def compute_digest(value: Json, *, length: int = 64) -> str:
    """Return the first hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(compact_json(value).encode()).hexdigest()[:length]


def map_strings(value: Json, change: Callable[[str], str]) -> Json:
    """Return a JSON value with every text in it changed, keys of objects included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_strings(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): map_strings(each, change) for name, each in value.items()}
    return value


def get_object(data: Json, name: str = "") -> Mapping[str, Json]:
    """Return the object under a name, or the data itself without one; empty when it is none."""
    found = get_object(data).get(name) if name else data
    return found if isinstance(found, Mapping) else {}


def get_list(data: Json, name: str, *, most: int) -> list[Json]:
    """Return the first values of the list under a name; empty when it is none."""
    found = get_object(data).get(name)
    return list(found[:most]) if isinstance(found, list | tuple) else []


def has_list(data: Json, name: str) -> bool:
    """Return whether there is a list under a name, be it empty."""
    return isinstance(get_object(data).get(name), list | tuple)


def get_line(data: Json, name: str, *, longest: int = 300) -> str:
    """Return the text under a name on one line, cleaned and cut; empty when it is none."""
    return " ".join(get_text(data, name, longest=longest).split())


def get_text(data: Json, name: str, *, longest: int) -> str:
    """Return the text under a name with its lines as they are, cleaned and cut."""
    found = get_object(data).get(name)
    return clean_text(found[:longest]) if isinstance(found, str) else ""


def get_count(data: Json, name: str) -> int | None:
    """Return the number under a name, rounded up; None when there is none that counts something.

    A number written as a text counts too; some vendors write theirs so.
    """
    found = get_object(data).get(name)
    if isinstance(found, str) and len(found) <= 20:
        try:
            found = float(found)
        except ValueError:
            return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        return None
    return ceil(found) if found >= 0 else None
