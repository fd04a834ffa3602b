"""Killed at any moment of an export or an undoing and started again: the CRM is as undisturbed."""

import pytest

from faults import crm_kills

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("protocol", ["json2", "xmlrpc"])
def test_a_night_killed_in_mid_export_or_undo_leaves_the_crm_as_undisturbed(
    report, rng, tmp_path, protocol
):
    tally = report(
        f"kill -9 in mid-export or undo, by {protocol}",
        crm_kills.killed(rng, 8, tmp_path, protocol=protocol),
    )
    assert not tally.broken
    assert tally.n == 8


def test_making_records_without_ids_of_ours_is_caught(rng, tmp_path):
    tally = crm_kills.killed(rng, 8, tmp_path, protocol="json2", way="forgetful")
    assert [why for why in tally.broken if " of " in why]
