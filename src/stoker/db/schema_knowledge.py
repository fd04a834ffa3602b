"""The tables of what connectors said, in both databases: the register, pages of sites, answers.

Pages and answers are a tenant's own, and Postgres fences them off; the register is public and the
same for everybody. What steps there are, and in which order, is said by the two schema files.
"""

from __future__ import annotations

# What is known about a row of the register stands beside it, in `registry_seen`: when it changed,
# whether it is gone, and in which release it was last seen. A new release in which a row is the
# same then touches these few bytes and not the row, finding what is gone is one walk along a
# narrow table, and a batch is compared without reading what it would replace.
#
# Rows that are larger than a fraction of a page stand in ordinary tables: where the key is the
# table, SQLite puts most of a large row elsewhere and reads it in two steps.
SQLITE = """
CREATE TABLE registry_loads (
    id            TEXT PRIMARY KEY,
    release       TEXT NOT NULL,
    part          TEXT NOT NULL,
    source        TEXT NOT NULL,
    began_at      TEXT NOT NULL,
    ended_at      TEXT,
    new_rows      INTEGER NOT NULL,
    changed_rows  INTEGER NOT NULL,
    same_rows     INTEGER NOT NULL,
    rejected_rows INTEGER NOT NULL,
    gone_rows     INTEGER NOT NULL,
    last_reject   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE registry_rejects (
    number  INTEGER PRIMARY KEY,
    load_id TEXT NOT NULL,
    line    INTEGER NOT NULL,
    reason  TEXT NOT NULL,
    text    TEXT NOT NULL,
    UNIQUE (load_id, line)
) STRICT;
CREATE TABLE registry_seen (
    uen        TEXT PRIMARY KEY,
    release    TEXT NOT NULL,
    content    TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    gone_at    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_changes ON registry_seen (changed_at, uen);
CREATE TABLE staging_acra_companies (
    uen            TEXT PRIMARY KEY,
    name           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    company_type   TEXT NOT NULL,
    status         TEXT NOT NULL,
    live           INTEGER NOT NULL,
    registered_on  TEXT,
    ssic           TEXT NOT NULL,
    ssic_secondary TEXT NOT NULL,
    activity       TEXT NOT NULL,
    street         TEXT NOT NULL,
    postal_code    TEXT NOT NULL,
    officers       INTEGER,
    former_names   TEXT NOT NULL,
    digest         TEXT NOT NULL
) STRICT;
CREATE INDEX companies_by_industry ON staging_acra_companies (ssic);
CREATE TABLE staging_raw_acra (uen TEXT PRIMARY KEY, raw TEXT NOT NULL) STRICT;
CREATE TABLE ssic_ref (
    version TEXT NOT NULL,
    code    TEXT NOT NULL,
    title   TEXT NOT NULL,
    level   TEXT NOT NULL,
    PRIMARY KEY (version, code)
) STRICT, WITHOUT ROWID;
CREATE TABLE site_pages (
    tenant_id     TEXT NOT NULL,
    site          TEXT NOT NULL,
    url           TEXT NOT NULL,
    status        INTEGER NOT NULL,
    etag          TEXT NOT NULL,
    last_modified TEXT NOT NULL,
    fingerprint   TEXT NOT NULL,
    seen_at       TEXT NOT NULL,
    changed_at    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, site, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE vendor_answers (
    tenant_id  TEXT NOT NULL,
    key        TEXT NOT NULL,
    connector  TEXT NOT NULL,
    answer     TEXT NOT NULL,
    cost       TEXT NOT NULL,
    at         TEXT NOT NULL,
    good_until TEXT NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT;
CREATE INDEX answers_by_age ON vendor_answers (tenant_id, good_until);
"""

# A release with nothing new rewrites `registry_seen` and no index of it: half-empty pages let
# Postgres do that in place.
POSTGRES = """
CREATE TABLE stoker.registry_loads (
    id            text COLLATE "C" PRIMARY KEY,
    release       text COLLATE "C" NOT NULL,
    part          text NOT NULL,
    source        text NOT NULL,
    began_at      timestamptz NOT NULL,
    ended_at      timestamptz,
    new_rows      bigint NOT NULL,
    changed_rows  bigint NOT NULL,
    same_rows     bigint NOT NULL,
    rejected_rows bigint NOT NULL,
    gone_rows     bigint NOT NULL,
    last_reject   bigint NOT NULL
);
CREATE TABLE stoker.registry_rejects (
    number  bigint PRIMARY KEY,
    load_id text COLLATE "C" NOT NULL,
    line    bigint NOT NULL,
    reason  text NOT NULL,
    text    text NOT NULL,
    UNIQUE (load_id, line)
);
CREATE TABLE stoker.registry_seen (
    uen        text COLLATE "C" PRIMARY KEY,
    release    text COLLATE "C" NOT NULL,
    content    text NOT NULL,
    changed_at timestamptz NOT NULL,
    gone_at    timestamptz
) WITH (fillfactor = 50);
CREATE INDEX registry_changes ON stoker.registry_seen (changed_at, uen);
CREATE TABLE stoker.staging_acra_companies (
    uen            text COLLATE "C" PRIMARY KEY,
    name           text NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    company_type   text NOT NULL,
    status         text COLLATE "C" NOT NULL,
    live           boolean NOT NULL,
    registered_on  date,
    ssic           text COLLATE "C" NOT NULL,
    ssic_secondary text COLLATE "C" NOT NULL,
    activity       text NOT NULL,
    street         text NOT NULL,
    postal_code    text NOT NULL,
    officers       bigint,
    former_names   json NOT NULL,
    digest         text NOT NULL
);
CREATE INDEX companies_by_industry ON stoker.staging_acra_companies (ssic);
CREATE TABLE stoker.staging_raw_acra (uen text COLLATE "C" PRIMARY KEY, raw json NOT NULL);
CREATE TABLE stoker.ssic_ref (
    version text COLLATE "C" NOT NULL,
    code    text COLLATE "C" NOT NULL,
    title   text NOT NULL,
    level   text NOT NULL,
    PRIMARY KEY (version, code)
);
CREATE TABLE stoker.site_pages (
    tenant_id     text COLLATE "C" NOT NULL,
    site          text COLLATE "C" NOT NULL,
    url           text COLLATE "C" NOT NULL,
    status        bigint NOT NULL,
    etag          text NOT NULL,
    last_modified text NOT NULL,
    fingerprint   text NOT NULL,
    seen_at       timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, site, url)
);
CREATE TABLE stoker.vendor_answers (
    tenant_id  text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    connector  text NOT NULL,
    answer     json NOT NULL,
    cost       json NOT NULL,
    at         timestamptz NOT NULL,
    good_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX answers_by_age ON stoker.vendor_answers (tenant_id, good_until);
"""
