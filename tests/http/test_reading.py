import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.base.strict_json import MAX_DEPTH, MAX_VALUES, parse_json
from stoker.base.types import clean_text, is_storable

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**38), 10**38)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def cleaned(value):
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    if isinstance(value, dict):
        return {clean_text(key): cleaned(each) for key, each in value.items()}
    return value


@given(values)
def test_what_was_written_is_read_with_its_texts_cleaned(value):
    try:
        read = parse_json(json.dumps(value).encode())
    except PermanentError:
        # Two keys that were different only in what is cleaned away are one key given twice.
        assert json.dumps(cleaned(value)) != json.dumps(value)
        return
    assert read == cleaned(value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b'{"a": 1',
        b"[1, 2",
        b'"',
        b"{}{}",
        b"[] x",
        b"<html>",
        b"\x00",
        b"\xff\xfe{\x00}\x00",
        '{"a": "é"}'.encode("latin-1"),
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a\\u0000": 1, "a": 2}',
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"[1e999]",
        b"[-1e999]",
        b"[" + b"9" * 100_000 + b"]",
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"[0" + b",0" * (MAX_VALUES + 1) + b"]",
        b"{'a': 1}",
        b"[1,]",
        b"undefined",
        b"[01]",
        b'"a\nb"',
    ],
    ids=lambda body: repr(body[:16]),
)
def test_what_is_not_plain_json_is_refused_whole(body):
    with pytest.raises(PermanentError):
        parse_json(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"\xef\xbb\xbf[1]", [1]),
        (b' {"a": [1.5, true, null]}\n', {"a": [1.5, True, None]}),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"a\\u0000b\\ud800c"', "ab\ufffdc"),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, None),
    ],
)
def test_what_is_a_little_off_is_still_read(body, value):
    read = parse_json(body)
    assert value is None or read == value


@given(
    st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "ignore"))
)
def test_garbage_is_refused_and_nothing_else_happens(body):
    with contextlib.suppress(PermanentError):
        value = parse_json(body)
        assert json.loads(json.dumps(value, allow_nan=False)) == value


@given(values, st.data())
def test_every_text_that_comes_out_can_be_kept(value, data):
    text = json.dumps(value).encode()
    cut = data.draw(st.integers(0, len(text)))
    try:
        read = parse_json(text[:cut])
    except PermanentError:
        return
    todo = [read]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            todo += [*each, *each.values()]
        elif isinstance(each, list):
            todo += each
        elif isinstance(each, str):
            assert is_storable(each)
