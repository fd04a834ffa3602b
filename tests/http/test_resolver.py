"""Names that are never answered for: they hold up neither other names nor vendors, nor the end."""

import asyncio
import socket
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from stoker.base.errors import PermanentError, TransientError
from stoker.discovery.boards import BOARD_APIS, Board
from stoker.discovery.feeds import Feeds
from stoker.http.api_client import VendorApi
from stoker.http.client import Response
from stoker.http.resolver import MAX_REMEMBERED, Resolver
from stoker.http.ssrf import (
    LATE_SITE_LOOKUPS,
    LATE_VENDOR_LOOKUPS,
    SITE_LOOKUPS,
    VENDOR_LOOKUPS,
    SafeConnector,
)

PUBLIC = [(socket.AF_INET, "93.184.216.34")]
LOOPBACK = [(socket.AF_INET, "127.0.0.1")]


class Dns:
    """A lookup that blocks for names beginning with `dead` until it is let go."""

    def __init__(self, answer=PUBLIC):
        self.asked, self.answer, self.released = [], answer, threading.Event()
        self.at, self.timers = 0.0, []

    def __call__(self, host):
        self.asked.append(host)
        if host.startswith("dead"):
            assert self.released.wait(60)
        if host.startswith("none"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        if host.startswith("again"):
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        if host.startswith("bad"):
            raise UnicodeError("no name")
        return self.answer

    def call_later(self, seconds, run):
        assert seconds == 5
        self.timers.append(run)

    def pass_limit(self):
        """Let the time limit of all lookups begun so far be over."""
        timers, self.timers = self.timers, []
        for run in timers:
            run()


@pytest.fixture
def dns():
    made = Dns()
    yield made
    made.released.set()


def resolver(dns, *, most=2, late=3, remember=0):
    return Resolver(
        most=most,
        late=late,
        remember=timedelta(seconds=remember),
        look_up=dns,
        now=lambda: dns.at,
        call_later=dns.call_later,
    )


async def begun(dns, number):
    """Wait until so many lookups have begun."""
    while len(dns.asked) < number:
        await asyncio.sleep(0)


async def ended(*tasks):
    return [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)]


async def test_dead_names_give_their_places_to_others_when_their_time_is_over(dns):
    names = resolver(dns)
    dead = [asyncio.create_task(names.resolve(f"dead{n}")) for n in range(2)]
    await begun(dns, 2)
    good = asyncio.create_task(names.resolve("good"))
    await asyncio.sleep(0)
    assert "good" not in dns.asked
    dns.pass_limit()
    assert await good == PUBLIC
    assert await ended(*dead) == [TransientError] * 2


@pytest.mark.parametrize(
    ("most", "late"),
    [(SITE_LOOKUPS, LATE_SITE_LOOKUPS), (VENDOR_LOOKUPS, LATE_VENDOR_LOOKUPS)],
)
async def test_a_stream_of_dead_names_gives_way_at_each_time_limit(dns, most, late):
    names = resolver(dns, most=most, late=late)
    tasks = []
    for limit in range(8):  # 40 seconds, while no lookup ends
        hosts = [f"dead{limit}.{number}" for number in range(most)]
        tasks += [asyncio.create_task(names.resolve(host)) for host in hosts]
        good = asyncio.create_task(names.resolve("good"))
        await asyncio.sleep(0)
        assert len(dns.timers) == most  # the good one waits
        dns.pass_limit()
        await asyncio.sleep(0)
        assert len(dns.timers) == 1  # and has begun
        assert await good == PUBLIC
        dns.timers.clear()
    assert await ended(*tasks) == [TransientError] * 8 * most


async def test_no_more_threads_than_are_allowed_however_many_names_are_dead(dns):
    names = resolver(dns)
    dead = [asyncio.create_task(names.resolve(f"dead{n}")) for n in range(9)]
    for number in (2, 4, 5):
        await begun(dns, number)
        dns.pass_limit()
        for _ in range(10):
            await asyncio.sleep(0)
    assert len(dns.asked) == 5  # two at work, three late
    assert sum(each.name == "stoker-resolve" for each in threading.enumerate()) >= 5
    waiting = asyncio.create_task(names.resolve("good"))
    dns.released.set()  # the threads end, and their places are free again
    assert await waiting == PUBLIC
    assert len(await asyncio.gather(*dead, return_exceptions=True)) == 9


async def test_a_caller_that_is_out_of_time_leaves_the_queue_and_the_others_go_on(dns):
    names = resolver(dns, most=1)
    dead = asyncio.create_task(names.resolve("dead"))
    await begun(dns, 1)
    gone, stays = (asyncio.create_task(names.resolve(name)) for name in ("gone", "stays"))
    await asyncio.sleep(0)
    gone.cancel()
    dns.pass_limit()
    assert await stays == PUBLIC
    assert await ended(gone, dead) == [asyncio.CancelledError, TransientError]
    assert "gone" not in dns.asked


async def test_one_name_is_looked_up_once_however_many_ask_and_whoever_leaves(dns):
    names = resolver(dns, most=5)
    first, *others = [asyncio.create_task(names.resolve("dead")) for _ in range(5)]
    await begun(dns, 1)
    first.cancel()
    await ended(first)
    dns.released.set()
    assert await asyncio.gather(*others) == [PUBLIC] * 4
    assert dns.asked == ["dead"]


async def test_a_name_that_failed_is_not_looked_up_again_for_a_while(dns):
    names = resolver(dns, remember=30)
    for host, error in (("none", PermanentError), ("again", TransientError)):
        assert await ended(names.resolve(host), names.resolve(host)) == [error] * 2
    dead = asyncio.create_task(names.resolve("dead"))
    await begun(dns, 3)
    dns.pass_limit()
    assert await ended(dead, names.resolve("dead"), names.resolve("none")) == [
        TransientError,
        TransientError,
        PermanentError,
    ]
    assert dns.asked == ["none", "again", "dead"]
    await ended(names.resolve("again"))  # a failure of the moment is not held against a name
    assert dns.asked.count("again") == 2
    dns.released.set()
    dns.at = 31.0
    await begun(dns, 4)
    assert await ended(names.resolve("none")) == [PermanentError]
    while await ended(names.resolve("dead")) != [list]:
        await asyncio.sleep(0)  # its thread is ending
    assert dns.asked.count("none") == 2


async def test_what_waited_for_a_place_meanwhile_knows_what_others_found_out(dns):
    names = resolver(dns, most=1, remember=30)
    tasks = [asyncio.create_task(names.resolve("dead")) for _ in range(1)]
    await begun(dns, 1)
    tasks += [asyncio.create_task(names.resolve("none")) for _ in range(5)]
    await asyncio.sleep(0)
    dns.pass_limit()
    assert await ended(*tasks) == [TransientError] + [PermanentError] * 5
    assert dns.asked == ["dead", "none"]


async def test_only_so_many_names_are_remembered(dns):
    names = resolver(dns, remember=30)
    for number in range(MAX_REMEMBERED + 1):
        await ended(names.resolve(f"none{number}"))
    await ended(names.resolve(f"none{MAX_REMEMBERED}"), names.resolve("none0"))
    assert dns.asked.count(f"none{MAX_REMEMBERED}") == 1
    assert dns.asked.count("none0") == 2


async def test_a_name_that_is_none_is_refused_for_good_and_a_closed_resolver_begins_nothing(dns):
    names = resolver(dns)
    with pytest.raises(PermanentError, match="not a name"):
        await names.resolve("bad")
    names.close()
    with pytest.raises(TransientError, match="closing"):
        await names.resolve("good")
    assert dns.asked == ["bad"]


@pytest.mark.parametrize("is_vendor", [False, True])
async def test_the_dead_names_of_sites_do_not_hold_up_vendors_and_the_other_way_round(is_vendor):
    dns = Dns(LOOPBACK)
    connector = SafeConnector(look_up=dns)
    most = VENDOR_LOOKUPS if is_vendor else SITE_LOOKUPS
    dead = [
        asyncio.create_task(connector.connect(f"dead{n}", 443, is_vendor=is_vendor))
        for n in range(2 * most)
    ]
    await begun(dns, most)
    with pytest.raises(PermanentError, match="not public"):
        await connector.connect("good", 443, is_vendor=not is_vendor)
    assert len(dns.asked) == most + 1
    dns.released.set()
    await asyncio.gather(*dead, return_exceptions=True)
    connector.close()


class Listening:
    """An HTTP client that writes calls down and answers each with an empty list."""

    def __init__(self):
        self.calls = []

    async def send(self, call):
        self.calls.append(call)
        return Response(
            status=200, headers={}, body=b"[]", url=call.url, truncated=False, wire_bytes=2
        )


async def test_vendors_and_boards_are_looked_up_as_vendors_and_feeds_as_sites():
    http = Listening()
    await VendorApi(
        http, name="x", base_url="https://x.test", headers={}, deadline=timedelta(seconds=1)
    ).get("/")
    board = Board(http, BOARD_APIS["lever"], base_url="https://lever.test")
    await board.read_postings("acme")
    await board.check()
    with pytest.raises(PermanentError):
        await Feeds(http).read_postings("https://feeds.test/x")
    assert [call.is_vendor for call in http.calls] == [True, True, True, False]


def test_threads_for_names_are_few():
    assert SITE_LOOKUPS + LATE_SITE_LOOKUPS + VENDOR_LOOKUPS + LATE_VENDOR_LOOKUPS <= 350


def test_lookups_under_way_hold_up_no_exit():
    """A process ends while a name is being looked up that is never answered for."""
    script = (
        "import asyncio, threading\n"
        "from stoker.http.ssrf import SafeConnector\n"
        "begun = threading.Event()\n"
        "def dead(host):\n"
        "    begun.set(); threading.Event().wait()\n"
        "async def main():\n"
        "    connector = SafeConnector(look_up=dead)\n"
        "    task = asyncio.create_task(connector.connect('dead.example', 443))\n"
        "    while not begun.is_set():\n"
        "        await asyncio.sleep(0)\n"
        "    task.cancel()\n"
        "    connector.close()\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=True).returncode == 0
