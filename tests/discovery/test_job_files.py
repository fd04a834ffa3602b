import csv
import io
import json
from datetime import UTC, datetime

import pytest

from stoker.base.errors import ConfigError
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.files import BATCH_SIZE, MAX_LINE_BYTES, read_job_file


async def batches(path, **more):
    return [batch async for batch in read_job_file(path, **more)]


async def read(path, data, **more):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    (only,) = await batches(path, **more)
    return only


async def test_columns_go_by_what_people_call_them(tmp_path):
    text = "\ufeffJob Title,Link,Employer,City,Date-Posted\r\nCook,https://a.test/1,A,SG,2026-11-01\r\n"
    (job,) = (await read(tmp_path / "jobs.csv", text)).jobs

    assert (job.title, job.url, job.company, job.location) == (
        "Cook",
        "https://a.test/1",
        "A",
        "SG",
    )
    assert job.posted_at == datetime(2026, 11, 1, tzinfo=UTC)


async def test_bad_rows_are_set_aside_with_their_line_and_reason(tmp_path):
    rows = [
        "title,url",
        "Cook,https://a.test/1",
        "Nowhere,javascript:alert(1)",
        ",https://a.test/2",
        "x" * (MAX_LINE_BYTES + 10),
        '"two\nlines",https://a.test/3',
        "short",
        "Last\0,https://a.test/4,more,than,there,are",
    ]
    found = await read(tmp_path / "jobs.csv", "\n".join(rows))

    assert [job.title for job in found.jobs] == ["Cook", "two lines", "Last"]
    assert [(each.where, each.reason) for each in found.rejects] == [
        ("line 3", "it has no web address"),
        ("line 4", "it has no title"),
        ("line 5", f"its line has more than {MAX_LINE_BYTES} bytes"),
        ("line 8", "it has no web address"),
    ]
    assert found.rejected == 4


async def test_json_lines_survive_every_bad_neighbour(tmp_path):
    good = {"title": "Cook", "url": "https://a.test/1", "posted_at": 1793556000000}
    lines = [
        json.dumps(good).encode(),
        b"{",
        b"[]",
        b'{"title": 3, "url": null}',
        b"x" * (MAX_LINE_BYTES + 10),
        b"[" * 100_000,
        b'{"a": 1, "a": 2}',
        b"\xff",
        b"",
        json.dumps({**good, "url": "https://a.test/2", "title": "\ud800Chef"}).encode(),
    ]
    found = await read(tmp_path / "jobs.jsonl", b"\n".join(lines), company="Acme")

    assert [job.title for job in found.jobs] == ["Cook", "\ufffdChef"]
    assert {job.company for job in found.jobs} == {"Acme"}
    assert found.jobs[0].posted_at == datetime(2026, 11, 1, 18, tzinfo=UTC)
    assert [each.where for each in found.rejects] == [f"line {nth}" for nth in range(2, 9)]


async def test_a_file_that_cannot_be_meant_is_said_so(tmp_path):
    for name, data in [("a.txt", "x"), ("b.csv", "name,age\nx,1\n")]:
        with pytest.raises(ConfigError):
            await read(tmp_path / name, data)
    with pytest.raises(ConfigError):
        await batches(tmp_path / "none.csv")


async def test_a_long_file_comes_batch_by_batch_and_in_its_order(tmp_path):
    many = 2 * BATCH_SIZE + 7
    rows = "".join(f"Job {nth},https://a.test/{nth}\n" for nth in range(many))
    (tmp_path / "jobs.csv").write_text(f"title,url\n{rows}")
    found = await batches(tmp_path / "jobs.csv")

    assert [len(batch.jobs) for batch in found] == [BATCH_SIZE, BATCH_SIZE, 7]
    titles = [job.title for batch in found for job in batch.jobs]
    assert titles == [f"Job {nth}" for nth in range(many)]


async def test_an_empty_file_lists_nothing(tmp_path):
    (tmp_path / "jobs.csv").write_text("title,url\n")
    (tmp_path / "jobs.jsonl").write_text("")
    assert await batches(tmp_path / "jobs.csv") == await batches(tmp_path / "jobs.jsonl") == []


@pytest.mark.parametrize(("said", "remote"), [("yes", True), ("Remote", True), ("hybrid", False)])
async def test_texts_are_looked_at_and_a_files_own_word_on_remote_counts(tmp_path, said, remote):
    text = f"title,url,description,remote\nCook,https://a.test/1,We use Python,{said}\n"
    (listing,) = (await read(tmp_path / "jobs.csv", text)).listings
    assert (listing.enriched.stack, listing.enriched.remote) == (("python",), remote)


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.jsonl"])
async def test_of_a_very_long_cell_only_so_much_is_looked_at(tmp_path, name):
    long = "x " * (MAX_TEXT_LENGTH // 2)
    rows = [
        {"title": "Cook", "url": "https://a.test/1", "description": f"Python {long} Kotlin"},
        {"title": "Cook", "url": "https://a.test/" + "2" * 5_000, "description": ""},
        {"title": "y" * 5_000, "url": "https://a.test/3", "description": ""},
    ]
    text = io.StringIO()
    if name == "jobs.csv":
        writer = csv.DictWriter(text, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    else:
        text.writelines(f"{json.dumps(row)}\n" for row in rows)
    found = await read(tmp_path / name, text.getvalue())

    assert [each.enriched.stack for each in found.listings] == [("python",), ()]
    assert [each.reason for each in found.rejects] == ["it has no web address"]  # cut is not whole
