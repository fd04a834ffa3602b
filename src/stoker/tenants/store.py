"""Store the list of tenants, and each one's setup, users and CRM connection, in SQL."""

from __future__ import annotations

from datetime import datetime

from stoker.db.database import Database, Transaction, from_db_time
from stoker.tenants.model import CrmConnection, Tenant, TenantUser
from stoker.tenants.schema import CONNECTIONS, SETUP_STEPS, TENANTS, USERS

UPSERT_TENANT = (
    f"{TENANTS.upsert} WHERE tenants.name <> excluded.name OR tenants.active <> excluded.active"
)

INSERT_SETUP_STEP = """
INSERT INTO onboarding_status (tenant_id, step, done_at) VALUES (:tenant, :step, :done_at)
ON CONFLICT DO NOTHING
"""

SELECT_SETUP_STEPS = (
    "SELECT step, done_at FROM onboarding_status WHERE tenant_id = :tenant ORDER BY step"
)


class TenantDirectory:
    """The list of tenants, without their data."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_tenant(self, tenant: Tenant) -> bool:
        """Insert or update a tenant; return whether that changed anything.

        Raises ConfigError for an invalid id.
        """
        row = TENANTS.to_row(tenant)
        return bool(await self._database.write(lambda tx: tx.execute_many(UPSERT_TENANT, [row])))

    async def list_tenants(self) -> list[Tenant]:
        return await self._database.read(lambda tx: TENANTS.find(tx, "true ORDER BY id"))


class SetupStore:
    """What was done to set up one tenant, who its users are, and where its results go."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def complete_setup_step(self, step: str, *, at: datetime) -> None:
        """Record that a step of the tenant's setup was done; the first time counts."""
        values = SETUP_STEPS.encode(step=step, done_at=at)
        await self._database.write(lambda tx: tx.execute(INSERT_SETUP_STEP, **values))

    async def list_setup_steps(self) -> dict[str, datetime]:
        """Return when each completed setup step was done, by step."""
        rows = await self._database.read(lambda tx: tx.query(SELECT_SETUP_STEPS))
        return {step: from_db_time(done_at) for step, done_at in rows}

    async def save_connection(self, connection: CrmConnection) -> None:
        """Save where results go, in place of an earlier connection."""
        await self._database.write(lambda tx: CONNECTIONS.save(tx, [connection]))

    async def find_connection(self) -> CrmConnection | None:
        found = await self._database.read(lambda tx: CONNECTIONS.find(tx, "true"))
        return found[0] if found else None

    async def save_user(self, user: TenantUser) -> bool:
        """Insert or update one of the tenant's users; return whether the user is new."""

        def save(tx: Transaction) -> bool:
            if USERS.insert_new(tx, [user]):
                return True
            USERS.save(tx, [user])
            return False

        return await self._database.write(save)

    async def list_users(self) -> list[TenantUser]:
        return await self._database.read(lambda tx: USERS.find(tx, "true ORDER BY id"))

    async def delete_user(self, user: str) -> bool:
        """Delete one of the tenant's users; return whether there was such a user."""
        return bool(await self._database.write(lambda tx: USERS.delete(tx, "id = :id", id=user)))
