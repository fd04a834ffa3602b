"""SQLite files as earlier versions of the program left them, with rows in every table they had."""

from pathlib import Path

import apsw

from stoker.stores.schema_sqlite import MIGRATIONS
from stoker.stores.sqlite_migrating import SET_VERSION

AT = "2026-02-07T01:30:00.000000+00:00"
MANIFEST = '{"config":{"days":30},"config_hash":"abc","counts":{"found":3}}'

# For each version, what puts rows into the tables it brought. `n` runs from 1 to the row count.
_RUNS = f"""
INSERT INTO runs VALUES
    ('acme', '{AT}', 'discover', 'DONE', NULL, 7, '{AT}', 'ünï 🙂', 'abc', '{MANIFEST}'),
    ('umbrella', '{AT}', 'upkeep', 'RUNNING', '{AT}', 1, NULL, '', '', '{{}}')
"""
_ROWS = {
    1: """
INSERT INTO jobs SELECT 'acme', '{at}', printf('%064x', n), 'feed', 'https://example.com/' || n,
    'title ' || n, 'company – ' || (n % 7), '', CASE WHEN n % 2 THEN '{at}' END FROM numbers;
INSERT INTO enriched SELECT 'acme', '{at}', printf('%064x', n), 'title', 'senior', '["python"]',
    n % 2 FROM numbers;
INSERT INTO scores SELECT 'acme', '{at}', printf('%064x', n), (n % 100) / 100.0, 'weak',
    '{{"role_fit":0.5}}' FROM numbers;
""",
    2: """
INSERT INTO leases SELECT 'acme', 'lease ' || n, 'owner', n, n, '{at}', '' FROM numbers;
INSERT INTO slots SELECT 'acme', 'nightly ' || n, '{at}', 'MISSED', '{at}', 'a reason', NULL
    FROM numbers;
""",
    3: """
INSERT INTO ledger SELECT 'acme', n, '{at}', 'MISSED', 'nightly', 'a reason', '{{"n":1}}',
    'before', 'digest' FROM numbers;
""",
}


def make_file(path: Path, *, version: int, rows: int) -> None:
    """Make a file of an earlier version, with this many rows in each of its larger tables."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.execute("BEGIN")
    count = f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows})"
    db.execute(f"CREATE TEMP TABLE numbers AS {count} SELECT n FROM c")
    for step in MIGRATIONS[:version]:
        db.execute(step.script)
        db.execute(SET_VERSION, {"version": str(step.number)})
        if step.number == 1:
            db.execute(_RUNS)
        db.execute(_ROWS.get(step.number, "").format(at=AT))
    db.execute("COMMIT")
    db.close()


def dump(path: Path) -> dict[str, set[tuple[object, ...]]]:
    """Return every row of every table but `meta`. No two rows of a table are alike."""
    db = apsw.Connection(str(path))
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {name: set(db.execute(f"SELECT * FROM {name}")) for name in tables if name != "meta"}
    db.close()
    return rows


def changed_rows(before: dict[str, set[tuple[object, ...]]], path: Path) -> int:
    """Return how many of the rows from before are gone or different now."""
    after = dump(path)
    return sum(len(rows ^ after.get(table, set())) for table, rows in before.items())


def schema(path: Path) -> list[tuple[object, ...]]:
    """Return what the file says its tables, indexes and triggers are."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    db.close()
    return found
