import asyncio
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stoker.backends.json import JsonBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError, TransientError
from stoker.base.types import EnrichedJob, Job, JobScore, TenantId
from stoker.files.durable import FileLock
from stoker.ledger.chain import NewEntry
from stoker.runs.model import CancelRequest, Manifest, Run, RunKey, RunState, StorageSize

AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = AT + timedelta(days=1)
KEY = RunKey(AT, 1)
ACME = TenantId("acme")
DATA = Path(__file__).parents[1] / "data"


def run(awaitable):
    return asyncio.run(awaitable)


def backend_in(folder, **options):
    return JsonBackend(folder, **options)


def runs_in(folder, **options):
    return backend_in(folder, **options).tenant(ACME).runs


def postings(count, *, source="board"):
    return [Job.create(source=source, url=f"https://{n}", title=f"Job {n}") for n in range(count)]


def by_id(jobs):
    return sorted(jobs, key=lambda job: job.id)


def running(key=KEY, kind="discovery"):
    return Run(key=key, kind=kind)


def ended(key=KEY, kind="discovery", **more):
    return running(key, kind).end(RunState.DONE, at=key.at + timedelta(hours=1), **more)


def troubles(folder):
    checks = run(backend_in(folder).checks())
    return [check.detail for check in checks if check.what == "json files" and not check.ok]


@pytest.fixture
def started(tmp_path):
    """A folder with a run that has three postings and is still going."""
    store = runs_in(tmp_path)
    run(store.insert_run(running()))
    run(store.insert_jobs(KEY, postings(3)))
    return tmp_path


@pytest.fixture
def home(started):
    """The same run's own folder."""
    return started / "acme" / "runs" / "20300101_120000"


def test_a_run_is_a_folder_named_by_its_timestamp_with_one_file_for_each_kind_of_row(started, home):
    store = runs_in(started)
    [job, *_] = postings(1)
    run(store.insert_enriched(KEY, [EnrichedJob(job=job.id, title="engineer", stack=("go",))]))
    run(store.insert_scores(KEY, [JobScore(job=job.id, score=0.5, bucket="moderate")]))
    run(store.finish_run(ended()))

    files = sorted(path.name for path in home.iterdir())

    assert files == [
        "enriched.chain",
        "enriched.jsonl",
        "jobs.chain",
        "jobs.jsonl",
        "scores.chain",
        "scores.jsonl",
        "summary.json",
    ]


async def test_the_same_run_written_twice_gives_the_same_bytes(tmp_path):
    for folder in (tmp_path / "one", tmp_path / "other"):
        store = runs_in(folder)
        await store.insert_run(running())
        await store.insert_jobs(KEY, postings(3))
        await store.finish_run(ended(manifest=Manifest(counts={"b": 1, "a": 2})))

    contents = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json*")}
        for folder in (tmp_path / "one", tmp_path / "other")
    ]
    assert contents[0] == contents[1]


def test_a_runs_file_is_indented_and_sorted_for_people_to_compare(home):
    text = (home / "summary.json").read_text(encoding="ascii")

    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_the_index_tells_of_every_run_and_is_made_anew_when_it_is_missing(started):
    index = started / "acme" / "index.json"
    before = index.read_bytes()
    index.unlink()

    assert run(runs_in(started).list_runs(kind="discovery")) == [running()]
    run(runs_in(started).insert_jobs(KEY, []))

    assert index.read_bytes() == before
    assert json.loads(before)["runs"]["20300101_120000"]["state"] == "RUNNING"


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"format": 1}', b"\xff", b"[" * 100_000],
    ids=["empty", "cut", "a list", "no runs", "not text", "deep"],
)
def test_a_damaged_index_is_set_aside_and_reported_and_never_written_over(started, damage):
    index = started / "acme" / "index.json"
    before = index.read_bytes()
    index.write_bytes(damage)

    assert run(runs_in(started).list_runs(kind="discovery")) == [running()]
    assert any("index.json is damaged" in trouble for trouble in troubles(started))
    run(runs_in(started).insert_jobs(KEY, []))

    [aside] = index.parent.glob("index.json.damaged-*")
    assert aside.read_bytes() == damage
    assert index.read_bytes() == before
    assert any(str(aside) in trouble for trouble in troubles(started))


def test_an_index_damaged_while_a_writer_is_at_work_is_not_written_over_either(started):
    store = runs_in(started)
    run(store.insert_jobs(KEY, []))
    index = started / "acme" / "index.json"
    index.write_bytes(b"damaged")

    run(store.finish_run(ended()))

    assert [aside.read_bytes() for aside in index.parent.glob("*.damaged-*")] == [b"damaged"]
    assert list(json.loads(index.read_bytes())["runs"]) == ["20300101_120000"]


def test_an_index_that_missed_a_runs_end_is_put_right_at_the_next_start(started):
    index = started / "acme" / "index.json"
    stale = index.read_bytes()
    run(runs_in(started).finish_run(ended()))
    current = index.read_bytes()
    index.write_bytes(stale)

    run(runs_in(started).delete_runs([]))

    assert index.read_bytes() == current


def test_a_request_to_stop_is_a_file_people_can_read_beside_its_run(started, home):
    before = (home / "summary.json").read_bytes()
    run(runs_in(started).request_cancel(AT, CancelRequest(by="ann", at=LATER)))
    assert json.loads((home / "cancel.json").read_text()) == {
        "format": 1,
        "by": "ann",
        "at": "2030-01-02T12:00:00+00:00",
    }
    assert (home / "summary.json").read_bytes() == before
    assert troubles(started) == []


@pytest.mark.parametrize(
    "damage",
    ["", "[]", "{}", '{"format": 1}', '{"format": 1, "by": "x", "at": "noon"}', '{"format": 9}'],
)
def test_a_request_that_cannot_be_understood_is_named_and_kept(started, home, damage):
    (home / "cancel.json").write_text(damage)
    store = runs_in(started)
    for verb in (
        store.find_cancel_request(AT),
        store.request_cancel(AT, CancelRequest(by="ann", at=LATER)),
    ):
        with pytest.raises(ConfigError, match=r"20300101_120000/cancel\.json"):
            run(verb)
    assert (home / "cancel.json").read_text() == damage
    assert len(troubles(started)) == 1
    run(store.finish_run(ended()))  # that a run comes to its end does not hang on it


@pytest.mark.faults
@pytest.mark.parametrize("damage", [b"", b"{}", b"null", b"not json", b'{"format": 1, "x": 2}'])
def test_a_damaged_run_is_named_in_one_line_and_the_others_stay_readable(started, home, damage):
    store = runs_in(started)
    run(store.insert_run(running(RunKey(LATER, 2))))
    (home / "summary.json").write_bytes(damage)

    with pytest.raises(ConfigError, match=r"20300101_120000/summary\.json is damaged"):
        run(store.find_run(AT))
    with pytest.raises(ConfigError, match="backup"):
        run(store.insert_jobs(KEY, postings(4)))

    assert run(store.list_runs()) == [running(RunKey(LATER, 2))]
    assert len(troubles(started)) == 1


def test_a_folder_that_was_copied_under_another_name_is_not_taken_for_another_run(started, home):
    shutil.copytree(home, home.with_name("20300102_120000"))

    with pytest.raises(ConfigError, match="it belongs to run 20300101_120000"):
        run(runs_in(started).find_run(LATER))
    assert run(runs_in(started).list_runs()) == [running()]


def test_a_file_of_a_newer_stoker_is_refused_and_left_as_it_is(started, home):
    for path in (home / "summary.json", started / "acme" / "index.json"):
        path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    before = (home / "summary.json").read_bytes()

    with pytest.raises(ConfigError, match="newer than this Stoker knows"):
        run(runs_in(started).find_run(AT))
    with pytest.raises(ConfigError, match="upgrade Stoker, nothing was changed"):
        run(runs_in(started).finish_run(ended()))

    assert (home / "summary.json").read_bytes() == before
    assert troubles(started)


@pytest.mark.faults
def test_a_batch_cut_at_any_byte_is_gone_as_a_whole_and_the_run_goes_on(started, home):
    path = home / "jobs.jsonl"
    kept = len(path.read_bytes())
    run(runs_in(started).insert_jobs(KEY, postings(6)))
    content = path.read_bytes()
    cuts = range(kept + 1, len(content), 40)

    for cut in cuts:
        path.write_bytes(content[:cut])
        store = runs_in(started)
        assert run(store.list_jobs(AT)) == by_id(postings(3))
        assert any("never finished" in trouble for trouble in troubles(started))

        assert run(store.insert_jobs(KEY, postings(6))) == 3

        assert run(store.list_jobs(AT)) == by_id(postings(6))
        [aside] = home.glob("jobs.jsonl.torn-*")
        assert aside.read_bytes() == content[kept:cut]
        assert any(str(aside) in trouble for trouble in troubles(started))
        aside.unlink()


def test_an_end_also_closes_over_a_torn_batch(started, home):
    path = home / "jobs.jsonl"
    path.write_bytes(path.read_bytes() + b'{"half')

    run(runs_in(started).finish_run(ended()))

    assert run(runs_in(started).list_jobs(AT)) == by_id(postings(3))
    assert [aside.read_bytes() for aside in home.glob("*.torn-*")] == [b'{"half']


@pytest.mark.faults
@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b.replace(b"Job 1", b"Job 9"), None]
)
def test_rows_changed_after_their_run_ended_are_noticed_by_readers_and_checks(
    started, home, change
):
    run(runs_in(started).finish_run(ended()))
    path = home / "jobs.jsonl"
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()

    with pytest.raises(ConfigError, match=r"jobs\.jsonl was changed after its run"):
        run(runs_in(started).list_jobs(AT))
    assert any("jobs.jsonl" in trouble for trouble in troubles(started))


def test_what_a_crash_left_unfinished_is_no_run_and_is_swept_up_by_the_next_writer(started, home):
    beside = home.parent / ".20300102_120000.tmp"
    beside.mkdir()
    leftovers = [
        beside / "summary.json",
        home / ".summary.json.tmp",
        started / "acme" / ".index.json.tmp",
    ]
    for path in leftovers:
        path.write_text("half")

    assert run(runs_in(started).list_runs()) == [running()]
    assert all(path.exists() for path in leftovers), "a reader changes nothing"
    run(runs_in(started).insert_run(running(RunKey(LATER, 1))))

    assert not list(started.rglob("*.tmp"))


def test_a_prune_stopped_half_way_is_wholly_done_for_readers_and_finished_by_the_next_writer(
    started,
):
    store = runs_in(started)
    run(store.finish_run(ended()))
    run(store.insert_run(running(RunKey(LATER, 1))))
    run(store.finish_run(ended(RunKey(LATER, 1))))
    pending = started / "acme" / "prune.json"
    pending.write_text('{"runs": ["20300101_120000", "20300102_120000"]}')

    assert run(runs_in(started).list_runs()) == []
    assert run(runs_in(started).find_run(AT)) is None
    assert run(runs_in(started).list_jobs(AT)) == []
    run(runs_in(started).insert_run(running(kind="upkeep")))

    assert run(runs_in(started).list_runs()) == [running(kind="upkeep")]
    assert run(runs_in(started).list_runs(kind="discovery")) == []
    assert not pending.exists()


def test_pruning_says_how_many_rows_and_bytes_went(started, home):
    store = runs_in(started)
    run(store.finish_run(ended()))
    size = sum(path.stat().st_size for path in home.iterdir())

    weight = run(store.measure_runs([AT, LATER]))

    assert weight == StorageSize(runs=1, rows=4, bytes=size)
    assert run(store.delete_runs([AT, LATER])) == weight
    assert not home.exists()
    assert run(store.delete_runs([AT])) == StorageSize()


def test_a_path_that_is_a_file_is_refused_for_reading_and_for_writing(tmp_path):
    path = tmp_path / "data"
    path.write_text("something else")

    for verb in (
        runs_in(path).insert_run(running()),
        runs_in(path).find_run(AT),
        runs_in(path).list_runs(),
    ):
        with pytest.raises(ConfigError, match=r"data.* cannot be used"):
            run(verb)

    assert path.read_text() == "something else"
    assert troubles(path)


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a folder nobody may write in")
async def test_a_folder_that_cannot_be_written_is_refused_in_one_line():
    folder = Path("/sys/kernel/stoker")

    with pytest.raises(ConfigError, match="make its folder writable"):
        await runs_in(folder).insert_run(running())

    assert await runs_in(folder).list_runs() == []


@pytest.mark.faults
def test_on_a_full_disk_nothing_is_written_and_later_the_same_batch_goes_in(started):
    program = """
import asyncio, resource, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
from test_json_store import KEY, ended, postings, run, runs_in
from stoker.base.errors import TransientError
store = runs_in(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for verb in (store.insert_jobs(KEY, postings(50)), store.finish_run(ended(reason="x" * 3000))):
    try:
        run(verb)
    except TransientError as error:
        print(error)
"""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", program, str(started), here]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said.count("the disk is full") == 2
    assert troubles(started) == []
    assert run(runs_in(started).list_jobs(AT)) == by_id(postings(3))
    assert run(runs_in(started).find_run(AT)) == running()
    assert run(runs_in(started).insert_jobs(KEY, postings(50))) == 47


@pytest.mark.faults
def test_processes_writing_into_one_run_at_once_lose_and_repeat_nothing(started):
    program = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
from test_json_store import KEY, postings, run, runs_in
store = runs_in(Path(sys.argv[1]))
print(sum(run(store.insert_jobs(KEY, postings(10 * n))) for n in range(1, 11)))
"""
    command = [sys.executable, "-c", program, str(started), str(Path(__file__).parent)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    new = sum(int(writer.communicate()[0]) for writer in writers)

    assert new == 97
    assert run(runs_in(started).list_jobs(AT)) == by_id(postings(100))
    assert troubles(started) == []


def test_tasks_writing_at_once_in_one_process_lose_and_repeat_nothing(started):
    async def all_at_once():
        store, other = runs_in(started), runs_in(started)
        both = [s.insert_jobs(KEY, postings(20)[n:]) for n in range(20) for s in (store, other)]
        return sum(await asyncio.gather(*both)), await store.list_jobs(AT)

    new, jobs = run(all_at_once())

    assert (new, jobs) == (17, by_id(postings(20)))


def test_a_writer_kept_out_too_long_is_told_to_try_later_while_readers_go_on(started):
    async def meanwhile():
        store = runs_in(started, patience=timedelta(0))
        with FileLock(started / "acme" / ".lock", patience=timedelta(0)).acquire():
            with pytest.raises(TransientError, match="try again later"):
                await store.insert_jobs(KEY, postings(4))
            return await store.list_jobs(AT)

    assert run(meanwhile()) == by_id(postings(3))


async def test_everything_but_runs_is_in_the_database_beside_the_files(tmp_path):
    backend, database = backend_in(tmp_path), SqliteBackend(tmp_path / "schedule.db")
    entry = NewEntry(at=AT, kind="NOTE", subject="a", reason="b", data={})
    await backend.migrate()
    await backend.tenant(ACME).ledger.append([entry])
    await backend.close()

    assert len(await database.tenant(ACME).ledger.list_entries()) == 1
    await database.close()


def test_a_folder_that_is_no_tenants_does_not_trouble_the_checks(started):
    (started / "Old Backup" / "runs").mkdir(parents=True)

    assert troubles(started) == []


def test_a_tenants_id_cannot_lead_out_of_the_folder(tmp_path):
    with pytest.raises(ConfigError, match="not a tenant id"):
        backend_in(tmp_path).tenant(TenantId("../acme"))


async def test_a_run_folder_of_the_version_before_is_read_as_it_was(tmp_path):
    shutil.copytree(DATA / "run_before", tmp_path / "acme" / "runs" / "20260205_010000")
    runs = JsonBackend(tmp_path).tenant(TenantId("acme")).runs
    [run] = await runs.list_runs()
    assert (run.name, run.state) == ("20260205_010000", RunState.DONE)
    assert [job.title for job in await runs.list_jobs(run.at)] == ["Data Engineer", "Cook"]
    assert runs.list_problems() == []
    [path] = (tmp_path / "acme" / "runs").iterdir()
    assert sorted(each.name for each in path.iterdir()) == ["jobs.jsonl", "run.json"]
