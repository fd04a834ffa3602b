"""`db`: make the store ready, bring it up to date, say how it is.

SQLite and JSON files are made on the spot. Postgres is set up by an administrator once, because
the role the program works as may not change the schema. How is each store's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker import app as wiring
from stoker.base.errors import ConfigError
from stoker.cli.output import Exit, pass_asked, run_async, say, show_json, show_table, takes_json
from stoker.config.fields import POSTGRES_URL, Secret, show
from stoker.db.database import Check

if TYPE_CHECKING:
    from stoker.cli.output import Asked
    from stoker.settings import Settings

_ADMIN_URL = click.option(
    "--admin-url",
    metavar="URL",
    help="Postgres only: its address as an administrator; else storage.postgres_admin_url.",
)


@click.group()
def db() -> None:
    """Set up, migrate and describe the store."""


@db.command()
@_ADMIN_URL
@takes_json
@pass_asked
def setup(asked: Asked, *, admin_url: str | None, as_json: bool) -> None:
    """Make the store ready; doing it again changes nothing.

    For Postgres it makes the restricted role that storage.postgres_url names, the tables, and the
    row security that keeps tenants apart.
    """
    settings = asked.settings()
    if settings.storage.backend == "postgres":
        from stoker.db.postgres_setup import set_up

        admin = _admin(asked, settings, admin_url)
        done = set_up(admin.reveal(), _app_url(settings).reveal())
    else:
        done = run_async(_migrated(settings))
    _report(done, settings, as_json=as_json)


@db.command()
@_ADMIN_URL
@takes_json
@pass_asked
def migrate(asked: Asked, *, admin_url: str | None, as_json: bool) -> None:
    """Bring the schema up to this program's version; current means nothing to do."""
    settings = asked.settings()
    given = admin_url or settings.storage.postgres_admin_url
    if settings.storage.backend == "postgres" and given:
        from stoker.db.postgres_setup import migrate as migrate_postgres

        done = migrate_postgres(_admin(asked, settings, admin_url).reveal())
    else:
        done = run_async(_migrated(settings))
    _report(done, settings, as_json=as_json)


@db.command()
@takes_json
@pass_asked
def status(asked: Asked, *, as_json: bool) -> Exit:
    """Say where the store is, its schema version, and how healthy it is; 1 if it is not."""
    settings = asked.settings()
    version, checks = run_async(_examined(settings))
    healthy = all(check.ok for check in checks)
    if as_json:
        show_json(
            {
                "ok": healthy,
                "backend": settings.storage.backend,
                "where": where(settings),
                "schema_version": version,
                "checks": [{"what": c.what, "ok": c.ok, "detail": c.detail} for c in checks],
            }
        )
    else:
        say(f"{settings.storage.backend} at {where(settings)}, schema version {version}")
        marks = {True: "ok", False: "WRONG"}
        show_table(("check", "", "detail"), ((c.what, marks[c.ok], c.detail) for c in checks))
    return Exit.OK if healthy else Exit.PROBLEMS


def where(settings: Settings) -> str:
    """Say where the store is, without passwords."""
    storage = settings.storage
    places = {
        "sqlite": show(storage.sqlite_path),
        "json": show(storage.json_dir),
        "postgres": show(storage.postgres_url),
    }
    return places.get(storage.backend, "this process")


async def _migrated(settings: Settings) -> list[str]:
    backend = wiring.backend_for(settings)
    try:
        return await backend.migrate()
    finally:
        await backend.close()


async def _examined(settings: Settings) -> tuple[int, list[Check]]:
    backend = wiring.backend_for(settings)
    try:
        version = await backend.schema_version()
        if version == 0 and settings.storage.backend in ("sqlite", "json"):
            # Looking must not make the file.
            missing = "nothing there yet; make it with: stoker db setup"
            return 0, [Check(what="store", ok=False, detail=missing)]
        return version, await backend.checks()
    finally:
        await backend.close()


def _report(done: list[str], settings: Settings, *, as_json: bool) -> None:
    if as_json:
        show_json({"backend": settings.storage.backend, "where": where(settings), "done": done})
        return
    for step in done or ["already current"]:
        say(step)
    say(f"{settings.storage.backend} at {where(settings)} is ready")


def _admin(asked: Asked, settings: Settings, given: str | None) -> Secret:
    if given is None:
        if settings.storage.postgres_admin_url is None:
            raise ConfigError(
                "setting up Postgres needs an administrator; give --admin-url or set "
                "STOKER_STORAGE_POSTGRES_ADMIN_URL"
            )
        return settings.storage.postgres_admin_url
    asked.secrets.update(Secret(given).parts())
    try:
        admin: Secret = POSTGRES_URL.read(given, False)
    except ValueError:
        raise ConfigError(f"--admin-url cannot work; allowed: {POSTGRES_URL.allowed}") from None
    return admin


def _app_url(settings: Settings) -> Secret:
    if settings.storage.postgres_url is None:
        raise ConfigError("storage.backend is postgres; set storage.postgres_url too")
    return settings.storage.postgres_url
