"""Nothing from the web leads a request inside: tried in a make-believe internet, on the wire."""

import pytest

from faults.tally import Tally
from faults.web_attacks import attacks
from faults.web_lab import STATUSES, trial, why_no_lab

pytestmark = pytest.mark.faults


@pytest.fixture
def lab():
    if reason := why_no_lab():
        pytest.skip(reason)


def tally(seen):
    return Tally(n=seen.tried.total(), broken=[*seen.leaks, *seen.hits, *seen.probes])


def test_no_way_of_writing_an_address_leads_inside(lab, report):
    seen = trial("ours", fuzz=2000, rebinds=100, redirects=len(STATUSES))
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(seen.tried.items()))
    told = report(
        f"addresses leading inside ({kinds}; public {seen.legit}/{seen.legit_of})", tally(seen)
    )
    assert not told.broken
    assert (seen.legit, seen.legit_of) == (7, 7)
    assert seen.tried["direct"] == len(attacks()) >= 500
    assert seen.tried["redirect"] == len(STATUSES) * len(attacks())
    # Each name that changes its mind was public first, and refused once it was not.
    assert seen.refused["rebind"] == 2 * 100


def test_the_innermost_guard_holds_by_itself(lab, report):
    seen = trial("dialer", fuzz=500, rebinds=100, redirects=0)
    assert not report("the same past every other check", tally(seen)).broken


@pytest.mark.parametrize("twin", ["unguarded", "checked first"])
def test_a_client_that_does_it_wrong_is_caught(lab, twin):
    seen = trial(twin, rebinds=30, every=5)
    assert {leak.split(" ")[0] for leak in seen.leaks} >= {"direct", "redirect", "rebind"}
    assert seen.hits
    assert seen.probes
    assert seen.legit == 7
