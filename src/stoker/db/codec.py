"""What every store can keep, letter for letter; the rest is refused before anything is written.

Each function returns a value as a store gives it back: moments in UTC, JSON as JSON has it.
PermanentError says that a text or a JSON value cannot be kept, ConfigError that a moment has no
time zone. All stores ask here, so they refuse the same things.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import MAX_TEXT_LENGTH, Json, is_storable

MAX_NAME_LENGTH = 500  # characters; keys of every database can be this long

MAX_KEY_BYTES = 500


def validate_text(text: str, *, what: str) -> str:
    """Return the text, which every store would keep as it is."""
    if not is_storable(text):
        raise PermanentError(
            f"{what} cannot be kept: it has a NUL or half a surrogate pair in it, or is longer "
            f"than {MAX_TEXT_LENGTH} characters; clean it first, nothing was written"
        )
    return text


def validate_name(text: str, *, what: str) -> str:
    """Return a name that every store can keep, and find again by."""
    if len(validate_text(text, what=what)) > MAX_NAME_LENGTH:
        raise PermanentError(
            f"{what} is longer than {MAX_NAME_LENGTH} characters; shorten it, nothing was written"
        )
    return text


def validate_key(text: str, *, what: str) -> str:
    """Return a name that rows are found by in every database; there must be one."""
    if not text:
        raise PermanentError(f"{what} is empty; give it one, nothing was written")
    if len(validate_text(text, what=what).encode()) > MAX_KEY_BYTES:
        raise PermanentError(
            f"{what} is longer than {MAX_KEY_BYTES} bytes; shorten it, nothing was written"
        )
    return text


def validate_owner(owner: str) -> str:
    """Return the owner's name. Raises ConfigError when it is empty."""
    if not owner:
        raise ConfigError("a lease needs an owner's name; nothing was written")
    return validate_name(owner, what="an owner")


def validate_json(value: Json, *, what: str) -> Any:
    """Return the value as it comes back from JSON: lists for tuples, text for keys."""
    try:
        plain = json.loads(compact_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentError(
            f"{what} cannot be written as JSON ({error}); nothing was written"
        ) from error
    for text in _iter_texts(plain):
        validate_text(text, what=what)
    return plain


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item)
