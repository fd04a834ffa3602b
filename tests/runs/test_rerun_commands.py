"""Doing a run again, and asking one to stop, at a terminal; every kind of run there is."""

import asyncio
import json
from datetime import timedelta

import pytest

from night_desk import Desk, small_internet
from stoker.app import build_scheduler, open_app, read_settings, system_clock
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.cli.main import main
from stoker.runs.commands import START_COMMANDS
from stoker.runs.leases import acquire_lease
from stoker.runs.model import Run, RunKey, RunState

NOW = system_clock().now().replace(microsecond=0)
AT = NOW - timedelta(minutes=10)
NAME = f"{AT:%Y%m%d_%H%M%S}"


@pytest.fixture
def stoker(tmp_path, capsys):
    def ask(*words):
        code = main(["-C", str(tmp_path), "--log-level", "error", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


@pytest.fixture
def store(tmp_path):
    """Do something to the tenant's store, as another process would."""

    def act(scenario):
        async def whole():
            backend = SqliteBackend(tmp_path / "stoker.db")
            try:
                await backend.migrate()
                return await scenario(backend.tenant(TenantId("default")))
            finally:
                await backend.close()

        return asyncio.run(whole())

    return act


def a_run(kind="upkeep", state=RunState.RUNNING, *, lease_until=None):
    """A scenario that leaves a run; with a lease, somebody is at it until then."""
    begun = Run(key=RunKey(AT, 1), kind=kind)

    async def scenario(store):
        await store.runs.insert_run(begun)
        if state is not RunState.RUNNING:
            await store.runs.finish_run(begun.end(state, at=NOW, reason="so it was"))
        if lease_until is not None:
            held = acquire_lease(
                f"run/{kind}", None, owner="x", task="", now=lease_until, length=timedelta(0)
            )
            await store.schedule.swap_lease(None, held)

    return scenario


# Doing a run again


@pytest.mark.parametrize(
    ("words", "kind"), [(("upkeep",), "upkeep"), (("heat", "sweep"), "sweep"),
                        (("pulls", "plan"), "plan"), (("pulls", "run"), "pulls")]
)  # fmt: skip
def test_a_run_is_done_again_by_the_command_that_starts_its_kind(stoker, words, kind):
    first = stoker(*words, "--json")
    _, listed, _ = stoker("runs", "list", "--json")
    [run] = json.loads(listed)
    assert run["kind"] == kind

    again = stoker("runs", "rerun", run["run"], "--json")

    assert (again[0], again[2]) == (first[0], first[2])
    told, before = json.loads(again[1]), json.loads(first[1])
    assert [each.keys() for each in told] == [each.keys() for each in before]
    _, listed, _ = stoker("runs", "list", "--json")
    assert [each["kind"] for each in json.loads(listed)] == [kind, kind]


def test_a_discovery_is_done_again(stoker, tmp_path):
    postings = tmp_path / "jobs.csv"
    postings.write_text("url,title,company\nhttps://acme.test/1,Engineer,Acme\n")
    (tmp_path / "stoker.toml").write_text(f'discovery.sources = ["file:{postings}"]\n')
    code, out, _ = stoker("discover", "--json")
    [first] = json.loads(out)

    again, out, _ = stoker("runs", "rerun", first["run"], "--json")

    [told] = json.loads(out)
    assert (code, again) == (0, 0)
    assert (first["kept"], told["kept"]) == (1, 1)
    assert told["run"] != first["run"]


async def test_every_kind_of_run_can_be_done_again(tmp_path):
    """Every kind of task that an app can make, and the plan that only a command makes."""
    (tmp_path / "stoker.toml").write_text(
        'discovery.sources = ["file:x.csv"]\ndiscovery.scheduled = true\npulls.scheduled = true\n'
    )
    own = read_settings(directory=tmp_path, config=None, flags={}, environment={})

    async with open_app(own) as app:
        whose = tuple(tenant.id for tenant in app.settings.tenants)
        assert {task.name for task in build_scheduler(app, whose, nights=whose).tasks} | {
            "plan"
        } == START_COMMANDS.keys()


@pytest.fixture(scope="module")
def box():
    with small_internet() as running:
        yield running


def test_a_night_done_again_takes_what_is_missing_or_with_again_everything(tmp_path, capsys, box):
    desk = Desk(tmp_path, capsys, box).set_up("acme")
    code, [first] = desk.told("nightly", "--limit", "3")
    chosen = first["manifest"]["selected"]
    missing = len(chosen) - first["manifest"]["counts"]["units_done"]

    _, [rest] = desk.told("runs", "rerun", first["run"])
    assert set(rest["manifest"]["selected"]) < set(chosen)
    assert len(rest["manifest"]["selected"]) == missing
    code, [whole] = desk.told("runs", "rerun", first["run"], "--again")
    assert code in (0, 3)
    assert whole["manifest"]["selected"] == chosen


def test_a_run_that_is_going_on_is_not_done_again(stoker, store):
    store(a_run(lease_until=NOW + timedelta(hours=1)))
    code, out, err = stoker("runs", "rerun", NAME)
    assert (code, out) == (6, "")
    assert err == (
        f"stoker: run {NAME} of default is still running; cancel it first: "
        f"stoker runs cancel {NAME} --tenant default\n"
    )


@pytest.mark.parametrize(
    ("kind", "words", "why"),
    [
        ("nightly", (), "selected no companies"),
        ("upkeep", ("--again",), "--again is for nightly runs"),
        ("homework", (), "is of kind homework, which no command starts"),
    ],
)
def test_what_cannot_be_done_again_is_told_in_a_line_and_nothing_is_started(
    stoker, store, kind, words, why
):
    store(a_run(kind, RunState.DONE))
    code, out, err = stoker("runs", "rerun", NAME, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err
    assert len(json.loads(stoker("runs", "list", "--json")[1])) == 1


@pytest.mark.parametrize("verb", ["rerun", "cancel"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("20200101_000000", "default has no run 20200101_000000"),
        ("latest", "default has no run latest"),
        ("yesterday", "'yesterday' does not name a run; names look like 20260207_013000"),
    ],
)
def test_a_run_there_is_not_is_told_in_a_line(stoker, verb, name, why):
    code, out, err = stoker("runs", verb, name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err


# Asking one to stop


def test_a_run_under_way_is_asked_and_shown_so(stoker, store):
    store(a_run(lease_until=NOW + timedelta(hours=1)))
    code, out, _ = stoker("runs", "cancel", NAME)
    assert code == 0
    assert f"stoker runs show {NAME} --tenant default\n" in out

    _, shown, _ = stoker("runs", "show", NAME)
    told = json.loads(stoker("runs", "show", NAME, "--json")[1])
    assert told["cancel_request"]["by"] in shown
    assert told["state"] == "RUNNING"


def test_a_run_whose_process_is_gone_is_cancelled_at_once_and_once(stoker, store):
    store(a_run(lease_until=NOW - timedelta(minutes=5)))
    code, out, _ = stoker("runs", "cancel", NAME, "--json")
    told = json.loads(out)
    assert (code, told["state"], told["process_gone"]) == (0, "CANCELLED", True)
    before = stoker("runs", "show", NAME, "--json")[1]
    assert json.loads(before)["reason"].startswith("cancelled by ")

    code, out, _ = stoker("runs", "cancel", NAME, "--json")
    assert (code, json.loads(out)["process_gone"]) == (0, False)
    assert stoker("runs", "show", NAME, "--json")[1] == before


def test_a_run_that_has_ended_is_left_as_it_is(stoker, store):
    store(a_run(state=RunState.PARTIAL))
    before = stoker("runs", "show", NAME, "--json")[1]
    code, out, _ = stoker("runs", "cancel", NAME, "--json")
    told = json.loads(out)
    assert (code, told["state"], told["reason"]) == (0, "PARTIAL", "so it was")
    assert (told["asked_by"], told["process_gone"]) == (None, False)
    assert stoker("runs", "show", NAME, "--json")[1] == before
