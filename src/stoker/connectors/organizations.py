"""What schema.org's words say about an organization, as findings, in whatever shape they come.

Knows the types and properties that matter to us, inside lists and graphs, by reference or in
place. Only the company a page is about counts: not its parents, customers or reviewers. Where the
words came from is told by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from stoker.connectors.contact_reading import (
    email_address,
    is_make_believe,
    phone_number,
    social_page,
)
from stoker.core.findings import Field, Finding, How
from stoker.core.model import Json, clean_text
from stoker.core.registered_facts import employee_range, founding_year, postal_code, uen_number
from stoker.core.urls import web_address
from stoker.errors import PermanentError

DEEPEST = 12
MOST_NODES = 2_000
MOST_VALUES = 20  # of one property
_LONGEST = 1_000
_SURE = {How.JSON_LD: 0.92, How.MICRODATA: 0.85}
_ORGANIZATION = re.compile(
    r"(?i)organi[sz]ation|corporation|business|company|store|shop|agency|service$|restaurant|hotel"
    r"|clinic|dentist|attorney|notary|school|ngo$|airline|brand$|contractor|dealer|bank"
)
_PERSON = re.compile(r"(?i)^person$")
_NO_ORGANIZATION = re.compile(r"(?i)review|rating|offer|action|article|posting|webservice|howto")
# Where the company a page is about may stand inside something else.
_INWARDS = ("@graph", "mainEntity", "publisher", "about", "provider", "copyrightHolder", "@list")
_PEOPLE = ("employee", "employees", "founder", "founders", "member", "members")
_TEXTS: Mapping[str, tuple[Field, float]] = {
    "legalName": (Field.LEGAL_NAME, 0.0),
    "name": (Field.NAME, 0.0),
    "alternateName": (Field.NAME, -0.2),
    "description": (Field.ABOUT, -0.05),
    "slogan": (Field.ABOUT, -0.3),
    "industry": (Field.INDUSTRY, 0.0),
}
_NUMBERS = ("taxID", "vatID", "identifier", "registrationNumber", "uen", "companyRegistration")


def organization_findings(data: Json, *, url: str, how: How) -> list[Finding]:
    """Return what these objects say about organizations and their people. Never raises."""
    known = _by_id(data)
    found: list[Finding] = []
    for node in _nodes(data, most=MOST_NODES):
        if _is(node, _ORGANIZATION) and not _is(node, _NO_ORGANIZATION):
            found += _Speaker(node, known, url=url, how=how).findings()
        elif _is(node, _PERSON) and "worksFor" in node:
            found += _Speaker({"employee": node}, known, url=url, how=how).findings()
    return found


class _Speaker:
    """One organization's object, and how far it is believed."""

    def __init__(
        self, node: Mapping[str, Json], known: Mapping[str, Json], *, url: str, how: How
    ) -> None:
        self._node, self._known, self._url, self._how = node, known, url, how
        own = next(iter(_texts(node.get("url"))), "")
        # A page may describe another company; then it is no first-hand word.
        self._sure = _SURE[how] if not own or _same_site(own, url) else 0.4

    def findings(self) -> Iterator[Finding]:
        node = self._node
        for name, (field, more) in _TEXTS.items():
            for text in self._all(name):
                yield self._found(field, text, more=more)
        yield from self._ways_to_reach(node)
        for point in self._objects("contactPoint"):
            yield from self._ways_to_reach(point)
        for text in self._all("url"):
            yield from self._website(text)
        for text in self._all("sameAs"):
            if (page := social_page(text)) is not None:
                yield self._found(Field.SOCIAL, page, said=text)
        for name in _NUMBERS:
            for text in (*self._all(name), *self._inner(name, "value")):
                if (number := uen_number(text)) is not None:
                    yield self._found(Field.UEN, number, said=text)
        for text in (*self._all("numberOfEmployees"), *self._ranges()):
            if (employees := employee_range(text)) is not None:
                yield self._found(Field.EMPLOYEES, employees, said=text)
        for text in self._all("foundingDate"):
            if (year := founding_year(text)) is not None:
                yield self._found(Field.FOUNDED, year, said=text)
        yield from self._places()
        yield from self._people()

    def _found(self, field: Field, value: str, *, more: float = 0.0, said: str = "") -> Finding:
        return Finding.found(
            field,
            value,
            source=self._url,
            how=self._how,
            confidence=round(max(0.1, self._sure + more), 2),
            evidence=(said or value)[:300],
        )

    def _ways_to_reach(self, node: Mapping[str, Json]) -> Iterator[Finding]:
        for text in _texts(node.get("email")):
            plain = re.sub(r"(?i)^mailto:", "", text).partition("?")[0].strip()
            address = email_address(plain, make_believe=is_make_believe(self._url))
            if address is not None:
                yield self._found(Field.EMAIL, address, said=text)
        for text in _texts(node.get("telephone")):
            if (number := phone_number(re.sub(r"(?i)^tel:", "", text[:60]))) is not None:
                yield self._found(Field.PHONE, number, said=text)

    def _website(self, text: str) -> Iterator[Finding]:
        try:
            address = web_address(text)
        except PermanentError:
            return
        if address.host:
            yield self._found(Field.WEBSITE, f"{address.scheme}://{address.netloc}/", said=text)

    def _places(self) -> Iterator[Finding]:
        for text in self._all("address"):
            yield self._found(Field.ADDRESS, text, more=-0.1)
        for place in self._objects("address"):
            lines = [
                text
                for name in ("streetAddress", "addressLocality", "addressRegion")
                for text in _texts(place.get(name))[:2]
            ]
            if lines:
                yield self._found(Field.ADDRESS, ", ".join(dict.fromkeys(lines)))
            for text in _texts(place.get("postalCode"))[:1]:
                yield self._found(Field.POSTAL_CODE, postal_code(text) or text[:20])
            country = place.get("addressCountry")
            for text in (*_texts(country), *_texts(_object(country).get("name")))[:1]:
                yield self._found(Field.COUNTRY, "SG" if text.lower() == "singapore" else text[:60])

    def _people(self) -> Iterator[Finding]:
        for name in _PEOPLE:
            for person in self._objects(name):
                for who in _texts(person.get("name"))[:1]:
                    role = next(iter(_texts(person.get("jobTitle"))), "")
                    role = role or ("Founder" if name.startswith("founder") else "")
                    yield self._found(Field.PERSON, f"{who} | {role}" if role else who)

    def _ranges(self) -> list[str]:
        made: list[str] = []
        for amount in self._objects("numberOfEmployees"):
            ends = [_texts(amount.get(name))[:1] for name in ("minValue", "maxValue")]
            if all(ends):
                made.append("-".join(text for end in ends for text in end))
            made += _texts(amount.get("value"))
        return made

    def _all(self, name: str) -> list[str]:
        return _texts(self._node.get(name))

    def _inner(self, name: str, part: str) -> list[str]:
        return [text for each in self._objects(name) for text in _texts(each.get(part))]

    def _objects(self, name: str) -> list[Mapping[str, Json]]:
        return [self._whole(each) for each in _many(self._node.get(name)) if _object(each)]

    def _whole(self, value: Json) -> Mapping[str, Json]:
        node = _object(value)
        reference = node.get("@id")
        if len(node) == 1 and isinstance(reference, str):
            return _object(self._known.get(reference, {}))
        return node


def _nodes(data: Json, *, most: int) -> list[Mapping[str, Json]]:
    """Return the objects a page is about, outermost first, at most so many."""
    found: list[Mapping[str, Json]] = []
    waiting: list[tuple[Json, int]] = [(data, 0)]
    looked = 0
    while waiting and looked < most:
        value, depth = waiting.pop(0)
        looked += 1
        if depth > DEEPEST:
            continue
        if isinstance(value, list | tuple):
            waiting += [(each, depth + 1) for each in value[:most]]
        elif isinstance(value, Mapping):
            found.append(value)
            waiting += [(value[name], depth + 1) for name in _INWARDS if name in value]
    return found


def _by_id(data: Json) -> dict[str, Json]:
    known: dict[str, Json] = {}
    for node in _nodes(data, most=MOST_NODES):
        name = node.get("@id")
        if isinstance(name, str) and len(node) > 1:
            known[name] = node
    return known


def _is(node: Mapping[str, Json], kind: re.Pattern[str]) -> bool:
    return any(
        kind.search(name.rstrip("/").rpartition("/")[2].rpartition(":")[2])
        for name in _texts(node.get("@type"))
    )


def _many(value: Json) -> list[Json]:
    return list(value[:MOST_VALUES]) if isinstance(value, list | tuple) else [value]


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Json) -> list[str]:
    """Return the texts and numbers of a property that may have one, several or translated ones."""
    made = []
    for each in _many(value):
        if isinstance(each, Mapping):
            each = each.get("@value")
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            continue
        if isinstance(each, str):
            text = clean_text(" ".join(each[:_LONGEST].split()))
        else:
            text = f"{each:g}" if abs(each) < 10**9 else ""
        if text:
            made.append(text)
    return made


def _same_site(one: str, other: str) -> bool:
    try:
        hosts = [urlsplit(url).hostname or "" for url in (one, other)]
    except ValueError:
        return False
    first, second = (host.removeprefix("www.") for host in hosts)
    # An address without a host is one on the same site.
    return not first or first == second or f".{first}".endswith(f".{second}")
