"""What SQLite and Postgres share: transactions, health checks, and how values are stored.

The two differ in how a transaction opens, how tenants are separated and how errors are named;
`sqlite.py` and `postgres.py` know that. Queries name their values `:like_this`; each database
translates them. All moments are aware and come back in UTC.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from stoker.base.errors import ConfigError, TransientError
from stoker.base.types import TenantId, clean_text, to_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing a backend can say about its own health, in words an operator can act on."""

    what: str
    ok: bool
    detail: str
    is_warning: bool = False  # works, but something is off; the detail names the next command

    @property
    def level(self) -> str:
        """`ok`, `warning` or `wrong`."""
        if not self.ok:
            return "wrong"
        return "warning" if self.is_warning else "ok"


CONFLICT_SQLSTATE = "SK001"  # the SQLSTATE of what `WriteConflict` means

Value = str | int | float | bytes | None

BATCH_SIZE = 500  # fewer than any database's limit on values in one statement

Result = TypeVar("Result")

Item = TypeVar("Item")

Key = TypeVar("Key")


class Transaction(Protocol):
    """One open transaction. What is done in it happens wholly or not at all.

    In the queries of a tenant's transaction, `:tenant` is the tenant.
    """

    tenant: TenantId | None  # None for what tenants share

    def query(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        """Run a query and return what it answers, also for INSERT … RETURNING."""
        ...

    def execute(self, query: str, **values: Value) -> int:
        """Run a statement and return how many rows it touched."""
        ...

    def execute_many(self, query: str, rows: Iterable[Sequence[Value]]) -> int:
        """Run a statement with `?` places once per row; return how many rows it touched in all."""
        ...

    def execute_with_commit(self, query: str, **values: Value) -> None:
        """Run a statement as the last one, on its way into the commit; nothing may follow it.

        On a server, what it locks is then never held across a round trip. An error from it rolls
        everything back.
        """
        ...


class Database(Protocol):
    """What a backend gives the shared verbs."""

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work in a transaction that may write; return once its effects are durable.

        Work may be run again from the start when the database asks for it, so it must have no
        effect outside the transaction. An error from it rolls everything back.
        """
        ...

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work against one consistent view that includes every write already returned."""
        ...


def split_into_batches(
    query: str, values: Sequence[Value]
) -> Iterator[tuple[str, dict[str, Value]]]:
    """Split a question about many ids, `split_into_batches`, into some that a database takes, with
    values.
    """
    # Joined, not listed in an IN: a plan for any values compares each row with all of a list.
    for start in range(0, len(values), BATCH_SIZE):
        some = {f"v{n}": value for n, value in enumerate(values[start : start + BATCH_SIZE])}
        yield f"WITH asked(id) AS (VALUES (:{'), (:'.join(some)})) {query}", some


async def iter_pages(
    read_page: Callable[[Key], Awaitable[Sequence[Item]]],
    get_key: Callable[[Item], Key],
    *,
    after: Key,
) -> AsyncIterator[Sequence[Item]]:
    """Yield page after page, each read after the key of the last item of the one before."""
    while page := await read_page(after):
        yield page
        after = get_key(page[-1])


async def delete_in_batches(delete_batch: Callable[[], Awaitable[int]]) -> int:
    """Delete batch after batch, each in a transaction of its own; return how many rows."""
    deleted = 0
    while some := await delete_batch():
        deleted += some
    return deleted


def to_db_time(moment: datetime) -> str:
    """Return a moment as our SQL passes it: UTC, of fixed width, so text order is time order."""
    return to_utc(moment).isoformat(timespec="microseconds")


def from_db_time(value: str | datetime) -> datetime:
    """Return the moment a driver gave back, as text or as its own type, in UTC."""
    return to_utc(datetime.fromisoformat(value) if isinstance(value, str) else value)


def from_optional_db_time(value: str | datetime | None) -> datetime | None:
    """Return a moment that may be missing, as `from_db_time` does."""
    return None if value is None else from_db_time(value)


def from_db_json(value: Any) -> Any:
    """Return the JSON a driver gave back, as text or decoded already."""
    # Our JSON columns hold objects and lists only, so a str is never a decoded value.
    return json.loads(value) if isinstance(value, str) else value


ROW_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    ConfigError,
)


def build_row_error(what: str, error: Exception) -> TransientError:
    """Return what is raised for a row that cannot be read: it fails closed.

    Nothing was done, and once the row has been put right it can be.
    """
    why = " ".join(clean_text(f"{type(error).__name__}: {error}").split())[:200]
    return TransientError(
        f"{clean_text(what)[:200]} cannot be read ({why}); nothing was done, "
        "restore the store from a backup"
    )


@contextmanager
def wrap_row_errors(what: str) -> Iterator[None]:
    """Turn whatever goes wrong in reading a row into what `build_row_error` returns."""
    try:
        yield
    except ROW_ERRORS as error:
        raise build_row_error(what, error) from error


class WriteConflict(Exception):  # noqa: N818 – nothing went wrong; it only has to be looked at again
    """What the moves rest on is not so any more. Raised to undo the transaction, and caught."""
