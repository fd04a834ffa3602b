import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.http.response import MAX_HEAD_BYTES, MAX_HEADERS, Outcome, ResponseParser

MOST = 1_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def taken(*pieces, method="GET"):
    answer = ResponseParser(method=method, most=MOST)
    for piece in pieces:
        answer.feed(piece)
    return answer


@given(st.lists(st.integers(0, len(OK)), max_size=8))
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(cuts):
    edges = sorted({0, *cuts, len(OK)})
    answer = taken(*[OK[a:b] for a, b in pairwise(edges)])
    assert (answer.outcome, answer.reusable) == (Outcome.COMPLETE, True)
    assert (answer.status, answer.body.get_body()) == (200, b"ok")


@pytest.mark.parametrize("more", [b"H", OK, OK[:20], b"x", b"\0"])
def test_a_connection_is_not_kept_when_more_came_than_the_answer(more):
    for answer in (taken(OK + more), taken(OK, more)):
        assert answer.body.get_body() == b"ok"
        assert (answer.outcome, answer.reusable) == (Outcome.COMPLETE, False)


def test_a_connection_is_not_kept_when_the_server_says_so():
    assert not taken(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")).reusable
    assert not taken(OK.replace(b"1.1", b"1.0")).reusable


@pytest.mark.parametrize(
    ("beginning", "endless"),
    [
        (CHUNKED + b"1;", b"x" * 1000),
        (CHUNKED + b"0\r\nX: ", b"x" * 1000),
        (CHUNKED + b"0\r\n", b"X: y\r\n" * 100),
        (CHUNKED, b"1\r\nx\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 1000),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 ", b"x" * 1000),
    ],
)
def test_an_answer_without_end_is_ended(beginning, endless):
    answer, size = taken(beginning), len(beginning)
    while answer.outcome is None and size < 100 * MAX_HEAD_BYTES:
        answer.feed(endless)
        size += len(endless)
    assert answer.outcome in (Outcome.BROKEN, Outcome.TRUNCATED)
    assert not answer.reusable


def test_a_few_words_before_the_answer_are_fine():
    before = b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" * 10
    answer = taken(before + OK)
    assert (answer.status, answer.reusable) == (200, True)
    assert "x-early" not in answer.headers


@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_broken_or_waited_for_but_never_a_crash(data, lost):
    answer = taken(data)
    answer.feed_loss() if lost else answer.feed_eof()
    assert answer.outcome is not None
    assert not answer.reusable


def test_closing_ends_only_an_answer_that_has_no_other_end():
    for head, whole in ((b"HTTP/1.1 200 OK\r\n\r\n", True), (OK[:-2], False), (CHUNKED, False)):
        answer = taken(head)
        answer.feed_eof()
        assert answer.outcome is (Outcome.COMPLETE if whole else Outcome.BROKEN)
        broken = taken(head)
        broken.feed_loss()
        assert broken.outcome is Outcome.BROKEN


@pytest.mark.parametrize("size", [1, 2])
def test_a_body_in_tiny_pieces_takes_the_memory_of_its_bytes_and_is_cut_in_time(size):
    answer, piece = ResponseParser(method="GET", most=10**6), b"%d\r\n%s\r\n" % (size, b"x" * size)
    tracemalloc.start()
    try:
        answer.feed(CHUNKED)
        while answer.outcome is None:
            answer.feed(piece * 100)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    body = answer.body.get_body()
    assert answer.outcome is Outcome.TRUNCATED
    assert 10_000 * size <= len(body) <= 11_000 * size
    assert held < 3 * len(body) + 20_000


@pytest.mark.parametrize("before", [b"HTTP/1.1 200 OK\r\n", CHUNKED + b"2\r\nok\r\n0\r\n"])
def test_an_answer_with_hundreds_of_headers_is_broken(before):
    lines = [b"X-%d: y\r\n" % nth for nth in range(MAX_HEADERS - 1)]
    assert taken(before, *lines).outcome is None
    assert taken(before, *lines, b"X: y\r\n" * 3).outcome is Outcome.BROKEN


def test_a_body_in_many_pieces_of_some_size_is_whole():
    answer = ResponseParser(method="GET", most=10**7)
    answer.feed(CHUNKED)
    for _ in range(400):
        answer.feed((b"40\r\n" + b"x" * 64 + b"\r\n") * 100)
    answer.feed(b"0\r\n\r\n")
    assert (answer.outcome, len(answer.body.get_body())) == (Outcome.COMPLETE, 64 * 40_000)
