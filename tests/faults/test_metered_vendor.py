"""The vendor's own counter against our books, whichever process dies, however the vendor lies."""

import pytest

from faults.paying_trials import killed_while_paying

pytestmark = pytest.mark.faults

CALLS = 600  # with a vendor that knows keys, and as many with one that does not


@pytest.mark.parametrize("knows_keys", [True, False], ids=["knows keys", "knows no keys"])
def test_whoever_is_killed_and_however_it_lies_the_vendor_takes_no_more_than_we_know_of(
    knows_keys, tmp_path, rng, request
):
    verdict = killed_while_paying(
        tmp_path / "trial", calls=CALLS, knows_keys=knows_keys, chance=rng
    )

    which = "knows keys" if knows_keys else "knows no keys"
    request.node.user_properties.append(("fault", f"C2 a lying vendor that {which}: {verdict}"))
    assert verdict.broken == []
    assert verdict.kills
    assert verdict.calls


@pytest.mark.parametrize("way", ["records afterwards", "gives back when unsure"])
def test_the_naive_twin_is_caught(way, tmp_path, rng):
    verdict = killed_while_paying(
        tmp_path / "trial", calls=300, knows_keys=False, way=way, chance=rng
    )

    assert verdict.broken
