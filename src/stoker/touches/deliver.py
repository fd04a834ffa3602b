"""Due touches leave Stoker: to a file, a webhook or a CRM, each under one id, each written down.

A touch leaves when its time has come and the counters have room for it, also for those that left
and nobody has spoken of since. It is delivered first and written down after: a crash in between
delivers it again, under the same id. How it travels, its way knows.

The ways touches leave through somebody else's system: a webhook of the tenant's, its CRM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.base.errors import PermanentError, TransientError
from stoker.base.retry import backoff
from stoker.base.types import Json, TenantId
from stoker.budgets.windows import window_named
from stoker.crm.upsert import Crm, Write
from stoker.touches.export import activity_write, partner_row, partner_write, touch_content
from stoker.touches.model import HandOver, KeptDay, Touch
from stoker.touches.queue import delivery_id, limits, pending, week_name
from stoker.touches.service import Touching


class Deliveries(Protocol):
    """Where deliveries go: `Webhook`."""

    async def deliver(self, delivery: str, content: Mapping[str, Json], *, now: datetime) -> None:
        """Hand something over; as `Way.deliver`."""
        ...


class ByWebhook:
    """Touches as signed deliveries."""

    name = "webhook"

    def __init__(self, webhook: Deliveries, *, tenant: TenantId) -> None:
        self._webhook = webhook
        self._tenant = tenant

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        content = touch_content(self._tenant, delivery, touch)
        await self._webhook.deliver(delivery, content, now=now)


class ByCrm:
    """Touches as activities in a tenant's CRM; `user` is the external id of who gets them."""

    name = "odoo"

    def __init__(self, crm: Crm, *, tenant: TenantId, user: str = "") -> None:
        self._crm = crm
        self._tenant = tenant
        self._user = user

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        partner = await self._partner(touch)
        activity = activity_write(self._tenant, delivery, touch, partner=partner, user=self._user)
        await self._written(activity)

    async def _partner(self, touch: Touch) -> int:
        row = partner_row(self._tenant, touch)
        there = (await self._crm.found([row], known={})).get(row.external_id)
        return there.id if there is not None else await self._written(partner_write(row))

    async def _written(self, write: Write) -> int:
        told = (await self._crm.upsert([write]))[write.row.external_id]
        if told.id is not None:
            return told.id
        if told.later:
            raise TransientError(told.because, retry_after=told.retry_after)
        raise PermanentError(f"the CRM refuses it: {told.because}")


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
