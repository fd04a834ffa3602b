"""Read public job boards: conditional requests, pages, health, and what each vendor's jobs say.

Boards need no key and cost only calls, so a request may be repeated. Answers are read in a worker
process, a posting at a time, and only what is kept of postings comes back.
"""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlencode

import msgspec

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import get_object, get_text
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.retry import parse_retry_after
from stoker.base.strict_json import check_value_count, parse_json
from stoker.base.types import JobId, Json
from stoker.budgets.model import Health
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import (
    MAX_CHARACTERS,
    MAX_POSTINGS,
    MAX_REJECTS,
    Listing,
    Postings,
    RawPosting,
    RejectedPosting,
    Validators,
    count_characters,
    parse_postings,
)
from stoker.discovery.sources import BOARD_NAME
from stoker.http.api_client import check_health
from stoker.http.client import (
    REDIRECT_STATUSES,
    HttpClient,
    Request,
    Response,
    build_conditions,
    get_validators,
    is_temporary,
)
from stoker.http.url import parse_url

CONNECTOR = "boards"  # what caps, rates and stops of boards and feeds go by
DEADLINE = timedelta(seconds=30)
MAX_BYTES = 10_000_000
MAX_REDIRECTS = 3
MAX_JOBS = MAX_POSTINGS + 1  # read of one answer; one too many shows that it has more
LEVER_PAGE_SIZE = 100
HostSlot = Callable[[str], AbstractAsyncContextManager[None]]
"""Waits until a call to a host may go, and learns from how it went."""


def acquire_immediately(host: str) -> AbstractAsyncContextManager[None]:
    """Return a `HostSlot` that never waits."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardResponse:
    """What a board answered; `body` is None when nothing has changed."""

    body: bytes | None
    truncated: bool
    validators: Validators


async def get_if_changed(
    http: HttpClient,
    url: str,
    *,
    who: str,
    turn: HostSlot = acquire_immediately,
    params: Mapping[str, str] | None = None,
    known: Validators | None = None,
    accept: str = "application/json",
    most_bytes: int = MAX_BYTES,
    deadline: timedelta = DEADLINE,
    is_vendor: bool = False,
) -> BoardResponse:
    """Ask once, when it is our turn, and return the answer; `who` is named when it goes wrong.

    Raises PermanentError when there is no such board, ConfigError when the address itself cannot
    be used, TransientError when later may work.
    """
    headers = {"accept": accept}
    if known is not None:
        headers |= build_conditions(etag=known.etag, last_modified=known.last_modified)
    call = Request(
        method="GET",
        url=f"{url}?{urlencode(params)}" if params else url,
        headers=headers,
        deadline=deadline,
        max_bytes=most_bytes,
        max_redirects=MAX_REDIRECTS,
        is_vendor=is_vendor,
    )
    async with turn(parse_url(url).host):
        reply = await _send_call(http, call, who=who)
        if reply.status == 304 and known is not None:
            return BoardResponse(body=None, truncated=False, validators=known)
        if reply.status != 200:
            raise _to_error(reply, who=who)
    etag, last_modified = get_validators(reply)
    return BoardResponse(
        body=reply.body,
        truncated=reply.truncated,
        validators=Validators(etag=etag, last_modified=last_modified),
    )


async def ping_host(
    http: HttpClient, url: str, *, who: str, turn: HostSlot, deadline: timedelta
) -> str:
    """Check that a host answers, with any content. Raises TransientError when it does not."""
    call = Request(method="GET", url=url, deadline=deadline, max_bytes=1_000, is_vendor=True)
    async with turn(parse_url(url).host):
        reply = await _send_call(http, call, who=who)
        if is_temporary(reply.status):
            raise _to_error(reply, who=who)
    return f"{who} answers"


async def _send_call(http: HttpClient, call: Request, *, who: str) -> Response:
    try:
        return await http.send(call)
    except UncertainError as error:
        raise TransientError(f"{who} sent an incomplete answer: {error}; try again") from error
    except TransientError as error:
        raise TransientError(f"{who} did not answer: {error}") from error
    except PermanentError as error:
        raise PermanentError(f"{who} cannot be called: {error}") from error


def _to_error(reply: Response, *, who: str) -> StokerError:
    if reply.status in (404, 410):
        return PermanentError(f"{who} has no such list ({reply.status})")
    if is_temporary(reply.status):
        return TransientError(
            f"{who} asks us to slow down ({reply.status})",
            retry_after=parse_retry_after(reply.headers),
        )
    if reply.status in REDIRECT_STATUSES:
        return ConfigError(f"{who} has moved ({reply.status}); use its new address")
    return PermanentError(f"{who} refuses access ({reply.status})")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardApi:
    """Where a vendor lists postings, and how they are read."""

    name: str
    path: str  # with {board} where its name goes
    parse_job: Callable[[Json, int], RawPosting]
    jobs_key: str = ""  # where an answer's list of postings is; "": the answer is the list
    is_listed: Callable[[Json], bool] = lambda job: True
    params: Mapping[str, str] = field(default_factory=dict)
    page_size: int = 0  # postings on one page; 0: one answer has everything


class Board:
    """Reads one vendor's boards.

    Every call waits for its `turn`. Postings can come and go between two pages; each is taken once,
    and a board that never ends is left after so many pages.
    """

    name = CONNECTOR

    def __init__(
        self,
        http: HttpClient,
        layout: BoardApi,
        *,
        base_url: str,
        turn: HostSlot = acquire_immediately,
        deadline: timedelta = DEADLINE,
        pool: ProcessPool | None = None,
    ) -> None:
        self._http, self._api, self._acquire_slot = http, layout, turn
        self._base, self._deadline = base_url.rstrip("/"), deadline
        self._pool = pool or ProcessPool()

    async def check(self) -> Health:
        """Find out whether the vendor is there at all. Never raises."""
        return await check_health(
            lambda: ping_host(
                self._http,
                self._base,
                who=self._api.name,
                turn=self._acquire_slot,
                deadline=self._deadline,
            )
        )

    async def read_postings(
        self, board: str, *, company: str = "", known: Validators | None = None
    ) -> Postings:
        """Return what is open on a board. Raises as `get_if_changed`; a bad posting loses no other.

        Only a board of one page says that it is unchanged: a first page says nothing of the others.
        """
        if not BOARD_NAME.fullmatch(board):
            raise PermanentError("a board's name is one word of letters, digits, '.', '_' and '-'")
        url = f"{self._base}{self._api.path.format(board=board)}"
        listings: dict[JobId, Listing] = {}
        rejects: list[RejectedPosting] = []
        number = rejected = requests = characters = 0
        while True:
            answer = await get_if_changed(
                self._http,
                url,
                who=self._api.name,
                params=self._build_params(number),
                known=None if requests else known,
                turn=self._acquire_slot,
                deadline=self._deadline,
                is_vendor=True,
            )
            requests += 1
            if answer.body is None:
                return Postings(unchanged=True, validators=answer.validators, requests=requests)
            size, page = await self._read_page(answer, company=company or board, first=number)
            number, before = number + size, len(listings)
            listings |= {each.job.id: each for each in page.listings if each.job.id not in listings}
            rejects += page.rejects
            rejected += page.rejected
            last = not self._api.page_size or size < self._api.page_size
            repeats = requests > 1 and len(listings) == before
            characters += sum(count_characters(each.job) for each in page.listings)
            is_full = not last and (number >= MAX_POSTINGS or characters > MAX_CHARACTERS)
            if last or repeats or is_full:
                break
        return Postings(
            listings=tuple(listings.values()),
            rejects=tuple(rejects[:MAX_REJECTS]),
            rejected=rejected,
            truncated=page.truncated or (is_full and not repeats),
            requests=requests,
            validators=answer.validators if last and requests == 1 else Validators(),
        )

    async def _read_page(
        self, answer: BoardResponse, *, company: str, first: int
    ) -> tuple[int, Postings]:
        """Return how many postings a page has, and those. Raises TransientError if it has none."""
        who = self._api.name
        if answer.truncated:
            raise TransientError(f"{who} answered with more than {MAX_BYTES} bytes")
        try:
            found = await self._pool.run(
                read_board_page, who, answer.body or b"", company=company, first=first
            )
        except PermanentError as error:
            raise TransientError(f"{who} sent an unreadable answer: {error}") from error
        if isinstance(found, Aborted):
            raise PermanentError(f"{who} sent an unreadable answer: {found.reason}")
        if found is None:
            raise TransientError(f"{who} did not answer with a list of postings")
        return found

    def _build_params(self, skip: int) -> Mapping[str, str]:
        if not self._api.page_size:
            return self._api.params
        return {**self._api.params, "skip": str(skip), "limit": str(self._api.page_size)}


class AllBoards:
    name = CONNECTOR

    def __init__(self, boards: Sequence[Board]) -> None:
        self._boards = boards

    async def check(self) -> Health:
        found = await asyncio.gather(*(board.check() for board in self._boards))
        away = [health.detail for health in found if not health.ok]
        if away:
            return Health(ok=False, detail=f"not every board answers: {'; '.join(away)}")
        return Health(ok=True, detail=", ".join(health.detail for health in found))


def _get_line(data: Json, name: str) -> str:
    return get_text(data, name, longest=4_000)


def _parse_greenhouse_job(job: Json, nth: int) -> RawPosting:
    fields = get_object(job)
    return RawPosting(
        where=f"job {nth}",
        url=_get_line(job, "absolute_url"),
        title=_get_line(job, "title"),
        company=_get_line(job, "company_name"),
        location=_get_line(fields.get("location"), "name"),
        posted=fields.get("first_published") or fields.get("updated_at"),
    )


def _parse_lever_job(posting: Json, nth: int) -> RawPosting:
    fields = get_object(posting)
    return RawPosting(
        where=f"posting {nth}",
        url=_get_line(posting, "hostedUrl"),
        title=_get_line(posting, "text"),
        location=_get_line(fields.get("categories"), "location"),
        posted=fields.get("createdAt"),
        text=get_text(posting, "descriptionPlain", longest=MAX_TEXT_LENGTH),
        remote=_get_line(posting, "workplaceType").lower() == "remote",
    )


def _is_listed_on_ashby(job: Json) -> bool:
    return get_object(job).get("isListed") is not False


def _parse_ashby_job(job: Json, nth: int) -> RawPosting:
    fields = get_object(job)
    return RawPosting(
        where=f"job {nth}",
        url=_get_line(job, "jobUrl"),
        title=_get_line(job, "title"),
        location=_get_line(job, "location"),
        posted=fields.get("publishedAt"),
        text=get_text(job, "descriptionPlain", longest=MAX_TEXT_LENGTH),
        remote=fields.get("isRemote") is True,
    )


_APIS = (
    BoardApi(
        name="greenhouse",
        path="/v1/boards/{board}/jobs",
        parse_job=_parse_greenhouse_job,
        jobs_key="jobs",
    ),
    BoardApi(
        name="lever",
        path="/v0/postings/{board}",
        parse_job=_parse_lever_job,
        params={"mode": "json"},
        page_size=LEVER_PAGE_SIZE,
    ),
    BoardApi(
        name="ashby",
        path="/posting-api/job-board/{board}",
        parse_job=_parse_ashby_job,
        jobs_key="jobs",
        is_listed=_is_listed_on_ashby,
    ),
)

BOARD_APIS: Mapping[str, BoardApi] = {api.name: api for api in _APIS}


def read_board_page(
    vendor: str, body: bytes, *, company: str, first: int
) -> tuple[int, Postings] | None:
    """Return how many postings a vendor's answer has, and those, counted from `first` on.

    None when it is no list of postings. Raises PermanentError when it is no JSON.
    """
    api = BOARD_APIS[vendor]
    page = _split_jobs(body, api)
    if page is None:
        return None
    # One posting at a time: a page as Python values takes ten times its bytes.
    jobs = (parse_json(bytes(each)) for each in page)
    listed = (job for job in jobs if api.is_listed(job))
    raws = (api.parse_job(job, nth) for nth, job in enumerate(listed, first))
    return len(page), parse_postings(vendor, raws, company=company)


def _split_jobs(body: bytes, api: BoardApi) -> Sequence[msgspec.Raw] | None:
    """Return the postings of an answer, each as its bytes; None if it is no list of postings."""
    check_value_count(body)
    try:
        jobs = msgspec.Raw(body.removeprefix(BOM_UTF8))
        if api.jobs_key:
            jobs = msgspec.json.decode(jobs, type=dict[str, msgspec.Raw])[api.jobs_key]
        return msgspec.json.decode(jobs, type=list[msgspec.Raw])[: api.page_size or MAX_JOBS]
    except (msgspec.ValidationError, KeyError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PermanentError("the answer is not JSON as it should be") from error
