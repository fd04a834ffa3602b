"""Whose touches a command is about, opened: where they are kept, and with which settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.output import Asked, complain
from stoker.cli.tenants import one_tenant, working_tenant

if TYPE_CHECKING:
    from stoker.config.settings import Settings
    from stoker.engine.touching import Touching
    from stoker.ports import Store
    from stoker.wiring import App


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One tenant's touches, opened."""

    app: App
    own: Settings
    store: Store
    touching: Touching
    directory: Path


@asynccontextmanager
async def desk(
    asked: Asked, tenant: str | None, *, only_to_read: bool = False, to_work: bool = False
) -> AsyncIterator[Desk]:
    """Open one tenant's touches. Those in a file of their own make no store.

    To work is to have something done for a tenant, and one that is switched off is refused it.
    """
    from stoker.in_touch import touching_for

    in_file = _in_file(asked.settings(), tenant)
    async with asked.app(only_to_read=only_to_read or in_file) as app:
        whose = (working_tenant if to_work else one_tenant)(app.settings, tenant)
        own, store = app.settings.for_tenant(whose), app.backend.tenant(whose)
        touching = touching_for(
            store, own=own, clock=app.clock, directory=asked.directory, report=complain
        )
        yield Desk(
            app=app,
            own=own,
            store=store,
            touching=touching,
            directory=asked.directory,
        )


def _in_file(said: Settings, tenant: str | None) -> bool:
    """Say whether a tenant's touches are in a file, before any store is opened."""
    whose = tenant or said.default_tenant()
    own = next((said.for_tenant(each.id) for each in said.tenants if each.id == whose), said)
    return own.touches.state == "file"
