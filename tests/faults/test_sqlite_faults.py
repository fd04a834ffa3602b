"""The SQLite store under kills, power cuts, full and failing disks, and damaged files."""

import pytest

from faults import trials

pytestmark = pytest.mark.faults


def test_a_kill_at_any_durable_call_loses_nothing_acknowledged(tracing, report):
    tally = report(
        "A1 SQLite, kill at a durable call", trials.kill_sweep(tracing, "sqlite", every=2)
    )
    assert tally.n >= 100
    assert tally.broken == []


def test_a_kill_at_a_random_moment_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "sqlite", n=50, rng=rng)
    assert report("A2 SQLite, random kills", kills).broken == []


def test_a_kill_during_recovery_loses_nothing_acknowledged(workers, rng, report):
    kills = trials.random_kills(workers, "sqlite", n=10, rng=rng, again=True)
    assert report("A3 SQLite, killed again while recovering", kills).broken == []


def test_a_power_cut_loses_nothing_acknowledged(workers, disk, rng, report):
    cuts = trials.power_cuts(workers, disk, "sqlite", n=30, rng=rng)
    assert report("A4 SQLite, power cuts on ext4", cuts).broken == []


def test_a_disk_full_at_any_write_leaves_what_was_there_and_says_so(tracing, report):
    tally = report("A7 SQLite, disk full at a write", trials.disk_full(tracing, "sqlite"))
    assert tally.n > 0
    assert tally.broken == []


def test_a_failed_sync_is_never_asked_again(tracing, report):
    tally = report("A8 SQLite, fsync fails", trials.failed_syncs(tracing, "sqlite"))
    assert tally.n > 0
    assert tally.broken == []
