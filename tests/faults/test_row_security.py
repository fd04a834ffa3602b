"""One tenant tries to reach another's rows, by every way we know, as the app's own role.

Globex has a row for every row of Acme's. Nothing done as Acme may show, change or betray them.
Each way in that we closed is also opened once, so that a closed door is not a blind test.
"""

import asyncio
from contextlib import contextmanager

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from faults.pg_trials import (
    ACME,
    GLOBEX,
    REGISTER,
    TABLES,
    OurDoor,
    SessionDoor,
    fill,
    storm,
)
from faults.tally import Tally
from pg import PASSWORD, fresh_database, url
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.base.errors import ConfigError
from stoker.db.row_security import (
    find_role_problems,
    find_table_problems,
    is_unset_tenant_refused,
    require_row_security,
)

pytestmark = pytest.mark.faults

DENIED = psycopg.errors.InsufficientPrivilege


def run_with(app_url, work, **options):
    async def whole():
        backend = PostgresBackend(app_url, **options)
        try:
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(whole())


class Database:
    """A database with the same rows for two tenants."""

    def __init__(self, server):
        self.server = server
        self.admin_url, self.app_url = fresh_database(server)
        run_with(self.app_url, fill)

    def admin(self):
        return psycopg.connect(self.admin_url)

    @contextmanager
    def acting_as(self, tenant, login=None):
        """A transaction of the app's role that said who it is for; it is rolled back."""
        with psycopg.connect(login or self.app_url) as link:
            if tenant is not None:
                link.execute("SELECT set_config('request.tenant_id', %s, true)", [tenant])
            yield link
            link.rollback()


@pytest.fixture(scope="module")
def database(postgres):
    return Database(postgres)


# E1


def test_no_request_over_a_shared_connection_sees_a_foreign_row(database, rng, report):
    tally = run_with(
        database.app_url, lambda backend: storm(OurDoor(backend), requests=4000, rng=rng)
    )
    report("E1 requests over 4 connections, 5 % forgetting the tenant, 5 % throwing", tally)
    assert tally.n == 4000
    assert not tally.broken


async def test_a_tenant_set_on_the_connection_is_caught_leaking(database, rng):
    with ConnectionPool(database.app_url, min_size=1, max_size=4, open=True) as pool:
        tally = await storm(SessionDoor(pool), requests=400, rng=rng)
    assert any(broken.startswith("asked for nobody, saw") for broken in tally.broken)


# E2

NOBODY = {
    "never set": None,
    "empty": "",
    "garbage": "ACME Ltd.",
    "SQL": "acme' OR '1'='1",
    "two at once": "acme,globex",
    "a line break": "acme\n",
    "a pattern": "%",
    "too long": "a" * 64,
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("tenant", NOBODY.values(), ids=NOBODY)
def test_without_a_tenant_every_table_answers_with_an_error(database, table, tenant):
    with database.acting_as(tenant) as link, pytest.raises(DENIED, match=r"request\.tenant_id"):
        link.execute(f"SELECT count(*) FROM stoker.{table}")


@pytest.mark.parametrize("table", TABLES)
def test_a_tenant_sees_its_own_rows_and_no_others(database, table):
    with database.acting_as(ACME) as link:
        assert tenants_in(link, table) == {ACME}


def tenants_in(link, table):
    return {tenant for (tenant,) in link.execute(f"SELECT tenant_id FROM stoker.{table}")}


def test_a_policy_that_is_silent_without_a_tenant_is_caught(database):
    with database.admin() as admin:
        assert is_unset_tenant_refused(admin)
        admin.execute(
            "CREATE OR REPLACE FUNCTION stoker_sec.tenant() RETURNS text LANGUAGE sql STABLE SET"
            " search_path = pg_catalog AS $$"
            " SELECT nullif(current_setting('request.tenant_id', true), '') $$"
        )
        assert not is_unset_tenant_refused(admin)
        assert "silent policy" in {finding.kind for finding in find_role_problems(admin)}
        admin.rollback()


# E3

ROLES = {
    "superuser": "SUPERUSER",
    "role that can bypass row security": "BYPASSRLS",
    "role that can make roles": "CREATEROLE",
    "owner of our tables": "IN ROLE stoker_owner",
}


@pytest.mark.parametrize("kind", ROLES)
def test_a_role_that_row_security_does_not_bind_is_refused_at_once(database, kind):
    name = f"r_{kind.split()[0]}_{database.admin_url.rpartition('/t_')[2][:12]}"
    login = url(database.server, user=name, database=db_name(database), password="x")
    with database.admin() as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x' {ROLES[kind]}")
        admin.execute(f"GRANT USAGE ON SCHEMA stoker, stoker_sec TO {name}")
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA stoker TO {name}")
        admin.execute(f"GRANT EXECUTE ON FUNCTION stoker_sec.tenant() TO {name}")
    try:
        with pytest.raises(ConfigError, match=kind):
            run_with(login, lambda backend: backend.tenant(ACME).ledger.list_entries())
    finally:
        with database.admin() as admin:
            admin.execute(f"DROP OWNED BY {name}")
            admin.execute(f"DROP ROLE {name}")


def db_name(database):
    return psycopg.conninfo.conninfo_to_dict(database.admin_url)["dbname"]


@pytest.mark.parametrize("table", TABLES)
def test_only_a_superuser_sees_past_the_policy(database, table):
    with database.admin() as admin:
        assert tenants_in(admin, table) == {ACME, GLOBEX}, "there is nothing to protect"
        admin.execute("SET LOCAL ROLE stoker_owner")
        admin.execute("SELECT set_config('request.tenant_id', 'acme', true)")
        assert tenants_in(admin, table) == {ACME}, "the owner is not forced"


@pytest.mark.parametrize("role", ["stoker_owner", "postgres", "pg_read_all_data"])
def test_the_app_cannot_become_another_role(database, role):
    with database.acting_as(ACME) as link, pytest.raises(DENIED):
        link.execute(f"SET ROLE {role}")


@pytest.mark.parametrize("table", TABLES)
def test_switching_row_security_off_switches_the_answer_off(database, table):
    with database.acting_as(ACME) as link:
        link.execute("SET LOCAL row_security = off")
        with pytest.raises(DENIED):
            link.execute(f"SELECT count(*) FROM stoker.{table}")


# E4

REFUSED = {
    "a view of its own": "CREATE VIEW stoker.v AS SELECT * FROM stoker.ledger",
    "a view elsewhere": "CREATE VIEW public.v AS SELECT * FROM stoker.ledger",
    "a materialised view": "CREATE MATERIALIZED VIEW public.m AS SELECT * FROM stoker.ledger",
    "a definer function": "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql"
    " SECURITY DEFINER AS 'SELECT 1'",
    "a leaky function": "CREATE FUNCTION public.f(text) RETURNS bool LANGUAGE plpgsql COST 0.0001"
    " AS 'BEGIN RAISE NOTICE ''%'', $1; RETURN true; END'",
    "an anonymous temporary function": "CREATE FUNCTION pg_temp.current_setting(text, boolean)"
    " RETURNS text LANGUAGE sql AS 'SELECT ''globex'''",
    "a schema": "CREATE SCHEMA evil",
    "a temporary table": "CREATE TEMPORARY TABLE ledger (tenant_id text)",
    "a table": "CREATE TABLE public.t (n int)",
    "another policy": "CREATE POLICY p ON stoker.ledger USING (true)",
    "no policy": "ALTER TABLE stoker.ledger DISABLE ROW LEVEL SECURITY",
    "no force": "ALTER TABLE stoker.ledger NO FORCE ROW LEVEL SECURITY",
    "another policy function": "CREATE OR REPLACE FUNCTION stoker_sec.tenant() RETURNS text"
    " LANGUAGE sql AS 'SELECT ''globex'''",
    "a trigger": "CREATE TRIGGER t BEFORE INSERT ON stoker.ledger"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "truncation": "TRUNCATE stoker.ledger",
    "a changed ledger": "UPDATE stoker.ledger SET reason = 'x'",
    "a shortened ledger": "DELETE FROM stoker.ledger",
    "a changed slot": "UPDATE stoker.slots SET state = 'MISSED'",
    "a schema version": "UPDATE stoker.meta SET value = '99'",
    "a row for another": "INSERT INTO stoker.leases SELECT 'globex', 'mine', owner, epoch, beat,"
    " until_at, task FROM stoker.leases LIMIT 1",
    "a row given away": "UPDATE stoker.leases SET tenant_id = 'globex'",
    "a file on the server": "COPY stoker.ledger TO '/tmp/ledger.csv'",
    "a program on the server": "COPY stoker.ledger TO PROGRAM 'cat'",
    "the passwords": "SELECT rolpassword FROM pg_authid",
}


@pytest.mark.parametrize("attack", REFUSED.values(), ids=REFUSED)
def test_the_app_cannot_make_or_change_what_would_lead_past_the_policy(database, attack):
    with database.acting_as(ACME) as link, pytest.raises(DENIED):
        link.execute(attack)


def test_rows_cannot_be_copied_in_under_row_security(database):
    with (
        database.acting_as(ACME) as link,
        pytest.raises(psycopg.errors.FeatureNotSupported),
        link.cursor().copy("COPY stoker.leases FROM STDIN"),
    ):
        pass


def test_rows_copied_out_are_ones_own(database):
    with database.acting_as(ACME) as link, link.cursor() as cursor:
        with cursor.copy("COPY (SELECT tenant_id FROM stoker.ledger) TO STDOUT") as copy:
            assert {row for (row,) in copy.rows()} == {ACME}
        with cursor.copy("COPY stoker.ledger TO STDOUT") as copy:
            assert {row[0] for row in copy.rows()} == {ACME}


def test_naming_the_other_tenant_finds_and_touches_nothing(database):
    with database.acting_as(ACME) as link:
        for table in TABLES:
            where = f"stoker.{table} WHERE tenant_id = 'globex'"
            assert link.execute(f"SELECT 1 FROM {where}").fetchall() == []
        assert link.execute("DELETE FROM stoker.runs WHERE tenant_id = 'globex'").rowcount == 0
        beat = "UPDATE stoker.leases SET beat = 9 WHERE tenant_id = 'globex'"
        assert link.execute(beat).rowcount == 0


def test_a_condition_that_fails_on_foreign_rows_never_meets_them(database):
    trap = "1 / (CASE WHEN tenant_id = 'acme' THEN 1 ELSE 0 END) = 1"
    with database.acting_as(ACME) as link:
        for table in TABLES:
            link.execute(f"SELECT count(*) FROM stoker.{table} WHERE {trap}")
    with database.admin() as admin, pytest.raises(psycopg.errors.DivisionByZero):
        admin.execute(f"SELECT count(*) FROM stoker.ledger WHERE {trap}")


def test_a_foreign_key_does_not_tell_whether_another_tenant_has_a_row(database):
    with database.admin() as admin:
        run = "'2031-01-01T00:00:00Z'"
        admin.execute(
            "INSERT INTO stoker.runs SELECT tenant_id, " + run + ", kind, state, instant, epoch,"
            " ended_at, reason, config_hash, manifest FROM stoker.runs WHERE tenant_id = 'globex'"
        )
    there = refusal(database, point_at("2031-01-01"))
    not_there = refusal(database, point_at("2032-01-01"))
    assert there.sqlstate == not_there.sqlstate == "23503"
    assert there.diag.message_primary == not_there.diag.message_primary


def point_at(day):
    return (
        "INSERT INTO stoker.jobs (tenant_id, run_timestamp_utc, job_id, source, url, title,"
        f" company, location) VALUES ('acme', '{day}T00:00:00Z', 'x', '', '', '', '', '')"
    )


def refusal(database, statement):
    with database.acting_as(ACME) as link, pytest.raises(psycopg.Error) as refused:
        link.execute(statement)
    return refused.value


def test_a_key_that_another_tenant_has_is_still_free(database):
    lease = (
        "INSERT INTO stoker.leases VALUES"
        " ('{}', 'only theirs', '', 1, 1, '2030-01-01T00:00:00Z', '')"
    )
    with database.admin() as admin:
        admin.execute(lease.format("globex"))
    with database.acting_as(ACME) as link:
        assert link.execute(lease.format("acme")).rowcount == 1


def test_the_planner_keeps_what_it_knows_about_values_to_itself(database):
    known = "SELECT 1 FROM pg_stats WHERE schemaname = 'stoker' AND tablename <> 'meta'"
    with database.admin() as admin:
        admin.execute("ANALYZE")
        assert admin.execute(known).fetchall(), "there is nothing to hide"
    with database.acting_as(ACME) as link:
        assert link.execute(known).fetchall() == []


def test_another_tenants_locks_and_notifications_do_not_reach_us(database):
    with database.acting_as(GLOBEX) as theirs:
        theirs.execute("SELECT pg_advisory_xact_lock(1)")
        theirs.execute("NOTIFY stoker, 'canary'")
        theirs.execute("SELECT FROM stoker.leases FOR UPDATE")
        swapped = run_with(
            database.app_url, lambda backend: backend.tenant(ACME).schedule.find_lease("lease0")
        )
        assert swapped is not None


SHADOW = """
CREATE SCHEMA evil;
CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql
    AS 'SELECT ''globex''::text';
GRANT USAGE ON SCHEMA evil TO PUBLIC;
"""

UNPINNED = """
CREATE OR REPLACE FUNCTION stoker_sec.tenant() RETURNS text LANGUAGE plpgsql STABLE
    AS $$ BEGIN RETURN current_setting('request.tenant_id', true); END $$;
"""


@pytest.mark.parametrize("pinned", [True, False])
def test_a_shadowed_function_decides_nothing_unless_the_search_path_is_open(database, pinned):
    with database.admin() as admin:
        admin.execute(SHADOW)
        if not pinned:
            admin.execute(UNPINNED)
        admin.execute(f"SET LOCAL ROLE app_{db_name(database)}")
        admin.execute("SELECT set_config('request.tenant_id', 'acme', true)")
        admin.execute("SET LOCAL search_path = evil, pg_catalog")
        assert tenants_in(admin, "ledger") == ({ACME} if pinned else {GLOBEX})
        admin.rollback()


# E5


def remade(how):
    """Return SQL that makes our policy again, with its own rule, but for less."""
    rule = "(tenant_id = (SELECT stoker_sec.tenant()))"
    return (
        "DROP POLICY tenant_only ON stoker.runs; CREATE POLICY tenant_only ON stoker.runs"
        f" {how} USING {rule} WITH CHECK {rule}"
    )


HOLES = {
    "table without forced row security": "ALTER TABLE stoker.runs NO FORCE ROW LEVEL SECURITY",
    "table without row security": "ALTER TABLE stoker.runs DISABLE ROW LEVEL SECURITY",
    "table without a tenant_id": "CREATE TABLE stoker.x (n int)",
    "shared table with a tenant_id": "ALTER TABLE stoker.rates ADD tenant_id text",
    "policy that is not ours": "CREATE POLICY p ON stoker.runs"
    " USING (tenant_id = (SELECT stoker_sec.tenant()))",
    "policy with another rule": "CREATE POLICY p ON stoker.runs USING (true) WITH CHECK (true)",
    "policy that only restricts": "CREATE POLICY p ON stoker.runs AS RESTRICTIVE USING (false)",
    "policy for a role": "CREATE POLICY p ON stoker.runs TO CURRENT_USER USING (true)",
    "policy for one command": "CREATE POLICY p ON stoker.runs FOR SELECT USING (true)",
    "table without its policy": "DROP POLICY tenant_only ON stoker.stops",
    "our policy with another rule": "ALTER POLICY tenant_only ON stoker.runs USING (true)",
    "our policy with another check": "ALTER POLICY tenant_only ON stoker.runs WITH CHECK (true)",
    "our policy for one command": remade("FOR UPDATE"),
    "our policy made restrictive": remade("AS RESTRICTIVE"),
    "our policy for a role": "ALTER POLICY tenant_only ON stoker.runs TO CURRENT_USER",
    "view without security_invoker": "CREATE VIEW stoker.v AS SELECT * FROM stoker.runs",
    "view elsewhere without security_invoker": "CREATE VIEW public.v AS SELECT * FROM stoker.runs",
    "materialised view": "CREATE MATERIALIZED VIEW stoker.m AS SELECT * FROM stoker.runs",
    "function without a pinned search_path": "CREATE FUNCTION stoker.f() RETURNS int"
    " LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
    "policy function without a pinned search_path": UNPINNED,
    "unique index not starting with tenant_id": "CREATE UNIQUE INDEX u ON stoker.jobs"
    " (url, tenant_id)",
    "unique index on an expression": "CREATE UNIQUE INDEX u ON stoker.jobs (lower(url), tenant_id)",
    "foreign key not starting with tenant_id": "CREATE TABLE stoker.p (tenant_id text, id int,"
    " PRIMARY KEY (tenant_id, id), UNIQUE (id)); ALTER TABLE stoker.jobs ADD p int"
    " REFERENCES stoker.p (id)",
    "sequence shared by tenants": "CREATE SEQUENCE stoker.s",
    "grant of TRUNCATE": "GRANT TRUNCATE ON stoker.runs TO PUBLIC",
    "grant of REFERENCES": "GRANT REFERENCES (tenant_id) ON stoker.runs TO PUBLIC",
    "grant of TRIGGER": "GRANT TRIGGER ON stoker.runs TO PUBLIC",
    "ledger that can be changed": "GRANT UPDATE ON stoker.ledger TO PUBLIC",
}
SAME_KIND = {
    "policy with another rule": "policy that is not ours",
    "policy that only restricts": "policy that is not ours",
    "policy for a role": "policy that is not ours",
    "policy for one command": "policy that is not ours",
    "our policy with another rule": "table without its policy",
    "our policy with another check": "table without its policy",
    "our policy for a role": "table without its policy",
    "our policy for one command": "table without its policy",
    "our policy made restrictive": "table without its policy",
    "table without row security": "table without forced row security",
    "view elsewhere without security_invoker": "view without security_invoker",
    "policy function without a pinned search_path": "function without a pinned search_path",
    "unique index on an expression": "unique index not starting with tenant_id",
}


def test_the_lint_finds_nothing_in_our_own_schema(database, report):
    with psycopg.connect(database.app_url) as link:
        found = [str(finding) for finding in find_table_problems(link, SCHEMA)] + [
            str(finding) for finding in find_role_problems(link)
        ]
    report("E5 catalog lint, kinds of hole looked for", Tally(n=len(HOLES), broken=found))
    assert found == []


@pytest.mark.parametrize("hole", HOLES)
def test_the_lint_finds_each_kind_of_hole(database, hole):
    with database.admin() as admin:
        admin.execute(HOLES[hole])
        assert SAME_KIND.get(hole, hole) in {
            finding.kind for finding in find_table_problems(admin, SCHEMA)
        }
        admin.rollback()


REMADE = {  # our own policy, with its own rule, but for less or for others
    "for one command": "FOR UPDATE",
    "restrictive": "AS RESTRICTIVE FOR {every}",
    "for one role": "FOR {every} TO CURRENT_USER",
}
ELSEWHERE = {  # what is no policy, and makes one void or hides what it would show
    "a rule that loses stops": "CREATE RULE r AS ON INSERT TO stoker.stops DO INSTEAD NOTHING",
    "a trigger that loses stops": "CREATE TRIGGER t BEFORE INSERT ON stoker.stops FOR EACH ROW"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "stops that are not counted": "DROP TRIGGER stops_are_counted ON stoker.stops",
    "caps that are not counted": "ALTER TABLE stoker.shared_cap_changes DISABLE TRIGGER ALL",
    "stops that another function counts": "CREATE OR REPLACE TRIGGER stops_are_counted"
    " AFTER INSERT OR DELETE ON stoker.stops FOR EACH ROW EXECUTE FUNCTION stoker.start_counts()",
    "stops that a function elsewhere counts": "CREATE FUNCTION public.count_limits()"
    " RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
    " CREATE OR REPLACE TRIGGER stops_are_counted AFTER INSERT OR DELETE ON stoker.stops"
    " FOR EACH ROW EXECUTE FUNCTION public.count_limits()",
    "stops that are only counted off": "CREATE OR REPLACE TRIGGER stops_are_counted"
    " AFTER DELETE ON stoker.stops FOR EACH ROW EXECUTE FUNCTION stoker.count_limits()",
    "stops that are counted at times": "CREATE OR REPLACE TRIGGER shared_stops_are_counted"
    " AFTER INSERT ON stoker.shared_stops FOR EACH ROW WHEN (NEW.connector = '')"
    " EXECUTE FUNCTION stoker.count_shared_limits()",
    "a function that looks elsewhere first": "ALTER FUNCTION stoker_sec.tenant()"
    " SET search_path = public, pg_catalog",
    "a function with another setting": "ALTER FUNCTION stoker.write_moves"
    " SET session_replication_role = 'replica'",
    "counts that are made up": "CREATE OR REPLACE FUNCTION stoker.count_limits() RETURNS trigger"
    " LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN RETURN NULL; END'",
    "a table renamed": "ALTER TABLE stoker.stops RENAME TO stopped",
    "a view in its place": "ALTER TABLE stoker.stops SET SCHEMA public;"
    " CREATE VIEW stoker.stops WITH (security_invoker = true) AS"
    " SELECT * FROM public.stops WHERE false",
    "a function that writes as its owner": "ALTER FUNCTION stoker.write_moves SECURITY DEFINER",
    "a function that forgets stops": "CREATE OR REPLACE FUNCTION stoker.write_moves(asked json)"
    " RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN END'",
    "another tenant than was named": "CREATE OR REPLACE FUNCTION stoker_sec.tenant() RETURNS text"
    " LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$ BEGIN IF"
    " coalesce(current_setting('request.tenant_id', true), '') = '' THEN"
    " RAISE EXCEPTION 'request.tenant_id' USING ERRCODE = 'insufficient_privilege'; END IF;"
    " RETURN 'globex'; END $$",
    "a function dropped": "DROP FUNCTION stoker.write_moves",
    "a tenant before one is named": "ALTER ROLE {app} SET request.tenant_id = 'globex'",
    "a tenant for the database": "ALTER DATABASE {db} SET request.tenant_id = 'globex'",
    "a table of the app's own": "ALTER TABLE stoker.stops OWNER TO {app}",
}


def list_sabotages(admin):
    """Return statements that each spoil the catalog in another way, by what they do."""
    found = {name: words for words_of in (HOLES, ELSEWHERE) for name, words in words_of.items()}
    rows = admin.execute(
        "SELECT c.relname, p.polname, p.polcmd::text, pg_get_expr(p.polqual, c.oid),"
        " coalesce(pg_get_expr(p.polwithcheck, c.oid), '') FROM pg_class c"
        " JOIN pg_policy p ON p.polrelid = c.oid ORDER BY 1, 2"
    ).fetchall()
    for nth, (table, policy, command, using, check) in enumerate(rows):
        on = f"{policy} ON stoker.{table}"
        rule = f"USING ({using})" + (f" WITH CHECK ({check})" if check else "")
        kind = list(REMADE)[nth % len(REMADE)]
        every = "ALL" if command == "*" else "SELECT"
        found |= {
            f"{table}: {policy} dropped": f"DROP POLICY {on}",
            f"{table}: {policy} twice": f"CREATE POLICY again ON stoker.{table} FOR {every} {rule}",
            f"{table}: {policy} renamed": f"ALTER POLICY {on} RENAME TO another",
            f"{table}: {policy} widened": f"ALTER POLICY {on} USING ({using} OR tableoid = 0)",
            f"{table}: {policy} {kind}": f"DROP POLICY {on}; CREATE POLICY {on}"
            f" {REMADE[kind].format(every=every)} {rule}",
        }
    for table in {table for table, *_ in rows}:
        found[f"{table}: not forced"] = f"ALTER TABLE stoker.{table} NO FORCE ROW LEVEL SECURITY"
        found[f"{table}: switched off"] = f"ALTER TABLE stoker.{table} DISABLE ROW LEVEL SECURITY"
    for table in SCHEMA.shared_tables - {table for table, *_ in rows}:
        found[f"{table}: hidden"] = f"ALTER TABLE stoker.{table} ENABLE ROW LEVEL SECURITY"
    return found


def test_a_sabotaged_catalog_is_refused_before_the_first_transaction(database, report):
    app = psycopg.conninfo.conninfo_to_dict(database.app_url)["user"]
    missed = []
    with database.admin() as admin:
        sabotages = list_sabotages(admin)
        for name, words in sabotages.items():
            with admin.transaction(force_rollback=True):
                admin.execute(words.replace("{app}", app).replace("{db}", db_name(database)))
                admin.execute(f'SET LOCAL ROLE "{app}"')
                try:
                    require_row_security(admin, SCHEMA, where="here")
                except ConfigError:
                    continue
                missed.append(name)
        admin.rollback()
    refused = len(sabotages) - len(missed)
    report("E5 sabotaged catalogs", Tally(len(sabotages), acked=refused, broken=missed))
    assert len(set(sabotages.values())) >= 400
    assert missed == []


def test_a_view_that_asks_as_its_reader_is_no_hole(database):
    with database.admin() as admin:
        admin.execute(
            "CREATE VIEW stoker.v WITH (security_invoker = true) AS SELECT * FROM stoker.runs"
        )
        assert find_table_problems(admin, SCHEMA) == []
        admin.rollback()


@pytest.mark.parametrize(
    "reader",
    [
        "CREATE VIEW stoker.v AS SELECT * FROM stoker.ledger",
        "CREATE MATERIALIZED VIEW stoker.v AS SELECT * FROM stoker.ledger",
    ],
)
def test_the_readers_that_the_lint_refuses_do_show_foreign_rows(database, reader):
    with database.admin() as admin:
        admin.execute(reader)
        admin.execute(f"GRANT SELECT ON stoker.v TO app_{db_name(database)}")
        admin.execute(f"SET LOCAL ROLE app_{db_name(database)}")
        admin.execute("SELECT set_config('request.tenant_id', 'acme', true)")
        assert tenants_in(admin, "v") == {ACME, GLOBEX}
        admin.rollback()


def test_a_database_with_a_hole_in_it_is_refused_at_the_first_verb(postgres):
    admin_url, app_url = fresh_database(postgres)
    with psycopg.connect(admin_url) as admin:
        admin.execute("ALTER TABLE stoker.ledger NO FORCE ROW LEVEL SECURITY")
    with pytest.raises(ConfigError, match=r"without forced row security \(ledger\)"):
        run_with(app_url, lambda backend: backend.tenant(ACME).ledger.list_entries())


@pytest.mark.parametrize(
    ("gift", "kind"),
    [
        ("GRANT CREATE ON SCHEMA public TO {app}", "can create in schema"),
        ("GRANT TEMPORARY ON DATABASE {db} TO {app}", "temporary tables"),
    ],
)
def test_an_app_role_that_can_create_anything_is_refused(postgres, gift, kind):
    admin_url, app_url = fresh_database(postgres)
    with psycopg.connect(admin_url) as admin:
        name = admin.info.dbname
        admin.execute(gift.format(app=f"app_{name}", db=name))
    with pytest.raises(ConfigError, match=kind):
        run_with(app_url, lambda backend: backend.tenant(ACME).ledger.list_entries())


def test_the_password_is_in_no_refusal(database):
    wrong = database.app_url.replace(PASSWORD[:6], "wrong!")
    with pytest.raises(ConfigError) as refused:
        run_with(wrong, lambda backend: backend.tenant(ACME).ledger.list_entries())
    told = f"{refused.value!r} {refused.value.__cause__!r}"
    assert "password authentication failed" in told
    assert "wrong!" not in told


def test_a_function_elsewhere_that_runs_as_a_superuser_is_a_hole(database):
    """A way past row security in another schema, which the tables themselves cannot show."""
    with database.admin() as admin:
        admin.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
        admin.execute(
            "CREATE FUNCTION public.everything() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
            " AS 'SELECT count(*) FROM stoker.runs'"
        )
        role = psycopg.conninfo.conninfo_to_dict(database.app_url)["user"]
        admin.execute(f'SET LOCAL ROLE "{role}"')
        kinds = {finding.kind for finding in find_role_problems(admin)}
        admin.rollback()

    assert "function that runs as a role past row security" in kinds


# E6: what tenants share

SHARED_ROWS = """
INSERT INTO stoker.tenants VALUES ('acme', 'Acme', true), ('globex', 'Globex', true);
INSERT INTO stoker.rates VALUES ('host/their-site.test', now());
INSERT INTO stoker.places VALUES ('connector/lusha', 'their-machine/1', now());
INSERT INTO stoker.shared_stops VALUES ('lusha', now(), 'the bill');
INSERT INTO stoker.shared_cap_changes VALUES ('connector/lusha/calls/day', 5, NULL, NULL);
"""
OPERATORS_TENANT = "0-operators"
SEEN = {  # how many rows of each table a tenant, the operators and the process itself see
    "tenants": (1, 0, 2),
    "rates": (0, 0, 1),
    "places": (0, 1, 1),
    "shared_stops": (1, 1, 1),
    "shared_cap_changes": (1, 1, 1),
    "shared_limit_counts": (1, 1, 1),
}
WRITES = {  # a statement, and which of the three it may change a row for
    "INSERT INTO stoker.tenants VALUES ('evil', '', true)": (0, 0, 1),
    "UPDATE stoker.tenants SET active = false WHERE id = 'acme'": (0, 0, 1),
    "UPDATE stoker.tenants SET name = '' WHERE id = 'globex'": (0, 0, 1),
    "INSERT INTO stoker.rates VALUES ('k', now())": (0, 0, 1),
    "DELETE FROM stoker.rates": (0, 0, 1),
    "INSERT INTO stoker.places VALUES ('n', 'o', now())": (0, 1, 1),
    "DELETE FROM stoker.places": (0, 1, 1),
    "INSERT INTO stoker.shared_stops VALUES ('tavily', now(), '')": (0, 1, 0),
    "DELETE FROM stoker.shared_stops": (0, 1, 0),
    "INSERT INTO stoker.shared_cap_changes VALUES ('c', 9, NULL, NULL)": (0, 1, 0),
    "UPDATE stoker.shared_cap_changes SET new_limit = 9": (0, 1, 0),
    "UPDATE stoker.shared_limit_counts SET stops = 0": (0, 1, 0),
}
FOR_WHOM = (ACME, OPERATORS_TENANT, None)


@pytest.fixture(scope="module")
def with_shared_rows(database):
    with database.admin() as admin:
        admin.execute(SHARED_ROWS)
    return database


@pytest.mark.parametrize("table", SEEN)
def test_of_what_tenants_share_a_transaction_sees_what_it_needs(with_shared_rows, table):
    seen = []
    for whom in FOR_WHOM:
        with with_shared_rows.acting_as(whom) as link:
            seen += link.execute(f"SELECT count(*) FROM stoker.{table}").fetchone()
    assert tuple(seen) == SEEN[table]


@pytest.mark.parametrize("statement", WRITES)
def test_what_tenants_share_is_written_by_those_it_belongs_to(with_shared_rows, statement):
    changed = []
    for whom in FOR_WHOM:
        with with_shared_rows.acting_as(whom) as link:
            try:
                changed.append(link.execute(statement).rowcount)
            except DENIED:
                changed.append(0)
    assert tuple(changed) == WRITES[statement]


def test_what_names_no_customer_host_or_stop_is_open_to_all(with_shared_rows):
    """The register, totals of shared caps and the schema's version; nothing else."""
    open_to_all = {table for table in SCHEMA.shared_tables if not SCHEMA.policies[table]}
    assert open_to_all == {*REGISTER, "shared_budgets", "meta"}
