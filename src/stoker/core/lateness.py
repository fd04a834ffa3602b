"""How much later than its deadline a night ended, and because of what was under way then.

Goes by units as they are written down, page by page. What to leave out so that a night is through
in time is decided in `forecast`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from stoker.core.localtime import duration_text
from stoker.core.nights import Unit, UnitState

WORTH_TELLING = timedelta(seconds=1)


class Stragglers:
    """Counts the companies that were under way at a deadline, and what took their time."""

    def __init__(self, deadline: datetime) -> None:
        self._deadline = deadline
        self._seconds: dict[str, float] = {}
        self.companies = 0

    def add(self, units: Iterable[Unit]) -> None:
        """Count these units too, as far as they ended after the deadline."""
        for unit in units:
            if unit.ended_at is None or unit.state is UnitState.SHED:
                continue
            if unit.ended_at > self._deadline:
                self.companies += 1
                for step, seconds in unit.seconds.items():
                    self._seconds[step] = self._seconds.get(step, 0.0) + seconds

    @property
    def slowest(self) -> str:
        """The step that took most of their time; empty when that is not known."""
        return max(sorted(self._seconds), key=self._seconds.__getitem__, default="")


def told_late(
    *, deadline: datetime, flowed_at: datetime, ended_at: datetime, stragglers: Stragglers
) -> str:
    """Say how late a night ended and because of what; empty when it ended in time.

    `flowed_at` is when its companies were through; after that the CRM was filled.
    """
    if ended_at - deadline < WORTH_TELLING:
        return ""
    late = f"it ended {duration_text(ended_at - deadline)} after its deadline"
    if flowed_at - deadline < WORTH_TELLING:
        return f"{late}, because the CRM was still being filled"
    many = stragglers.companies
    who = {0: "companies were", 1: "1 company was"}.get(many, f"{many} companies were")
    most = f", longest in {stragglers.slowest}" if stragglers.slowest else ""
    return f"{late}, because {who} still under way{most}"
