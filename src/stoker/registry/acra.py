"""One row of ACRA's register file, read as an entity, or why it cannot be.

A number, a name, a kind and a status are needed; anything else that makes no sense is left out of
the entity, stays in `raw` and is counted as a doubt. Where rows come from is not known here, nor
what an entity is wanted for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256

from stdnum.sg import uen as numbers

from stoker.base.errors import PermanentError
from stoker.base.types import clean_text
from stoker.files.tables import MAX_COLUMNS, normalize_column
from stoker.registry.model import Entity

EMPTY_VALUE = "na"  # what the register writes where there is nothing; a name may well be NA
MAX_CELL_LENGTH = 5_000  # characters; the longest real one, an activity, has some hundred

# A file without the industry or a date column would empty it for every company.
REQUIRED_COLUMNS = (
    "uen",
    "entity_name",
    "entity_type_description",
    "entity_status_description",
    "registration_incorporation_date",
    "primary_ssic_code",
)

UNKNOWN_STATUS = "status not known, taken as closed"

_FORMER = re.compile(r"former_entity_name([0-9]{1,3})")
_UEN = re.compile(r"[A-Z0-9]{8,12}")
_BUSINESS = re.compile(r"[0-9]{8}[A-Z]")
_COMPANY = re.compile(r"[0-9]{9}[A-Z]")
_OTHER = re.compile(r"[RST][0-9]{2}([A-HJ-NP-X]{2})[0-9]{4}[A-Z]")
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ].*)?")

_CLOSED = (
    "struck off",
    "gazetted to be struck off",
    "dissolved",
    "in liquidation",
    "in receivership",
    "amalgamated",
    "converted",
    "terminated",
    "cancelled",
    "ceased",
    "expired",
    "deregistered",
    "withdrawn",
    "void",
)


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that is no entity, by its line in the file; `text` is what stands there, cut."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """An entity as read, and what about its row makes no sense."""

    entity: Entity
    doubts: tuple[str, ...] = ()


RegisterRow = ParsedRow | RejectedRow


class AcraColumns:
    """Where each column of a file is. Order, case and columns we do not know do not matter."""

    def __init__(self, header: Sequence[str]) -> None:
        """Raises PermanentError, naming what is missing, unless this can be the register's."""
        names = [normalize_column(cell) for cell in header[:MAX_COLUMNS]]
        if missing := [name for name in REQUIRED_COLUMNS if name not in names]:
            raise PermanentError(
                f"this is not ACRA's file of entities: its first line has no {', '.join(missing)}; "
                "check that it is the CSV of the collection, with its header"
            )
        if len(header) > MAX_COLUMNS or len(set(names)) < len(names):
            raise PermanentError("the first line of this file names a column twice, or hundreds")
        self._at = {name: place for place, name in enumerate(names)}
        # By name, so that the same row in another order of columns is the same row.
        self._raw = sorted(self._at.items())
        former = [(int(found[1]), name) for name in names if (found := _FORMER.fullmatch(name))]
        self._former = [name for _, name in sorted(former)]

    @property
    def width(self) -> int:
        return len(self._at)

    def parse_row(self, cells: Sequence[str]) -> ParsedRow | str:
        """Return what a row says, or in a few words why it says nothing usable."""
        if len(cells) != len(self._at):
            return f"it has {len(cells)} cells where the first line has {len(self._at)}"
        if "\0" in (together := "".join(cells)) or not together.isascii():
            cells = [clean_text(cell) for cell in cells]
        raw = {}
        for name, place in self._raw:
            # Two of three cells say nothing; they are passed over before anything is done to them.
            if (cell := cells[place]) == EMPTY_VALUE:
                continue
            cell = cell.strip()
            if cell and cell != EMPTY_VALUE:
                raw[name] = cell
                if len(cell) > MAX_CELL_LENGTH:
                    return f"its {name} has more than {MAX_CELL_LENGTH} characters"
        return _build_entity(raw, self._former)


def find_uen_problem(uen: str) -> str:
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


def is_live_status(status: str) -> bool | None:
    """Return whether an entity of this status is in business, or None for an unknown status.

    One that is about to be struck off or is being wound up is not.
    """
    words = status.casefold()
    if words == "live" or words.startswith("live "):
        return True
    return False if words.startswith(_CLOSED) else None


def _build_entity(raw: Mapping[str, str], former: Sequence[str]) -> ParsedRow | str:
    get = raw.get
    for name in ("uen", "entity_name", "entity_type_description", "entity_status_description"):
        if name not in raw:
            return f"it has no {name}"
    uen, status = raw["uen"].upper(), raw["entity_status_description"]
    if not _UEN.fullmatch(uen):
        return "its uen is no number of an entity"
    if "\n" in raw["entity_name"]:
        return "its entity_name goes over several lines"  # two rows, by two stray quotes
    doubts: list[str] = []
    if doubt := find_uen_problem(uen):
        doubts.append(doubt)
    if (alive := is_live_status(status)) is None:
        doubts.append(UNKNOWN_STATUS)
    registered = get("registration_incorporation_date", "")
    if (day := _parse_day(registered)) is None and registered:
        doubts.append("date that is none")
    officers = get("no_of_officers", "")
    if officers and not _parse_count(officers):
        doubts.append("number of officers that is none")
    primary, secondary = get("primary_ssic_code", ""), get("secondary_ssic_code", "")
    if (primary and not _parse_code(primary)) or (secondary and not _parse_code(secondary)):
        doubts.append("industry that is no code")
    entity = Entity(
        uen=uen,
        name=raw["entity_name"],
        kind=raw["entity_type_description"],
        company_type=get("company_type_description", ""),
        status=status,
        live=bool(alive),
        registered_on=day,
        ssic=_parse_code(primary),
        ssic_secondary=_parse_code(secondary),
        activity=get("primary_user_described_activity", ""),
        street=_format_street(raw),
        postal_code=_parse_postal_code(get("postal_code", "")),
        officers=int(officers) if _parse_count(officers) else None,
        former_names=tuple(dict.fromkeys(raw[name] for name in former if name in raw)),
        raw=raw,
        digest=_compute_digest(raw),
    )
    return ParsedRow(entity, tuple(doubts))


def _compute_digest(raw: Mapping[str, str]) -> str:
    text = "\x1e".join([f"{name}\x1f{cell}" for name, cell in raw.items()])
    return sha256(text.encode()).hexdigest()[:32]


def _parse_day(text: str) -> date | None:
    found = _DAY.fullmatch(text)
    try:
        return date(int(found[1]), int(found[2]), int(found[3])) if found else None
    except ValueError:
        return None


def _parse_code(text: str) -> str:
    """Return an industry's five digits, a leading zero that was lost put back."""
    return text.zfill(5) if len(text) in (4, 5) and _parse_count(text) else ""


def _parse_postal_code(text: str) -> str:
    # Codes of today have six digits; five are one that lost its zero, four a code of before 1995.
    return text.zfill(6) if len(text) == 5 and _parse_count(text) else text[:20]


def _parse_count(text: str) -> bool:
    return len(text) <= 9 and text.isascii() and text.isdigit()


def _format_street(raw: Mapping[str, str]) -> str:
    level, unit = raw.get("level_no", ""), raw.get("unit_no", "")
    parts = [raw.get("block", ""), raw.get("street_name", "")]
    parts.append(f"#{level}-{unit}" if level and unit else f"#{level or unit}")
    parts += [raw.get(name, "") for name in ("building_name", "other_address_line1")]
    parts.append(raw.get("other_address_line2", ""))
    return " ".join(part for part in parts if part not in ("", "#"))
