"""The settings of the store: which database, and where it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.config.fields import (
    PATH,
    POSTGRES_URL,
    Secret,
    Section,
    choice,
    setting,
)

JSON_DATABASE = "schedule.db"  # beside the JSON files: everything but runs


@dataclass(frozen=True, kw_only=True)
class StorageSettings(Section):
    """Where Stoker remembers."""

    backend: str = setting(
        choice("sqlite", "postgres", "json", "memory"), "sqlite", "Which kind of store is used."
    )
    sqlite_path: Path = setting(PATH, Path("stoker.db"), "The SQLite file.")
    postgres_url: Secret | None = setting(
        POSTGRES_URL, None, "Where Postgres is, as the restricted role; backend postgres needs it."
    )
    postgres_admin_url: Secret | None = setting(
        POSTGRES_URL, None, "Where Postgres is, as its owner; only `db setup` uses it."
    )
    json_dir: Path = setting(PATH, Path("stoker-data"), "The directory of the JSON files.")

    def list_own_files(self) -> list[Path]:
        """Return the files of the SQLite database in use, whether they are there or not."""
        by_backend = {"sqlite": self.sqlite_path, "json": self.json_dir / JSON_DATABASE}
        path = by_backend.get(self.backend)
        ends = ("", "-wal", "-shm", "-journal")
        return [path.with_name(path.name + end) for end in ends] if path else []
