"""One vendor's public job boards as a connector: asked for what changed, page by page if need be.

How a vendor lays its boards out is said by a `Layout` in the vendor's own file; how asking goes,
and what statuses mean, by `asking`. No key, no cost but calls, nothing done that could be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from stoker.connectors.billing import healthy
from stoker.connectors.boards.asking import (
    CONNECTOR,
    DEADLINE,
    Turn,
    asked,
    at_once,
    board_name,
    json_of,
    presence,
)
from stoker.connectors.http import Http
from stoker.core.model import Json
from stoker.core.postings import MOST_POSTINGS, Postings, PostingsAt, RawPosting, Validators, taken
from stoker.errors import TransientError
from stoker.sources import Done, Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How one vendor's boards are laid out."""

    name: str
    path: str  # with {board} where its name goes
    jobs: Callable[[Json], Sequence[Json] | None]  # the postings of an answer; None: it is no list
    raw: Callable[[Json, int], RawPosting]
    params: Mapping[str, str] = field(default_factory=dict)
    a_page: int = 0  # postings on one page; 0: one answer has everything

    @property
    def most_calls(self) -> int:
        """How many calls reading one board can take."""
        return MOST_POSTINGS // self.a_page + 1 if self.a_page else 1


class Board:
    """A `Connector` that reads one vendor's boards.

    Every call waits for its `turn`. Postings can come and go between two pages; each is taken once,
    and a board that never ends is left after so many pages.
    """

    name = CONNECTOR

    def __init__(
        self,
        http: Http,
        layout: Layout,
        *,
        base_url: str,
        turn: Turn = at_once,
        deadline: timedelta = DEADLINE,
    ) -> None:
        self._http, self._layout, self._turn = http, layout, turn
        self._base, self._deadline = base_url.rstrip("/"), deadline

    def price(self, question: PostingsAt) -> Mapping[str, int]:
        """Return how many calls reading a board takes at most. Raises PermanentError."""
        board_name(question.place)
        return {"calls": self._layout.most_calls}

    async def ask(self, question: PostingsAt, *, key: str) -> Done[Postings]:
        """Read a board. Raises as `asked`; one bad posting loses no other."""
        found = await self.postings(question.place, company=question.company, known=question.known)
        return Done(answer=found, cost={"calls": found.requests})

    async def check(self) -> Health:
        """Find out whether the vendor is there at all. Never raises."""
        return await healthy(
            lambda: presence(
                self._http,
                self._base,
                who=self._layout.name,
                turn=self._turn,
                deadline=self._deadline,
            )
        )

    async def postings(
        self, board: str, *, company: str = "", known: Validators | None = None
    ) -> Postings:
        """Return what is open on a board. Raises as `asked`.

        Only a board of one page says that it is unchanged: a first page says nothing of the others.
        """
        url = f"{self._base}{self._layout.path.format(board=board_name(board))}"
        raws: list[RawPosting] = []
        validators, requests, more = Validators(), 0, False
        while True:
            answer = await asked(
                self._http,
                url,
                who=self._layout.name,
                params=self._params(len(raws)),
                known=None if requests else known,
                turn=self._turn,
                deadline=self._deadline,
            )
            requests += 1
            if answer.body is None:
                return Postings(unchanged=True, validators=answer.validators, requests=requests)
            page = self._layout.jobs(json_of(answer, who=self._layout.name))
            if page is None:
                raise TransientError(f"{self._layout.name} did not answer with a list of postings")
            last = self._is_last(page)
            validators = answer.validators if last and requests == 1 else Validators()
            seen = {raw.url for raw in raws}
            raws += [self._layout.raw(each, len(raws) + nth) for nth, each in enumerate(page)]
            if last or seen == {raw.url for raw in raws}:
                break
            if len(raws) >= MOST_POSTINGS:
                more = True
                break
        found = taken(self._layout.name, raws, company=company or board, validators=validators)
        return replace(found, more=found.more or more, requests=requests)

    def _params(self, skip: int) -> Mapping[str, str]:
        if not self._layout.a_page:
            return self._layout.params
        return {**self._layout.params, "skip": str(skip), "limit": str(self._layout.a_page)}

    def _is_last(self, page: Sequence[Json]) -> bool:
        return not self._layout.a_page or len(page) < self._layout.a_page
