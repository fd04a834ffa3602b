import socket
import struct
from datetime import timedelta
from itertools import repeat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from running_box import RunningBox
from stoker.sandbox.http import MAX_BODY_BYTES, MAX_HEAD_BYTES, Response, to_text_response

LONG = b"~" * 200_000


def answers(asked):
    """A host whose path says how it fails."""
    told = to_text_response(f"{asked.method} {asked.path} {len(asked.body)}")
    kinds = {
        "/hang": told.replace_fields(hang=True),
        "/reset": told.replace_fields(reset=True),
        "/close": told.replace_fields(close_after=0),
        "/cut": told.replace_fields(close_after=30),
        "/lying": told.replace_fields(lying_length=1000),
        "/drip": told.replace_fields(drip=timedelta(milliseconds=1)),
        "/late": told.replace_fields(after=timedelta(milliseconds=30)),
        "/endless": Response(stream=repeat(LONG)),
        "/stream": Response(stream=(LONG for _ in range(3))),
        "/old": Response(status=304),
    }
    if asked.path == "/bug":
        raise RuntimeError("a fault of ours")
    return kinds.get(asked.path, told)


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=5, vendors={"odd.test": lambda *_: answers}) as running:
        yield running


def line_to(box):
    address, port = box.box.address.split(":")
    line = socket.create_connection((address, int(port)), timeout=60)
    line.settimeout(60)
    return line


def read_all(line):
    got = b""
    while piece := line.recv(65536):
        got += piece
    return got


def request(path, *, host="odd.test", method="GET", more="", body=b""):
    length = f"content-length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}{more}\r\n".encode() + body


CLOSE = "connection: close\r\n"


def test_only_loopback_is_listened_on(box):
    server = box.box._server
    assert [sock.getsockname()[0] for sock in server.sockets] == ["127.0.0.1"]


def test_requests_of_one_connection_are_answered_in_the_order_they_came(box):
    sent = request("/late") + request("/1", method="POST", body=b"abc") + request("/2", more=CLOSE)
    with line_to(box) as line:
        line.sendall(sent)
        got = read_all(line).decode()

    assert [got.index(word) for word in ("GET /late 0", "POST /1 3", "GET /2 0")] == sorted(
        got.index(word) for word in ("GET /late 0", "POST /1 3", "GET /2 0")
    )


def test_hundreds_of_requests_sent_at_once_are_all_answered(box):
    sent = b"".join(request(f"/{nth}") for nth in range(400)) + request("/end", more=CLOSE)
    with line_to(box) as line:
        line.sendall(sent)
        got = read_all(line)

    assert got.count(b"HTTP/1.1 200 OK") == 401


def test_a_request_in_many_pieces_is_one_request(box):
    with line_to(box) as line:
        for byte in request("/slow", method="POST", body=b"12345", more=CLOSE):
            line.sendall(bytes([byte]))
        assert read_all(line).endswith(b"POST /slow 5")


def test_a_hanging_answer_never_comes(box):
    with line_to(box) as line:
        line.sendall(request("/hang"))
        line.settimeout(0.2)
        with pytest.raises(TimeoutError):
            line.recv(1)


def test_a_reset_is_a_reset(box):
    with line_to(box) as line:
        line.sendall(request("/reset"))
        with pytest.raises(ConnectionResetError):
            read_all(line)


@pytest.mark.parametrize(("path", "size"), [("/close", 0), ("/cut", 30)])
def test_a_cut_answer_ends_where_it_was_told_to(box, path, size):
    with line_to(box) as line:
        line.sendall(request(path))
        assert len(read_all(line)) == size


def test_a_lying_length_is_said_and_the_connection_closes(box):
    with line_to(box) as line:
        line.sendall(request("/lying"))
        got = read_all(line)

    assert b"content-length: 1000\r\n" in got
    assert got.endswith(b"GET /lying 0")


def test_a_dripping_answer_arrives_whole_for_those_who_wait(box):
    assert box.ask("odd.test", "GET", "/drip").body == b"GET /drip 0"


def test_a_stream_arrives_whole_and_the_connection_goes_on(box):
    with line_to(box) as line:
        line.sendall(request("/stream") + request("/after", more=CLOSE))
        got = read_all(line)

    assert got.count(b"~") == 3 * len(LONG)
    assert got.endswith(b"GET /after 0")


def test_an_endless_answer_waits_for_its_reader_and_ends_with_it(box):
    with line_to(box) as line:
        line.sendall(request("/endless"))
        for _ in range(50):
            assert line.recv(65536)
        assert box.ask("odd.test", "GET", "/meanwhile").status == 200
    assert box.ask("odd.test", "GET", "/still-here").status == 200


def test_what_has_no_body_has_none(box):
    assert box.ask("odd.test", "GET", "/old").body == b""
    head = box.ask("odd.test", "HEAD", "/page")
    assert (head.body, head.headers["content-length"]) == (b"", str(len("HEAD /page 0")))


def test_a_fault_of_the_sandbox_is_an_answer_that_says_so(box):
    assert box.ask("odd.test", "GET", "/bug").status == 599


def test_a_name_that_is_nobodys_gets_no_answer(box):
    with line_to(box) as line:
        line.sendall(request("/", host="nobody.test"))
        assert read_all(line) == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # how TLS begins
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost:   \r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: odd.test\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: odd.test\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nHost: odd.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (request("/", more="upgrade: websocket\r\nconnection: upgrade\r\n"), 400),
        (b"GET / HTTP/1.1\r\nHost: odd.test\r\nX: " + b"a" * (MAX_HEAD_BYTES * 8), 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ],
    ids=range(10),
)
def test_what_is_no_request_is_refused(box, sent, status):
    with line_to(box) as line:
        try:
            line.sendall(sent)
            got = read_all(line)
        except ConnectionError:
            return  # the door closed while we were still talking
    assert got.startswith(f"HTTP/1.1 {status} ".encode())


def test_a_body_beyond_all_bounds_is_refused(box):
    length = MAX_BODY_BYTES * 4
    head = f"POST / HTTP/1.1\r\nHost: odd.test\r\nContent-Length: {length}\r\n\r\n".encode()
    with line_to(box) as line:
        line.sendall(head)
        with pytest.raises(ConnectionError):
            line.sendall(b"x" * (MAX_BODY_BYTES * 4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.binary(max_size=300)
    | st.tuples(
        st.binary(max_size=20),
        st.sampled_from([b"GET /", b"POST /", b"Host: "]),
        st.binary(max_size=80),
    ).map(b"".join)
)
def test_nothing_that_is_sent_ends_the_sandbox(box, sent):
    with line_to(box) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.sendall(sent)
    assert box.ask("odd.test", "GET", "/alive").status == 200
