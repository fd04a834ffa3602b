"""How people read counts, amounts, times and long lists; money is kept in minor units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

MAX_LISTED = 5  # items of a long list that are named; `--json` has all


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 company`, `1,200 companies`."""
    return f"{number:,} {noun if number == 1 else plural or to_plural(noun)}"


def to_plural(noun: str) -> str:
    """Return an English noun's regular plural."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def format_amount(unit: str, amount: int) -> str:
    """Return an amount of a unit: `1 call`, `6,428 tokens`, `USD 0.89` for `money:USD`."""
    kind, _, currency = unit.partition(":")
    if kind == "money":
        return f"{currency} {amount / 100:,.2f}"
    words = unit.replace("_", " ")
    return f"{amount:,} {words.removesuffix('s') if amount == 1 else words}"


def format_amounts(amounts: Mapping[str, int]) -> str:
    """Return amounts by unit, in the order of the units' names: `1 call, USD 0.01`."""
    return ", ".join(format_amount(unit, amounts[unit]) for unit in sorted(amounts))


def format_time(at: datetime, *, seconds: bool = False) -> str:
    """Return a moment in UTC: `2026-02-07 01:30 UTC`."""
    pattern = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return f"{at.astimezone(UTC):{pattern}} UTC"


def format_duration(duration: timedelta) -> str:
    """Return a duration in the two largest units that matter: `3 h 12 m`, `41 s`."""
    seconds = int(duration.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {seconds % 60} s"


def format_few(items: Sequence[str], *, limit: int = MAX_LISTED) -> str:
    """Return the first items, and how many more there are: `a, b and 3 more`."""
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more:,} more" if more > 0 else "")
