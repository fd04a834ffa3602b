"""Every text field of every store returns a hostile text letter for letter, or refuses it."""

import pytest

from contracts.poison import FIELDS, save_texts
from faults.poison import POISON, made_up

pytestmark = pytest.mark.faults

UNSTORABLE = [POISON[name] for name in ("NUL", "half a surrogate", "two megabytes")]
TEXTS = [*POISON.values(), "", "e\u0301", "x" * 100_000, "\ud800" * 200]


@pytest.mark.parametrize("field", FIELDS)
async def test_a_hostile_text_is_stored_letter_for_letter_or_refused(
    backend, field, rng, record_property
):
    texts = [*TEXTS, *(made_up(rng) for _ in range(4))]
    tally = await save_texts(backend, field, texts)
    assert tally.broken == []
    refused = await save_texts(backend, field, UNSTORABLE, first=100)
    assert (refused.acked, refused.n) == (0, 3)
    record_property("fault", f"poison in {field}: n={tally.n}, {tally.n - tally.acked} refused")
