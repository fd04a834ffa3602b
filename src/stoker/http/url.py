"""What a web address is: parsed strictly, written one way, and refused when it could mean two.

Only http and https, ports 80 and 443, no user names, no numbers in disguise; a setting may allow
one place to be private, at any port. Which IP addresses are public or private is decided here;
`ssrf` asks it for every address that a name resolves to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import quote, urljoin

import idna

from stoker.base.errors import PermanentError

_V4_REFUSED = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers, and some clouds' metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's own host agent, though it looks public
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

# Only what has been given out as global unicast. Mapped, translated, unique-local, link-local and
# multicast addresses all lie outside it.
_V6_ALLOWED = IPv6Network("2000::/3")

_V6_REFUSED = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments; Teredo tunnels
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is on the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _V4_REFUSED)
    if address.scope_id is not None or address not in _V6_ALLOWED:
        return False
    return not any(address in network for network in _V6_REFUSED)


def is_public_text(text: str) -> bool:
    """Say the same of an address as written; what cannot be read is not public."""
    try:
        return is_public(ip_address(text))
    except ValueError:
        return False


# What a setting may allow: an office's own network and this machine. No link-local addresses, where
# clouds answer with credentials.
_PRIVATE = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
    )
)


def is_private(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is in a private network or on this machine."""
    return any(address.version == net.version and address in net for net in _PRIVATE)


def is_private_text(text: str) -> bool:
    """Say the same of an address as written."""
    try:
        return is_private(ip_address(text))
    except ValueError:
        return False


MAX_URL_LENGTH = 8_000  # characters; servers refuse longer ones anyway
PORTS = {"http": 80, "https": 443}
SANDBOX_SUFFIX = ".test"  # of every host of the sandbox; reserved, so never on the internet
_MAX_NAME_LENGTH = 253  # characters of a host, without its last dot
_MAX_SHOWN = 200  # characters of an address in a sentence
_PARTS = re.compile(r"(?i:(https?))://([^/?#\\]*)(/[^?#]*)?(?:\?([^#]*))?(?:#.*)?", re.DOTALL)

_BAD = re.compile(
    "[\x00-\x20\x7f-\xa0\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]"
)

_PLAIN_TARGET = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%|]*")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Url:
    """One address on the web. Build it with `parse_url`."""

    scheme: str
    host: str  # as DNS knows it: lower case, ASCII; or a literal public address
    port: int
    target: str  # path and query, as sent
    may_be_private: bool = False  # a setting allows this very place to be private, at any port

    @property
    def netloc(self) -> str:
        """The host, with its port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int, bool]:
        """To whom one speaks there, and by which right; credentials never go from one to another.

        What a setting allows is another origin than the same host on a page: a connection to the
        one is never used for the other.
        """
        return (self.scheme, self.host, self.port, self.may_be_private)

    @property
    def is_confidential(self) -> bool:
        """Whether what is sent cannot be read or changed on the way: https, or the sandbox.

        Or a place that may be private: without https, `ssrf` connects to private addresses alone.
        """
        return self.scheme == "https" or is_sandbox_host(self.host) or self.may_be_private

    @property
    def display_text(self) -> str:
        """The address as it may stand in an error or a log: no query, bounded."""
        path = self.target.partition("?")[0]
        return f"{self.scheme}://{self.netloc}{path}"[:_MAX_SHOWN]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.target}"


def is_sandbox_host(host: str) -> bool:
    return host.endswith(SANDBOX_SUFFIX)


def parse_url(text: str, *, may_be_private: bool = False) -> Url:
    """Return what an address means, written one way; its fragment goes.

    With `may_be_private` its host may be private or on this machine, and its port any.

    Raises PermanentError, without repeating the address, when it is none that we may visit.
    """
    text = text.strip(" \t\r\n")
    if len(text) > MAX_URL_LENGTH:
        raise PermanentError(f"a web address of over {MAX_URL_LENGTH} characters is not visited")
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise PermanentError("this is not a web address; it needs http:// or https:// and a host")
    if _BAD.search(text):
        raise PermanentError("a web address has no spaces or control characters in it")
    scheme = parts[1].lower()
    host, port = _parse_authority(scheme, parts[2], may_be_private)
    target = (parts[3] or "/") + ("" if parts[4] is None else "?" + parts[4])
    if not _PLAIN_TARGET.fullmatch(target):
        target = quote(target, safe="-._~:/?#[]@!$&'()*+,;=%|")
    return Url(scheme, host, port, target, may_be_private)


def resolve_link(base: Url, reference: str) -> Url:
    """Return where a link on a page, or a redirect, leads. Raises as `parse_url`."""
    reference = reference.strip(" \t\r\n")
    if _BAD.search(reference) or len(reference) > MAX_URL_LENGTH:
        raise PermanentError("a web address has no spaces or control characters in it")
    try:
        return parse_url(urljoin(str(base), reference.replace("\\", "/")))
    except ValueError as error:
        raise PermanentError("this link cannot be read as a web address") from error


@lru_cache(maxsize=4096)
def _parse_authority(scheme: str, text: str, may_be_private: bool) -> tuple[str, int]:
    if "@" in text:
        raise PermanentError("a web address with a user name in it is not visited")
    host, port = text, PORTS[scheme]
    literal, bracket, rest = text.partition("]")
    if bracket:
        host = literal + bracket
    else:
        host, _, _ = text.partition(":")
        rest = text[len(host) :]
    if rest not in ("", ":"):
        if not (rest[0] == ":" and rest[1:].isascii() and rest[1:].isdigit() and len(rest) <= 6):
            raise PermanentError("the port of this web address is not a number")
        port = int(rest[1:])
    if port not in PORTS.values() and not (may_be_private and 0 < port < 65_536):
        raise PermanentError(f"only ports 80 and 443 are visited, not {port}")
    parse = _parse_ipv6 if bracket else _parse_host
    return parse(host, may_be_private), port


def _is_allowed(address: IPv4Address | IPv6Address | None, may_be_private: bool) -> bool:
    return address is not None and (is_public(address) or (may_be_private and is_private(address)))


def _parse_ipv6(text: str, may_be_private: bool) -> str:
    try:
        address = IPv6Address(text[1:-1]) if text[:1] == "[" and "%" not in text else None
    except ValueError:
        address = None
    if address is None or not _is_allowed(address, may_be_private):
        raise PermanentError("the host of this web address is not a public address")
    return address.compressed


def _parse_host(text: str, may_be_private: bool) -> str:
    """Return a host's name as DNS knows it; numbers only in their one plain form."""
    name = text
    if len(text) > _MAX_NAME_LENGTH + 1:  # before IDNA, which takes long
        raise PermanentError("the host of this web address is not a public name")
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise PermanentError("the host of this web address is not a name DNS knows") from error
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = IPv4Address(name)
        except ValueError:
            address = None
        if not _is_allowed(address, may_be_private):
            raise PermanentError("the host of this web address is not a public address")
        return name
    if (
        (len(labels) < 2 and not may_be_private)
        or len(name) > _MAX_NAME_LENGTH
        or not all(_LABEL.fullmatch(one) for one in labels)
    ):
        raise PermanentError("the host of this web address is not a public name")
    return name
