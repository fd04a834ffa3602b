"""JSON from strangers, read at the edge: whole, bounded, clean, or not at all.

Every store can keep what comes out. Each connector knows what the fields mean.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import Json, clean_text

MAX_DEPTH = 64  # objects and lists inside each other
MAX_VALUES = 500_000  # in one answer; each takes far more memory than its bytes
MAX_DIGITS = 40


def parse_json(body: bytes, *, max_values: int = MAX_VALUES) -> Json:
    """Return the JSON value in a body; texts are cleaned as `clean_text` does.

    Raises PermanentError for anything that is not one JSON value in UTF-8 without surprises: keys
    given twice, NaN, infinite or endless numbers, too deep, too many.
    """
    check_value_count(body, max_values)
    try:
        text = body.decode("utf-8-sig")
        return _clean(_DECODER.decode(text), MAX_DEPTH)
    except RecursionError as error:
        raise PermanentError("the answer is too deep") from error
    except ValueError as error:  # also what the decoder and the hooks below raise
        raise PermanentError("the answer is not JSON as it should be") from error


def check_value_count(body: bytes, max_values: int = MAX_VALUES) -> None:
    """Raise PermanentError if a body may have more values than that; it is not parsed for it."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > max_values:
        raise PermanentError(f"the answer has more than {max_values} values")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is given twice")
    return made


def _parse_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def _parse_number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("a number is infinite")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_int=_parse_integer,
    parse_float=_parse_number,
    parse_constant=_refuse_constant,
)


def _clean(value: Any, deeper: int) -> Json:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict | list):
        if not deeper:
            raise ValueError("the answer is too deep")
        if isinstance(value, list):
            return [_clean(each, deeper - 1) for each in value]
        return _build_object(
            [(clean_text(key), _clean(each, deeper - 1)) for key, each in value.items()]
        )
    return value  # type: ignore[no-any-return]  # a number, true, false or null
