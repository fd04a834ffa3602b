"""Files of postings: whole or not at all, harmless to open, the same bytes for the same rows."""

import csv
import io
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import TransientError
from stoker.base.types import Job, TenantId
from stoker.discovery.enrichment import enrich_job, score_job
from stoker.discovery.files import JOB_COLUMNS, SCORE_COLUMNS, PostingFiles
from stoker.discovery.settings import DiscoverySettings
from stoker.runs.model import Run, RunKey

ACME = TenantId("acme")
AT = datetime(2026, 11, 16, 1, 30, tzinfo=UTC)
RUN = Run(key=RunKey(AT, 1), kind="discovery")


def job(nth, title="Cook", **more):
    return Job.create(source="lever", url=f"https://a.test/{nth}", title=title, **more)


async def kept(jobs):
    runs = MemoryBackend().tenant(ACME).runs
    await runs.insert_run(RUN)
    await runs.insert_jobs(RUN.key, jobs)
    says = [enrich_job(each) for each in jobs]
    await runs.insert_enriched(RUN.key, says)
    await runs.insert_scores(RUN.key, [score_job(each, DiscoverySettings()) for each in says])
    return runs


async def written(place, jobs, *, more=True, all_columns=True):
    files = PostingFiles(place, roles=("cook",), all_columns=all_columns)
    rows = await files.write(await kept(jobs), RUN, enriched=more)
    return rows, {path.name: path.read_bytes() for path in place.iterdir()}


async def test_a_run_without_postings_has_files_that_say_so(tmp_path):
    rows, files = await written(tmp_path, [], all_columns=False)
    assert rows == 0
    assert files["jobs_enriched_20261116_013000.json"] == b"[]"
    for name, columns in (("discovered", JOB_COLUMNS), ("scored", SCORE_COLUMNS)):
        (line,) = files[f"jobs_{name}_20261116_013000.csv"].decode().splitlines()
        assert line == ",".join(columns)


titles = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=40)
@given(
    titles=st.lists(
        titles | st.sampled_from(["=1+1", "@x", "\t-2", "'a", "a\r\nb", '"']), max_size=5
    )
)
async def test_whatever_postings_say_it_is_harmless_and_can_be_read_back(tmp_path_factory, titles):
    place = tmp_path_factory.mktemp("files")
    jobs = [job(nth, title) for nth, title in enumerate(titles)]
    _, files = await written(place, jobs)
    text = files["jobs_discovered_20261116_013000.csv"].decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))

    assert not any(row["title"].startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows)
    assert {row["id"]: row["title"].removeprefix("'") for row in rows} == {
        each.id: each.title for each in jobs
    }
    assert b"<" not in files["jobs_enriched_20261116_013000.json"]
    assert len(json.loads(files["jobs_enriched_20261116_013000.json"])) == len(jobs)


async def test_many_pages_are_one_file_in_id_order(tmp_path):
    jobs = [job(nth) for nth in range(2_500)]
    rows, files = await written(tmp_path, jobs)
    _, again = await written(tmp_path / "again", jobs[::-1])

    assert rows == 7_500
    assert files == again
    scored = csv.DictReader(io.StringIO(files["jobs_scored_20261116_013000.csv"].decode()))
    found = list(scored)
    assert [row["id"] for row in found] == sorted(each.id for each in jobs)
    assert {(row["title"], row["bucket"]) for row in found} == {("Cook", "weak")}


class Breaking:
    """Runs that can be read up to a point."""

    async def list_jobs(self, at, *, after="", limit=1000):
        if after:
            raise TransientError("the store is away")
        return [job(nth) for nth in range(limit)]


async def test_a_file_that_cannot_be_finished_is_not_there_at_all(tmp_path):
    with pytest.raises(TransientError):
        await PostingFiles(tmp_path).write(Breaking(), RUN, enriched=False)
    assert list(tmp_path.iterdir()) == []


async def test_files_have_exactly_the_columns_that_scripts_know(tmp_path):
    posted = datetime(2026, 11, 14, 23, 30, tzinfo=UTC)
    cook = job(1, "Senior Cook", company="Acme", location="Remote", posted_at=posted)
    _, files = await written(tmp_path, [cook], all_columns=False)
    known = "title,location,company,source,url,posted_date"
    one = "Senior Cook,Remote,Acme,lever,https://a.test/1,2026-11-14"
    assert files["jobs_discovered_20261116_013000.csv"].decode() == f"{known}\r\n{one}\r\n"
    header, row = files["jobs_scored_20261116_013000.csv"].decode().splitlines()
    assert header == f"{known},score,bucket"
    assert row == f"{one},0.2,weak"
    text = files["jobs_enriched_20261116_013000.json"].decode()
    assert " " not in text.replace("Senior Cook", "")
    assert json.loads(text) == [
        {
            "title": "Senior Cook",
            "location": "Remote",
            "company": "Acme",
            "source": "lever",
            "url": "https://a.test/1",
            "posted_date": "2026-11-14",
            "normalized_title": "cook",
            "seniority": "senior",
            "stack_tags": [],
            "role_tags": ["cook"],
            "remote_friendly": True,
        }
    ]


async def test_further_columns_follow_when_they_are_asked_for(tmp_path):
    _, files = await written(tmp_path, [job(1)])
    header = files["jobs_discovered_20261116_013000.csv"].decode().splitlines()[0]
    assert header.endswith("posted_date,id,posted_at")
    header = files["jobs_scored_20261116_013000.csv"].decode().splitlines()[0]
    assert header.endswith("score,bucket,id,role_fit,stack,remote")
