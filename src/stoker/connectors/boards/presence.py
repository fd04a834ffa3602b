"""Whether the public boards are there at all. They have no key and no account to ask about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stoker.connectors.boards.asking import CONNECTOR
from stoker.connectors.boards.board import Board
from stoker.sources import Health


class Boards:
    """All boards together."""

    name = CONNECTOR

    def __init__(self, boards: Sequence[Board]) -> None:
        self._boards = boards

    async def check(self) -> Health:
        """Find out whether every board is there. Never raises."""
        found = await asyncio.gather(*(board.check() for board in self._boards))
        away = [health.detail for health in found if not health.ok]
        if away:
            return Health(ok=False, detail=f"not every board answers: {'; '.join(away)}")
        return Health(ok=True, detail=", ".join(health.detail for health in found))
