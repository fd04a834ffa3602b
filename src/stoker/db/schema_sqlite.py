"""The tables in SQLite, as numbered steps; Postgres takes the same steps under the same numbers.

Moments are text of one width (`2026-02-07T01:30:00.000000+00:00`), so text order is time order;
JSON is compact text. Tables are STRICT: a value of the wrong kind is refused, not bent.
"""

from __future__ import annotations

from stoker.db import (
    schema_attention,
    schema_knowledge,
    schema_listings,
    schema_nights,
    schema_touches,
)
from stoker.db.migrations import Migration

# Rows are always asked for by their whole key or a run of it, so the key is the table: no second
# tree to write, and a page of a run is one walk along it.
_RUN_STORE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
    tenant_id         TEXT NOT NULL,
    run_timestamp_utc TEXT NOT NULL,
    kind              TEXT NOT NULL,
    state             TEXT NOT NULL,
    instant           TEXT,
    epoch             INTEGER NOT NULL,
    ended_at          TEXT,
    reason            TEXT NOT NULL,
    config_hash       TEXT NOT NULL,
    manifest          TEXT NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc)
) STRICT, WITHOUT ROWID;
CREATE TABLE jobs (
    tenant_id         TEXT NOT NULL,
    run_timestamp_utc TEXT NOT NULL,
    job_id            TEXT NOT NULL,
    source            TEXT NOT NULL,
    url               TEXT NOT NULL,
    title             TEXT NOT NULL,
    company           TEXT NOT NULL,
    location          TEXT NOT NULL,
    posted_at         TEXT,
    PRIMARY KEY (tenant_id, run_timestamp_utc, job_id),
    FOREIGN KEY (tenant_id, run_timestamp_utc) REFERENCES runs
) STRICT, WITHOUT ROWID;
CREATE TABLE enriched (
    tenant_id         TEXT NOT NULL,
    run_timestamp_utc TEXT NOT NULL,
    job_id            TEXT NOT NULL,
    title             TEXT NOT NULL,
    seniority         TEXT NOT NULL,
    stack             TEXT NOT NULL,
    remote            INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc, job_id),
    FOREIGN KEY (tenant_id, run_timestamp_utc, job_id) REFERENCES jobs
) STRICT, WITHOUT ROWID;
CREATE TABLE scores (
    tenant_id         TEXT NOT NULL,
    run_timestamp_utc TEXT NOT NULL,
    job_id            TEXT NOT NULL,
    score             REAL NOT NULL,
    bucket            TEXT NOT NULL,
    components        TEXT NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc, job_id),
    FOREIGN KEY (tenant_id, run_timestamp_utc, job_id) REFERENCES jobs
) STRICT, WITHOUT ROWID;
"""

_SCHEDULE = """
CREATE TABLE leases (
    tenant_id TEXT NOT NULL,
    name      TEXT NOT NULL,
    owner     TEXT NOT NULL,
    epoch     INTEGER NOT NULL,
    beat      INTEGER NOT NULL,
    until_at  TEXT NOT NULL,
    task      TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE slots (
    tenant_id  TEXT NOT NULL,
    schedule   TEXT NOT NULL,
    instant    TEXT NOT NULL,
    state      TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    reason     TEXT NOT NULL,
    run_at     TEXT,
    PRIMARY KEY (tenant_id, schedule, instant)
) STRICT, WITHOUT ROWID;
"""

_LEDGER = """
CREATE TABLE ledger (
    tenant_id TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    at        TEXT NOT NULL,
    kind      TEXT NOT NULL,
    subject   TEXT NOT NULL,
    reason    TEXT NOT NULL,
    data      TEXT NOT NULL,
    previous  TEXT NOT NULL,
    digest    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_is_not_deleted BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""

# Totals are a cache of what the ledger says, written in the same transaction; the checks are the
# last line behind it. An open promise is one without closed_at, and there are never many.
_MONEY = """
CREATE TABLE holds (
    tenant_id   TEXT NOT NULL,
    key         TEXT NOT NULL,
    connector   TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    phase       TEXT NOT NULL,
    owner       TEXT NOT NULL,
    until_at    TEXT NOT NULL,
    reserved_at TEXT NOT NULL,
    closed_at   TEXT,
    run         TEXT,
    account     TEXT,
    reason      TEXT NOT NULL,
    amounts     TEXT NOT NULL,
    charges     TEXT NOT NULL,
    actual      TEXT NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_holds ON holds (tenant_id, until_at) WHERE closed_at IS NULL;
CREATE TABLE budgets (
    tenant_id   TEXT NOT NULL,
    cap         TEXT NOT NULL,
    window_name TEXT NOT NULL,
    settled     INTEGER NOT NULL CHECK (settled >= 0),
    reserved    INTEGER NOT NULL CHECK (reserved >= 0),
    PRIMARY KEY (tenant_id, cap, window_name)
) STRICT, WITHOUT ROWID;
CREATE TABLE cap_changes (
    tenant_id    TEXT NOT NULL,
    cap          TEXT NOT NULL,
    new_limit    INTEGER,
    raised_to    INTEGER,
    raised_until TEXT,
    PRIMARY KEY (tenant_id, cap)
) STRICT, WITHOUT ROWID;
CREATE TABLE stops (
    tenant_id TEXT NOT NULL,
    connector TEXT NOT NULL,
    since_at  TEXT NOT NULL,
    reason    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, connector)
) STRICT, WITHOUT ROWID;
CREATE TABLE shared_budgets (
    cap         TEXT NOT NULL,
    window_name TEXT NOT NULL,
    settled     INTEGER NOT NULL CHECK (settled >= 0),
    reserved    INTEGER NOT NULL CHECK (reserved >= 0),
    PRIMARY KEY (cap, window_name)
) STRICT, WITHOUT ROWID;
CREATE TABLE shared_cap_changes (
    cap          TEXT PRIMARY KEY,
    new_limit    INTEGER,
    raised_to    INTEGER,
    raised_until TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE shared_stops (
    connector TEXT PRIMARY KEY,
    since_at  TEXT NOT NULL,
    reason    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE rates (key TEXT PRIMARY KEY, next_at TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE places (
    name     TEXT NOT NULL,
    owner    TEXT NOT NULL,
    until_at TEXT NOT NULL,
    PRIMARY KEY (name, owner)
) STRICT, WITHOUT ROWID;
"""

_CANCEL_REQUESTS = """
CREATE TABLE cancel_requests (
    tenant_id         TEXT NOT NULL,
    run_timestamp_utc TEXT NOT NULL,
    asked_by          TEXT NOT NULL,
    asked_at          TEXT NOT NULL,
    PRIMARY KEY (tenant_id, run_timestamp_utc),
    FOREIGN KEY (tenant_id, run_timestamp_utc) REFERENCES runs
) STRICT, WITHOUT ROWID;
"""

MIGRATIONS = (
    Migration(number=1, name="run store", script=_RUN_STORE),
    Migration(number=2, name="leases and slots", script=_SCHEDULE),
    Migration(number=3, name="ledger", script=_LEDGER),
    Migration(number=4, name="money", script=_MONEY),
    Migration(number=5, name="registry, pages and answers", script=schema_knowledge.SQLITE),
    Migration(number=6, name="tenants, companies and nights", script=schema_nights.SQLITE),
    Migration(number=7, name="touches", script=schema_touches.SQLITE),
    Migration(number=8, name="heat and pulls", script=schema_attention.SQLITE),
    Migration(number=9, name="sources of postings", script=schema_listings.SQLITE),
    Migration(number=10, name="runs asked to stop", script=_CANCEL_REQUESTS),
)
