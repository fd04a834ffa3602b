"""A road to Postgres that can be cut exactly where it hurts: at a COMMIT, before or after.

A TCP port in front of the server's socket. It reads enough of the wire protocol to tell one
message from the next and to know a COMMIT when it passes; everything else goes through untouched.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

COMMIT = b"COMMIT\0"


class Fate(Enum):
    """What becomes of a message on its way to the server."""

    PASS = "goes through"
    LOST = "is lost, and the connection with it"
    UNANSWERED = "arrives, is carried out, and its answer is lost with the connection"
    RESERVED = "is swallowed, and the connection stays open and silent"


class Proxy:
    """Asks `fate` about each message, given as (type, body), before it goes on."""

    def __init__(self, server: Path, fate: Callable[[bytes, bytes], Fate]) -> None:
        self._server, self._fate = server, fate
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def rewrite_url(self, url: str) -> str:
        """Return the same URL by this road."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        query = dict(parse_qsl(parts.query)) | {"sslmode": "disable", "gssencmode": "disable"}
        query.pop("host", None)
        host = f"{user}@127.0.0.1:{self._listening.getsockname()[1]}"
        return urlunsplit(parts._replace(netloc=host, query=urlencode(query)))

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            still_open = list(self._open)
        for end in still_open:
            _shut(end)
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with suppress(OSError):  # a server that is down: the client finds its end closed
                server.connect(str(self._server))
            with self._lock:
                self._open |= {client, server}
            self._start(self._forth, client, server)

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        mute = threading.Event()
        back = threading.Thread(target=_back, args=(server, client, mute), daemon=True)
        back.start()
        with suppress(OSError, EOFError):
            server.sendall(_startup(client))
            while True:
                kind, body = _message(client)
                fate = self._fate(kind, body)
                if fate is Fate.LOST:
                    break
                if fate is Fate.RESERVED:
                    client.recv(1)  # nothing more goes on; ends when the client gives up
                    break
                if fate is Fate.UNANSWERED:
                    mute.set()
                server.sendall(kind + struct.pack("!I", len(body) + 4) + body)
                if fate is Fate.UNANSWERED:
                    back.join()  # it ends when the server has said that it is done
                    break
        for end in (client, server):
            _shut(end)
        back.join()
        for end in (client, server):
            end.close()
        with self._lock:
            self._open -= {client, server}


def _back(server: socket.socket, client: socket.socket, mute: threading.Event) -> None:
    """Carry answers; once muted, swallow the next one and stop."""
    with suppress(OSError):
        while data := server.recv(65536):
            if mute.is_set():
                return
            client.sendall(data)
    _shut(client)


def _startup(client: socket.socket) -> bytes:
    head = _exactly(client, 4)
    return head + _exactly(client, struct.unpack("!I", head)[0] - 4)


def _message(client: socket.socket) -> tuple[bytes, bytes]:
    kind, size = struct.unpack("!cI", _exactly(client, 5))
    return kind, _exactly(client, size - 4)


def _exactly(end: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = end.recv(size - len(got))
        if not more:
            raise EOFError
        got += more
    return bytes(got)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
