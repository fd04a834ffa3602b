"""Which company a number or an address belongs to, worked out instead of looked up.

A company's place in the world is written into its UEN and its domain, so that a world of a
million needs no list. UENs carry the check letter the real ones carry.
"""

from __future__ import annotations

import re

# How many of every round of companies were registered in each year: few long ago, many lately.
_PER_YEAR = {
    year: 1 if year < 1990 else 2 if year < 2000 else 4 if year < 2010 else 8 if year < 2020 else 11
    for year in range(1965, 2026)
}
_SLOTS = tuple((year, rank) for year, many in _PER_YEAR.items() for rank in range(many))
_ROUND = len(_SLOTS)
_STRIDE = 97  # shares no divisor with a round, so a round visits every slot once
_BACK = pow(_STRIDE, -1, _ROUND)
_SLOT_OF = {slot: nth for nth, slot in enumerate(_SLOTS)}
_BRANCH_EVERY, _BRANCH_AT = 160, 41  # which of them are branches of foreign companies
_BRANCH_YEARS = range(2001, 2026)

MOST = min(99_999 // max(_PER_YEAR.values()) * _ROUND, 9_999 * len(_BRANCH_YEARS) * _BRANCH_EVERY)
"""The largest world whose numbers fit into UENs."""

# What check letters are made from: weights, letters, and for branches the order of characters.
_COMPANY_WEIGHTS, _COMPANY_LETTERS = (10, 8, 6, 4, 9, 7, 5, 3, 1), "ZKCMDNERGWH"
_OTHER_WEIGHTS, _OTHER_ORDER = (4, 3, 5, 3, 10, 2, 2, 5, 7), "ABCDEFGHJKLMNPQRSTUVWX0123456789"

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UEN = re.compile(r"(?:[0-9]{9}|T[0-9]{2}FC[0-9]{4})[A-Z0-9]", re.ASCII)
_SLUG = re.compile(r"[a-z0-9-]{0,250}?-([0-9a-z]{2,6})", re.ASCII)


def is_branch(index: int) -> bool:
    """Say whether this one is a branch of a foreign company."""
    return index % _BRANCH_EVERY == _BRANCH_AT


def year_of(index: int, *, turn: int) -> int:
    """Return the year in which this one was registered."""
    if is_branch(index):
        return _BRANCH_YEARS[index // _BRANCH_EVERY % len(_BRANCH_YEARS)]
    return _SLOTS[(index * _STRIDE + turn) % _ROUND][0]


def uen_of(index: int, *, turn: int) -> str:
    """Return the UEN of the company in this place; worlds differ by their turn."""
    if is_branch(index):
        nth = index // _BRANCH_EVERY
        year, serial = year_of(index, turn=turn), nth // len(_BRANCH_YEARS) + 1
        number = f"T{year % 100:02d}FC{serial:04d}"
        return number + _other_letter(number)
    year, rank = _SLOTS[(index * _STRIDE + turn) % _ROUND]
    number = f"{year}{index // _ROUND * _PER_YEAR[year] + rank + 1:05d}"
    return number + _company_letter(number)


def index_of_uen(uen: str, *, turn: int) -> int | None:
    """Return the place a UEN speaks of; None when it cannot be one of ours."""
    if not _UEN.fullmatch(uen):
        return None
    if uen.startswith("T"):
        nth = (int(uen[5:9]) - 1) * len(_BRANCH_YEARS) + int(uen[1:3]) - 1
        index = nth * _BRANCH_EVERY + _BRANCH_AT
    elif many := _PER_YEAR.get(int(uen[:4])):
        before, rank = divmod(int(uen[4:9]) - 1, many)
        slot = _SLOT_OF[int(uen[:4]), rank]
        index = before * _ROUND + (slot - turn) * _BACK % _ROUND
    else:
        return None
    return index if index >= 0 and uen_of(index, turn=turn) == uen else None


def _company_letter(number: str) -> str:
    weighed = sum(
        int(digit) * weight for digit, weight in zip(number, _COMPANY_WEIGHTS, strict=True)
    )
    return _COMPANY_LETTERS[weighed % 11]


def _other_letter(number: str) -> str:
    places = map(_OTHER_ORDER.index, number)
    weighed = sum(place * weight for place, weight in zip(places, _OTHER_WEIGHTS, strict=True))
    return _OTHER_ORDER[(weighed - 5) % 11]


def tail_of(index: int) -> str:
    """Return the place as it stands at the end of a domain's first label."""
    text = ""
    while index or len(text) < 2:
        index, digit = divmod(index, 36)
        text = _DIGITS[digit] + text
    return text


def index_of_slug(slug: str) -> int | None:
    """Return the place a domain's first label speaks of, if it does."""
    match = _SLUG.fullmatch(slug)
    return int(match[1], 36) if match else None
