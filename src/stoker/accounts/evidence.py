"""Check that a text contains a value: the test that every claim about a page must pass.

Spaces, case and invisible characters do not count; words and digits do. Whether a page tells the
truth is not checked.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_EVIDENCE_LENGTH = 600  # characters; longer evidence proves nothing
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


def normalize_text(text: str) -> str:
    """Return a text in the form for comparing: visible letters, one space between words."""
    plain = unicodedata.normalize("NFKC", strip_invisible(text.replace("\r", " ")))
    plain = _QUOTES.sub("'", _DASHES.sub("-", plain))
    return " ".join(plain.casefold().split())


class Evidence:
    """A text that claims are checked against. Build it once for many claims."""

    def __init__(self, text: str) -> None:
        self._folded = normalize_text(text)

    def contains(self, words: str) -> bool:
        wanted = _normalize_words(words)
        return (
            bool(wanted)
            and len(words) <= MAX_EVIDENCE_LENGTH
            and contains_words(self._folded, wanted)
        )


def contains_words(text: str, words: str) -> bool:
    """Return whether a normalized text contains normalized words as whole words.

    A part of a word or of a number is something else: `12` is not in `2012`.
    """
    at = text.find(words)
    while at >= 0:
        if _is_whole_word(text, at, at + len(words)):
            return True
        at = text.find(words, at + 1)
    return False


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


def _is_whole_word(text: str, start: int, end: int) -> bool:
    return not (_is_one_word(text, start) or _is_one_word(text, end))


def _is_one_word(text: str, at: int) -> bool:
    """Return whether the letters before and after a position belong to one word."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    # Scripts without spaces have no ends of words to look for.
    return before.isascii() and after.isascii() and before.isalnum() and after.isalnum()
