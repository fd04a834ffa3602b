"""What a night asks of whoever puts its results into the tenant's CRM.

One call at the end of a night. How rows are made and sent, and what is sent again another time,
is the exporter's own business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stoker.engine.running import OpenRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """How an export went. What is left for later is sent by a later run, without being asked."""

    companies: int = 0  # looked at, whether or not anything had to be sent
    counts: Mapping[str, int] = field(default_factory=dict)  # for the manifest: written, same, …
    later: int = 0  # rows the CRM did not take this time
    reasons: tuple[str, ...] = ()  # in sentences: a CRM that is down, rows it refused


class Exports(Protocol):
    """Puts what is known into a tenant's CRM."""

    async def export(self, run: OpenRun) -> Exported:
        """Send everything the CRM does not have yet, this run's and what earlier ones left.

        Twice is once. A CRM that is down or refuses rows is told in the answer, never raised.
        """
        ...
