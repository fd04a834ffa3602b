"""From every earlier version, with 100,000 rows in each table: no row lost or changed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.old_files import changed_rows, dump, make_file
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend

ROWS = 100_000


async def migrate(path: Path) -> list[str]:
    """Bring the file up to date, as the program does."""
    backend = SqliteBackend(path)
    try:
        return await backend.migrate()
    finally:
        await backend.close()


def main(scale: float = 1.0) -> int:
    """Print n for each version; return how many rows were lost or changed."""
    rows, wrong = max(1, int(ROWS * scale)), 0
    for version in range(1, SCHEMA.version + 1):
        with tempfile.TemporaryDirectory() as home:
            path = Path(home) / "stoker.db"
            make_file(path, version=version, rows=rows)
            before = dump(path)
            steps = asyncio.run(migrate(path))
            changed = changed_rows(before, path)
        n = sum(map(len, before.values()))
        print(
            f"from version {version}, {len(steps)} steps: n={n:,} rows, {changed} lost or changed"
        )
        wrong += changed
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
