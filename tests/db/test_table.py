"""A table declared once: a later column is a line, and a row that makes no sense fails closed."""

from dataclasses import dataclass
from datetime import UTC, datetime

import apsw
import pytest

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.types import TenantId
from stoker.db.sqlite import SqliteTransaction
from stoker.db.table import INT, KEEP_IF_EMPTY, KEY, POSTGRES, SQLITE, TEXT, TIME, Column, Table

NOW = datetime(2026, 2, 7, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Person:
    id: str
    seen_at: datetime
    phone: str = ""
    visits: int = 0


PEOPLE = Table(
    "people",
    Person,
    Column("id", KEY),
    Column("seen", TIME, field="seen_at"),
    Column("phone", TEXT, default="''", since=2, merge=KEEP_IF_EMPTY),
    Column("visits", INT, default="0", since=2),
    key=["id"],
    since=1,
    what="the person",
    grants="SELECT, INSERT",
)


@pytest.fixture
def tx():
    connection = apsw.Connection(":memory:")
    connection.execute(PEOPLE.build_step(SQLITE, 1))
    connection.execute("INSERT INTO people VALUES ('acme', 'old', '2026-02-07T00:00:00+00:00')")
    connection.execute(PEOPLE.build_step(SQLITE, 2))
    found = SqliteTransaction(connection)
    found.tenant = TenantId("acme")
    return found


def test_rows_from_before_a_column_are_read_with_its_default(tx):
    assert PEOPLE.find(tx, "id = 'old'") == [Person(id="old", seen_at=NOW)]


def test_a_row_comes_back_as_it_was_saved_and_merges_as_declared(tx):
    person = Person(id="new", seen_at=NOW, phone="1", visits=2)
    assert PEOPLE.save(tx, [person]) == 1
    assert PEOPLE.save(tx, [Person(id="new", seen_at=NOW, visits=3)]) == 1
    assert PEOPLE.find_in(tx, "id", ["new"]) == [Person(id="new", seen_at=NOW, phone="1", visits=3)]
    assert PEOPLE.insert_new(tx, [person]) == 0


def test_a_later_column_is_a_step_of_its_own_in_both_databases():
    assert PEOPLE.build_step(POSTGRES, 2).splitlines() == [
        "ALTER TABLE stoker.people ADD COLUMN phone text NOT NULL DEFAULT '';",
        "ALTER TABLE stoker.people ADD COLUMN visits bigint NOT NULL DEFAULT 0;",
    ]
    assert "phone" not in PEOPLE.build_step(POSTGRES, 1)
    assert "FORCE ROW LEVEL SECURITY" in PEOPLE.build_step(POSTGRES, 1)


@pytest.mark.parametrize(
    ("person", "error", "complaint"),
    [
        (Person(id="", seen_at=NOW), PermanentError, "the person's id is empty"),
        (Person(id="x" * 501, seen_at=NOW), PermanentError, "longer than 500 bytes"),
        (Person(id="a", seen_at=NOW, phone="\0"), PermanentError, "the person's phone"),
        (Person(id="a", seen_at=NOW, visits=2**63), PermanentError, "too large a number"),
        (Person(id="a", seen_at=NOW.replace(tzinfo=None)), ConfigError, "no time zone"),
    ],
)
def test_what_some_database_could_not_keep_is_refused_unwritten(tx, person, error, complaint):
    with pytest.raises(error, match=complaint):
        PEOPLE.insert_new(tx, [Person(id="fine", seen_at=NOW), person])
    assert len(PEOPLE.find(tx, "TRUE")) == 1


def test_a_row_that_makes_no_sense_is_named_and_fails_closed(tx):
    tx.execute("UPDATE people SET seen = 'yesterday'")
    with pytest.raises(TransientError, match="the person old cannot be read"):
        PEOPLE.find(tx, "TRUE")
