import asyncio
import json
from datetime import timedelta

import pytest

from faults.disks import make_read_only, memory_disk, why_no_memory_disk
from stoker.app import system_clock
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.cli.main import main
from stoker.runs.model import Manifest, Run, RunKey, RunState, StepTiming

RECENT = system_clock().now().replace(microsecond=0) - timedelta(hours=1)


def run(at, *, state=RunState.DONE, counts=None):
    manifest = Manifest(
        config_hash="c0ffee",
        counts=counts or {},
        steps=(StepTiming(step="check", seconds=0.5, items=6),),
    )
    begun = Run(key=RunKey(at, 1), kind="upkeep", manifest=manifest)
    return begun, begun.end(state, at=at + timedelta(seconds=90), reason="", manifest=manifest)


@pytest.fixture
def stoker(tmp_path, capsys):
    """A store with a hundred old runs and two recent ones, and a way to ask about it."""
    kept = [
        run(RECENT - timedelta(days=400 + age), counts={"pruned_runs": age}) for age in range(100)
    ]
    kept += [run(RECENT - timedelta(days=1), counts={"pruned_runs": 7}), run(RECENT)]

    async def fill():
        backend = SqliteBackend(tmp_path / "stoker.db")
        await backend.migrate()
        store = backend.tenant(TenantId("default"))
        await asyncio.gather(*(store.runs.insert_run(begun) for begun, _ in kept))
        await asyncio.gather(*(store.runs.finish_run(ended) for _, ended in kept))
        await backend.close()

    asyncio.run(fill())

    def ask(*words):
        code = main(["-C", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


def test_runs_are_listed_newest_first(stoker):
    _, out, _ = stoker("runs", "list", "--json", "--limit", "3")

    names = [line["run"] for line in json.loads(out)]
    assert names == sorted(names, reverse=True)
    assert names[0] == f"{RECENT:%Y%m%d_%H%M%S}"


def test_a_kind_without_runs_is_told_apart_from_one_that_there_is_not(stoker):
    assert stoker("runs", "list", "--kind", "nightly")[0] == 0
    assert stoker("runs", "list", "--kind", "nightly", "--json")[:2] == (0, "[]\n")
    for how in ([], ["--json"]):
        code, out, err = stoker("runs", "list", "--kind", "bogus", *how)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "no kind of run 'bogus'" in err


def test_a_run_is_shown_by_its_name_or_as_the_latest(stoker):
    by_name = stoker("runs", "show", f"{RECENT:%Y%m%d_%H%M%S}")

    assert by_name == stoker("runs", "show", "latest")
    assert "1 m 30 s" in by_name[1]


def test_a_run_that_went_on_with_a_dead_one_is_not_said_to_be_begun_by_hand(stoker, tmp_path):
    key = RunKey(RECENT + timedelta(minutes=5), 2)
    went_on = Run(key=key, kind="upkeep", manifest=Manifest(goes_on_with=RECENT))

    async def begin():
        backend = SqliteBackend(tmp_path / "stoker.db")
        await backend.tenant(TenantId("default")).runs.insert_run(went_on)
        await backend.close()

    asyncio.run(begin())

    assert stoker("runs", "list", "--limit", "1")[1].split()[-1] == "resumed"
    assert f"resumed {RECENT:%Y%m%d_%H%M%S}" in stoker("runs", "show", "latest")[1]


def test_two_runs_are_compared(stoker):
    one, other = f"{RECENT - timedelta(days=1):%Y%m%d_%H%M%S}", f"{RECENT:%Y%m%d_%H%M%S}"

    _, out, _ = stoker("runs", "compare", one, other, "--json")

    assert "counts.pruned_runs" in [line["what"] for line in json.loads(out)]


def test_a_run_does_not_differ_from_itself(stoker):
    assert stoker("runs", "compare", "latest", "latest", "--json")[1] == "[]\n"


def test_a_dry_run_says_of_every_run_why_it_stays_or_goes_and_removes_nothing(stoker):
    _, out, _ = stoker("prune", "--dry-run", "--json")

    [answer] = json.loads(out)
    assert (answer["runs"], answer["rows"]) == (72, 72)
    assert all(verdict["because"] for verdict in answer["verdicts"])
    assert len(answer["verdicts"]) == 102
    assert len(json.loads(stoker("runs", "list", "--json", "--limit", "0")[1])) == 102


def test_pruning_removes_what_the_dry_run_said(stoker):
    code, out, _ = stoker("--set", "retention.enabled=true", "prune", "--json")

    assert (code, json.loads(out)[0]["runs"]) == (0, 72)
    assert len(json.loads(stoker("runs", "list", "--json", "--limit", "200")[1])) == 30


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["prune"], "retention.enabled is false"),
        (["runs", "show", "20200101_000000"], "default has no run 20200101_000000"),
        (["runs", "show", "yesterday"], "does not name a run"),
        (["runs", "show", "20201301_000000"], "does not name a run"),
        (["runs", "shw"], "No such command"),
        (["runs", "list", "--limit", "many"], "is not a valid integer"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(stoker, words, complaint):
    code, out, err = stoker(*words)

    assert (code, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_store_without_runs_says_what_to_do(tmp_path, capsys):
    assert main(["-C", str(tmp_path), "runs", "list"]) == 0
    assert "stoker db maintain" in capsys.readouterr().out


@pytest.mark.skipif(bool(why_no_memory_disk()), reason=str(why_no_memory_disk()))
def test_a_store_that_cannot_be_written_to_can_still_be_looked_at(tmp_path, capsys):
    with memory_disk(tmp_path / "disk", size="128m") as disk:
        assert main(["-C", str(disk), "upkeep"]) == 0
        make_read_only(disk)
        capsys.readouterr()

        assert main(["-C", str(disk), "runs", "list"]) == 0
        assert "DONE" in capsys.readouterr().out
        assert main(["-C", str(disk), "upkeep"]) == 2
        complaint = capsys.readouterr().err

    assert "is read-only" in complaint
    assert len(complaint.splitlines()) == 1
