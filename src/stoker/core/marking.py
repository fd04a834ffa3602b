"""What a word about a touch changes, given what was said of it before.

A touch that was made stays made: it was counted. Any other outcome gives way to a later word, as
when a touch failed in the morning and was made in the afternoon.
"""

from __future__ import annotations

from stoker.core.coverage.values import Marked, Outcome
from stoker.errors import PermanentError


def is_news(known: Outcome | None, marked: Marked) -> bool:
    """Say whether an outcome changes what is known; saying the same again does not.

    Raises PermanentError when the touch was made and somebody says that it was not.
    """
    if known is Outcome.DONE and marked.outcome is not Outcome.DONE:
        raise PermanentError(
            f"the touch of {marked.url} on {marked.day} was made and counted, so it cannot be "
            f"{marked.outcome} any more; nothing was changed"
        )
    return marked.outcome is not known


def outcome_named(text: str) -> Outcome:
    """Return the outcome of that name. Raises PermanentError naming those there are."""
    try:
        return Outcome(text.strip().lower())
    except ValueError:
        known = ", ".join(Outcome)
        raise PermanentError(
            f"{text[:40]!r} is no outcome; say one of {known}, nothing was changed"
        ) from None
