"""A sandbox that runs beside a test, and raw requests to it: no client of ours in between."""

import asyncio
import http.client
import json
import threading
from dataclasses import dataclass

from stoker.sandbox.server import Sandbox


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes

    def parse_json(self):
        return json.loads(self.body)


class RunningBox:
    """The sandbox in a thread of its own; everything it keeps can be looked at from here."""

    def __init__(self, **how):
        self.box = Sandbox(**how)
        self.world, self.faults, self.meter = self.box.world, self.box.faults, self.box.meter
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.box.__aenter__(), self._loop).result()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.box.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, host, method, path, data=None, *, body=None, headers=None, patience=60):
        """Send one request as it is; return what came back, or raise what the socket raised."""
        address, port = self.box.address.split(":")
        line = http.client.HTTPConnection(address, int(port), timeout=patience)
        try:
            sent = json.dumps(data).encode() if data is not None else body
            line.request(method, path, body=sent, headers={"Host": host, **(headers or {})})
            answer = line.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            line.close()
