"""Check that a text contains a value: the test that every claim about a page must pass.

Spaces, case and invisible characters do not count; words and digits do. Whether a page tells the
truth is not checked.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_EVIDENCE_LENGTH = 600  # characters; longer evidence proves nothing
MAX_MARKS = 10  # accents on one letter; scripts that have most have four
_WORDS = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z]")
_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3})")
_NOT_DIGITS = re.compile(r"[^0-9]+")

# What stands between the digits of one phone number, as people write them.
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[ ()./\u2010-\u2015-]{1,3}(?=[0-9])")
_DASHES = re.compile("[\u2010-\u2015\u2212]")
_QUOTES = re.compile("[\u2018\u2019\u201a\u201b\u2032]")


def strip_invisible(text: str) -> str:
    """Return a text without invisible characters: controls, joiners, direction marks.

    Line breaks stay. Hidden characters can carry words for machines only.
    """
    # By distinct letters: a page has thousands of letters and a few hundred different ones.
    unseen = [
        letter
        for letter in set(text) - {"\n", "\t"}
        if unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cn", "Cs")
    ]
    return text.translate(dict.fromkeys(map(ord, unseen))) if unseen else text


def limit_marks(text: str) -> str:
    """Return a text with at most so many accents on one letter.

    Unicode puts the accents of a letter in order, in a time that grows with their square.
    """
    marks = "".join(letter for letter in set(text) if unicodedata.combining(letter))
    if not marks:
        return text
    return re.sub(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+", r"\1", text)


def normalize_text(text: str) -> str:
    """Return a text in the form for comparing: visible letters, one space between words."""
    visible = strip_invisible(text.replace("\r", " "))
    plain = unicodedata.normalize("NFKC", limit_marks(visible))
    plain = _QUOTES.sub("'", _DASHES.sub("-", plain))
    return " ".join(plain.casefold().split())


class Evidence:
    """A text that claims are checked against. Build it once for many claims."""

    def __init__(self, text: str) -> None:
        self._marked = _mark_words(normalize_text(text))

    def contains(self, words: str) -> bool:
        wanted = _normalize_words(words)
        return (
            bool(wanted)
            and len(words) <= MAX_EVIDENCE_LENGTH
            and _mark_words(wanted) in self._marked
        )


def contains_words(text: str, words: str) -> bool:
    """Return whether a normalized text contains normalized words as whole words.

    A part of a word or of a number is something else: `12` is not in `2012`.
    """
    return _mark_words(words) in _mark_words(text)


def _mark_words(text: str) -> str:
    """Return a text with a mark wherever a word may begin or end.

    One search then finds whole words, in linear time. Scripts without spaces have no ends of words
    to look for, so each of their letters stands alone.
    """
    return "\0".join(["", *_WORDS.findall(text), ""])


def contains_number(text: str, digits: str) -> bool:
    """Return whether a text has these digits as a number of its own, however grouped."""
    wanted = _NOT_DIGITS.sub("", digits)
    if not wanted:
        return False
    plain = _COMMA.sub("", normalize_text(text[:MAX_EVIDENCE_LENGTH]))
    number = re.compile(rf"(?<![0-9]){wanted}(?![0-9])")
    return any(number.search(form) for form in (plain, _BETWEEN_DIGITS.sub("", plain)))


@lru_cache(maxsize=1024)
def _normalize_words(words: str) -> str:
    return normalize_text(words[: MAX_EVIDENCE_LENGTH + 1])
