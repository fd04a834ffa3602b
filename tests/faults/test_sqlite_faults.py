"""The SQLite store under kills, power cuts, full and failing disks, and damaged files."""

import shutil
import tempfile
from pathlib import Path

import pytest

from faults import crowds, damage, disks, refusals, trials

pytestmark = pytest.mark.faults


def test_a_kill_at_any_durable_call_loses_nothing_acknowledged(tracing, report):
    sweep = trials.kill_sweep(tracing, "sqlite", steps=24)
    tally = report("A1 SQLite, kill at every durable call", sweep)
    assert tally.n >= 120  # with the other store more than 200
    assert tally.broken == []


def test_a_kill_at_a_random_moment_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "sqlite", n=50, rng=rng)
    tally = report("A2 SQLite, random kills", kills)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_kill_during_recovery_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "sqlite", n=10, rng=rng, again=True)
    tally = report("A3 SQLite, killed again while recovering", kills)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_power_cut_loses_nothing_acknowledged(workers, any_disk, rng, report):
    cuts = trials.power_cuts(workers, any_disk, "sqlite", n=30, rng=rng)
    tally = report(f"A4 SQLite, power cuts on {any_disk.kind}", cuts)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_disk_full_at_any_write_leaves_what_was_there_and_says_so(tracing, report):
    tally = report("A7 SQLite, disk full at a write", refusals.disk_full(tracing, "sqlite"))
    assert tally.n > 0
    assert tally.broken == []


def test_a_failed_sync_is_never_asked_again(tracing, report):
    tally = report("A8 SQLite, fsync fails", refusals.failed_syncs(tracing, "sqlite"))
    assert tally.n > 0
    assert tally.broken == []


def test_fifty_processes_on_one_file_are_all_served(workers, report):
    tally = report("B7 SQLite, fifty processes at once", crowds.crowded(workers, rounds=10))
    assert tally.n == 500
    assert tally.broken == []


@pytest.mark.parametrize(("begin", "patience"), [("BEGIN", 10), ("BEGIN IMMEDIATE", 0)])
def test_a_crowd_catches_who_reads_first_or_does_not_wait(workers, report, begin, patience):
    crowd = crowds.crowded_naively(workers, begin=begin, patience=patience)
    tally = report(f"B7 twin, {begin} with {patience} s", crowd)
    assert any("was not served" in broken for broken in tally.broken)


def test_a_failed_sync_while_migrating_leaves_a_store_that_can_be_made(tracing, report):
    failed = refusals.failed_migrations(tracing, "sqlite")
    tally = report("A8 SQLite, fsync fails while migrating", failed)
    assert tally.n > 0
    assert tally.broken == []


def test_a_disk_that_is_really_full_says_so_and_can_be_read(workers, small_disks, tmp_path, report):
    with disks.memory_disk(tmp_path / "small", size="900k") as disk:
        tally = report("A7 SQLite, a small disk", refusals.out_of_room(workers, disk, "sqlite"))
    assert tally.acked > 0
    assert tally.broken == []


def test_a_read_only_disk_says_what_to_change_and_can_be_read(
    workers, small_disks, tmp_path, report
):
    ground = trials.prepared(workers, "sqlite", steps=8)
    with disks.memory_disk(tmp_path / "disk", size="8m") as disk:
        path = shutil.copytree(ground, disk / "s")
        disks.make_read_only(disk)
        tally = report(
            "A9 SQLite, read-only disk", refusals.refused_writes(workers, path, "sqlite")
        )
    assert tally.broken == []


def test_files_of_another_user_say_what_to_change_and_can_be_read(
    workers, small_disks, tmp_path, report
):
    ground = trials.prepared(workers, "sqlite", steps=8)
    with tempfile.TemporaryDirectory() as open_room:  # tmp_path is nobody else's to look into
        Path(open_room).chmod(0o755)
        path = shutil.copytree(ground, Path(open_room) / "s")
        tally = refusals.refused_writes(workers, path, "sqlite", user=65_534)
    assert report("A9 SQLite, another user's files", tally).broken == []


def test_running_out_of_files_is_one_clear_line_and_loses_nothing(workers, report):
    tally = report(
        "A9 SQLite, too many open files", refusals.out_of_files(workers, "sqlite", most=9)
    )
    assert tally.broken == []


def test_a_damaged_log_opens_to_a_beginning_of_what_was_written(workers, tmp_path, rng, report):
    crashed = damage.crashed_store(workers, steps=24)
    images = damage.torn_wal_images(crashed, tmp_path / "image", n=3_000, rng=rng)
    tally = report("A6 SQLite, damaged -wal images", images)
    assert tally.acked > 0
    assert tally.broken == []
