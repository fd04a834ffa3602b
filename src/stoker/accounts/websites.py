"""Find a company's own website among search results, and the results that mention it.

A register lists names, not sites. A name in a host is good evidence; a name in a text is not,
because directories and newspapers write about all companies. The registration number on a site
decides.
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

_SHARED_SITES = (  # directories and networks that list all companies
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
    """Return the URL of the site that is most likely the company's own, or None."""
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
    """Return whether a page contains every significant word of the company's name."""
    text = f"{page.title} {page.text}".casefold()
    words = set(_WORDS.findall(text))
    return all(word in words for word in get_significant_words(name))


def find_other_uen(number: str, facts: Iterable[Fact]) -> str:
    """Return the number of another company that the site belongs to, or an empty text."""
    numbers = [fact.value.upper() for fact in facts if fact.field is FactField.UEN]
    return "" if not numbers or number.upper() in numbers else numbers[0]


def get_host(website: str) -> str:
    """Return the host of a site without `www.`, or an empty text when it is no URL."""
    try:
        address = parse_url(website if "://" in website[:12] else f"http://{website}")
    except PermanentError:
        return ""
    return address.host.removeprefix("www.")


def _score_host(words: tuple[str, ...], host: str, title: str) -> float:
    """Return how likely, from 0 to 1, a host is the company's own."""
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
