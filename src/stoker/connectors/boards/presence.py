"""Whether the public boards are there at all. They have no key and no account to ask about."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from stoker.connectors.billing import healthy
from stoker.connectors.http import Call, Http
from stoker.errors import StokerError, TransientError
from stoker.sources import Health

DEADLINE = timedelta(seconds=15)


class Boards:
    """The boards by name, each with its address."""

    name = "boards"

    def __init__(self, http: Http, *, urls: Mapping[str, str]) -> None:
        self._http, self._urls = http, dict(urls)

    async def check(self) -> Health:
        """Find out whether every board answers, whatever it says. Never raises."""
        return await healthy(self._look)

    async def _look(self) -> str:
        away = {}
        for name, url in self._urls.items():
            call = Call(method="GET", url=url, deadline=DEADLINE, most_bytes=1_000)
            try:
                await self._http.send(call)
            except StokerError as error:
                away[name] = str(error)
        if away:
            told = "; ".join(f"{name}: {why}" for name, why in away.items())
            raise TransientError(f"not every board answers: {told}")
        return f"{', '.join(self._urls)} answer"
