"""Where sockets are opened, and therefore where it is decided whom we may talk to at all.

Every connection of every connector goes through here: a name is resolved, refused if any of its
addresses is not public, connected to at the very address that was checked, and checked once more
at the other end. One place that settings name may be private, if a setting allows it. Nothing above
can go around it, redirects and changing DNS answers included.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.http.resolver import LookUp, Resolver, look_up
from stoker.http.url import PORTS, is_private_text, is_public_text, is_sandbox_host

# Names looked up at once, and past the time limit besides; each lookup holds a thread. The system
# takes 30 to 40 seconds for a dead name, eight time limits: so many times as many may be late.
SITE_LOOKUPS, LATE_SITE_LOOKUPS = 16, 256
VENDOR_LOOKUPS, LATE_VENDOR_LOOKUPS = 8, 64
REMEMBER_DEAD = timedelta(seconds=30)  # a site's name that is not answered for
CONNECT_TIMEOUT = timedelta(seconds=10)  # all of a host's addresses together
MAX_ADDRESSES = 4  # addresses of one host that are tried


@dataclass(frozen=True, slots=True)
class CheckedAddress:
    family: int
    address: str
    port: int


def parse_sandbox_address(text: str) -> CheckedAddress:
    """Return where the sandbox listens: loopback and a port, nothing else."""
    host, _, port = text.rpartition(":")
    try:
        address = ip_address(host[1:-1] if host[:1] + host[-1:] == "[]" else host)
        is_number = port.isascii() and port.isdigit() and len(port) < 6
        if not address.is_loopback or not is_number or not 0 < int(port) < 65_536:
            raise ValueError(text)
    except ValueError as error:
        raise ConfigError(
            f"the sandbox is at a loopback address with a port, e.g. 127.0.0.1:8099, not {text!r}"
        ) from error
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return CheckedAddress(family, str(address), int(port))


class PrivateAddressError(PermanentError):
    """A host is refused because it leads to an address that is not public."""


class SafeConnector:
    """Opens connections to public addresses at ports 80 and 443, and to nothing else.

    There are two exceptions. With a sandbox, names ending in `.test` lead there and only there. An
    address that may be private, because a setting says so of that place, may be at any port.
    Vendors' names, which settings give, are looked up apart from those that pages and lists give.
    """

    def __init__(self, *, sandbox: str | None = None, look_up: LookUp = look_up) -> None:
        self._sandbox = parse_sandbox_address(sandbox) if sandbox else None
        self._sites = Resolver(
            most=SITE_LOOKUPS, late=LATE_SITE_LOOKUPS, remember=REMEMBER_DEAD, look_up=look_up
        )
        self._vendors = Resolver(most=VENDOR_LOOKUPS, late=LATE_VENDOR_LOOKUPS, look_up=look_up)
        _self_test()

    async def connect(
        self,
        host: str,
        port: int,
        *,
        is_vendor: bool = False,
        may_be_private: bool = False,
        is_encrypted: bool = False,
    ) -> socket.socket:
        """Return a socket connected to a host, whose every address must be public.

        With `may_be_private` every one may also be private; unless the caller encrypts what it
        sends, they must be. Raises PermanentError when the host is refused or does not exist,
        TransientError when it cannot be reached now; nothing was sent in either case.
        """
        if port not in PORTS.values() and not may_be_private:
            raise PermanentError(f"only ports 80 and 443 are visited, not {port}")

        def require(places: list[CheckedAddress]) -> list[CheckedAddress]:
            if may_be_private:
                return require_own(host, places, is_encrypted=is_encrypted)
            return require_public(host, places)

        if self._sandbox is not None and is_sandbox_host(host):
            return await _connect_first(host, [self._sandbox])
        resolver = self._vendors if is_vendor else self._sites
        found = [CheckedAddress(*each, port) for each in await resolver.resolve(host)]
        opened = await _connect_first(host, require(found))
        try:
            # Once more at the other end: only what the kernel says counts.
            require([CheckedAddress(opened.family, opened.getpeername()[0], port)])
        except OSError as error:
            opened.close()
            raise TransientError(f"{host} hung up at once") from error
        except PermanentError:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        """Look no more names up; a lookup under way ends by itself."""
        self._sites.close()
        self._vendors.close()


def require_own(
    host: str, found: list[CheckedAddress], *, is_encrypted: bool
) -> list[CheckedAddress]:
    """Return the places if every one is private, or every one public and what is sent encrypted."""
    if found and all(is_private_text(place.address) for place in found):
        return found
    if not is_encrypted and found and all(is_public_text(place.address) for place in found):
        raise PermanentError(f"{host} is on the public internet: use https://, a key goes along")
    return require_public(host, found)


def require_public(host: str, found: list[CheckedAddress]) -> list[CheckedAddress]:
    """Return the places if every one is public: one that is not makes the host a trap."""
    if not found:
        raise PermanentError(f"there is no host {host}")
    if not all(is_public_text(place.address) for place in found):
        raise PrivateAddressError(
            f"{host} leads to an address that is not public; it is not visited"
        )
    return found


async def _connect_first(host: str, places: list[CheckedAddress]) -> socket.socket:
    """Return a socket connected to the first of these places that answers."""
    # IPv4 first: many networks announce IPv6 and drop its packets.
    tried = sorted(places, key=lambda place: place.family != socket.AF_INET)[:MAX_ADDRESSES]
    last: Exception | None = None
    for place in tried:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT.total_seconds() / len(tried)):
                return await _open_socket(place)
        except OSError as error:  # being late is one
            last = error
    raise TransientError(f"{host} cannot be reached now") from last


async def _open_socket(place: CheckedAddress) -> socket.socket:
    opened = socket.socket(place.family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(opened, (place.address, place.port))
        return opened
    except BaseException:
        opened.close()
        raise


def _self_test() -> None:
    """Refuse to work at all when the guard does not: it would be worse than having none."""
    for address in ("127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "10.0.0.1"):
        try:
            require_public("self-test", [CheckedAddress(socket.AF_INET, address, 80)])
        except PermanentError:
            continue
        raise ConfigError(f"the guard against internal addresses lets {address} pass; do not run")
