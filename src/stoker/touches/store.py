"""One tenant's profiles, plans, outcomes, deliveries and counters, in SQL.

Every change of a week locks that week's row first, so that of two changes one comes wholly after
the other. Counters are incremented in place, so that no concurrent count is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.db.codec import validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_json,
    from_db_time,
    split_into_batches,
    to_db_time,
)
from stoker.touches.model import (
    DaySlot,
    Delivery,
    OutcomeMark,
    PlanBasis,
    Profile,
    ProfileCounts,
    SavedDay,
    SavedWeek,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)
from stoker.touches.profiles import merge_profile
from stoker.touches.queue import is_new_outcome, parse_week
from stoker.touches.row_checks import (
    build_missing_touch_error,
    compute_oldest_day,
    validate_amount,
    validate_counters,
    validate_delivery,
    validate_outcome,
    validate_plan,
    validate_profile,
    validate_profile_url,
    validate_week,
)
from stoker.touches.rows import (
    OUTCOME_COLUMNS,
    PROFILE_COLUMNS,
    TOUCH_COLUMNS,
    build_plan,
    head_to_json,
    parse_outcome_row,
    parse_profile_row,
    parse_touch_row,
    profile_to_row,
    touch_to_row,
)
from stoker.touches.state_file import basis_to_json, parse_basis

PROFILES_COUNTER = "profiles put"  # the counter that says whether profiles have changed

KEEP_LATER_DONE = """
    last_done_at = CASE WHEN touch_profiles.last_done_at IS NULL
            OR {given} > touch_profiles.last_done_at
        THEN {given} ELSE touch_profiles.last_done_at END
"""

UPSERT_PROFILE = f"""
INSERT INTO touch_profiles (tenant_id, {PROFILE_COLUMNS}) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, url) DO UPDATE SET name = excluded.name, status = excluded.status,
{KEEP_LATER_DONE.format(given="excluded.last_done_at")}
"""

UPDATE_LAST_DONE = f"""
UPDATE touch_profiles SET {KEEP_LATER_DONE.format(given=":at")} WHERE tenant_id = :tenant AND url =
:url
"""

SELECT_PROFILES_BY_URL = f"""
SELECT {PROFILE_COLUMNS} FROM asked JOIN touch_profiles ON tenant_id = :tenant AND url = asked.id
"""

SELECT_PROFILES = f"""
SELECT {PROFILE_COLUMNS} FROM touch_profiles WHERE tenant_id = :tenant AND url > :after
ORDER BY url LIMIT :limit
"""

SELECT_HEAD = "SELECT plan, revision FROM touch_plans WHERE tenant_id = :tenant AND week = :week"

INSERT_HEAD = """
INSERT INTO touch_plans (tenant_id, week, revision, plan) VALUES (:tenant, :week, 1, :plan)
ON CONFLICT DO NOTHING
"""

UPDATE_HEAD = """
UPDATE touch_plans SET revision = revision + 1, plan = :plan
WHERE tenant_id = :tenant AND week = :week AND revision = :seen
"""

LOCK_WEEK = """
UPDATE touch_plans SET revision = revision WHERE tenant_id = :tenant AND week = :week
"""

INCREMENT_REVISION = """
UPDATE touch_plans SET revision = revision + 1 WHERE tenant_id = :tenant AND week = :week
"""

DELETE_TOUCHES = "DELETE FROM touches WHERE tenant_id = :tenant AND week = :week AND day = :day"

INSERT_TOUCH = f"""
INSERT INTO touches (tenant_id, week, {TOUCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

SELECT_TOUCHES = f"""
SELECT t.{TOUCH_COLUMNS.replace(", ", ", t.")}, o.outcome, h.way, h.at, h.refused FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
LEFT JOIN touch_handovers h ON h.tenant_id = t.tenant_id AND h.day = t.day AND h.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week
"""

SELECT_DAY = f"{SELECT_TOUCHES} AND t.day = :day"

# Weeks and days are both listed, so that each is looked up and no week is walked through.
SELECT_BY_URL = f"""
SELECT t.{TOUCH_COLUMNS.replace(", ", ", t.")}, o.outcome FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week AND t.url = :url
AND t.day IN (:d0, :d1, :d2, :d3, :d4, :d5, :d6)
"""

SELECT_TOUCH = """
SELECT o.outcome, h.at FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
LEFT JOIN touch_handovers h ON h.tenant_id = t.tenant_id AND h.day = t.day AND h.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week AND t.day = :day AND t.url = :url
"""

UPSERT_OUTCOME = f"""
INSERT INTO touch_outcomes (tenant_id, {OUTCOME_COLUMNS}) VALUES (:tenant, :day, :url, :outcome,
:at)
ON CONFLICT (tenant_id, day, url) DO UPDATE SET outcome = excluded.outcome, at = excluded.at
"""

INSERT_DELIVERY = """
INSERT INTO touch_handovers (tenant_id, day, url, way, at, refused)
VALUES (:tenant, :day, :url, :way, :at, :refused)
"""

COUNT_AWAITING = """
SELECT count(*) FROM touch_handovers h
LEFT JOIN touch_outcomes o ON o.tenant_id = h.tenant_id AND o.day = h.day AND o.url = h.url
WHERE h.tenant_id = :tenant AND h.day >= :oldest AND h.at >= :since AND h.refused = ''
AND o.outcome IS NULL
"""

SELECT_OUTCOMES = f"""
SELECT {OUTCOME_COLUMNS} FROM touch_outcomes WHERE tenant_id = :tenant AND day >= :since ORDER BY
day, url
"""

ADD_TO_COUNTER = """
INSERT INTO touch_counters (tenant_id, name, used) VALUES (?, ?, ?)
ON CONFLICT (tenant_id, name) DO UPDATE SET used = touch_counters.used + excluded.used
"""

SELECT_COUNTERS = """
SELECT name, used FROM asked JOIN touch_counters ON tenant_id = :tenant AND name = asked.id
"""


class SqlTouchStore:
    """A `TouchStore` in the tables of touches."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def save_profiles(self, profiles: Sequence[Profile]) -> ProfileCounts:
        valid = [validate_profile(profile) for profile in profiles]
        if not valid:
            return ProfileCounts()
        return await self._database.write(lambda tx: self._upsert_profiles(tx, valid))

    async def list_profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        validate_text(after, what="a profile's url")
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_PROFILES, tenant=self._tenant, after=after, limit=limit)
        )
        return [parse_profile_row(row) for row in rows]

    async def find_profiles(self, urls: Sequence[str]) -> list[Profile]:
        names = sorted({validate_profile_url(url) for url in urls})
        found = (
            await self._database.read(lambda tx: self._select_profiles(tx, names)) if names else {}
        )
        return [found[url] for url in names if url in found]

    async def get_profiles_version(self) -> int:
        return await self._database.read(
            lambda tx: self._select_counters(tx, [PROFILES_COUNTER]).get(PROFILES_COUNTER, 0)
        )

    async def find_plan(self, week: str) -> SavedWeek | None:
        values: dict[str, Value] = {"tenant": self._tenant, "week": validate_week(week)}

        def look(tx: Transaction) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            head = tx.query(SELECT_HEAD, **values)
            return head, tx.query(SELECT_TOUCHES, **values) if head else []

        found, rows = await self._database.read(look)
        if not found:
            return None
        [(head_text, revision)] = found
        head = from_db_json(head_text)
        touches = [parse_touch_row(row[:-3]) for row in rows]
        settled, then = _parse_head_basis(head)
        return SavedWeek(
            plan=build_plan(head, touches),
            revision=revision,
            deliveries=_parse_deliveries(touches, rows),
            basis=settled if then == revision else None,
        )

    async def find_day(self, week: str, day: date) -> SavedDay | None:
        values: dict[str, Value] = {"tenant": self._tenant, "week": validate_week(week)}

        def look(tx: Transaction) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            head = tx.query(SELECT_HEAD, **values)
            return head, tx.query(SELECT_DAY, day=day.isoformat(), **values) if head else []

        found, rows = await self._database.read(look)
        if not found:
            return None
        [(head_text, revision)] = found
        head = from_db_json(head_text)
        touches = [parse_touch_row(row[:-3]) for row in rows]
        slot = build_plan(head, touches).slot(day)
        if slot is None:
            return None
        settled, then = _parse_head_basis(head)
        return SavedDay(
            slot=slot,
            deliveries={url: each for (_, url), each in _parse_deliveries(touches, rows).items()},
            basis=settled,
            has_new_outcomes=settled is not None and then != revision,
        )

    async def list_touches(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        validate_profile_url(url)
        names = sorted({validate_week(week) for week in weeks})

        def look(tx: Transaction) -> list[Touch]:
            found = []
            for week in names:
                monday = parse_week(week)
                days: dict[str, Value] = {
                    f"d{n}": (monday + timedelta(days=n)).isoformat() for n in range(7)
                }
                rows = tx.query(SELECT_BY_URL, tenant=self._tenant, week=week, url=url, **days)
                found += [parse_touch_row(row) for row in rows]
            return sorted(found, key=lambda touch: touch.day)

        return await self._database.read(look)

    async def save_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: PlanBasis | None = None
    ) -> bool:
        valid = validate_plan(plan)
        values: dict[str, Value] = {"tenant": self._tenant, "week": valid.week}
        digests = {
            slot.day.isoformat(): self._compute_digest(valid.week, slot) for slot in valid.days
        }
        basis = basis_to_json(settled, seen + 1) if settled else None
        head = compact_json({**head_to_json(valid), "digests": {**digests}, "settled": basis})

        def put(tx: Transaction) -> bool:
            tx.execute(LOCK_WEEK, **values)
            before = tx.query(SELECT_HEAD, **values)
            if seen:
                won = tx.execute(UPDATE_HEAD, plan=head, seen=seen, **values)
            else:
                won = tx.execute(INSERT_HEAD, plan=head, **values)
            if not won:
                return False
            # A repair leaves most days as they were; those are not written again.
            known = from_db_json(before[0][0]).get("digests", {}) if before else {}
            for slot in valid.days:
                day = slot.day.isoformat()
                if known.get(day) != digests[day]:
                    tx.execute(DELETE_TOUCHES, day=day, **values)
                    tx.execute_many(INSERT_TOUCH, self._to_rows(valid.week, slot))
            return True

        return await self._database.write(put)

    async def record_outcome(
        self, week: str, marked: OutcomeMark, *, counters: Sequence[str]
    ) -> bool:
        validate_week(week)
        marked, names = validate_outcome(marked), validate_counters(counters)
        at = to_db_time(marked.marked_at)

        def mark(tx: Transaction) -> bool:
            known, _ = self._lock_touch(tx, week, marked.day, marked.url)
            if not is_new_outcome(None if known is None else TouchOutcome(known), marked):
                return False
            touch: dict[str, Value] = {"day": marked.day.isoformat(), "url": marked.url}
            tx.execute(UPSERT_OUTCOME, tenant=self._tenant, outcome=marked.outcome, at=at, **touch)
            if marked.outcome.is_counted:
                tx.execute_many(ADD_TO_COUNTER, [(self._tenant, name, 1) for name in names])
                tx.execute(UPDATE_LAST_DONE, tenant=self._tenant, url=marked.url, at=at)
            tx.execute(INCREMENT_REVISION, tenant=self._tenant, week=week)
            return True

        return await self._database.write(mark)

    async def record_delivery(self, week: str, handed: Delivery) -> bool:
        validate_week(week)
        handed = validate_delivery(handed)

        def hand_over(tx: Transaction) -> bool:
            if any(self._lock_touch(tx, week, handed.day, handed.url)):
                return False
            tx.execute(
                INSERT_DELIVERY,
                tenant=self._tenant,
                day=handed.day.isoformat(),
                url=handed.url,
                way=handed.channel,
                at=to_db_time(handed.at),
                refused=handed.refused,
            )
            return True

        return await self._database.write(hand_over)

    async def count_awaiting_outcome(self, *, since: datetime) -> int:
        oldest, at = compute_oldest_day(since).isoformat(), to_db_time(since)
        rows = await self._database.read(
            lambda tx: tx.query(COUNT_AWAITING, tenant=self._tenant, oldest=oldest, since=at)
        )
        return int(rows[0][0])

    async def list_outcomes(self, *, since: date) -> list[OutcomeMark]:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_OUTCOMES, tenant=self._tenant, since=since.isoformat())
        )
        return [parse_outcome_row(row) for row in rows]

    async def add_to_counters(self, counters: Sequence[str], amount: int) -> None:
        grown = validate_amount(amount)
        rows = [(self._tenant, name, grown) for name in validate_counters(counters)]
        if rows:
            await self._database.write(lambda tx: tx.execute_many(ADD_TO_COUNTER, rows))

    async def read_counters(self, counters: Sequence[str]) -> dict[str, int]:
        names = validate_counters(counters)

        found = (
            await self._database.read(lambda tx: self._select_counters(tx, names)) if names else {}
        )
        return {name: found.get(name, 0) for name in names}

    def _select_counters(self, tx: Transaction, names: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for query, some in split_into_batches(SELECT_COUNTERS, names):
            found.update(tx.query(query, tenant=self._tenant, **some))
        return found

    def _select_profiles(self, tx: Transaction, urls: Sequence[str]) -> dict[str, Profile]:
        found: dict[str, Profile] = {}
        for query, some in split_into_batches(SELECT_PROFILES_BY_URL, urls):
            rows = tx.query(query, tenant=self._tenant, **some)
            found |= {profile.url: profile for profile in map(parse_profile_row, rows)}
        return found

    def _to_rows(self, week: str, slot: DaySlot) -> Iterator[tuple[Value, ...]]:
        return ((self._tenant, week, *touch_to_row(touch)) for touch in slot.touches)

    def _compute_digest(self, week: str, slot: DaySlot) -> str:
        # Row by row: a day may have so many that all of them at once would be felt.
        digest = sha256()
        for row in self._to_rows(week, slot):
            digest.update(repr(row).encode())
        return digest.hexdigest()

    def _upsert_profiles(self, tx: Transaction, profiles: Sequence[Profile]) -> ProfileCounts:
        known = self._select_profiles(tx, sorted({each.url for each in profiles}))
        new = changed = 0
        differing: dict[str, Profile] = {}
        for given in profiles:
            before = known.get(given.url)
            merged = given if before is None else merge_profile(before, given)
            new, changed = new + (before is None), changed + (before not in (None, merged))
            if merged != before:
                differing[given.url] = known[given.url] = merged
        rows_put = [(self._tenant, *profile_to_row(differing[url])) for url in sorted(differing)]
        tx.execute_many(UPSERT_PROFILE, rows_put)
        if rows_put:
            tx.execute_many(ADD_TO_COUNTER, [(self._tenant, PROFILES_COUNTER, 1)])
        return ProfileCounts(new=new, changed=changed, same=len(profiles) - new - changed)

    def _lock_touch(self, tx: Transaction, week: str, day: date, url: str) -> tuple[Any, Any]:
        """Take a week for this transaction; return a touch's outcome and when it left."""
        tx.execute(LOCK_WEEK, tenant=self._tenant, week=week)
        rows = tx.query(SELECT_TOUCH, tenant=self._tenant, week=week, day=day.isoformat(), url=url)
        if not rows:
            raise build_missing_touch_error(week, url)
        outcome, left_at = rows[0]
        return outcome, left_at


def _parse_head_basis(head: Mapping[str, Any]) -> tuple[PlanBasis | None, int]:
    """Return what a plan was brought in line with, and the revision it had then."""
    basis = head.get("settled")
    return parse_basis(basis) if basis else (None, 0)


def _parse_deliveries(
    touches: Sequence[Touch], rows: Sequence[tuple[Any, ...]]
) -> dict[tuple[date, str], Delivery]:
    """Return those of touches that left, from the ends of their rows."""
    return {
        (touch.day, touch.url): Delivery(
            url=touch.url, day=touch.day, channel=row[-3], at=from_db_time(row[-2]), refused=row[-1]
        )
        for touch, row in zip(touches, rows, strict=True)
        if row[-3] is not None
    }
