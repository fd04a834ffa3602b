"""What a page tells programs about its company: JSON-LD, microdata, and meta tags.

All three become plain objects first, then findings by one reading of what schema.org means. Half of
what is out there is broken; what cannot be read says nothing. Visible words are read elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.connectors.organizations import organization_findings
from stoker.connectors.reading import read_json
from stoker.core.findings import Field, Finding, How
from stoker.core.model import Json, clean_text
from stoker.errors import PermanentError

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
