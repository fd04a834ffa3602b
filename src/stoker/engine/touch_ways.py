"""The ways touches leave through somebody else's system: a webhook of the tenant's, its CRM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from stoker.core.coverage.values import Touch
from stoker.core.model import Json, TenantId
from stoker.core.touch_contents import (
    activity_write,
    partner_row,
    partner_write,
    touch_content,
)
from stoker.core.upserts import Write
from stoker.errors import PermanentError, TransientError
from stoker.sources import Crm


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
