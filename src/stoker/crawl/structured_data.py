"""Facts about an organization in a page's JSON-LD, microdata and meta tags.

All three become plain objects first and are then read by one reader of schema.org. It knows the
types and properties that matter, inside lists and graphs, by reference or in place. Only the
company that a page is about counts: not its parents, customers or reviewers. Broken data is
skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.identifiers import (
    parse_employee_range,
    parse_founding_year,
    parse_postal_code,
    parse_uen,
)
from stoker.accounts.people import PersonEntry, format_person
from stoker.base.errors import PermanentError
from stoker.base.strict_json import parse_json
from stoker.base.types import Json, clean_text
from stoker.crawl.contacts import BoundedParser, parse_email, parse_phone, parse_social_page
from stoker.crawl.page import get_node_text
from stoker.http.url import parse_url

MAX_DEPTH = 12
MAX_NODES = 2_000
MAX_VALUES = 20  # of one property
MAX_ORGANIZATIONS = 50  # of one block of data
MAX_FACTS = 1_000  # of one page, equal ones among them
_MAX_TEXT_LENGTH = 1_000
_CONFIDENCES = {Method.JSON_LD: 0.92, Method.MICRODATA: 0.85}

_ORGANIZATION = re.compile(
    r"(?i)organi[sz]ation|corporation|business|company|store|shop|agency|service$|restaurant|hotel"
    r"|clinic|dentist|attorney|notary|school|ngo$|airline|brand$|contractor|dealer|bank"
)

_PERSON = re.compile(r"(?i)^person$")
_NO_ORGANIZATION = re.compile(r"(?i)review|rating|offer|action|article|posting|webservice|howto")

# Keys that may hold the company that a page is about.
_NESTED_KEYS = (
    "@graph", "mainEntity", "publisher", "about", "provider", "copyrightHolder", "@list",
)  # fmt: skip

_PEOPLE = ("employee", "employees", "founder", "founders", "member", "members")

_TEXTS: Mapping[str, tuple[FactField, float]] = {
    "legalName": (FactField.LEGAL_NAME, 0.0),
    "name": (FactField.NAME, 0.0),
    "alternateName": (FactField.NAME, -0.2),
    "description": (FactField.ABOUT, -0.05),
    "slogan": (FactField.ABOUT, -0.3),
    "industry": (FactField.INDUSTRY, 0.0),
}

_NUMBERS = ("taxID", "vatID", "identifier", "registrationNumber", "uen", "companyRegistration")


class ValueParsers:
    """How the values of one page are parsed."""

    def __init__(self, url: str) -> None:
        self.email = BoundedParser(partial(parse_email, page=url))
        self.phone = BoundedParser(parse_phone)
        self.website = BoundedParser(_parse_website)
        self.uen = BoundedParser(parse_uen)


def _parse_website(text: str) -> str | None:
    try:
        address = parse_url(text)
    except PermanentError:
        return None
    return f"{address.scheme}://{address.netloc}/"


def find_organization_facts(
    data: Json, *, url: str, how: Method, parsers: ValueParsers
) -> Iterator[Fact]:
    """Yield the facts in these objects about organizations and their people."""
    nodes = _list_nodes(data, most=MAX_NODES)
    known = {
        name: node for node in nodes if isinstance(name := node.get("@id"), str) and len(node) > 1
    }
    organizations = (
        node if is_organization else {"employee": node}
        for node in nodes
        if (
            is_organization := _has_type(node, _ORGANIZATION)
            and not _has_type(node, _NO_ORGANIZATION)
        )
        or (_has_type(node, _PERSON) and "worksFor" in node)
    )
    for node in islice(organizations, MAX_ORGANIZATIONS):
        yield from _OrganizationReader(node, known, url=url, how=how, parsers=parsers).list_facts()


class _OrganizationReader:
    """One organization's object, and its confidence."""

    def __init__(
        self,
        node: Mapping[str, Json],
        known: Mapping[str, Json],
        *,
        url: str,
        how: Method,
        parsers: ValueParsers,
    ) -> None:
        self._node, self._known, self._url, self._how = node, known, url, how
        self._parsers = parsers
        own = next(iter(_list_texts(node.get("url"))), "")
        # A page may describe another company; then it is second hand.
        self._sure = _CONFIDENCES[how] if not own or _is_same_site(own, url) else 0.4

    def list_facts(self) -> Iterator[Fact]:
        node = self._node
        for name, (field, more) in _TEXTS.items():
            for text in self._get_texts(name):
                yield self._build_fact(field, text, more=more)
        yield from self._list_contact_facts(node)
        for point in self._get_objects("contactPoint"):
            yield from self._list_contact_facts(point)
        for text in self._get_texts("url"):
            if (website := self._parsers.website(text)) is not None:
                yield self._build_fact(FactField.WEBSITE, website, evidence=text)
        for text in self._get_texts("sameAs"):
            if (page := parse_social_page(text)) is not None:
                yield self._build_fact(FactField.SOCIAL, page, evidence=text)
        for name in _NUMBERS:
            for text in (*self._get_texts(name), *self._get_inner_texts(name, "value")):
                if (number := self._parsers.uen(text)) is not None:
                    yield self._build_fact(FactField.UEN, number, evidence=text)
        for text in (*self._get_texts("numberOfEmployees"), *self._list_employee_ranges()):
            if (employees := parse_employee_range(text)) is not None:
                yield self._build_fact(FactField.EMPLOYEES, employees, evidence=text)
        for text in self._get_texts("foundingDate"):
            if (year := parse_founding_year(text)) is not None:
                yield self._build_fact(FactField.FOUNDED, year, evidence=text)
        yield from self._list_address_facts()
        yield from self._list_people_facts()

    def _build_fact(
        self, field: FactField, value: str, *, more: float = 0.0, evidence: str = ""
    ) -> Fact:
        return Fact.build(
            field,
            value,
            source=self._url,
            how=self._how,
            confidence=round(max(0.1, self._sure + more), 2),
            evidence=(evidence or value)[:300],
        )

    def _list_contact_facts(self, node: Mapping[str, Json]) -> Iterator[Fact]:
        for text in _list_texts(node.get("email")):
            plain = re.sub(r"(?i)^mailto:", "", text).partition("?")[0].strip()
            address = self._parsers.email(plain)
            if address is not None:
                yield self._build_fact(FactField.EMAIL, address, evidence=text)
        for text in _list_texts(node.get("telephone")):
            number = self._parsers.phone(re.sub(r"(?i)^tel:", "", text[:60]))
            if number is not None:
                yield self._build_fact(FactField.PHONE, number, evidence=text)

    def _list_address_facts(self) -> Iterator[Fact]:
        for text in self._get_texts("address"):
            yield self._build_fact(FactField.ADDRESS, text, more=-0.1)
        for place in self._get_objects("address"):
            lines = [
                text
                for name in ("streetAddress", "addressLocality", "addressRegion")
                for text in _list_texts(place.get(name))[:2]
            ]
            if lines:
                yield self._build_fact(FactField.ADDRESS, ", ".join(dict.fromkeys(lines)))
            for text in _list_texts(place.get("postalCode"))[:1]:
                yield self._build_fact(FactField.POSTAL_CODE, parse_postal_code(text) or text[:20])
            country = place.get("addressCountry")
            for text in (*_list_texts(country), *_list_texts(_to_object(country).get("name")))[:1]:
                yield self._build_fact(
                    FactField.COUNTRY, "SG" if text.lower() == "singapore" else text[:60]
                )

    def _list_people_facts(self) -> Iterator[Fact]:
        for name in _PEOPLE:
            for person in self._get_objects(name):
                for who in _list_texts(person.get("name"))[:1]:
                    role = next(iter(_list_texts(person.get("jobTitle"))), "")
                    role = role or ("Founder" if name.startswith("founder") else "")
                    contacts = list(self._list_contact_facts(person))
                    entry = PersonEntry(
                        name=who.replace("|", " "),
                        title=role,
                        email=_find_value(contacts, FactField.EMAIL),
                        phone=_find_value(contacts, FactField.PHONE),
                    )
                    yield self._build_fact(FactField.PERSON, format_person(entry), evidence=who)

    def _list_employee_ranges(self) -> list[str]:
        made: list[str] = []
        for amount in self._get_objects("numberOfEmployees"):
            ends = [_list_texts(amount.get(name))[:1] for name in ("minValue", "maxValue")]
            if all(ends):
                made.append("-".join(text for end in ends for text in end))
            made += _list_texts(amount.get("value"))
        return made

    def _get_texts(self, name: str) -> list[str]:
        return _list_texts(self._node.get(name))

    def _get_inner_texts(self, name: str, part: str) -> list[str]:
        return [text for each in self._get_objects(name) for text in _list_texts(each.get(part))]

    def _get_objects(self, name: str) -> list[Mapping[str, Json]]:
        return [
            self._resolve_reference(each)
            for each in _to_list(self._node.get(name))
            if _to_object(each)
        ]

    def _resolve_reference(self, value: Json) -> Mapping[str, Json]:
        node = _to_object(value)
        reference = node.get("@id")
        if len(node) == 1 and isinstance(reference, str):
            return _to_object(self._known.get(reference, {}))
        return node


def _find_value(facts: Iterable[Fact], field: FactField) -> str:
    return next((fact.value for fact in facts if fact.field is field), "")


def _list_nodes(data: Json, *, most: int) -> list[Mapping[str, Json]]:
    """Return the objects that a page is about, outermost first, at most `most`."""
    nodes: list[Mapping[str, Json]] = []
    waiting: list[tuple[Json, int]] = [(data, 0)]
    looked = 0
    while waiting and looked < most:
        value, depth = waiting.pop(0)
        looked += 1
        if depth > MAX_DEPTH:
            continue
        if isinstance(value, list | tuple):
            waiting += [(each, depth + 1) for each in value[:most]]
        elif isinstance(value, Mapping):
            nodes.append(value)
            waiting += [(value[name], depth + 1) for name in _NESTED_KEYS if name in value]
    return nodes


def _has_type(node: Mapping[str, Json], kind: re.Pattern[str]) -> bool:
    return any(
        kind.search(name.rstrip("/").rpartition("/")[2].rpartition(":")[2])
        for name in _list_texts(node.get("@type"))
    )


def _to_list(value: Json) -> list[Json]:
    return list(value[:MAX_VALUES]) if isinstance(value, list | tuple) else [value]


def _to_object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _list_texts(value: Json) -> list[str]:
    """Return the texts and numbers of a property with one, several or translated values."""
    made = []
    for each in _to_list(value):
        if isinstance(each, Mapping):
            each = each.get("@value")
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            continue
        if isinstance(each, str):
            text = clean_text(" ".join(each[:_MAX_TEXT_LENGTH].split()))
        else:
            text = f"{each:g}" if abs(each) < 10**9 else ""
        if text:
            made.append(text)
    return made


def _is_same_site(one: str, other: str) -> bool:
    try:
        hosts = [urlsplit(url).hostname or "" for url in (one, other)]
    except ValueError:
        return False
    first, second = (host.removeprefix("www.") for host in hosts)
    # A URL without a host is on the same site.
    return not first or first == second or f".{first}".endswith(f".{second}")


MAX_BLOCKS = 20  # of linked data on one page
MAX_BLOCK_LENGTH = 200_000
MAX_ITEMS, MAX_PROPERTIES, FURTHEST = 20, 100, 30

_WRAPPING = re.compile(
    r"^\s*+(?:<!\[CDATA\[|<!--|//\s*+<!\[CDATA\[)|(?:\]\]>|-->|//\s*+\]\]>)\s*+;?+\s*+$"
)

_TRAILING_COMMA = re.compile(r",(\s{0,200}[}\]])")

_META_FIELDS: Mapping[str, tuple[FactField, float]] = {
    "og:site_name": (FactField.NAME, 0.7),
    "application-name": (FactField.NAME, 0.6),
    "og:description": (FactField.ABOUT, 0.6),
    "description": (FactField.ABOUT, 0.6),
    "twitter:description": (FactField.ABOUT, 0.5),
    "business:contact_data:street_address": (FactField.ADDRESS, 0.75),
    "business:contact_data:postal_code": (FactField.POSTAL_CODE, 0.75),
}


def find_structured_facts(tree: LexborHTMLParser, *, url: str) -> list[Fact]:
    """Return what a page says about its company in words for programs. Never raises.

    The tree is of tamed markup, so that its size is bounded.
    """
    parsers = ValueParsers(url)
    organizations = (
        fact
        for how, data in chain(
            ((Method.JSON_LD, data) for data in _iterate_json_ld(tree)),
            ((Method.MICRODATA, item) for item in _iterate_microdata(tree)),
        )
        for fact in find_organization_facts(data, url=url, how=how, parsers=parsers)
    )
    return [*islice(organizations, MAX_FACTS), *_iterate_meta_facts(tree, url)]


def _iterate_json_ld(tree: LexborHTMLParser) -> Iterator[Json]:
    for node in tree.css('script[type="application/ld+json"]')[:MAX_BLOCKS]:
        text = (node.text() or "")[:MAX_BLOCK_LENGTH]
        if (data := parse_lenient_json(text)) is not None:
            yield data


def parse_lenient_json(text: str) -> Json:
    """Return what JSON says that people wrote by hand, or None when it cannot be made out.

    Comments around it, commas too many and line breaks within texts are forgiven.
    """
    bare = _WRAPPING.sub("", text).strip()
    try:
        return parse_json(bare.encode("utf-8", "replace"))
    except PermanentError:
        pass
    try:
        data, _ = _LENIENT.raw_decode(_TRAILING_COMMA.sub(r"\1", bare))
    except (ValueError, RecursionError):
        return None
    return data  # type: ignore[no-any-return]  # JSON is what a decoder gives


_LENIENT = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


def _iterate_microdata(tree: LexborHTMLParser) -> Iterator[Json]:
    """Yield the outermost items of a page in the form of JSON-LD."""
    made: dict[int, dict[str, Any]] = {}
    for item in tree.css("[itemscope]")[:MAX_ITEMS]:
        made[item.mem_id] = {"@type": _get_type_name(item.attributes.get("itemtype"))}
    if not made:
        return
    inside: set[int] = set()
    for node in tree.css("[itemscope] [itemprop]")[: MAX_ITEMS * MAX_PROPERTIES]:
        around = _find_enclosing_item(node, made)
        if around is None or len(made[around]) > MAX_PROPERTIES:
            continue
        own = made.get(node.mem_id)
        value = own if own is not None else _get_property_value(node)
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


def _find_enclosing_item(node: LexborNode, made: Mapping[int, object]) -> int | None:
    above = node.parent
    for _ in range(FURTHEST):
        if above is None:
            return None
        if above.mem_id in made:
            return above.mem_id
        above = above.parent
    return None


def _get_type_name(itemtype: str | None) -> str:
    return (itemtype or "").split(" ")[0].rstrip("/").rpartition("/")[2][:100]


def _get_property_value(node: LexborNode) -> str:
    attributes = node.attributes
    for name in ("content", "href", "src", "datetime", "value"):
        if text := attributes.get(name):
            if name == "href":
                text = re.sub(r"(?i)^(?:mailto|tel):", "", text)
            return text[:2_000]
    return get_node_text(node)


def _iterate_meta_facts(tree: LexborHTMLParser, url: str) -> Iterator[Fact]:
    seen: set[str] = set()
    for node in tree.css("meta[content]")[:200]:
        attributes = node.attributes
        name = (attributes.get("property") or attributes.get("name") or "").lower()
        value = clean_text(" ".join((attributes.get("content") or "").split()))[:1_000]
        if name not in _META_FIELDS or name in seen or not value:
            continue
        seen.add(name)
        field, confidence = _META_FIELDS[name]
        yield Fact.build(
            field, value, source=url, how=Method.META, confidence=confidence, evidence=value[:300]
        )
