"""What schema.org's words say about an organization, as findings, in whatever shape they come.

Knows the types and properties that matter to us, inside lists and graphs, by reference or in
place. Only the company a page is about counts: not its parents, customers or reviewers. Where the
words came from is told by the caller.

What a page tells programs about its company: JSON-LD, microdata, and meta tags.

All three become plain objects first, then findings by one reading of what schema.org means. Half of
what is out there is broken; what cannot be read says nothing. Visible words are read elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.accounts.facts import Field, Finding, How
from stoker.accounts.identifiers import employee_range, founding_year, postal_code, uen_number
from stoker.base.errors import PermanentError
from stoker.base.types import Json, clean_text
from stoker.crawl.contacts import email_address, is_make_believe, phone_number, social_page
from stoker.http.strict_json import read_json
from stoker.http.url import web_address

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


MOST_BLOCKS = 20  # of linked data on one page

LONGEST_BLOCK = 200_000

MOST_ITEMS, MOST_PROPERTIES, FURTHEST = 20, 100, 30

_WRAPPING = re.compile(
    r"^\s*(?:<!\[CDATA\[|<!--|//\s*<!\[CDATA\[)|(?:\]\]>|-->|//\s*\]\]>)\s*;?\s*$"
)

_TRAILING_COMMA = re.compile(r",(\s{0,200}[}\]])")

_METAS: Mapping[str, tuple[Field, float]] = {
    "og:site_name": (Field.NAME, 0.7),
    "application-name": (Field.NAME, 0.6),
    "og:description": (Field.ABOUT, 0.6),
    "description": (Field.ABOUT, 0.6),
    "twitter:description": (Field.ABOUT, 0.5),
    "business:contact_data:street_address": (Field.ADDRESS, 0.75),
    "business:contact_data:postal_code": (Field.POSTAL_CODE, 0.75),
}


def structured_findings(tree: LexborHTMLParser, *, url: str) -> list[Finding]:
    """Return what a page says about its company in words for programs. Never raises.

    The tree is of tamed markup, so that its size is bounded.
    """
    found: list[Finding] = []
    for data in _linked_data(tree):
        found += organization_findings(data, url=url, how=How.JSON_LD)
    for item in _microdata(tree):
        found += organization_findings(item, url=url, how=How.MICRODATA)
    found += _metas(tree, url)
    return found


def _linked_data(tree: LexborHTMLParser) -> Iterator[Json]:
    for node in tree.css('script[type="application/ld+json"]')[:MOST_BLOCKS]:
        text = (node.text() or "")[:LONGEST_BLOCK]
        if (data := lenient_json(text)) is not None:
            yield data


def lenient_json(text: str) -> Json:
    """Return what JSON says that people wrote by hand, or None when it cannot be made out.

    Comments around it, commas too many and line breaks within texts are forgiven.
    """
    bare = _WRAPPING.sub("", text).strip()
    try:
        return read_json(bare.encode("utf-8", "replace"))
    except PermanentError:
        pass
    try:
        data, _ = _LENIENT.raw_decode(_TRAILING_COMMA.sub(r"\1", bare))
    except (ValueError, RecursionError):
        return None
    return data  # type: ignore[no-any-return]  # JSON is what a decoder gives


_LENIENT = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


def _microdata(tree: LexborHTMLParser) -> Iterator[Json]:
    """Return the outermost items of a page as JSON-LD would say them."""
    made: dict[int, dict[str, Any]] = {}
    for item in tree.css("[itemscope]")[:MOST_ITEMS]:
        made[item.mem_id] = {"@type": _type(item.attributes.get("itemtype"))}
    inside: set[int] = set()
    for node in tree.css("[itemscope] [itemprop]")[: MOST_ITEMS * MOST_PROPERTIES]:
        around = _item_around(node, made)
        if around is None or len(made[around]) > MOST_PROPERTIES:
            continue
        own = made.get(node.mem_id)
        value = own if own is not None else _value(node)
        if own is not None:
            inside.add(node.mem_id)
        for name in (node.attributes.get("itemprop") or "").split()[:5]:
            before = made[around].get(name)
            if before is None:
                made[around][name] = value
            elif isinstance(before, list):
                before.append(value)
            else:
                made[around][name] = [before, value]
    yield from (item for mem_id, item in made.items() if mem_id not in inside)


def _item_around(node: LexborNode, made: Mapping[int, object]) -> int | None:
    above = node.parent
    for _ in range(FURTHEST):
        if above is None:
            return None
        if above.mem_id in made:
            return above.mem_id
        above = above.parent
    return None


def _type(itemtype: str | None) -> str:
    return (itemtype or "").split(" ")[0].rstrip("/").rpartition("/")[2][:100]


def _value(node: LexborNode) -> str:
    attributes = node.attributes
    for name in ("content", "href", "src", "datetime", "value"):
        if said := attributes.get(name):
            if name == "href":
                said = re.sub(r"(?i)^(?:mailto|tel):", "", said)
            return said[:2_000]
    return " ".join((node.text() or "").split())[:2_000]


def _metas(tree: LexborHTMLParser, url: str) -> Iterator[Finding]:
    said: set[str] = set()
    for node in tree.css("meta[content]")[:200]:
        attributes = node.attributes
        name = (attributes.get("property") or attributes.get("name") or "").lower()
        value = clean_text(" ".join((attributes.get("content") or "").split()))[:1_000]
        if name not in _METAS or name in said or not value:
            continue
        said.add(name)
        field, confidence = _METAS[name]
        yield Finding.found(
            field, value, source=url, how=How.META, confidence=confidence, evidence=value[:300]
        )
