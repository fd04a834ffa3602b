"""One place that a setting names may be private; everything else is refused as before."""

import asyncio
import socket
from datetime import timedelta

import pytest

from stoker.base.errors import ConfigError, PermanentError
from stoker.crm.odoo import Odoo
from stoker.http.client import HttpClient, Request
from stoker.http.fields import OWN_URL, require_allowed_url
from stoker.http.ssrf import CheckedAddress, require_own
from stoker.http.url import parse_url
from stoker.sandbox.server import Sandbox
from stoker.sandbox.vendors.odoo.server import build_odoo_handler

DEADLINE = timedelta(seconds=60)
OWN = [
    "http://127.0.0.1:8069",
    "http://10.0.0.5:8069",
    "https://192.168.1.4:8443",
    "https://odoo.lan:8069",
    "https://localhost",
    "http://[::1]:8069",
    "http://[fd00::5]:8069",
    "http://odoo:8069",
]
NEVER = [
    "http://169.254.169.254",  # a cloud's metadata
    "http://100.100.100.200",
    "http://0.0.0.0:8069",
    "http://[fe80::1]:8069",
    "http://[::ffff:10.0.0.5]:8069",
    "http://2130706433:8069",
    "http://user@10.0.0.5:8069",
    "http://10.0.0.5:0",
    "http://10.0.0.5:99999",
]


@pytest.mark.parametrize("url", OWN)
def test_a_server_of_ones_own_is_allowed_where_a_setting_says_so_and_refused_elsewhere(url):
    assert OWN_URL.read(url, True) == url
    require_allowed_url(url, setting="odoo.allow_private", may_be_private=True)
    with pytest.raises(ConfigError, match=r"set odoo\.allow_private = true"):
        require_allowed_url(url, setting="odoo.allow_private", may_be_private=False)


@pytest.mark.parametrize("url", NEVER)
def test_what_is_neither_public_nor_private_is_refused_whatever_the_setting(url):
    with pytest.raises(PermanentError):
        parse_url(url, may_be_private=True)


@pytest.mark.parametrize(
    ("addresses", "is_encrypted", "allowed"),
    [
        (["10.0.0.5"], False, True),
        (["10.0.0.5", "::1"], False, True),
        (["8.8.8.8"], True, True),
        (["8.8.8.8"], False, False),  # its key would be readable on the way
        (["10.0.0.5", "8.8.8.8"], True, False),
        (["169.254.169.254"], True, False),
        ([], True, False),
    ],
)
def test_a_name_leads_to_private_addresses_alone_or_to_public_ones_encrypted(
    addresses, is_encrypted, allowed
):
    found = [
        CheckedAddress(socket.AF_INET6 if ":" in each else socket.AF_INET, each, 8069)
        for each in addresses
    ]
    try:
        assert require_own("odoo.lan", found, is_encrypted=is_encrypted) == found
    except PermanentError:
        assert not allowed
    else:
        assert allowed


def test_a_connection_to_an_own_server_is_no_ones_who_may_not_open_it():
    own, strange = (parse_url("https://odoo.lan/", may_be_private=may) for may in (True, False))
    assert own.origin != strange.origin


async def test_an_odoo_on_this_machine_is_called_and_nothing_else_there_is():
    async with Sandbox(companies=1, vendors={"127.0.0.1": build_odoo_handler}) as box:
        http = HttpClient(user_agent="Stoker test")
        key, url = "odoo-acme-ours", f"http://{box.address}"
        try:
            for protocol in ("", "json2", "xmlrpc"):
                how = {"database": "acme", "key": key, "login": "stoker", "protocol": protocol}
                healthy = await Odoo(http, url=url, may_be_private=True, **how).check()
                assert healthy.ok, healthy
                seen = len(box.log)
                refused = await Odoo(http, url=url, **how).check()
                assert not refused.ok
                assert len(box.log) == seen
            # A page that leads there is refused, though a connection to it is open.
            page = Request(method="GET", url=url, deadline=DEADLINE)
            with pytest.raises(PermanentError):
                await http.send(page)
            assert len(box.log) == seen
        finally:
            await http.close()


async def test_a_redirect_from_an_own_server_to_a_private_one_is_not_followed():
    async def redirect(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        there = "http://127.0.0.1:9/"
        writer.write(f"HTTP/1.1 302 x\r\nlocation: {there}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = HttpClient(user_agent="Stoker test")
    call = Request(
        method="GET",
        url=f"http://127.0.0.1:{port}/",
        deadline=DEADLINE,
        may_be_private=True,
        max_redirects=2,
    )
    try:
        with pytest.raises(PermanentError, match=r"ports 80 and 443|not a public"):
            await http.send(call)
    finally:
        await http.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("protocol", ["", "json2", "xmlrpc"])
async def test_a_name_that_turns_out_private_is_refused_with_the_name_of_the_setting(protocol):
    http = HttpClient(user_agent="Stoker test", look_up=lambda host: [(socket.AF_INET, "10.0.0.5")])
    try:
        odoo = Odoo(
            http,
            url="https://odoo.example.com",
            database="acme",
            key="odoo-acme-ours",
            login="stoker",
            protocol=protocol,
        )
        refused = await odoo.check()
    finally:
        await http.close()
    assert not refused.ok
    assert "set odoo.allow_private = true" in refused.detail
