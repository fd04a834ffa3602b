"""SQLite and JSON files under kills, power cuts, full and failing disks, and damaged files.

Each fault is also tried on a naive twin: one that finds nothing there proves nothing.
"""

import shutil
import tempfile
from pathlib import Path

import pytest

from faults import damage, disks, refusals, trials

pytestmark = pytest.mark.faults

STORES = ["sqlite", "json"]


@pytest.mark.parametrize(("store", "steps", "least"), [("sqlite", 24, 120), ("json", 8, 80)])
def test_a_kill_at_any_durable_call_loses_nothing_acknowledged(
    tracing, report, store, steps, least
):
    sweep = trials.kill_sweep(tracing, store, steps=steps)
    tally = report(f"A1 {store}, kill at every durable call", sweep)
    assert tally.n >= least
    assert tally.broken == []


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("again", "n"), [(False, 50), (True, 10)])
def test_a_kill_at_a_random_moment_loses_nothing_acknowledged(
    workers, rng, report, store, again, n
):
    kills = trials.random_kills(workers, store, n=n, rng=rng, again=again)
    what = "A3 {}, killed again while recovering" if again else "A2 {}, random kills"
    tally = report(what.format(store), kills)
    assert tally.acked > 0
    assert tally.broken == []


# "durable replace" is the file that the JSON store replaces: its old content must not come back.
@pytest.mark.parametrize("store", [*STORES, "durable replace"])
def test_a_power_cut_loses_nothing_acknowledged(workers, any_disk, rng, report, store):
    cuts = trials.power_cuts(workers, any_disk, store, n=30, rng=rng)
    tally = report(f"A4 A5 {store}, power cuts on {any_disk.kind}", cuts)
    assert tally.acked > 0
    assert tally.broken == []


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    ("fault", "inject"),
    [
        ("A7 {}, disk full at a write", refusals.disk_full),
        ("A8 {}, fsync fails", refusals.failed_syncs),  # and that file is never synced again
        ("A8 {}, fsync fails while migrating", refusals.failed_migrations),
    ],
)
def test_a_disk_that_refuses_leaves_what_was_there_and_is_reported(
    tracing, report, store, fault, inject
):
    tally = report(fault.format(store), inject(tracing, store))
    assert tally.n > 0
    assert tally.broken == []


@pytest.mark.parametrize("store", STORES)
def test_a_full_disk_is_reported_and_can_be_read(workers, small_disks, tmp_path, report, store):
    with disks.memory_disk(tmp_path / "small", size="900k") as disk:
        tally = report(f"A7 {store}, a small disk", refusals.out_of_room(workers, disk, store))
    assert tally.acked > 0
    assert tally.broken == []


@pytest.mark.parametrize("store", STORES)
def test_a_read_only_disk_is_reported_and_can_be_read(
    workers, small_disks, tmp_path, report, store
):
    ground = trials.prepared(workers, store, steps=8)
    with disks.memory_disk(tmp_path / "disk", size="8m") as disk:
        path = shutil.copytree(ground, disk / "s")
        disks.make_read_only(disk)
        tally = refusals.refused_writes(workers, path, store)
    assert report(f"A9 {store}, read-only disk", tally).broken == []


@pytest.mark.parametrize("store", STORES)
def test_another_users_files_are_reported_and_can_be_read(workers, small_disks, report, store):
    ground = trials.prepared(workers, store, steps=8)
    with tempfile.TemporaryDirectory() as readable:  # tmp_path is closed to other users
        Path(readable).chmod(0o755)
        path = shutil.copytree(ground, Path(readable) / "s")
        closed = refusals.refused_openings(workers, path, store, user=65_534)
        for each in (path, *path.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        tally = refusals.refused_writes(workers, path, store, user=65_534)
    assert report(f"A9 {store}, another user's closed files", closed).broken == []
    assert report(f"A9 {store}, another user's files", tally).broken == []


@pytest.mark.parametrize("store", STORES)
def test_running_out_of_files_is_one_clear_line_and_loses_nothing(workers, report, store):
    tally = refusals.out_of_files(workers, store, most=9)
    assert report(f"A9 {store}, too many open files", tally).broken == []


def test_a_damaged_log_opens_to_a_beginning_of_what_was_written(workers, tmp_path, rng, report):
    crashed = damage.crashed_store(workers, steps=24)
    images = damage.torn_wal_images(crashed, tmp_path / "image", n=3_000, rng=rng)
    tally = report("A6 sqlite, damaged -wal images", images)
    assert tally.acked > 0
    assert tally.broken == []


@pytest.mark.parametrize(
    ("twin", "inject", "complaint"),
    [
        ("two commits", lambda on: trials.kill_sweep(on, "two commits", steps=3), "its line"),
        ("overwrite", lambda on: trials.kill_sweep(on, "overwrite", steps=4), "not parse"),
        ("disk full", lambda on: refusals.disk_full(on, "overwrite", steps=4), "not parse"),
        (
            "fsync again",
            lambda on: refusals.failed_syncs(on, "fsync again", steps=3),
            "synced again",
        ),
    ],
)
def test_an_injected_fault_catches_the_twin(tracing, report, twin, inject, complaint):
    tally = report(f"A1 A7 A8 twin, {twin}", inject(tracing))
    assert any(complaint in broken for broken in tally.broken)


# The last one loses only its last step.
@pytest.mark.parametrize("twin", ["synchronous=NORMAL", "rename without fsync", "no folder fsync"])
def test_a_power_cut_catches_what_only_looks_durable(workers, disk, report, twin):
    tally = report(f"A4 A5 twin, {twin}", trials.cuts_at_rest(workers, disk, twin, n=4))
    assert any("were acknowledged" in broken for broken in tally.broken)


def test_the_recipe_for_a_durable_commit_passes(tracing, disk, rng, report):
    recipe = "row per commit"
    for what, tally in (
        ("A1", trials.kill_sweep(tracing, recipe, steps=2)),
        ("A4 at rest", trials.cuts_at_rest(tracing, disk, recipe, n=4)),
        ("A4", trials.power_cuts(tracing, disk, recipe, n=30, rng=rng)),
    ):
        assert report(f"{what} recipe, WAL and FULL", tally).broken == []
