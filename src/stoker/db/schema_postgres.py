"""The tables in Postgres, as numbered steps; SQLite takes the same steps under the same numbers.

Every step is run as the owner role, and fences off each table it makes: row security enabled and
forced, one policy, keys that begin with the tenant. `row_security.py` holds these tables to it.
"""

from __future__ import annotations

from typing import Final, LiteralString

from stoker.db import (
    schema_attention,
    schema_knowledge,
    schema_listings,
    schema_nights,
    schema_touches,
)
from stoker.db.database import CONFLICT_SQLSTATE
from stoker.db.migrations import Migration

# It runs as whoever calls it, so row security binds it. Entries are numbered and chained as
# `core.ledger` says.
CREATE_WRITE_MOVES = f"""
CREATE FUNCTION stoker.write_moves(asked json) RETURNS void LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog AS $body$
DECLARE
    me  text := stoker_sec.tenant();
    one record;
BEGIN
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'holds') AS (
        key text, connector text, fingerprint text, phase text, owner text, until_at timestamptz,
        reserved_at timestamptz, closed_at timestamptz, run text, account text, reason text,
        amounts json, charges json, actual json, seen_phase text, seen_until_at timestamptz)
    LOOP
        IF one.seen_phase IS NULL THEN
            INSERT INTO stoker.holds VALUES (me, one.key, one.connector, one.fingerprint,
                one.phase, one.owner, one.until_at, one.reserved_at, one.closed_at, one.run,
                one.account, one.reason, one.amounts, one.charges, one.actual)
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE stoker.holds h SET phase = one.phase, closed_at = one.closed_at,
                reason = one.reason, actual = one.actual
            WHERE h.tenant_id = me AND h.key = one.key AND h.phase = one.seen_phase
                AND h.until_at = one.seen_until_at;
        END IF;
        IF NOT FOUND THEN RAISE EXCEPTION 'another promise' USING ERRCODE = '{CONFLICT_SQLSTATE}';
        END IF;
    END LOOP;
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'totals') AS (
        shared boolean, cap text, window_name text, settled bigint, reserved bigint,
        within bigint)
    LOOP
        FOR attempt IN 1..2 LOOP
            IF one.shared THEN
                UPDATE stoker.shared_budgets b
                SET settled = b.settled + one.settled, reserved = b.reserved + one.reserved
                WHERE b.cap = one.cap AND b.window_name = one.window_name
                    AND (one.within IS NULL
                        OR b.settled + b.reserved + one.reserved <= one.within);
            ELSE
                UPDATE stoker.budgets b
                SET settled = b.settled + one.settled, reserved = b.reserved + one.reserved
                WHERE b.tenant_id = me AND b.cap = one.cap AND b.window_name = one.window_name
                    AND (one.within IS NULL
                        OR b.settled + b.reserved + one.reserved <= one.within);
            END IF;
            EXIT WHEN FOUND;
            IF attempt = 2 THEN RAISE EXCEPTION 'no room' USING ERRCODE = '{CONFLICT_SQLSTATE}';
            END IF;
            IF one.shared THEN
                INSERT INTO stoker.shared_budgets VALUES (one.cap, one.window_name, 0, 0)
                ON CONFLICT DO NOTHING;
            ELSE
                INSERT INTO stoker.budgets VALUES (me, one.cap, one.window_name, 0, 0)
                ON CONFLICT DO NOTHING;
            END IF;
        END LOOP;
    END LOOP;
    -- The totals may have been waited for; a stop that came meanwhile still counts.
    IF EXISTS (
        SELECT FROM json_to_recordset(asked -> 'holds') AS h (connector text, seen_phase text)
        WHERE h.seen_phase IS NULL AND (
            EXISTS (SELECT FROM stoker.stops s
                WHERE s.tenant_id = me AND s.connector IN ('', h.connector))
            OR EXISTS (SELECT FROM stoker.shared_stops s WHERE s.connector IN ('', h.connector)))
    ) THEN RAISE EXCEPTION 'stopped' USING ERRCODE = '{CONFLICT_SQLSTATE}'; END IF;
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'notes') AS (
        at timestamptz, kind text, subject text, reason text, data json, unnumbered text)
    LOOP
        LOOP
            INSERT INTO stoker.ledger
            SELECT me, last.seq + 1, one.at, one.kind, one.subject, one.reason, one.data,
                last.digest, encode(sha256(convert_to(
                    last.digest || '[' || (last.seq + 1) || ',' || one.unnumbered, 'UTF8')), 'hex')
            FROM (
                (SELECT l.seq, l.digest FROM stoker.ledger l WHERE l.tenant_id = me
                    ORDER BY l.seq DESC LIMIT 1)
                UNION ALL SELECT 0, repeat('0', 64) ORDER BY seq DESC LIMIT 1
            ) AS last
            ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
        END LOOP;
    END LOOP;
END
$body$;
"""

OWNER = "stoker_owner"

SCHEMA = "stoker"

# What the app may do with each table and view. The ledger grows, and nothing else.
GRANTS: Final[dict[str, LiteralString]] = {
    "meta": "SELECT",
    "runs": "SELECT, INSERT, UPDATE, DELETE",
    "jobs": "SELECT, INSERT, DELETE",
    "enriched": "SELECT, INSERT, DELETE",
    "scores": "SELECT, INSERT, DELETE",
    "cancel_requests": "SELECT, INSERT, DELETE",
    "leases": "SELECT, INSERT, UPDATE",
    "slots": "SELECT, INSERT",
    "ledger": "SELECT, INSERT",
    "holds": "SELECT, INSERT, UPDATE",
    "budgets": "SELECT, INSERT, UPDATE",
    "cap_changes": "SELECT, INSERT, UPDATE",
    "stops": "SELECT, INSERT, DELETE",
    "shared_budgets": "SELECT, INSERT, UPDATE",
    "shared_cap_changes": "SELECT, INSERT, UPDATE",
    "shared_stops": "SELECT, INSERT, DELETE",
    "rates": "SELECT, INSERT, UPDATE",
    "places": "SELECT, INSERT, UPDATE, DELETE",
    "registry_loads": "SELECT, INSERT, UPDATE",
    "registry_rejects": "SELECT, INSERT, UPDATE, DELETE",
    "registry_seen": "SELECT, INSERT, UPDATE",
    "staging_acra_companies": "SELECT, INSERT, UPDATE",
    "staging_raw_acra": "SELECT, INSERT, UPDATE",
    "ssic_ref": "SELECT, INSERT, DELETE",
    "site_pages": "SELECT, INSERT, UPDATE, DELETE",
    "vendor_answers": "SELECT, INSERT, UPDATE, DELETE",
    "tenants": "SELECT, INSERT, UPDATE",
    "tenant_users": "SELECT, INSERT, UPDATE",
    "onboarding_status": "SELECT, INSERT",
    "odoo_connections": "SELECT, INSERT, UPDATE",
    "icp_rules": "SELECT, INSERT, UPDATE",
    "account_marks": "SELECT, INSERT, UPDATE",
    "companies": "SELECT, INSERT, UPDATE",
    "icp_candidate_companies": "SELECT, INSERT, DELETE",
    "company_findings": "SELECT, INSERT, UPDATE",
    "contacts": "SELECT, INSERT, DELETE",
    "lead_emails": "SELECT, INSERT, DELETE",
    "lead_features": "SELECT, INSERT, UPDATE",
    "lead_scores": "SELECT, INSERT, UPDATE",
    "company_enrichment_runs": "SELECT, INSERT, UPDATE",
    "crm_sent_rows": "SELECT, INSERT, UPDATE",
    "enrichment_runs": "SELECT",
    "email_verification_cache": "SELECT",
    "touch_profiles": "SELECT, INSERT, UPDATE",
    "touch_plans": "SELECT, INSERT, UPDATE",
    "touches": "SELECT, INSERT, DELETE",
    "touch_outcomes": "SELECT, INSERT, UPDATE",
    "touch_handovers": "SELECT, INSERT",
    "touch_counters": "SELECT, INSERT, UPDATE",
    "posting_sources": "SELECT, INSERT, UPDATE",
    "posting_listings": "SELECT, INSERT, UPDATE, DELETE",
    "account_signals": "SELECT, INSERT, DELETE",
    "account_heats": "SELECT, INSERT, UPDATE",
    "account_beliefs": "SELECT, INSERT, UPDATE",
    "looks_learned": "SELECT, INSERT, DELETE",
    "pull_plans": "SELECT, INSERT, DELETE",
    "pull_plan_parts": "SELECT, INSERT, DELETE",
}

# Loud when nobody said which tenant: a silent "no rows" would read as "nothing spent yet".
# The search path is pinned, or a function called current_setting in somebody's own schema would
# decide who the tenant is. No EXCEPTION block: those cannot run in a parallel query.
_TENANT = """
CREATE FUNCTION stoker_sec.tenant() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog AS $body$
DECLARE
    tenant text := current_setting('request.tenant_id', true);
BEGIN
    IF tenant IS NULL OR tenant = '' THEN
        RAISE EXCEPTION 'request.tenant_id is not set' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF tenant !~ '^[a-z0-9][a-z0-9_-]{0,62}$' OR tenant ~ '[^a-z0-9_-]' THEN
        RAISE EXCEPTION 'request.tenant_id is not a tenant id'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN tenant;
END
$body$;
REVOKE ALL ON FUNCTION stoker_sec.tenant() FROM PUBLIC;
"""


def _build_row_security(*tables: str) -> str:
    return "".join(
        f"""
ALTER TABLE {SCHEMA}.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {SCHEMA}.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON {SCHEMA}.{table}
    USING (tenant_id = (SELECT stoker_sec.tenant()))
    WITH CHECK (tenant_id = (SELECT stoker_sec.tenant()));
"""
        for table in tables
    )


# Texts that are keys are collated "C": their order is then the order of code points, as in Python
# and in SQLite, whatever the server's locale.
_RUN_STORE = """
CREATE TABLE stoker.meta (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE stoker.runs (
    tenant_id         text COLLATE "C" NOT NULL,
    run_timestamp_utc timestamptz NOT NULL,
    kind              text NOT NULL,
    state             text NOT NULL,
    instant           timestamptz,
    epoch             bigint NOT NULL,
    ended_at          timestamptz,
    reason            text NOT NULL,
    config_hash       text NOT NULL,
    manifest          json NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc)
);
CREATE TABLE stoker.jobs (
    tenant_id         text COLLATE "C" NOT NULL,
    run_timestamp_utc timestamptz NOT NULL,
    job_id            text COLLATE "C" NOT NULL,
    source            text NOT NULL,
    url               text NOT NULL,
    title             text NOT NULL,
    company           text NOT NULL,
    location          text NOT NULL,
    posted_at         timestamptz,
    PRIMARY KEY (tenant_id, run_timestamp_utc, job_id),
    FOREIGN KEY (tenant_id, run_timestamp_utc) REFERENCES stoker.runs ON DELETE CASCADE
);
CREATE TABLE stoker.enriched (
    tenant_id         text COLLATE "C" NOT NULL,
    run_timestamp_utc timestamptz NOT NULL,
    job_id            text COLLATE "C" NOT NULL,
    title             text NOT NULL,
    seniority         text NOT NULL,
    stack             json NOT NULL,
    remote            boolean NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc, job_id),
    FOREIGN KEY (tenant_id, run_timestamp_utc, job_id) REFERENCES stoker.jobs ON DELETE CASCADE
);
CREATE TABLE stoker.scores (
    tenant_id         text COLLATE "C" NOT NULL,
    run_timestamp_utc timestamptz NOT NULL,
    job_id            text COLLATE "C" NOT NULL,
    score             double precision NOT NULL,
    bucket            text NOT NULL,
    components        json NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc, job_id),
    FOREIGN KEY (tenant_id, run_timestamp_utc, job_id) REFERENCES stoker.jobs ON DELETE CASCADE
);
"""

_SCHEDULE = """
CREATE TABLE stoker.leases (
    tenant_id text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    owner     text NOT NULL,
    epoch     bigint NOT NULL,
    beat      bigint NOT NULL,
    until_at  timestamptz NOT NULL,
    task      text NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
CREATE TABLE stoker.slots (
    tenant_id  text COLLATE "C" NOT NULL,
    schedule   text COLLATE "C" NOT NULL,
    instant    timestamptz NOT NULL,
    state      text NOT NULL,
    decided_at timestamptz NOT NULL,
    reason     text NOT NULL,
    run_at     timestamptz,
    PRIMARY KEY (tenant_id, schedule, instant)
);
"""

_LEDGER = """
CREATE TABLE stoker.ledger (
    tenant_id text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    at        timestamptz NOT NULL,
    kind      text NOT NULL,
    subject   text NOT NULL,
    reason    text NOT NULL,
    data      json NOT NULL,
    previous  text NOT NULL,
    digest    text NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
"""

# Totals are a cache of what the ledger says, written in the same transaction; the checks are the
# last line behind it. An open promise is one without closed_at, and there are never many.
_MONEY = """
CREATE TABLE stoker.holds (
    tenant_id   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    connector   text NOT NULL,
    fingerprint text NOT NULL,
    phase       text NOT NULL,
    owner       text NOT NULL,
    until_at    timestamptz NOT NULL,
    reserved_at timestamptz NOT NULL,
    closed_at   timestamptz,
    run         text,
    account     text,
    reason      text NOT NULL,
    amounts     json NOT NULL,
    charges     json NOT NULL,
    actual      json NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX open_holds ON stoker.holds (tenant_id, until_at) WHERE closed_at IS NULL;
CREATE TABLE stoker.budgets (
    tenant_id   text COLLATE "C" NOT NULL,
    cap         text COLLATE "C" NOT NULL,
    window_name text COLLATE "C" NOT NULL,
    settled     bigint NOT NULL CHECK (settled >= 0),
    reserved    bigint NOT NULL CHECK (reserved >= 0),
    PRIMARY KEY (tenant_id, cap, window_name)
) WITH (fillfactor = 50);
CREATE TABLE stoker.cap_changes (
    tenant_id    text COLLATE "C" NOT NULL,
    cap          text COLLATE "C" NOT NULL,
    new_limit    bigint,
    raised_to    bigint,
    raised_until timestamptz,
    PRIMARY KEY (tenant_id, cap)
);
CREATE TABLE stoker.stops (
    tenant_id text COLLATE "C" NOT NULL,
    connector text COLLATE "C" NOT NULL,
    since_at  timestamptz NOT NULL,
    reason    text NOT NULL,
    PRIMARY KEY (tenant_id, connector)
);
"""

# What tenants share tells nothing of any one of them: no column names one.
_SHARED = """
CREATE TABLE stoker.shared_budgets (
    cap         text COLLATE "C" NOT NULL,
    window_name text COLLATE "C" NOT NULL,
    settled     bigint NOT NULL CHECK (settled >= 0),
    reserved    bigint NOT NULL CHECK (reserved >= 0),
    PRIMARY KEY (cap, window_name)
) WITH (fillfactor = 50);
CREATE TABLE stoker.shared_cap_changes (
    cap          text COLLATE "C" PRIMARY KEY,
    new_limit    bigint,
    raised_to    bigint,
    raised_until timestamptz
);
CREATE TABLE stoker.shared_stops (
    connector text COLLATE "C" PRIMARY KEY,
    since_at  timestamptz NOT NULL,
    reason    text NOT NULL
);
CREATE TABLE stoker.rates (
    key     text COLLATE "C" PRIMARY KEY,
    next_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE stoker.places (
    name     text COLLATE "C" NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    until_at timestamptz NOT NULL,
    PRIMARY KEY (name, owner)
);
"""

_CANCELLING = """
CREATE TABLE stoker.cancel_requests (
    tenant_id         text COLLATE "C" NOT NULL,
    run_timestamp_utc timestamptz NOT NULL,
    asked_by          text NOT NULL,
    asked_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc),
    FOREIGN KEY (tenant_id, run_timestamp_utc) REFERENCES stoker.runs ON DELETE CASCADE
);
"""

MIGRATIONS = (
    Migration(
        number=1,
        name="run store",
        script=_TENANT + _RUN_STORE + _build_row_security("runs", "jobs", "enriched", "scores"),
    ),
    Migration(
        number=2, name="leases and slots", script=_SCHEDULE + _build_row_security("leases", "slots")
    ),
    Migration(number=3, name="ledger", script=_LEDGER + _build_row_security("ledger")),
    Migration(
        number=4,
        name="money",
        script=_MONEY
        + _SHARED
        + CREATE_WRITE_MOVES
        + _build_row_security("holds", "budgets", "cap_changes", "stops"),
    ),
    Migration(
        number=5,
        name="registry, pages and answers",
        script=schema_knowledge.POSTGRES + _build_row_security("site_pages", "vendor_answers"),
    ),
    Migration(
        number=6,
        name="tenants, companies and nights",
        script=schema_nights.POSTGRES + _build_row_security(*schema_nights.OWNED),
    ),
    Migration(
        number=7,
        name="touches",
        script=schema_touches.POSTGRES + _build_row_security(*schema_touches.OWNED),
    ),
    Migration(
        number=8,
        name="heat and pulls",
        script=schema_attention.POSTGRES + _build_row_security(*schema_attention.PULL_TABLES),
    ),
    Migration(
        number=9,
        name="sources of postings",
        script=schema_listings.POSTGRES + _build_row_security(*schema_listings.OWNED),
    ),
    Migration(
        number=10,
        name="runs asked to stop",
        script=_CANCELLING + _build_row_security("cancel_requests"),
    ),
)
