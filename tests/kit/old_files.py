"""SQLite files as earlier versions of the program left them, with rows in every table they had."""

from pathlib import Path

import apsw

from stoker.backends.schema import SCHEMA
from stoker.db.sqlite_file import SET_VERSION

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
    4: """
INSERT INTO holds SELECT 'acme', 'key – ' || n, 'lusha', printf('%032x', n),
    CASE n % 3 WHEN 0 THEN 'SENT' WHEN 1 THEN 'SETTLED' ELSE 'UNCERTAIN' END, 'owner', '{at}',
    '{at}', CASE WHEN n % 3 = 1 THEN '{at}' END, 'run', NULL, 'ünï 🙂', '{{"credits":' || n || '}}',
    '[["tenant/*/credits/day",false,"day 2026-02-07T00:00:00+00:00",' || n || ',100,"{at}","R"]]',
    CASE WHEN n % 3 = 1 THEN '{{"credits":1}}' ELSE '{{}}' END FROM numbers;
INSERT INTO budgets SELECT 'acme', 'tenant/*/credits/day', 'day ' || n, n, 2 * n FROM numbers;
INSERT INTO shared_budgets SELECT 'connector/lusha/credits/day', 'day ' || n, n, 0 FROM numbers;
INSERT INTO rates SELECT 'key ' || n, '{at}' FROM numbers;
INSERT INTO places SELECT 'name', 'owner ' || n, '{at}' FROM numbers;
INSERT INTO cap_changes VALUES ('acme', 'tenant/*/credits/day', 5, 7, '{at}');
INSERT INTO shared_cap_changes VALUES ('connector/lusha/credits/day', NULL, 7, '{at}');
INSERT INTO stops VALUES ('acme', '', '{at}', 'the bill'), ('umbrella', 'lusha', '{at}', '');
INSERT INTO shared_stops VALUES ('lusha', '{at}', 'ünï 🙂');
""",
    5: """
INSERT INTO registry_loads SELECT 'load ' || n, '2026-01-31', 'A', 'a.csv', '{at}', NULL, n, 0, 0,
    0, 0, 0 FROM numbers;
INSERT INTO registry_rejects SELECT n, 'load 1', n, 'no number', 'a,b' FROM numbers;
INSERT INTO registry_seen SELECT 'T' || n, '2026-01-31', 'content', '{at}', NULL FROM numbers;
INSERT INTO staging_acra_companies SELECT 'T' || n, 'ünï 🙂', '', '', '', 1, '2015-03-01', '62011',
    '', '', '', '', 2, '[]', 'd' FROM numbers;
INSERT INTO staging_raw_acra SELECT 'T' || n, '{{"uen":"T"}}' FROM numbers;
INSERT INTO ssic_ref SELECT '2020', 'code ' || n, 'title', 'class' FROM numbers;
INSERT INTO site_pages SELECT 'acme', 'a.test', 'https://a.test/' || n, 200, '', '', 'f', '{at}',
    '{at}' FROM numbers;
INSERT INTO vendor_answers SELECT 'acme', 'key ' || n, 'zerobounce', '[{{"n":1}}]', '{{}}', '{at}',
    '{at}' FROM numbers;
""",
    6: """
INSERT INTO companies SELECT 'acme', 'T' || n, 'ünï 🙂', 1, '62011', 2015, '', '', NULL, '{at}'
    FROM numbers;
INSERT INTO company_enrichment_runs SELECT 'acme', '20260207_013000', 'T' || n, n, 'DEEP',
    'waiting', '', NULL, 'never scored', '[]', '{{}}', '{{}}', '{{}}', NULL FROM numbers;
""",
    7: """
INSERT INTO touch_profiles SELECT 'acme', 'https://p.test/' || n, 'ünï 🙂', 'active', '{at}'
    FROM numbers;
INSERT INTO touch_plans SELECT 'acme', '2026-W' || n, n, '{{"n":1}}' FROM numbers;
INSERT INTO touches SELECT 'acme', '2026-W07', '2026-02-09', 'https://p.test/' || n, 'n', '{at}',
    7.25, NULL, 0, 0.125, NULL FROM numbers;
INSERT INTO touch_outcomes SELECT 'acme', '2026-02-09', 'https://p.test/' || n, 'done', '{at}'
    FROM numbers;
INSERT INTO touch_handovers SELECT 'acme', '2026-02-09', 'https://p.test/' || n, 'file', '{at}', ''
    FROM numbers;
INSERT INTO touch_counters SELECT 'acme', 'day/' || n, n FROM numbers;
""",
    8: """
INSERT INTO account_signals SELECT 'acme', 's' || n, 'T' || n % 7, 'POSTING', '{at}', 0.1, 'ünï 🙂'
    FROM numbers;
INSERT INTO account_heats SELECT 'acme', 'T' || n, 'WARM', 0.5, 0.25, 0.1, 0.1, 0.25, 0.5, 1.5,
    '{at}', '1770427800000000', '{at}', NULL, '{at}', '{at}' FROM numbers;
INSERT INTO account_beliefs SELECT 'acme', 'T' || n, '{at}', 1.5, 20.25, NULL, NULL, NULL
    FROM numbers;
INSERT INTO looks_learned SELECT 'acme', 'look ' || n, '{at}' FROM numbers;
INSERT INTO pull_plans SELECT 'acme', 'run ' || n, '{at}', 'tiers', '{{"n":1}}' FROM numbers;
INSERT INTO pull_plan_parts SELECT 'acme', 'run ' || n, 0, x'00ff' FROM numbers;
""",
    9: """
INSERT INTO posting_sources SELECT 'acme', 'lever:' || n, 'read', '{at}', NULL, 1, 'ünï 🙂', '', n,
    '' FROM numbers;
INSERT INTO posting_listings SELECT 'acme', 'lever:a', 'j' || n, 'lever', 'https://a.test/' || n,
    'ünï 🙂', 'Acme', '', '{at}', 't', '', '["go"]', 1, 0, '{at}', '{at}' FROM numbers;
""",
    10: """
INSERT INTO cancel_requests VALUES ('umbrella', '{at}', 'ünï 🙂', '{at}');
""",
}


def make_file(path: Path, *, version: int, rows: int) -> None:
    """Make a file of an earlier version, with this many rows in each of its larger tables."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.execute("BEGIN")
    count = f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows})"
    db.execute(f"CREATE TEMP TABLE numbers AS {count} SELECT n FROM c")
    for step in SCHEMA.sqlite[:version]:
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
    """Return how many of the rows from before are gone or different now; columns may be added."""
    after, changed = dump(path), 0
    for table, rows in before.items():
        width = len(next(iter(rows), ()))
        changed += len(rows ^ {row[:width] for row in after.get(table, set())})
    return changed


def schema(path: Path) -> list[tuple[object, ...]]:
    """Return what the file says its tables, indexes and triggers are."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    db.close()
    return found
