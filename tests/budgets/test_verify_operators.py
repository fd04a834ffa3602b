"""The ledger of operators' orders, held against itself and against what is in force."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from stoker.backends.sqlite import SqliteBackend
from stoker.budgets.caps import CapChange
from stoker.budgets.verify import Checkpoint, verify_operator_ledger

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
CAP = "connector/lusha/credits/day"


@pytest.fixture
def verdict(tmp_path):
    """Give a few orders, do something to the file behind the store's back, and verify."""

    async def ordered(path):
        backend = SqliteBackend(path)
        await backend.migrate()
        shared = backend.shared()
        await shared.stop("lusha", reason="too dear", now=NOW)
        await shared.stop("", reason="all", now=NOW)
        await shared.resume("", now=NOW + timedelta(minutes=1))
        await shared.change_cap(CapChange(cap=CAP, limit=5), now=NOW)
        await backend.close()

    async def verified(path, mark):
        backend = SqliteBackend(path)
        await backend.migrate()
        try:
            return await verify_operator_ledger(backend.shared(), mark=mark)
        finally:
            await backend.close()

    def look(statement="SELECT 1", *, mark=None):
        path = tmp_path / "stoker.db"
        if not path.exists():
            asyncio.run(ordered(path))
        with closing(sqlite3.connect(path)) as db, db:
            for guard in ("ledger_is_not_changed", "ledger_is_not_deleted"):
                db.execute(f"DROP TRIGGER IF EXISTS {guard}")
            db.execute(statement)
        return asyncio.run(verified(path, mark))

    return look


def test_orders_that_are_in_force_are_found_sound(verdict):
    found = verdict()
    assert (found.entries, found.problems, found.head.seq) == (4, (), 4)
    assert verdict(mark=found.head).problems == ()


@pytest.mark.parametrize(
    ("behind_the_back", "complaint"),
    [
        ("DELETE FROM shared_stops", "the ledger stops lusha, the store does not"),
        (
            "INSERT INTO shared_stops VALUES ('tavily', '2026-02-07T01:30:00.000000+00:00', '')",
            "the store stops tavily, the ledger has no entry of it",
        ),
        (
            "UPDATE shared_cap_changes SET new_limit = 500",
            "the ledger says limit 5, the store says",
        ),
        ("DELETE FROM shared_cap_changes", "the ledger says limit 5, the store says nothing"),
        ("UPDATE ledger SET reason = 'cheap' WHERE seq = 1", "the chain breaks at entry 1"),
        ("DELETE FROM ledger WHERE seq = 2", "the chain breaks at entry 2"),
    ],
)
def test_what_was_changed_behind_the_ledger_is_found(verdict, behind_the_back, complaint):
    found = verdict(behind_the_back)
    assert complaint in found.problems[0]


def test_entries_taken_off_the_end_are_found_by_the_head_that_was_kept(verdict):
    head = verdict().head
    found = verdict("DELETE FROM ledger WHERE seq = 4", mark=head)
    assert "it ends with entry 3, but had come to 4: the rest is gone" in found.problems
    other = verdict(mark=Checkpoint(3, "0" * 64))
    assert "entry 3 was changed" in other.problems
