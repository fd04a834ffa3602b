"""Export what a tenant knows about its companies to its CRM: whatever was not sent yet.

Only the rows themselves say what is still to be sent: those whose values differ from the last
write. So what a stop, a crash or a CRM that was down left out is sent by the next run. While a run
is in progress the queue sends finished companies in batches; at the end everything that is missing.
A CRM that is away then is asked again until the run's deadline.
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
from stoker.base.formats import format_count
from stoker.crm.edits import find_edited, mark_edited, save_edited
from stoker.crm.model import (
    LEAD,
    CrmRecord,
    CrmRow,
    LeftRow,
    RowResult,
    RowWrite,
    SentRow,
)
from stoker.crm.odoo import Odoo, read_records
from stoker.crm.odoo_load import split_batches
from stoker.crm.odoo_lookup import OdooLookup
from stoker.crm.odoo_protocols import OdooPlaceError
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
from stoker.vendors.table import OdooSettings

SEND_INTERVAL = timedelta(seconds=10)  # also for a partial batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """How an export went. Rows for later are sent by a later run."""

    companies: int = 0  # checked, whether or not anything had to be sent
    counts: Mapping[str, int] = field(default_factory=dict)  # for the manifest: written, same, …
    later: int = 0  # rows the CRM did not take this time
    problem: str = ""  # what the run's first line must say: rows refused, or leads that wait
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

MIN_AWAY = timedelta(minutes=10)  # a CRM that is away at the end is asked for at least so long

MAX_AWAY_WAIT = timedelta(seconds=60)  # between two questions then

MAX_PLACE_ASKS, PLACE_WAIT = 5, timedelta(seconds=5)  # whether its database is back; each 3 times

MAX_REASONS = 20

MAX_REASON_LENGTH = 500  # characters

CrmOpener = Callable[[CrmConnection | None], Odoo]
"""Opens the CRM of a connection, or of the settings. Raises ConfigError when it is off."""


COMPANIES, CONTACTS, LEADS = "companies", "contacts", "leads"


def get_kind(row: CrmRow) -> str:
    """Return what a row is: one of companies, contacts, leads."""
    if row.model == LEAD:
        return LEADS
    return CONTACTS if row.links else COMPANIES


@dataclass(slots=True)
class _ExportCounts:
    numbers: Counter[str] = field(default_factory=Counter)  # companies, written, same, left, later
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    example: dict[str, str] = field(default_factory=dict)  # by reason, one external id
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # by kind, written or refused
    waits: Counter[str] = field(default_factory=Counter)  # by reason: leads that cannot be sent
    notes: dict[str, str] = field(default_factory=dict)
    down: str = ""  # why the CRM is not called any more in this run
    retry_after: timedelta | None = None  # as it asked
    is_away: bool = False  # it may answer later in this run

    def add_result(self, result: UpsertResult, *, written_before: int) -> None:
        """Add the result of a page; what an earlier try wrote is the same now."""
        waiting = len(result.later) + len(result.missing)
        self.numbers.update(same=result.same - written_before, left=len(result.left), later=waiting)
        self.waits.update(result.missing.values())
        self.down = next(iter(result.later.values()), "")
        self.is_away, self.retry_after = bool(result.later), result.retry_after
        for id_, reason in result.refused.items():
            self.add_refused(reason, [id_], kind=result.kinds[id_])

    def add_written(self, result: UpsertResult) -> None:
        """Count what was written."""
        self.numbers["written"] += len(result.written)
        self.kinds.update((result.kinds[id_], "written") for id_ in result.written)

    def add_refused(self, reason: str, ids: Sequence[str], *, kind: str) -> None:
        self.refused[reason] += len(ids)
        self.kinds[kind, "refused"] += len(ids)
        self.example.setdefault(reason, ids[0])

    def set_down(self, error: TransientError | ConfigError) -> None:
        """Say why the CRM is not called any more."""
        self.down, self.is_away = str(error), isinstance(error, TransientError)
        self.retry_after = error.retry_after if isinstance(error, TransientError) else None

    def add_counts(self, other: _ExportCounts) -> None:
        """Add another page's counts."""
        self.numbers.update(other.numbers)
        self.refused += other.refused
        self.kinds += other.kinds
        self.waits += other.waits
        self.example = {**other.example, **self.example}
        self.notes |= other.notes
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
            problem=self._format_problem()[:MAX_REASON_LENGTH],
            reasons=tuple(each[:MAX_REASON_LENGTH] for each in self._list_reasons()),
        )

    def _format_problem(self) -> str:
        """Return what is wrong, in the first line that a person reads."""
        parts = [f"{format_count(many, 'lead')} wait: {why}" for why, many in self.waits.items()]
        refused = {
            kind: many for (kind, what), many in self.kinds.items() if what == "refused" and many
        }
        none = [kind for kind in refused if not self.kinds[kind, "written"]]
        if refused and none:
            [(why, _)] = self.refused.most_common(1)
            lost = " and ".join(f"none of {refused[kind]} {kind}" for kind in sorted(none))
            parts.append(f"{lost} got into the CRM: {why}")
        elif refused:
            were = format_count(self.refused.total(), "record")
            parts.append(f"the CRM refused {were}")
        return "; ".join(parts)

    def _list_reasons(self) -> Iterable[str]:
        if self.down:
            yield f"{self.down}; {self.numbers['later']} records are queued for the next run"
        for reason, many in self.refused.most_common(MAX_REASONS):
            rows = "1 row was" if many == 1 else f"{many} rows were"
            yield f"{rows} set aside, e.g. {self.example[reason]}: {reason}"
        yield from self.notes.values()


class CrmExporter:
    """One run's export. A lead needs a score of `least`; `size` records go together.

    Nothing is sent when it is built. Twice is once. Raises only what the store raises.
    """

    def __init__(
        self,
        run: RunHandle,
        *,
        opens: CrmOpener,
        least: float,
        rule: OdooSettings = OdooSettings(),  # noqa: B008 - it is frozen
        size: int = RECORDS_PER_PAGE,
    ) -> None:
        self._run = run
        self._open = opens
        self._least = least
        self._rule = rule
        self._size = size
        self._counts = _ExportCounts()
        self._sent_companies: set[str] = set()
        self._is_down = False  # the CRM did not answer; it is tried again at the end
        self._crm: Odoo | None = None
        self._lookup: OdooLookup | None = None
        self._place_asks = 0  # while its database seemed to be away

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
                self._counts.kinds += counts.kinds
                return
            self._counts.add_counts(counts)
            self._sent_companies.update(each.company.id for each in page)

    async def flush(self, *, until: datetime | None = None) -> ExportResult:
        """Send everything the CRM does not have yet, also what earlier runs left.

        A CRM that is away is asked again until then, and for at least `MIN_AWAY`. After that the
        remaining rows are counted and left for later.
        """
        accounts, counts = self._run.store.accounts, self._counts
        connection = await self._run.store.setup.find_connection()
        crm, counts.down = self._open_crm(connection) if self._crm is None else (self._crm, "")
        if crm is None and connection is None:
            # No CRM was ever connected: nothing waits to be sent.
            return ExportResult(reasons=(f"nothing was written to the CRM: {counts.down}",))
        now = self._run.clock.now()
        give_up_at = max(until or now, now + MIN_AWAY)
        after = ""
        while page := await accounts.list_company_records(after=after, limit=self._size):
            after = page[-1].company.id
            left = [
                each
                for each in page
                if each.looked_at is not None and each.company.id not in self._sent_companies
            ]
            counts.add_counts(await self._send_until_back(left, crm, give_up_at))
        return self.get_result()

    async def _send_until_back(
        self, page: Sequence[CompanyRecord], crm: Odoo | None, give_up_at: datetime
    ) -> _ExportCounts:
        """Send a page, and wait for a CRM that is away, as long as there is time."""
        written = 0
        while True:
            counts = _ExportCounts(Counter(companies=len(page)), down=self._counts.down)
            await self._send_page(page, crm, counts)
            counts.numbers["same"] -= written
            can_wait = crm is not None and counts.is_away and not self._counts.down
            if not can_wait or not await self._wait_until_back(crm, counts.retry_after, give_up_at):
                counts.numbers["written"] += written
                return counts
            written += counts.numbers["written"]

    async def _wait_until_back(
        self, crm: Odoo | None, asked: timedelta | None, give_up_at: datetime
    ) -> bool:
        """Ask a CRM that is away until it answers; return False when time is up."""
        clock = self._run.clock
        wait = asked or RETRY_WAIT
        while crm is not None and clock.now() + wait < give_up_at:
            await clock.sleep(wait)
            try:
                await crm.ping()
            except OdooPlaceError:
                # Wrong or away, and asking seldom tells: few questions, over a long time.
                self._place_asks += 1
                wait = PLACE_WAIT * 3**self._place_asks
                if self._place_asks >= MAX_PLACE_ASKS:
                    return False
            except TransientError as error:
                wait = max(min(2 * wait, MAX_AWAY_WAIT), error.retry_after or RETRY_WAIT)
            except (ConfigError, PermanentError):
                return False
            else:
                return True
        return False

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
            for row in build_rows(
                record, tenant=run.store.tenant, least=self._least, rule=self._rule
            )
        ]
        if not rows:
            return
        if crm is None or counts.down:
            await _count_unsent(rows, run, crm, counts)
            return
        if self._lookup is None or self._lookup.crm is not crm:
            self._lookup = OdooLookup(crm)
        try:
            await _send_rows(rows, run, self._lookup, counts)
        except (TransientError, ConfigError) as error:
            counts.set_down(error)
            await _count_unsent(rows, run, crm, counts)
        except PermanentError as error:
            if len(page) == 1:
                for row in rows:
                    counts.add_refused(str(error), [row.external_id], kind=get_kind(row))
                await _save_left(rows, dict.fromkeys(_list_ids(rows), str(error)), run)
                return
            half = len(page) // 2
            await self._send_page(page[:half], crm, counts)
            await self._send_page(page[half:], crm, counts)


async def _save_left(rows: Sequence[CrmRow], reasons: Mapping[str, str], run: RunHandle) -> None:
    left = [
        _build_left_row(row, reasons[row.external_id], format_run_name(run.key.at), run.clock.now())
        for row in rows
    ]
    await run.store.crm.save_left_rows(left, written=())


def _list_ids(rows: Iterable[CrmRow]) -> list[str]:
    return [row.external_id for row in rows]


async def _send_rows(
    rows: Sequence[CrmRow], run: RunHandle, lookup: OdooLookup, counts: _ExportCounts
) -> None:
    """Send a page, and retry once when the CRM did not accept all of it."""
    written = 0
    for left in reversed(range(MAX_TRIES)):
        try:
            sending = await upsert_rows(
                rows,
                crm=lookup.crm,
                store=run.store.crm,
                run=format_run_name(run.key.at),
                now=run.clock.now(),
                lookup=lookup,
            )
        except OdooPlaceError:
            raise
        except TransientError as error:
            asked = error.retry_after or RETRY_WAIT
            if not left or asked > MAX_RETRY_WAIT:
                raise
        else:
            counts.add_written(sending)
            counts.notes |= lookup.notes
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
    if crm is None:
        sent = await run.store.crm.find_sent_rows([row.external_id for row in rows])
    else:
        sent = await _read_sent(rows, crm, run.store.crm)
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
    missing: Mapping[str, str] = field(default_factory=dict)  # leads that this CRM cannot have
    kinds: Mapping[str, str] = field(default_factory=dict)  # of those that were to be sent
    retry_after: timedelta | None = None


async def upsert_rows(
    rows: Sequence[CrmRow],
    *,
    crm: Odoo,
    store: CrmStore,
    run: str,
    now: datetime,
    lookup: OdooLookup | None = None,
) -> UpsertResult:
    """Bring the CRM up to date with these rows, once, however often it is called.

    Rows with the values of last time cost nothing. What went into another CRM does not count for
    this one. Without CRM app or rights, companies and contacts go all the same. Raises as `Odoo`
    does.
    """
    lookup = lookup or OdooLookup(crm)
    sent = await _read_sent(rows, crm, store)
    wanted = list_changed_rows(rows, sent)
    ids = {row.external_id for row in rows}
    if not wanted:
        return UpsertResult(same=len(ids), left={}, refused={}, later={})
    missing = await _find_missing(wanted, lookup)
    wanted = [row for row in wanted if row.external_id not in missing]
    if await lookup.take_inventory({row.model for row in wanted}, store=store, now=now):
        sent = await _read_sent(rows, crm, store)
    named = await lookup.replace_names(wanted)
    found = await lookup.find_existing(rows, named, sent)
    there = found.records
    plan = plan_upserts(
        named,
        sent=sent,
        there=there,
        fields={model: await crm.fields(model) for model in {row.model for row in named}},
        beside=rows,
        doubts=found.doubts,
        guarded=await lookup.find_guarded(named, there),
    )
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
    left = {each.external_id: each.reason for each in plan.skipped}
    refused = {each.external_id: each.reason for each in failed if not each.is_retryable}
    reasons = {**left, **refused, **missing}
    await store.save_left_rows(
        [
            _build_left_row(row, reasons[id_], run, now, is_refused=id_ in refused)
            for row in rows
            if (id_ := row.external_id) in reasons
        ],
        written=[write.row.external_id for write in (*done, *idle)],
    )
    return UpsertResult(
        written=tuple(write.row.external_id for write in done),
        same=len(ids) - len(writes) - len(plan.skipped) - len(missing),
        left=left,
        refused=refused,
        later={each.external_id: each.reason for each in failed if each.is_retryable},
        missing=missing,
        kinds={row.external_id: get_kind(row) for row in rows},
        retry_after=max(
            (each.retry_after for each in failed if each.retry_after is not None), default=None
        ),
    )


async def _read_sent(rows: Sequence[CrmRow], crm: Odoo, store: CrmStore) -> dict[str, SentRow]:
    """Return what was last written of these rows into this CRM."""
    ever = await store.find_sent_rows([row.external_id for row in rows])
    return {id_: each for id_, each in ever.items() if is_written_in(each, crm.database_id)}


async def _find_missing(wanted: Sequence[CrmRow], lookup: OdooLookup) -> dict[str, str]:
    """Return the rows that this CRM cannot have, and why."""
    leads = [row.external_id for row in wanted if row.model == LEAD]
    problem = await lookup.find_lead_problem() if leads else ""
    return dict.fromkeys(leads, problem) if problem else {}


def _build_left_row(
    row: CrmRow, reason: str, run: str, now: datetime, *, is_refused: bool = True
) -> LeftRow:
    return LeftRow(
        external_id=row.external_id,
        model=row.model,
        run=run,
        is_refused=is_refused,
        reason=reason[:MAX_REASON_LENGTH],
        at=now,
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
