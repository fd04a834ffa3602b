"""What an entity's number, a file's name and a release look like.

A number that is odd is a doubt and no more: new kinds of entities come with new numbers. A part of
the register is believed only under the name its publisher gives it, because what is missing from
all parts together counts as gone.
"""

from __future__ import annotations

import re
from datetime import date

from stdnum.sg import uen as numbers

from stoker.core.entities import PARTS
from stoker.errors import ConfigError

_BUSINESS = re.compile(r"[0-9]{8}[A-Z]")
_COMPANY = re.compile(r"[0-9]{9}[A-Z]")
_OTHER = re.compile(r"[RST][0-9]{2}([A-HJ-NP-X]{2})[0-9]{4}[A-Z]")
_PART = re.compile(
    r"(?:.{0,200}[^a-z])?acra ?information ?on ?corporate ?entities[^a-z0-9]{0,50}"
    r"(?P<part>[a-z]|others)(?:[^a-z].{0,300})?",
    re.IGNORECASE,
)
_DATE = re.compile(r"(?<![0-9])(20[0-9]{2})-?(0[1-9]|1[0-2])-?([0-2][0-9]|3[01])(?![0-9])")


def doubtful_number(uen: str) -> str:
    """Return what is odd about an entity's number, or nothing.

    The year in it is not looked at: only a clock could say which years are too late.
    """
    if _BUSINESS.fullmatch(uen):
        wanted = numbers.calc_business_check_digit(uen[:-1])
    elif _COMPANY.fullmatch(uen):
        wanted = numbers.calc_local_company_check_digit(uen[:-1])
    elif found := _OTHER.fullmatch(uen):
        if found[1] not in numbers.OTHER_UEN_ENTITY_TYPES:
            return "number of a kind not known"
        wanted = numbers.calc_other_check_digit(uen[:-1])
    else:
        return "number of a shape not known"
    return "" if uen[-1] == wanted else "number whose check letter is wrong"


def part_named(name: str) -> str | None:
    """Return the part of the register that a published name tells: A to Z, Others, or None."""
    found = _PART.fullmatch(name[:300])
    return known_part(found["part"]) if found else None


def known_part(text: str) -> str | None:
    """Return the part of the register meant, however it is cased; None when there is none such."""
    wanted = text.strip().casefold()
    return next((part for part in PARTS if part.casefold() == wanted), None)


def release_named(name: str) -> str | None:
    """Return the release that a date in a file's name tells, e.g. 2025-12-31; None without one."""
    found = _DATE.search(name[-300:])
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).isoformat() if found else None
    except ValueError:
        return None


def release_of(text: str) -> str:
    """Return a release as told by a person: a date, so that a later one sorts later."""
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise ConfigError(f"{text[:40]!r} is no release; give its date, e.g. 2025-12-31") from None
