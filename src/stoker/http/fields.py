"""Which places a setting may name: a vendor's address on the web, and the sandbox's on loopback.

What an address must look like stands in `core.urls`; here is what may be *set*: nothing that would
carry a key unencrypted, and no sandbox that others could reach or that could reach others.
"""

from __future__ import annotations

from typing import Any

from stoker.base.errors import ConfigError, PermanentError
from stoker.config.fields import FieldType

SANDBOX_SUFFIX = ".test"  # how every name of the sandbox ends; reserved, so never real


def is_sandbox_url(url: str | None) -> bool:
    """Say whether an address is one of the sandbox's: its name ends in `.test`."""
    from stoker.http.url import parse_url

    return url is not None and parse_url(url).host.endswith(SANDBOX_SUFFIX)


def _parse_base_url(given: Any, typed: bool) -> str:
    from stoker.http.url import parse_url  # here, because most commands never need it

    if not isinstance(given, str):
        raise ValueError("wrong type")  # noqa: TRY004 - to the reader of a setting it is a value
    try:
        address = parse_url(given)
    except PermanentError as error:
        raise ConfigError(str(error)) from error
    if "?" in address.target or "#" in given:
        raise ValueError(given)
    if address.scheme != "https" and not address.host.endswith(SANDBOX_SUFFIX):
        raise ValueError(given)
    return str(address).rstrip("/")


BASE_URL = FieldType(
    name="web address",
    allowed="an address that begins with https://; http:// only where the name ends in .test",
    read=_parse_base_url,
)


def _parse_loopback(given: Any, typed: bool) -> str | None:
    from ipaddress import ip_address

    if not isinstance(given, str):
        raise ValueError("wrong type")  # noqa: TRY004 - as above
    if not given.strip():
        return None
    host, _, port = given.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise ValueError(given)
    if not ip_address(bare).is_loopback:
        raise ValueError(given)
    return given.strip()


LOOPBACK = FieldType(
    name="loopback address",
    allowed="a loopback address and a port, e.g. 127.0.0.1:8099; empty switches it off",
    read=_parse_loopback,
)
