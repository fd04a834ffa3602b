"""Find in the database's catalog what would make row security void.

Row security is easily switched off by accident: an owner that is not forced, a view that runs as
its maker, a key that shows whether another tenant has a row. Two queries find these: one compares
the tables, and what reads or changes them, with what the program declares; the other looks at the
connected role. No rows mean safe.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.base.errors import ConfigError
from stoker.db.migrations import Schema
from stoker.db.postgres_connection import Connection, errors

FIND_TABLE_PROBLEMS = """
WITH
ours AS (
    SELECT c.oid, c.relname, c.relkind, c.relacl, c.relowner, c.relrowsecurity AS enabled,
           c.relforcerowsecurity AS forced
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'stoker' AND c.relkind IN ('r', 'p', 'f')
),
shared AS (
    SELECT * FROM ours WHERE relname = ANY (%(shared)s)
),
guarded AS (
    SELECT * FROM ours WHERE oid NOT IN (SELECT oid FROM shared) OR relname = ANY (%(guarded)s)
),
tables AS (SELECT * FROM ours WHERE oid NOT IN (SELECT oid FROM shared)),
readers AS (
    SELECT DISTINCT v.oid, vn.nspname || '.' || v.relname AS name, v.relkind, v.reloptions
    FROM pg_catalog.pg_class v JOIN pg_catalog.pg_namespace vn ON vn.oid = v.relnamespace
    LEFT JOIN pg_catalog.pg_rewrite w ON w.ev_class = v.oid
    LEFT JOIN pg_catalog.pg_depend d
        ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass
    WHERE v.relkind IN ('v', 'm')
        AND (vn.nspname = 'stoker' OR d.refobjid IN (SELECT oid FROM tables))
),
declared AS (
    SELECT * FROM unnest(%(policies)s::text[], %(names)s::text[], %(commands)s::text[],
        %(usings)s::text[], %(checks)s::text[]) AS d (relname, polname, command, used, checked)
),
policies AS (
    SELECT p.polrelid, t.relname, p.polname, d.relname IS NOT NULL AS is_ours
    FROM pg_catalog.pg_policy p JOIN ours t ON t.oid = p.polrelid
    LEFT JOIN declared d ON d.relname = t.relname AND d.polname = p.polname
        AND p.polpermissive AND p.polcmd::text = d.command AND p.polroles = ARRAY[0::oid]
        AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) = d.used
        AND coalesce(pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid), '') = d.checked
),
functions AS (
    SELECT f.*, n.nspname || '.' || f.proname AS name
    FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
    WHERE n.nspname IN ('stoker', 'stoker_sec')
),
bodies AS (
    SELECT * FROM unnest(%(functions)s::text[], %(bodies)s::text[]) AS b (name, body)
),
wanted AS (
    SELECT * FROM unnest(%(triggers)s::text[], %(definitions)s::text[]) AS w (name, definition)
),
triggers AS (  -- a function is shown with its schema or without, as the search_path is
    SELECT t.relname || '.' || g.tgname AS name, g.tgenabled,
        split_part(pg_catalog.pg_get_triggerdef(g.oid), ' EXECUTE FUNCTION ', 1)
        || ' EXECUTE FUNCTION ' || n.nspname || '.' || f.proname
        || CASE g.tgnargs WHEN 0 THEN '()' ELSE '(...)' END AS definition
    FROM pg_catalog.pg_trigger g JOIN ours t ON t.oid = g.tgrelid
    JOIN pg_catalog.pg_proc f ON f.oid = g.tgfoid
    JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
    WHERE NOT g.tgisinternal
),
privileges AS (
    SELECT t.relname, a.privilege_type, a.grantee, t.relowner
    FROM ours t, pg_catalog.aclexplode(t.relacl) a
    UNION ALL
    SELECT t.relname, a.privilege_type, a.grantee, t.relowner
    FROM ours t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid,
        pg_catalog.aclexplode(c.attacl) a
)
SELECT 'table without forced row security' AS kind, relname AS name
    FROM guarded WHERE NOT (enabled AND forced)
UNION ALL SELECT 'table that is missing', name FROM unnest(%(tables)s::text[]) AS name
    WHERE name NOT IN (SELECT relname FROM ours)
UNION ALL SELECT 'row security that hides a shared table', relname FROM shared
    WHERE enabled AND oid NOT IN (SELECT oid FROM guarded)
UNION ALL SELECT 'table without a tenant_id', relname FROM tables t
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = t.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
UNION ALL SELECT 'shared table with a tenant_id', relname FROM shared t
    WHERE EXISTS (SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = t.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
            -- another name of the key, by which the policy decides
            AND NOT (a.attgenerated = 's' AND t.relname = ANY (%(tenants)s)))
UNION ALL SELECT DISTINCT 'table without its policy', d.relname FROM declared d
    WHERE NOT EXISTS (SELECT FROM policies p
        WHERE p.is_ours AND p.relname = d.relname AND p.polname = d.polname)
UNION ALL SELECT 'policy that is not ours', relname || '.' || polname FROM policies
    WHERE NOT is_ours
UNION ALL SELECT 'view without security_invoker', name FROM readers
    WHERE relkind = 'v' AND NOT EXISTS (SELECT FROM unnest(reloptions) o
        WHERE lower(o) IN ('security_invoker=true', 'security_invoker=on', 'security_invoker=1'))
UNION ALL SELECT 'materialised view', name FROM readers WHERE relkind = 'm'
UNION ALL SELECT 'function without a pinned search_path', name FROM functions f
    WHERE f.proconfig IS DISTINCT FROM ARRAY['search_path=pg_catalog']
UNION ALL SELECT 'function that is not ours', name FROM functions f WHERE f.prosecdef
    OR NOT EXISTS (SELECT FROM bodies b WHERE b.name = f.name AND b.body = f.prosrc)
UNION ALL SELECT 'function that is missing', name FROM bodies
    WHERE name NOT IN (SELECT name FROM functions)
UNION ALL SELECT 'trigger that is not ours', name FROM triggers
    WHERE (name, definition) NOT IN (SELECT w.name, w.definition FROM wanted w)
UNION ALL SELECT 'trigger that is missing', name FROM wanted
    WHERE name NOT IN (SELECT t.name FROM triggers t WHERE t.tgenabled = 'O')
UNION ALL SELECT 'rule on a table', t.relname || '.' || w.rulename
    FROM pg_catalog.pg_rewrite w JOIN ours t ON t.oid = w.ev_class
UNION ALL SELECT 'unique index not starting with tenant_id', i.indexrelid::regclass::text
    FROM pg_catalog.pg_index i JOIN tables t ON t.oid = i.indrelid
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
    WHERE (i.indisunique OR i.indisexclusion) AND a.attname IS DISTINCT FROM 'tenant_id'
UNION ALL SELECT 'foreign key not starting with tenant_id', t.relname || '.' || k.conname
    FROM pg_catalog.pg_constraint k JOIN tables t ON t.oid = k.conrelid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.conkey[1]
    LEFT JOIN pg_catalog.pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = k.confkey[1]
    WHERE k.contype = 'f' AND (a.attname <> 'tenant_id' OR f.attname <> 'tenant_id')
UNION ALL SELECT 'sequence shared by tenants', c.relname
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'stoker' AND c.relkind = 'S'
UNION ALL SELECT DISTINCT 'grant of ' || privilege_type, relname FROM privileges
    WHERE grantee <> relowner AND privilege_type IN ('TRUNCATE', 'REFERENCES', 'TRIGGER')
UNION ALL SELECT DISTINCT 'ledger that can be changed', privilege_type FROM privileges
    WHERE grantee <> relowner AND relname = 'ledger' AND privilege_type IN ('UPDATE', 'DELETE')
ORDER BY kind, name
"""

# `pg_has_role` counts what SET ROLE could reach, not only who we are now.
FIND_ROLE_PROBLEMS = """
WITH reach AS (
    SELECT oid, rolname, rolsuper, rolbypassrls, rolcreaterole FROM pg_catalog.pg_roles
    WHERE oid = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user)
        OR pg_catalog.pg_has_role(current_user, oid, 'MEMBER')
)
SELECT 'superuser' AS kind, current_user::text AS name FROM pg_catalog.pg_roles
    WHERE rolname = current_user AND rolsuper
UNION ALL SELECT 'role that can bypass row security', rolname FROM reach
    WHERE rolbypassrls AND NOT rolsuper
UNION ALL SELECT 'role that can make roles', rolname FROM reach WHERE rolcreaterole
UNION ALL SELECT DISTINCT 'owner of our tables', r.rolname
    FROM reach r JOIN pg_catalog.pg_class c ON c.relowner = r.oid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('stoker', 'stoker_sec')
UNION ALL SELECT 'function that runs as a role past row security', n.nspname || '.' || f.proname
    FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
    JOIN pg_catalog.pg_roles o ON o.oid = f.proowner
    WHERE f.prosecdef AND (o.rolsuper OR o.rolbypassrls)
        AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        AND pg_catalog.has_function_privilege(f.oid, 'EXECUTE')
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d  -- an extension's own is its business
            WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = f.oid
                AND d.deptype = 'e')
UNION ALL SELECT 'role that can create in schema', nspname::text FROM pg_catalog.pg_namespace
    WHERE nspname NOT LIKE 'pg\\_temp\\_%' AND nspname NOT LIKE 'pg\\_toast\\_temp\\_%'
        AND pg_catalog.has_schema_privilege(oid, 'CREATE')
UNION ALL SELECT 'tenant that is set before one is named', coalesce(r.rolname, 'any role')
    FROM pg_catalog.pg_db_role_setting s LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole,
        unnest(s.setconfig) AS o
    WHERE o LIKE 'request.%' AND s.setdatabase IN (0, (
            SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
        AND (s.setrole = 0 OR r.rolname = current_user)
UNION ALL SELECT 'role that can create schemas or temporary tables in', current_database()::text
    WHERE pg_catalog.has_database_privilege(current_database(), 'CREATE')
        OR pg_catalog.has_database_privilege(current_database(), 'TEMPORARY')
ORDER BY kind, name
"""


@dataclass(frozen=True, slots=True)
class SecurityProblem:
    """One thing that would let a tenant see another's rows, or guess at them."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.name})"


def find_table_problems(connection: Connection, schema: Schema) -> list[SecurityProblem]:
    """Return where tables, and what reads or changes them, are not as declared; none is safe."""
    declared = [(table, each) for table, found in schema.policies.items() for each in found]
    values = {
        "tables": list(schema.policies),
        "shared": sorted(schema.shared_tables),
        "tenants": [table.name for table in schema.tables if "tenant_id" in table.generated],
        "guarded": [table for table, _ in declared],
        "policies": [table for table, _ in declared],
        "names": [policy.name for _, policy in declared],
        "commands": [policy.command for _, policy in declared],
        "usings": [policy.using for _, policy in declared],
        "checks": [policy.check for _, policy in declared],
        "functions": list(schema.functions),
        "bodies": list(schema.functions.values()),
        "triggers": list(schema.triggers),
        "definitions": list(schema.triggers.values()),
    }
    found = connection.execute(FIND_TABLE_PROBLEMS, values)
    return [SecurityProblem(*row) for row in found.fetchall()]


def find_role_problems(connection: Connection) -> list[SecurityProblem]:
    """Return why row security would not hold for the connected role."""
    found = [SecurityProblem(*row) for row in connection.execute(FIND_ROLE_PROBLEMS).fetchall()]
    if not is_unset_tenant_refused(connection):
        found.append(SecurityProblem("silent policy", "no error when no tenant is set"))
    return found


def is_unset_tenant_refused(connection: Connection) -> bool:
    """Say whether asking without a tenant is an error, as it must be, rather than no rows."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT pg_catalog.set_config('request.tenant_id', '', true)")
            connection.execute("SELECT stoker_sec.tenant()")
    except errors.InsufficientPrivilege as refusal:
        return "request.tenant_id" in (refusal.diag.message_primary or "")
    return False


def require_row_security(connection: Connection, schema: Schema, *, where: str) -> None:
    """Raise ConfigError, naming what is wrong, unless row security holds on this connection."""
    role = find_role_problems(connection)
    if role:
        raise ConfigError(
            f"{where}: row security would be void: {_format_problems(role)}; connect as the role "
            "that `stoker db setup` makes"
        )
    tables = find_table_problems(connection, schema)
    if tables:
        raise ConfigError(
            f"{where}: row security has holes: {_format_problems(tables)}; remove or correct "
            "these, then see `stoker db status`"
        )


def _format_problems(findings: list[SecurityProblem]) -> str:
    shown = ", ".join(str(finding) for finding in findings[:3])
    return shown if len(findings) <= 3 else f"{shown} and {len(findings) - 3} more"
