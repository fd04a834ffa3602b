from hypothesis import given
from hypothesis import strategies as st

from stoker.vendors.openai import estimate_max_schema_tokens, estimate_max_tokens

PROSE = "We help teams across Southeast Asia do more with less, and have done so since then. " * 50


def test_prose_is_promised_about_a_third_of_its_bytes():
    assert len(PROSE) / 3 <= estimate_max_tokens(PROSE) <= len(PROSE) / 2


def test_what_is_no_prose_is_promised_a_token_a_byte():
    for strange in ("x9Q+/zK0" * 100, "𝕬𝖈𝖒𝖊" * 50, "{}[]()<>;:" * 50, "1234567890" * 20):
        assert estimate_max_tokens(strange) >= len(strange.encode())


@given(st.text(max_size=500))
def test_no_text_is_promised_less_than_a_token_for_three_bytes(text):
    assert estimate_max_tokens(text) * 3 >= len(text.encode("utf-8", "replace"))


@given(st.text(max_size=100))
def test_single_letters_between_spaces_are_a_token_each(text):
    spread = " ".join(text)
    assert estimate_max_tokens(spread) >= len(text)


@given(st.text(max_size=200), st.text(max_size=200))
def test_more_texts_are_never_promised_less(one, other):
    assert estimate_max_tokens(one, other) >= estimate_max_tokens(one)


def test_a_schema_is_promised_too():
    assert estimate_max_schema_tokens({"type": "object"}) > 0
