"""The table of paid answers."""

from __future__ import annotations

from stoker.db.table import (
    JSON_OBJECT,
    KEY,
    TEXT,
    TIME,
    Column,
    Index,
    Script,
    Table,
    json_of,
)
from stoker.vendors.model import CachedAnswer

ANSWERS = Table(
    "vendor_answers",
    CachedAnswer,
    Column("key", KEY),
    Column("connector", TEXT),
    # In a list, so that an answer of one word is not mistaken for JSON not yet decoded.
    Column("answer", json_of(lambda answer: [answer], lambda found: found[0])),
    Column("cost", JSON_OBJECT),
    Column("at", TIME),
    Column("good_until", TIME, field="expires_at"),
    key=["key"],
    indexes=[Index("answers_by_age", "good_until")],
    since=5,
    what="the answer",
    grants="SELECT, INSERT, UPDATE, DELETE",
    wide=True,
)

# A view runs as its caller, or it would show every tenant's rows to each.
_VERIFIED_EMAILS = Script(
    since=6,
    sqlite="""\
CREATE VIEW email_verification_cache AS
    SELECT tenant_id, key, answer, cost, at, good_until
    FROM vendor_answers WHERE connector = 'zerobounce';
""",
    postgres="""\
CREATE VIEW stoker.email_verification_cache WITH (security_invoker = true) AS
    SELECT tenant_id, key, answer, cost, at, good_until
    FROM stoker.vendor_answers WHERE connector = 'zerobounce';
""",
    grants={"email_verification_cache": "SELECT"},
)

# The same with the names people know. Postgres can add columns to a view only behind the others.
_VERIFIED_EMAILS_BY_ADDRESS = Script(
    since=18,
    sqlite="""\
DROP VIEW email_verification_cache;
CREATE VIEW email_verification_cache AS
    SELECT tenant_id, key, answer, cost, at, good_until,
        json_extract(answer, '$[0].email') AS email,
        json_extract(answer, '$[0].verdict') AS status, at AS checked_at
    FROM vendor_answers WHERE connector = 'zerobounce';
""",
    postgres="""\
CREATE OR REPLACE VIEW stoker.email_verification_cache WITH (security_invoker = true) AS
    SELECT tenant_id, key, answer, cost, at, good_until,
        answer -> 0 ->> 'email' AS email,
        answer -> 0 ->> 'verdict' AS status, at AS checked_at
    FROM stoker.vendor_answers WHERE connector = 'zerobounce';
""",
)

TABLES = (ANSWERS, _VERIFIED_EMAILS, _VERIFIED_EMAILS_BY_ADDRESS)
