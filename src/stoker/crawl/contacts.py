"""Find e-mail addresses, phones and social pages on a page.

Patterns run in bounded time, and forms are checked by libraries. Nothing is looked up: whether a
mailbox or a number works is verified elsewhere, and paid for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from html import unescape
from urllib.parse import unquote

from stoker.accounts.facts import Fact, FactField, Method
from stoker.crawl.page import ParsedPage
from stoker.http.url import is_sandbox_host

MAX_EMAILS = 30
MAX_PHONES = 20
MAX_SOCIAL_PAGES = 20
MAX_ATTEMPTS = 200  # different texts of a page that are parsed as one kind of contact
REGION = "SG"  # the region of a number without a country code
_LOCAL = r"[A-Za-z0-9._%+'-]{1,64}"
_NAME = r"[A-Za-z0-9.-]{1,190}"
_PLAIN = re.compile(rf"(?<![A-Za-z0-9._%+'-]){_LOCAL}@{_NAME}")
_AT = r"\s{0,3}(?:\(at\)|\[at\]|\{at\}|<at>|\(@\)|\[@\]|\sat\s)\s{0,3}"
_DOT = r"\s{0,3}(?:\(dot\)|\[dot\]|\{dot\}|\sdot\s|\.)\s{0,3}"
_LABEL = r"[A-Za-z0-9-]{1,63}"

_OBFUSCATED = re.compile(
    rf"(?<![A-Za-z0-9._%+'-]){_LOCAL}{_AT}{_LABEL}(?:{_DOT}{_LABEL}){{1,4}}", re.IGNORECASE
)

_AT_SIGN = re.compile(_AT, re.IGNORECASE)
_DOT_SIGN = re.compile(_DOT, re.IGNORECASE)
_FILE_NAME = re.compile(r"\.(?:png|jpe?g|gif|webp|svg|ico|css|js|mp4|woff2?)$", re.IGNORECASE)
_EXAMPLES = ("@example.", "@domain.", "@yourdomain", "@email.", "@sentry", "@mysite.", "user@")
_DIGITS = re.compile(r"[0-9+(][0-9 ()./+\u00a0-]{5,24}[0-9]")

_SOCIAL = re.compile(
    r"(?:https?:)?//(?:[a-z]{2,3}\.|www\.|m\.)?"
    r"(linkedin\.com/(?:company|in|school)|facebook\.com|instagram\.com|twitter\.com|x\.com"
    r"|youtube\.com|tiktok\.com|github\.com)/([^?#\s\"'<>]{1,150})",
    re.IGNORECASE,
)

_NO_PROFILES = frozenset(
    ["share", "sharer", "sharer.php", "intent", "tr", "plugins", "dialog", "home", "login", "watch"]
)


def find_contacts(page: ParsedPage, *, url: str) -> list[Fact]:
    """Return the e-mail addresses, phones and social pages on a page, each once, best first."""
    return [
        *_find_facts(
            FactField.EMAIL, _scan_emails(page), partial(parse_email, page=url), url, MAX_EMAILS
        ),
        *_find_facts(FactField.PHONE, _scan_phones(page), parse_phone, url, MAX_PHONES),
        *_find_facts(
            FactField.SOCIAL, _scan_social_pages(page), parse_social_page, url, MAX_SOCIAL_PAGES
        ),
    ]


class BoundedParser:
    """Parses each text once, and only so many: what a page makes us try is bounded, not finds."""

    def __init__(self, parse: Callable[[str], str | None]) -> None:
        self._parse = parse
        self._parsed: dict[str, str | None] = {}

    def __call__(self, text: str) -> str | None:
        if text not in self._parsed and len(self._parsed) < MAX_ATTEMPTS:
            self._parsed[text] = self._parse(text)
        return self._parsed.get(text)


_Candidate = tuple[str, str, Method, float]  # a text, its evidence, how it was found, confidence


def _find_facts(
    field: FactField,
    candidates: Iterable[_Candidate],
    parse: Callable[[str], str | None],
    url: str,
    most: int,
) -> list[Fact]:
    facts: dict[str, Fact] = {}
    parse = BoundedParser(parse)
    for text, evidence, how, confidence in candidates:
        if len(facts) >= most:
            break
        value = parse(text)
        if value is not None and value not in facts:
            facts[value] = Fact.build(
                field, value, source=url, how=how, confidence=confidence, evidence=evidence
            )
    return list(facts.values())


def _scan_emails(page: ParsedPage) -> Iterator[_Candidate]:
    for link in page.links:
        if link.href[:7].lower() == "mailto:":
            for text in unquote(unescape(link.href[7:500])).partition("?")[0].split(","):
                yield text.strip(), link.href[:200], Method.LINK, 0.95
    for code in page.protected_emails:
        if (plain := decode_protected_email(code)) is not None:
            yield plain, f"data-cfemail {code[:100]}", Method.LINK, 0.9
    for match in _PLAIN.finditer(page.text):
        yield match[0].strip(".'"), match[0], Method.TEXT, 0.85
    for match in _OBFUSCATED.finditer(page.text):
        yield _to_plain_email(match[0]), match[0], Method.TEXT, 0.75


def _to_plain_email(text: str) -> str:
    local, _, rest = _AT_SIGN.sub("@", text, count=1).partition("@")
    return f"{local}@{_DOT_SIGN.sub('.', rest)}".strip(".")


def find_emails_in_text(text: str, *, as_written: bool = False) -> list[str]:
    """Return what looks like addresses in a short text, also those written with (at)."""
    plain = [match[0].strip(".'") for match in _PLAIN.finditer(text)]
    hidden = [match[0] for match in _OBFUSCATED.finditer(text)]
    return [*plain, *(hidden if as_written else map(_to_plain_email, hidden))]


def find_phones_in_text(text: str) -> list[str]:
    """Return what looks like phone numbers in a short text, as written there."""
    return [match[0] for match in _DIGITS.finditer(text)]


def parse_email(text: str, *, page: str = "") -> str | None:
    """Return an address on a page in its normal form, or None when it is none to write to."""
    from email_validator import EmailNotValidError, validate_email

    small = text.lower()
    if len(text) > 254 or _FILE_NAME.search(small) or any(part in small for part in _EXAMPLES):
        return None
    try:
        is_sandbox = is_sandbox_host(page.partition("://")[2].partition("/")[0])
        checked = validate_email(
            text, check_deliverability=False, strict=True, test_environment=is_sandbox
        )
    except (EmailNotValidError, ValueError):
        return None
    return checked.normalized.lower()


def decode_protected_email(code: str) -> str | None:
    """Return the address behind the code of a common protection against harvesters."""
    try:
        data = bytes.fromhex(code[:600])
    except ValueError:
        return None
    if len(data) < 2:
        return None
    return bytes(byte ^ data[0] for byte in data[1:]).decode("utf-8", "replace")


def _scan_phones(page: ParsedPage) -> Iterator[_Candidate]:
    for link in page.links:
        if link.href[:4].lower() == "tel:":
            yield unquote(link.href[4:60]), link.href[:100], Method.LINK, 0.95
    for match in _DIGITS.finditer(page.text):
        sure = 0.8 if match[0].startswith(("+", "(+")) else 0.6
        yield match[0], match[0], Method.TEXT, sure


def parse_phone(text: str) -> str | None:
    """Return a number in international form, or None when it cannot be called."""
    import phonenumbers

    if sum(letter.isdigit() for letter in text) < 7:
        return None
    try:
        number = phonenumbers.parse(text, REGION)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_valid_number(number):
        return None
    return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))


def _scan_social_pages(page: ParsedPage) -> Iterator[_Candidate]:
    for link in page.links:
        if _SOCIAL.match(link.href):
            yield link.href, link.href[:200], Method.LINK, 0.9


def parse_social_page(href: str) -> str | None:
    """Return the address of a social profile in one form, or None when it is no profile."""
    match = _SOCIAL.match(href)
    if match is None:
        return None
    network, path = match[1].lower(), match[2].strip("/")
    first = path.partition("/")[0]
    if not first or first.lower() in _NO_PROFILES:
        return None
    place = path if network == "youtube.com" else first
    if network in ("x.com", "twitter.com"):
        return f"https://x.com/{place}"
    return f"https://www.{network}/{place}"
