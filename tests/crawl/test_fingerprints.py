import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.crawl.model import compute_exact_fingerprint, compute_fingerprint

PAGE = "Acme Pte Ltd\nWe make anvils since 1999.\nFrom $120. Call +65 6123 4567."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Generated 2026-11-16 04:05:06", "Generated 2026-11-17 23:59:59"),
        ("2026-11-16T04:05:06.123Z", "2026-11-17T05:06:07Z"),
        ("Mon, 16 Nov 2026 04:05:06", "Tue, 17 Nov 2026 05:06:07"),
        ("It is 10:11:12", "It is 13:14:15"),
        ("1,024 views", "1,031 views"),
        ("Visitors: 77", "Visitors: 78"),
        ("Page generated in 0.123 seconds", "Page generated in 0.087 seconds"),
        ("nonce 5f2c1d3e9a8b7c6d5e4f3a2b", "nonce 1a2b3c4d5e6f7a8b9c0d1e2f"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-42661417400f"),
        ("© 2025 Acme", "© 2026 Acme"),
        ("a   b\n\nc", "A b c"),
    ],
)
def test_what_differs_on_every_visit_does_not_count(one, other):
    assert compute_fingerprint(PAGE, one) == compute_fingerprint(PAGE, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [("$120", "$130"), ("anvils", "hammers"), ("4567", "4568"), ("1999", "1998"), ("Acme", "Apex")],
)
def test_prices_words_numbers_and_names_count(old, new):
    assert compute_fingerprint(PAGE) != compute_fingerprint(PAGE.replace(old, new))


@given(st.text(), st.text())
def test_the_same_words_have_the_same_fingerprint_however_they_are_spaced(one, other):
    assert compute_fingerprint(one, other) == compute_fingerprint(f" {one}\n", f"\t{other}  ")
    assert compute_fingerprint(one, other) == compute_fingerprint(one, other)


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_exact_fingerprints_differ_when_anything_does(one, other):
    clean = [
        [t.replace("\0", "").encode("utf-8", "replace") for t in some] for some in (one, other)
    ]
    if clean[0] != clean[1] and not any("\0" in text for text in one + other):
        assert compute_exact_fingerprint(one) != compute_exact_fingerprint(other)
