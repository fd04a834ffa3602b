"""The tables of runs and their postings."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stoker.base.types import EnrichedJob, Job, JobScore
from stoker.db.table import (
    FLAG,
    INT,
    JSON_OBJECT,
    JSON_TEXTS,
    ORDERED_TEXT,
    REAL,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Script,
    Table,
    enum,
    json_of,
)
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunKey,
    RunState,
    parse_manifest,
    to_manifest_json,
)


# Many postings name the same technologies, so each stack is written and read once.
@lru_cache(maxsize=1024)
def _write_stack(stack: tuple[str, ...]) -> Any:
    return JSON_TEXTS.write(stack)  # type: ignore[misc]


@lru_cache(maxsize=1024)
def _read_stack_text(text: str) -> Any:
    return JSON_TEXTS.read(text)  # type: ignore[misc]


STACK = ColumnType(
    sqlite="TEXT",
    postgres="json",
    write=_write_stack,
    read=lambda value: _read_stack_text(value) if isinstance(value, str) else tuple(value),
)

RUNS = Table(
    "runs",
    Run,
    Column("run_timestamp_utc", TIME, field="key.at"),
    Column("kind", TEXT),
    Column("state", enum(RunState)),
    Column("instant", TIME, null=True),
    Column("epoch", INT, field="key.fencing_token"),
    Column("ended_at", TIME, null=True),
    Column("reason", TEXT),
    Column("config_hash", TEXT, field="manifest.config_hash", derived=True),
    Column("manifest", json_of(to_manifest_json, parse_manifest)),
    key=["run_timestamp_utc"],
    nested={"key": RunKey},
    since=1,
    what="the run",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

_RUN = Column("run_timestamp_utc", TIME, parent=True)

JOBS = Table(
    "jobs",
    Job,
    _RUN,
    Column("job_id", ORDERED_TEXT, field="id"),
    Column("source", TEXT),
    Column("url", TEXT),
    Column("title", TEXT),
    Column("company", TEXT),
    Column("location", TEXT),
    Column("posted_at", TIME, null=True),
    key=["run_timestamp_utc", "job_id"],
    references=RUNS,
    since=1,
    what="the posting",
    grants="SELECT, INSERT, DELETE",
)

ENRICHED = Table(
    "enriched",
    EnrichedJob,
    _RUN,
    Column("job_id", ORDERED_TEXT, field="job"),
    Column("title", TEXT),
    Column("seniority", TEXT),
    Column("stack", STACK),
    Column("remote", FLAG),
    key=["run_timestamp_utc", "job_id"],
    references=JOBS,
    since=1,
    what="the enriched posting",
    grants="SELECT, INSERT, DELETE",
)

SCORES = Table(
    "scores",
    JobScore,
    _RUN,
    Column("job_id", ORDERED_TEXT, field="job"),
    Column("score", REAL),
    Column("bucket", TEXT),
    Column("components", JSON_OBJECT),
    key=["run_timestamp_utc", "job_id"],
    references=JOBS,
    since=1,
    what="the score of posting",
    grants="SELECT, INSERT, DELETE",
)

CANCEL_REQUESTS = Table(
    "cancel_requests",
    CancelRequest,
    _RUN,
    Column("asked_by", TEXT, field="by"),
    Column("asked_at", TIME, field="at"),
    key=["run_timestamp_utc"],
    references=RUNS,
    since=10,
    what="the cancel request of",
    grants="SELECT, INSERT, DELETE",
)

# A view runs with the rights of its reader, or it would show every tenant's rows to each.
_NIGHTLY_RUNS = Script(
    since=6,
    sqlite="""\
CREATE VIEW enrichment_runs AS
    SELECT tenant_id, run_timestamp_utc, state, instant, ended_at, reason, manifest
    FROM runs WHERE kind = 'nightly';
""",
    postgres="""\
CREATE VIEW stoker.enrichment_runs WITH (security_invoker = true) AS
    SELECT tenant_id, run_timestamp_utc, state, instant, ended_at, reason, manifest
    FROM stoker.runs WHERE kind = 'nightly';
""",
    grants={"enrichment_runs": "SELECT"},
)

# The same with the names people know. Postgres can add columns to a view only behind the others.
_NIGHTLY_RUNS_BY_ID = Script(
    since=18,
    sqlite="""\
DROP VIEW enrichment_runs;
CREATE VIEW enrichment_runs AS
    SELECT tenant_id, run_timestamp_utc, state, instant, ended_at, reason, manifest,
        strftime('%Y%m%d_%H%M%S', run_timestamp_utc) AS run_id, state AS status,
        run_timestamp_utc AS started_at, ended_at AS finished_at
    FROM runs WHERE kind = 'nightly';
""",
    postgres="""\
CREATE OR REPLACE VIEW stoker.enrichment_runs WITH (security_invoker = true) AS
    SELECT tenant_id, run_timestamp_utc, state, instant, ended_at, reason, manifest,
        to_char(run_timestamp_utc AT TIME ZONE 'UTC', 'YYYYMMDD_HH24MISS') AS run_id,
        state AS status, run_timestamp_utc AS started_at, ended_at AS finished_at
    FROM stoker.runs WHERE kind = 'nightly';
""",
)

TABLES = (RUNS, JOBS, ENRICHED, SCORES, CANCEL_REQUESTS, _NIGHTLY_RUNS, _NIGHTLY_RUNS_BY_ID)
