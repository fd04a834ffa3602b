"""Parse company numbers, postal codes, years and numbers of employees.

Each function returns the value in its one form, or None. The forms are Singapore's.
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
    """Return a registration number if it has the form of one and a valid check letter.

    Some real numbers of funds are not accepted; a number that cannot be checked is none.
    """
    from stdnum.sg import uen

    bare = re.sub(r"[\s-]", "", text[:40]).upper().removeprefix("UEN").lstrip(":.")
    return str(uen.compact(bare)) if bare.isascii() and uen.is_valid(bare) else None


def parse_postal_code(text: str) -> str | None:
    found = _POSTAL.search(text[:100])
    return found[1] if found is not None and int(found[1][:2]) in _SECTORS else None


def parse_founding_year(text: str) -> str | None:
    found = _YEAR.search(text[:100])
    return found[1] if found is not None else None


def parse_employee_range(text: str) -> str | None:
    """Return a number of employees, or two joined by a hyphen."""
    found = _RANGE.match(text[:60].strip())
    if found is None:
        return None
    low = int(_SPACES.sub("", found[1]))
    high = int(_SPACES.sub("", found[2])) if found[2] else low
    if not 0 < low <= high <= MAX_EMPLOYEES:
        return None
    return str(low) if low == high else f"{low}-{high}"
