import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.hostile_server import HostileServer
from stoker.base.errors import PermanentError, TransientError
from stoker.http.ssrf import CheckedAddress, SafeConnector, parse_sandbox_address, require_public
from stoker.http.url import is_public


def place(address):
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return CheckedAddress(family, str(address), 443)


async def connected(host, port=80, **settings):
    dialer = SafeConnector(**settings)
    try:
        opened = await dialer.connect(host, port)
        with opened:
            return opened.getpeername()
    finally:
        dialer.close()


@given(st.lists(st.ip_addresses(), max_size=5))
def test_a_host_is_refused_when_any_of_its_addresses_is_not_public(addresses):
    places = [place(address) for address in addresses]
    if places and all(is_public(address) for address in addresses):
        assert require_public("example.com", places) == places
    else:
        with pytest.raises(PermanentError):
            require_public("example.com", places)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0", "::1", "::", "0.0.0.0"],
)
@pytest.mark.parametrize("sandbox", [None, "127.0.0.1:9"])
async def test_this_machine_is_never_dialled_however_it_is_called(host, sandbox):
    with pytest.raises(PermanentError):
        await connected(host, sandbox=sandbox)


@pytest.mark.parametrize("port", [0, 22, 79, 81, 8080, 8443, 65535, -1])
@pytest.mark.parametrize("host", ["site.test", "8.8.8.8"])
async def test_only_the_webs_own_ports_are_dialled(host, port):
    with pytest.raises(PermanentError):
        await connected(host, port, sandbox="127.0.0.1:9")


async def test_names_of_the_sandbox_lead_there_and_nowhere_else():
    async with HostileServer() as server:
        dialer = SafeConnector(sandbox=server.address)
        try:
            ends = []
            for port in (80, 443):
                with await dialer.connect("site.test", port) as opened:
                    ends.append("{}:{}".format(*opened.getpeername()))
            assert ends == [server.address] * 2
        finally:
            dialer.close()


@pytest.mark.parametrize("host", ["test", "site.testing", "site.test.localhost", "attest"])
async def test_what_only_looks_like_the_sandbox_is_dialled_like_anything_else(host):
    with pytest.raises((PermanentError, TransientError)):
        await connected(host, sandbox="127.0.0.1:9")


@pytest.mark.parametrize("text", ["127.0.0.1:8099", "127.9.9.9:1", "[::1]:8099"])
def test_the_sandbox_may_be_anywhere_on_loopback(text):
    assert parse_sandbox_address(text).port == int(text.rpartition(":")[2])


async def test_a_name_that_is_none_is_refused():
    for host in ("a" * 300 + ".com", "exa\0mple.com", ""):
        with pytest.raises((PermanentError, TransientError)):
            await connected(host)
