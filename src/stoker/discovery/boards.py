"""One public board or feed, asked for what changed: no key, no cost, so asking twice is once.

It knows what statuses mean here. What is in the answer, each board knows.

One vendor's public job boards as a connector: asked for what changed, page by page if need be.

How a vendor lays its boards out is said by a `Layout` in the vendor's own file; how asking goes,
and what statuses mean, by `asking`. No key, no cost but calls, nothing done that could be undone.

Whether the public boards are there at all. They have no key and no account to ask about.

Boards, feeds and files as discovery reads them: each one source, batch by batch.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.retry import retry_after
from stoker.base.types import Json
from stoker.budgets.model import Connector, Done, Health
from stoker.discovery.job_files import Files
from stoker.discovery.model import (
    MOST_POSTINGS,
    Postings,
    PostingsAt,
    RawPosting,
    Validators,
    taken,
)
from stoker.discovery.sources import WantedSource
from stoker.http.api_client import healthy
from stoker.http.client import REDIRECTS, Call, Http, Reply
from stoker.http.strict_json import read_json
from stoker.http.url import web_address

CONNECTOR = "boards"  # what caps, rates and stops of boards and feeds go by

DEADLINE = timedelta(seconds=30)

MOST_BYTES = 10_000_000

MOST_HOPS = 3

LATER = (408, 425, 429)

_BOARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

_LONGEST_VALIDATOR = 500

_PLAIN = re.compile(r"[\x20-\x7e]*")

Turn = Callable[[str], AbstractAsyncContextManager[None]]
"""Waits until a call to a host may go, and learns from how it went."""


def at_once(host: str) -> AbstractAsyncContextManager[None]:
    """A `Turn` for who need not wait."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardAnswer:
    """What a board answered; `body` is None when nothing has changed."""

    body: bytes | None
    cut: bool
    validators: Validators


async def asked(
    http: Http,
    url: str,
    *,
    who: str,
    turn: Turn = at_once,
    params: Mapping[str, str] | None = None,
    known: Validators | None = None,
    accept: str = "application/json",
    most_bytes: int = MOST_BYTES,
    deadline: timedelta = DEADLINE,
) -> BoardAnswer:
    """Ask once, when it is our turn, and return the answer; `who` is named when it goes wrong.

    Raises PermanentError when there is no such board, ConfigError when the address itself cannot
    be used, TransientError when later may work.
    """
    headers = {"accept": accept}
    if known is not None and known.etag:
        headers["if-none-match"] = known.etag
    elif known is not None and known.last_modified:
        headers["if-modified-since"] = known.last_modified
    call = Call(
        method="GET",
        url=f"{url}?{urlencode(params)}" if params else url,
        headers=headers,
        deadline=deadline,
        most_bytes=most_bytes,
        hops=MOST_HOPS,
    )
    async with turn(web_address(url).host):
        reply = await _sent(http, call, who=who)
        if reply.status == 304 and known is not None:
            return BoardAnswer(body=None, cut=False, validators=known)
        if reply.status != 200:
            raise _failure(reply, who=who)
    return BoardAnswer(body=reply.body, cut=reply.cut, validators=_validators(reply))


async def presence(http: Http, url: str, *, who: str, turn: Turn, deadline: timedelta) -> str:
    """Say that somebody is there, whatever they say. Raises TransientError when nobody is."""
    call = Call(method="GET", url=url, deadline=deadline, most_bytes=1_000)
    async with turn(web_address(url).host):
        reply = await _sent(http, call, who=who)
        if reply.status in LATER or reply.status >= 500:
            raise _failure(reply, who=who)
    return f"{who} answers"


def json_of(answer: BoardAnswer, *, who: str) -> Json:
    """Return what an answer says. Raises TransientError when it is not whole or no JSON."""
    if answer.cut:
        raise TransientError(f"{who} answered with more than {MOST_BYTES} bytes")
    try:
        return read_json(answer.body or b"")
    except PermanentError as error:
        raise TransientError(f"{who} gave an unreadable answer: {error}") from error


def board_name(text: str) -> str:
    """Return a board's name as it stands in an address, or say what one looks like."""
    if not _BOARD.fullmatch(text):
        raise PermanentError("a board's name is one word of letters, digits, '.', '_' and '-'")
    return text


async def _sent(http: Http, call: Call, *, who: str) -> Reply:
    try:
        return await http.send(call)
    except UncertainError as error:
        raise TransientError(f"{who} gave no whole answer: {error}; ask again") from error
    except TransientError as error:
        raise TransientError(f"{who} is not there: {error}") from error
    except PermanentError as error:
        raise PermanentError(f"{who} cannot be asked: {error}") from error


def _failure(reply: Reply, *, who: str) -> StokerError:
    if reply.status in (404, 410):
        return PermanentError(f"{who} has no such list any more or yet ({reply.status})")
    if reply.status in LATER or reply.status >= 500:
        return TransientError(
            f"{who} asks us to come back later ({reply.status})",
            retry_after=retry_after(reply.headers),
        )
    if reply.status in REDIRECTS:
        return ConfigError(f"{who} has moved ({reply.status}); use its new address")
    return PermanentError(f"{who} does not let us read it ({reply.status})")


def _validators(reply: Reply) -> Validators:
    def said(name: str) -> str:
        value = reply.headers.get(name, "")
        usable = len(value) <= _LONGEST_VALIDATOR and _PLAIN.fullmatch(value)
        return value if usable else ""

    return Validators(etag=said("etag"), last_modified=said("last-modified"))


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


class Boards:
    """All boards together."""

    name = CONNECTOR

    def __init__(self, boards: Sequence[Board]) -> None:
        self._boards = boards

    async def check(self) -> Health:
        """Find out whether every board is there. Never raises."""
        found = await asyncio.gather(*(board.check() for board in self._boards))
        away = [health.detail for health in found if not health.ok]
        if away:
            return Health(ok=False, detail=f"not every board answers: {'; '.join(away)}")
        return Health(ok=True, detail=", ".join(health.detail for health in found))


class AskedSource:
    """A `PostingSource` that a connector is asked for: a board or a feed, all of it at once."""

    def __init__(self, connector: Connector[PostingsAt, Postings], source: WantedSource) -> None:
        self._connector, self._source = connector, source

    async def read(self, known: Validators | None) -> AsyncIterator[Postings]:
        question = PostingsAt(place=self._source.place, company=self._source.company, known=known)
        done = await self._connector.ask(question, key=self._source.name)
        yield done.answer


class FileSource:
    """A `PostingSource` on disk; its path is taken from a directory."""

    def __init__(self, directory: Path, source: WantedSource) -> None:
        self._path, self._company = directory / source.place, source.company

    async def read(self, known: Validators | None) -> AsyncIterator[Postings]:
        async for batch in Files().batches(self._path, company=self._company):
            yield batch
