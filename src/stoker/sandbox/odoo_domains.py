"""Which records a search domain means: Odoo's prefix logic over [field, operator, value] terms.

It is told how to look a value up; where records are kept is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Lookup = Callable[[str], Any]
Test = Callable[[Lookup], bool]
LONGEST_DOMAIN = 2_000  # terms; a real server gives up on far fewer


def matching(domain: Sequence[Any]) -> Test:
    """Return a test for records; a domain that makes no sense is a ValueError, as in Odoo."""
    if len(domain) > LONGEST_DOMAIN:
        raise ValueError("domain too long")
    waiting: list[Test] = []
    for part in reversed(domain):
        if part in ("&", "|"):
            if len(waiting) < 2:
                raise ValueError(f"Domain {domain!r} is missing a term")
            left, right = waiting.pop(), waiting.pop()
            waiting.append(_joined(left, right, both=part == "&"))
        elif part == "!":
            if not waiting:
                raise ValueError(f"Domain {domain!r} is missing a term")
            waiting.append(_negated(waiting.pop()))
        else:
            waiting.append(_term(part))
    return lambda look: all(test(look) for test in waiting)


def _joined(left: Test, right: Test, *, both: bool) -> Test:
    if both:
        return lambda look: left(look) and right(look)
    return lambda look: left(look) or right(look)


def _negated(test: Test) -> Test:
    return lambda look: not test(look)


def _term(part: Any) -> Test:
    if not isinstance(part, list | tuple) or len(part) != 3 or not isinstance(part[0], str):
        raise ValueError(f"Invalid item in domain: {part!r}")
    field, operator, wanted = part
    compare = _OPERATORS.get(operator) if isinstance(operator, str) else None
    if compare is None:
        raise ValueError(f"Invalid operator in domain term {part!r}")
    if operator == "in" and (words := words_in(wanted)):
        return lambda look: _among_words(look(field), words)
    return lambda look: compare(look(field), wanted)


def words_in(wanted: Any) -> frozenset[str]:
    """Return what a list of plain words names; nothing when it is anything else."""
    if isinstance(wanted, list | tuple) and all(isinstance(one, str) and one for one in wanted):
        return frozenset(wanted)
    return frozenset()


def _among_words(value: Any, words: frozenset[str]) -> bool:
    return not words.isdisjoint(value) if isinstance(value, tuple) else value in words


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return _among(value, wanted)
    if isinstance(value, tuple):
        return wanted in value if wanted else not value
    if wanted in (False, None):
        return value in (False, None, "")
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _among(value: Any, wanted: Any) -> bool:
    return any(_equal(value, one) for one in _listed(wanted))


def _listed(wanted: Any) -> Sequence[Any]:
    return wanted if isinstance(wanted, list | tuple) else [wanted]


def _like(value: Any, wanted: Any, *, case: bool, whole: bool) -> bool:
    if not isinstance(value, str) or not isinstance(wanted, str):
        return False
    pieces = re.split("([%_])", wanted)
    pattern = "".join({"%": ".*", "_": "."}.get(piece, re.escape(piece)) for piece in pieces)
    flags = re.DOTALL if case else re.DOTALL | re.IGNORECASE
    found = re.fullmatch if whole else re.search
    return found(pattern, value, flags) is not None


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, wanted: Any) -> bool:
        try:
            return value not in (False, None) and compare(value, wanted)
        except TypeError:
            return False

    return test


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": _equal,
    "!=": lambda value, wanted: not _equal(value, wanted),
    "in": _among,
    "not in": lambda value, wanted: not _among(value, wanted),
    "like": lambda value, wanted: _like(value, wanted, case=True, whole=False),
    "ilike": lambda value, wanted: _like(value, wanted, case=False, whole=False),
    "not ilike": lambda value, wanted: not _like(value, wanted, case=False, whole=False),
    "=like": lambda value, wanted: _like(value, wanted, case=True, whole=True),
    "=ilike": lambda value, wanted: _like(value, wanted, case=False, whole=True),
    "<": _ordered(lambda value, wanted: bool(value < wanted)),
    "<=": _ordered(lambda value, wanted: bool(value <= wanted)),
    ">": _ordered(lambda value, wanted: bool(value > wanted)),
    ">=": _ordered(lambda value, wanted: bool(value >= wanted)),
}
