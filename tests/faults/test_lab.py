"""The lab is not blind: every naive twin is caught by the means that let the stores pass.

A fault test that finds nothing proves nothing unless it can find something.
"""

import pytest

from faults import refusals, trials

pytestmark = pytest.mark.faults


def test_a_sweep_of_kills_catches_a_step_and_its_line_in_two_commits(tracing, report):
    tally = report("A1 twin, two commits", trials.kill_sweep(tracing, "two commits", steps=3))
    assert any("without its line" in broken for broken in tally.broken)


def test_a_sweep_of_kills_catches_a_file_that_is_overwritten(tracing, report):
    tally = report("A1 twin, overwrite", trials.kill_sweep(tracing, "overwrite", steps=4))
    assert any("does not parse" in broken for broken in tally.broken)


def test_a_sweep_of_kills_passes_the_recipe_for_one_commit(tracing, report):
    tally = report("A1 recipe, one commit", trials.kill_sweep(tracing, "row per commit", steps=2))
    assert not tally.broken


def test_random_kills_catch_a_step_and_its_line_in_two_commits(workers, rng, report):
    kills = trials.random_kills(workers, "two commits", n=40, rng=rng, lanes=1)
    tally = report("A2 twin, two commits", kills)
    assert any("without its line" in broken for broken in tally.broken)


@pytest.mark.parametrize(
    "twin",
    [
        "synchronous=NORMAL",
        "synchronous=OFF",
        "overwrite",
        "rename without fsync",
        "plain lines",
        "no folder fsync",  # loses only its last step
    ],
)
def test_a_power_cut_catches_what_only_looks_durable(workers, disk, report, twin):
    tally = report(f"A4 A5 twin, {twin}", trials.cuts_at_rest(workers, disk, twin, n=4))
    assert any("were acknowledged" in broken for broken in tally.broken)


def test_a_power_cut_after_a_step_passes_the_recipe_for_a_durable_commit(workers, disk, report):
    cuts = trials.cuts_at_rest(workers, disk, "row per commit", n=4)
    assert not report("A4 recipe at rest, WAL and FULL", cuts).broken


def test_a_power_cut_passes_the_recipe_for_a_durable_commit(workers, disk, rng, report):
    cuts = trials.power_cuts(workers, disk, "row per commit", n=30, rng=rng)
    assert not report("A4 recipe, WAL and FULL", cuts).broken


def test_a_full_disk_catches_a_file_that_is_overwritten(tracing, report):
    tally = report("A7 twin, overwrite", refusals.disk_full(tracing, "overwrite", steps=4))
    assert any("does not parse" in broken for broken in tally.broken)


def test_a_failing_sync_catches_who_simply_tries_again(tracing, report):
    tally = report("A8 twin, fsync again", refusals.failed_syncs(tracing, "fsync again", steps=3))
    assert any("was synced again" in broken for broken in tally.broken)
