"""Cache paid answers: name queries, save answers before they are settled, find them again.

Equal queries have equal keys, so no tenant pays twice. An answer knows how long it is worth
caching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

from stoker.accounts.store import read_suppressions
from stoker.base.clock import Clock
from stoker.base.errors import PermanentError, StokerError
from stoker.base.events import Observer
from stoker.base.jsontools import compute_digest, get_count, get_line, get_object
from stoker.base.types import Json
from stoker.budgets.reservations import Reservation, ReservationStatus, find_alert
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.context import TenantStores
from stoker.db.database import Database, Transaction, to_db_time
from stoker.vendors.model import CachedAnswer, VendorAnswer, VendorQuery
from stoker.vendors.schema import ANSWERS

MIN_RETRY_DELAY = timedelta(hours=6)  # at least: a nightly run may begin just before midnight
MAX_UNSAVED = 10_000  # paid answers held in memory while the store does not take them

AnswerT = TypeVar("AnswerT")


def build_cache_key(connector: str, *, account: str, asked: Json, rehearsed: bool = False) -> str:
    """Return the cache key of a query about an account; it reveals neither.

    Queries to sandbox vendors (`rehearsed`) have other keys, so their answers never count as real.
    """
    parts: list[Json] = [connector, account, asked]
    digest = compute_digest([*parts, "rehearsed"] if rehearsed else parts, length=40)
    return f"{connector}/{digest}"


def compute_retry_at(reservation: Reservation, *, reset: ResetRule) -> datetime:
    """Return when a query may be asked again whose outcome under this reservation is unknown.

    On the tenant's next day, and hours later at least: on the same day nothing is paid for that may
    be on a bill already. The old reservation stays counted until a person settles it.
    """
    day = compute_window(WindowKind.DAY, reservation.reserved_at, reset=reset)
    return max(day.end, reservation.reserved_at + MIN_RETRY_DELAY)


def is_blocked_by(reservation: Reservation | None, *, now: datetime, reset: ResetRule) -> bool:
    """Return whether an unknown outcome under this reservation blocks the query now."""
    return (
        reservation is not None
        and reservation.status is ReservationStatus.UNCERTAIN
        and now < compute_retry_at(reservation, reset=reset)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """What is cached under a query's key.

    `reservation_key` names the reservation the query was asked under, `cost` what that reservation
    cost in all. Without `answer` it is a mark: the query was about to be asked, and the
    reservation's status tells what became of it.
    """

    reservation_key: str
    cost: Mapping[str, int] = field(default_factory=dict)
    answer: Json = None

    def as_json(self) -> Json:
        """Return the record as a store saves it."""
        return {"under": self.reservation_key, "cost": dict(self.cost), "said": self.answer}


def build_cached_answer(
    key: str,
    connector: str,
    *,
    reservation_key: str,
    at: datetime,
    ttl: timedelta,
    cost: Mapping[str, int] = MappingProxyType({}),
    share: Mapping[str, int] | None = None,
    answer: Json = None,
    account: str = "",
) -> CachedAnswer:
    """Return an answer as it is cached; without one it is a mark.

    `cost` is what the reservation cost in all, `share` this answer's part of it.
    """
    record = AnswerRecord(reservation_key=reservation_key, cost=cost, answer=answer)
    return CachedAnswer(
        key=key,
        connector=connector,
        answer=record.as_json(),
        cost=cost if share is None else share,
        at=at,
        expires_at=at + ttl,
        account=account,
    )


def decode_record(cached: Json) -> AnswerRecord:
    """Decode a cached record. Raises PermanentError when it has another form."""
    data = get_object(cached)
    reservation_key = get_line(data, "under", longest=500)
    costs = {name: get_count(data.get("cost"), name) for name in get_object(data, "cost")}
    cost = {name: amount for name, amount in costs.items() if amount is not None}
    if not reservation_key or len(cost) != len(costs):
        raise PermanentError("the cached record is not an answer; it is asked again")
    return AnswerRecord(reservation_key=reservation_key, cost=cost, answer=data.get("said"))


# The outer condition repeats the inner one: an answer that was renewed meanwhile stays.
DELETE_ANSWERS = """
DELETE FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before AND key IN (
    SELECT key FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before
    ORDER BY good_until, key LIMIT :limit)
"""


class AnswerStore:
    """One tenant's paid answers. An answer is saved before its reservation is settled."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        """Save answers, each in place of an older one under its key. Atomic.

        What they say of erased persons is taken out.
        """
        latest = {answer.key: answer for answer in answers}
        for answer in latest.values():
            ANSWERS.to_row(answer)  # refused before anything is written

        def save(tx: Transaction) -> None:
            suppressed = read_suppressions(tx)
            ANSWERS.save(
                tx,
                [
                    replace(each, answer=suppressed.redact_json(each.answer, each.account))
                    for each in latest.values()
                ],
            )

        if latest:
            await self._database.write(save)

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        """Return the answers under these keys by key, expired or not."""
        names = sorted({str(ANSWERS.encode(key=key)["key"]) for key in keys})
        if not names:
            return {}
        found = await self._database.read(lambda tx: ANSWERS.find_in(tx, "key", names))
        return {answer.key: answer for answer in sorted(found, key=lambda answer: answer.key)}

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` answers that expired before then; return how many."""
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_ANSWERS, before=end, limit=limit)
        )


class AnswerCache:
    """One tenant's paid answers: those in the store, and those that it could not take yet."""

    def __init__(self, store: TenantStores, *, clock: Clock, observer: Observer) -> None:
        self._store = store
        self._clock = clock
        self._observer = observer
        self._unsaved: dict[str, CachedAnswer] = {}  # by key: paid for, and not in the store yet

    async def find_answer(
        self, key: str, query: VendorQuery[AnswerT]
    ) -> VendorAnswer[AnswerT] | None:
        """Return the good answer cached for a query, or None."""
        known = (await self.find_known({key: query})).get(key)
        return known if isinstance(known, VendorAnswer) else None

    async def find_known(
        self, queries: Mapping[str, VendorQuery[AnswerT]]
    ) -> dict[str, VendorAnswer[AnswerT] | AnswerRecord]:
        """Return what is cached for these queries, by key: good answers, and marks without one.

        Answers that an earlier call could not save are saved now if the store takes them; a
        reservation whose worker died before settling it is settled. What has another form, from an
        older version or damaged, is left out and asked again.
        """
        for answer in list(self._unsaved.values()):
            await self.save_paid([answer])
        cached = await self._store.answers.find_answers(list(queries)) if queries else {}
        cached |= {key: self._unsaved[key] for key in queries if key in self._unsaved}
        known: dict[str, VendorAnswer[AnswerT] | AnswerRecord] = {}
        settled: set[str] = set()
        for key, answer in cached.items():
            with suppress(PermanentError):
                record = decode_record(answer.answer)
                if record.answer is None:
                    known[key] = record
                    continue
                decoded = queries[key].decode_answer(record.answer)
                if record.reservation_key not in settled:
                    settled.add(record.reservation_key)
                    await self._settle_if_open(record)
                if answer.expires_at > self._clock.now():
                    known[key] = VendorAnswer(answer=decoded, at=answer.at, saved=answer.cost)
        return known

    async def save_paid(self, answers: Sequence[CachedAnswer]) -> None:
        """Save paid answers; hold those that the store does not take, so none is paid for twice."""
        try:
            await self._store.answers.save_answers(answers)
        except StokerError:
            self._unsaved |= {answer.key: answer for answer in answers}
            while len(self._unsaved) > MAX_UNSAVED:
                del self._unsaved[next(iter(self._unsaved))]
        else:
            for answer in answers:
                self._unsaved.pop(answer.key, None)

    async def _settle_if_open(self, record: AnswerRecord) -> None:
        """Settle the reservation of a cached answer whose worker died before settling it."""
        with suppress(StokerError):  # the answer is good whatever becomes of its reservation
            reservation = await self._store.budgets.find_reservation(record.reservation_key)
            if reservation is None or reservation.status is ReservationStatus.SETTLED:
                return
            now = self._clock.now()
            reservation = await self._store.budgets.settle(
                record.reservation_key, record.cost, now=now
            )
            alert = find_alert(reservation, tenant=self._store.tenant, at=now)
            if alert is not None:
                self._observer(alert)
