"""Resolve a run argument of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError

if TYPE_CHECKING:
    from stoker.context import TenantStores
    from stoker.runs.model import Run


async def get_run_or_exit(store: TenantStores, name: str) -> Run:
    """Return the run of this name, or the newest for `latest`. Raises ConfigError without one."""
    from stoker.runs.model import parse_run_name

    if name == "latest":
        newest = await store.runs.list_runs(limit=1)
        run = newest[0] if newest else None
    else:
        run = await store.runs.find_run(parse_run_name(name))
    if run is None:
        raise ConfigError(
            f"{store.tenant} has no run {name}; see those there are with: "
            f"stoker runs list --tenant {store.tenant}"
        )
    return run
