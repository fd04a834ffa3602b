"""Which internet addresses are public: the only ones we ever connect to.

Explicit tables, because what a library calls private differs between its versions and misses
shared, translated and tunnelled ranges. How names become addresses is not known here.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

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
    """Say whether anybody on the internet could be meant by this address."""
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
