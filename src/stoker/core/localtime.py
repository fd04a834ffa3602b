"""How a moment looks on a wall in some time zone, for people to read."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from stoker.core.model import in_utc


def local_text(moment: datetime, zone: str) -> str:
    """Return the moment as that zone's wall shows it, with the zone's name for its time."""
    return f"{in_utc(moment).astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M %Z}"


def clocks_change(moment: datetime, zone: str) -> timedelta:
    """Return by how much that zone's clocks are moved on the moment's local day; zero is usual."""
    here = in_utc(moment).astimezone(ZoneInfo(zone))
    morning = here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    next_day = (morning.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=here.tzinfo)
    before, after = morning.utcoffset(), next_day.utcoffset()
    return (after or timedelta(0)) - (before or timedelta(0))


def clock_note(moment: datetime, zone: str) -> str:
    """Return what is unusual about clocks on the moment's local day; empty on a usual one."""
    moved = clocks_change(moment, zone)
    return f"clocks change by {moved.total_seconds() / 3600:+g} h this day" if moved else ""


def duration_text(duration: timedelta) -> str:
    """Return a duration in the two largest units that matter: `3 h 12 m`, `41 s`."""
    seconds = int(duration.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {seconds % 60} s"
