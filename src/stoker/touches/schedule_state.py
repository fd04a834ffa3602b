"""The `schedule_state.json` that scripts know: counters and one week's plan, in local times.

We write it for them from our own records, which are kept in a file beside it, and read what a
script or an earlier planner put into it. Records are the JSON values of `state_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from stoker.base.errors import PermanentError
from stoker.base.types import Json, to_utc
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.calendar.timezones import get_zone
from stoker.db.database import from_db_time, to_db_time
from stoker.touches.model import PENDING, ProfileStatus, TouchOutcome
from stoker.touches.profiles import normalize_profile_url
from stoker.touches.queue import (
    derive_seed,
    format_week,
    get_local_day,
    get_monday,
    get_window_names,
)

NEVER_DAYS = 999.0  # what scripts write for a profile that was never touched

COUNTER_NAMES = {
    WindowKind.DAY: "daily_count",
    WindowKind.WEEK: "weekly_count",
    WindowKind.HOUR: "hourly_count",
}

_HOUR = timedelta(hours=1)

_OTHER_OUTCOMES = {"success": TouchOutcome.DONE, "fail": TouchOutcome.FAILED}

Records = Mapping[str, Any]


def is_schedule_state(data: Any) -> bool:
    """Return whether a JSON value has the shape scripts know, or part of it."""
    if not isinstance(data, dict) or "format" in data:
        return False
    counters, plan = data.get("counters"), data.get("plan")
    has_counters = isinstance(counters, dict) and not counters.keys().isdisjoint(
        COUNTER_NAMES.values()
    )
    return has_counters or (isinstance(plan, dict) and "week_start" in plan)


def find_outcome(status: str) -> TouchOutcome | None:
    """Return the outcome that scripts call so; None for pending, and for a word that is none."""
    word = status.strip().lower()
    if word in _OTHER_OUTCOMES:
        return _OTHER_OUTCOMES[word]
    return TouchOutcome(word) if word in list(TouchOutcome) else None


def build_schedule_state(records: Records, *, now: datetime, zone: str) -> dict[str, Json]:
    """Return the counters and the plan of now, exactly as scripts know them."""
    today = get_local_day(now, zone)
    used = records["counters"]
    names = get_window_names(now, zone=zone)
    hour = compute_window(WindowKind.HOUR, now, reset=ResetRule(zone)).start
    counters: dict[str, Json] = {
        known: used.get(names[kind], 0) for kind, known in COUNTER_NAMES.items()
    }
    counters["hourly_reset_time"] = hour.astimezone(get_zone(zone)).isoformat()
    counters["daily_reset_date"] = today.isoformat()
    counters["weekly_reset_date"] = get_monday(today).isoformat()
    week = max((week for week in records["plans"] if week <= format_week(today)), default=None)
    plan = None if week is None else _build_plan(records, week, zone=get_zone(zone))
    return {"counters": counters, "plan": plan}


def _build_plan(records: Records, week: str, *, zone: ZoneInfo) -> dict[str, Json]:
    plan = records["plans"][week]["plan"]
    outcomes = {(each["day"], each["url"]): each["outcome"] for each in records["outcomes"]}
    return {
        "week_start": plan["monday"],
        "week_number": plan["iso_week"],
        "total_budget": plan["total"],
        "created_at": from_db_time(plan["created_at"]).astimezone(zone).isoformat(),
        "days": {slot["day"]: _build_slot(slot, outcomes, zone) for slot in plan["days"]},
    }


def _build_slot(
    slot: Records, outcomes: Mapping[tuple[str, str], str], zone: ZoneInfo
) -> dict[str, Json]:
    engagements: list[Json] = []
    completed = 0
    for touch in slot["touches"]:
        status = outcomes.get((slot["day"], touch["url"]), PENDING)
        completed += status == TouchOutcome.DONE
        since = touch["days_since"]
        engagements.append(
            {
                "linkedin_url": touch["url"],
                "name": touch["name"],
                "scheduled_time": f"{from_db_time(touch['at']).astimezone(zone):%H:%M}",
                "priority_score": touch["score"],
                "days_since_last_like": NEVER_DAYS if since is None else float(since),
                "forced": bool(touch["forced"]),
                "status": status,
            }
        )
    return {
        "budget": slot["budget"],
        "is_burst_day": bool(slot["burst"]),
        "completed": completed,
        "engagements": engagements,
    }


def merge_schedule_state(
    state: Records, records: Records, *, now: datetime, zone: str, tenant: str
) -> dict[str, Any]:
    """Return records with what a script's file says besides.

    Of two counts the larger stays, and a touch that was made stays made: nothing is given away
    twice. Raises ValueError and its kin when the file makes no sense.
    """
    merged = {**records, "counters": dict(records["counters"])}
    names = get_window_names(now, zone=zone)
    for kind, count in _read_counters(state.get("counters") or {}, now=now, zone=zone).items():
        merged["counters"][names[kind]] = max(merged["counters"].get(names[kind], 0), count)
    plan = state.get("plan")
    return _merge_plan(plan, merged, now=now, zone=zone, tenant=tenant) if plan else merged


def _read_counters(counters: Records, *, now: datetime, zone: str) -> dict[WindowKind, int]:
    """Return the counts of windows that are not over by now."""
    local = to_utc(now).astimezone(get_zone(zone))
    today, found = local.date(), {}
    for kind, name in COUNTER_NAMES.items():
        count = int(counters.get(name) or 0)
        if not 0 <= count < 10**9:
            raise ValueError(f"a count of {count}")
        found[kind] = count
    # Scripts write when they last reset a counter; some, when they will the next time.
    hour = _read_moment(counters.get("hourly_reset_time"), local.tzinfo)
    if hour is not None and local - hour >= _HOUR:
        del found[WindowKind.HOUR]
    day = _read_day(counters.get("daily_reset_date"))
    if day is not None and day < today:
        del found[WindowKind.DAY]
    week = _read_day(counters.get("weekly_reset_date"))
    if week is not None and week < get_monday(today):
        del found[WindowKind.WEEK]
    return found


def _read_moment(text: Any, zone: Any) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(str(text))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def _read_day(text: Any) -> date | None:
    return date.fromisoformat(str(text)[:10]) if text else None


def _merge_plan(
    plan: Records, records: dict[str, Any], *, now: datetime, zone: str, tenant: str
) -> dict[str, Any]:
    wall, today = get_zone(zone), get_local_day(now, zone)
    monday = get_monday(date.fromisoformat(str(plan["week_start"])[:10]))
    week = format_week(monday)
    before = records["plans"].get(week)
    ours = {
        (slot["day"], touch["url"]): touch
        for slot in (before["plan"]["days"] if before else ())
        for touch in slot["touches"]
    }
    profiles = {each["url"]: dict(each) for each in records["profiles"]}
    outcomes = {(each["day"], each["url"]): each for each in records["outcomes"]}
    made_at = _read_moment(plan.get("created_at"), wall) or datetime.combine(monday, time(), wall)
    days = []
    for place in range(7):
        day = monday + timedelta(days=place)
        slot = plan["days"].get(day.isoformat()) or {}
        touches: dict[str, dict[str, Any]] = {}
        for each in slot.get("engagements") or ():
            touch = _read_engagement(each, day=day, zone=wall)
            if touch is None or touch["url"] in touches:
                continue
            known = ours.get((touch["day"], touch["url"]), {})
            handed_at = to_db_time(made_at) if day <= today else None
            touches[touch["url"]] = {**touch, "handed_at": handed_at, **known}
            outcome = find_outcome(str(each.get("status", PENDING)))
            _add_profile(
                profiles, touch, outcome, made_on=made_at.astimezone(wall).date(), zone=wall
            )
            key = (touch["day"], touch["url"])
            if outcome is not None and outcomes.get(key, {}).get("outcome") != TouchOutcome.DONE:
                outcomes[key] = {
                    "day": touch["day"],
                    "url": touch["url"],
                    "outcome": outcome.value,
                    "marked_at": touch["at"],
                }
        days.append(
            {
                "day": day.isoformat(),
                "budget": int(slot.get("budget") or len(touches)),
                "burst": bool(slot.get("is_burst_day", False)),
                "touches": list(touches.values()),
            }
        )
    head = before["plan"] if before else {"notes": [], "note_days": []}
    year, number, _ = monday.isocalendar()
    found = {
        **head,
        "iso_year": year,
        "iso_week": number,
        "monday": monday.isoformat(),
        "total": sum(slot["budget"] for slot in days),
        "days": days,
        "seed": head.get("seed", derive_seed(tenant, week)),
        "zone": zone,
        "created_at": to_db_time(made_at),
    }
    revision = (before["revision"] if before else 0) + 1
    entry = {"revision": revision, "plan": found, "settled": None}
    return {
        **records,
        "profile_puts": records["profile_puts"] + 1,
        "plans": {**records["plans"], week: entry},
        "profiles": list(profiles.values()),
        "outcomes": list(outcomes.values()),
    }


def _read_engagement(each: Records, *, day: date, zone: ZoneInfo) -> dict[str, Any] | None:
    """Return one engagement as a touch's record; None for one whose address cannot be used."""
    try:
        url = normalize_profile_url(str(each["linkedin_url"]))
    except PermanentError:
        return None
    text = str(each.get("scheduled_time") or "09:00")
    at = time.fromisoformat(text.rpartition("T")[2][:5])
    since = float(each.get("days_since_last_like", NEVER_DAYS))
    forced = bool(each.get("forced", False))
    return {
        "url": url,
        "name": str(each.get("name") or url),
        "day": day.isoformat(),
        "at": to_db_time(datetime.combine(day, at, zone)),
        "score": float(each.get("priority_score") or 0.0),
        "days_since": None if since >= NEVER_DAYS else max(int(since), 0),
        "forced": forced,
        "probability": 1.0 if forced else 0.0,  # 0: scripts do not say it
    }


def _add_profile(
    profiles: dict[str, dict[str, Any]],
    touch: Records,
    outcome: TouchOutcome | None,
    *,
    made_on: date,
    zone: ZoneInfo,
) -> None:
    """Add who is touched to the profiles. Scripts count the days of waiting when they plan."""
    url, since = touch["url"], touch["days_since"]
    if url not in profiles:
        done_at = None
        if since is not None:
            done_at = to_db_time(datetime.combine(made_on - timedelta(days=since), time(), zone))
        profiles[url] = {
            "url": url,
            "name": touch["name"],
            "status": ProfileStatus.ACTIVE.value,
            "last_done_at": done_at,
        }
    if outcome is TouchOutcome.DONE:
        profiles[url]["last_done_at"] = max(profiles[url]["last_done_at"] or "", touch["at"])
