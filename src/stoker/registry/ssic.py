"""Industries: which codes a word for an industry means, and whose code falls under them.

Codes are matched by how they begin, because both editions of the classification share most of
them. The words are our own and speak of whole divisions, two digits each; a full classification
with its titles is read from a file that a person has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import clean_text
from stoker.registry.model import IndustryCode

VERSIONS = ("2020", "2025")
_LEVELS = {1: "section", 2: "division", 3: "group", 4: "class", 5: "subclass"}

_SECTIONS_2020 = {
    "A": (1, 3),
    "B": (5, 9),
    "C": (10, 33),
    "D": (35, 35),
    "E": (36, 39),
    "F": (41, 43),
    "G": (45, 47),
    "H": (49, 53),
    "I": (55, 56),
    "J": (58, 63),
    "K": (64, 66),
    "L": (68, 68),
    "M": (69, 75),
    "N": (77, 82),
    "O": (84, 84),
    "P": (85, 85),
    "Q": (86, 88),
    "R": (90, 93),
    "S": (94, 96),
    "T": (97, 98),
    "U": (99, 99),
}

# The later edition cuts information and communication in two; all after it move on by a letter.
_SECTIONS_2025 = {
    **{letter: _SECTIONS_2020[letter] for letter in "ABCDEFGHI"},
    "J": (58, 60),
    "K": (61, 63),
    **{chr(ord(letter) + 1): _SECTIONS_2020[letter] for letter in "KLMNOPQRSTU"},
}

SECTIONS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "2020": _SECTIONS_2020,
    "2025": _SECTIONS_2025,
}

INDUSTRIES: Mapping[str, tuple[str, ...]] = {
    "technology": ("58", "61", "62", "63"),
    "software": ("58", "62"),
    "it services": ("62", "63"),
    "telecoms": ("61",),
    "media": ("58", "59", "60"),
    "farming": ("01", "02", "03"),
    "mining": ("05", "06", "07", "08", "09"),
    "manufacturing": tuple(f"{number:02d}" for number in range(10, 34)),
    "food production": ("10", "11"),
    "chemicals": ("19", "20", "21"),
    "pharma": ("21",),
    "electronics": ("26", "27"),
    "machinery": ("28",),
    "vehicles": ("29", "30"),
    "energy": ("35",),
    "water and waste": ("36", "37", "38", "39"),
    "construction": ("41", "42", "43"),
    "trade": ("45", "46", "47"),
    "wholesale": ("46",),
    "retail": ("47",),
    "transport": ("49", "50", "51"),
    "logistics": ("49", "50", "51", "52", "53"),
    "shipping": ("50",),
    "hotels": ("55",),
    "restaurants": ("56",),
    "hospitality": ("55", "56"),
    "finance": ("64", "65", "66"),
    "banking": ("64",),
    "insurance": ("65",),
    "property": ("68",),
    "professional services": ("69", "70", "71", "72", "73", "74"),
    "legal and accounting": ("69",),
    "consulting": ("70",),
    "engineering": ("71",),
    "research": ("72",),
    "marketing": ("73",),
    "staffing": ("78",),
    "travel": ("79",),
    "security": ("80",),
    "business support": ("77", "78", "79", "80", "81", "82"),
    "government": ("84",),
    "education": ("85",),
    "healthcare": ("86", "87", "88"),
    "arts and leisure": ("90", "91", "92", "93"),
    "associations": ("94",),
    "personal services": ("95", "96"),
}

_NO_BANKS = ("642", "643", "649")  # holdings, funds and others of the division of banks

_CODE = re.compile(r"[0-9]{1,5}")
_MAX_TITLE_LENGTH = 500


def list_prefixes(wanted: str, *, version: str = "2020") -> tuple[str, ...]:
    """Return how the codes begin that are meant: by a code, a section's letter or a word.

    Raises ConfigError for a word that is none of ours, naming what comes near, and for digits that
    no edition's codes begin with.
    """
    name = " ".join(wanted.split()).casefold()
    if _CODE.fullmatch(name):
        if len(name) > 1 and not any(find_section(name, version=each) for each in VERSIONS):
            raise ConfigError(
                f"no industry's code begins with {name[:2]}; stoker registry ssic show INDUSTRY "
                "lists the codes of a word"
            )
        return (name,)
    if name.upper() in (sections := SECTIONS[_validate_version(version)]):
        first, last = sections[name.upper()]
        return tuple(f"{number:02d}" for number in range(first, last + 1))
    if name not in INDUSTRIES:
        from difflib import get_close_matches

        near = get_close_matches(name, INDUSTRIES, n=3) or sorted(INDUSTRIES)
        raise ConfigError(
            f"{wanted[:60]!r} is not a known industry; give digits of its code, a section's "
            f"letter, or a word such as {', '.join(near[:6])}"
        )
    return INDUSTRIES[name]


def find_industry_word(code: str) -> str:
    """Return our most exact word for an industry's code, or an empty text."""
    if code.startswith(_NO_BANKS):
        return "finance"
    meant = [word for word, divisions in INDUSTRIES.items() if code[:2] in divisions]
    return min(meant, key=lambda word: len(INDUSTRIES[word]), default="")


def has_prefix(code: str, wanted: Sequence[str]) -> bool:
    """Say whether an industry's code begins with one of these; with none of them, any does."""
    return code.startswith(tuple(wanted)) if wanted else True


def find_section(code: str, *, version: str = "2020") -> str:
    """Return the letter of the section that a code is in, or nothing."""
    if not _CODE.fullmatch(code) or len(code) < 2:
        return ""
    division = int(code[:2])
    sections = SECTIONS[_validate_version(version)].items()
    return next((letter for letter, (a, b) in sections if a <= division <= b), "")


class CodeColumns:
    """Where a classification's file has its codes and titles."""

    def __init__(self, header: Sequence[str], *, version: str) -> None:
        """Raises PermanentError when the first line names no code or no title."""
        names = [cell.strip().casefold() for cell in header]
        self._version = version
        self._title = _find_column(names, ("title", "description"))
        codes = [name if place != self._title else "" for place, name in enumerate(names)]
        self._code = _find_column(codes, ("code", "ssic"))
        if self._title is None or self._code is None:
            raise PermanentError(
                "this is no classification: its first line names no column for the code and one "
                "for the title; give a CSV file with code,title"
            )

    def parse_row(self, cells: Sequence[str]) -> IndustryCode | str:
        """Return the industry in a row, or in a few words why there is none."""
        if self._code is None or self._title is None or len(cells) <= max(self._code, self._title):
            return "it has too few cells"
        code, title = cells[self._code].strip().upper(), clean_text(cells[self._title]).strip()
        if not _CODE.fullmatch(code) and not re.fullmatch("[A-Z]", code):
            return "its code is neither digits nor a section's letter"
        if _CODE.fullmatch(code) and len(code) == 1:
            return "its code lost its leading zero, or is none"
        if not title or len(title) > _MAX_TITLE_LENGTH:
            return "it has no usable title"
        level = _LEVELS[len(code)]
        return IndustryCode(version=self._version, code=code, title=title, level=level)


def _find_column(names: Sequence[str], words: Sequence[str]) -> int | None:
    places = (place for place, name in enumerate(names) if any(word in name for word in words))
    return next(places, None)


def _validate_version(version: str) -> str:
    if version not in SECTIONS:
        raise ConfigError(f"there is no edition {version[:20]!r}; there are {', '.join(VERSIONS)}")
    return version
