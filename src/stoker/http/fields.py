"""Which places a setting may name: a vendor's address on the web, and the sandbox's on loopback.

`http.url` reads any address; a setting may name none that would send a key unencrypted over the
internet, and no sandbox that is reachable from other machines.
"""

from __future__ import annotations

from typing import Any

from stoker.base.errors import ConfigError, PermanentError
from stoker.config.fields import FieldType, Secret, require_type

SANDBOX_WORD = "sandbox"  # in a key that cannot cost anything


def is_sandbox_url(url: str | None) -> bool:
    """Say whether an address is one of the sandbox's. Raises as `parse_url`."""
    from stoker.http.url import is_sandbox_host, parse_url  # here: most commands never need it

    return url is not None and is_sandbox_host(parse_url(url, may_be_private=True).host)


def is_sandbox_key(key: Secret | None) -> bool:
    """Return whether a key may be sent to a fake vendor."""
    return key is not None and SANDBOX_WORD in key.reveal()


def _parse_base_url(given: Any, typed: bool) -> str:
    from stoker.http.url import parse_url

    try:
        address = parse_url(require_type(str, given))
    except PermanentError as error:
        raise ConfigError(str(error)) from error
    if "?" in address.target or "#" in given or not address.is_confidential:
        raise ValueError(given)
    return str(address).rstrip("/")


BASE_URL = FieldType(
    name="web address",
    allowed="an address that begins with https://; http:// only where the name ends in .test",
    parse=_parse_base_url,
)


def _parse_own_url(given: Any, typed: bool) -> str:
    from stoker.http.url import parse_url

    try:
        address = parse_url(require_type(str, given), may_be_private=True)
    except PermanentError as error:
        raise ConfigError(str(error)) from error
    if "?" in address.target or "#" in given:
        raise ValueError(given)
    return str(address).rstrip("/")


OWN_URL = FieldType(
    name="web address",
    allowed="an address that begins with https://; a private one, http:// and other ports if a "
    "setting allows that",
    parse=_parse_own_url,
)
"""An address in a private network, too; where it is used, `require_allowed_url` decides."""


def require_allowed_url(url: str, *, setting: str, may_be_private: bool) -> None:
    """Raise ConfigError for an address that is not public, unless its setting allows it."""
    from stoker.http.url import parse_url

    try:
        is_allowed = may_be_private or parse_url(url).is_confidential
    except PermanentError:
        is_allowed = False
    if not is_allowed:
        where = parse_url(url, may_be_private=True).display_text
        raise ConfigError(
            f"{where} is not a public https:// address; if it is your own server, "
            f"set {setting} = true"
        )


def _parse_loopback(given: Any, typed: bool) -> str | None:
    from stoker.http.ssrf import parse_sandbox_address

    address = require_type(str, given).strip()
    if not address:
        return None
    try:
        parse_sandbox_address(address)
    except ConfigError as error:
        raise ValueError(given) from error
    return address


LOOPBACK = FieldType(
    name="loopback address",
    allowed="a loopback address and a port, e.g. 127.0.0.1:8099; empty switches it off",
    parse=_parse_loopback,
)
