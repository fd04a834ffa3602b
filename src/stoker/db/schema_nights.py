"""The tables of a night, in both databases: tenants, their companies, leads, units, CRM rows.

All but the list of tenants is a tenant's own, and Postgres fences it off. What steps there are,
and in which order, is said by the two schema files.
"""

from __future__ import annotations

# A company's row is what every source says of it; what looking at it found out stands beside it,
# in `company_findings`, and is written whole each time. A mark is a moment to go on from; the row
# of one may also be held still, which is having what it is about to oneself.
#
# Rows that are larger than a fraction of a page stand in ordinary tables: where the key is the
# table, SQLite puts most of a large row elsewhere and reads it in two steps.
SQLITE = """
CREATE TABLE tenants (
    id     TEXT PRIMARY KEY,
    name   TEXT NOT NULL,
    active INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tenant_users (
    tenant_id TEXT NOT NULL,
    id        TEXT NOT NULL,
    name      TEXT NOT NULL,
    role      TEXT NOT NULL,
    active    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE onboarding_status (
    tenant_id TEXT NOT NULL,
    step      TEXT NOT NULL,
    done_at   TEXT NOT NULL,
    PRIMARY KEY (tenant_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE odoo_connections (
    tenant_id      TEXT PRIMARY KEY,
    kind           TEXT NOT NULL,
    url            TEXT NOT NULL,
    database_name  TEXT NOT NULL,
    active         INTEGER NOT NULL,
    key_expires_at TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE icp_rules (
    tenant_id       TEXT NOT NULL,
    name            TEXT NOT NULL,
    industries      TEXT NOT NULL,
    least_employees INTEGER NOT NULL,
    most_employees  INTEGER NOT NULL,
    first_year      INTEGER NOT NULL,
    last_year       INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE account_marks (
    tenant_id TEXT NOT NULL,
    name      TEXT NOT NULL,
    at        TEXT,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE companies (
    tenant_id   TEXT NOT NULL,
    id          TEXT NOT NULL,
    name        TEXT NOT NULL,
    live        INTEGER NOT NULL,
    ssic        TEXT NOT NULL,
    year        INTEGER,
    postal_code TEXT NOT NULL,
    website     TEXT NOT NULL,
    employees   INTEGER,
    last_seen   TEXT,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX companies_by_last_seen ON companies (tenant_id, last_seen DESC);
CREATE TABLE icp_candidate_companies (
    tenant_id  TEXT NOT NULL,
    rule       TEXT NOT NULL,
    company_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, rule, company_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE company_findings (
    tenant_id      TEXT NOT NULL,
    company_id     TEXT NOT NULL,
    looked_at      TEXT,
    run            TEXT NOT NULL,
    extracted_from TEXT NOT NULL,
    findings       TEXT NOT NULL,
    notes          TEXT NOT NULL,
    PRIMARY KEY (tenant_id, company_id)
) STRICT;
CREATE INDEX findings_by_run ON company_findings (tenant_id, run, company_id);
CREATE TABLE contacts (
    tenant_id  TEXT NOT NULL,
    company_id TEXT NOT NULL,
    place      INTEGER NOT NULL,
    name       TEXT NOT NULL,
    title      TEXT NOT NULL,
    seniority  TEXT NOT NULL,
    phone      TEXT NOT NULL,
    source     TEXT NOT NULL,
    confidence REAL NOT NULL,
    PRIMARY KEY (tenant_id, company_id, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE lead_emails (
    tenant_id  TEXT NOT NULL,
    company_id TEXT NOT NULL,
    place      INTEGER NOT NULL,
    email      TEXT NOT NULL,
    verdict    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, company_id, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE lead_features (
    tenant_id    TEXT NOT NULL,
    company_id   TEXT NOT NULL,
    features     TEXT NOT NULL,
    feature_hash TEXT NOT NULL,
    PRIMARY KEY (tenant_id, company_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE lead_scores (
    tenant_id  TEXT NOT NULL,
    company_id TEXT NOT NULL,
    score      REAL NOT NULL,
    bucket     TEXT NOT NULL,
    rationale  TEXT NOT NULL,
    PRIMARY KEY (tenant_id, company_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX scores_by_value ON lead_scores (tenant_id, score DESC);
CREATE TABLE company_enrichment_runs (
    tenant_id  TEXT NOT NULL,
    run        TEXT NOT NULL,
    company_id TEXT NOT NULL,
    place      INTEGER NOT NULL,
    depth      TEXT NOT NULL,
    state      TEXT NOT NULL,
    owner      TEXT NOT NULL,
    until_at   TEXT,
    because    TEXT NOT NULL,
    reasons    TEXT NOT NULL,
    cost       TEXT NOT NULL,
    saved      TEXT NOT NULL,
    seconds    TEXT NOT NULL,
    ended_at   TEXT,
    PRIMARY KEY (tenant_id, run, company_id),
    UNIQUE (tenant_id, run, place)
) STRICT;
CREATE INDEX units_by_company ON company_enrichment_runs (tenant_id, company_id, run);
CREATE INDEX open_units ON company_enrichment_runs (tenant_id, run, place)
    WHERE state IN ('waiting', 'taken');
CREATE TABLE crm_sent_rows (
    tenant_id   TEXT NOT NULL,
    run         TEXT NOT NULL,
    external_id TEXT NOT NULL,
    model       TEXT NOT NULL,
    digest      TEXT NOT NULL,
    sent        TEXT NOT NULL,
    before      TEXT NOT NULL,
    at          TEXT NOT NULL,
    PRIMARY KEY (tenant_id, run, external_id)
) STRICT;
CREATE INDEX sent_rows_by_id ON crm_sent_rows (tenant_id, external_id, at, run);
CREATE VIEW enrichment_runs AS
    SELECT tenant_id, run_timestamp_utc, state, instant, ended_at, reason, manifest
    FROM runs WHERE kind = 'nightly';
CREATE VIEW email_verification_cache AS
    SELECT tenant_id, key, answer, cost, at, good_until
    FROM vendor_answers WHERE connector = 'zerobounce';
"""

# A view runs as whoever asks it, or it would show every tenant's rows to each. Units are rewritten
# twice a night: half-empty pages let Postgres do that in place.
POSTGRES = """
CREATE TABLE stoker.tenants (
    id     text COLLATE "C" PRIMARY KEY,
    name   text NOT NULL,
    active boolean NOT NULL
);
CREATE TABLE stoker.tenant_users (
    tenant_id text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    name      text NOT NULL,
    role      text NOT NULL,
    active    boolean NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE TABLE stoker.onboarding_status (
    tenant_id text COLLATE "C" NOT NULL,
    step      text COLLATE "C" NOT NULL,
    done_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, step)
);
CREATE TABLE stoker.odoo_connections (
    tenant_id      text COLLATE "C" PRIMARY KEY,
    kind           text NOT NULL,
    url            text NOT NULL,
    database_name  text NOT NULL,
    active         boolean NOT NULL,
    key_expires_at timestamptz
);
CREATE TABLE stoker.icp_rules (
    tenant_id       text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    industries      json NOT NULL,
    least_employees bigint NOT NULL,
    most_employees  bigint NOT NULL,
    first_year      bigint NOT NULL,
    last_year       bigint NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
CREATE TABLE stoker.account_marks (
    tenant_id text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    at        timestamptz,
    PRIMARY KEY (tenant_id, name)
);
CREATE TABLE stoker.companies (
    tenant_id   text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    name        text NOT NULL,
    live        boolean NOT NULL,
    ssic        text NOT NULL,
    year        bigint,
    postal_code text NOT NULL,
    website     text NOT NULL,
    employees   bigint,
    last_seen   timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX companies_by_last_seen ON stoker.companies (tenant_id, last_seen DESC NULLS LAST);
CREATE TABLE stoker.icp_candidate_companies (
    tenant_id  text COLLATE "C" NOT NULL,
    rule       text COLLATE "C" NOT NULL,
    company_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, rule, company_id)
);
CREATE TABLE stoker.company_findings (
    tenant_id      text COLLATE "C" NOT NULL,
    company_id     text COLLATE "C" NOT NULL,
    looked_at      timestamptz,
    run            text COLLATE "C" NOT NULL,
    extracted_from text NOT NULL,
    findings       json NOT NULL,
    notes          json NOT NULL,
    PRIMARY KEY (tenant_id, company_id)
);
CREATE INDEX findings_by_run ON stoker.company_findings (tenant_id, run, company_id);
CREATE TABLE stoker.contacts (
    tenant_id  text COLLATE "C" NOT NULL,
    company_id text COLLATE "C" NOT NULL,
    place      bigint NOT NULL,
    name       text NOT NULL,
    title      text NOT NULL,
    seniority  text NOT NULL,
    phone      text NOT NULL,
    source     text NOT NULL,
    confidence double precision NOT NULL,
    PRIMARY KEY (tenant_id, company_id, place)
);
CREATE TABLE stoker.lead_emails (
    tenant_id  text COLLATE "C" NOT NULL,
    company_id text COLLATE "C" NOT NULL,
    place      bigint NOT NULL,
    email      text NOT NULL,
    verdict    text NOT NULL,
    PRIMARY KEY (tenant_id, company_id, place)
);
CREATE TABLE stoker.lead_features (
    tenant_id    text COLLATE "C" NOT NULL,
    company_id   text COLLATE "C" NOT NULL,
    features     json NOT NULL,
    feature_hash text NOT NULL,
    PRIMARY KEY (tenant_id, company_id)
);
CREATE TABLE stoker.lead_scores (
    tenant_id  text COLLATE "C" NOT NULL,
    company_id text COLLATE "C" NOT NULL,
    score      double precision NOT NULL,
    bucket     text NOT NULL,
    rationale  text NOT NULL,
    PRIMARY KEY (tenant_id, company_id)
);
CREATE INDEX scores_by_value ON stoker.lead_scores (tenant_id, score DESC NULLS LAST);
CREATE TABLE stoker.company_enrichment_runs (
    tenant_id  text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    company_id text COLLATE "C" NOT NULL,
    place      bigint NOT NULL,
    depth      text NOT NULL,
    state      text NOT NULL,
    owner      text NOT NULL,
    until_at   timestamptz,
    because    text NOT NULL,
    reasons    json NOT NULL,
    cost       json NOT NULL,
    saved      json NOT NULL,
    seconds    json NOT NULL,
    ended_at   timestamptz,
    PRIMARY KEY (tenant_id, run, company_id),
    UNIQUE (tenant_id, run, place)
) WITH (fillfactor = 50);
CREATE INDEX units_by_company ON stoker.company_enrichment_runs (tenant_id, company_id, run);
CREATE INDEX open_units ON stoker.company_enrichment_runs (tenant_id, run, place)
    WHERE state IN ('waiting', 'taken');
CREATE TABLE stoker.crm_sent_rows (
    tenant_id   text COLLATE "C" NOT NULL,
    run         text COLLATE "C" NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    model       text NOT NULL,
    digest      text NOT NULL,
    sent        json NOT NULL,
    before      json NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run, external_id)
);
CREATE INDEX sent_rows_by_id ON stoker.crm_sent_rows (tenant_id, external_id, at, run);
CREATE VIEW stoker.enrichment_runs WITH (security_invoker = true) AS
    SELECT tenant_id, run_timestamp_utc, state, instant, ended_at, reason, manifest
    FROM stoker.runs WHERE kind = 'nightly';
CREATE VIEW stoker.email_verification_cache WITH (security_invoker = true) AS
    SELECT tenant_id, key, answer, cost, at, good_until
    FROM stoker.vendor_answers WHERE connector = 'zerobounce';
"""

OWNED = (
    "tenant_users",
    "onboarding_status",
    "odoo_connections",
    "icp_rules",
    "account_marks",
    "companies",
    "icp_candidate_companies",
    "company_findings",
    "contacts",
    "lead_emails",
    "lead_features",
    "lead_scores",
    "company_enrichment_runs",
    "crm_sent_rows",
)
