"""Web addresses that try to lead inside: every way of writing one that we could think of.

Only text is made here; where it leads is tried out in `web_lab`.
"""

import random
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Address, IPv6Address

GOOD = "legit.example"
INSIDE_V4 = (
    "127.0.0.1",
    "127.8.8.8",
    "10.0.0.5",
    "169.254.169.254",
    "192.168.1.1",
    "172.16.0.9",
    "100.64.0.7",
    "100.100.100.200",
    "198.18.0.1",
    "192.0.2.5",
    "0.0.0.0",
    "168.63.129.16",
    "224.0.0.1",
    "240.0.0.1",
)
INSIDE_V6 = (
    "::1",
    "::",
    "fd00::5",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "3fff::1",
    "100::1",
)
SCHEMES = ("file", "gopher", "ftp", "dict", "ldap", "tftp", "ws", "jar", "netdoc", "unix", "data")
PORTS = (0, 1, 21, 22, 23, 25, 53, 81, 110, 2375, 3306, 5432, 6379, 8000, 8080, 8443, 9200, 11211)
_CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")
_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
_BOLD = str.maketrans("0123456789", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")


def named(address: str) -> str:
    """Return a name that the lab's DNS answers with this address."""
    number = IPv6Address(address) if ":" in address else IPv4Address(address)
    return f"ip-{number.packed.hex()}.{GOOD}"


def v4_hosts(address: str) -> Iterator[str]:
    """Yield the ways to write an IPv4 address as a host."""
    number = int(IPv4Address(address))
    a, b, c, d = address.split(".")
    parts = [int(part) for part in (a, b, c, d)]
    yield address
    yield address + "."
    yield str(number)
    yield hex(number)
    yield hex(number).upper().replace("0X", "0x")
    yield "0X" + format(number, "x")
    yield "0" + format(number, "o")
    yield "000" + format(number, "o")
    yield str(number + 2**32)
    yield ".".join(hex(part) for part in parts)
    yield ".".join("0" + format(part, "o") for part in parts)
    yield ".".join(format(part, "03d") for part in parts)
    yield f"{hex(parts[0])}.{b}.0{parts[2]:o}.{d}"
    yield f"{a}.{parts[1] * 65536 + parts[2] * 256 + parts[3]}"
    yield f"{a}.{b}.{parts[2] * 256 + parts[3]}"
    yield address.translate(_CIRCLED)
    yield address.translate(_WIDE)
    yield address.translate(_BOLD)
    yield address.replace(".", "。")
    yield address.replace(".", "．")
    yield address.replace(".", "%2e")
    yield "%" + format(ord(address[0]), "x") + address[1:]
    yield f"[::ffff:{address}]"
    yield f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]"
    yield f"[0:0:0:0:0:ffff:{address}]"
    yield f"[::{address}]"
    yield f"[64:ff9b::{address}]"
    yield f"[64:ff9b:1::{address}]"
    yield f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]"
    yield f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1%25lo]"
    yield f"[{address}]"
    yield f"{GOOD}@{address}"
    yield f"{GOOD}:80@{address}"
    yield f"{GOOD}%40{address}"
    yield f"{address}\\@{GOOD}"
    yield f"{address}#@{GOOD}"
    yield f"{address}?@{GOOD}"
    yield f"{address}%00.{GOOD}"
    yield f"{address}%2f.{GOOD}"
    yield f"{address}\t"
    yield f"{address}:443"
    yield f"{address}:22"
    yield named(address)
    yield named(address).upper()
    yield named(address) + "."
    yield f"mix-{named(address)}"
    yield f"alias-{named(address)}"


def v6_hosts(address: str) -> Iterator[str]:
    """Yield the ways to write an IPv6 address as a host."""
    whole = IPv6Address(address)
    yield f"[{address}]"
    yield f"[{whole.exploded}]"
    yield f"[{address.upper()}]"
    yield f"[{address}%25lo]"
    yield f"[{address}%lo]"
    yield f"[{address}]:443"
    yield f"{GOOD}@[{address}]"
    yield address
    yield named(address)
    yield f"mix-{named(address)}"


def attacks() -> list[str]:
    """Return every attack there is."""
    hosts = [host for address in INSIDE_V4 for host in v4_hosts(address)]
    hosts += [host for address in INSIDE_V6 for host in v6_hosts(address)]
    hosts += ["localhost", "localhost.", "LOCALHOST", "foo.localhost", "localhost.localdomain"]
    hosts += ["ip6-localhost", "metadata", "metadata.google.internal", "kubernetes.default.svc"]
    urls = [f"http://{host}/" for host in hosts] + [f"https://{host}/" for host in hosts[::7]]
    urls += [f"{scheme}://{GOOD}/" for scheme in SCHEMES]
    urls += [f"{scheme}:///etc/passwd" for scheme in SCHEMES]
    urls += [f"http://{GOOD}:{port}/" for port in PORTS] + [f"http://127.0.0.1:{p}/" for p in PORTS]
    urls += ["http:127.0.0.1", "http:/127.0.0.1", "//127.0.0.1/", "http:///127.0.0.1/"]
    urls += ["http:\\\\127.0.0.1\\", "\\\\127.0.0.1\\x", "http://127.0.0.1\\.legit.example/"]
    return list(dict.fromkeys(urls))


@cache
def _pool() -> list[str]:
    return attacks()


def fuzzed(rng: random.Random) -> str:
    """Return an attack with something done to it."""
    pool = _pool()
    url = list(rng.choice(pool))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(url) + 1)
        kind = rng.random()
        if kind < 0.4:
            url.insert(at, rng.choice("0123456789abcdefx.:[]@/\\?#%-_。．①Ａ\t\u200b\xad"))
        elif kind < 0.7 and at < len(url):
            del url[at]
        elif kind < 0.85 and at < len(url):
            url[at] = url[at].swapcase()
        else:
            other = rng.choice(pool)
            cut = rng.randrange(len(other))
            url[at:] = other[cut:]
    return "".join(url)
