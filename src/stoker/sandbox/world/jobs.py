"""Which jobs a company of the world has open on a night, whatever board lists them.

Openings come and go from night to night, each at its own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.sandbox.world.companies import FIRST_NIGHT, Company, World

_JOBS = (
    ("Software Engineer", "Engineering"),
    ("Senior Backend Engineer", "Engineering"),
    ("Data Analyst", "Engineering"),
    ("Site Reliability Engineer", "Engineering"),
    ("Product Manager", "Product"),
    ("Product Designer", "Product"),
    ("Account Executive", "Sales"),
    ("Sales Development Representative", "Sales"),
    ("Head of Sales", "Sales"),
    ("Marketing Executive", "Marketing"),
    ("Finance Manager", "Finance"),
    ("HR Business Partner", "People"),
    ("Customer Success Manager", "Customer Success"),
    ("Operations Executive", "Operations"),
    ("Warehouse Supervisor", "Operations"),
)

_PLACES = ("Singapore", "Singapore, Central", "Kuala Lumpur, Malaysia", "Jakarta, Indonesia")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    number: int
    title: str
    department: str
    location: str
    remote: bool
    full_time: bool
    posted_at: datetime
    changed_at: datetime
    lowest_pay: int | None  # a year, in Singapore dollars
    highest_pay: int | None
    words: str  # what the work is, in two plain sentences


def list_openings(world: World, company: Company, *, night: int) -> list[Opening]:
    """Return what a company has open on a night, newest last."""
    many = min(2 + company.employees // 10, 40)
    found = []
    for nth in range(many):
        draws = world.build_draws("opening", company.index, nth)
        first, lasts = draws.draw_between(-60, 30), draws.draw_between(10, 90)
        title, department = draws.pick(_JOBS)
        place, remote, full_time = draws.pick(_PLACES), draws.draw_bool(0.2), draws.draw_bool(0.9)
        pay = draws.draw_between(4, 15) * 12_000 if draws.draw_bool(0.4) else None
        changed = min(first + draws.draw_between(0, 9), night)
        if not first <= night < first + lasts:
            continue
        found.append(
            Opening(
                number=company.index * 100 + nth + 4_000_000,
                title=title,
                department=department,
                location=place,
                remote=remote,
                full_time=full_time,
                posted_at=FIRST_NIGHT + timedelta(days=first),
                changed_at=FIRST_NIGHT + timedelta(days=max(first, changed)),
                lowest_pay=pay,
                highest_pay=None if pay is None else pay * 3 // 2,
                words=f"{company.brand} is looking for a {title} in {place}. "
                f"You will join {department} & help us with {company.trade}.",
            )
        )
    return sorted(found, key=lambda opening: (opening.posted_at, opening.number))
