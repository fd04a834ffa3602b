"""Searching the web and reading pages through a vendor: what is asked, what comes back, its worth.

Pages are strangers' words: addresses are checked, texts cleaned and cut. Who is asked, and for
how much, is not known here.

Which site is a company's own, among the pages a search led to; which pages speak of it at all.

A register knows names, not sites. A name in a host's name is good evidence, a name in a text is
not: directories and newspapers write about everybody. What a site says of its owner's number is
the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.accounts.facts import Fact, FactField
from stoker.base.errors import PermanentError
from stoker.http.url import parse_url


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A page a search led to."""

    url: str
    title: str
    text: str
    score: float = 0.0  # 0 to 1, the engine's own


_WORDS = re.compile(r"[^\W_]+")

_GENERIC_WORDS = frozenset(  # words that tell one company from another as little as its legal form
    (
        "pte", "ltd", "limited", "llp", "llc", "lp", "inc", "co", "company", "corp", "corporation",
        "private", "public", "the", "and", "of", "singapore", "branch",
        "sg",
    )
)  # fmt: skip

_SHARED_SITES = (  # sites that have a page about everybody, and belong to none of them
    "linkedin", "facebook", "instagram", "twitter", "youtube", "tiktok", "wikipedia", "glassdoor",
    "indeed", "jobstreet", "crunchbase", "bloomberg", "sgpbusiness", "recordowl", "companieshouse",
    "opencorporates", "yellowpages", "directory", "carousell", "google", "github", "medium",
)  # fmt: skip

_MIN_CONFIDENCE = 0.6

_MIN_WORD_LENGTH = 4  # letters; a shorter host's name says too little


def get_significant_words(name: str) -> tuple[str, ...]:
    """Return the words of a company's name that tell it from others, in small letters."""
    words = [word.casefold() for word in _WORDS.findall(name)]
    telling = tuple(word for word in words if word not in _GENERIC_WORDS)
    return telling or tuple(words)


def find_company_website(name: str, pages: Iterable[SearchHit]) -> str | None:
    """Return the address of the site that is most surely the company's own, if one is."""
    best: tuple[float, str] | None = None
    for page in pages:
        try:
            address = parse_url(page.url)
        except PermanentError:
            continue
        sure = _score_host(get_significant_words(name), address.host, page.title)
        if sure >= _MIN_CONFIDENCE and (best is None or sure > best[0]):
            best = (sure, f"{address.scheme}://{address.netloc}/")
    return best[1] if best else None


def mentions_company(name: str, page: SearchHit) -> bool:
    """Say whether a page names this company, every telling word of it."""
    said = f"{page.title} {page.text}".casefold()
    words = set(_WORDS.findall(said))
    return all(word in words for word in get_significant_words(name))


def find_other_uen(number: str, findings: Iterable[Fact]) -> str:
    """Return the number of another company that a site says it belongs to, or an empty text."""
    told = [finding.value.upper() for finding in findings if finding.field is FactField.UEN]
    return "" if not told or number.upper() in told else told[0]


def get_host(website: str) -> str:
    """Return the host of a site without `www.`, or an empty text when it is no web address."""
    try:
        address = parse_url(website if "://" in website[:12] else f"http://{website}")
    except PermanentError:
        return ""
    return address.host.removeprefix("www.")


def _score_host(words: tuple[str, ...], host: str, title: str) -> float:
    """Say how sure it is, from 0 to 1, that a host is the company's own."""
    labels = host.removeprefix("www.").split(".")
    if any(label in _SHARED_SITES for label in labels) or not words:
        return 0.0
    label = "".join(_WORDS.findall(labels[0])).casefold()
    joined = "".join(words)
    titled = set(_WORDS.findall(title.casefold())) >= set(words)
    if label == joined:
        return 1.0
    if len(joined) >= _MIN_WORD_LENGTH and label.startswith(joined):
        return 0.9 if titled else 0.7
    if len(label) >= _MIN_WORD_LENGTH and joined.startswith(label):
        return 0.8 if titled else 0.6
    return 0.6 if titled and len(words[0]) >= _MIN_WORD_LENGTH and words[0] in label else 0.0
