"""Rows into a tenant's CRM: remember what is meant, send it, remember what became of it.

What is meant is remembered first, so that after a crash our own half-done write is not mistaken for
a person's. What is sent is decided in `core.upserts`; which rows there are, in `core.crm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.accounts import NightStore, SentRow
from stoker.core.crm import CrmRecord, CrmRow
from stoker.core.upserts import (
    FOUND,
    PLACE,
    Write,
    changed,
    is_away,
    planned,
    remembered,
    was_taken_back,
    written_there,
)
from stoker.engine.crm_finding import found_again, found_there
from stoker.sources import Crm, Upserting


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What became of rows. Reasons are sentences a tenant can read, by external id."""

    written: tuple[str, ...] = ()
    same: int = 0  # nothing needed to be sent
    left: Mapping[str, str]  # left as they are, because of what people did or the row says
    refused: Mapping[str, str]  # set aside: the CRM will not have them as they are
    later: Mapping[str, str]  # to be sent another time
    retry_after: timedelta | None = None


async def send_rows(
    rows: Sequence[CrmRow], *, crm: Crm, store: NightStore, run: str, now: datetime
) -> Sending:
    """Bring the CRM up to date with these rows, once, however often it is called.

    Rows that want what they wanted last time cost nothing. What went into another CRM before says
    nothing about this one. Raises as `Crm` does.
    """
    ever = await store.sent_rows([row.external_id for row in rows])
    sent = {id_: each for id_, each in ever.items() if written_there(each, crm.place)}
    wanted = changed(rows, sent)
    ids = {row.external_id for row in rows}
    if not wanted:
        return Sending(same=len(ids), left={}, refused={}, later={})
    there = await found_there(rows, wanted, crm=crm, sent=sent)
    fields = {model: await crm.fields(model) for model in {row.model for row in wanted}}
    plan = planned(wanted, sent=sent, there=there, fields=fields, beside=rows)
    writes = [write for write in plan.writes if write.cells]
    idle = [write for write in plan.writes if not write.cells]
    await store.keep_sent([_meant(write, crm.place, run, now) for write in writes])
    told = await crm.upsert(writes) if writes else {}
    done = [write for write in writes if told[write.row.external_id].id is not None]
    after = {**there, **await _read_back(done, told, crm)}
    kept = [
        _became(write, after[write.row.external_id], sent, crm.place, run, now)
        for write in (*done, *idle)
        if write.row.external_id in after and (write.cells or not _hides(write, sent, there))
    ]
    await store.keep_sent(kept)
    failed = [each for each in told.values() if each.id is None]
    return Sending(
        written=tuple(write.row.external_id for write in done),
        same=len(ids) - len(writes) - len(plan.left),
        left={each.external_id: each.because for each in plan.left},
        refused={each.external_id: each.because for each in failed if not each.later},
        later={each.external_id: each.because for each in failed if each.later},
        retry_after=max(
            (each.retry_after for each in failed if each.retry_after is not None), default=None
        ),
    )


async def _read_back(
    done: Sequence[Write], told: Mapping[str, Upserting], crm: Crm
) -> dict[str, CrmRecord]:
    known = {
        write.row.external_id: id_
        for write in done
        if (id_ := told[write.row.external_id].id) is not None
    }
    return await found_again((write.row for write in done), crm=crm, known=known)


def _hides(write: Write, sent: Mapping[str, SentRow], there: Mapping[str, CrmRecord]) -> bool:
    """Say whether remembering a row would make us forget that something was taken back."""
    id_ = write.row.external_id
    earlier = sent.get(id_)
    return earlier is not None and (was_taken_back(earlier) or is_away(earlier, there[id_]))


def _meant(write: Write, place: str, run: str, now: datetime) -> SentRow:
    return SentRow(
        external_id=write.row.external_id,
        model=write.row.model,
        digest="",  # of nothing that was wanted: it is looked at again until it is done
        values={**write.intent, PLACE: place},
        before=write.before,
        run=run,
        at=now,
    )


def _became(
    write: Write,
    record: CrmRecord,
    sent: Mapping[str, SentRow],
    place: str,
    run: str,
    now: datetime,
) -> SentRow:
    earlier = sent.get(write.row.external_id)
    # Who wrote nothing has nothing to undo: the run that did stays in charge, also of what it made
    # and never heard of again.
    idle = None if write.cells else earlier
    return SentRow(
        external_id=write.row.external_id,
        model=write.row.model,
        digest=write.digest,
        values={**remembered(write, record, earlier), PLACE: place},
        before=write.before if idle is None else idle.before,
        run=run if write.cells else FOUND if idle is None else idle.run,
        at=now,
    )
