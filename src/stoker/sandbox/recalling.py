"""Which companies a text speaks of: by domain, by UEN, by the words of their names.

Names are looked up in a list of places by words, made at the first question; it holds numbers
only, and of a very large world only the first part.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from stoker.sandbox.world import Company, World

MOST_INDEXED = 200_000
_WORD = re.compile(r"[a-z0-9]+")
_DOMAIN = re.compile(r"\b[a-z0-9][a-z0-9.-]{0,80}\.test\b")
_UEN = re.compile(r"\b(?:\d{9}[A-Z]|T\d{2}[A-Z]{2}\d{4}[A-Z])\b")


class Recall:
    """Finds companies of a world in a text."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._places: dict[tuple[str, ...], array[int]] | None = None

    def companies(self, text: str, *, most: int = 5) -> list[Company]:
        """Return the companies a text speaks of, the surest first."""
        found: dict[int, Company] = {}
        for company in self._named(text[:2000]):
            found.setdefault(company.index, company)
            if len(found) >= most:
                break
        return list(found.values())

    def _named(self, text: str) -> Iterator[Company]:
        for domain in _DOMAIN.findall(text.lower()):
            company = self._world.by_domain(domain)
            if company is not None:
                yield company
        for uen in _UEN.findall(text.upper()):
            company = self._world.by_uen(uen)
            if company is not None:
                yield company
        words = _WORD.findall(text.lower())
        for many in (3, 2):
            for at in range(len(words) - many + 1):
                for index in self._index().get(tuple(words[at : at + many]), ()):
                    yield self._world.company(index)

    def _index(self) -> dict[tuple[str, ...], array[int]]:
        if self._places is None:
            places: dict[tuple[str, ...], array[int]] = {}
            for index in range(min(self._world.size, MOST_INDEXED)):
                places.setdefault(self._world.name_words(index), array("l")).append(index)
            self._places = places
        return self._places
