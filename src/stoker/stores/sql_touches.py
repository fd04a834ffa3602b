"""One tenant's profiles, plans and counters, in SQL.

Whatever changes a week takes that week's row first, so that of two who change it one comes wholly
after the other. Counters are added to where they stand, so that nobody's count is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from stoker.core.coverage.values import Marked, Outcome, Profile, WeeklyPlan
from stoker.core.keeping import kept_text
from stoker.core.marking import is_news
from stoker.core.model import TenantId
from stoker.core.profiles import merged_profile
from stoker.core.runs import compact_json
from stoker.stores.kept_touches import (
    kept_amount,
    kept_counters,
    kept_handover,
    kept_mark,
    kept_plan,
    kept_profile,
    kept_week,
    no_such_touch,
)
from stoker.stores.sql import SqlDatabase, Transaction, Value, json_value, moment, moment_text
from stoker.stores.touch_rows import (
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
from stoker.touches import HandOver, KeptPlan, ProfilesPut

AT_ONCE = 500  # urls in one question

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
SELECT {PROFILE} FROM touch_profiles WHERE tenant_id = :tenant AND url IN ({{some}})
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
OLD_TOUCHES = "DELETE FROM touches WHERE tenant_id = :tenant AND week = :week"
NEW_TOUCH = f"""
INSERT INTO touches (tenant_id, week, {TOUCH}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
TOUCHES = f"""
SELECT t.{TOUCH.replace(", ", ", t.")}, o.outcome, h.way, h.at, h.refused FROM touches t
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
LEFT JOIN touch_handovers h ON h.tenant_id = t.tenant_id AND h.day = t.day AND h.url = t.url
WHERE t.tenant_id = :tenant AND t.week = :week
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
MARKS = f"""
SELECT {MARK} FROM touch_outcomes WHERE tenant_id = :tenant AND day >= :since ORDER BY day, url
"""
COUNT = """
INSERT INTO touch_counters (tenant_id, name, used) VALUES (?, ?, ?)
ON CONFLICT (tenant_id, name) DO UPDATE SET used = touch_counters.used + excluded.used
"""
COUNTED = "SELECT name, used FROM touch_counters WHERE tenant_id = :tenant AND name IN ({some})"


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

    async def plan(self, week: str) -> KeptPlan | None:
        values: dict[str, Value] = {"tenant": self._tenant, "week": kept_week(week)}

        def look(tx: Transaction) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            head = tx.rows(HEAD, **values)
            return head, tx.rows(TOUCHES, **values) if head else []

        head, rows = await self._database.read(look)
        if not head:
            return None
        [(said, revision)] = head
        touches = [touch_of(row[:-3]) for row in rows]
        handed = {
            (touch.day, touch.url): HandOver(
                url=touch.url, day=touch.day, way=row[-3], at=moment(row[-2]), refused=row[-1]
            )
            for touch, row in zip(touches, rows, strict=True)
            if row[-3] is not None
        }
        plan = plan_of(json_value(said), touches)
        return KeptPlan(plan=plan, revision=revision, handed=handed)

    async def put_plan(self, plan: WeeklyPlan, *, seen: int) -> bool:
        kept = kept_plan(plan)
        week = (self._tenant, kept.week)
        values: dict[str, Value] = {"tenant": self._tenant, "week": kept.week}
        head = compact_json(head_json(kept))

        def put(tx: Transaction) -> bool:
            if seen:
                won = tx.change(NEXT_HEAD, plan=head, seen=seen, **values)
            else:
                won = tx.change(NEW_HEAD, plan=head, **values)
            if won:
                tx.change(OLD_TOUCHES, **values)
                rows = ((*week, *touch_row(each)) for slot in kept.days for each in slot.touches)
                tx.change_many(NEW_TOUCH, rows)
            return bool(won)

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
            tx.change(MOVE_ON, tenant=self._tenant, week=week)
            return True

        return await self._database.write(hand_over)

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

        def look(tx: Transaction) -> dict[str, int]:
            found: dict[str, int] = {}
            for query, some in _asked(COUNTED, names):
                found.update(tx.rows(query, tenant=self._tenant, **some))
            return found

        found = await self._database.read(look) if names else {}
        return {name: found.get(name, 0) for name in names}

    def _put_profiles(self, tx: Transaction, profiles: Sequence[Profile]) -> ProfilesPut:
        known: dict[str, Profile] = {}
        for query, some in _asked(SOME_PROFILES, sorted({each.url for each in profiles})):
            rows = tx.rows(query, tenant=self._tenant, **some)
            known |= {profile.url: profile for profile in map(profile_of, rows)}
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
        return ProfilesPut(new=new, changed=changed, same=len(profiles) - new - changed)

    def _taken(self, tx: Transaction, week: str, day: date, url: str) -> tuple[Any, Any]:
        """Take a week for this transaction; return a touch's outcome and when it left."""
        tx.change(TAKE_WEEK, tenant=self._tenant, week=week)
        rows = tx.rows(ONE_TOUCH, tenant=self._tenant, week=week, day=day.isoformat(), url=url)
        if not rows:
            raise no_such_touch(week, url)
        outcome, left_at = rows[0]
        return outcome, left_at


def _asked(query: str, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Value]]]:
    """Split a question about many names into some that every database takes."""
    for start in range(0, len(names), AT_ONCE):
        some: dict[str, Value] = {
            f"n{place}": name for place, name in enumerate(names[start : start + AT_ONCE])
        }
        yield query.format(some=f":{', :'.join(some)}"), some
