"""What a SQLite file can say about its own health. Nothing here is raised; it is reported."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import apsw

from stoker.base.errors import StokerError
from stoker.db.database import Check
from stoker.db.schema_sqlite import MIGRATIONS
from stoker.db.sqlite_file import FULL, opened_for_reading, translated
from stoker.db.sqlite_migrations import schema_version

LITTLE_ROOM = 64 * 1024 * 1024  # bytes; below this a night's work may not fit


def durability_checks(connection: apsw.Connection) -> list[Check]:
    """Say whether what this connection commits survives a power cut."""
    journal, level = connection.pragma("journal_mode"), connection.pragma("synchronous")
    return [
        Check(what="journal mode", ok=journal == "wal", detail=f"{journal} (wal is needed)"),
        Check(what="synchronous", ok=level == FULL, detail=f"{level} ({FULL}, full, is needed)"),
    ]


def file_checks(path: Path, *, busy: timedelta) -> list[Check]:
    """Look at the file: its schema, its pages, the room around it."""
    try:
        connection = opened_for_reading(path, busy=busy)
        try:
            return [_schema(connection, path), _pages(connection, path), *_room(path)]
        finally:
            connection.close()
    except StokerError as error:
        return [Check(what="database file", ok=False, detail=str(error)), *_room(path)]


def _schema(connection: apsw.Connection, path: Path) -> Check:
    version, known = schema_version(connection, path), len(MIGRATIONS)
    if version < known:
        detail = f"{version}; this Stoker needs {known}: run `stoker db migrate`"
    elif version > known:
        detail = f"{version}; newer than this Stoker knows ({known}): upgrade Stoker"
    else:
        detail = f"{version}, current"
    return Check(what="schema version", ok=version == known, detail=detail)


def _pages(connection: apsw.Connection, path: Path) -> Check:
    with translated(path):
        answer = "; ".join(str(line) for (line,) in connection.execute("PRAGMA quick_check(1)"))
    detail = "sound" if answer == "ok" else f"{answer}; restore {path} from a backup"
    return Check(what="database file", ok=answer == "ok", detail=detail)


def _room(path: Path) -> list[Check]:
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return []  # the directory is not there, and the file's own check has said so
    detail = f"{free // 2**20} MiB free"
    if free < LITTLE_ROOM:
        detail += "; free some, below 64 MiB a run may not fit"
    return [Check(what="disk room", ok=free >= LITTLE_ROOM, detail=detail)]
