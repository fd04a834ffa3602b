"""Check a model's claims: accept only what the pages bear out, in the form of its field.

A claim is a field, a value and its evidence. The evidence must stand in one page, the value in the
evidence, and the value must have its field's form and be called so there (`field_rules`); other
claims are rejected with a reason. So a model that obeys a page, or invents, changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from stoker.accounts.evidence import (
    MAX_EVIDENCE_LENGTH,
    Evidence,
    contains_number,
    contains_words,
    normalize_text,
    strip_invisible,
)
from stoker.accounts.facts import Fact, FactField, Method, RejectedFact
from stoker.accounts.identifiers import (
    parse_employee_range,
    parse_founding_year,
    parse_postal_code,
    parse_uen,
)
from stoker.base.errors import PermanentError
from stoker.base.types import clean_text
from stoker.crawl.contacts import parse_email, parse_phone, parse_social_page
from stoker.crawl.model import Excerpt
from stoker.http.url import parse_url
from stoker.vendors.field_rules import find_rule_problem, is_part_of_name, is_whole_sentence

CLAIM_CONFIDENCE = 0.6

FOREIGN_EMAIL_CONFIDENCE = 0.35  # an address elsewhere: a founder's, or a web designer's

SECOND_HAND_FACTOR = 0.6  # confidence of what another site says of the company

MAX_PER_FIELD = 10

MAX_PEOPLE = 40

_MAX_LENGTHS: Mapping[FactField, int] = {
    FactField.ABOUT: 500,
    FactField.ADDRESS: 250,
    FactField.LEGAL_NAME: 200,
    FactField.NAME: 150,
    FactField.SOCIAL: 200,
    FactField.WEBSITE: 200,
}

_FORBIDDEN_CHARACTERS = re.compile(r"[<>{}\\`\x00-\x1f\x7f]")

_URL_OR_EMAIL = re.compile(r"(?i)https?:|www\.|@")

_FIELDS_WITH_URLS = frozenset({FactField.WEBSITE, FactField.SOCIAL, FactField.EMAIL})


_NAMES = frozenset({FactField.NAME, FactField.LEGAL_NAME, FactField.PERSON})


class ClaimChecker:
    """Check a model's claims against the pages of one query."""

    def __init__(self, excerpts: Sequence[Excerpt], *, domain: str) -> None:
        self._domain = domain  # the company's own; empty: not known yet
        self._pages = [(excerpt, Evidence(excerpt.text)) for excerpt in excerpts]
        self._accepted: Counter[FactField] = Counter()

    def check_claim(self, field: str, value: str, evidence: str) -> Fact | RejectedFact:
        """Return the claim as a fact, or as rejected with the reason. Never raises."""
        try:
            kind = FactField(field)
        except ValueError:
            return _reject_claim(field, value, "there is no such field")
        value = " ".join(strip_invisible(clean_text(value[:5_000])).split())
        evidence = " ".join(strip_invisible(clean_text(evidence[:5_000])).split())
        if error := _find_bounds_error(kind, value):
            return _reject_claim(kind, value, error)
        page = self._find_page(evidence)
        if page is None:
            return _reject_claim(kind, value, "its evidence does not stand in the pages")
        form = _VALUE_PARSERS[kind](self, value, evidence, page)
        if form is None:
            return _reject_claim(
                kind, value, "its evidence does not say so, or it has another form"
            )
        if problem := self._find_rule_problem(kind, form, value, evidence, page):
            return _reject_claim(kind, value, problem)
        most = MAX_PEOPLE if kind is FactField.PERSON else MAX_PER_FIELD
        if self._accepted[kind] >= most:
            return _reject_claim(kind, value, f"there are {most} of this field already")
        self._accepted[kind] += 1
        return Fact.build(
            kind,
            form,
            source=page.url,
            how=Method.LLM,
            confidence=self._compute_confidence(kind, form, page),
            evidence=evidence,
        )

    def _find_rule_problem(
        self, field: FactField, form: str, value: str, evidence: str, page: Excerpt
    ) -> str:
        """Return why words of a page are no value of this field; empty when they are."""
        text = page.text
        if field in _NAMES or field is FactField.TECHNOLOGY:
            # As the page writes it: a model could give any words the capitals of a name.
            name = value.partition("|")[0].strip()
            spelled = name if name in text else name.upper()
            if spelled not in text or spelled.islower():
                return "the page does not write it as a name"
            if field in _NAMES and is_part_of_name(spelled, text):
                return "it is a part of a longer name"
        if field is FactField.ABOUT and not is_whole_sentence(value, text):
            return "it is a part of a sentence"
        shown = value if field is FactField.COUNTRY else form
        return find_rule_problem(field, shown, evidence, domain=self._domain)

    def _find_page(self, evidence: str) -> Excerpt | None:
        if len(evidence) > MAX_EVIDENCE_LENGTH:
            return None
        return next((page for page, text in self._pages if text.contains(evidence)), None)

    def _compute_confidence(self, field: FactField, value: str, page: Excerpt) -> float:
        sure = CLAIM_CONFIDENCE
        if (
            field is FactField.EMAIL
            and self._domain
            and not self.is_own_host(value.partition("@")[2])
        ):
            sure = FOREIGN_EMAIL_CONFIDENCE
        host = page.url.partition("://")[2].partition("/")[0]
        return (
            sure
            if not self._domain or self.is_own_host(host)
            else round(sure * SECOND_HAND_FACTOR, 3)
        )

    def is_own_host(self, host: str) -> bool:
        """Return whether a host is the company's own."""
        return f".{host.lower()}".endswith(f".{self._domain}")

    def parse_text(self, value: str, evidence: str, _: Excerpt) -> str | None:
        return value if _is_in_evidence(value, evidence) else None

    def parse_country(self, value: str, evidence: str, _: Excerpt) -> str | None:
        if not _is_in_evidence(value, evidence):
            return None
        return "SG" if value.lower() == "singapore" else value

    def parse_person(self, value: str, evidence: str, _: Excerpt) -> str | None:
        name, _bar, role = (part.strip() for part in value.partition("|"))
        if (
            not name
            or not _is_in_evidence(name, evidence)
            or (role and not _is_in_evidence(role, evidence))
        ):
            return None
        return f"{name} | {role}" if role else name

    def parse_uen(self, value: str, evidence: str, _: Excerpt) -> str | None:
        number = parse_uen(value)
        return number if number is not None and _is_in_evidence(number, evidence) else None

    def parse_email(self, value: str, evidence: str, page: Excerpt) -> str | None:
        address = parse_email(value, page=page.url)
        return address if address is not None and _is_in_evidence(address, evidence) else None

    def parse_phone(self, value: str, evidence: str, _: Excerpt) -> str | None:
        number = parse_phone(value[:40])
        if number is None:
            return None
        digits = number.removeprefix("+")
        # With its country's code, of one to three digits, or without.
        is_stated = any(
            contains_number(evidence, digits[code:]) for code in range(4) if digits[code + 6 :]
        )
        return number if is_stated else None

    def parse_postal_code(self, value: str, evidence: str, _: Excerpt) -> str | None:
        code = parse_postal_code(value)
        return code if code is not None and contains_number(evidence, code) else None

    def parse_year(self, value: str, evidence: str, _: Excerpt) -> str | None:
        year = parse_founding_year(value)
        return year if year is not None and contains_number(evidence, year) else None

    def parse_employees(self, value: str, evidence: str, _: Excerpt) -> str | None:
        employees = parse_employee_range(value)
        if employees is None:
            return None
        is_stated = all(contains_number(evidence, number) for number in employees.split("-"))
        return employees if is_stated else None

    def parse_social(self, value: str, evidence: str, _: Excerpt) -> str | None:
        return parse_social_page(value) if _is_in_evidence(value, evidence) else None

    def parse_website(self, value: str, evidence: str, _: Excerpt) -> str | None:
        try:
            address = parse_url(value if "://" in value else f"http://{value}")
        except PermanentError:
            return None
        if (self._domain and not self.is_own_host(address.host)) or not _is_in_evidence(
            address.host, evidence
        ):
            return None
        return f"{address.scheme}://{address.netloc}/"


_ValueParser = Callable[[ClaimChecker, str, str, Excerpt], str | None]

_VALUE_PARSERS: Mapping[FactField, _ValueParser] = {
    **dict.fromkeys(FactField, ClaimChecker.parse_text),
    FactField.COUNTRY: ClaimChecker.parse_country,
    FactField.PERSON: ClaimChecker.parse_person,
    FactField.UEN: ClaimChecker.parse_uen,
    FactField.EMAIL: ClaimChecker.parse_email,
    FactField.PHONE: ClaimChecker.parse_phone,
    FactField.POSTAL_CODE: ClaimChecker.parse_postal_code,
    FactField.FOUNDED: ClaimChecker.parse_year,
    FactField.EMPLOYEES: ClaimChecker.parse_employees,
    FactField.SOCIAL: ClaimChecker.parse_social,
    FactField.WEBSITE: ClaimChecker.parse_website,
}


def _is_in_evidence(value: str, evidence: str) -> bool:
    wanted = normalize_text(value)
    return bool(wanted) and contains_words(normalize_text(evidence), wanted)


def _find_bounds_error(field: FactField, value: str) -> str:
    if not value:
        return "there is no value"
    if len(value) > _MAX_LENGTHS.get(field, 120):
        return "it is too long for its field"
    if _FORBIDDEN_CHARACTERS.search(value):
        return "it has letters in it that no value of ours has"
    if field not in _FIELDS_WITH_URLS and _URL_OR_EMAIL.search(value):
        return "it has an address in it, in a field that has none"
    return ""


def _reject_claim(field: str, value: str, reason: str) -> RejectedFact:
    return RejectedFact(field=clean_text(str(field))[:40], value=value[:200], reason=reason)
