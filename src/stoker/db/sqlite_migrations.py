"""How a SQLite file is brought up to this program's schema: step by step, each step whole.

A step and the version it leads to are written in one transaction, so a crash leaves the file at
one version or the next, never between. Two programs doing this at once take turns.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import apsw

from stoker.base.errors import ConfigError
from stoker.db.migrations import Schema, list_pending
from stoker.db.sqlite_file import enable_wal, wrap_disk_errors, wrap_sqlite_errors

SELECT_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"

SELECT_VERSION = "SELECT value FROM meta WHERE key = 'schema_version'"

SET_VERSION = """
INSERT INTO meta (key, value) VALUES ('schema_version', :version)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


def read_schema_version(connection: apsw.Connection, path: Path) -> int:
    """Return the version of the schema, 0 in an empty file.

    Raises ConfigError when the file is somebody else's: it has tables, and not our `meta`.
    """
    with wrap_sqlite_errors(path):
        tables = {name for (name,) in connection.execute(SELECT_TABLES)}
        versions = connection.execute(SELECT_VERSION).fetchall() if "meta" in tables else []
    if not tables:
        return 0
    try:
        [[version]] = versions
        return int(str(version))
    except ValueError:
        raise ConfigError(
            f"{path} is a database of another program; choose another storage.sqlite_path, "
            "nothing was changed"
        ) from None


def require_schema_version(connection: apsw.Connection, path: Path, schema: Schema) -> None:
    """Raise ConfigError unless the file has exactly the schema this program knows."""
    version = read_schema_version(connection, path)
    if schema.list_pending(version, where=str(path)):
        raise ConfigError(
            f"{path} has schema version {version}, this Stoker needs {schema.version}; "
            "run `stoker db migrate`"
        )


def apply_migrations(
    connection: apsw.Connection, path: Path, schema: Schema, *, busy: timedelta
) -> list[str]:
    """Take the steps still to take; return them, none when the file is current.

    Raises UncertainError, with the connection closed, when the disk fails under a step.
    """
    # Before anything is written: a newer file, or a stranger's, stays as it is.
    pending = schema.list_pending(read_schema_version(connection, path), where=str(path))
    enable_wal(connection, path, busy=busy)
    taken = []
    # A current file asks for no lock, so that looking never waits for another process's write.
    for step in schema.sqlite[-len(pending) :] if pending else ():
        with wrap_sqlite_errors(path), wrap_disk_errors(connection, path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Asked again now that nobody else can change it: another program may have been
                # faster, or may even be newer.
                version = read_schema_version(connection, path)
                if step in list_pending(schema.sqlite, version=version, where=str(path)):
                    connection.execute(step.script)
                    connection.execute(SET_VERSION, {"version": str(step.number)})
                    taken.append(str(step))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    return taken
