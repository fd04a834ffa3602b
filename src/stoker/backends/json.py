"""Runs as files that people can read, compare and keep in version control.

Reading never locks and never writes. Leases, slots and the ledger need transactions that span
records, which files do not have, so those are in SQLite.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId, parse_tenant_id
from stoker.context import TenantStores
from stoker.db.database import Check
from stoker.db.settings import JSON_DATABASE
from stoker.files.durable import Disk, translate_os_error
from stoker.runs.json_store import LOCK_TIMEOUT, JsonRunStore


class JsonBackend(SqliteBackend):
    """A backend with runs in files and everything else in a SQLite file beside them."""

    def __init__(
        self, directory: Path, *, database: Path | None = None, patience: timedelta = LOCK_TIMEOUT
    ) -> None:
        super().__init__(database or directory / JSON_DATABASE)
        self._directory = directory
        self._lock_timeout = patience
        self._disk = Disk()
        self._runs: dict[TenantId, JsonRunStore] = {}

    def tenant(self, tenant: TenantId) -> TenantStores:
        return replace(super().tenant(tenant), runs=self._get_runs(tenant))

    async def checks(self) -> list[Check]:
        return [*await asyncio.to_thread(self._run_checks), *await super().checks()]

    def _get_runs(self, tenant: TenantId) -> JsonRunStore:
        if tenant not in self._runs:
            folder = self._directory / parse_tenant_id(tenant)  # an id is safe as a file name
            self._runs[tenant] = JsonRunStore(folder, disk=self._disk, patience=self._lock_timeout)
        return self._runs[tenant]

    def _run_checks(self) -> list[Check]:
        try:
            folders = sorted(self._directory.iterdir()) if self._directory.exists() else []
        except OSError as error:
            detail = str(translate_os_error(error, self._directory))
            return [Check(what="json files", ok=False, detail=detail)]
        tenants = [name for folder in folders if (name := _find_tenant(folder))]
        troubles = [trouble for name in tenants for trouble in self._get_runs(name).list_problems()]
        if not troubles:
            what = f"{self._directory}: runs of {len(tenants)} tenants, all readable"
            return [Check(what="json files", ok=True, detail=what)]
        return [Check(what="json files", ok=False, detail=trouble) for trouble in troubles]


def _find_tenant(folder: Path) -> TenantId | None:
    """Return the tenant whose runs a folder holds; None when it holds something else."""
    try:
        return parse_tenant_id(folder.name) if (folder / "runs").is_dir() else None
    except ConfigError:
        return None
