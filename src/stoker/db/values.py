"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.base.errors import PermanentError
from stoker.base.types import MAX_TEXT_LENGTH
from stoker.db.codec import validate_text

MAX_KEY_BYTES = 500  # bytes, of a name that rows are found by

_MAX_INT64 = 2**63 - 1


def validate_key(text: str, *, what: str, longest: int = MAX_KEY_BYTES) -> str:
    """Return a name that every store can keep, and find again by; there must be one."""
    if not text:
        raise PermanentError(f"{what} is empty; give it one, nothing was written")
    if len(validate_text(text, what=what).encode()) > longest:
        raise PermanentError(
            f"{what} is longer than {longest} bytes; shorten it, nothing was written"
        )
    return text


def validate_texts(texts: Iterable[str], *, what: str) -> None:
    """Refuse texts of which some store could not keep one."""
    # One look at all of them together: this runs once for each of a million rows.
    together = "".join(texts := list(texts))
    if len(together) > MAX_TEXT_LENGTH or not together.isascii() or "\0" in together:
        for text in texts:
            validate_text(text, what=what)


def validate_int64(number: int, *, what: str) -> None:
    """Refuse a number that some store could not keep."""
    if not -_MAX_INT64 <= number <= _MAX_INT64:
        raise PermanentError(f"{what} is too large a number to be kept; nothing was written")
