"""One tenant's profiles, plans, outcomes, deliveries and counters. Each verb is atomic.

Every change of a week locks that week's row first, so that of two changes one comes wholly after
the other. Counters are incremented in place, so that no concurrent count is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import Json, to_utc
from stoker.db.codec import validate_text
from stoker.db.database import Database, Transaction, to_db_time
from stoker.db.table import KEEP_LATER
from stoker.touches.model import (
    Count,
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
from stoker.touches.queue import format_week, is_new_outcome, parse_week
from stoker.touches.schema import (
    COUNTERS,
    DELIVERIES,
    OUTCOMES,
    PLANS,
    PROFILES,
    TOUCHES,
    PlanRow,
    basis_to_json,
    build_plan,
    check_plan,
    head_to_json,
)

PROFILES_COUNTER = "profiles put"  # the counter that changes when profiles change

MAX_COUNT = 10**9

_WEEK_PATTERN = re.compile(r"[0-9]{4}-W[0-9]{2}")

_MAX_ZONE_DISTANCE = timedelta(days=2)  # no day of any zone is further from the same day in UTC

_JOIN_OUTCOME = """
LEFT JOIN touch_outcomes o ON o.tenant_id = t.tenant_id AND o.day = t.day AND o.url = t.url
"""

_JOIN_DELIVERY = """
LEFT JOIN touch_handovers h ON h.tenant_id = t.tenant_id AND h.day = t.day AND h.url = t.url
"""

SELECT_TOUCHES = f"""
SELECT {TOUCHES.names_of("t")}, o.outcome, {DELIVERIES.names_of("h")} FROM touches t
{_JOIN_OUTCOME} {_JOIN_DELIVERY}
WHERE t.tenant_id = :tenant AND t.week = :week
"""

# Weeks and days are both listed, so that each is looked up and no week is walked through.
SELECT_BY_URL = f"""
SELECT {TOUCHES.names_of("t")}, o.outcome FROM touches t
{_JOIN_OUTCOME}
WHERE t.tenant_id = :tenant AND t.week = :week AND t.url = :url
AND t.day IN (:d0, :d1, :d2, :d3, :d4, :d5, :d6)
"""

SELECT_TOUCH = f"""
SELECT o.outcome, h.at FROM touches t
{_JOIN_OUTCOME} {_JOIN_DELIVERY}
WHERE t.tenant_id = :tenant AND t.week = :week AND t.day = :day AND t.url = :url
"""

COUNT_AWAITING = """
SELECT count(*) FROM touch_handovers h
LEFT JOIN touch_outcomes o ON o.tenant_id = h.tenant_id AND o.day = h.day AND o.url = h.url
WHERE h.tenant_id = :tenant AND h.day >= :oldest AND h.at >= :since AND h.refused = ''
AND o.outcome IS NULL
"""

LOCK_WEEK = """
UPDATE touch_plans SET revision = revision WHERE tenant_id = :tenant AND week = :week
"""

INCREMENT_REVISION = """
UPDATE touch_plans SET revision = revision + 1 WHERE tenant_id = :tenant AND week = :week
"""

UPDATE_PLAN = """
UPDATE touch_plans SET revision = revision + 1, plan = :plan
WHERE tenant_id = :tenant AND week = :week AND revision = :seen
"""

DELETE_TOUCHES = "DELETE FROM touches WHERE tenant_id = :tenant AND week = :week AND day = :day"

UPDATE_LAST_DONE = f"""
UPDATE touch_profiles SET last_done_at = {KEEP_LATER.format(old="last_done_at", new=":at")}
WHERE tenant_id = :tenant AND url = :url
"""

_TOUCH_WIDTH = len(TOUCHES.names.split(","))


class TouchStore:
    """One tenant's profiles, plans and counters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_profiles(
        self, profiles: Sequence[Profile], *, keep_status: bool = False
    ) -> ProfileCounts:
        """Insert profiles, or merge them into those known by their urls.

        As `merge_profile`: a wait never begins earlier than it did. With `keep_status` a known
        profile keeps its status, because the source has none.
        """
        valid = [PROFILES.store(profile) for profile in profiles]
        if not valid:
            return ProfileCounts()

        def work(tx: Transaction) -> ProfileCounts:
            urls = sorted({each.url for each in valid})
            known = {each.url: each for each in PROFILES.find_in(tx, "url", urls)}
            new = changed = 0
            differing: dict[str, Profile] = {}
            for given in valid:
                before = known.get(given.url)
                merged = (
                    given
                    if before is None
                    else merge_profile(before, given, keep_status=keep_status)
                )
                new, changed = new + (before is None), changed + (before not in (None, merged))
                if merged != before:
                    differing[given.url] = known[given.url] = merged
            PROFILES.save(tx, differing.values())
            if differing:
                COUNTERS.save(tx, [Count(PROFILES_COUNTER, 1)])
            return ProfileCounts(new=new, changed=changed, same=len(valid) - new - changed)

        return await self._database.write(work)

    async def list_profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        """Return one page of profiles, in url order."""
        validate_text(after, what="a profile's url")
        where = "url > :after ORDER BY url LIMIT :limit"
        return await self._database.read(
            lambda tx: PROFILES.find(tx, where, after=after, limit=limit)
        )

    async def find_profiles(self, urls: Sequence[str]) -> list[Profile]:
        """Return the profiles of these urls that are known, in url order."""
        names = sorted({_check_url(url) for url in urls})
        if not names:
            return []
        found = await self._database.read(lambda tx: PROFILES.find_in(tx, "url", names))
        return sorted(found, key=lambda profile: profile.url)

    async def get_profiles_version(self) -> int:
        """Return a number that is another one after profiles were put that were new or differed."""
        return (await self.read_counters([PROFILES_COUNTER]))[PROFILES_COUNTER]

    async def find_plan(self, week: str) -> SavedWeek | None:
        """Return the plan of a week (`2026-W07`), each touch with what came of it."""
        check_week(week)

        def work(tx: Transaction) -> SavedWeek | None:
            row = find_plan_row(tx, week)
            if row is None:
                return None
            touches, deliveries = _select_touches(tx, week)
            return SavedWeek(
                plan=build_plan(row.plan, touches),
                revision=row.revision,
                deliveries=deliveries,
                basis=row.basis if row.is_current else None,
            )

        return await self._database.read(work)

    async def find_day(self, week: str, day: date) -> SavedDay | None:
        """Return one day of a week's plan; None when there is no plan, or no such day in it."""
        check_week(week)

        def work(tx: Transaction) -> SavedDay | None:
            row = find_plan_row(tx, week)
            if row is None:
                return None
            touches, deliveries = _select_touches(tx, week, day)
            slot = build_plan(row.plan, touches).slot(day)
            if slot is None:
                return None
            return SavedDay(
                slot=slot,
                deliveries={url: each for (_, url), each in deliveries.items()},
                basis=row.basis,
                has_new_outcomes=row.basis is not None and not row.is_current,
            )

        return await self._database.read(work)

    async def list_touches(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        """Return the touches of one url in the plans of some weeks, in the order of their days."""
        _check_url(url)
        names = sorted({check_week(week) for week in weeks})

        def work(tx: Transaction) -> list[Touch]:
            found: list[Touch] = []
            for week in names:
                monday = parse_week(week)
                days = {f"d{n}": (monday + timedelta(days=n)).isoformat() for n in range(7)}
                found += map(_read_touch, tx.query(SELECT_BY_URL, week=week, url=url, **days))
            return sorted(found, key=lambda touch: touch.day)

        return await self._database.read(work)

    async def save_plan(
        self, plan: WeeklyPlan, *, seen: int, basis: PlanBasis | None = None
    ) -> bool:
        """Save a plan in place of the one of its week, if that is still the revision seen.

        0 means that there was none. Of two that saw the same, one gets True. Outcomes are not
        taken from the plan given, and none is ever lost to another plan.
        """
        head = build_head(plan, revision=seen + 1, basis=basis)
        return await self._database.write(lambda tx: write_plan(tx, plan, head, seen=seen))

    async def record_outcome(
        self, week: str, mark: OutcomeMark, *, counters: Sequence[str]
    ) -> bool:
        """Record the outcome of a planned touch; return whether that is new.

        As `is_new_outcome`. When the touch was made, the counters grow by one and its profile's
        wait begins again: all of it is there afterwards, or none. Raises PermanentError, with
        nothing written, when the plan of that week has no such touch.
        """
        check_week(week)
        mark = OUTCOMES.store(mark)
        counts = _to_counts(counters, 1)

        def work(tx: Transaction) -> bool:
            known, _ = _lock_touch(tx, week, mark.day, mark.url)
            if not is_new_outcome(None if known is None else TouchOutcome(known), mark):
                return False
            OUTCOMES.save(tx, [mark])
            if mark.outcome.is_counted:
                COUNTERS.save(tx, counts)
                tx.execute(UPDATE_LAST_DONE, url=mark.url, at=to_db_time(mark.marked_at))
            tx.execute(INCREMENT_REVISION, week=week)
            return True

        return await self._database.write(work)

    async def record_unplanned_outcome(self, mark: OutcomeMark, *, counters: Sequence[str]) -> bool:
        """Record what came of a touch that no plan has; return whether that is new.

        Otherwise as `record_outcome`.
        """
        mark = OUTCOMES.store(mark)
        counts = _to_counts(counters, 1)

        def work(tx: Transaction) -> bool:
            day = mark.day.isoformat()
            known = OUTCOMES.find(tx, "day = :day AND url = :url", day=day, url=mark.url)
            if not is_new_outcome(known[0].outcome if known else None, mark):
                return False
            OUTCOMES.save(tx, [mark])
            if mark.outcome.is_counted:
                COUNTERS.save(tx, counts)
                tx.execute(UPDATE_LAST_DONE, url=mark.url, at=to_db_time(mark.marked_at))
            tx.execute(INCREMENT_REVISION, week=format_week(mark.day))
            return True

        return await self._database.write(work)

    async def record_delivery(self, week: str, delivery: Delivery) -> bool:
        """Record that a planned touch was delivered; False when it was, or was marked, before.

        Raises PermanentError, with nothing written, when the plan of that week has no such touch.
        """
        check_week(week)
        delivery = DELIVERIES.store(delivery)

        def work(tx: Transaction) -> bool:
            if any(_lock_touch(tx, week, delivery.day, delivery.url)):
                return False
            return bool(DELIVERIES.insert_new(tx, [delivery]))

        return await self._database.write(work)

    async def count_awaiting_outcome(self, *, since: datetime) -> int:
        """Return how many touches delivered since a moment have no outcome yet.

        Only touches planned for that moment's day, two days before it, or later, are counted.
        """
        oldest = (to_utc(since) - _MAX_ZONE_DISTANCE).date().isoformat()
        at = to_db_time(since)
        rows = await self._database.read(
            lambda tx: tx.query(COUNT_AWAITING, oldest=oldest, since=at)
        )
        return int(rows[0][0])

    async def list_outcomes(self, *, since: date) -> list[OutcomeMark]:
        """Return the outcomes of touches from that day on, by day, then url."""
        where = "day >= :since ORDER BY day, url"
        return await self._database.read(
            lambda tx: OUTCOMES.find(tx, where, since=since.isoformat())
        )

    async def add_to_counters(self, counters: Sequence[str], amount: int) -> None:
        """Add an amount to counters, together."""
        if not 0 <= amount <= MAX_COUNT:
            raise PermanentError(f"counters grow by 0 to {MAX_COUNT}, not {amount}")
        if counts := _to_counts(counters, amount):
            await self._database.write(lambda tx: COUNTERS.save(tx, counts))

    async def replace_counters(self, values: Mapping[str, int]) -> None:
        """Give counters these values, together, whatever they were."""
        counts = [COUNTERS.store(Count(name, used)) for name, used in sorted(values.items())]

        def work(tx: Transaction) -> None:
            for count in counts:
                if not COUNTERS.update(
                    tx, "used = :used", "name = :name", name=count.name, used=count.used
                ):
                    COUNTERS.save(tx, [count])

        await self._database.write(work)

    async def read_counters(self, counters: Sequence[str]) -> dict[str, int]:
        """Return counter values by name; 0 for one that was never counted."""
        names = [count.name for count in _to_counts(counters, 0)]
        if not names:
            return {}
        found = await self._database.read(lambda tx: COUNTERS.find_in(tx, "name", names))
        return dict.fromkeys(names, 0) | {count.name: count.used for count in found}


def check_week(week: str) -> str:
    """Return a week's name. Raises PermanentError when it is none."""
    if not _WEEK_PATTERN.fullmatch(week):
        raise PermanentError(f"a week is written like 2026-W07, not {week[:20]!r}")
    return week


def find_plan_row(tx: Transaction, week: str) -> PlanRow | None:
    """Return a week's plan without its touches."""
    return next(iter(PLANS.find(tx, "week = :week", week=week)), None)


def build_head(plan: WeeklyPlan, *, revision: int, basis: PlanBasis | None) -> dict[str, Json]:
    """Return a plan's head with its basis and each day's digest, if all of it can be stored."""
    check_week(plan.week)
    check_plan(plan)
    return {
        **head_to_json(plan),
        "digests": {slot.day.isoformat(): _compute_digest(slot) for slot in plan.days},
        "settled": basis_to_json(basis, revision) if basis else None,
    }


def write_plan(tx: Transaction, plan: WeeklyPlan, head: Mapping[str, Any], *, seen: int) -> bool:
    """Write a plan and its head, as `TouchStore.save_plan`."""
    tx.execute(LOCK_WEEK, week=plan.week)
    before = find_plan_row(tx, plan.week)
    if seen:
        won = tx.execute(UPDATE_PLAN, week=plan.week, seen=seen, **PLANS.encode(plan=head))
    else:
        won = PLANS.insert_new(tx, [PlanRow(week=plan.week, revision=1, plan=head)])
    if not won:
        return False
    # A repair leaves most days as they were; those are not written again.
    known = before.plan.get("digests", {}) if before else {}
    for slot in plan.days:
        day = slot.day.isoformat()
        if known.get(day) != head["digests"][day]:
            tx.execute(DELETE_TOUCHES, week=plan.week, day=day)
            TOUCHES.insert_new(tx, slot.touches, plan.week)
    return True


def _compute_digest(slot: DaySlot) -> str:
    # Row by row: all rows of a large day at once would take much memory.
    digest = sha256()
    for touch in slot.touches:
        digest.update(repr(TOUCHES.to_row(touch)).encode())
    return digest.hexdigest()


def _select_touches(
    tx: Transaction, week: str, day: date | None = None
) -> tuple[list[Touch], dict[tuple[date, str], Delivery]]:
    rows = (
        tx.query(SELECT_TOUCHES, week=week)
        if day is None
        else tx.query(f"{SELECT_TOUCHES} AND t.day = :day", week=week, day=day.isoformat())
    )
    delivered = [row[_TOUCH_WIDTH + 1 :] for row in rows]
    found = [DELIVERIES.read(row) for row in delivered if row[0] is not None]
    return [*map(_read_touch, rows)], {(each.day, each.url): each for each in found}


def _read_touch(row: Sequence[Any]) -> Touch:
    touch, outcome = TOUCHES.read(row[:_TOUCH_WIDTH]), row[_TOUCH_WIDTH]
    return touch if outcome is None else replace(touch, outcome=TouchOutcome(outcome))


def _lock_touch(tx: Transaction, week: str, day: date, url: str) -> tuple[Any, Any]:
    """Lock a week; return a touch's outcome and when it was delivered, None for either."""
    tx.execute(LOCK_WEEK, week=week)
    rows = tx.query(SELECT_TOUCH, week=week, day=day.isoformat(), url=url)
    if not rows:
        raise PermanentError(
            f"the plan of {week} has no touch of {url} that day; nothing was changed"
        )
    outcome, delivered_at = rows[0]
    return outcome, delivered_at


def _check_url(url: str) -> str:
    PROFILES.encode(url=url)
    return url


def _to_counts(counters: Iterable[str], amount: int) -> list[Count]:
    return [COUNTERS.store(Count(name, amount)) for name in sorted(set(counters))]
