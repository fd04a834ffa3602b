"""The JSON store under kills, power cuts, full and failing disks, and damaged files."""

import shutil
import tempfile
from pathlib import Path

import pytest

from faults import damage, disks, refusals, trials

pytestmark = pytest.mark.faults


def test_lines_cut_at_any_byte_give_their_whole_batches_and_say_so(tmp_path, report):
    tally = report("A6 JSONL cut at every byte", damage.cut_everywhere(tmp_path, damage.chained))
    assert tally.n > 1_000
    assert tally.broken == []


def test_a_flipped_bit_in_lines_is_always_noticed(tmp_path, rng, report):
    flips = damage.flipped_bits(tmp_path, damage.chained, n=3_000, rng=rng)
    assert report("A6 JSONL, one bit flipped", flips).broken == []


def test_damage_catches_lines_that_are_merely_parsed(tmp_path, rng, report):
    cuts = report("A6 twin, plain lines cut", damage.cut_everywhere(tmp_path, damage.plain))
    flips = damage.flipped_bits(tmp_path, damage.plain, n=300, rng=rng)
    report("A6 twin, plain lines flipped", flips)
    assert any("nobody was told" in broken for broken in cuts.broken)
    assert any("made up" in broken for broken in flips.broken)


def test_a_kill_at_any_durable_call_loses_nothing_acknowledged(tracing, report):
    sweep = trials.kill_sweep(tracing, "json", steps=8)
    tally = report("A1 JSON, kill at every durable call", sweep)
    assert tally.n >= 80  # with the other store more than 200
    assert tally.broken == []


def test_a_kill_at_a_random_moment_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "json", n=50, rng=rng)
    tally = report("A2 JSON, random kills", kills)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_kill_during_recovery_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "json", n=10, rng=rng, again=True)
    tally = report("A3 JSON, killed again while recovering", kills)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_power_cut_loses_nothing_acknowledged(workers, any_disk, rng, report):
    cuts = trials.power_cuts(workers, any_disk, "json", n=30, rng=rng)
    tally = report(f"A5 JSON, power cuts on {any_disk.kind}", cuts)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_power_cut_never_brings_the_old_content_of_a_replaced_file_back(
    workers, any_disk, rng, report
):
    cuts = trials.power_cuts(workers, any_disk, "durable replace", n=30, rng=rng)
    tally = report(f"A5 a file replaced, power cuts on {any_disk.kind}", cuts)
    assert tally.acked > 0
    assert tally.broken == []


def test_a_disk_full_at_any_write_leaves_what_was_there_and_says_so(tracing, report):
    tally = report("A7 JSON, disk full at a write", refusals.disk_full(tracing, "json"))
    assert tally.n > 0
    assert tally.broken == []


def test_a_failed_sync_is_never_asked_again(tracing, report):
    tally = report("A8 JSON, fsync fails", refusals.failed_syncs(tracing, "json"))
    assert tally.n > 0
    assert tally.broken == []


def test_a_failed_sync_while_migrating_leaves_a_store_that_can_be_made(tracing, report):
    failed = refusals.failed_migrations(tracing, "json")
    tally = report("A8 JSON, fsync fails while migrating", failed)
    assert tally.n > 0
    assert tally.broken == []


def test_a_disk_that_is_really_full_says_so_and_can_be_read(workers, small_disks, tmp_path, report):
    with disks.memory_disk(tmp_path / "small", size="900k") as disk:
        tally = report("A7 JSON, a small disk", refusals.out_of_room(workers, disk, "json"))
    assert tally.acked > 0
    assert tally.broken == []


def test_a_read_only_disk_says_what_to_change_and_can_be_read(
    workers, small_disks, tmp_path, report
):
    ground = trials.prepared(workers, "json", steps=8)
    with disks.memory_disk(tmp_path / "disk", size="8m") as disk:
        path = shutil.copytree(ground, disk / "s")
        disks.make_read_only(disk)
        tally = report("A9 JSON, read-only disk", refusals.refused_writes(workers, path, "json"))
    assert tally.broken == []


def test_files_of_another_user_say_what_to_change_and_can_be_read(
    workers, small_disks, tmp_path, report
):
    ground = trials.prepared(workers, "json", steps=8)
    with tempfile.TemporaryDirectory() as open_room:  # tmp_path is nobody else's to look into
        Path(open_room).chmod(0o755)
        path = shutil.copytree(ground, Path(open_room) / "s")
        tally = refusals.refused_writes(workers, path, "json", user=65_534)
    assert report("A9 JSON, another user's files", tally).broken == []


def test_running_out_of_files_is_one_clear_line_and_loses_nothing(workers, report):
    tally = report("A9 JSON, too many open files", refusals.out_of_files(workers, "json", most=9))
    assert tally.broken == []
