"""Due touches leave Stoker: to a file, a webhook or a CRM, each under one id, each written down.

A touch leaves when its time has come and the counters have room for it, also for those that left
and nobody has spoken of since. It is delivered first and written down after: a crash in between
delivers it again, under the same id. How it travels, its way knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.core.budget_windows import window_named
from stoker.core.coverage.counters import limits
from stoker.core.coverage.values import Touch
from stoker.core.touch_queue import delivery_id, pending, week_name
from stoker.core.waiting import backoff
from stoker.engine.touching import Touching
from stoker.errors import PermanentError, TransientError
from stoker.touches import HandOver, KeptDay

ATTEMPTS = 3
MOST_PATIENCE = timedelta(seconds=30)  # a way that wants more is asked again another time


class Way(Protocol):
    """How touches leave. Delivering under the same id again is harmless."""

    @property
    def name(self) -> str: ...

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        """Hand one touch over.

        Raises TransientError when later may work, PermanentError when this touch is refused for
        good, ConfigError when nothing can leave this way as things are set.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """What became of the touches that were due. Reasons are sentences, by url."""

    left: tuple[Touch, ...]
    refused: Mapping[str, str]
    later: Mapping[str, str]
    waiting: int  # due, and not tried
    because: str = ""  # why those wait


async def hand_over(
    touching: Touching,
    way: Way,
    *,
    chance: Callable[[], float],
    limit: int | None = None,
    dry: bool = False,
) -> HandedOver:
    """Hand over what is due now, in time order, and write each down as it leaves.

    Dry, nothing leaves and nothing is written but the plan. Raises ConfigError as the way does;
    what left before that is written down.
    """
    kept = await touching.todays(whole_week=False)
    now, week = touching.clock.now(), week_name(kept.slot.day)
    due = await _due(touching, kept, now=now)
    room, because = await _room(touching, now=now)
    if limit is not None and limit < room:
        room, because = limit, f"no more than {limit} were asked for"
    left: list[Touch] = []
    refused: dict[str, str] = {}
    later: dict[str, str] = {}
    tried = due[:room]
    for touch in tried:
        why, lasting = ("", False) if dry else await _delivered(touching, way, touch, chance)
        if why and not lasting:
            later[touch.url] = why
            continue
        if not dry:
            handed = HandOver(url=touch.url, day=touch.day, way=way.name, at=now, refused=why)
            await touching.store.hand_over(week, handed)
        if why:
            refused[touch.url] = why
        else:
            left.append(touch)
    waiting = len(due) - len(tried)
    return HandedOver(
        left=tuple(left),
        refused=refused,
        later=later,
        waiting=waiting,
        because=because if waiting else "",
    )


async def _due(touching: Touching, kept: KeptDay, *, now: datetime) -> list[Touch]:
    """Return a day's touches whose time has come and that have not left yet, in time order."""
    come = [each for each in pending(kept.slot) if each.at <= now and each.url not in kept.handed]
    return await touching.of_the_active(come)


async def _room(touching: Touching, *, now: datetime) -> tuple[int, str]:
    """Return how many more may leave now, and the sentence for those that may not."""
    counters = await touching.counters(now)
    rooms = []
    for kind, most in limits(touching.rule).items():
        count = counters.counts[kind]
        out = await touching.store.still_out(since=window_named(count.window).start)
        free = max(most - count.used - out, 0)
        rooms.append((free, f"{most} may be made per {kind}; {count.used} were, {out} are out"))
    return min(rooms, key=lambda each: each[0])


async def _delivered(
    touching: Touching, way: Way, touch: Touch, chance: Callable[[], float]
) -> tuple[str, bool]:
    """Deliver a touch, again where that may help; return why not, and whether for good."""
    delivery = delivery_id(touching.tenant, touch)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await way.deliver(delivery, touch, now=touching.clock.now())
        except PermanentError as error:
            return str(error), True
        except TransientError as error:
            wait = error.retry_after or backoff(attempt, chance=chance())
            if attempt == ATTEMPTS or wait > MOST_PATIENCE:
                return str(error), False
            await touching.clock.sleep(wait)
        else:
            return "", False
    raise AssertionError("the last attempt returns")
