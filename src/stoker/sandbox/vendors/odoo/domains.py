"""Search domains: terms `[field, operator, value]`, joined by `&`, `|` and `!` before them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Lookup = Callable[[str], Any]
Test = Callable[[Lookup], bool]
MAX_DOMAIN_TERMS = 2_000  # terms; a real server gives up on far fewer
_ARITY = {"&": 2, "|": 2, "!": 1}


def parse_domain(domain: Sequence[Any]) -> Test:
    """Return a test for records; a domain that makes no sense is a ValueError, as in Odoo."""
    if len(domain) > MAX_DOMAIN_TERMS:
        raise ValueError("domain too long")
    stack: list[Test] = []
    for part in reversed(domain):
        arity = _ARITY.get(part) if isinstance(part, str) else None
        if arity is None:
            stack.append(_parse_term(part))
            continue
        if len(stack) < arity:
            raise ValueError(f"Domain {list(domain)!r} is invalid"[:200])
        stack.append(_join_tests(part, [stack.pop() for _ in range(arity)]))
    return lambda look: all(test(look) for test in stack)


def is_plain(domain: Sequence[Any]) -> bool:
    """Return whether a domain is a list of terms that must all hold."""
    return all(isinstance(term, list | tuple) and len(term) == 3 for term in domain)


def list_fields(domain: Sequence[Any]) -> list[str]:
    """Return the fields that a domain names, without what follows a point."""
    terms = [term for term in domain if isinstance(term, list | tuple) and len(term) == 3]
    return [term[0].split(".")[0] for term in terms if isinstance(term[0], str)]


def to_words(wanted: Any) -> frozenset[str]:
    """Return what a list of plain words names; nothing when it is anything else."""
    if isinstance(wanted, list | tuple) and all(isinstance(one, str) and one for one in wanted):
        return frozenset(wanted)
    return frozenset()


def _join_tests(operator: str, tests: Sequence[Test]) -> Test:
    if operator == "!":
        return lambda look: not tests[0](look)
    if operator == "|":
        return lambda look: any(test(look) for test in tests)
    return lambda look: all(test(look) for test in tests)


def _parse_term(part: Any) -> Test:
    if not isinstance(part, list | tuple) or len(part) != 3 or not isinstance(part[0], str):
        raise ValueError(f"Invalid item in domain: {part!r}")
    field, operator, wanted = part
    compare = _OPERATORS.get(operator) if isinstance(operator, str) else None
    if compare is None:
        raise ValueError(f"Invalid operator in domain term {part!r}")
    if operator == "in" and (words := to_words(wanted)):
        return lambda look: _matches_words(look(field), words)
    return lambda look: compare(look(field), wanted)


def _matches_words(value: Any, words: frozenset[str]) -> bool:
    return not words.isdisjoint(value) if isinstance(value, tuple) else value in words


def _is_equal(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return _is_among(value, wanted)
    if isinstance(value, tuple):
        return wanted in value if wanted else not value
    if wanted in (False, None):
        return value in (False, None, "")
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _is_among(value: Any, wanted: Any) -> bool:
    return any(_is_equal(value, one) for one in _to_list(wanted))


def _to_list(wanted: Any) -> Sequence[Any]:
    return wanted if isinstance(wanted, list | tuple) else [wanted]


def _is_greater(value: Any, wanted: Any) -> bool:
    try:
        return value not in (False, None) and bool(value > wanted)
    except TypeError:
        return False


def _is_like(value: Any, wanted: Any) -> bool:
    """Compare as `ilike` does: anywhere in the text, in any case, with % and _ as in SQL."""
    return bool(value) and _to_pattern(wanted).search(str(value)) is not None


def _is_exactly_like(value: Any, wanted: Any) -> bool:
    return bool(value) and _to_pattern(wanted).fullmatch(str(value)) is not None


def _to_pattern(wanted: Any) -> re.Pattern[str]:
    pieces = {"%": ".*", "_": "."}
    text = "".join(pieces.get(letter) or re.escape(letter) for letter in str(wanted))
    return re.compile(text, re.IGNORECASE | re.DOTALL)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {  # those our connector and its tests use
    "=": _is_equal,
    "!=": lambda value, wanted: not _is_equal(value, wanted),
    "in": _is_among,
    "not in": lambda value, wanted: not _is_among(value, wanted),
    ">": _is_greater,
    ">=": lambda value, wanted: value == wanted or _is_greater(value, wanted),
    "<": lambda value, wanted: not (value == wanted or _is_greater(value, wanted)),
    "ilike": _is_like,
    "not ilike": lambda value, wanted: not _is_like(value, wanted),
    "=ilike": _is_exactly_like,
}
