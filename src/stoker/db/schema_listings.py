"""The tables of sources and what they listed, in both databases.

All of it is a tenant's own, and Postgres fences it off. What steps there are, and in which order,
is said by the two schema files.
"""

from __future__ import annotations

SQLITE = """
CREATE TABLE posting_sources (
    tenant_id     TEXT NOT NULL,
    name          TEXT NOT NULL,
    state         TEXT NOT NULL,
    tried_at      TEXT NOT NULL,
    read_at       TEXT,
    version       INTEGER NOT NULL,
    etag          TEXT NOT NULL,
    last_modified TEXT NOT NULL,
    listed        INTEGER NOT NULL,
    because       TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE posting_listings (
    tenant_id     TEXT NOT NULL,
    source        TEXT NOT NULL,
    job_id        TEXT NOT NULL,
    kind          TEXT NOT NULL,
    url           TEXT NOT NULL,
    title         TEXT NOT NULL,
    company       TEXT NOT NULL,
    location      TEXT NOT NULL,
    posted_at     TEXT,
    normal_title  TEXT NOT NULL,
    seniority     TEXT NOT NULL,
    stack         TEXT NOT NULL,
    remote        INTEGER NOT NULL,
    twin          INTEGER NOT NULL,
    first_seen_at TEXT NOT NULL,
    last_seen_at  TEXT NOT NULL,
    PRIMARY KEY (tenant_id, source, job_id)
) STRICT, WITHOUT ROWID;
"""

POSTGRES = """
CREATE TABLE stoker.posting_sources (
    tenant_id     text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    state         text NOT NULL,
    tried_at      timestamptz NOT NULL,
    read_at       timestamptz,
    version       bigint NOT NULL,
    etag          text NOT NULL,
    last_modified text NOT NULL,
    listed        bigint NOT NULL,
    because       text NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
CREATE TABLE stoker.posting_listings (
    tenant_id     text COLLATE "C" NOT NULL,
    source        text COLLATE "C" NOT NULL,
    job_id        text COLLATE "C" NOT NULL,
    kind          text NOT NULL,
    url           text NOT NULL,
    title         text NOT NULL,
    company       text NOT NULL,
    location      text NOT NULL,
    posted_at     timestamptz,
    normal_title  text NOT NULL,
    seniority     text NOT NULL,
    stack         json NOT NULL,
    remote        boolean NOT NULL,
    twin          boolean NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, source, job_id)
);
"""

OWNED = ("posting_sources", "posting_listings")
