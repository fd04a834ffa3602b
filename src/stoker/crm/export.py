"""Export what a tenant knows about its companies to its CRM: whatever was not sent yet.

Only the rows themselves say what is still to be sent: those whose values differ from the last
write. So what a stop, a crash or a CRM that was down left out is sent by the next run. While a run
is in progress the queue sends finished companies in batches; at the end everything that is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoker.accounts.model import CompanyId, CompanyRecord
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.crm.edits import find_edited, mark_edited, save_edited
from stoker.crm.model import CrmRecord, CrmRow, RowResult, RowWrite, SentRow
from stoker.crm.odoo import Odoo, find_existing, read_records
from stoker.crm.odoo_load import split_batches
from stoker.crm.rows import build_rows
from stoker.crm.store import CrmStore
from stoker.crm.upsert import (
    CRM_KEY,
    FOUND_IN_CRM,
    compute_values_after_send,
    is_archived_by_undo,
    is_written_in,
    list_changed_rows,
    plan_upserts,
    was_undone,
)
from stoker.runs.model import format_run_name
from stoker.runs.service import RunHandle
from stoker.tenants.model import CrmConnection

SEND_INTERVAL = timedelta(seconds=10)  # also for a partial batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """How an export went. Rows for later are sent by a later run."""

    companies: int = 0  # checked, whether or not anything had to be sent
    counts: Mapping[str, int] = field(default_factory=dict)  # for the manifest: written, same, …
    later: int = 0  # rows the CRM did not take this time
    is_aborted: bool = False  # the number is unknown
    reasons: tuple[str, ...] = ()  # in sentences: a CRM that is down, rows it refused


class ExportQueue:
    """Queue of finished companies. Open it with `async with` while others are processed.

    Closing waits for the batch in progress; `CrmExporter.flush` sends the rest.
    """

    def __init__(
        self,
        exporter: CrmExporter,
        *,
        clock: Clock,
        is_owner: Callable[[], bool],
        batch_size: int,
        interval: timedelta = SEND_INTERVAL,
    ) -> None:
        self._exporter = exporter
        self._clock = clock
        self._is_owner = is_owner
        self._batch_size = batch_size
        self._interval = interval
        self._gathered: list[CompanyId] = []
        self._ready = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def add(self, company: CompanyId) -> None:
        """Queue a company."""
        self._gathered.append(company)
        if len(self._gathered) >= self._batch_size:
            self._ready.set()

    async def __aenter__(self) -> ExportQueue:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._task is None:
            return
        self._closing = True
        self._ready.set()
        if kind is not None:
            self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        while True:
            await self._wait_until_ready()
            if self._closing or not self._is_owner():
                return
            some, self._gathered = self._gathered, []
            self._ready.clear()
            if some:
                with suppress(StokerError):  # what a failing store left out is sent at the end
                    await self._exporter.send(some)

    async def _wait_until_ready(self) -> None:
        waits = {
            asyncio.ensure_future(self._clock.sleep(self._interval)),
            asyncio.ensure_future(self._ready.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


RECORDS_PER_PAGE = 50  # some six rows each, in memory several times over while they are sent

MAX_TRIES = 2  # of a page; within each, single calls are repeated too

RETRY_WAIT, MAX_RETRY_WAIT = timedelta(seconds=2), timedelta(seconds=30)

MAX_REASONS = 20

MAX_REASON_LENGTH = 500  # characters

CrmOpener = Callable[[CrmConnection | None], Odoo]
"""Opens the CRM of a connection, or of the settings. Raises ConfigError when it is off."""


@dataclass(slots=True)
class _ExportCounts:
    numbers: Counter[str] = field(default_factory=Counter)  # companies, written, same, left, later
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    example: dict[str, str] = field(default_factory=dict)  # by reason, one external id
    down: str = ""  # why the CRM is not called any more in this run

    def add_result(self, result: UpsertResult, *, written_before: int) -> None:
        """Add the result of a page; what an earlier try wrote is the same now."""
        self.numbers.update(
            same=result.same - written_before, left=len(result.left), later=len(result.later)
        )
        self.down = next(iter(result.later.values()), "")
        for id_, reason in result.refused.items():
            self.add_refused(reason, [id_])

    def add_refused(self, reason: str, ids: Sequence[str]) -> None:
        self.refused[reason] += len(ids)
        self.example.setdefault(reason, ids[0])

    def add_counts(self, other: _ExportCounts) -> None:
        """Add another page's counts."""
        self.numbers.update(other.numbers)
        self.refused += other.refused
        self.example = {**other.example, **self.example}
        self.down = self.down or other.down

    def to_result(self) -> ExportResult:
        numbers = self.numbers
        return ExportResult(
            companies=numbers["companies"],
            counts={
                "crm_written": numbers["written"],
                "crm_same": numbers["same"],
                "crm_left_to_people": numbers["left"],
                "crm_refused": self.refused.total(),
                "crm_later": numbers["later"],
            },
            later=numbers["later"],
            reasons=tuple(each[:MAX_REASON_LENGTH] for each in self._list_reasons()),
        )

    def _list_reasons(self) -> Iterable[str]:
        if self.down:
            yield f"{self.down}; {self.numbers['later']} records are queued for the next run"
        for reason, many in self.refused.most_common(MAX_REASONS):
            rows = "1 row was" if many == 1 else f"{many} rows were"
            yield f"{rows} set aside, e.g. {self.example[reason]}: {reason}"


class CrmExporter:
    """One run's export. A lead needs a score of `least`; `size` records go together.

    Nothing is sent when it is built. Twice is once. Raises only what the store raises.
    """

    def __init__(
        self, run: RunHandle, *, opens: CrmOpener, least: float, size: int = RECORDS_PER_PAGE
    ) -> None:
        self._run = run
        self._open = opens
        self._least = least
        self._size = size
        self._counts = _ExportCounts()
        self._sent_companies: set[str] = set()
        self._is_down = False  # the CRM did not answer; it is tried again at the end
        self._crm: Odoo | None = None

    async def send(self, companies: Sequence[CompanyId]) -> None:
        """Send what is known about these companies now; `flush` sends what the CRM refused."""
        accounts = self._run.store.accounts
        fresh = [each for each in dict.fromkeys(companies) if each not in self._sent_companies]
        for ids in split_batches(fresh, self._size):
            if self._is_down:
                return
            if self._crm is None:
                self._crm, _ = self._open_crm(await self._run.store.setup.find_connection())
                self._is_down = self._crm is None
                if self._is_down:
                    return
            known = [await accounts.find_company_record(id_) for id_ in ids]
            page = [each for each in known if each is not None and each.looked_at is not None]
            counts = _ExportCounts(Counter(companies=len(page)))
            await self._send_page(page, self._crm, counts)
            if counts.down:
                # What it accepted is there already when `flush` runs.
                self._is_down = True
                written = counts.numbers["written"]
                self._counts.numbers.update(written=written, same=-written)
                return
            self._counts.add_counts(counts)
            self._sent_companies.update(each.company.id for each in page)

    async def flush(self) -> ExportResult:
        """Send everything the CRM does not have yet, also what earlier runs left.

        Once the CRM is down the remaining rows are counted and left for later.
        """
        accounts, counts = self._run.store.accounts, self._counts
        connection = await self._run.store.setup.find_connection()
        crm, counts.down = self._open_crm(connection) if self._crm is None else (self._crm, "")
        if crm is None and connection is None:
            # No CRM was ever connected: nothing waits to be sent.
            return ExportResult(reasons=(f"nothing was written to the CRM: {counts.down}",))
        after = ""
        while page := await accounts.list_company_records(after=after, limit=self._size):
            after = page[-1].company.id
            left = [
                each
                for each in page
                if each.looked_at is not None and each.company.id not in self._sent_companies
            ]
            counts.numbers["companies"] += len(left)
            await self._send_page(left, crm, counts)
        return self.get_result()

    def get_result(self) -> ExportResult:
        """Return the result up to now, also when the export goes no further."""
        return self._counts.to_result()

    def _open_crm(self, connection: CrmConnection | None) -> tuple[Odoo | None, str]:
        if connection is not None and not connection.active:
            return None, "the connection to the CRM is switched off"
        try:
            return self._open(connection), ""
        except ConfigError as error:
            return None, str(error)

    async def _send_page(
        self, page: Sequence[CompanyRecord], crm: Odoo | None, counts: _ExportCounts
    ) -> None:
        run = self._run
        suppressed = await run.store.accounts.read_suppressions()
        rows = [
            row
            for record in map(suppressed.filter_record, page)
            for row in build_rows(record, tenant=run.store.tenant, least=self._least)
        ]
        if not rows:
            return
        if crm is None or counts.down:
            await _count_unsent(rows, run, crm, counts)
            return
        try:
            await _send_rows(rows, run, crm, counts)
        except (TransientError, ConfigError) as error:
            counts.down = str(error)
            await _count_unsent(rows, run, crm, counts)
        except PermanentError as error:
            if len(page) == 1:
                counts.add_refused(str(error), [row.external_id for row in rows])
                return
            half = len(page) // 2
            await self._send_page(page[:half], crm, counts)
            await self._send_page(page[half:], crm, counts)


async def _send_rows(
    rows: Sequence[CrmRow], run: RunHandle, crm: Odoo, counts: _ExportCounts
) -> None:
    """Send a page, and retry once when the CRM did not accept all of it."""
    written = 0
    for left in reversed(range(MAX_TRIES)):
        try:
            sending = await upsert_rows(
                rows,
                crm=crm,
                store=run.store.crm,
                run=format_run_name(run.key.at),
                now=run.clock.now(),
            )
        except TransientError as error:
            asked = error.retry_after or RETRY_WAIT
            if not left or asked > MAX_RETRY_WAIT:
                raise
        else:
            counts.numbers["written"] += len(sending.written)
            asked = sending.retry_after or RETRY_WAIT
            if not sending.later or not left or asked > MAX_RETRY_WAIT:
                counts.add_result(sending, written_before=written)
                return
            written += len(sending.written)
        await run.clock.sleep(max(asked, RETRY_WAIT))


async def _count_unsent(
    rows: Sequence[CrmRow], run: RunHandle, crm: Odoo | None, counts: _ExportCounts
) -> None:
    """Count what is still to be sent.

    What went into another CRM does not count for this one. Of a CRM that cannot be opened the
    database is unknown: then everything ever written counts.
    """
    ever = await run.store.crm.find_sent_rows([row.external_id for row in rows])
    sent = {
        id_: each
        for id_, each in ever.items()
        if crm is None or is_written_in(each, crm.database_id)
    }
    wanted = len(list_changed_rows(rows, sent))
    same = len({row.external_id for row in rows}) - wanted
    counts.numbers.update(later=wanted, same=same)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """What became of rows, by external id, with reasons in sentences."""

    written: tuple[str, ...] = ()
    same: int = 0  # nothing needed to be sent
    left: Mapping[str, str]  # left as they are, because of people's edits or the row's values
    refused: Mapping[str, str]  # the CRM refuses them as they are
    later: Mapping[str, str]  # to be retried
    retry_after: timedelta | None = None


async def upsert_rows(
    rows: Sequence[CrmRow], *, crm: Odoo, store: CrmStore, run: str, now: datetime
) -> UpsertResult:
    """Bring the CRM up to date with these rows, once, however often it is called.

    Rows with the values of last time cost nothing. What went into another CRM does not count for
    this one. Raises as `Odoo` does.
    """
    ever = await store.find_sent_rows([row.external_id for row in rows])
    sent = {id_: each for id_, each in ever.items() if is_written_in(each, crm.database_id)}
    wanted = list_changed_rows(rows, sent)
    ids = {row.external_id for row in rows}
    if not wanted:
        return UpsertResult(same=len(ids), left={}, refused={}, later={})
    there = await find_existing(rows, wanted, crm=crm, sent=sent)
    fields = {model: await crm.fields(model) for model in {row.model for row in wanted}}
    plan = plan_upserts(wanted, sent=sent, there=there, fields=fields, beside=rows)
    writes = [write for write in plan.writes if write.cells]
    idle = [write for write in plan.writes if not write.cells]
    edited = await find_edited(plan.writes, there=there, sent=sent, crm=crm)
    await save_edited(edited - {write.row.external_id for write in plan.writes}, store)
    await store.save_sent_rows(
        [mark_edited(_build_intent(write, crm.database_id, run, now), edited) for write in writes]
    )
    results = await crm.upsert(writes) if writes else {}
    done = [write for write in writes if results[write.row.external_id].id is not None]
    after = {**there, **await _read_back(done, results, crm)}
    sent_rows = [
        _build_outcome(write, after[write.row.external_id], sent, crm.database_id, run, now)
        for write in (*done, *idle)
        if write.row.external_id in after
        and (write.cells or not _would_hide_undo(write, sent, there))
    ]
    await store.save_sent_rows([mark_edited(row, edited) for row in sent_rows])
    failed = [each for each in results.values() if each.id is None]
    return UpsertResult(
        written=tuple(write.row.external_id for write in done),
        same=len(ids) - len(writes) - len(plan.skipped),
        left={each.external_id: each.reason for each in plan.skipped},
        refused={each.external_id: each.reason for each in failed if not each.is_retryable},
        later={each.external_id: each.reason for each in failed if each.is_retryable},
        retry_after=max(
            (each.retry_after for each in failed if each.retry_after is not None), default=None
        ),
    )


async def _read_back(
    done: Sequence[RowWrite], results: Mapping[str, RowResult], crm: Odoo
) -> dict[str, CrmRecord]:
    known = {
        write.row.external_id: id_
        for write in done
        if (id_ := results[write.row.external_id].id) is not None
    }
    return await read_records((write.row for write in done), crm=crm, known=known)


def _would_hide_undo(
    write: RowWrite, sent: Mapping[str, SentRow], there: Mapping[str, CrmRecord]
) -> bool:
    """Return whether storing a row would hide that it was undone."""
    id_ = write.row.external_id
    earlier = sent.get(id_)
    return earlier is not None and (was_undone(earlier) or is_archived_by_undo(earlier, there[id_]))


def _build_intent(write: RowWrite, place: str, run: str, now: datetime) -> SentRow:
    return SentRow(
        external_id=write.row.external_id,
        model=write.row.model,
        digest="",  # of no values: it is checked again until it is written
        values={**write.intent, CRM_KEY: place},
        before=write.before,
        run=run,
        at=now,
    )


def _build_outcome(
    write: RowWrite,
    record: CrmRecord,
    sent: Mapping[str, SentRow],
    place: str,
    run: str,
    now: datetime,
) -> SentRow:
    earlier = sent.get(write.row.external_id)
    # A run that wrote nothing has nothing to undo: the run that did keeps the row, also when its
    # answer was lost.
    idle = None if write.cells else earlier
    return SentRow(
        external_id=write.row.external_id,
        model=write.row.model,
        digest=write.digest,
        values={**compute_values_after_send(write, record, earlier), CRM_KEY: place},
        before=write.before if idle is None else idle.before,
        run=run if write.cells else FOUND_IN_CRM if idle is None else idle.run,
        at=now,
    )
