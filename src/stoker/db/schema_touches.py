"""The tables of touches, in both databases: profiles, weekly plans, what came of them, counters.

All of it is a tenant's own, and Postgres fences it off. What steps there are, and in which order,
is said by the two schema files.
"""

from __future__ import annotations

# What was planned and what happened stand apart: a plan is replaced when it is repaired, what
# happened only grows, so no repair can lose it. A plan's revision moves with either.
SQLITE = """
CREATE TABLE touch_profiles (
    tenant_id    TEXT NOT NULL,
    url          TEXT NOT NULL,
    name         TEXT NOT NULL,
    status       TEXT NOT NULL,
    last_done_at TEXT,
    PRIMARY KEY (tenant_id, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE touch_plans (
    tenant_id TEXT NOT NULL,
    week      TEXT NOT NULL,
    revision  INTEGER NOT NULL,
    plan      TEXT NOT NULL,
    PRIMARY KEY (tenant_id, week)
) STRICT;
CREATE TABLE touches (
    tenant_id   TEXT NOT NULL,
    week        TEXT NOT NULL,
    day         TEXT NOT NULL,
    url         TEXT NOT NULL,
    name        TEXT NOT NULL,
    at          TEXT NOT NULL,
    score       REAL NOT NULL,
    days_since  INTEGER,
    forced      INTEGER NOT NULL,
    probability REAL NOT NULL,
    handed_at   TEXT,
    PRIMARY KEY (tenant_id, week, day, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE touch_outcomes (
    tenant_id TEXT NOT NULL,
    day       TEXT NOT NULL,
    url       TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    at        TEXT NOT NULL,
    PRIMARY KEY (tenant_id, day, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE touch_handovers (
    tenant_id TEXT NOT NULL,
    day       TEXT NOT NULL,
    url       TEXT NOT NULL,
    way       TEXT NOT NULL,
    at        TEXT NOT NULL,
    refused   TEXT NOT NULL,
    PRIMARY KEY (tenant_id, day, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE touch_counters (
    tenant_id TEXT NOT NULL,
    name      TEXT NOT NULL,
    used      INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
"""

POSTGRES = """
CREATE TABLE stoker.touch_profiles (
    tenant_id    text COLLATE "C" NOT NULL,
    url          text COLLATE "C" NOT NULL,
    name         text NOT NULL,
    status       text NOT NULL,
    last_done_at timestamptz,
    PRIMARY KEY (tenant_id, url)
);
CREATE TABLE stoker.touch_plans (
    tenant_id text COLLATE "C" NOT NULL,
    week      text COLLATE "C" NOT NULL,
    revision  bigint NOT NULL,
    plan      json NOT NULL,
    PRIMARY KEY (tenant_id, week)
);
CREATE TABLE stoker.touches (
    tenant_id   text COLLATE "C" NOT NULL,
    week        text COLLATE "C" NOT NULL,
    day         text COLLATE "C" NOT NULL,
    url         text COLLATE "C" NOT NULL,
    name        text NOT NULL,
    at          timestamptz NOT NULL,
    score       double precision NOT NULL,
    days_since  bigint,
    forced      boolean NOT NULL,
    probability double precision NOT NULL,
    handed_at   timestamptz,
    PRIMARY KEY (tenant_id, week, day, url)
);
CREATE TABLE stoker.touch_outcomes (
    tenant_id text COLLATE "C" NOT NULL,
    day       text COLLATE "C" NOT NULL,
    url       text COLLATE "C" NOT NULL,
    outcome   text NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, day, url)
);
CREATE TABLE stoker.touch_handovers (
    tenant_id text COLLATE "C" NOT NULL,
    day       text COLLATE "C" NOT NULL,
    url       text COLLATE "C" NOT NULL,
    way       text NOT NULL,
    at        timestamptz NOT NULL,
    refused   text NOT NULL,
    PRIMARY KEY (tenant_id, day, url)
);
CREATE TABLE stoker.touch_counters (
    tenant_id text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    used      bigint NOT NULL CHECK (used >= 0),
    PRIMARY KEY (tenant_id, name)
) WITH (fillfactor = 50);
"""

OWNED = (
    "touch_profiles",
    "touch_plans",
    "touches",
    "touch_outcomes",
    "touch_handovers",
    "touch_counters",
)
