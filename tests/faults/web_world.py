"""What the lab's internet is made of: addresses, DNS, a web server, and eyes on the wire.

To be used inside a network namespace of its own, by `web_lab`.
"""

import asyncio
import socket
import ssl
import struct
import subprocess
import threading
from collections import Counter
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from faults.web_attacks import GOOD

PUBLIC_V4, PUBLIC_V6 = "93.184.216.34", "2606:2800:220:1::34"
RESOLVER = "127.0.0.53"

# An opinion of what is inside that is independent of the one being tried.
_INSIDE = [
    ip_network(text)
    for text in (
        *("100.64.0.0/10", "168.63.129.16", "192.88.99.0/24", "224.0.0.0/4", "::ffff:0:0/96"),
        *("::/8", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16", "3fff::/20"),
        "ff00::/8",
    )
]


def inside(text: str) -> bool:
    address = ip_address(text)
    return not address.is_global or any(
        address in each for each in _INSIDE if each.version == address.version
    )


def prepare(room: Path) -> ssl.SSLContext:
    """Let every address lead here, DNS to us, and make certificates; return what to trust."""
    for command in (
        "ip link set lo up",
        "ip route add local 0.0.0.0/0 dev lo",
        "ip -6 route add local ::/0 dev lo",
        f"ip addr add {PUBLIC_V4}/32 dev lo",
        f"ip -6 addr add {PUBLIC_V6}/128 dev lo nodad",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    (room / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:2 attempts:2\n")
    resolv = Path("/etc/resolv.conf").resolve()
    subprocess.run(["mount", "--bind", str(room / "resolv.conf"), str(resolv)], check=True)
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    made += f" -keyout key.pem -out cert.pem -subj /CN={GOOD}"
    made += f" -addext subjectAltName=DNS:{GOOD},DNS:www.{GOOD}"
    subprocess.run(made.split(), cwd=room, check=True, capture_output=True)
    trust = ssl.create_default_context(cafile=str(room / "cert.pem"))
    trust.set_alpn_protocols(["http/1.1"])
    return trust


class Names(threading.Thread):
    """A DNS server that answers as a name tells it to.

    ip-HEX       that address
    mix-ip-HEX   that address and a public one
    alias-ip-HEX the same by way of another name
    flipN-HEX-U  a public address N times, then that one
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._asked: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((RESOLVER, 53))

    def run(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(2000)
            self._socket.sendto(self._answer(query), sender)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("latin-1").lower())
            at += query[at] + 1
        kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
        question = query[12 : at + 5]
        name = ".".join(labels)
        try:
            found = self._addresses(name, kind)
        except ValueError:
            found = None  # a name that says nothing
        rows = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(each)) + each for each in found or []
        )
        code = 0x8180 if found is not None else 0x8183
        return query[:2] + struct.pack("!HHHHH", code, 1, len(found or []), 0, 0) + question + rows

    def _addresses(self, name: str, kind: int) -> list[bytes] | None:
        public = IPv4Address(PUBLIC_V4).packed if kind == 1 else IPv6Address(PUBLIC_V6).packed
        size = 4 if kind == 1 else 16
        if kind not in (1, 28) or not name.endswith(GOOD):
            return None
        first = name.removesuffix(GOOD).rstrip(".")
        if first in ("", "www", "xn--bcher-kva"):
            return [public]
        words = first.split("-")
        if words[0] == "wrong":
            return [public] if kind == 1 else []
        if words[0].startswith("flip"):
            self._asked[f"{name}/{kind}"] += 1
            flipped = self._asked[f"{name}/{kind}"] > int(words[0][4:])
            hidden = bytes.fromhex(words[1])
            if not flipped:
                return [public] if kind == 1 else []
            return [hidden] if len(hidden) == size else []
        hidden = bytes.fromhex(words[-1])
        own = [hidden] if len(hidden) == size else []
        return [public, *own] if words[0] == "mix" else own


class Wire(threading.Thread):
    """Reads every TCP connection attempt in the namespace off the wire."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.tried: Counter[tuple[str, int]] = Counter()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 * 2**20)  # SO_RCVBUFFORCE
        self._socket.bind(("lo", 0))

    def run(self) -> None:
        while True:
            frame, (_, kind, direction, *_) = self._socket.recvfrom(200)
            if direction != 4:  # PACKET_OUTGOING: each one is also seen coming in
                continue
            if kind == 0x0800 and frame[23] == 6:
                start, to = 14 + (frame[14] & 15) * 4, str(IPv4Address(frame[30:34]))
            elif kind == 0x86DD and frame[20] == 6:
                start, to = 54, str(IPv6Address(frame[38:54]))
            else:
                continue
            if frame[start + 13] & 0x12 == 0x02:  # SYN without ACK
                self.tried[(to, struct.unpack("!H", frame[start + 2 : start + 4])[0])] += 1


class Sites(threading.Thread):
    """The web server behind every address: `public`, or `CANARY` where nobody may come."""

    def __init__(self, room: Path) -> None:
        super().__init__(daemon=True)
        self.hits: list[str] = []
        self.ready = threading.Event()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(room / "cert.pem", room / "key.pem")

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        for host in ("0.0.0.0", "::"):
            for port in (80, 443, 22, 6379, 8080):
                tls = self._tls if port == 443 else None
                await asyncio.start_server(self._connected, host, port, ssl=tls, backlog=1000)
        self.ready.set()
        await asyncio.sleep(3600)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here, port, *_ = writer.get_extra_info("sockname")
        here = here.removeprefix("::ffff:").split("%")[0]
        bad = inside(here) or port not in (80, 443)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            if bad:
                self.hits.append(f"{here}:{port}")
            target = urlsplit(head.split(" ")[1])
            body = b"CANARY" if bad else b"public"
            status, where = 200, ""
            if target.path == "/to":
                asked = parse_qs(target.query)
                status = int(asked["status"][0])
                where = f"Location: {asked['where'][0].encode().decode('latin-1')}\r\n"
            # Closed each time, so that the next request looks the name up again.
            said = f"HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
            writer.write((said + where).encode("latin-1") + b"\r\n" + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, IndexError, UnicodeError):
            pass
        finally:
            writer.close()
