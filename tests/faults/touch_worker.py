"""The program whose hand-overs are killed: everything imported, one fork for every life.

A life hands over what is due by the very function that `stoker touches run` calls.
"""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import stoker.db.sqlite  # noqa: F401  # imported here, so that no life spends time on it
from faults.forks import serve
from faults.night_worker import TENANT, TrialClock
from stoker.app import open_app, read_settings
from stoker.base.errors import TransientError
from stoker.touches.delivery import FileChannel
from stoker.touches.model import Delivery
from stoker.touches.queue import format_week
from stoker.touches.setup import build_touch_service, open_channel, run_delivery

BUSY = 5  # the exit code of a life that found another at work
LINGERS = 0.05  # seconds that a wrong way takes where it must not be killed


@asynccontextmanager
async def desk(room, clock):
    """Open the touches of a room's tenant: its context, and its service."""
    own = read_settings(directory=room, config=None, flags={}, environment={})
    async with open_app(own, clock=clock, observer=lambda _: None) as app:
        tenant = app.for_tenant(TENANT)
        yield tenant, build_touch_service(tenant, report=lambda text: print(text, flush=True))


class _WrittenFirst:
    """The wrong way: a touch is written down, and leaves after that."""

    name = "file"

    def __init__(self, way, touching):
        self._channel, self._service = way, touching

    async def deliver(self, delivery, touch, *, now):
        left = Delivery(url=touch.url, day=touch.day, channel=self.name, at=now)
        await self._service.store.record_delivery(format_week(touch.day), left)
        await asyncio.sleep(LINGERS)
        await self._channel.deliver(delivery, touch, now=now)


class _Blind:
    """The wrong way: it does not look at what stands in the file already."""

    name = "file"

    def __init__(self, path):
        self._channel = FileChannel(path, tenant=TENANT, look_back=0)

    async def deliver(self, delivery, touch, *, now):
        await self._channel.deliver(delivery, touch, now=now)
        await asyncio.sleep(LINGERS)


async def life(order):
    """Deliver what is due in a room; return an exit code."""
    room = Path(order["room"])
    async with desk(room, TrialClock(room, order["began"])) as (tenant, touching):
        way = await open_channel(tenant)
        if order.get("twin") == "blind":
            way = _Blind(room / tenant.settings.touches.file)
        if order.get("twin") == "written first":
            way = _WrittenFirst(way, touching)
        try:
            await run_delivery(tenant, touching, way)
        except TransientError:
            return BUSY
    return 0


if __name__ == "__main__":
    serve(life)
