"""One public board or feed, asked for what changed: no key, no cost, so asking twice is once.

It knows what statuses mean here. What is in the answer, each board knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from stoker.connectors.http import REDIRECTS, Call, Http, Reply
from stoker.connectors.reading import read_json
from stoker.core.model import Json
from stoker.core.postings import Validators
from stoker.core.urls import web_address
from stoker.core.waiting import retry_after
from stoker.errors import ConfigError, PermanentError, StokerError, TransientError, UncertainError

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
