"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.base.errors import PermanentError
from stoker.base.types import LONGEST_TEXT
from stoker.db.codec import kept_text

LONGEST_NAME = 500  # bytes, of a name that rows are found by

_LARGEST = 2**63 - 1


def kept_name(text: str, *, what: str, longest: int = LONGEST_NAME) -> str:
    """Return a name that every store can keep, and find again by; there must be one."""
    if not text:
        raise PermanentError(f"{what} is empty; give it one, nothing was written")
    if len(kept_text(text, what=what).encode()) > longest:
        raise PermanentError(
            f"{what} is longer than {longest} bytes; shorten it, nothing was written"
        )
    return text


def kept_texts(texts: Iterable[str], *, what: str) -> None:
    """Refuse texts of which some store could not keep one."""
    # One look at all of them together: this runs once for each of a million rows.
    together = "".join(texts := list(texts))
    if len(together) > LONGEST_TEXT or not together.isascii() or "\0" in together:
        for text in texts:
            kept_text(text, what=what)


def kept_whole(number: int, *, what: str) -> None:
    """Refuse a number that some store could not keep."""
    if not -_LARGEST <= number <= _LARGEST:
        raise PermanentError(f"{what} is too large a number to be kept; nothing was written")
