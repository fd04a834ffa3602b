"""A vendor that keeps its own count of what it charged, and does not always tell the truth.

A real HTTP server on loopback, and the client our tests call it with. Its counter is the oracle:
it goes up the moment money is gone, whatever the caller gets to hear. Used by tests and proofs.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.budgets.model import Paid

UNIT = "credits"


class Mood(StrEnum):
    """What a call meets with."""

    HONEST = "honest"
    BUSY = "busy"  # 503, which this vendor promises to send only when nothing was done
    NO = "no"  # 404, nothing charged
    FAILS_BEFORE = "500 before charging"
    FAILS_AFTER = "500 after charging"
    HANGS_AFTER = "hangs after charging"
    CLOSES_AFTER = "closes after charging"
    HALF_AN_ANSWER = "closes in the middle of its answer"
    DEARER = "charges more than its price list"


LYING = {
    Mood.HONEST: 60,
    Mood.BUSY: 6,
    Mood.NO: 4,
    Mood.FAILS_BEFORE: 8,
    Mood.FAILS_AFTER: 8,
    Mood.HANGS_AFTER: 3,
    Mood.CLOSES_AFTER: 6,
    Mood.HALF_AN_ANSWER: 5,
}
HONEST = {Mood.HONEST: 1}


@dataclass
class Till:
    """What the vendor knows: how much it took, from which key how often, and the highest it got."""

    price: int
    knows_keys: bool
    moods: Mapping[Mood, int]
    chance: random.Random
    charged: int = 0
    calls: int = 0
    by_key: Counter[str] = field(default_factory=Counter)
    by_mood: Counter[Mood] = field(default_factory=Counter)
    answered: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def match_companies(self, key: str) -> tuple[Mood, int]:
        """Decide how a call goes, and charge for it if that is how it goes; return its cost."""
        with self.lock:
            self.calls += 1
            (mood,) = self.chance.choices(list(self.moods), list(self.moods.values()))
            self.by_mood[mood] += 1
            if mood in (Mood.BUSY, Mood.NO, Mood.FAILS_BEFORE):
                return mood, 0
            if self.knows_keys and key in self.answered:
                return mood, self.answered[key]
            cost = self.price * 2 if mood is Mood.DEARER else self.price
            self.charged += cost
            self.by_key[key] += 1
            self.answered[key] = cost
            return mood, cost


class MeteredVendor:
    """The vendor, open for business while entered. `url` is its host and port."""

    def __init__(
        self,
        *,
        price: int,
        knows_keys: bool,
        moods: Mapping[Mood, int] = HONEST,
        seed: int | str = 0,
    ) -> None:
        self.till = Till(
            price=price, knows_keys=knows_keys, moods=moods, chance=random.Random(seed)
        )
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler, self.till, self._closing)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> MeteredVendor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 256

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        till: Till,
        closing: threading.Event,
    ) -> None:
        self.till = till
        self.closing = closing
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Callers are killed and hang up here all the time; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        mood, cost = self.server.till.match_companies(self.headers["Idempotency-Key"])
        body = json.dumps({"charged": cost, "people": ["somebody"]}).encode()
        if mood is Mood.HANGS_AFTER:
            self.server.closing.wait(2)
        if mood in (Mood.HANGS_AFTER, Mood.CLOSES_AFTER):
            self.close_connection = True
            return
        status = {Mood.BUSY: 503, Mood.NO: 404, Mood.FAILS_BEFORE: 500, Mood.FAILS_AFTER: 500}
        self.send_response(status.get(mood, 200))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:10] if mood is Mood.HALF_AN_ANSWER else body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as it is called there
        """Keep quiet."""


async def buy(port: int, *, key: str, patience: float) -> Paid[list[str]]:
    """Make one paid call and say, as a connector would, what its outcome means for money."""
    return await asyncio.to_thread(_buy, port, key, patience)


def _buy(port: int, key: str, patience: float) -> Paid[list[str]]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        try:
            line.connect()
        except OSError as error:
            raise TransientError(f"the vendor cannot be reached: {error}") from error
        try:
            line.request("POST", "/people", body=b"{}", headers={"Idempotency-Key": key})
            answer = line.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UncertainError(f"the vendor did not answer: {error!r}") from error
    finally:
        line.close()
    if answer.status == 503:
        raise TransientError("the vendor is busy and has done nothing")
    if answer.status == 404:
        raise PermanentError("the vendor knows nobody by that name")
    if answer.status != 200:
        raise UncertainError(f"the vendor answered {answer.status}")
    told = json.loads(body)
    return Paid(answer=list(told["people"]), cost={UNIT: int(told["charged"])})
