"""The JSON store under kills, power cuts, full and failing disks, and damaged files."""

import pytest

from faults import damage, trials

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
    tally = report("A1 JSON, kill at a durable call", trials.kill_sweep(tracing, "json", every=2))
    assert tally.n >= 100
    assert tally.broken == []


def test_a_kill_at_a_random_moment_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "json", n=50, rng=rng)
    assert report("A2 JSON, random kills", kills).broken == []


def test_a_kill_during_recovery_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "json", n=10, rng=rng, again=True)
    assert report("A3 JSON, killed again while recovering", kills).broken == []


def test_a_power_cut_loses_nothing_acknowledged(workers, disk, rng, report):
    cuts = trials.power_cuts(workers, disk, "json", n=30, rng=rng)
    assert report("A5 JSON, power cuts on ext4", cuts).broken == []


def test_a_disk_full_at_any_write_leaves_what_was_there_and_says_so(tracing, report):
    tally = report("A7 JSON, disk full at a write", trials.disk_full(tracing, "json"))
    assert tally.n > 0
    assert tally.broken == []


def test_a_failed_sync_is_never_asked_again(tracing, report):
    tally = report("A8 JSON, fsync fails", trials.failed_syncs(tracing, "json"))
    assert tally.n > 0
    assert tally.broken == []
