"""Facts that have a form: company numbers, postal codes, years, numbers of employees.

Each function returns a text in its one form, or None when it is no such thing. Singapore's forms
are known here; that a fact is true is not.
"""

from __future__ import annotations

import re

_YEAR = re.compile(r"(?<![0-9])(1[89][0-9]{2}|20[0-9]{2})(?![0-9])")

_POSTAL = re.compile(r"(?<![0-9])([0-9]{6})(?![0-9])")

_COUNT = r"([0-9]{1,3}(?:[, ][0-9]{3}){1,2}|[0-9]{1,7})"

_RANGE = re.compile(rf"^\D{{0,20}}{_COUNT}(?:\s*(?:-|–|—|to|and)\s*{_COUNT})?\s*(\+?)")

_SPACES = re.compile(r"[\s,]")

MAX_EMPLOYEES = 3_000_000

_SECTORS = range(1, 84)  # the first two digits of a postal code


def parse_uen(text: str) -> str | None:
    """Return a company's number in the register, when it has the form of one and its check letter.

    Some real numbers of funds are not accepted; a number we cannot check is no number.
    """
    from stdnum.sg import uen

    bare = re.sub(r"[\s-]", "", text[:40]).upper().removeprefix("UEN").lstrip(":.")
    return str(uen.compact(bare)) if bare.isascii() and uen.is_valid(bare) else None


def parse_postal_code(text: str) -> str | None:
    """Return six digits that are a place in Singapore."""
    found = _POSTAL.search(text[:100])
    return found[1] if found is not None and int(found[1][:2]) in _SECTORS else None


def parse_founding_year(text: str) -> str | None:
    """Return the year a date or a phrase speaks of."""
    found = _YEAR.search(text[:100])
    return found[1] if found is not None else None


def parse_employee_range(text: str) -> str | None:
    """Return how many people, as a number or as two joined by a hyphen."""
    found = _RANGE.match(text[:60].strip())
    if found is None:
        return None
    low = int(_SPACES.sub("", found[1]))
    high = int(_SPACES.sub("", found[2])) if found[2] else low
    if not 0 < low <= high <= MAX_EMPLOYEES:
        return None
    return str(low) if low == high else f"{low}-{high}"
