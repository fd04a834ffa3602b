"""Define what budget stores do, and what a paid vendor is.

Each store verb is one transaction. Stores get the time as an argument. All times are aware; what
they return is in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from stoker.base.retry import Quota
from stoker.base.types import TenantId
from stoker.budgets.charges import Totals

Answer = TypeVar("Answer")

Query_contra = TypeVar("Query_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(Generic[Answer]):
    """What a step did: the answer it got, what that cost by unit, and what it left of a quota."""

    answer: Answer
    cost: Mapping[str, int]
    quota: Quota | None = None  # only ever slows us down


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A vendor's health: whether it answers, accepts our key, and what is left of the quota."""

    ok: bool
    detail: str


class Connector(Protocol[Query_contra, Answer]):
    """One need, answered by one vendor. Its caps, rates and stops go by its name."""

    @property
    def name(self) -> str:
        """The connector's name, as in caps: `tavily`."""
        ...

    def price(self, question: Query_contra) -> Mapping[str, int]:
        """Return the most that one call with this question may cost, by unit.

        It is reserved before the call. Raises PermanentError for a question no vendor can answer.
        """
        ...

    async def ask(self, question: Query_contra, *, key: str) -> Paid[Answer]:
        """Call the vendor once; return the answer with its cost. The key is sent if the vendor uses
        it.

        It does not retry. Raises TransientError when nothing was done and a retry may work (with
        `retry_after` if the vendor sent one), PermanentError when nothing was done and this
        question will not work, UncertainError when it may have been charged (with `broke_down` if
        the vendor reported its own failure), and ConfigError when no question will work before a
        person acts: a refused key, no credits left, a feature not in the plan.
        """
        ...

    async def check(self) -> Health:
        """Find out at no cost whether the vendor is there and takes our key. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUsage:
    """What one cap has used in one window."""

    cap: str
    window: str
    used: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A stop of spending: for all tenants or one, on every connector or one."""

    tenant: TenantId | None = None
    connector: str  # empty: every connector
    since: datetime
    reason: str


def filter_stops(stops: Iterable[Stop], asked: Collection[str]) -> tuple[Stop, ...]:
    """Return the stops that refuse at least one of these connectors."""
    return tuple(stop for stop in stops if asked and stop.connector in {"", *asked})
