"""Makes a Postgres database ready for Stoker: roles, schema, tables, grants.

Two roles: one owns everything and cannot log in, one logs in and can do only what the verbs need.
An administrator runs this; nothing here is reachable with the app's own role. Everything may be
run again at any time, also half-way through or by two people at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import LiteralString

from stoker.base.errors import ConfigError, StokerError
from stoker.db.migrations import Migration, list_pending
from stoker.db.postgres_connection import (
    Connection,
    describe_url,
    errors,
    open_connection,
    parse_postgres_url,
    psycopg,
    sql,
    translate_error,
)

OWNER = "stoker_owner"

_SCHEMAS = ("stoker", "stoker_sec")

_SETTINGS = {
    "timezone": "UTC",
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
}

_REVOKED: tuple[LiteralString, ...] = (
    "NOSUPERUSER",
    "NOBYPASSRLS",
    "NOCREATEROLE",
    "NOCREATEDB",
    "NOREPLICATION",
)

_POWERS = """
SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication
FROM pg_catalog.pg_roles WHERE rolname = %s
"""

# One setup at a time in a database; any fixed number does.
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(7306589)"

_HAS_META = "SELECT pg_catalog.to_regclass('stoker.meta') IS NOT NULL"

_VERSION = "SELECT value FROM stoker.meta WHERE key = 'schema_version'"

_SAVE_VERSION = """
INSERT INTO stoker.meta (key, value) VALUES ('schema_version', %s)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

_TABLES = """
SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = 'stoker'
UNION ALL SELECT viewname::text FROM pg_catalog.pg_views WHERE schemaname = 'stoker'
"""

# A role that `create_roles_and_schema` gave the schema to is an app role and needs new tables too.
_APPS = """
SELECT DISTINCT r.rolname FROM pg_catalog.pg_namespace n
CROSS JOIN pg_catalog.aclexplode(n.nspacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE n.nspname = 'stoker' AND a.privilege_type = 'USAGE' AND a.grantee <> n.nspowner
ORDER BY r.rolname
"""


def create_roles_and_schema(admin_url: str, app_url: str, steps: Sequence[Migration]) -> list[str]:
    """Make roles, schema, tables and grants; return what was done, in sentences.

    The app role's name and password are those of the app URL; a role that is already there is
    made to fit. Raises ConfigError when the admin may not do this, or the app URL names the
    admin or another database.
    """
    app = _get_app_role(admin_url, app_url)
    with open_connection(admin_url) as admin:
        try:
            with admin.transaction():
                admin.execute(_LOCK)
                done = [
                    _ensure_owner(admin),
                    _ensure_app_role(admin, app, parse_postgres_url(app_url).get("password")),
                ]
                _create_schemas(admin, app)
            done.append(f"{app} may use the schema and create nothing")
            return done + _apply_steps(admin, steps, where=describe_url(admin_url))
        except psycopg.Error as error:
            raise _translate_setup_error(error, admin_url) from error


def migrate(admin_url: str, steps: Sequence[Migration]) -> list[str]:
    """Take the steps this database has not seen; return them, none if it is current."""
    with open_connection(admin_url) as admin:
        try:
            return _apply_steps(admin, steps, where=describe_url(admin_url))
        except psycopg.Error as error:
            raise _translate_setup_error(error, admin_url) from error


def read_schema_version(connection: Connection) -> int:
    """Return the version of the schema as it is, 0 when there is none yet."""
    [(there,)] = connection.execute(_HAS_META).fetchall()
    rows = connection.execute(_VERSION).fetchall() if there else []
    return int(rows[0][0]) if rows else 0


def _get_app_role(admin_url: str, app_url: str) -> str:
    admin, app = parse_postgres_url(admin_url, setting="--admin-url"), parse_postgres_url(app_url)
    name = str(app.get("user", "stoker_app"))
    if name in (OWNER, admin.get("user")):
        raise ConfigError(
            f"storage.postgres_url logs in as {name}, whom row security does not bind; "
            "name another user in it, e.g. stoker_app"
        )
    if app.get("dbname", name) != admin.get("dbname", admin.get("user")):
        raise ConfigError("storage.postgres_url and --admin-url name different databases")
    return name


def _ensure_owner(admin: Connection) -> str:
    made = _create_role(admin, OWNER)
    [(member,)] = admin.execute("SELECT pg_has_role(%s, 'USAGE')", [OWNER]).fetchall()
    if not member:  # an admin who is no superuser must join the owner to act as it
        admin.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(OWNER)))
    return f"{OWNER} {made}: owns the tables, cannot log in"


def _ensure_app_role(admin: Connection, app: str, password: str | None) -> str:
    made = _create_role(admin, app)
    role = sql.Identifier(app)
    admin.execute(sql.SQL("ALTER ROLE {} LOGIN").format(role))
    [has] = admin.execute(_POWERS, [app]).fetchall()
    for power, held in zip(_REVOKED, has, strict=True):
        if held:  # only then: an administrator without the power may not revoke it
            admin.execute(sql.SQL("ALTER ROLE {} " + power).format(role))
    if password:
        # Hashed here, so that the password itself is never in the server's log.
        secret = admin.pgconn.encrypt_password(password.encode(), app.encode(), b"scram-sha-256")
        admin.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(secret.decode()))
        )
    for name, value in _SETTINGS.items():
        admin.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(
                role, sql.Identifier(name), sql.Literal(value)
            )
        )
    # So that people who connect as this role find our tables by their names alone.
    admin.execute(sql.SQL("ALTER ROLE {} SET search_path = stoker, pg_catalog").format(role))
    return f"{app} {made}: logs in, and row security binds it"


def _create_role(admin: Connection, name: str) -> str:
    [(there,)] = admin.execute(
        "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", [name]
    ).fetchall()
    if there:
        return "was there"
    # Roles belong to the whole server, so the setup of another database may be first.
    with suppress(errors.DuplicateObject, errors.UniqueViolation), admin.transaction():
        admin.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(name)))
    return "made"


def _create_schemas(admin: Connection, app: str) -> None:
    role, owner = sql.Identifier(app), sql.Identifier(OWNER)
    [(name,)] = admin.execute("SELECT current_database()").fetchall()
    database = sql.Identifier(name)
    for schema in map(sql.Identifier, _SCHEMAS):
        admin.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(schema, owner)
        )
        admin.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM PUBLIC, {}").format(schema, role))
        admin.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
    admin.execute(
        sql.SQL("REVOKE CREATE, TEMPORARY ON DATABASE {} FROM PUBLIC, {}").format(database, role)
    )
    admin.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role))
    if admin.execute("SELECT FROM pg_namespace WHERE nspname = 'public'").fetchall():
        admin.execute(sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC, {}").format(role))


def _apply_steps(admin: Connection, steps: Sequence[Migration], *, where: str) -> list[str]:
    [(ready,)] = admin.execute(
        "SELECT count(*) = 2 FROM pg_namespace WHERE nspname = ANY(%s)", [list(_SCHEMAS)]
    ).fetchall()
    if not ready:
        raise ConfigError(f"{where} was never set up; run `stoker db setup` first")
    taken: list[str] = []
    while True:
        with admin.transaction():
            # Read under the lock: of two who migrate at once, the second finds nothing to do.
            admin.execute(_LOCK)
            admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(OWNER)))
            version = read_schema_version(admin)
            left = list_pending(steps, version=version, where=where)
            if not left:
                _grant(admin, steps)
                return taken
            admin.execute(left[0].script)
            admin.execute(_SAVE_VERSION, [str(left[0].number)])
            _grant(admin, steps)
        taken.append(str(left[0]))


def _grant(admin: Connection, steps: Sequence[Migration]) -> None:
    """Give every app role exactly what it may do with the tables there are, and no more."""
    there = {name for (name,) in admin.execute(_TABLES).fetchall()}
    grants = {name: granted for step in steps for name, granted in step.grants.items()}
    for (app,) in admin.execute(_APPS).fetchall():
        role = sql.Identifier(app)
        for table in there & grants.keys():
            name, granted = sql.Identifier("stoker", table), sql.SQL(grants[table])
            admin.execute(sql.SQL("REVOKE ALL ON {} FROM PUBLIC, {}").format(name, role))
            admin.execute(sql.SQL("GRANT {} ON {} TO {}").format(granted, name, role))
        admin.execute(sql.SQL("GRANT EXECUTE ON FUNCTION stoker_sec.tenant() TO {}").format(role))


def _translate_setup_error(error: psycopg.Error, admin_url: str) -> StokerError:
    if isinstance(error, errors.InsufficientPrivilege):
        return ConfigError(
            f"{describe_url(admin_url)} may not set this up ({error.diag.message_primary}); give "
            "--admin-url a user that may make roles and owns the database"
        )
    return translate_error(error, where=describe_url(admin_url))
