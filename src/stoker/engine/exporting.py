"""What a tenant knows about its companies, into its CRM: page by page, whatever was not sent yet.

Nothing says what is still to be sent but the rows themselves: those that want something else than
was last written. So whatever a stop, a crash or a CRM that was down left out is sent by the next
run. How rows are sent is `crm_sending`'s business; what is in them, `core.crm`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from stoker.accounts import CrmConnection
from stoker.core.companies import Dossier
from stoker.core.crm import CrmRow, rows_of
from stoker.core.runs import run_name
from stoker.core.upserts import changed, written_there
from stoker.engine.crm_sending import Sending, send_rows
from stoker.engine.night_exports import Exported
from stoker.engine.running import OpenRun
from stoker.errors import ConfigError, PermanentError, TransientError
from stoker.sources import Crm

DOSSIERS_A_PAGE = 200
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

    async def export(self, run: OpenRun) -> Exported:
        """Send everything the CRM does not have yet, this run's and what earlier ones left.

        Twice is once. Once the CRM is down the rest is counted and kept. Raises what the store
        raises, nothing else.
        """
        tally = _Tally()
        connection = await run.store.accounts.connection()
        crm = self._opened(connection, tally)
        if crm is None and connection is None:
            # Nobody ever said where results go: they do not wait for anything.
            return Exported(reasons=(f"nothing went into a CRM: {tally.down}",))
        after = ""
        while page := await run.store.accounts.dossiers(after=after, limit=self._size):
            after = page[-1].company.id
            tally.companies += len(page)
            await self._page(page, run, crm, tally)
        return tally.exported()

    def _opened(self, connection: CrmConnection | None, tally: _Tally) -> Crm | None:
        if connection is not None and not connection.active:
            tally.down = "the connection to the CRM is switched off"
            return None
        try:
            return self._opens(connection)
        except ConfigError as error:
            tally.down = str(error)
            return None

    async def _page(
        self, page: Sequence[Dossier], run: OpenRun, crm: Crm | None, tally: _Tally
    ) -> None:
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
            await self._page(page[:half], run, crm, tally)
            await self._page(page[half:], run, crm, tally)


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
