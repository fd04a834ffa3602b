"""The columns of a company in Odoo, from what the register and its own pages say.

Only facts that are known to be the company's become fields. Others stand in its notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.accounts.contacts import list_own_facts, to_sendable_text
from stoker.accounts.facts import Fact, FactField, Method, choose_best_by_field
from stoker.accounts.model import Company, CompanyRecord
from stoker.accounts.websites import get_significant_words
from stoker.vendors.table import OdooSettings

# The first and last division of each section, from A to U.
_SECTIONS: tuple[tuple[str, int, int], ...] = (
    ("A", 1, 3), ("B", 5, 9), ("C", 10, 33), ("D", 35, 35), ("E", 36, 39), ("F", 41, 43),
    ("G", 45, 47), ("H", 49, 53), ("I", 55, 56), ("J", 58, 63), ("K", 64, 66), ("L", 68, 68),
    ("M", 69, 75), ("N", 77, 82), ("O", 84, 84), ("P", 85, 85), ("Q", 86, 88), ("R", 90, 93),
    ("S", 94, 96), ("T", 97, 98), ("U", 99, 99),
)  # fmt: skip

_SINGAPORE = re.compile(
    r"(?:\b(?:Singapore|S)\b|(?<![\s,(]))[\s,(]*\b([0-9]{6})\b\W*$", re.IGNORECASE
)

_COUNTRY_CODE = re.compile(r"[A-Z]{2}")

_LEGAL_ENDINGS = ("PTE", "LTD")

_VOWELS = set("AEIOUY")

_MIN_CAPITALS = 4  # letters; a shorter name is written in capitals

_MAX_NAME_LENGTH = 120  # characters of a name that a company gives itself

_MIN_OWN_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PostalAddress:
    """Where a company is, as far as its address says."""

    street: str = ""
    city: str = ""
    zip: str = ""


def find_industry_section(ssic: str) -> str:
    """Return the section of an industry's code, A to U, or an empty text."""
    division = int(ssic[:2]) if ssic[:2].isascii() and ssic[:2].isdigit() else 0
    return next((name for name, low, high in _SECTIONS if low <= division <= high), "")


def parse_address(text: str, *, country: str) -> PostalAddress:
    """Return the parts of an address on one line; of another country's, the street alone."""
    line = " ".join(text.split())
    if country not in ("", "SG") or not (ending := _SINGAPORE.search(line)):
        return PostalAddress(street=line)
    street = line[: ending.start()].rstrip(" ,.").removesuffix("Singapore").rstrip(" ,.")
    return PostalAddress(street=street, city="Singapore", zip=ending[1])


def choose_display_name(record: CompanyRecord) -> str:
    """Return the name as the company writes itself; else the register's, not all in capitals.

    A name from its pages counts when it shares a telling word with the legal name.
    """
    legal = record.company.name
    telling = set(get_significant_words(legal))
    named = [
        fact
        for fact in list_own_facts(record)
        if fact.field is FactField.NAME
        and fact.method in (Method.JSON_LD, Method.MICRODATA, Method.META, Method.VENDOR)
        and fact.confidence >= _MIN_OWN_CONFIDENCE
        and len(fact.value) <= _MAX_NAME_LENGTH
        and telling & set(get_significant_words(fact.value))
    ]
    best = max(named, key=lambda fact: fact.confidence, default=None)
    return to_sendable_text(best.value) if best else to_name_case(to_sendable_text(legal))


def to_name_case(name: str) -> str:
    """Return a name that is all in capitals as people write names; any other as it is."""
    if name != name.upper() or len(name) < _MIN_CAPITALS:
        return name
    return " ".join(_capitalize(word) for word in name.split(" "))


def _capitalize(word: str) -> str:
    letters = re.sub(r"[^A-Z]", "", word)
    # Without a vowel it is letters and no word: LLP, DBS.
    if letters not in _LEGAL_ENDINGS and (not _VOWELS & set(letters) or re.search(r"[0-9]", word)):
        return word
    return re.sub(r"[A-Z]+", lambda part: part[0].capitalize(), word)


def build_company_values(
    record: CompanyRecord, rule: OdooSettings, *, mailbox: str, website: str
) -> dict[str, str]:
    """Return a company's plain columns; empty ones are left out."""
    company = record.company
    facts = choose_best_by_field(list_own_facts(record))
    number = to_sendable_text(company.id)
    address = parse_address(_get(facts, FactField.ADDRESS), country=find_country(record))
    columns = {
        "name": choose_display_name(record) or number,
        "company_registry": number,
        "vat": number if rule.vat else "",
        "website": website,
        "phone": _get(facts, FactField.PHONE),
        "email": mailbox,
        "street": address.street,
        "city": address.city,
        "zip": to_sendable_text(company.postal_code) or address.zip,
        **_map_facts(company, facts, rule.map),
    }
    return {column: text for column, text in columns.items() if text}


def build_company_names(record: CompanyRecord, rule: OdooSettings) -> dict[str, tuple[str, ...]]:
    """Return a company's columns that name other records: country, industry, tags."""
    named = {
        "country_id": _list_filled(find_country(record)),
        "industry_id": _list_filled(find_industry_section(record.company.ssic)),
        "category_id": rule.tags,
    }
    return {column: names for column, names in named.items() if names}


def find_country(record: CompanyRecord) -> str:
    """Return the code of the country that a company's pages name, or an empty text."""
    facts = choose_best_by_field(list_own_facts(record))
    code = _get(facts, FactField.COUNTRY).upper()
    if _COUNTRY_CODE.fullmatch(code):
        return code
    if code == "SINGAPORE" or (not code and _SINGAPORE.search(_get(facts, FactField.ADDRESS))):
        return "SG"
    return ""


def get_mapped_field(rule: OdooSettings, fact: str) -> str:
    """Return the field that settings name for a fact, or an empty text."""
    return dict(pair.split("=", 1) for pair in rule.map).get(fact, "")


def _map_facts(
    company: Company, facts: Mapping[FactField, Fact], pairs: Iterable[str]
) -> dict[str, str]:
    known = {field.value: _get(facts, field) for field in facts}
    known |= {"legal_name": to_sendable_text(company.name), "ssic": to_sendable_text(company.ssic)}
    if company.employees is not None:
        known.setdefault("employees", str(company.employees))
    wanted = (pair.split("=", 1) for pair in pairs)
    return {column: known.get(fact, "") for fact, column in wanted if fact != "verdict"}


def _get(facts: Mapping[FactField, Fact], field: FactField) -> str:
    return to_sendable_text(facts[field].value) if field in facts else ""


def _list_filled(text: str) -> tuple[str, ...]:
    return (text,) if text else ()
