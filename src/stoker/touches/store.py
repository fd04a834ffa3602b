"""One tenant's profiles, plans and counters, in SQL.

Whatever changes a week takes that week's row first, so that of two who change it one comes wholly
after the other. Counters are added to where they stand, so that nobody's count is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.db.codec import kept_text
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    asked,
    json_value,
    moment,
    moment_text,
)
from stoker.touches.model import (
    DaySlot,
    HandOver,
    KeptDay,
    KeptPlan,
    Marked,
    Outcome,
    Profile,
    ProfilesPut,
    Settled,
    Touch,
    WeeklyPlan,
)
from stoker.touches.profiles import merged_profile
from stoker.touches.queue import is_news, monday_named
from stoker.touches.row_checks import (
    kept_amount,
    kept_counters,
    kept_handover,
    kept_mark,
    kept_plan,
    kept_profile,
    kept_url,
    kept_week,
    no_such_touch,
    oldest_day,
)
from stoker.touches.rows import (
    MARK,
    PROFILE,
    TOUCH,
    head_json,
    mark_of,
    plan_of,
    profile_of,
    profile_row,
    touch_of,
    touch_row,
)
from stoker.touches.state_file import settled_json, settled_of

PUTS = "profiles put"  # the counter that says whether profiles have changed

LATER = """
    last_done_at = CASE WHEN touch_profiles.last_done_at IS NULL
            OR {said} > touch_profiles.last_done_at
        THEN {said} ELSE touch_profiles.last_done_at END
"""

PUT_PROFILE = f"""
INSERT INTO touch_profiles (tenant_id, {PROFILE}) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, url) DO UPDATE SET name = excluded.name, status = excluded.status,
{LATER.format(said="excluded.last_done_at")}
"""

DONE = f"""
UPDATE touch_profiles SET {LATER.format(said=":at")} WHERE tenant_id = :tenant AND url = :url
"""

SOME_PROFILES = f"""
SELECT {PROFILE} FROM asked JOIN touch_profiles ON tenant_id = :tenant AND url = asked.id
"""

PROFILES = f"""
SELECT {PROFILE} FROM touch_profiles WHERE tenant_id = :tenant AND url > :after
ORDER BY url LIMIT :limit
"""

HEAD = "SELECT plan, revision FROM touch_plans WHERE tenant_id = :tenant AND week = :week"

NEW_HEAD = """
INSERT INTO touch_plans (tenant_id, week, revision, plan) VALUES (:tenant, :week, 1, :plan)
ON CONFLICT DO NOTHING
"""

NEXT_HEAD = """
UPDATE touch_plans SET revision = revision + 1, plan = :plan
WHERE tenant_id = :tenant AND week = :week AND revision = :seen
"""

TAKE_WEEK = """
UPDATE touch_plans SET revision = revision WHERE tenant_id = :tenant AND week = :week
"""

MOVE_ON = """
UPDATE touch_plans SET revision = revision + 1 WHERE tenant_id = :tenant AND week = :week
"""

OLD_TOUCHES = "DELETE FROM touches WHERE tenant_id = :tenant AND week = :week AND day = :day"

NEW_TOUCH = f"""
INSERT INTO touches (tenant_id, week, {TOUCH}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

TOUCHES = f"""
SELECT t.{TOUCH.replace(", ", ", t.")}, o.outcome, h.way, h.at, h.refused FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
LEFT JOIN touch_handovers h ON h.tenant_id = t.tenant_id AND h.day = t.day AND h.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week
"""

OF_THE_DAY = f"{TOUCHES} AND t.day = :day"

# Weeks and days are both listed, so that each is looked up and no week is walked through.
OF_A_URL = f"""
SELECT t.{TOUCH.replace(", ", ", t.")}, o.outcome FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week AND t.url = :url
AND t.day IN (:d0, :d1, :d2, :d3, :d4, :d5, :d6)
"""

ONE_TOUCH = """
SELECT o.outcome, h.at FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
LEFT JOIN touch_handovers h ON h.tenant_id = t.tenant_id AND h.day = t.day AND h.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week AND t.day = :day AND t.url = :url
"""

PUT_OUTCOME = f"""
INSERT INTO touch_outcomes (tenant_id, {MARK}) VALUES (:tenant, :day, :url, :outcome, :at)
ON CONFLICT (tenant_id, day, url) DO UPDATE SET outcome = excluded.outcome, at = excluded.at
"""

PUT_HANDOVER = """
INSERT INTO touch_handovers (tenant_id, day, url, way, at, refused)
VALUES (:tenant, :day, :url, :way, :at, :refused)
"""

STILL_OUT = """
SELECT count(*) FROM touch_handovers h
LEFT JOIN touch_outcomes o ON o.tenant_id = h.tenant_id AND o.day = h.day AND o.url = h.url
WHERE h.tenant_id = :tenant AND h.day >= :oldest AND h.at >= :since AND h.refused = ''
AND o.outcome IS NULL
"""

MARKS = f"""
SELECT {MARK} FROM touch_outcomes WHERE tenant_id = :tenant AND day >= :since ORDER BY day, url
"""

COUNT = """
INSERT INTO touch_counters (tenant_id, name, used) VALUES (?, ?, ?)
ON CONFLICT (tenant_id, name) DO UPDATE SET used = touch_counters.used + excluded.used
"""

COUNTED = """
SELECT name, used FROM asked JOIN touch_counters ON tenant_id = :tenant AND name = asked.id
"""


class SqlTouches:
    """A `TouchStore` in the tables of touches."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def put_profiles(self, profiles: Sequence[Profile]) -> ProfilesPut:
        kept = [kept_profile(profile) for profile in profiles]
        if not kept:
            return ProfilesPut()
        return await self._database.write(lambda tx: self._put_profiles(tx, kept))

    async def profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        kept_text(after, what="a profile's url")
        rows = await self._database.read(
            lambda tx: tx.rows(PROFILES, tenant=self._tenant, after=after, limit=limit)
        )
        return [profile_of(row) for row in rows]

    async def some_profiles(self, urls: Sequence[str]) -> list[Profile]:
        names = sorted({kept_url(url) for url in urls})
        found = await self._database.read(lambda tx: self._known(tx, names)) if names else {}
        return [found[url] for url in names if url in found]

    async def roster(self) -> int:
        return await self._database.read(lambda tx: self._counted(tx, [PUTS]).get(PUTS, 0))

    async def plan(self, week: str) -> KeptPlan | None:
        values: dict[str, Value] = {"tenant": self._tenant, "week": kept_week(week)}

        def look(tx: Transaction) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            head = tx.rows(HEAD, **values)
            return head, tx.rows(TOUCHES, **values) if head else []

        found, rows = await self._database.read(look)
        if not found:
            return None
        [(said, revision)] = found
        head = json_value(said)
        touches = [touch_of(row[:-3]) for row in rows]
        settled, then = _settled(head)
        return KeptPlan(
            plan=plan_of(head, touches),
            revision=revision,
            handed=_handed(touches, rows),
            settled=settled if then == revision else None,
        )

    async def day(self, week: str, day: date) -> KeptDay | None:
        values: dict[str, Value] = {"tenant": self._tenant, "week": kept_week(week)}

        def look(tx: Transaction) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            head = tx.rows(HEAD, **values)
            return head, tx.rows(OF_THE_DAY, day=day.isoformat(), **values) if head else []

        found, rows = await self._database.read(look)
        if not found:
            return None
        [(said, revision)] = found
        head = json_value(said)
        touches = [touch_of(row[:-3]) for row in rows]
        slot = plan_of(head, touches).slot(day)
        if slot is None:
            return None
        settled, then = _settled(head)
        return KeptDay(
            slot=slot,
            handed={url: each for (_, url), each in _handed(touches, rows).items()},
            settled=settled,
            marked_since=settled is not None and then != revision,
        )

    async def touches_of(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        kept_url(url)
        names = sorted({kept_week(week) for week in weeks})

        def look(tx: Transaction) -> list[Touch]:
            found = []
            for week in names:
                monday = monday_named(week)
                days: dict[str, Value] = {
                    f"d{n}": (monday + timedelta(days=n)).isoformat() for n in range(7)
                }
                rows = tx.rows(OF_A_URL, tenant=self._tenant, week=week, url=url, **days)
                found += [touch_of(row) for row in rows]
            return sorted(found, key=lambda touch: touch.day)

        return await self._database.read(look)

    async def put_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: Settled | None = None
    ) -> bool:
        kept = kept_plan(plan)
        values: dict[str, Value] = {"tenant": self._tenant, "week": kept.week}
        digests = {slot.day.isoformat(): self._digest(kept.week, slot) for slot in kept.days}
        told = settled_json(settled, seen + 1) if settled else None
        head = compact_json({**head_json(kept), "digests": {**digests}, "settled": told})

        def put(tx: Transaction) -> bool:
            tx.change(TAKE_WEEK, **values)
            before = tx.rows(HEAD, **values)
            if seen:
                won = tx.change(NEXT_HEAD, plan=head, seen=seen, **values)
            else:
                won = tx.change(NEW_HEAD, plan=head, **values)
            if not won:
                return False
            # A repair leaves most days as they were; those are not written again.
            known = json_value(before[0][0]).get("digests", {}) if before else {}
            for slot in kept.days:
                day = slot.day.isoformat()
                if known.get(day) != digests[day]:
                    tx.change(OLD_TOUCHES, day=day, **values)
                    tx.change_many(NEW_TOUCH, self._rows(kept.week, slot))
            return True

        return await self._database.write(put)

    async def mark(self, week: str, marked: Marked, *, counters: Sequence[str]) -> bool:
        kept_week(week)
        marked, names = kept_mark(marked), kept_counters(counters)
        at = moment_text(marked.marked_at)

        def mark(tx: Transaction) -> bool:
            known, _ = self._taken(tx, week, marked.day, marked.url)
            if not is_news(None if known is None else Outcome(known), marked):
                return False
            touch: dict[str, Value] = {"day": marked.day.isoformat(), "url": marked.url}
            tx.change(PUT_OUTCOME, tenant=self._tenant, outcome=marked.outcome, at=at, **touch)
            if marked.outcome.counts:
                tx.change_many(COUNT, [(self._tenant, name, 1) for name in names])
                tx.change(DONE, tenant=self._tenant, url=marked.url, at=at)
            tx.change(MOVE_ON, tenant=self._tenant, week=week)
            return True

        return await self._database.write(mark)

    async def hand_over(self, week: str, handed: HandOver) -> bool:
        kept_week(week)
        handed = kept_handover(handed)

        def hand_over(tx: Transaction) -> bool:
            if any(self._taken(tx, week, handed.day, handed.url)):
                return False
            tx.change(
                PUT_HANDOVER,
                tenant=self._tenant,
                day=handed.day.isoformat(),
                url=handed.url,
                way=handed.way,
                at=moment_text(handed.at),
                refused=handed.refused,
            )
            return True

        return await self._database.write(hand_over)

    async def still_out(self, *, since: datetime) -> int:
        oldest, at = oldest_day(since).isoformat(), moment_text(since)
        rows = await self._database.read(
            lambda tx: tx.rows(STILL_OUT, tenant=self._tenant, oldest=oldest, since=at)
        )
        return int(rows[0][0])

    async def marks(self, *, since: date) -> list[Marked]:
        rows = await self._database.read(
            lambda tx: tx.rows(MARKS, tenant=self._tenant, since=since.isoformat())
        )
        return [mark_of(row) for row in rows]

    async def count(self, counters: Sequence[str], amount: int) -> None:
        grown = kept_amount(amount)
        rows = [(self._tenant, name, grown) for name in kept_counters(counters)]
        if rows:
            await self._database.write(lambda tx: tx.change_many(COUNT, rows))

    async def counted(self, counters: Sequence[str]) -> dict[str, int]:
        names = kept_counters(counters)

        found = await self._database.read(lambda tx: self._counted(tx, names)) if names else {}
        return {name: found.get(name, 0) for name in names}

    def _counted(self, tx: Transaction, names: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for query, some in asked(COUNTED, names):
            found.update(tx.rows(query, tenant=self._tenant, **some))
        return found

    def _known(self, tx: Transaction, urls: Sequence[str]) -> dict[str, Profile]:
        found: dict[str, Profile] = {}
        for query, some in asked(SOME_PROFILES, urls):
            rows = tx.rows(query, tenant=self._tenant, **some)
            found |= {profile.url: profile for profile in map(profile_of, rows)}
        return found

    def _rows(self, week: str, slot: DaySlot) -> Iterator[tuple[Value, ...]]:
        return ((self._tenant, week, *touch_row(touch)) for touch in slot.touches)

    def _digest(self, week: str, slot: DaySlot) -> str:
        # Row by row: a day may have so many that all of them at once would be felt.
        digest = sha256()
        for row in self._rows(week, slot):
            digest.update(repr(row).encode())
        return digest.hexdigest()

    def _put_profiles(self, tx: Transaction, profiles: Sequence[Profile]) -> ProfilesPut:
        known = self._known(tx, sorted({each.url for each in profiles}))
        new = changed = 0
        differing: dict[str, Profile] = {}
        for said in profiles:
            before = known.get(said.url)
            merged = said if before is None else merged_profile(before, said)
            new, changed = new + (before is None), changed + (before not in (None, merged))
            if merged != before:
                differing[said.url] = known[said.url] = merged
        rows_put = [(self._tenant, *profile_row(differing[url])) for url in sorted(differing)]
        tx.change_many(PUT_PROFILE, rows_put)
        if rows_put:
            tx.change_many(COUNT, [(self._tenant, PUTS, 1)])
        return ProfilesPut(new=new, changed=changed, same=len(profiles) - new - changed)

    def _taken(self, tx: Transaction, week: str, day: date, url: str) -> tuple[Any, Any]:
        """Take a week for this transaction; return a touch's outcome and when it left."""
        tx.change(TAKE_WEEK, tenant=self._tenant, week=week)
        rows = tx.rows(ONE_TOUCH, tenant=self._tenant, week=week, day=day.isoformat(), url=url)
        if not rows:
            raise no_such_touch(week, url)
        outcome, left_at = rows[0]
        return outcome, left_at


def _settled(head: Mapping[str, Any]) -> tuple[Settled | None, int]:
    """Return what a plan was brought in line with, and the revision it had then."""
    told = head.get("settled")
    return settled_of(told) if told else (None, 0)


def _handed(
    touches: Sequence[Touch], rows: Sequence[tuple[Any, ...]]
) -> dict[tuple[date, str], HandOver]:
    """Return those of touches that left, from the ends of their rows."""
    return {
        (touch.day, touch.url): HandOver(
            url=touch.url, day=touch.day, way=row[-3], at=moment(row[-2]), refused=row[-1]
        )
        for touch, row in zip(touches, rows, strict=True)
        if row[-3] is not None
    }
