import asyncio
import gzip
import json
import logging
from datetime import timedelta
from urllib.parse import quote

import pytest

from faults.hostile_server import HostileServer
from kit.virtual_time import ManualLoop, run_virtually
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.http.client import MAX_REDIRECTS, HttpClient, Request
from stoker.http.pool import MAX_IDLE

AGENT = "Stoker test (mailto:operator@example.com)"
CANARY = "canary-5d1c"


async def web(work, **settings):
    """Run a piece of work against the hostile server, reached under any name ending in .test."""

    async with HostileServer() as server:
        http = HttpClient(user_agent=AGENT, sandbox=server.address, **settings)
        try:
            return await work(http, server)
        finally:
            await http.close()


async def until(so):
    """Wait until something is so, and whatever was written then has been read."""
    async with asyncio.timeout(60):
        while not so():
            await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0)


def get(url, **changes):
    settings = {"method": "GET", "deadline": timedelta(seconds=60), **changes}
    return Request(url=url if "://" in url else f"http://site.test{url}", **settings)


async def said(call, **settings):
    return await web(lambda http, _: http.send(call), **settings)


async def echoed(call):
    return json.loads((await said(call)).body)


async def test_a_reply_is_what_the_server_said():
    reply = await said(get("/say?status=404&header=X-Kind:%20odd&body=" + b"gone".hex()))
    assert (reply.status, reply.body, reply.headers["x-kind"]) == (404, b"gone", "odd")
    assert (reply.truncated, reply.wire_bytes) == (False, 4)
    assert reply.url.startswith("http://site.test/say?")


async def test_a_request_names_who_asks_and_carries_what_it_was_given():
    told = await echoed(get("/echo?a=b", method="POST", headers={"X-Key": "k"}, body=b"question"))
    assert (told["method"], told["target"], told["body"]) == ("POST", "/echo?a=b", "question")
    sent = told["headers"]
    assert (sent["host"], sent["user-agent"], sent["x-key"]) == ("site.test", AGENT, "k")
    assert sent["content-length"] == "8"
    assert sent["accept-encoding"] == "gzip, deflate"


async def test_a_post_without_a_body_says_so():
    assert (await echoed(get("/echo", method="POST")))["headers"]["content-length"] == "0"
    assert "content-length" not in (await echoed(get("/echo")))["headers"]


async def test_headers_given_several_times_are_joined():
    raw = b"HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nContent-Length: 0\r\n\r\n"
    assert (await said(get(f"/raw?bytes={raw.hex()}"))).headers["a"] == "1, 2"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/until-closed", b"all there is"),
        ("/continue", b"ok"),
        ("/close-after", b"ok"),
        ("/too-short", b"ok"),
        ("/chain/0", b"end"),
    ],
)
async def test_an_answer_is_read_to_its_end_and_no_further(path, body):
    assert (await said(get(path))).body == body


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok and more",
        b"HTTP/1.1 200 \xe9t\xe9\r\nX: \xe9\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_a_server_that_is_a_little_off_is_still_read(raw):
    assert (await said(get(f"/raw?bytes={raw.hex()}"))).body == b"ok"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0",
        b"hello",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/3 200 OK\r\n\r\n",
    ],
)
async def test_a_broken_answer_is_uncertain_for_the_request_arrived(raw):
    with pytest.raises(UncertainError):
        await said(get(f"/raw?bytes={raw.hex()}"))


@pytest.mark.parametrize("path", ["/close", "/reset", "/too-long"])
async def test_a_connection_lost_on_the_way_is_uncertain(path):
    with pytest.raises(UncertainError):
        await said(get(path))


async def test_nobody_there_is_transient_for_nothing_was_sent():
    async def work():
        async with HostileServer() as server:
            address = server.address
        http = HttpClient(user_agent=AGENT, sandbox=address)
        try:
            await http.send(get("/ok"))
        finally:
            await http.close()

    with pytest.raises(TransientError):
        await work()


async def test_a_server_without_tls_is_transient_for_nothing_was_sent():
    with pytest.raises(TransientError):
        await said(get("https://site.test/ok"))


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("status", [204, 304, 200])
async def test_answers_without_a_body_are_whole(method, status):
    if (method, status) == ("GET", 200):
        return
    raw = b"HTTP/1.1 %d Said\r\nContent-Length: 50\r\nContent-Encoding: br\r\n\r\n" % status
    if status == 204:
        raw = raw.replace(b"Content-Length: 50\r\n", b"")
    reply = await said(get(f"/raw?bytes={raw.hex()}", method=method))
    assert (reply.status, reply.body) == (status, b"")


async def test_a_body_is_cut_at_the_most_asked_for():
    reply = await said(get("/say?body=" + b"0123456789".hex(), max_bytes=4))
    assert (reply.body, reply.truncated) == (b"0123", True)
    whole = await said(get("/say?body=" + b"0123456789".hex(), max_bytes=10))
    assert (whole.body, whole.truncated) == (b"0123456789", False)


async def test_a_compressed_body_comes_out_whole():
    body = gzip.compress(b"page" * 100).hex()
    reply = await said(get(f"/say?header=Content-Encoding:%20gzip&body={body}"))
    assert (reply.body, reply.wire_bytes) == (b"page" * 100, len(body) // 2)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
async def test_an_encoding_not_asked_for_is_refused_and_uncertain_if_it_may_have_cost(encoding):
    call = get(f"/say?header=Content-Encoding:{quote(encoding)}&body=00")
    with pytest.raises(PermanentError):
        await said(call)
    with pytest.raises(UncertainError):
        await said(get(call.url, billable=True))


async def test_connections_are_kept_for_the_next_request():
    async def work(http, server):
        for _ in range(10):
            await http.send(get("/ok"))
        await asyncio.gather(*[http.send(get("/ok")) for _ in range(5)])
        return server.opened, len(server.asked)

    assert await web(work) == (5, 15)


def by_hand(work):
    async def run():
        async with HostileServer() as server:
            http = HttpClient(user_agent=AGENT, sandbox=server.address)
            try:
                return await work(http, server, asyncio.get_running_loop())
            finally:
                await http.close()

    return run_virtually(run(), loop=ManualLoop)


def test_a_connection_that_was_idle_for_long_is_not_used_again():
    async def work(http, server, loop):
        seen = []
        for idle in (timedelta(seconds=3), timedelta(seconds=5)):  # when common servers close
            await http.send(get("/ok"))
            loop.advance(idle)  # its timer has had no turn yet
            await http.send(get("/ok"))
            seen.append(server.opened)
        return seen

    assert by_hand(work) == [1, 2]


def test_an_idle_connection_is_let_go_in_time():
    async def open_after(idle, server, loop):
        loop.advance(idle)
        for _ in range(100):
            await asyncio.sleep(0)
        return server.open

    async def work(http, server, loop):
        await http.send(get("/ok"))
        return [await open_after(MAX_IDLE * share, server, loop) for share in (0.9, 0.2)]

    assert by_hand(work) == [1, 0]


@pytest.mark.parametrize("path", ["/too-short", "/late-poison"])
async def test_an_answer_nobody_asked_for_is_never_given_to_the_next(path):
    async def work(http, server):
        seen = []
        for _ in range(5):
            seen.append((await http.send(get(path))).body)
            await until(lambda: server.answered == len(server.asked))
            seen.append((await http.send(get("/ok"))).body)
        return set(seen), server.opened

    # Each time, the connection that said too much is given up.
    assert await web(work) == ({b"ok"}, 6)


async def test_a_page_is_asked_for_again_when_a_kept_connection_turns_out_closed():
    async def work(http, server):
        return [(await http.send(get("/fickle"))).body for _ in range(10)], server.opened

    assert await web(work) == ([b"ok"] * 10, 10)


@pytest.mark.parametrize("changes", [{"method": "POST", "body": b"x"}, {"billable": True}])
async def test_what_may_cost_is_never_sent_twice(changes):
    async def work(http, server):
        ended = []
        for _ in range(10):
            try:
                ended.append((await http.send(get("/fickle", **changes))).body)
            except UncertainError:
                ended.append(None)
        return ended, len(server.asked)

    assert await web(work) == ([b"ok", None] * 5, 10)


async def test_never_more_connections_are_open_than_allowed():
    async def work(http, server):
        most = 0

        async def ask(number):
            nonlocal most
            await http.send(get(f"http://h{number % 7}.test/ok"))
            most = max(most, server.open)

        await asyncio.gather(*[ask(number) for number in range(60)])
        return most, len(server.asked)

    most, asked = await web(work, connections=3)
    # The server learns a moment later that one was closed.
    assert most <= 3 + 3
    assert asked == 60


async def test_a_place_is_given_back_whatever_happens():
    async def work(http, server):
        for path in ["/close", "/reset", "/raw?bytes=00", "/say?header=Content-Encoding:br"]:
            with pytest.raises((UncertainError, PermanentError)):
                await http.send(get(path))
        with pytest.raises((UncertainError, TransientError)):  # the latter if it was not yet sent
            await http.send(get("/hang", deadline=timedelta(milliseconds=200)))
        with pytest.raises(PermanentError):
            await http.send(get("http://127.0.0.1/"))
        with pytest.raises(TransientError):
            await http.send(get("https://site.test/"))
        return (await http.send(get("/ok"))).body

    assert await web(work, connections=1) == b"ok"


async def test_a_deadline_is_for_waiting_in_line_as_well():
    async def work(http, server):
        first = asyncio.create_task(http.send(get("/hang")))
        await until(lambda: server.asked)
        with pytest.raises(TransientError):
            await http.send(get("/ok", deadline=timedelta(milliseconds=100)))
        first.cancel()
        return len(server.asked)

    assert await web(work, connections=1) == 1


async def test_a_caller_that_goes_away_leaves_nothing_behind():
    async def work(http, server):
        gone = asyncio.create_task(http.send(get("/hang")))
        await until(lambda: server.asked)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return (await http.send(get("/ok"))).body

    assert await web(work, connections=1) == b"ok"


# Redirects.


def to(where, status=302, host="site.test"):
    return f"http://{host}/to?status={status}&where={quote(where, safe='')}"


async def test_without_hops_a_redirect_is_the_reply():
    reply = await said(get(to("/ok")))
    assert (reply.status, reply.headers["location"]) == (302, "/ok")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_and_says_where_it_ended(status):
    reply = await said(get(to("http://other.test/echo?x=1", status), max_redirects=5))
    assert reply.url == "http://other.test/echo?x=1"
    assert json.loads(reply.body)["method"] == "GET"


async def test_a_redirect_in_utf_8_is_followed_as_meant():
    raw = "HTTP/1.1 302 x\r\nLocation: /echo?ü\r\nContent-Length: 0\r\n\r\n".encode()
    reply = await said(get(f"/raw?bytes={raw.hex()}", max_redirects=1))
    assert json.loads(reply.body)["target"] == "/echo?%C3%BC"


@pytest.mark.parametrize(
    ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
)
async def test_a_post_becomes_a_get_where_every_browser_makes_it_one(status, method):
    call = get(to("/echo", status), method="POST", body=b"x", max_redirects=1)
    told = await echoed(call)
    assert (told["method"], told["body"]) == (method, "x" if method == "POST" else "")


@pytest.mark.parametrize("hops", range(1, MAX_REDIRECTS + 1))
async def test_redirects_end_after_the_hops_allowed(hops):
    assert (await said(get(f"/chain/{hops}", max_redirects=hops))).body == b"end"
    with pytest.raises(PermanentError):
        await said(get(f"/chain/{hops + 1}", max_redirects=hops))


@pytest.mark.parametrize("hops", [-1, MAX_REDIRECTS + 1])
async def test_more_hops_than_that_cannot_be_asked_for(hops):
    with pytest.raises(ConfigError):
        await said(get("/ok", max_redirects=hops))


@pytest.mark.parametrize(
    "where",
    [
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "http://[::1]/",
        "//localhost/",
        "http://a.test:22/",
    ],
)
async def test_a_redirect_to_where_we_do_not_go_is_refused(where):
    with pytest.raises(PermanentError):
        await said(get(to(where), max_redirects=5))


SECRETS = {
    "Authorization": f"Bearer {CANARY}",
    "api_key": CANARY,
    "Cookie": f"s={CANARY}",
    "X-Anything": CANARY,
    "Accept": "text/html",
}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_credential_goes_to_its_own_origin_only(status):
    there = await echoed(
        get(to("http://other.test/echo", status), headers=SECRETS, max_redirects=5)
    )
    assert CANARY not in json.dumps(there)
    assert there["headers"]["accept"] == "text/html"
    here = await echoed(get(to("/echo", status), headers=SECRETS, max_redirects=5))
    assert here["headers"]["authorization"] == f"Bearer {CANARY}"


@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_is_never_sent_on_to_another_origin(status):
    call = get(
        to("http://other.test/echo", status), method="POST", body=CANARY.encode(), max_redirects=5
    )

    async def work(http, server):
        with pytest.raises(PermanentError):
            await http.send(call)
        return [asked.path for asked in server.asked]

    assert await web(work) == ["/to"]


async def test_credentials_do_not_come_back_after_a_detour():
    back = to("http://site.test/echo", host="other.test")
    assert CANARY not in json.dumps(await echoed(get(to(back), headers=SECRETS, max_redirects=5)))


# What is refused before anything is sent.


@pytest.mark.parametrize(
    "call",
    [
        get("ftp://site.test/"),
        get("http://site.test:8080/"),
        get("http://u@site.test/"),
        get("http://127.0.0.1:80/"),
        get("/ok", method="GET / HTTP/1.1\r\nX: y"),
        get("/ok", method="get"),
        get("/ok", headers={"A\r\nB": "c"}),
        get("/ok", headers={"A": "b\r\nC: d"}),
        get("/ok", headers={"A": "b\n"}),
        get("/ok", headers={"A": "é"}),
        get("/ok", headers={"Host": "other"}),
        get("/ok", headers={"content-length": "3"}),
        get("/ok", headers={"Transfer-Encoding": "chunked"}),
        get("/ok", headers={"": "x"}),
    ],
)
async def test_a_request_that_could_be_two_is_not_sent(call):
    async def work(http, server):
        with pytest.raises(PermanentError):
            await http.send(call)
        return server.opened

    assert await web(work) == 0


@pytest.mark.parametrize("agent", ["", "two\nlines", "é"])
def test_whoever_asks_has_a_plain_name(agent):
    with pytest.raises(ConfigError):
        HttpClient(user_agent=agent)


@pytest.mark.parametrize(
    "place", ["8.8.8.8:80", "10.0.0.1:80", "localhost:80", "127.0.0.1", "127.0.0.1:0", "x"]
)
def test_a_sandbox_is_on_loopback_or_nowhere(place):
    with pytest.raises(ConfigError):
        HttpClient(user_agent=AGENT, sandbox=place)


@pytest.mark.parametrize("url", ["http://site.test/", "http://test/", "http://site.test.invalid/"])
async def test_without_a_sandbox_its_names_lead_nowhere(url):
    async def work():
        http = HttpClient(user_agent=AGENT)
        try:
            await http.send(get(url))
        finally:
            await http.close()

    with pytest.raises((PermanentError, TransientError)):
        await work()


# Secrets.


@pytest.mark.parametrize(
    "path",
    [
        "/close",
        "/reset",
        "/raw?bytes=00",
        "/say?header=Content-Encoding:br",
        "/hang",
        "/loop",
        "/to?where=file:///x",
        "/chain/9",
    ],
)
async def test_no_header_and_no_query_ever_shows(path, caplog):
    caplog.set_level(logging.DEBUG)
    mark = "&" if "?" in path else "?"
    call = get(
        f"{path}{mark}key={CANARY}", headers=SECRETS, max_redirects=2, deadline=timedelta(seconds=1)
    )
    with pytest.raises((PermanentError, UncertainError)) as raised:
        await said(call)
    seen, error = [repr(call.headers is None), caplog.text], raised.value
    while error is not None:
        seen.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert CANARY not in " ".join(seen)


async def test_a_header_that_cannot_be_sent_is_named_but_not_shown():
    with pytest.raises(PermanentError) as raised:
        await said(get("/ok", headers={"Authorization": f"{CANARY}\n"}))
    assert "Authorization" in str(raised.value)
    assert CANARY not in repr(raised.value)


def test_a_call_does_not_show_its_headers_or_body():
    assert CANARY not in repr(get("/ok", headers=SECRETS, body=CANARY.encode()))
