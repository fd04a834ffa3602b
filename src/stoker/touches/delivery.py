"""Deliver due touches to a file, a webhook or a CRM, each under one delivery id.

A touch is delivered when its time has come and the counters have room for it; touches that were
delivered and await an outcome count too. It is delivered first and recorded after: a crash in
between delivers it again, under the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.base.errors import PermanentError, TransientError
from stoker.base.retry import compute_backoff, retry
from stoker.base.types import TenantId
from stoker.budgets.windows import parse_window
from stoker.crm.model import Crm, RowWrite
from stoker.touches.channels import Webhook
from stoker.touches.export import (
    build_activity_write,
    build_partner_row,
    build_partner_write,
    build_payload,
)
from stoker.touches.model import Delivery, SavedDay, Touch
from stoker.touches.queue import build_delivery_id, format_week, get_limits, list_pending
from stoker.touches.service import TouchService


class WebhookChannel:
    """Touches as signed deliveries."""

    name = "webhook"

    def __init__(self, webhook: Webhook, *, tenant: TenantId) -> None:
        self._webhook = webhook
        self._tenant = tenant

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        content = build_payload(self._tenant, delivery, touch)
        await self._webhook.deliver(delivery, content, now=now)


class CrmChannel:
    """Touches as activities in a tenant's CRM; `user` is the external id of who gets them."""

    name = "odoo"

    def __init__(self, crm: Crm, *, tenant: TenantId, user: str = "") -> None:
        self._crm = crm
        self._tenant = tenant
        self._user = user

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        partner = await self._find_or_create_partner(touch)
        activity = build_activity_write(
            self._tenant, delivery, touch, partner=partner, user=self._user
        )
        await self._write_row(activity)

    async def _find_or_create_partner(self, touch: Touch) -> int:
        row = build_partner_row(self._tenant, touch)
        there = (await self._crm.find_records([row], known={})).get(row.external_id)
        return there.id if there is not None else await self._write_row(build_partner_write(row))

    async def _write_row(self, write: RowWrite) -> int:
        result = (await self._crm.upsert([write]))[write.row.external_id]
        if result.id is not None:
            return result.id
        if result.is_retryable:
            raise TransientError(result.reason, retry_after=result.retry_after)
        raise PermanentError(f"the CRM refuses it: {result.reason}")


MAX_ATTEMPTS = 3

MAX_WAIT = timedelta(seconds=30)  # a way that wants more is asked again another time


class Channel(Protocol):
    """How touches leave. Delivering under the same id again is harmless."""

    @property
    def name(self) -> str: ...

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        """Deliver one touch.

        Raises TransientError when later may work, PermanentError when this touch is refused for
        good, ConfigError when nothing can leave this way as things are set.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """What became of the touches that were due. Reasons are sentences, by url."""

    delivered: tuple[Touch, ...]
    refused: Mapping[str, str]
    postponed: Mapping[str, str]
    waiting: int  # due, and not tried
    waiting_reason: str = ""  # why those wait


async def deliver_due(
    touching: TouchService,
    way: Channel,
    *,
    chance: Callable[[], float],
    limit: int | None = None,
    dry: bool = False,
) -> DeliveryResult:
    """Hand over what is due now, in time order, and write each down as it leaves.

    Dry, nothing leaves and nothing is written but the plan. Raises ConfigError as the way does;
    what left before that is written down.
    """
    today = await touching.load_today(whole_week=False)
    now, week = touching.clock.now(), format_week(today.slot.day)
    due = await _list_due(touching, today, now=now)
    room, because = await _compute_capacity(touching, now=now)
    if limit is not None and limit < room:
        room, because = limit, f"no more than {limit} were asked for"
    left: list[Touch] = []
    refused: dict[str, str] = {}
    later: dict[str, str] = {}
    tried = due[:room]
    for touch in tried:
        why, lasting = (
            ("", False) if dry else await _deliver_with_retry(touching, way, touch, chance)
        )
        if why and not lasting:
            later[touch.url] = why
            continue
        if not dry:
            handed = Delivery(url=touch.url, day=touch.day, channel=way.name, at=now, refused=why)
            await touching.store.record_delivery(week, handed)
        if why:
            refused[touch.url] = why
        else:
            left.append(touch)
    waiting = len(due) - len(tried)
    return DeliveryResult(
        delivered=tuple(left),
        refused=refused,
        postponed=later,
        waiting=waiting,
        waiting_reason=because if waiting else "",
    )


async def _list_due(touching: TouchService, day: SavedDay, *, now: datetime) -> list[Touch]:
    """Return a day's touches whose time has come and that have not left yet, in time order."""
    come = [
        each for each in list_pending(day.slot) if each.at <= now and each.url not in day.deliveries
    ]
    return await touching.filter_active(come)


async def _compute_capacity(touching: TouchService, *, now: datetime) -> tuple[int, str]:
    """Return how many more may leave now, and the sentence for those that may not."""
    counters = await touching.read_counters(now)
    capacities = []
    for kind, most in get_limits(touching.rule).items():
        count = counters.counts[kind]
        out = await touching.store.count_awaiting_outcome(since=parse_window(count.window).start)
        free = max(most - count.used - out, 0)
        capacities.append(
            (free, f"{most} may be made per {kind}; {count.used} were, {out} are out")
        )
    return min(capacities, key=lambda each: each[0])


async def _deliver_with_retry(
    touching: TouchService, way: Channel, touch: Touch, chance: Callable[[], float]
) -> tuple[str, bool]:
    """Deliver a touch, again where that may help; return why not, and whether for good."""
    delivery = build_delivery_id(touching.tenant, touch)
    try:
        await retry(
            lambda: way.deliver(delivery, touch, now=touching.clock.now()),
            delays=(compute_backoff(n, chance=chance()) for n in range(1, MAX_ATTEMPTS)),
            sleep=touching.clock.sleep,
            on=(TransientError,),
            max_wait=MAX_WAIT,
        )
    except (PermanentError, TransientError) as error:
        return str(error), isinstance(error, PermanentError)
    return "", False
