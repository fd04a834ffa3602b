"""People queries, reveal queries and their answers.

A people query lists who works at a company, without addresses; a reveal query buys the addresses of
those worth their price. Both are paid for and cached apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from stoker.accounts.model import Contact
from stoker.base.errors import PermanentError
from stoker.base.jsontools import get_line, get_list, has_list
from stoker.base.types import Json
from stoker.http.url import parse_url

MAX_PEOPLE = 100

CONTACTS_TTL, NO_CONTACTS_TTL = timedelta(days=60), timedelta(days=14)

_SENIORITY_ORDER = (
    "founder", "owner", "c-suite", "partner", "vice president", "vp", "director", "manager",
)  # fmt: skip

_INVALID_CACHED_ANSWER = "the cached answer has another form; it is asked for again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person at a company, as the vendor lists it before anything is bought."""

    id: str  # the vendor's
    name: str
    title: str = ""
    seniority: str = ""
    has_email: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The people at a company."""

    people: tuple[Person, ...] = ()

    @property
    def ttl(self) -> timedelta:
        """An empty list is asked for again sooner."""
        return CONTACTS_TTL if self.people else NO_CONTACTS_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {
            "people": [
                {
                    "id": person.id,
                    "name": person.name,
                    "title": person.title,
                    "seniority": person.seniority,
                    "has_email": person.has_email,
                }
                for person in self.people
            ]
        }

    def choose_most_senior(self, most: int) -> tuple[Person, ...]:
        """Return the people whose addresses to buy: with an address, most senior first."""
        reachable = [person for person in self.people if person.has_email]
        return tuple(sorted(reachable, key=_get_seniority_rank)[:most])


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleQuery:
    """Who works at a company, found by its domain."""

    domain: str
    titles: tuple[str, ...] = ()  # empty: any
    most: int = 25

    def __post_init__(self) -> None:
        _check_domain(self.domain)
        if not 1 <= self.most <= MAX_PEOPLE:
            raise PermanentError(f"1 to {MAX_PEOPLE} people are found at a time, not {self.most}")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"people_at": self.domain, "titles": sorted(self.titles), "most": self.most}

    def decode_answer(self, cached: Json) -> People:
        """Decode a cached answer."""
        if not has_list(cached, "people"):
            raise PermanentError(_INVALID_CACHED_ANSWER)
        people = [
            Person(
                id=get_line(row, "id"),
                name=get_line(row, "name"),
                title=get_line(row, "title"),
                seniority=get_line(row, "seniority"),
                has_email=isinstance(row, dict) and row.get("has_email") is True,
            )
            for row in get_list(cached, "people", most=MAX_PEOPLE)
        ]
        return People(people=tuple(people))


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealedEmails:
    """Addresses by the vendor's id of the person, and the reason for each one withheld."""

    emails: tuple[tuple[str, str], ...] = ()
    withheld: tuple[tuple[str, str], ...] = ()

    @property
    def ttl(self) -> timedelta:
        """An answer without addresses is asked for again sooner."""
        return CONTACTS_TTL if self.emails else NO_CONTACTS_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {
            "emails": [list(pair) for pair in self.emails],
            "withheld": [list(pair) for pair in self.withheld],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealQuery:
    """The work addresses of people found before, by the vendor's ids."""

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.ids)) == len(self.ids) <= MAX_PEOPLE or not all(self.ids):
            raise PermanentError(f"1 to {MAX_PEOPLE} people are revealed at a time, each once")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"reveal": sorted(self.ids)}

    def decode_answer(self, cached: Json) -> RevealedEmails:
        """Decode a cached answer."""
        if not has_list(cached, "emails") or not has_list(cached, "withheld"):
            raise PermanentError(_INVALID_CACHED_ANSWER)
        return RevealedEmails(
            emails=tuple(_parse_pairs(get_list(cached, "emails", most=MAX_PEOPLE))),
            withheld=tuple(_parse_pairs(get_list(cached, "withheld", most=MAX_PEOPLE))),
        )


def build_contacts(
    people: Iterable[Person], revealed: RevealedEmails, *, source: str
) -> list[Contact]:
    """Return the people whose addresses were revealed, as contacts."""
    emails = dict(revealed.emails)
    return [
        Contact(
            name=person.name,
            title=person.title,
            seniority=person.seniority,
            email=emails[person.id],
            source=source,
            confidence=0.8,
        )
        for person in people
        if person.id in emails
    ]


def _check_domain(domain: str) -> None:
    if parse_url(f"http://{domain}/").host != domain:
        raise PermanentError("a company is found by its domain alone, in small letters")


def _get_seniority_rank(person: Person) -> tuple[int, str]:
    text = f"{person.seniority} {person.title}".casefold()
    rank = next(
        (rank for rank, word in enumerate(_SENIORITY_ORDER) if word in text),
        len(_SENIORITY_ORDER),
    )
    return rank, person.id


def _parse_pairs(rows: Iterable[Json]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise PermanentError(_INVALID_CACHED_ANSWER)
        yield str(row[0]), str(row[1])
