"""A fake Singapore: its companies and their people, each computed from a seed and an index.

A company's index is encoded in its UEN and its domain, so a world of a million needs no list and
only a few recent companies stay in memory. UENs have the check letter that real ones have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple

from stdnum.sg import uen as uen_numbers

from stoker.base.errors import ConfigError
from stoker.sandbox.random import Draws, Weighted, draw_number
from stoker.sandbox.world.names import (
    BUILDINGS,
    FIRST_WORDS,
    GIVEN_NAMES,
    NAME_ENDINGS,
    POSTAL_SECTORS,
    SECOND_WORDS,
    STREETS,
    SURNAMES,
    TITLES,
    TRADES,
)
from stoker.sandbox.world.site_faults import SiteFault, draw_site_fault

# How many of every round of companies were registered in each year: few long ago, many lately.
_COMPANIES_PER_YEAR = {
    year: 1 if year < 1990 else 2 if year < 2000 else 4 if year < 2010 else 8 if year < 2020 else 11
    for year in range(1965, 2026)
}

_SLOTS = tuple((year, rank) for year, many in _COMPANIES_PER_YEAR.items() for rank in range(many))
_CYCLE = len(_SLOTS)
_STRIDE = 97  # shares no divisor with a round, so a round visits every slot once
_INVERSE_STRIDE = pow(_STRIDE, -1, _CYCLE)
_SLOT_OF = {slot: nth for nth, slot in enumerate(_SLOTS)}
_BRANCH_EVERY, _BRANCH_AT = 160, 41  # which of them are branches of foreign companies
_BRANCH_YEARS = range(2001, 2026)

MAX_COMPANIES = min(
    99_999 // max(_COMPANIES_PER_YEAR.values()) * _CYCLE, 9_999 * len(_BRANCH_YEARS) * _BRANCH_EVERY
)
"""The largest world whose numbers fit into UENs."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_UEN = re.compile(r"(?:[0-9]{9}|T[0-9]{2}FC[0-9]{4})[A-Z0-9]", re.ASCII)
_SLUG = re.compile(r"[a-z0-9-]{0,250}?-([0-9a-z]{2,6})", re.ASCII)


def is_branch(index: int) -> bool:
    return index % _BRANCH_EVERY == _BRANCH_AT


def compute_year(index: int, *, turn: int) -> int:
    if is_branch(index):
        return _BRANCH_YEARS[index // _BRANCH_EVERY % len(_BRANCH_YEARS)]
    return _SLOTS[(index * _STRIDE + turn) % _CYCLE][0]


def compute_uen(index: int, *, turn: int) -> str:
    """Return the UEN of the company in this place; worlds differ by their turn."""
    if is_branch(index):
        nth = index // _BRANCH_EVERY
        year, serial = compute_year(index, turn=turn), nth // len(_BRANCH_YEARS) + 1
        number = f"T{year % 100:02d}FC{serial:04d}"
        return number + str(uen_numbers.calc_other_check_digit(number))
    year, rank = _SLOTS[(index * _STRIDE + turn) % _CYCLE]
    number = f"{year}{index // _CYCLE * _COMPANIES_PER_YEAR[year] + rank + 1:05d}"
    return number + str(uen_numbers.calc_local_company_check_digit(number))


def find_index_by_uen(uen: str, *, turn: int) -> int | None:
    """Return the place a UEN speaks of; None when it cannot be one of ours."""
    if not _UEN.fullmatch(uen):
        return None
    if uen.startswith("T"):
        nth = (int(uen[5:9]) - 1) * len(_BRANCH_YEARS) + int(uen[1:3]) - 1
        index = nth * _BRANCH_EVERY + _BRANCH_AT
    elif many := _COMPANIES_PER_YEAR.get(int(uen[:4])):
        before, rank = divmod(int(uen[4:9]) - 1, many)
        slot = _SLOT_OF[int(uen[:4]), rank]
        index = before * _CYCLE + (slot - turn) * _INVERSE_STRIDE % _CYCLE
    else:
        return None
    return index if index >= 0 and compute_uen(index, turn=turn) == uen else None


def to_slug_tail(index: int) -> str:
    """Return the place as it stands at the end of a domain's first label."""
    text = ""
    while index or len(text) < 2:
        index, digit = divmod(index, 36)
        text = _DIGITS[digit] + text
    return text


def find_index_by_slug(slug: str) -> int | None:
    """Return the place a domain's first label speaks of, if it does."""
    match = _SLUG.fullmatch(slug)
    return int(match[1], 36) if match else None


ZONE = "test"  # the top-level name that is reserved for tests
FIRST_NIGHT = datetime(2026, 11, 1, 18, tzinfo=UTC)  # of sites, job boards and feeds alike
_MAX_CACHED = 4096

_STATUSES = Weighted(
    (
        ("Live Company", 65),
        ("Struck Off", 29),
        ("Gazetted To Be Struck Off", 3),
        ("Dissolved - Members' Voluntary Winding Up", 2),
        ("In Liquidation - Compulsory Winding Up", 1),
    )
)

_BOARDS = Weighted((("", 70), ("greenhouse", 10), ("lever", 10), ("ashby", 10)))

_HEADCOUNTS = Weighted(
    (((1, 4), 30), ((5, 19), 35), ((20, 99), 24), ((100, 499), 9), ((500, 5000), 2))
)


class Person(NamedTuple):
    name: str
    first_name: str
    last_name: str
    title: str
    seniority: str
    department: str
    email: str
    phone: str  # international, no spaces


@dataclass(frozen=True, kw_only=True)
class Company:
    """One company of the world: the truth about it.

    Its people are computed on first access; few pages need them.
    """

    index: int
    uen: str
    name: str  # as registered
    brand: str  # as people call it
    slug: str
    domain: str
    ssic: str
    trade: str  # what it does, in a few words
    branch: bool  # of a foreign company
    incorporated: date
    status: str
    employees: int
    block: str
    street: str
    level: str
    unit: str
    building: str
    postal_code: str
    phone: str
    email: str
    board: str  # where it lists its openings: greenhouse, lever, ashby, or nowhere
    trouble: SiteFault  # what is odd about its site
    staff: Callable[[], tuple[Person, ...]] = field(repr=False, compare=False)

    @cached_property
    def people(self) -> tuple[Person, ...]:
        """Those who work there and can be found, always the same."""
        return self.staff()

    @property
    def live(self) -> bool:
        """Whether it is still in business."""
        return self.status in ("Live Company", "Gazetted To Be Struck Off")


class World:
    """So many companies, from a seed. Two worlds of one seed agree on every company.

    A stranger has taken the names of those in the places `squatted`.
    """

    def __init__(self, *, seed: int = 1, size: int = 1000, squatted: Collection[int] = ()) -> None:
        if not 1 <= size <= MAX_COMPANIES:
            raise ConfigError(f"a world has from 1 to {MAX_COMPANIES:,} companies, not {size:,}")
        self.seed, self.size, self._squatted = seed, size, frozenset(squatted)
        self._turn = draw_number(seed, "turn") % 1_000_003
        self._company = lru_cache(maxsize=_MAX_CACHED)(self._build_company)

    def get_company(self, index: int) -> Company:
        """Return the company in this place, from 0 up to the world's size."""
        if not 0 <= index < self.size:
            raise IndexError(f"this world has companies 0 to {self.size - 1}, not {index}")
        return self._company(index)

    def find_by_domain(self, domain: str) -> Company | None:
        """Return the company whose site is there; with or without `www.`."""
        name = domain.lower().removesuffix(".").removeprefix("www.")
        index = find_index_by_slug(name.removesuffix(f".{ZONE}"))
        if index is None or index >= self.size:
            return None
        company = self.get_company(index)
        return company if company.domain == name else None

    def find_by_uen(self, uen: str) -> Company | None:
        index = find_index_by_uen(uen.strip().upper(), turn=self._turn)
        return None if index is None or index >= self.size else self.get_company(index)

    def find_by_email(self, email: str) -> tuple[Company, Person | None] | None:
        """Return whose address this is; the person is None for an address of the company."""
        company = self.find_by_domain(email.rpartition("@")[2])
        if company is None:
            return None
        wanted = email.lower()
        if wanted == company.email:
            return company, None
        person = next((each for each in company.people if each.email == wanted), None)
        return None if person is None else (company, person)

    def get_name_words(self, index: int) -> tuple[str, ...]:
        """Return the words of a company's name without working out the rest of it."""
        return _draw_name_words(self.build_draws("company", index))

    def build_draws(self, *name: object) -> Draws:
        """Return numbers that this world gives to a name."""
        return Draws(self.seed, *name)

    def _build_company(self, index: int) -> Company:
        draws = self.build_draws("company", index)
        words = _draw_name_words(draws)
        brand = " ".join(word.title() for word in words)
        slug = f"{''.join(words)}-{to_slug_tail(index)}"
        domain = f"{slug}.{ZONE}"
        ssic, trade = draws.pick_weighted(TRADES)
        low, high = draws.pick_weighted(_HEADCOUNTS)
        employees = draws.draw_between(low, high)
        first_day = date(compute_year(index, turn=self._turn), 1, 1)
        many = min(employees, draws.draw_between(1, 8))
        return Company(
            index=index,
            uen=compute_uen(index, turn=self._turn),
            name=f"{brand.upper()} {draws.pick_weighted(NAME_ENDINGS)}",
            brand=brand,
            slug=slug,
            domain=domain,
            ssic=ssic,
            trade=trade,
            branch=is_branch(index),
            incorporated=first_day + timedelta(days=draws.draw_below(365)),
            status=draws.pick_weighted(_STATUSES),
            employees=employees,
            block=str(draws.draw_between(1, 199)),
            street=draws.pick(STREETS),
            level=f"{draws.draw_between(1, 40):02d}" if draws.draw_bool(0.89) else "",
            unit=f"{draws.draw_between(1, 60):02d}",
            building=draws.pick(BUILDINGS) if draws.draw_bool(0.78) else "",
            postal_code=f"{draws.pick(POSTAL_SECTORS)}{draws.draw_below(10_000):04d}",
            phone=f"+656{draws.pick('234578')}{draws.draw_below(1_000_000):06d}",
            email=f"{draws.pick(('info', 'hello', 'contact', 'sales', 'enquiry'))}@{domain}",
            board=draws.pick_weighted(_BOARDS),
            trouble=self._choose_trouble(index, draws),
            staff=lambda: tuple(self._build_person(index, nth, domain) for nth in range(many)),
        )

    def _choose_trouble(self, index: int, draws: Draws) -> SiteFault:
        fault = draw_site_fault(draws)
        return SiteFault.SQUATTED if index in self._squatted else fault

    def get_site_owner(self, company: Company) -> Company:
        """Return what a company's site says of it; a stranger's has its own people and place."""
        if company.trouble is not SiteFault.SQUATTED:
            return company
        draws = self.build_draws("squatter", company.index)
        director = self._build_person(company.index, 99, company.domain)._replace(
            title="Managing Director", seniority="C-Level"
        )
        return replace(
            company,
            uen="",
            postal_code="",
            block=str(draws.draw_between(200, 399)),
            street=draws.pick(STREETS),
            phone=f"+658{draws.draw_below(10_000_000):07d}",
            staff=lambda: (director,),
        )

    def _build_person(self, index: int, nth: int, domain: str) -> Person:
        draws = self.build_draws("person", index, nth)
        given, surname = draws.pick(GIVEN_NAMES), draws.pick(SURNAMES)
        title, seniority, department = draws.pick_weighted(TITLES)
        # The place keeps two people of one name apart.
        local = f"{given.replace(' ', '').lower()}.{surname.lower()}{nth or ''}"
        return Person(
            name=f"{given} {surname}",
            first_name=given,
            last_name=surname,
            title=title,
            seniority=seniority,
            department=department,
            email=f"{local}@{domain}",
            phone=f"+659{draws.pick('012345678')}{draws.draw_below(1_000_000):06d}",
        )


def _draw_name_words(draws: Draws) -> tuple[str, ...]:
    middle = (draws.pick(FIRST_WORDS),) if draws.draw_bool(0.7) else ()
    return (draws.pick(FIRST_WORDS), *middle, draws.pick(SECOND_WORDS))
