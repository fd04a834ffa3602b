"""What a page says, as one short text: equal when the page says the same, whatever its markup.

Tokens, clock times and counters come and go with every request and say nothing; they do not count.
Words, prices, names and numbers of all other kinds do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

_TOKENS = re.compile(r"\b(?=[0-9a-z-]{0,31}[0-9])[0-9a-f]{8}(?:-?[0-9a-f]{4}){2,8}[0-9a-f]{0,64}\b")
_MOMENTS = re.compile(
    r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:z|[+-][0-9]{2}:?[0-9]{2})?\b"
    r"|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b"
    r"|(?:mon|tue|wed|thu|fri|sat|sun), [0-9]{1,2} [a-z]{3} [0-9]{4} [0-9:]{4,8}"
)
_COUNTERS = re.compile(
    r"\b[0-9][0-9,.]{0,15}k? (?:views?|visits?|visitors?|online|likes?|shares?|followers?|hits"
    r"|downloads?|reads?)\b"
    r"|\b(?:views|visits|visitors|hits|online now|page generated in|rendered in)"
    r":? [0-9][0-9,.]{0,15}(?: ?(?:ms|s|seconds))?\b"
)
_COPYRIGHT = re.compile(r"(?:©|\(c\)|copyright) ?[0-9]{4}(?: ?[-–] ?[0-9]{4})?")


def said(text: str) -> str:
    """Return the words of a page without what differs on every visit."""
    words = " ".join(text.lower().split())
    for noise in (_TOKENS, _MOMENTS, _COUNTERS, _COPYRIGHT):
        words = noise.sub("", words)
    return " ".join(words.split())


def fingerprint(*texts: str) -> str:
    """Return a short text that is the same for pages that say the same."""
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(said(text).encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def exact_fingerprint(parts: Iterable[str]) -> str:
    """Return a short text that is the same for equal parts in the same order, letter by letter."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()
