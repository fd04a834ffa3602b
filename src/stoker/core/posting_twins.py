"""Which postings are the same opening, listed by two sources.

Two are twins when they have one address, but for what only says where a reader came from, or when
company, title and day (without a day: place) are the same words; of a company nobody names, only
the address counts. Within one source nothing is a twin: a company may look for two of a kind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from stoker.core.model import Job
from stoker.core.websites import name_words

Keys = NDArray[np.uint64]

_ONLY_SAYS_WHERE_FROM = re.compile(r"utm_.*|gh_src|lever-source.*|source|src|ref|fbclid|gclid")
_WORDS = re.compile(r"[^\W_]+")


def twin_keys(job: Job) -> tuple[int, int]:
    """Return what a posting is recognised by: one number for its address, one for its words."""
    at, employer = _number(f"at|{plain_address(job.url)}"), name_words(job.company)
    if not employer:
        return at, at  # many look for somebody of the same title on the same day
    title = " ".join(_WORDS.findall(job.title.casefold()))
    when = job.posted_at.date().isoformat() if job.posted_at else ""
    place = "" if when else " ".join(_WORDS.findall(job.location.casefold()))
    words = "|".join((" ".join(employer), title, when, place))
    return at, _number(f"says|{words}")


def plain_address(url: str) -> str:
    """Return an address without what makes no difference to where it leads."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    said = parse_qsl(parts.query, keep_blank_values=True)
    kept = sorted(pair for pair in said if not _ONLY_SAYS_WHERE_FROM.fullmatch(pair[0].lower()))
    host = parts.netloc.casefold().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{kept}"


class Twins:
    """The keys of all sources read so far: sixteen bytes a posting, however many there are.

    A source's own keys are looked for among those of the sources before it, so they are kept
    apart until the source is done.
    """

    def __init__(self) -> None:
        self._before: list[Keys] = []  # sorted, each at least twice as long as the next
        self._own: list[Keys] = []

    def among(self, keys: Sequence[tuple[int, int]]) -> list[bool]:
        """Say of each posting of a source whether one before it listed the same; remember it."""
        asked = np.array(keys, np.uint64).reshape(-1, 2)
        found = np.zeros(asked.shape, np.bool_)
        for some in self._before:
            at = np.minimum(np.searchsorted(some, asked), len(some) - 1)
            found |= some[at] == asked
        self._own.append(asked.ravel())
        return [bool(each) for each in found[:, 0] | found[:, 1]]

    def next_source(self) -> None:
        """Be done with one source: what it listed may have twins in the next."""
        own = np.unique(np.concatenate(self._own)) if self._own else np.array([], np.uint64)
        self._own = []
        if not len(own):
            return
        self._before.append(own)
        while len(self._before) > 1 and len(self._before[-2]) < 2 * len(self._before[-1]):
            last, other = self._before.pop(), self._before.pop()
            self._before.append(np.unique(np.concatenate((other, last))))


def _number(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
