"""The program whose nights are killed: everything imported, one fork for every night.

A trial has a clock of its own that starts at noon, so that no trial meets midnight, and can be set
ahead for all its processes: what a dead one held has then expired at once.
"""

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import stoker.crm.odoo
import stoker.db.sqlite  # noqa: F401  # imported here, so that no night spends time on it
from faults.forks import serve
from kit.wrapped import Wrapped, wrap_store
from stoker.app import open_app, read_settings
from stoker.base.clock import SystemClock
from stoker.base.types import Step, TenantId
from stoker.crawl.key_pages import parse_site
from stoker.enrichment.runner import run_now
from stoker.heat.service import build_heat_sweep
from stoker.nightly.setup import build_nightly_run
from stoker.pulls.service import build_pull_run
from stoker.runs.model import RunState

TENANT = TenantId("acme")
PULLS = "pulls"  # not a night: looks that were chosen by what they are worth
AHEAD = "ahead"  # a file whose date says by how many seconds the clock is set ahead
NOON = datetime(2026, 11, 16, 4, 0, tzinfo=UTC)  # in Singapore


class TrialClock(SystemClock):
    """Noon when the trial began, and set ahead by as much as its room says."""

    def __init__(self, room: Path, began: float) -> None:
        super().__init__()
        self._offset = NOON - datetime.fromtimestamp(began, UTC)
        self._file = room / AHEAD

    def now(self) -> datetime:
        return super().now() + self._offset + self._set_ahead()

    def elapsed(self) -> timedelta:
        return super().elapsed() + self._set_ahead()

    def _set_ahead(self) -> timedelta:
        return timedelta(seconds=int(self._file.stat().st_mtime))


def set_ahead(room: Path, seconds: int) -> None:
    """Set the clock of all a room's processes ahead, also of those that are paused."""
    (room / AHEAD).touch()
    os.utime(room / AHEAD, (seconds, seconds))


class _Forgetful(Wrapped):
    """The naive twin: a paid answer is not stored."""

    async def save_answers(self, answers):
        pass


@asynccontextmanager
async def installation(order):
    """Open what an order's room has settings for."""
    room = Path(order["room"])
    own = read_settings(directory=room, config=None, flags={}, environment={})
    clock = TrialClock(room, order["began"])
    async with open_app(own, clock=clock, observer=lambda _: None) as app:
        if order.get("way") == "forgetful":
            app = replace(app, backend=wrap_store("answers", _Forgetful)(app.backend))
        yield app


async def night(order):
    """Do one nightly run of the room's tenant, or what is left of it; return an exit code."""
    async with installation(order) as app:
        store = app.backend.tenant(TENANT)
        await store.budgets.expire_reservations(now=app.clock.now())
        work = (
            build_pull_run(app.for_tenant(TENANT))
            if order.get("way") == PULLS
            else build_nightly_run(app.for_tenant(TENANT))
        )
        run = await run_now(app.for_tenant(TENANT), work)
        return 0 if run.state in (RunState.DONE, RunState.PARTIAL) else 3


async def meet(app):
    """Let a tenant know who fits, and how hot they are: what pulls are chosen by."""
    steps = (Step.REFRESH, Step.CANDIDATES)
    await run_now(app.for_tenant(TENANT), build_nightly_run(app.for_tenant(TENANT), steps=steps))
    await build_heat_sweep(app.for_tenant(TENANT)).recompute(
        app.backend.tenant(TENANT), clock=app.clock
    )


if __name__ == "__main__":
    parse_site("http://warm.test/")  # reads the list of public suffixes
    serve(night)
