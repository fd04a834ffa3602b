"""The tables of heat and pulls, in both databases: signals, heats, beliefs, plans as decided.

All of it is a tenant's own, and Postgres fences it off. What steps there are, and in which order,
is said by the two schema files.
"""

from __future__ import annotations

# An account's heat and what looks taught about it are each one short row, rewritten in place:
# what a plan for a million accounts reads is two walks along two keys. `latest` holds the times of
# an account's last signals, in microseconds since 1970, newest first. `looks_learned` knows only
# which looks have been learned from. A part of a plan is opaque here, and may be a megabyte.
SQLITE = """
CREATE TABLE account_signals (
    tenant_id  TEXT NOT NULL,
    id         TEXT NOT NULL,
    account_id TEXT NOT NULL,
    kind       TEXT NOT NULL,
    at         TEXT NOT NULL,
    strength   REAL NOT NULL,
    source     TEXT NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX signals_by_account ON account_signals (tenant_id, account_id, at DESC, id, strength);
CREATE INDEX signals_by_time ON account_signals (tenant_id, at, id);
CREATE TABLE account_heats (
    tenant_id      TEXT NOT NULL,
    account_id     TEXT NOT NULL,
    tier           TEXT NOT NULL,
    score          REAL NOT NULL,
    posture_score  REAL NOT NULL,
    signal_recency REAL NOT NULL,
    signal_volume  REAL NOT NULL,
    posture        REAL NOT NULL,
    peak           REAL NOT NULL,
    mass           REAL NOT NULL,
    as_of          TEXT,
    latest         TEXT NOT NULL,
    tier_since     TEXT NOT NULL,
    below_since    TEXT,
    computed_at    TEXT NOT NULL,
    updated_at     TEXT NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX heats_by_score ON account_heats (tenant_id, tier, score DESC, account_id);
CREATE TABLE account_beliefs (
    tenant_id       TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    surface_at      TEXT,
    surface_changes REAL,
    surface_days    REAL,
    deep_at         TEXT,
    deep_changes    REAL,
    deep_days       REAL,
    PRIMARY KEY (tenant_id, account_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE looks_learned (
    tenant_id TEXT NOT NULL,
    key       TEXT NOT NULL,
    at        TEXT NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX looks_by_time ON looks_learned (tenant_id, at, key);
CREATE TABLE pull_plans (
    tenant_id TEXT NOT NULL,
    run       TEXT NOT NULL,
    at        TEXT NOT NULL,
    policy    TEXT NOT NULL,
    header    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, run)
) STRICT;
CREATE TABLE pull_plan_parts (
    tenant_id TEXT NOT NULL,
    run       TEXT NOT NULL,
    number    INTEGER NOT NULL,
    part      BLOB NOT NULL,
    PRIMARY KEY (tenant_id, run, number)
) STRICT;
"""

# Heats and beliefs are rewritten over and over: room in each page lets Postgres do it in place.
POSTGRES = """
CREATE TABLE stoker.account_signals (
    tenant_id  text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    account_id text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    at         timestamptz NOT NULL,
    strength   double precision NOT NULL,
    source     text NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX signals_by_account
    ON stoker.account_signals (tenant_id, account_id, at DESC, id, strength);
CREATE INDEX signals_by_time ON stoker.account_signals (tenant_id, at, id);
CREATE TABLE stoker.account_heats (
    tenant_id      text COLLATE "C" NOT NULL,
    account_id     text COLLATE "C" NOT NULL,
    tier           text COLLATE "C" NOT NULL,
    score          double precision NOT NULL,
    posture_score  double precision NOT NULL,
    signal_recency double precision NOT NULL,
    signal_volume  double precision NOT NULL,
    posture        double precision NOT NULL,
    peak           double precision NOT NULL,
    mass           double precision NOT NULL,
    as_of          timestamptz,
    latest         text NOT NULL,
    tier_since     timestamptz NOT NULL,
    below_since    timestamptz,
    computed_at    timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
) WITH (fillfactor = 70);
CREATE INDEX heats_by_score ON stoker.account_heats (tenant_id, tier, score DESC, account_id);
CREATE TABLE stoker.account_beliefs (
    tenant_id       text COLLATE "C" NOT NULL,
    account_id      text COLLATE "C" NOT NULL,
    surface_at      timestamptz,
    surface_changes double precision,
    surface_days    double precision,
    deep_at         timestamptz,
    deep_changes    double precision,
    deep_days       double precision,
    PRIMARY KEY (tenant_id, account_id)
) WITH (fillfactor = 70);
CREATE TABLE stoker.looks_learned (
    tenant_id text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX looks_by_time ON stoker.looks_learned (tenant_id, at, key);
CREATE TABLE stoker.pull_plans (
    tenant_id text COLLATE "C" NOT NULL,
    run       text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    policy    text NOT NULL,
    header    json NOT NULL,
    PRIMARY KEY (tenant_id, run)
);
CREATE TABLE stoker.pull_plan_parts (
    tenant_id text COLLATE "C" NOT NULL,
    run       text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    part      bytea NOT NULL,
    PRIMARY KEY (tenant_id, run, number)
);
ALTER TABLE stoker.pull_plan_parts ALTER COLUMN part SET STORAGE EXTERNAL;
"""

PULL_TABLES = (
    "account_signals",
    "account_heats",
    "account_beliefs",
    "looks_learned",
    "pull_plans",
    "pull_plan_parts",
)
