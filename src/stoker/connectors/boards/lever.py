"""Lever's public job boards: page by page, until a page is not full.

Postings can come and go between two pages; each is taken once, and a board that never ends is left
after so many pages.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.connectors.boards.asking import asked, board_name, json_of
from stoker.connectors.http import Http
from stoker.core.model import Json
from stoker.core.picking import object_in, words_in
from stoker.core.postings import MOST_POSTINGS, Postings, RawPosting, Validators, taken
from stoker.errors import TransientError

NAME = "lever"
BASE_URL = "https://api.lever.co"
A_PAGE = 100


class Lever:
    """Reads boards."""

    name = NAME

    def __init__(self, http: Http, *, base_url: str = BASE_URL) -> None:
        self._http, self._base = http, base_url.rstrip("/")

    async def postings(
        self, board: str, *, company: str = "", known: Validators | None = None
    ) -> Postings:
        """Return what is open on a board. Raises as `asked`; one bad posting loses no other.

        Only a board of one page says that it is unchanged: a first page says nothing of the others.
        """
        url = f"{self._base}/v0/postings/{board_name(board)}"
        raws: list[RawPosting] = []
        validators = Validators()
        more = False
        while True:
            params = {"mode": "json", "skip": str(len(raws)), "limit": str(A_PAGE)}
            answer = await asked(self._http, url, params=params, known=None if raws else known)
            if answer.body is None:
                return Postings(unchanged=True, validators=answer.validators)
            page = json_of(answer, name=NAME)
            if not isinstance(page, list):
                raise TransientError(f"{NAME} did not answer with a list of postings")
            validators = answer.validators if not raws and len(page) < A_PAGE else Validators()
            seen = {raw.url for raw in raws}
            raws += [_raw(each, len(raws) + nth) for nth, each in enumerate(page[:A_PAGE])]
            if len(page) < A_PAGE or seen == {raw.url for raw in raws}:
                break
            if len(raws) >= MOST_POSTINGS:
                more = True
                break
        found = taken(NAME, raws, company=company or board, validators=validators)
        return replace(found, more=found.more or more)


def _raw(posting: Json, nth: int) -> RawPosting:
    fields = object_in(posting)
    return RawPosting(
        where=f"posting {nth}",
        url=words_in(posting, "hostedUrl", longest=4_000),
        title=words_in(posting, "text", longest=4_000),
        location=words_in(fields.get("categories"), "location", longest=4_000),
        posted=fields.get("createdAt"),
    )
