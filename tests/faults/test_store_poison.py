"""Poison that is made up, in every store: it stays as it was, or is refused in one line."""

import pytest

from contracts.backends import BACKENDS
from faults.poison import POISON, made_up
from faults.store_poison import PLACES, kept

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("backend", BACKENDS)
def test_poison_stays_letter_for_letter_or_is_refused(backend, tmp_path, report, rng):
    texts = [*POISON.values(), *(made_up(rng) for _ in range(50))]
    tally = report(f"C8 poison in {backend}", kept(backend, BACKENDS[backend](tmp_path), texts))
    assert tally.broken == []
    assert 0 < tally.acked < tally.n == len(PLACES) * (len(POISON) + 50)
