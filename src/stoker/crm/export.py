"""What a tenant knows about its companies, into its CRM: page by page, whatever was not sent yet.

Nothing says what is still to be sent but the rows themselves: those that want something else than
was last written. So whatever a stop, a crash or a CRM that was down left out is sent by the next
run, and a night may send what it has while it goes on. How rows are sent is `crm_sending`'s
business; what is in them, `core.crm`'s.

What a night asks of whoever puts its results into the tenant's CRM, and when it does.

Companies whose night has ended are sent on some at a time, while the others' goes on; at the end,
everything that is not there yet. How rows are made and sent is the exporter's own business.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from stoker.accounts.model import CompanyId, CrmConnection, Dossier
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.crm.rows import CrmRow, rows_of
from stoker.crm.sync import Sending, send_rows
from stoker.crm.upsert import Crm, changed, written_there
from stoker.runs.model import run_name
from stoker.runs.service import OpenRun

EVERY = timedelta(seconds=10)  # however few there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """How an export went. What is left for later is sent by a later run, without being asked."""

    companies: int = 0  # looked at, whether or not anything had to be sent
    counts: Mapping[str, int] = field(default_factory=dict)  # for the manifest: written, same, …
    later: int = 0  # rows the CRM did not take this time
    broken_off: bool = False  # nobody knows how many there are
    reasons: tuple[str, ...] = ()  # in sentences: a CRM that is down, rows it refused


class Exporting(Protocol):
    """One run's export, under way. Twice is once."""

    async def send(self, companies: Sequence[CompanyId]) -> None:
        """Send what is known about these companies now. What the CRM does not take, `rest` does."""
        ...

    async def rest(self) -> Exported:
        """Send everything the CRM does not have yet, this run's and what earlier ones left.

        Returns how all of it went. A CRM that is down or refuses rows is told in the answer, never
        raised.
        """
        ...

    def so_far(self) -> Exported:
        """Return how it went up to now, also when it goes no further."""
        ...


class Exports(Protocol):
    """Puts what is known into a tenant's CRM."""

    def begin(self, run: OpenRun) -> Exporting:
        """Begin a run's export; nothing is sent yet."""
        ...


class Outbox:
    """Where companies go whose night has ended. Open it with `async with` while others flow.

    Closing it waits for what is on its way; what was not sent by then is left to `Exporting.rest`.
    """

    def __init__(
        self,
        exporting: Exporting,
        *,
        clock: Clock,
        ours: Callable[[], bool],
        some: int,
        every: timedelta = EVERY,
    ) -> None:
        self._exporting = exporting
        self._clock = clock
        self._ours = ours
        self._some = some
        self._every = every
        self._gathered: list[CompanyId] = []
        self._ripe = asyncio.Event()
        self._closing = False
        self._going: asyncio.Task[None] | None = None

    def add(self, company: CompanyId) -> None:
        """Have a company sent soon."""
        self._gathered.append(company)
        if len(self._gathered) >= self._some:
            self._ripe.set()

    async def __aenter__(self) -> Outbox:
        self._going = asyncio.create_task(self._go())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._going is None:
            return
        self._closing = True
        self._ripe.set()
        if kind is not None:
            self._going.cancel()
        await asyncio.wait({self._going})
        if not self._going.cancelled():
            self._going.result()

    async def _go(self) -> None:
        while True:
            await self._until_ripe()
            if self._closing or not self._ours():
                return
            some, self._gathered = self._gathered, []
            self._ripe.clear()
            if some:
                with suppress(StokerError):  # what a store that is away left out goes at the end
                    await self._exporting.send(some)

    async def _until_ripe(self) -> None:
        waits = {
            asyncio.ensure_future(self._clock.sleep(self._every)),
            asyncio.ensure_future(self._ripe.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


DOSSIERS_A_PAGE = 50  # some six rows each, in memory several times over while they are sent

TRIES = 2  # of a page; within each, single calls are repeated too

WAIT, LONGEST_WAIT = timedelta(seconds=2), timedelta(seconds=30)

MOST_REASONS = 20

LONGEST_REASON = 500  # characters

OpensCrm = Callable[[CrmConnection | None], Crm]
"""Opens the CRM at a place, or where settings say. Raises ConfigError when it is off."""


@dataclass(slots=True)
class _Tally:
    companies: int = 0
    written: int = 0
    same: int = 0
    left: int = 0
    later: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    example: dict[str, str] = field(default_factory=dict)  # by reason, one external id
    down: str = ""  # why the CRM is not asked any more tonight

    def add(self, sending: Sending, *, among_same: int) -> None:
        """Count how a page ended. What an earlier try wrote is among what is the same now."""
        self.same += sending.same - among_same
        self.left += len(sending.left)
        self.later += len(sending.later)
        self.down = next(iter(sending.later.values()), "")
        for id_, because in sending.refused.items():
            self.refuse(because, [id_])

    def refuse(self, because: str, ids: Sequence[str]) -> None:
        self.refused[because] += len(ids)
        self.example.setdefault(because, ids[0])

    def reasons(self) -> Iterable[str]:
        if self.down:
            yield f"{self.down}; {self.later} rows are kept and sent next time"
        for because, many in self.refused.most_common(MOST_REASONS):
            rows = "1 row was" if many == 1 else f"{many} rows were"
            yield f"{rows} set aside, e.g. {self.example[because]}: {because}"

    def join(self, other: _Tally) -> None:
        """Count what another tally has counted too."""
        self.companies += other.companies
        self.written += other.written
        self.same += other.same
        self.left += other.left
        self.later += other.later
        self.refused += other.refused
        self.example = {**other.example, **self.example}
        self.down = self.down or other.down

    def exported(self) -> Exported:
        return Exported(
            companies=self.companies,
            counts={
                "crm_written": self.written,
                "crm_same": self.same,
                "crm_left_to_people": self.left,
                "crm_refused": self.refused.total(),
                "crm_later": self.later,
            },
            later=self.later,
            reasons=tuple(each[:LONGEST_REASON] for each in self.reasons()),
        )


class CrmExport:
    """Puts one tenant's dossiers into its CRM. `least` is the score from which on there is a lead.

    It is the `Exports` of a night.
    """

    def __init__(self, opens: OpensCrm, *, least: float, page: int = DOSSIERS_A_PAGE) -> None:
        self._opens = opens
        self._least = least
        self._size = page

    def begin(self, run: OpenRun) -> CrmExporting:
        """Begin a run's export; nothing is sent yet."""
        return CrmExporting(run, opens=self._opens, least=self._least, size=self._size)

    async def export(self, run: OpenRun) -> Exported:
        """Send everything the CRM does not have yet, all at once."""
        return await self.begin(run).rest()


class CrmExporting:
    """One run's export, under way. Twice is once. Raises what the store raises, nothing else."""

    def __init__(self, run: OpenRun, *, opens: OpensCrm, least: float, size: int) -> None:
        self._run = run
        self._opens = opens
        self._least = least
        self._size = size
        self._tally = _Tally()
        self._through: set[str] = set()  # companies
        self._waits = False  # the CRM was not there; it is asked again at the end
        self._crm: Crm | None = None

    async def send(self, companies: Sequence[CompanyId]) -> None:
        """Send what is known about these companies now. What the CRM does not take, `rest` does."""
        accounts = self._run.store.accounts
        fresh = [each for each in dict.fromkeys(companies) if each not in self._through]
        for ids in pieces(fresh, self._size):
            if self._waits:
                return
            if self._crm is None:
                self._crm, _ = self._opened(await accounts.connection())
                self._waits = self._crm is None
                if self._waits:
                    return
            known = [await accounts.dossier(id_) for id_ in ids]
            page = [each for each in known if each is not None and each.looked_at is not None]
            tally = _Tally(companies=len(page))
            await self._page(page, self._crm, tally)
            if tally.down:
                # What it took all the same is there already when `rest` comes by.
                self._waits = True
                self._tally.written += tally.written
                self._tally.same -= tally.written
                return
            self._tally.join(tally)
            self._through.update(each.company.id for each in page)

    async def rest(self) -> Exported:
        """Send everything the CRM does not have yet, this run's and what earlier ones left.

        Once the CRM is down the rest is counted and kept.
        """
        accounts, tally = self._run.store.accounts, self._tally
        connection = await accounts.connection()
        crm, tally.down = self._opened(connection) if self._crm is None else (self._crm, "")
        if crm is None and connection is None:
            # Nobody ever said where results go: they do not wait for anything.
            return Exported(reasons=(f"nothing went into a CRM: {tally.down}",))
        after = ""
        while page := await accounts.dossiers(after=after, limit=self._size):
            after = page[-1].company.id
            left = [
                each
                for each in page
                if each.looked_at is not None and each.company.id not in self._through
            ]
            tally.companies += len(left)
            await self._page(left, crm, tally)
        return self.so_far()

    def so_far(self) -> Exported:
        """Return how it went up to now, also when it goes no further."""
        return self._tally.exported()

    def _opened(self, connection: CrmConnection | None) -> tuple[Crm | None, str]:
        if connection is not None and not connection.active:
            return None, "the connection to the CRM is switched off"
        try:
            return self._opens(connection), ""
        except ConfigError as error:
            return None, str(error)

    async def _page(self, page: Sequence[Dossier], crm: Crm | None, tally: _Tally) -> None:
        run = self._run
        rows = [
            row
            for dossier in page
            for row in rows_of(dossier, tenant=run.store.tenant, least=self._least)
        ]
        if not rows:
            return
        if crm is None or tally.down:
            await _keep_for_later(rows, run, crm, tally)
            return
        try:
            await _send(rows, run, crm, tally)
        except (TransientError, ConfigError) as error:
            tally.down = str(error)
            await _keep_for_later(rows, run, crm, tally)
        except PermanentError as error:
            if len(page) == 1:
                tally.refuse(str(error), [row.external_id for row in rows])
                return
            half = len(page) // 2
            await self._page(page[:half], crm, tally)
            await self._page(page[half:], crm, tally)


def pieces(companies: Sequence[CompanyId], most: int) -> Iterator[Sequence[CompanyId]]:
    """Yield companies in order, at most so many together."""
    for start in range(0, len(companies), most):
        yield companies[start : start + most]


async def _send(rows: Sequence[CrmRow], run: OpenRun, crm: Crm, tally: _Tally) -> None:
    """Send a page, and again after a while when the CRM was not there for all of it."""
    written = 0
    for left in reversed(range(TRIES)):
        try:
            sending = await send_rows(
                rows, crm=crm, store=run.store.nights, run=run_name(run.key.at), now=run.clock.now()
            )
        except TransientError as error:
            asked = error.retry_after or WAIT
            if not left or asked > LONGEST_WAIT:
                raise
        else:
            tally.written += len(sending.written)
            asked = sending.retry_after or WAIT
            if not sending.later or not left or asked > LONGEST_WAIT:
                tally.add(sending, among_same=written)
                return
            written += len(sending.written)
        await run.clock.sleep(max(asked, WAIT))


async def _keep_for_later(
    rows: Sequence[CrmRow], run: OpenRun, crm: Crm | None, tally: _Tally
) -> None:
    """Count what is still to be sent. It is kept by being what the CRM was not told.

    As when it is sent, what went into another CRM before says nothing about this one. Of one that
    cannot even be opened nobody knows where it is: then everything ever written counts.
    """
    ever = await run.store.nights.sent_rows([row.external_id for row in rows])
    sent = {
        id_: each for id_, each in ever.items() if crm is None or written_there(each, crm.place)
    }
    wanted = len(changed(rows, sent))
    tally.later += wanted
    tally.same += len({row.external_id for row in rows}) - wanted
