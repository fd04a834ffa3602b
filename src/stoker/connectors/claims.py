"""What may be believed of what a model claims to have read: only what the pages really say.

A claim is a field, a value, and the words it was read in. The words must stand in one page, the
value in those words, and it must have the form of its field; anything else is dropped with a
reason. So a model that obeys a page, or makes things up, changes nothing. How a model is asked is
not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from stoker.connectors.contact_reading import (
    email_address,
    is_make_believe,
    phone_number,
    social_page,
)
from stoker.core.evidence import LONGEST_EVIDENCE, Evidence, folded, says, says_number, visible
from stoker.core.extracting import Excerpt, Extraction
from stoker.core.findings import Dropped, Field, Finding, How
from stoker.core.model import clean_text
from stoker.core.registered_facts import employee_range, founding_year, postal_code, uen_number
from stoker.core.urls import web_address
from stoker.errors import PermanentError

SURE = 0.6
STRANGE_EMAIL = 0.35  # an address elsewhere: perhaps a founder's, perhaps a web designer's
SECOND_HAND = 0.6  # how much is left of our trust when another site speaks of the company
MOST_OF_A_FIELD = 10
MOST_PEOPLE = 40
_LONGEST: Mapping[Field, int] = {
    Field.ABOUT: 500,
    Field.ADDRESS: 250,
    Field.LEGAL_NAME: 200,
    Field.NAME: 150,
    Field.SOCIAL: 200,
    Field.WEBSITE: 200,
}
_NOT_IN_VALUES = re.compile(r"[<>{}\\`\x00-\x1f\x7f]")
_ADDRESS = re.compile(r"(?i)https?:|www\.|@")
_ANYWHERE = frozenset({Field.WEBSITE, Field.SOCIAL, Field.EMAIL, Field.ABOUT})


class Claims:
    """A judge of claims about one question's pages."""

    def __init__(self, question: Extraction) -> None:
        self._domain = question.domain
        self._pages = [(excerpt, Evidence(excerpt.text)) for excerpt in question.excerpts]
        self._taken: Counter[Field] = Counter()

    def judged(self, field: str, value: str, evidence: str) -> Finding | Dropped:
        """Return the claim as a finding, or why it is none. Never raises."""
        try:
            kind = Field(field)
        except ValueError:
            return _dropped(field, value, "there is no such field")
        value = " ".join(visible(clean_text(value[:5_000])).split())
        evidence = " ".join(visible(clean_text(evidence[:5_000])).split())
        if because := _out_of_bounds(kind, value):
            return _dropped(kind, value, because)
        page = self._page(evidence)
        if page is None:
            return _dropped(kind, value, "its evidence does not stand in the pages")
        form = _FORMS[kind](self, value, evidence, page)
        if form is None:
            return _dropped(kind, value, "its evidence does not say so, or it has another form")
        most = MOST_PEOPLE if kind is Field.PERSON else MOST_OF_A_FIELD
        if self._taken[kind] >= most:
            return _dropped(kind, value, f"there are {most} of this field already")
        self._taken[kind] += 1
        return Finding.found(
            kind,
            form,
            source=page.url,
            how=How.LLM,
            confidence=self._confidence(kind, form, page),
            evidence=evidence,
        )

    def _page(self, evidence: str) -> Excerpt | None:
        if len(evidence) > LONGEST_EVIDENCE:
            return None
        return next((page for page, text in self._pages if text.holds(evidence)), None)

    def _confidence(self, field: Field, value: str, page: Excerpt) -> float:
        sure = SURE
        if field is Field.EMAIL and self._domain and not self.own(value.partition("@")[2]):
            sure = STRANGE_EMAIL
        host = page.url.partition("://")[2].partition("/")[0]
        return sure if not self._domain or self.own(host) else round(sure * SECOND_HAND, 3)

    def own(self, host: str) -> bool:
        """Say whether a host is the company's own."""
        return f".{host.lower()}".endswith(f".{self._domain}")

    def as_text(self, value: str, evidence: str, _: Excerpt) -> str | None:
        return value if _stands(value, evidence) else None

    def as_country(self, value: str, evidence: str, _: Excerpt) -> str | None:
        if not _stands(value, evidence):
            return None
        return "SG" if value.lower() == "singapore" else value

    def as_person(self, value: str, evidence: str, _: Excerpt) -> str | None:
        name, _bar, role = (part.strip() for part in value.partition("|"))
        if not name or not _stands(name, evidence) or (role and not _stands(role, evidence)):
            return None
        return f"{name} | {role}" if role else name

    def as_uen(self, value: str, evidence: str, _: Excerpt) -> str | None:
        number = uen_number(value)
        return number if number is not None and _stands(number, evidence) else None

    def as_email(self, value: str, evidence: str, page: Excerpt) -> str | None:
        address = email_address(value, make_believe=is_make_believe(page.url))
        return address if address is not None and _stands(address, evidence) else None

    def as_phone(self, value: str, evidence: str, _: Excerpt) -> str | None:
        number = phone_number(value[:40])
        if number is None:
            return None
        digits = number.removeprefix("+")
        # With its country's code, of one to three digits, or without.
        said = any(says_number(evidence, digits[code:]) for code in range(4) if digits[code + 6 :])
        return number if said else None

    def as_postal_code(self, value: str, evidence: str, _: Excerpt) -> str | None:
        code = postal_code(value)
        return code if code is not None and says_number(evidence, code) else None

    def as_year(self, value: str, evidence: str, _: Excerpt) -> str | None:
        year = founding_year(value)
        return year if year is not None and says_number(evidence, year) else None

    def as_employees(self, value: str, evidence: str, _: Excerpt) -> str | None:
        employees = employee_range(value)
        if employees is None:
            return None
        said = all(says_number(evidence, number) for number in employees.split("-"))
        return employees if said else None

    def as_social(self, value: str, evidence: str, _: Excerpt) -> str | None:
        return social_page(value) if _stands(value, evidence) else None

    def as_website(self, value: str, evidence: str, _: Excerpt) -> str | None:
        try:
            address = web_address(value if "://" in value else f"http://{value}")
        except PermanentError:
            return None
        if (self._domain and not self.own(address.host)) or not _stands(address.host, evidence):
            return None
        return f"{address.scheme}://{address.netloc}/"


_Form = Callable[[Claims, str, str, Excerpt], str | None]
_FORMS: Mapping[Field, _Form] = {
    **dict.fromkeys(Field, Claims.as_text),
    Field.COUNTRY: Claims.as_country,
    Field.PERSON: Claims.as_person,
    Field.UEN: Claims.as_uen,
    Field.EMAIL: Claims.as_email,
    Field.PHONE: Claims.as_phone,
    Field.POSTAL_CODE: Claims.as_postal_code,
    Field.FOUNDED: Claims.as_year,
    Field.EMPLOYEES: Claims.as_employees,
    Field.SOCIAL: Claims.as_social,
    Field.WEBSITE: Claims.as_website,
}


def _stands(value: str, evidence: str) -> bool:
    wanted = folded(value)
    return bool(wanted) and says(folded(evidence), wanted)


def _out_of_bounds(field: Field, value: str) -> str:
    if not value:
        return "there is no value"
    if len(value) > _LONGEST.get(field, 120):
        return "it is too long for its field"
    if _NOT_IN_VALUES.search(value):
        return "it has letters in it that no value of ours has"
    if field not in _ANYWHERE and _ADDRESS.search(value):
        return "it has an address in it, in a field that has none"
    return ""


def _dropped(field: str, value: str, because: str) -> Dropped:
    return Dropped(field=clean_text(str(field))[:40], value=value[:200], because=because)
