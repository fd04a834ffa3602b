"""Find duplicate postings across sources.

Two postings are duplicates when they have one address, tracking parameters aside, or the same
company, title and day (without a day: location); without a company name only the address counts.
Within one source nothing is a duplicate: a company may have two openings of a kind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from stoker.accounts.websites import get_significant_words
from stoker.base.types import Job

KeyArray = NDArray[np.uint64]
_TRACKING_PARAMETER = re.compile(r"utm_.*|gh_src|lever-source.*|source|src|ref|fbclid|gclid")
_WORD_PATTERN = re.compile(r"[^\W_]+")


def compute_duplicate_keys(job: Job) -> tuple[int, int]:
    """Return what a posting is recognised by: one number for its address, one for its words."""
    at, employer = (
        _hash_text(f"at|{normalize_posting_url(job.url)}"),
        get_significant_words(job.company),
    )
    if not employer:
        return at, at  # many companies post the same title on the same day
    title = " ".join(_WORD_PATTERN.findall(job.title.casefold()))
    when = job.posted_at.date().isoformat() if job.posted_at else ""
    place = "" if when else " ".join(_WORD_PATTERN.findall(job.location.casefold()))
    words = "|".join((" ".join(employer), title, when, place))
    return at, _hash_text(f"says|{words}")


def normalize_posting_url(url: str) -> str:
    """Return an address without what makes no difference to where it leads."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    significant = sorted(
        pair for pair in parameters if not _TRACKING_PARAMETER.fullmatch(pair[0].lower())
    )
    host = parts.netloc.casefold().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{significant}"


class DuplicateIndex:
    """The keys of all sources read so far: sixteen bytes a posting, however many there are.

    A source's own keys are looked for among those of the sources before it, so they stay
    apart until the source is done.
    """

    def __init__(self) -> None:
        self._earlier_keys: list[KeyArray] = []  # sorted, each at least twice as long as the next
        self._source_keys: list[KeyArray] = []

    def mark_duplicates(self, keys: Sequence[tuple[int, int]]) -> list[bool]:
        """Say of each posting of a source whether one before it listed the same; remember it."""
        asked = np.array(keys, np.uint64).reshape(-1, 2)
        found = np.zeros(asked.shape, np.bool_)
        for some in self._earlier_keys:
            at = np.minimum(np.searchsorted(some, asked), len(some) - 1)
            found |= some[at] == asked
        self._source_keys.append(asked.ravel())
        return [bool(each) for each in found[:, 0] | found[:, 1]]

    def finish_source(self) -> None:
        """Be done with one source: what it listed may have duplicates in the next."""
        own = (
            np.unique(np.concatenate(self._source_keys))
            if self._source_keys
            else np.array([], np.uint64)
        )
        self._source_keys = []
        if not len(own):
            return
        self._earlier_keys.append(own)
        while len(self._earlier_keys) > 1 and len(self._earlier_keys[-2]) < 2 * len(
            self._earlier_keys[-1]
        ):
            last, other = self._earlier_keys.pop(), self._earlier_keys.pop()
            self._earlier_keys.append(np.unique(np.concatenate((other, last))))


def _hash_text(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
