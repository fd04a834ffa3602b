"""`db`: make the store ready, bring it up to date, say how it is.

SQLite and JSON files are made on the spot. Postgres is set up by an administrator once, because
the role the program works as may not change the schema. How is each store's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker import app as wiring
from stoker.base.errors import ConfigError
from stoker.cli.output import (
    Exit,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.config.fields import POSTGRES_URL, Secret, format_value
from stoker.db.database import Check

if TYPE_CHECKING:
    from stoker.cli.output import CommandContext
    from stoker.settings import Settings

_admin_url_option = click.option(
    "--admin-url",
    metavar="URL",
    help="Postgres only: its address as an administrator; else storage.postgres_admin_url.",
)


@click.group()
def db() -> None:
    """Set up the database, show its state, run maintenance."""


@db.command()
@_admin_url_option
@json_option
@pass_context
def setup(asked: CommandContext, *, admin_url: str | None, as_json: bool) -> None:
    """Set up the database; safe to repeat.

    On Postgres it creates the restricted role that storage.postgres_url names, the tables, and the
    row security that keeps tenants apart.
    """
    settings = asked.read_settings()
    if settings.storage.backend == "postgres":
        from stoker.backends.schema import SCHEMA
        from stoker.db.postgres_setup import create_roles_and_schema

        admin = _get_admin_url(asked, settings, admin_url)
        app_url = _get_app_url(settings).reveal()
        done = create_roles_and_schema(admin.reveal(), app_url, SCHEMA.postgres)
    else:
        done = run_async(_migrate_store(settings))
    _print_report(done, settings, as_json=as_json)


@db.command(hidden=True)
@_admin_url_option
@json_option
@pass_context
def migrate(asked: CommandContext, *, admin_url: str | None, as_json: bool) -> None:
    """Bring the schema up to this program's version; current means nothing to do."""
    settings = asked.read_settings()
    given = admin_url or settings.storage.postgres_admin_url
    if settings.storage.backend == "postgres" and given:
        from stoker.backends.schema import SCHEMA
        from stoker.db.postgres_setup import migrate as migrate_postgres

        admin = _get_admin_url(asked, settings, admin_url)
        done = migrate_postgres(admin.reveal(), SCHEMA.postgres)
    else:
        done = run_async(_migrate_store(settings))
    _print_report(done, settings, as_json=as_json)


@db.command()
@json_option
@pass_context
def status(asked: CommandContext, *, as_json: bool) -> Exit:
    """Show where the database is, its schema version and its health; exit code 1 if unhealthy."""
    settings = asked.read_settings()
    version, checks = run_async(_check_store(settings))
    healthy = all(check.ok for check in checks)
    if as_json:
        print_json(
            {
                "ok": healthy,
                "backend": settings.storage.backend,
                "where": describe_store(settings),
                "schema_version": version,
                "checks": [{"what": c.what, "ok": c.ok, "detail": c.detail} for c in checks],
            }
        )
    else:
        print_text(
            f"{settings.storage.backend} at {describe_store(settings)}, schema version {version}"
        )
        marks = {True: "ok", False: "WRONG"}
        print_table(("check", "", "detail"), ((c.what, marks[c.ok], c.detail) for c in checks))
    return Exit.OK if healthy else Exit.PROBLEMS


def describe_store(settings: Settings) -> str:
    """Say where the store is, without passwords."""
    storage = settings.storage
    places = {
        "sqlite": format_value(storage.sqlite_path),
        "json": format_value(storage.json_dir),
        "postgres": format_value(storage.postgres_url),
    }
    return places.get(storage.backend, "this process")


async def _migrate_store(settings: Settings) -> list[str]:
    backend = wiring.build_backend(settings)
    try:
        return await backend.migrate()
    finally:
        await backend.close()


async def _check_store(settings: Settings) -> tuple[int, list[Check]]:
    backend = wiring.build_backend(settings)
    try:
        version = await backend.schema_version()
        if version == 0 and settings.storage.backend in ("sqlite", "json"):
            # Looking must not make the file.
            missing = "nothing there yet; make it with: stoker db setup"
            return 0, [Check(what="store", ok=False, detail=missing)]
        return version, await backend.checks()
    finally:
        await backend.close()


def _print_report(done: list[str], settings: Settings, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"backend": settings.storage.backend, "where": describe_store(settings), "done": done}
        )
        return
    for step in done or ["already current"]:
        print_text(step)
    print_text(f"{settings.storage.backend} at {describe_store(settings)} is ready")


def _get_admin_url(asked: CommandContext, settings: Settings, given: str | None) -> Secret:
    from stoker.settings import FIELDS

    if given is None:
        if settings.storage.postgres_admin_url is None:
            raise ConfigError(
                "setting up Postgres needs an administrator; give --admin-url or set "
                "STOKER_STORAGE_POSTGRES_ADMIN_URL"
            )
        return settings.storage.postgres_admin_url
    instead = FIELDS["storage.postgres_admin_url"].env[0]
    asked.warn_of_secret("--admin-url", given, instead=f"{instead} in .env")
    try:
        admin: Secret = POSTGRES_URL.read(given, False)
    except ValueError:
        raise ConfigError(f"--admin-url cannot work; allowed: {POSTGRES_URL.allowed}") from None
    return admin


def _get_app_url(settings: Settings) -> Secret:
    if settings.storage.postgres_url is None:
        raise ConfigError("storage.backend is postgres; set storage.postgres_url too")
    return settings.storage.postgres_url
