import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.app import system_clock
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.cli.main import main
from stoker.cli.output import CommandContext
from stoker.ledger.chain import NewEntry
from stoker.runs.leases import acquire_lease, get_lease_name
from stoker.runs.model import Run, RunKey
from stoker.scheduling.commands import run_daemon
from stoker.scheduling.model import OccurrenceResult, OccurrenceState
from stoker.tenants.model import Tenant

TWO_TENANTS = """
[scheduling]
cron = "0 1 * * *"
timezone = "Asia/Singapore"

[tenants.merlion]
[tenants.hudson]
timezone = "America/New_York"
scheduling.cron = "30 2 * * *"
"""


@pytest.fixture
def stoker(tmp_path, capsys):
    """Run a command in a directory of its own; return its exit code, output and complaints."""
    (tmp_path / "stoker.toml").write_text(TWO_TENANTS)

    def ask(*words):
        code = main(["-C", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


def test_the_preview_shows_each_tenants_instants_in_utc_and_on_its_own_wall(stoker):
    code, out, _ = stoker("schedule", "next", "--count", "2", "--after", "2026-03-07", "--json")

    assert code == 0
    assert [(line["tenant"], line["instant"]) for line in json.loads(out)] == [
        ("hudson", "2026-03-07T07:30:00+00:00"),
        ("hudson", "2026-03-08T07:00:00+00:00"),
        ("merlion", "2026-03-07T17:00:00+00:00"),
        ("merlion", "2026-03-08T17:00:00+00:00"),
    ]


def test_a_night_on_which_clocks_change_is_marked(stoker):
    _, out, _ = stoker("schedule", "next", "--tenant", "hudson", "--after", "2026-03-07")

    assert "clocks change by +1 h this day" in out.splitlines()[2]


def test_what_is_due_is_run_once_for_each_tenant_and_then_nothing_is_due(stoker):
    code, out, _ = stoker("schedule", "run", "--once", "--json")

    assert code == 0
    assert [run["state"] for run in json.loads(out)] == ["DONE", "DONE"]
    assert stoker("schedule", "run", "--once")[1] == "Nothing is due.\n"


async def noted_far_ahead(directory):
    backend = SqliteBackend(directory / "stoker.db")
    for tenant in ("hudson", "merlion"):
        note = NewEntry(at=datetime(2999, 1, 1, tzinfo=UTC), kind="X", subject="x", reason="")
        await backend.tenant(TenantId(tenant)).ledger.append([note])
    await backend.close()


def test_a_tenant_that_could_not_be_attended_to_is_told_by_the_exit_code(stoker, tmp_path):
    stoker("schedule", "run", "--once")
    asyncio.run(noted_far_ahead(tmp_path))

    code, out, err = stoker("schedule", "run", "--once")

    assert (code, out) == (6, "Nothing was started; the log says why.\n")
    assert "ClockWentBack" in err
    assert stoker("doctor")[0] == 1

    assert stoker("schedule", "accept-clock")[1] == "The clock is accepted for 2 tenants.\n"
    assert stoker("schedule", "run", "--once")[:2] == (0, "Nothing is due.\n")


def test_a_schedule_that_was_kept_passes_its_audit(stoker):
    stoker("schedule", "run", "--once")

    code, out, _ = stoker("schedule", "audit", "--json")

    assert code == 0
    answer = json.loads(out)
    assert {finding["finding"] for finding in answer["findings"]} == {"RAN"}
    assert answer["problems"] == 0


async def killed_in_the_middle(path, kind, *, hours=1):
    """Leave a run of merlion behind as a process does that was killed hours ago."""
    backend, at = SqliteBackend(path), system_clock().now().replace(microsecond=0)
    store, at = backend.tenant(TenantId("merlion")), at - timedelta(hours=hours)
    lease = acquire_lease(
        get_lease_name(kind), None, owner="dead", task="", now=at, length=timedelta(seconds=30)
    )
    slot = OccurrenceResult(
        schedule=kind, due_at=at, state=OccurrenceState.STARTED, decided_at=at, run_at=at
    )
    await store.schedule.swap_lease(None, lease)
    await store.runs.insert_run(Run(key=RunKey(at, 1), kind=kind, instant=at))
    await store.schedule.record_result(slot, fence=lease)
    await backend.close()


def test_an_audit_does_not_believe_a_run_that_says_running_without_a_process(stoker, tmp_path):
    stoker("db", "migrate")
    asyncio.run(killed_in_the_middle(tmp_path / "stoker.db", "nightly"))

    code, out, _ = stoker("schedule", "audit", "--tenant", "merlion", "--json")

    assert code == 1
    [finding] = json.loads(out)["findings"]
    assert finding["finding"] == "FAILED"
    assert "stoker db maintain" in finding["why"]


def test_upkeep_by_hand_closes_runs_of_every_kind_whose_process_was_killed(stoker, tmp_path):
    stoker("db", "migrate")
    for hours, kind in enumerate(["nightly", "upkeep", "discovery"], start=1):
        asyncio.run(killed_in_the_middle(tmp_path / "stoker.db", kind, hours=hours))

    assert stoker("upkeep", "--tenant", "merlion")[0] == 0

    _, out, _ = stoker("runs", "list", "--tenant", "merlion", "--json")
    states = sorted((run["kind"], run["state"]) for run in json.loads(out))
    assert states == [
        ("discovery", "FAILED"),
        ("nightly", "FAILED"),
        ("upkeep", "DONE"),
        ("upkeep", "FAILED"),
    ]


async def test_a_daemon_learns_of_tenants_that_are_added_while_it_runs(tmp_path):
    store = SqliteBackend(tmp_path / "stoker.db")

    async def until(tenant):
        while not await store.tenant(TenantId(tenant)).runs.list_runs(limit=1):
            await asyncio.sleep(0.02)

    stopping, soon = asyncio.Event(), timedelta(milliseconds=20)
    asked = CommandContext(directory=tmp_path)
    await store.migrate()
    await store.directory().save_tenant(Tenant(id=TenantId("acme")))
    daemon = asyncio.create_task(run_daemon(asked, (), stopping, look_again=soon))
    await until("acme")
    await store.directory().save_tenant(Tenant(id=TenantId("bolt")))
    await until("bolt")
    stopping.set()
    await daemon
    runs = [await store.tenant(TenantId(name)).runs.list_runs() for name in ("acme", "bolt")]
    await store.close()
    assert all(runs)


async def test_a_daemon_of_named_tenants_ends_once_all_of_them_are_switched_off(tmp_path):
    store, named = SqliteBackend(tmp_path / "stoker.db"), ("acme", "bolt")
    acme, bolt = (Tenant(id=TenantId(name)) for name in named)
    await store.migrate()
    await store.directory().save_tenant(acme)
    await store.directory().save_tenant(replace(bolt, active=False))
    asked, soon = CommandContext(directory=tmp_path), timedelta(milliseconds=20)
    stopping = asyncio.Event()

    async def daemon():
        async with asyncio.timeout(120):
            await run_daemon(asked, named, stopping, look_again=soon)

    with pytest.raises(ConfigError, match="stoker tenants enable bolt"):
        await daemon()
    await store.directory().save_tenant(bolt)
    going = asyncio.create_task(daemon())
    while not await store.tenant(acme.id).runs.list_runs(limit=1):
        await asyncio.sleep(0.02)
    await store.directory().save_tenant(replace(bolt, active=False))
    await asyncio.wait({going}, timeout=0.5)
    assert not going.done()
    await store.directory().save_tenant(replace(acme, active=False))
    with pytest.raises(ConfigError, match="stoker tenants enable acme"):
        await going
    await store.close()


def test_upkeep_runs_for_one_tenant_by_hand(stoker):
    code, out, _ = stoker("upkeep", "--tenant", "hudson", "--json")

    [run] = json.loads(out)
    assert (code, run["kind"], run["state"], run["instant"]) == (0, "upkeep", "DONE", None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["schedule", "next", "--tenant", "acme"], "there is no tenant 'acme'"),
        (["schedule", "next", "--tenant", "No Such"], "is not a tenant id"),
        (["schedule", "next", "--after", "2026-02-07T01:30"], "has no time zone"),
        (["schedule", "next", "--after", "yesterday"], "is not a time"),
        (["schedule", "audit", "--from", "2026-02-08", "--to", "2026-02-07"], "is not before"),
        (["schedule", "next", "--count", "0"], "0 is not in the range"),
        (["--set", "scheduling.enabled=false", "schedule", "run", "--once"], "enabled is false"),
        (["--set", "scheduling.cron=0 0 31 2 *", "schedule", "next"], "scheduling.cron"),
    ],
)
def test_what_cannot_be_meant_is_answered_in_one_line(stoker, words, complaint):
    code, out, err = stoker(*words)

    assert (code, out) == (2, "")
    assert complaint in err
    assert err.startswith("stoker: ")
    assert len(err.splitlines()) == 1


def test_the_preview_of_an_interval_counts_from_the_last_run(stoker):
    every_hour = ["--set", "tenants.merlion.scheduling.mode=interval"]
    every_hour += ["--set", "tenants.merlion.scheduling.interval_minutes=60"]
    stoker(*every_hour, "schedule", "run", "--once", "--tenant", "merlion")
    _, out, _ = stoker(*every_hour, "schedule", "next", "--tenant", "merlion", "--json")
    ran = json.loads(stoker("runs", "list", "--tenant", "merlion", "--json")[1])[0]["instant"]

    first = datetime.fromisoformat(json.loads(out)[0]["instant"])

    assert first == datetime.fromisoformat(ran) + timedelta(hours=1)


def test_looking_makes_nothing(stoker, tmp_path):
    for words in (["runs", "list"], ["schedule", "next"], ["schedule", "audit"]):
        assert stoker(*words)[0] == 0

    assert [path.name for path in tmp_path.iterdir()] == ["stoker.toml"]


def test_a_clock_that_is_not_in_doubt_needs_nobody_to_vouch_for_it(stoker):
    stoker("schedule", "run", "--once")

    assert stoker("schedule", "accept-clock")[1] == "The clock was right already.\n"
