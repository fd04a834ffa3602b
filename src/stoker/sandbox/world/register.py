"""The register of the world's companies, as the real one is published: CSV, 53 columns, `na`.

Two releases are a quarter apart and differ as real ones do: some entities new, a few gone, about
one in twelve changed. Rows are computed one by one, so a register of any size takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import islice

from stoker.base.errors import ConfigError
from stoker.sandbox.random import Draws, Weighted
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.names import split_words

COLUMNS = (
    *split_words(
        "uen issuance_agency_id entity_name entity_type_description "
        "business_constitution_description company_type_description "
        "paf_constitution_description entity_status_description registration_incorporation_date "
        "uen_issue_date address_type block street_name level_no unit_no building_name "
        "postal_code other_address_line1 other_address_line2 account_due_date "
        "annual_return_date primary_ssic_code primary_ssic_description "
        "primary_user_described_activity secondary_ssic_code secondary_ssic_description "
        "secondary_user_described_activity no_of_officers"
    ),
    *(f"former_entity_name{nth}" for nth in range(1, 16)),
    *(f"{what}_of_audit_firm{nth}" for nth in range(1, 6) for what in ("uen", "name")),
)

RELEASES = ("2025-09-30", "2025-12-31")
NOTHING = "na"

# Shares of entities, from one release to the next.
_REMOVED_SHARE, _NEW_SHARE, _CHANGED_SHARE = 0.001, 0.015, 0.08

_TYPES = Weighted(
    (
        ("Exempt Private Company Limited by Shares", 76),
        ("Private Company Limited by Shares", 22),
        ("Public Company Limited by Guarantee", 1),
        ("Public Company Limited by Shares", 1),
    )
)

_OFFICERS = Weighted([(1, 4), *((many, 21 - 2 * many) for many in range(2, 10)), (14, 2), (46, 1)])

# What changes, and how often: filing dates mostly, then officers, addresses, statuses, names.
_CHANGES = Weighted(
    (("filed", 46), ("officers", 22), ("moved", 18), ("status", 13), ("renamed", 1))
)


def iterate_lines(
    world: World, *, rows: int | None = None, release: str = RELEASES[0], part: str = ""
) -> Iterator[str]:
    """Yield the register as lines of CSV, the header first, each with its line end.

    `rows` is how many companies are looked at; those not in this release are left out. `part`
    keeps entities whose name begins with that letter, `Others` those that begin with none.
    """
    if release not in RELEASES:
        raise ConfigError(f"there is no release {release!r}; there are {' and '.join(RELEASES)}")
    later = release == RELEASES[1]
    yield ",".join(COLUMNS) + "\n"
    for index in range(min(world.size, world.size if rows is None else rows)):
        if part and not _may_belong_to_part(world, index, part, later=later):
            continue  # making a row only to drop it would make a letter as slow as the whole
        row = build_row(world, index, later=later)
        if row is not None and _belongs_to_part(row["entity_name"], part):
            yield ",".join(map(_format_cell, row.values())) + "\n"


def iterate_pieces(lines: Iterator[str]) -> Iterator[bytes]:
    """Yield lines in small pieces: while one is being made, no other request is answered."""
    while piece := "".join(islice(lines, 50)):
        yield piece.encode()


def build_row(world: World, index: int, *, later: bool) -> dict[str, str] | None:
    """Return a company's row by column; None when this release does not have it."""
    draws = world.build_draws("filed", index)
    fate = draws.draw_share()
    if fate < _REMOVED_SHARE and later:
        return None
    if _REMOVED_SHARE <= fate < _REMOVED_SHARE + _NEW_SHARE and not later:
        return None
    changed = draws.pick_weighted(_CHANGES) if later and draws.draw_bool(_CHANGED_SHARE) else ""
    draws, company = world.build_draws("row", index), world.get_company(index)
    row = _to_row(company, draws)
    return row | _draw_changes(company, draws, changed)


def _to_row(company: Company, draws: Draws) -> dict[str, str]:
    row = dict.fromkeys(COLUMNS, NOTHING)
    since = company.incorporated.isoformat()
    code = company.ssic
    if code.startswith("0") and draws.draw_bool(0.5):
        code = code[1:]  # a leading zero was lost on the way, as in the real register
    described = company.trade.upper() if draws.draw_bool(0.3) else NOTHING
    row |= {
        "uen": company.uen,
        "issuance_agency_id": "ACRA",
        "entity_name": _vary_case(company, draws),
        "entity_type_description": "Foreign Company Branch" if company.branch else "Local Company",
        "company_type_description": NOTHING if company.branch else draws.pick_weighted(_TYPES),
        "entity_status_description": company.status,
        "registration_incorporation_date": since,
        "uen_issue_date": since,
        "address_type": "LOCAL",
        "block": company.block,
        "street_name": company.street,
        "level_no": company.level or NOTHING,
        "unit_no": company.unit if company.level else NOTHING,
        "building_name": company.building or NOTHING,
        "postal_code": company.postal_code if draws.draw_bool(0.99) else company.postal_code[2:],
        "primary_ssic_code": code,
        # The two descriptions say the same in every row of the real register too.
        "primary_ssic_description": described,
        "secondary_ssic_description": described,
        "no_of_officers": str(draws.pick_weighted(_OFFICERS)),
    }
    due_at = date(2026, 7, 31) - timedelta(
        days=365 * (0 if company.live else draws.draw_between(1, 9))
    )
    if draws.draw_bool(0.991):
        row["account_due_date"] = due_at.isoformat()
    if draws.draw_bool(0.687):
        returned_at = due_at - timedelta(days=365 + draws.draw_below(60))
        row["annual_return_date"] = max(returned_at, company.incorporated).isoformat()
    if draws.draw_bool(0.557):
        row["secondary_ssic_code"] = draws.pick(("46900", "70201", "64202", "62011", "62021"))
    if draws.draw_bool(0.12):
        for nth in range(1, draws.pick_weighted(((1, 80), (2, 16), (3, 3), (6, 1))) + 1):
            row[f"former_entity_name{nth}"] = f"{company.brand.upper()} {_format_ordinal(nth)}"
    return row


def _draw_changes(company: Company, draws: Draws, changed: str) -> dict[str, str]:
    match changed:
        case "filed":
            return {"account_due_date": "2027-01-30", "annual_return_date": "2025-11-12"}
        case "officers":
            return {"no_of_officers": str(draws.draw_between(10, 13))}
        case "moved":
            return {
                "block": str(draws.draw_between(200, 399)),
                "level_no": f"{draws.draw_between(41, 60):02d}",
                "unit_no": f"{draws.draw_between(61, 99):02d}",
                "postal_code": f"{draws.draw_between(10_000, 829_999):06d}",
            }
        case "status":
            later = "Live Company" if company.status == "Struck Off" else "Struck Off"
            return {"entity_status_description": later}
        case "renamed":
            return {
                "entity_name": f"NEW {company.name}",
                "former_entity_name1": company.brand.upper(),
            }
        case _:
            return {}


def _vary_case(company: Company, draws: Draws) -> str:
    if draws.draw_bool(0.01):  # names with a comma, so that quotes are met
        return company.name.replace(" PTE", ", PTE", 1)
    return company.name


def _format_ordinal(nth: int) -> str:
    return ("TRADING", "ENTERPRISE", "AGENCIES", "SUPPLIES", "MARKETING", "& SONS")[nth - 1]


def _format_cell(text: str) -> str:
    return f'"{text}"' if "," in text else text


def _may_belong_to_part(world: World, index: int, part: str, *, later: bool) -> bool:
    renamed = later and part.upper() == "N"  # new names begin with NEW
    return renamed or _belongs_to_part(world.get_name_words(index)[0], part)


def _belongs_to_part(name: str, part: str) -> bool:
    if not part:
        return True
    first = name[:1].upper()
    return first == part.upper() if len(part) == 1 else not ("A" <= first <= "Z")
