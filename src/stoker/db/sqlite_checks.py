"""What a SQLite file can say about its own health. Nothing here is raised; it is reported."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import apsw

from stoker.base.errors import StokerError
from stoker.db.database import Check
from stoker.db.migrations import Schema
from stoker.db.sqlite_file import SYNCHRONOUS_FULL, open_reader, wrap_sqlite_errors
from stoker.db.sqlite_migrations import read_schema_version

MIN_FREE_BYTES = 64 * 1024 * 1024  # bytes; below this a night's work may not fit


def check_durability(connection: apsw.Connection) -> list[Check]:
    """Say whether what this connection commits survives a power cut."""
    journal, level = connection.pragma("journal_mode"), connection.pragma("synchronous")
    return [
        Check(what="journal mode", ok=journal == "wal", detail=f"{journal} (wal is needed)"),
        Check(
            what="synchronous",
            ok=level == SYNCHRONOUS_FULL,
            detail=f"{level} ({SYNCHRONOUS_FULL}, full, is needed)",
        ),
    ]


def check_file(path: Path, schema: Schema, *, busy: timedelta) -> list[Check]:
    """Look at the file: its schema, its pages, the room around it."""
    try:
        connection = open_reader(path, busy=busy)
        try:
            return [
                _check_schema(connection, path, known=schema.version),
                _check_pages(connection, path),
                *_check_free_space(path),
            ]
        finally:
            connection.close()
    except StokerError as error:
        return [Check(what="database file", ok=False, detail=str(error)), *_check_free_space(path)]


def _check_schema(connection: apsw.Connection, path: Path, *, known: int) -> Check:
    version = read_schema_version(connection, path)
    if version < known:
        detail = f"{version}; this Stoker needs {known}: run `stoker db migrate`"
    elif version > known:
        detail = f"{version}; newer than this Stoker knows ({known}): upgrade Stoker"
    else:
        detail = f"{version}, current"
    return Check(what="schema version", ok=version == known, detail=detail)


def _check_pages(connection: apsw.Connection, path: Path) -> Check:
    with wrap_sqlite_errors(path):
        answer = "; ".join(str(line) for (line,) in connection.execute("PRAGMA quick_check(1)"))
    detail = "sound" if answer == "ok" else f"{answer}; restore {path} from a backup"
    return Check(what="database file", ok=answer == "ok", detail=detail)


def _check_free_space(path: Path) -> list[Check]:
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return []  # the directory is not there, and the file's own check has said so
    detail = f"{free // 2**20} MiB free"
    if free < MIN_FREE_BYTES:
        detail += "; free some, below 64 MiB a run may not fit"
    return [Check(what="disk room", ok=free >= MIN_FREE_BYTES, detail=detail)]
