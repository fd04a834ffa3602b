"""Recognize one person in texts, to erase it, and afterwards to keep it out.

To erase a person we know its address, name and profile, and find them in any text. Afterwards only
keyed hashes are kept: an address or profile counts everywhere, a name at its company. A text is
then searched by hashing what looks like an address, and every few words in a row.
"""

from __future__ import annotations

import hmac
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from stoker.accounts.facts import Fact, FactField
from stoker.accounts.model import CompanyRecord, Contact
from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import map_strings
from stoker.http.url import parse_url

ERASED = "[erased]"

# Still an address, so that a vendor's answer can be read as before; of a domain that never exists.
ERASED_EMAIL = "erased@erased.invalid"

MAX_NAME_WORDS = 5

MIN_PHONE_DIGITS = 7  # fewer are part of too many other numbers

NO_PROFILE = (
    "a profile is a web address that ends in the person's name or number: https://…/in/jane"
)

_EMAIL = re.compile(r"[^\s@\"'(),:;<>\[\]\\]{1,64}(?:@|%40)[\w.-]{3,253}", re.IGNORECASE)

_LINK = re.compile(r"(?:https?:)?//[^\s\"'<>]{4,2000}", re.IGNORECASE)

_WORD = re.compile(r"[^\W\d_]+")

_WHOLE_EMAIL = re.compile(r"[^\s@\w]{0,64}\w[^\s@]{0,254}@(?:[\w-]{1,63}\.)+[\w-]{1,63}")

# Ends of paths under which sites have everybody's profile.
_FOLDERS = ("in", "pub", "people", "profile", "profile.php", "profiles", "team", "user", "users")

_PERSONS_FOLDER = "linkedin.com/in/"

# An address or link goes on in a longer one, of another person: jane@acme.com in jane@acme.com.sg.
_AFTER = r"(?!\.?[\w%])(?!-+\w)"

_LINK_SIGNS = "-._~:/?#[]@!$&'()*+,;=%|"

_NOTHING_BELOW = r"(?!/[^\s?#\"'<>),.;])"

_BEFORE_EMAIL = r"(?:(?<![\w.+-])|(?<=%[0-9a-f]{2}))"

_BEFORE_PROFILE = r"(?<![\w.-])(?:(?:https?:)?//)?(?:(?:www|m|[a-z]{2})\.)?"

_PREFILTER = re.compile(r"[ -~]+")

_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # written without spaces

_ANY_HAN = re.compile(f"[{_HAN}]")

_SEARCHED_WORD = re.compile(rf"[{_HAN}]|(?:(?![{_HAN}])[^\W\d_])+")

_ESCAPED_START = re.compile(r"(?:%[0-9a-f]{2})+", re.IGNORECASE)

_LINK_RUN = re.compile(r"[\w.~+%-]+")

_NAME_END = re.compile(r"[,(|/]| [-–—] ")  # behind it are degrees, roles or first names

_TITLES = ("mr", "mrs", "ms", "mdm", "miss", "sir", "dr", "prof", "dato", "datuk", "herr", "frau")

_DEGREES = ("phd", "mba", "cpa", "cfa", "acca", "pmp", "esq")

_ACCENT = re.compile("[\u0300-\u036f]")


def normalize_name(name: str) -> str:
    """Return the words of a name in small letters."""
    text = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(_WORD.findall(text))


def list_name_forms(name: str) -> frozenset[str]:
    """Return what a name is compared by: its words, and these without accents, if it has any."""
    forms = {normalize_name(name)}
    if not name.isascii():
        plain = _ACCENT.sub("", unicodedata.normalize("NFKD", name)).replace("ı", "i")
        forms.add(normalize_name(plain))
    return frozenset(forms - {""})


def list_person_forms(name: str) -> frozenset[str]:
    """Return the forms of a person's name as given, and without titles and degrees."""
    before, *behind = [
        [word for word in normalize_name(part).split() if word not in (*_TITLES, *_DEGREES)]
        for part in _NAME_END.split(name, maxsplit=1)
    ]
    if len(before) == 1 and behind:  # Doe, Jane
        before = behind[0] + before
    core = list_name_forms(" ".join(before)) if len(before) > 1 else frozenset()
    return list_name_forms(name) | core


def list_contact_forms(name: str) -> frozenset[str]:
    """Return the same with the words in every order that begins elsewhere: Doe, Jane."""
    found = set()
    for form in list_person_forms(name):
        words = form.split()
        found |= {" ".join(words[n:] + words[:n]) for n in range(len(words))}
    return frozenset(found)


def is_searched_name(name: str) -> bool:
    """Return whether a name can be searched for in texts without hitting other things.

    It has two words, or is of a script that writes a whole name as one.
    """
    words = normalize_name(name)
    return " " in words or (len(words) > 1 and words.lower() == words.upper())


def _list_name_parts(name: str) -> set[str]:
    """Return parts in small letters of which a text that has the name has one, as a rule.

    A database compares no letters but ASCII without their case, and JSON has others escaped.
    """
    parts = set()
    composed, apart = unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)
    for spelling in (composed, apart, *list_name_forms(name)):
        plain = [found.lower() for found in re.findall("[A-Za-z]{2,}", spelling)]
        if plain:
            parts.update([each for each in plain if len(each) > 2] or plain)
        elif spelling.lower() == spelling.upper():
            word = max(spelling.split(), key=len)
            parts |= {word, json.dumps(word)[1:-1], quote(word).lower()}
        else:
            parts.add("")
    return parts


def _list_word_spans(text: str) -> list[tuple[int, int]]:
    """Return where words begin and end, each with its accents; a Han character is one."""
    spans: list[tuple[int, int]] = []
    for found in _SEARCHED_WORD.finditer(text):
        start, end = found.span()
        while end < len(text) and _is_mark(text[end]):
            end += 1
        if spans and spans[-1][1] == start and _is_mark(text[start - 1]):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _is_mark(letter: str) -> bool:
    return letter > "\u02ff" and unicodedata.category(letter)[0] == "M"


def _can_be_name(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    start, end = spans[0][0], spans[-1][1]
    if len(spans) > 2:
        return True
    if len(spans) == 1:
        return not _ANY_HAN.match(text[start]) and is_searched_name(text[start:end])
    # Two Han characters in a row of more are mostly a part of another name.
    around = text[max(start - 1, 0) : start] + text[end : end + 1]
    return not (_ANY_HAN.fullmatch(text[start:end][0]) and _ANY_HAN.search(around))


def _replace_names(text: str, is_name: Callable[[str], bool], *, most: int) -> str:
    """Replace names of up to so many words; an address that spells one may be another's."""
    if "%" in text:
        text = _LINK_RUN.sub(lambda run: _replace_in_link(run[0], is_name, most), text)
    parts, done = [], 0
    for address in _EMAIL.finditer(text):
        parts += [_replace_words(text[done : address.start()], is_name, most), address[0]]
        done = address.end()
    return "".join([*parts, _replace_words(text[done:], is_name, most)])


def _replace_in_link(run: str, is_name: Callable[[str], bool], most: int) -> str:
    """Replace names in a part of a link whose letters are escaped, as in jos%C3%A9-d%C3%ADaz."""
    plain = unquote(run)
    if plain == run or "@" in plain:
        return run
    told = _replace_words(plain, is_name, most)
    return run if told == plain else told


def _replace_words(text: str, is_name: Callable[[str], bool], most: int) -> str:
    words = _list_word_spans(text)
    parts, done, at = [], 0, 0
    while at < len(words):
        size = next(
            (
                size
                for size in range(min(most, len(words) - at), 0, -1)
                if _can_be_name(text, words[at : at + size])
                and is_name(text[words[at][0] : words[at + size - 1][1]])
            ),
            0,
        )
        if size:
            parts += [text[done : words[at][0]], ERASED]
            done = words[at + size - 1][1]
        at += size or 1
    return "".join([*parts, text[done:]])


def normalize_profile(url: str) -> str:
    """Return what tells profiles apart: host and path, in small letters."""
    address = url.strip().casefold().partition("#")[0]
    return re.sub(r"^(?:https?:)?//(?:www\.)?", "", address).rstrip("/")


def _list_spellings(profile: str) -> list[str]:
    """Return a profile as given, with its letters as they are read, and as links have them."""
    mark = normalize_profile(profile)
    if _PERSONS_FOLDER in mark:  # there a query only says where the link stood
        mark = mark.partition("?")[0].rstrip("/")
    plain = unquote(mark)
    return list(dict.fromkeys((mark, plain, quote(plain, safe=_LINK_SIGNS).casefold())))


def is_profile_mark(url: str) -> bool:
    """Return whether a profile's address tells one person: host, path, and a name at its end."""
    try:
        parse_url(url if "//" in url else f"https://{url}")
    except PermanentError:
        return False
    path, _, query = _list_spellings(url)[0].partition("?")
    host, *segments = unquote(path).rstrip("/").split("/")
    if not (host and segments and re.search(r"\w", segments[-1])):
        return False
    return bool(query) or segments[-1] not in _FOLDERS


def is_email_mark(email: str) -> bool:
    """Return whether an address is whole, so that no other contains it."""
    return _WHOLE_EMAIL.fullmatch(email) is not None


def is_named_after(email: str, name: str) -> bool:
    """Return whether an address spells this name, as jane.doe2@acme.test spells Jane Doe.

    In either order, and all of it: initials could be another person's.
    """
    words = [word.casefold() for word in _WORD.findall(email.partition("@")[0])]
    turned = {"".join(words[n:] + words[:n]) for n in range(len(words))}
    return any(" " in form and form.replace(" ", "") in turned for form in list_name_forms(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What one person is recognized by. Raises ConfigError when there is nothing."""

    emails: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # one that is no searched name counts as a contact's alone
    phones: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.emails or self.names or self.profiles):
            raise ConfigError("name a person: an email address, a name or a profile")

    def is_contact(self, contact: Contact, *, at_company: bool) -> bool:
        """Return whether a contact is this person; the name counts at the person's company."""
        if contact.email.casefold() in {email.casefold() for email in self.emails}:
            return True
        if not at_company:
            return False
        names = {form for name in self.names for form in list_person_forms(name)}
        if names & list_contact_forms(contact.name):
            return True
        if contact.name:
            return any(is_named_after(email, contact.name) for email in self.emails)
        return any(is_named_after(contact.email, name) for name in self.names)

    def build_search(self, *, with_names: bool) -> PersonSearch:
        """Return how to find this person in texts, and what stays in its place."""
        found = []
        for email in filter(is_email_mark, self.emails):
            local, _, domain = email.casefold().partition("@")
            address = rf"{re.escape(local)}(?:@|%40){re.escape(domain)}"
            found.append((local, _BEFORE_EMAIL + address + _AFTER, ERASED_EMAIL))
        for profile in self.profiles:
            if not is_profile_mark(profile):
                raise ConfigError(NO_PROFILE)
            mark = normalize_profile(profile)
            # Pages below it are the person's only where the site is known to sort by person.
            end = _AFTER if _PERSONS_FOLDER in mark else _AFTER + _NOTHING_BELOW
            for spelling in _list_spellings(profile):
                pattern = _BEFORE_PROFILE + re.escape(spelling) + end + "/?"
                found.append((spelling, pattern, ERASED))
        for phone in self.phones:
            digits = re.sub(r"\D", "", phone)
            if len(digits) < MIN_PHONE_DIGITS:
                continue
            pattern = r"(?<!\d)\+?" + r"[\s().-]{0,3}".join(digits) + r"(?!\d)"
            found.append((digits[-2:], pattern, ERASED))
        names = [name for name in self.names if with_names and is_searched_name(name)]
        return PersonSearch(
            parts=[_to_prefilter(part) for part, _, _ in found],
            patterns=[(re.compile(pattern, re.IGNORECASE), stays) for _, pattern, stays in found],
            name_parts=sorted({part for name in names for part in _list_name_parts(name)}),
            name_forms=frozenset(form for name in names for form in list_person_forms(name)),
            most_words=max((len(_list_word_spans(name)) for name in names), default=0),
        )

    def redact(self, text: str, *, with_names: bool = True) -> str:
        """Return the text without this person."""
        return self.build_search(with_names=with_names).redact(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSearch:
    """How one person is found in texts.

    The parts are for a database: in small letters, one is in any text that has the person.
    """

    parts: Sequence[str]
    patterns: Sequence[tuple[re.Pattern[str], str]]  # each with what stays
    name_parts: Sequence[str]
    name_forms: frozenset[str]
    most_words: int  # of a name

    def redact(self, text: str) -> str:
        """Return the text without the person."""
        for pattern, stays in self.patterns:
            text = pattern.sub(stays, text)
        lowered = text.lower() if self.name_forms else ""
        if not self.name_forms or not any(part in lowered for part in self.name_parts):
            return text
        return _replace_names(text, self._is_name, most=self.most_words)

    def _is_name(self, text: str) -> bool:
        return bool(self.name_forms & list_name_forms(text))


def _to_prefilter(part: str) -> str:
    return max(_PREFILTER.findall(part), key=len, default="")


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Keyed hashes of erased persons of one tenant."""

    key: bytes = b""
    digests: frozenset[str] = field(default_factory=frozenset)
    companies: frozenset[str] = field(default_factory=frozenset)  # at which a name is kept out

    def __bool__(self) -> bool:
        return bool(self.digests)

    def compute_digest(self, kind: str, value: str) -> str:
        """Return the keyed hash of a mark; it does not reveal the mark."""
        return hmac.digest(self.key, f"{kind}\0{value}".encode(), "sha256").hex()

    def list_digests(self, person: Person, companies: Iterable[str]) -> dict[str, str]:
        """Return the hashes to keep of a person, each with its kind or company."""
        marks = [("email", email.casefold(), "email") for email in person.emails]
        marks += [
            ("profile", spelling, "profile")
            for url in person.profiles
            for spelling in _list_spellings(url)
        ]
        marks += [
            ("name", f"{company}\0{form}", f"name/{company}")
            for name in person.names
            for form in sorted(list_person_forms(name))
            for company in companies
        ]
        marks += [  # as in an address that spells the name
            ("letters", f"{company}\0{form.replace(' ', '')}", f"name/{company}")
            for name in person.names
            for form in sorted(list_person_forms(name))
            if " " in form
            for company in companies
        ]
        return {self.compute_digest(kind, value): told for kind, value, told in marks}

    def has_email(self, email: str) -> bool:
        """Return whether an address is an erased person's."""
        return bool(self) and self._has("email", email.casefold().replace("%40", "@"))

    def has_profile(self, url: str) -> bool:
        """Return whether a profile is an erased person's."""
        mark = normalize_profile(url)
        marks = {mark, mark.partition("?")[0].rstrip("/")}
        return bool(self) and any(self._has("profile", each) for each in marks)

    def has_name(self, name: str, company: str) -> bool:
        """Return whether a name is that of a person erased at this company."""
        return company in self.companies and any(
            self._has("name", f"{company}\0{form}") for form in list_name_forms(name)
        )

    def _has(self, kind: str, value: str) -> bool:
        return self.compute_digest(kind, value) in self.digests

    def redact(self, text: str, company: str = "") -> str:
        """Return the text without addresses, profiles and, at this company, names erased."""
        if not self:
            return text
        text = _EMAIL.sub(lambda found: self._redact_email(found[0]), text)
        text = _LINK.sub(lambda found: self._redact_link(found[0]), text)
        if company not in self.companies:
            return text
        return _replace_names(text, lambda name: self.has_name(name, company), most=MAX_NAME_WORDS)

    def _redact_link(self, found: str) -> str:
        link = found.rstrip(".,;:!?)]")
        return ERASED + found[len(link) :] if self.has_profile(link) else found

    def _redact_email(self, found: str) -> str:
        escaped = _ESCAPED_START.match(found)
        before = escaped[0] if escaped else ""
        address = found[len(before) :].rstrip(".-")
        after = found[len(before) + len(address) :]
        return before + ERASED_EMAIL + after if self.has_email(address) else found

    def filter_record(self, record: CompanyRecord) -> CompanyRecord:
        """Return what is known of a company without the persons that were erased."""
        if not self:
            return record
        company = record.company.id
        score, site = record.score, record.site
        if site is not None:
            proof, source = self.redact(site.proof, company), self.redact(site.source, company)
            site = replace(site, proof=proof, source=source)
        if score is not None:
            score = replace(score, rationale=self.redact(score.rationale, company))
        return replace(
            record,
            facts=self.filter_facts(record.facts, company),
            contacts=self.filter_contacts(record.contacts, company),
            score=score,
            site=site,
        )

    def filter_contacts(self, contacts: Sequence[Contact], company: str) -> tuple[Contact, ...]:
        """Return the contacts that were not erased."""
        if not self:
            return tuple(contacts)
        return tuple(each for each in contacts if not self._is_erased(each, company))

    def _is_erased(self, contact: Contact, company: str) -> bool:
        if contact.email == ERASED_EMAIL or ERASED in contact.name:
            return True
        if contact.email and self.has_email(contact.email):
            return True
        if company not in self.companies:
            return False
        if contact.name:
            return self._has_contact_name(contact.name, company)
        words = [word.casefold() for word in _WORD.findall(contact.email.partition("@")[0])]
        turned = [words[n:] + words[:n] for n in range(len(words))]
        return any(
            self._has("letters", f"{company}\0{''.join(each)}")
            or self._has("name", f"{company}\0{' '.join(each)}")
            for each in turned
        )

    def _has_contact_name(self, name: str, company: str) -> bool:
        return company in self.companies and any(
            self._has("name", f"{company}\0{form}") for form in list_contact_forms(name)
        )

    def filter_facts(self, facts: Sequence[Fact], company: str) -> tuple[Fact, ...]:
        """Return the facts that name no erased person; words around others are taken out."""
        if not self:
            return tuple(facts)
        kept = []
        for fact in facts:
            told = self.redact(fact.value, company)
            is_about_it = told != fact.value or ERASED in told or ERASED_EMAIL in told
            if fact.field is FactField.PERSON:  # a name, or a name and a role
                is_about_it |= self._has_contact_name(fact.value.partition("|")[0], company)
            if is_about_it and fact.field is not FactField.ABOUT:
                continue
            kept.append(
                replace(
                    fact,
                    value=told,
                    source=self.redact(fact.source, company),
                    evidence=self.redact(fact.evidence, company),
                )
            )
        return tuple(kept)

    def has_any_name(self, text: str, company: str = "") -> bool:
        """Return whether a text has an erased person; without a company, one of any company."""
        companies = (company,) if company else ("", *self.companies)
        return any(self.redact(text, each) != text for each in companies)

    def redact_json(self, value: Any, company: str = "") -> Any:
        """Return a JSON value with every text in it as `redact` leaves it."""
        return map_strings(value, lambda text: self.redact(text, company)) if self else value


def redact_texts(suppressed: Suppressions, texts: Sequence[str], company: str) -> list[str]:
    """Return each text as `redact` leaves it; a function, so that a worker process can run it."""
    return [suppressed.redact(text, company) for text in texts]
