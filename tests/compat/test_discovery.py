"""Cadence, stores and enrichment as discovery scripts call them: plain dicts, no event loop."""

import asyncio
import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError, PermanentError, StokerError
from stoker.base.types import TenantId, compute_job_id
from stoker.compat.discovery import (
    JsonStore,
    SqliteStore,
    compute_next_run,
    json_store,
    run_enrichment_pipeline,
    should_run,
    sqlite_store,
)
from stoker.testing import FakeClock

DATA = Path(__file__).parents[1] / "data"
NOW = datetime(2025, 1, 1, 12, 0, tzinfo=UTC)
TS = "20260207_013000"
JOB = {
    "title": "Senior Python Engineer",
    "location": "Remote",
    "company": "Acme",
    "source": "indeed",
    "url": "https://acme.com/jobs/1",
    "posted_date": "2026-02-05",
}
COOK = {**JOB, "title": "Cook", "location": "Singapore", "url": "https://acme.com/jobs/2"}
HOURLY = {"scheduling": {"mode": "interval", "interval_minutes": 60}}


def daily(at):
    return {"scheduling": {"mode": "window", "window_time": at}}


# Cadence.


def test_the_next_run_of_a_nested_dict():
    assert compute_next_run(NOW, HOURLY) == NOW + timedelta(hours=1)
    assert compute_next_run(NOW, daily("09:30")) == datetime(2025, 1, 2, 9, 30, tzinfo=UTC)
    assert compute_next_run(NOW, daily("13:30")) == datetime(2025, 1, 1, 13, 30, tzinfo=UTC)
    assert compute_next_run(NOW, daily("9:30")).hour == 9
    assert compute_next_run(NOW, {}) == NOW + timedelta(hours=1)
    assert compute_next_run(NOW, {"SCHEDULING": {"interval_minutes": 5}}).minute == 5
    nightly = {"scheduling": {"mode": "cron", "cron": "0 1 * * *", "timezone": "Asia/Singapore"}}
    assert compute_next_run(NOW, nightly) == datetime(2025, 1, 1, 17, 0, tzinfo=UTC)


def test_whether_to_run_by_time_or_name_of_the_last_run():
    assert should_run(NOW, None, HOURLY)
    assert should_run(NOW, NOW - timedelta(hours=1), HOURLY)
    assert not should_run(NOW, NOW - timedelta(minutes=59), HOURLY)
    assert should_run(NOW, "20250101_110000", HOURLY)
    assert not should_run(NOW, "2025-01-01T11:30:00+00:00", HOURLY)
    assert should_run(NOW, datetime(2025, 1, 1, 11, 0, tzinfo=UTC), daily("11:30"))
    assert not should_run(NOW, NOW, daily("11:30"))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"scheduling": {"mode": "weekly"}}, "interval, window or cron"),
        ({"scheduling": "daily"}, "scheduling is a dict"),
        ({"scheduling": {"interval_minutes": "soon"}}, "interval_minutes is 'soon'"),
        (daily("25:00"), "HH:MM"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_told(config, says):
    with pytest.raises(ConfigError, match=says):
        compute_next_run(NOW, config)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(StokerError):
        compute_next_run(NOW.replace(tzinfo=None), HOURLY)


# The SQLite store.


@pytest.fixture
def store(tmp_path):
    found = SqliteStore(tmp_path / "below" / "jobs.db")
    found.init_schema()
    found.init_schema()
    return found


def read(path, work):
    """Read a store through the room that owns its tables."""

    async def reading():
        backend = SqliteBackend(path)
        try:
            return await work(backend.tenant(TenantId("default")).runs)
        finally:
            await backend.close()

    return asyncio.run(reading())


def fill(store, ts=TS):
    store.insert_run({"run_ts": ts, "counts": {"exported": 2}})
    store.insert_jobs(ts, [JOB, COOK, JOB])
    found = run_enrichment_pipeline([JOB, COOK], {}, ts)
    store.insert_enriched(ts, found["enriched"])
    store.insert_scores(ts, found["scores"])
    return found


def test_what_a_script_inserts_is_a_run_of_the_store(store):
    found = fill(store)

    async def work(runs):
        [run] = await runs.list_runs()
        return run, [
            await each(run.at) for each in (runs.list_jobs, runs.list_enriched, runs.list_scores)
        ]

    run, (jobs, enriched, scores) = read(store.path, work)
    assert (run.name, run.kind, run.state) == (TS, "discovery", "DONE")
    assert run.manifest.config == {"run_ts": TS, "counts": {"exported": 2}}
    by_url = {job.url: job for job in jobs}
    assert by_url.keys() == {JOB["url"], COOK["url"]}
    one = by_url[JOB["url"]]
    assert one.id == compute_job_id(source="indeed", url=JOB["url"])
    assert (one.source, one.posted_at) == ("indeed", datetime(2026, 2, 5, tzinfo=UTC))
    assert {(each.job, each.score, each.bucket) for each in scores} == {
        (compute_job_id(source=each["source"], url=each["url"]), each["score"], each["bucket"])
        for each in found["scores"]
    }
    said = {each.job: each for each in enriched}[one.id]
    assert (said.seniority, said.remote, said.stack) == ("senior", True, ("python",))


def test_inserting_again_changes_nothing_twice(store):
    fill(store)
    fill(store)
    counted = read(store.path, lambda runs: runs.list_jobs(datetime(2026, 2, 7, 1, 30, tzinfo=UTC)))
    assert len(counted) == 2


def test_a_run_is_known_by_its_time_too_and_needs_one(store):
    store.insert_run({"timestamp_utc": "2026-02-07T01:30:00+00:00"})
    store.insert_jobs(TS, [JOB])
    with pytest.raises(PermanentError, match="run_ts, like 20260207_013000"):
        store.insert_run({"counts": {}})


def test_what_belongs_to_no_run_or_posting_is_refused(store):
    with pytest.raises(PermanentError, match="insert_run it first"):
        store.insert_jobs(TS, [JOB])
    store.insert_run({"run_ts": TS})
    with pytest.raises(PermanentError, match="has no posting"):
        store.insert_scores(TS, [{**JOB, "score": 0.5, "bucket": "weak"}])
    with pytest.raises(PermanentError, match="source and a url"):
        store.insert_jobs(TS, [{"title": "Cook"}])


def test_fields_and_dates_that_are_not_stored_are_named(store, capsys):
    store.insert_run({"run_ts": TS})
    store.insert_jobs(TS, [{**JOB, "salary": 1, "posted_date": "3 days ago"}])
    said = capsys.readouterr().err
    assert "insert_jobs does not store: salary" in said
    assert "'3 days ago' is no date" in said
    store.insert_jobs(TS, [COOK])
    assert capsys.readouterr().err == ""


def name_of(days_ago):
    return f"{NOW - timedelta(days=days_ago):%Y%m%d_%H%M%S}"


@pytest.mark.parametrize("key", ["retention", "RETENTION"])
def test_pruning_keeps_the_young_and_the_latest(tmp_path, key):
    names = [name_of(days) for days in (50, 40, 20, 3)]
    store = SqliteStore(tmp_path / "jobs.db", clock=FakeClock(NOW))
    files = JsonStore(tmp_path / "files", clock=FakeClock(NOW))
    for name in names:
        store.insert_run({"run_ts": name})
        files.write_run(name, {})
    for each in (store, files):
        assert each.prune({}) == {"deleted_runs": [], "kept_runs": names}
        off = {key: {"enabled": False, "days": 1}}
        assert each.prune(off)["deleted_runs"] == []
        rule = {key: {"enabled": True, "days": 30, "keep_latest_n_runs": 3}}
        assert each.prune(rule) == {"deleted_runs": names[:1], "kept_runs": names[1:]}
        rule = {key: {"days": 30}}
        assert each.prune(rule) == {"deleted_runs": names[1:2], "kept_runs": names[2:]}
        assert each.prune({key: {"days": 0}}) == {
            "deleted_runs": names[2:3],
            "kept_runs": names[3:],
        }


def test_a_store_that_scripts_made_is_taken_over_with_every_row(tmp_path, capsys):
    path = tmp_path / "jobs.db"
    with sqlite3.connect(path) as old:
        old.executescript((DATA / "jobs_db.sql").read_text())
    old.close()
    before = path.read_bytes()
    store = SqliteStore(path)
    store.init_schema()
    assert (tmp_path / "jobs.db.before-stoker").read_bytes() == before
    assert "was taken over" in capsys.readouterr().err

    async def work(runs):
        found = await runs.list_runs()
        first = found[-1].at
        return (
            [(run.name, run.manifest.config["counts"]) for run in found],
            await runs.list_jobs(first),
            await runs.list_enriched(first),
            await runs.list_scores(first),
        )

    runs, jobs, enriched, scores = read(path, work)
    assert runs == [("20260202_010000", {"exported": 1}), ("20260201_010000", {"exported": 2})]
    assert {(job.source, job.url, job.posted_at) for job in jobs} == {
        ("indeed", "https://acme.com/jobs/1", datetime(2026, 1, 30, tzinfo=UTC)),
        ("linkedin", "https://acme.com/jobs/2", None),
    }
    [said], [score] = enriched, scores
    assert (said.title, said.seniority, said.stack) == (
        "senior data engineer",
        "Senior",
        ("aws", "python"),
    )
    assert (score.score, score.bucket, score.job) == (0.85, "Exceptional", said.job)
    store.insert_jobs("20260202_010000", [COOK])
    assert not list(tmp_path.glob(".*.stoker*"))


# The store of files.


def test_a_run_folder_has_a_summary_and_records_only(tmp_path):
    store = JsonStore(str(tmp_path / "files"))
    summary = {"timestamp_utc": "2026-02-07T01:30:00+00:00", "counts": {"exported": 1}}
    path = store.write_run(TS, summary)
    assert path == str(tmp_path / "files" / TS / "summary.json")
    assert json.loads(Path(path).read_text()) == summary
    for kind, items in (("jobs", [JOB, COOK]), ("enriched", [JOB]), ("scores", [])):
        path = store.write_jsonl(kind, TS, items)
        assert path == str(tmp_path / "files" / TS / f"{kind}.jsonl")
        assert [json.loads(line) for line in Path(path).read_text().splitlines()] == items
    assert sorted(each.name for each in (tmp_path / "files" / TS).iterdir()) == [
        "enriched.jsonl",
        "jobs.jsonl",
        "scores.jsonl",
        "summary.json",
    ]
    store.write_run("20260101_000000", {})
    assert json.loads((tmp_path / "files" / "index.json").read_text()) == ["20260101_000000", TS]


@pytest.mark.parametrize(("kind", "ts"), [("../x", TS), ("jobs", "../../etc"), ("jobs", "today")])
def test_no_name_leads_out_of_the_store(tmp_path, kind, ts):
    with pytest.raises(StokerError):
        JsonStore(tmp_path / "files").write_jsonl(kind, ts, [])
    assert [each.name for each in tmp_path.rglob("*") if each.suffix == ".jsonl"] == []


def test_the_modules_work_below_data_in_the_current_directory(tmp_path):
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        sqlite_store.init_schema()
        sqlite_store.insert_run({"run_ts": TS})
        assert sqlite_store.insert_jobs(TS, [JOB]) == 1
        found = run_enrichment_pipeline([JOB], {}, TS)
        sqlite_store.insert_enriched(TS, found["enriched"])
        sqlite_store.insert_scores(TS, found["scored"])
        assert sqlite_store.prune({})["kept_runs"] == [TS]
        json_store.write_run(TS, {})
        json_store.write_jsonl("jobs", TS, [JOB])
        assert json_store.prune({})["kept_runs"] == [TS]
    finally:
        os.chdir(here)
    assert (tmp_path / "data" / "jobs.db").exists()
    assert (tmp_path / "data" / "json-store" / TS / "jobs.jsonl").exists()


# Enrichment.

CONFIG = {
    "enrichment": {"keywords": {"role": ["Engineer"], "stack": ["Python", "AWS"]}},
    "scoring": {
        "weights": {"role_fit": 0.4, "stack": 0.4, "remote": 0.2},
        "thresholds": {"exceptional": 0.8, "strong": 0.6, "moderate": 0.4},
    },
}


def test_postings_are_enriched_and_scored_as_a_run_does():
    found = run_enrichment_pipeline([{**JOB, "description": "We use AWS"}, COOK], CONFIG, TS)
    first, second = found["scored"]
    assert first.items() >= JOB.items()
    assert first["normalized_title"] == "python engineer"
    assert (first["seniority"], first["role_tags"], first["remote_friendly"]) == (
        "senior",
        ["engineer"],
        True,
    )
    assert first["stack_tags"] == ["aws", "python"]
    assert (first["score"], first["bucket"]) == (1.0, "exceptional")
    assert (second["score"], second["bucket"]) == (0.0, "weak")
    assert found["enriched"][0] == {k: v for k, v in first.items() if k not in ("score", "bucket")}
    assert found["scores"][0]["components"] == {"role_fit": 1.0, "stack": 1.0, "remote": 1.0}
    assert (
        run_enrichment_pipeline([{**JOB, "description": "We use AWS"}, COOK], CONFIG, TS) == found
    )


def test_what_is_no_posting_is_named():
    found = run_enrichment_pipeline([{"title": "Cook"}, JOB], {}, TS)
    assert found["rejected"] == [{"where": "job 1", "reason": "it has no web address"}]
    assert len(found["enriched"]) == 1


def test_everything_works_inside_a_running_event_loop(tmp_path):
    async def script():
        store = SqliteStore(tmp_path / "jobs.db")
        store.init_schema()
        fill(store)
        return store.prune({})

    assert asyncio.run(script()) == {"deleted_runs": [], "kept_runs": [TS]}
