"""Recognise companies and persons that people already have in a CRM.

A company is recognised by its number, else by its website, else by its mail domain, else by its
name, each in whatever way people wrote it. A doubtful match is neither linked nor doubled: it is a
`Doubt`, and people decide. A person is recognised by address.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.accounts.identifiers import parse_uen
from stoker.accounts.websites import get_host
from stoker.base.types import Json
from stoker.crm.model import CompanyIdentity

COMPANY_COLUMNS = ("name", "company_registry", "vat", "website", "email", "active")

_NUMBER_COLUMNS = ("company_registry", "vat")

_MIN_DIGITS = 5  # of a register's number

MIN_NAME_LENGTH = 3  # characters; a shorter name fits too many

_NOT_ALPHANUMERIC = re.compile(r"[^0-9A-Z]")

_WORDS = re.compile(r"[^\W_]+")

_LEGAL_FORMS = {  # by the word at the end of a name: which form it is a part of
    "pte": "limited", "ltd": "limited", "limited": "limited", "private": "limited",
    "llp": "llp", "lp": "lp", "llc": "llc", "inc": "inc", "incorporated": "inc", "plc": "plc",
    "sdn": "bhd", "bhd": "bhd", "berhad": "bhd", "gmbh": "gmbh", "ag": "ag", "bv": "bv",
    "pty": "limited", "sarl": "sarl", "srl": "srl", "kk": "kk",
}  # fmt: skip

_SHARED_HOSTS = frozenset(  # where many companies have their pages
    (
        "linkedin.com", "facebook.com", "instagram.com", "twitter.com", "x.com", "youtube.com",
        "tiktok.com", "carousell.sg", "carousell.com", "shopee.sg", "lazada.sg", "google.com",
        "sites.google.com", "github.com", "github.io", "medium.com", "linktr.ee", "wixsite.com",
        "wordpress.com", "blogspot.com", "business.site", "sgpbusiness.com", "bit.ly",
    )
)  # fmt: skip

FREE_MAIL_HOSTS = frozenset(
    (
        "gmail.com", "googlemail.com", "yahoo.com", "yahoo.com.sg", "ymail.com", "hotmail.com",
        "hotmail.sg", "outlook.com", "outlook.sg", "live.com", "live.com.sg", "msn.com",
        "icloud.com", "me.com", "mac.com", "aol.com", "gmx.com", "gmx.net", "gmx.de", "mail.com",
        "proton.me", "protonmail.com", "zoho.com", "yandex.com", "qq.com", "163.com", "126.com",
        "singnet.com.sg", "pacific.net.sg", "starhub.net.sg", "web.de",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Match:
    """The record that a company is."""

    id: int
    by: str  # number, website, mail domain or name


@dataclass(frozen=True, slots=True)
class Doubt:
    """Records that a company may be, and why people must say."""

    ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownCompany:
    id: int
    is_active: bool
    numbers: frozenset[str]  # it may be found by
    own_numbers: frozenset[str]  # a company with none of these is another one
    host: str
    mail_domain: str
    name: str
    form: str


@dataclass(slots=True)
class CompanyIndex:
    """The companies of a CRM, by everything they can be recognised by."""

    last_id: int = 0  # of the records added so far
    _by_key: dict[tuple[str, str], list[_KnownCompany]] = field(default_factory=dict)

    def add(self, id_: int, values: Mapping[str, Json]) -> None:
        """Add one company as the CRM has it; `values` are those of `COMPANY_COLUMNS`."""
        texts = {
            column: value
            for column in COMPANY_COLUMNS
            if isinstance(value := values.get(column), str)
        }
        name, form = split_legal_form(texts.get("name", ""))
        registry, vat = (normalize_number(texts.get(each, "")) for each in _NUMBER_COLUMNS)
        known = _KnownCompany(
            id=id_,
            is_active=bool(values.get("active", True)),
            numbers=frozenset(filter(None, (registry, vat))),
            # A tax number need not be the register's: another one there proves nothing.
            own_numbers=frozenset(
                each for each in (registry, parse_uen(vat) or "") if _is_register_number(each)
            ),
            host=get_own_host(texts.get("website", "")),
            mail_domain=get_mail_domain(texts.get("email", "")),
            name=name,
            form=form,
        )
        self.last_id = max(self.last_id, id_)
        keys = [("number", number) for number in known.numbers]
        keys += [("host", known.host), ("mail", known.mail_domain), ("name", known.name)]
        for key in keys:
            if key[1]:
                self._by_key.setdefault(key, []).append(known)

    def find(self, company: CompanyIdentity) -> Match | Doubt | None:
        """Return the company's record, a doubt, or None when it is not there."""
        number = normalize_number(company.number)
        if same := self._list("number", [number]):
            return _choose(same, by="number")
        others = [
            ("website", self._list("host", [get_own_host(company.website)])),
            ("mail domain", self._list("mail", company.mail_domains)),
        ]
        name, form = split_legal_form(company.name)
        for by, found in others:
            if same := [each for each in found if not _is_another(each, number)]:
                alike = [each for each in same if name and each.name == name]
                return _choose(alike if len(same) > 1 and alike else same, by=by)
        found = self._list("name", [name] if len(name) >= MIN_NAME_LENGTH else [])
        if not (same := [each for each in found if not _is_another(each, number)]):
            return None
        chosen = _choose(same, by="name")
        known = next(each for each in same if isinstance(chosen, Doubt) or each.id == chosen.id)
        if isinstance(chosen, Match) and (why := _find_contradiction(known, company, form)):
            return Doubt((chosen.id,), f"a company of this name is there, with {why}")
        return chosen

    def _list(self, kind: str, keys: Iterable[str]) -> list[_KnownCompany]:
        """Return the records with one of these keys: those that are not archived, if any."""
        found = {each.id: each for key in keys if key for each in self._by_key.get((kind, key), ())}
        active = [each for each in found.values() if each.is_active]
        return active or list(found.values())


def _choose(same: Sequence[_KnownCompany], *, by: str) -> Match | Doubt:
    if len(same) == 1:
        return Match(same[0].id, by)
    return Doubt(
        tuple(each.id for each in same),
        f"{len(same)} companies there have its {by}; merge them, or give the right one its number",
    )


def _is_another(known: _KnownCompany, number: str) -> bool:
    """Return whether a record has a number, and it is another company's."""
    return bool(number and known.own_numbers) and number not in known.numbers


def _find_contradiction(known: _KnownCompany, company: CompanyIdentity, form: str) -> str:
    """Return what speaks against a match by name alone."""
    host, domains = get_own_host(company.website), set(company.mail_domains)
    if known.host and host and known.host != host:
        return "another website"
    if known.mail_domain and (domains or host) and known.mail_domain not in domains | {host}:
        return "another mail domain"
    if known.form and form and known.form != form:
        return "another legal form"
    return ""


def _is_register_number(text: str) -> bool:
    """Return whether people wrote a number there, and not a word."""
    return sum(letter.isdigit() for letter in text) >= _MIN_DIGITS


def normalize_number(text: str) -> str:
    """Return a registration number without spaces, signs and case."""
    return _NOT_ALPHANUMERIC.sub("", text[:60].upper())


def get_own_host(website: str) -> str:
    """Return the host of a website without `www.`; empty for one that many companies share."""
    host = get_host(website.strip()) if website.strip() else ""
    return "" if host in _SHARED_HOSTS else host


def get_mail_domain(email: str) -> str:
    """Return the domain of an address; empty for a free mail host's."""
    domain = email.strip().rstrip(">").rpartition("@")[2].casefold() if "@" in email else ""
    return "" if domain in FREE_MAIL_HOSTS else domain


def split_legal_form(name: str) -> tuple[str, str]:
    """Return a name without its legal form, case and punctuation; and which form it had."""
    plain = unicodedata.normalize("NFKC", name[:300]).casefold().replace("&", " and ")
    words = _WORDS.findall(plain.replace(".", "").replace("'", "").replace("’", ""))
    form = ""
    while len(words) > 1 and words[-1] in _LEGAL_FORMS:
        form = _LEGAL_FORMS[words.pop()]
    return " ".join(words), form


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    """A record that has an address."""

    id: int
    is_active: bool
    company: int | None  # the company it is under
    is_company: bool = False


def find_person(people: Sequence[KnownPerson], *, company: int | None) -> KnownPerson | None:
    """Return the person at this company among records with the same address, or None.

    One under the company, else one without a company; not archived before archived. A record under
    another company is another person, or the same one in another office.
    """
    persons = [each for each in people if not each.is_company]
    for place in (company, None):
        here = [each for each in persons if each.company == place]
        if here:
            return min(here, key=lambda each: (not each.is_active, each.id))
    return None
