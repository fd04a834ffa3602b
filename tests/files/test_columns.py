"""Columns as compact parts: back letter for letter; damage is told, never read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.files.columns import compute_columns_digest, decode_columns, encode_columns

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
kinds = st.sampled_from([np.uint8, np.uint16, np.int32, np.int64, np.float32, np.float64])


@settings(max_examples=60)
@given(st.data(), st.integers(0, 50), st.integers(1, 20))
def test_columns_come_back_letter_for_letter_in_parts_of_any_length(data, rows, part):
    numbers = np.frombuffer(data.draw(st.binary(min_size=8 * rows, max_size=8 * rows)), np.uint8)
    columns = {"text": data.draw(st.lists(texts, min_size=rows, max_size=rows))}
    for nth in range(data.draw(st.integers(0, 3))):
        kind = np.dtype(data.draw(kinds))
        columns[f"c{nth}"] = numbers[: rows * kind.itemsize].view(kind)
    parts = encode_columns(columns, part=part)
    found = decode_columns(parts)
    assert len(parts) == max(-(-rows // part), 1)
    assert found["text"] == columns["text"]
    for name, column in columns.items():
        if name != "text":
            assert found[name].dtype == column.dtype
            assert found[name].tobytes() == column.tobytes()
    assert compute_columns_digest(found) == compute_columns_digest(columns)


@settings(max_examples=40)
@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(1, 255))
def test_damage_anywhere_is_told_or_changes_nothing(noise, at, flip):
    columns = {"account": ["a", "b", "c"], "why": np.array([1, 2, 3], np.uint8)}
    (part,) = encode_columns(columns)
    broken = bytearray(part)
    broken[at % len(part)] ^= flip
    for damaged in (bytes(broken), part[: at % len(part)], noise, part + noise):
        try:
            found = decode_columns([damaged])
        except PermanentError:
            continue
        assert isinstance(found, dict)  # whatever it says, it has the form of columns
        assert len({len(column) for column in found.values()}) <= 1


def test_a_part_that_says_it_unfolds_into_more_than_it_is_allowed_is_refused():
    (part,) = encode_columns({"why": np.zeros(60_000, np.uint8)})
    with pytest.raises(PermanentError, match="damaged"):
        decode_columns([part.replace(b'"u1",60000', b'"u1",50000')])
    head, tail = part.split(b"[[", 1)
    magic, length = head[:17], int.from_bytes(head[17:21], "big")
    grown = tail.replace(b'"u1",60000', b'"u1",9000000000')
    with pytest.raises(PermanentError, match="too large"):
        decode_columns([magic + (length + 5).to_bytes(4, "big") + head[21:] + b"[[" + grown])


def test_a_part_that_was_cut_off_is_refused_even_where_all_its_rows_are_there():
    (part,) = encode_columns({"why": np.arange(100, dtype=np.uint8)})
    for cut in range(1, 5):
        with pytest.raises(PermanentError, match="damaged"):
            decode_columns([part[:-cut]])


def test_parts_that_do_not_belong_together_are_refused():
    one, other = encode_columns({"a": np.zeros(1)}), encode_columns({"b": np.zeros(1)})
    for wrong in ([], one + other):
        with pytest.raises(PermanentError, match="belong together"):
            decode_columns(wrong)
    with pytest.raises(PermanentError, match="one length"):
        encode_columns({"a": np.zeros(1), "b": np.zeros(2)})
    with pytest.raises(PermanentError, match="cannot be saved"):
        encode_columns({"a": np.zeros(1, np.complex128)})
