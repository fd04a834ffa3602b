"""What a database says its schema is, a line for each table, column, key, index, policy and grant.

`tests/db/catalog_*.txt` hold what each numbered step must add (`+`) and take away (`-`).
"""

import re
from collections.abc import Iterable
from pathlib import Path

import apsw
import psycopg

_POSTGRES = """
WITH tables AS (
    SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('stoker', 'stoker_sec') AND c.relkind IN ('r', 'v', 'm', 'S', 'p')
)
SELECT format('%s: kind %s, row security %s %s, options %s', relname, relkind, relrowsecurity,
    relforcerowsecurity, reloptions) FROM tables
UNION ALL SELECT format('%s.%s: column %s %s %s null=%s default %s storage %s', t.relname,
    a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
    (SELECT collname FROM pg_collation WHERE oid = a.attcollation), NOT a.attnotnull,
    pg_get_expr(d.adbin, d.adrelid), a.attstorage)
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
UNION ALL SELECT format('%s: constraint %s %s', t.relname, k.conname, pg_get_constraintdef(k.oid))
    FROM tables t JOIN pg_constraint k ON k.conrelid = t.oid WHERE k.contype <> 'n'
UNION ALL SELECT format('%s: %s', t.relname, pg_get_indexdef(i.indexrelid))
    FROM tables t JOIN pg_index i ON i.indrelid = t.oid
UNION ALL SELECT format('%s: policy %s %s permissive=%s for %s using %s check %s', t.relname,
    p.polname, p.polcmd, p.polpermissive, p.polroles, pg_get_expr(p.polqual, p.polrelid),
    pg_get_expr(p.polwithcheck, p.polrelid))
    FROM tables t JOIN pg_policy p ON p.polrelid = t.oid
UNION ALL SELECT format('%s: trigger %s', t.relname, pg_get_triggerdef(g.oid))
    FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
UNION ALL SELECT format('%s: grant %s to %s', t.relname,
    string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type),
    CASE WHEN a.grantee = 0 THEN 'public' ELSE 'app' END)
    FROM tables t CROSS JOIN aclexplode(t.relacl) a
    WHERE a.grantee <> t.relowner GROUP BY t.relname, a.grantee
UNION ALL SELECT format('%s: view %s', t.relname, pg_get_viewdef(t.oid)) FROM tables t
    WHERE t.relkind IN ('v', 'm')
UNION ALL SELECT format('%s: function %s', f.proname, pg_get_functiondef(f.oid))
    FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
    WHERE n.nspname IN ('stoker', 'stoker_sec')
UNION ALL SELECT format('%s: function grant to %s', f.proname,
    CASE WHEN a.grantee = f.proowner THEN 'owner' WHEN a.grantee = 0 THEN 'public' ELSE 'app' END)
    FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
    CROSS JOIN aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a
    WHERE n.nspname IN ('stoker', 'stoker_sec')
"""


def read_sqlite_catalog(connection: apsw.Connection) -> set[str]:
    found = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {f"{kind} {name}: {_on_one_line(sql)}" for kind, name, sql in found}


def read_postgres_catalog(connection: psycopg.Connection) -> set[str]:
    return {_on_one_line(line) for (line,) in connection.execute(_POSTGRES)}


def read_steps(path: Path) -> list[set[str]]:
    """Return the catalogs that a file describes, that of version 0 (empty) first."""
    versions: list[set[str]] = [set()]
    for line in path.read_text().splitlines():
        if line.startswith("="):
            versions.append(set(versions[-1]))
        elif line.startswith("+ "):
            versions[-1].add(line[2:])
        else:
            versions[-1].remove(line[2:])
    return versions


def format_steps(names: Iterable[str], versions: Iterable[set[str]]) -> str:
    """Return the text of such a file."""
    before, lines = set[str](), list[str]()
    for name, after in zip(names, versions, strict=True):
        lines.append(f"= {name}")
        lines += [f"- {line}" for line in sorted(before - after)]
        lines += [f"+ {line}" for line in sorted(after - before)]
        before = after
    return "\n".join(lines) + "\n"


def _on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("( ", "(").replace(" )", ")").strip()
