"""A table declared once, for both databases: DDL, row security, grants, statements, row codec.

A room declares its tables in `schema.py` and lists them in `TABLES`; its store reads and writes
through them. `backends/schema.py` collects the rooms and names the numbered steps.

To add a column: give it a line here with `since=` the new step's number and a `default=` for the
rows there are, add the field to the row's class, and name the step in `backends/schema.py` unless
it has a name already. A step that was released stays as it was. To change what the app's role may
do with a table on Postgres, change `grants` and add a step, so that `db migrate` is asked for.

To convert a store: read with `find`, write with `insert_new` and `save`, and drop the hand-written
columns, codec and checks. A row's class takes its fields by name. `field` says where a column's
value is when it is not called like the column; `count.new` is the field `new` of the field
`count`, whose class `nested` names. For a path with an index, `employees[0]`, the class is a
function that takes columns by name; for a row that several tables hold parts of, it is `dict`. A
`parent` column belongs to the key and not to the row, as the run of a posting: the store passes it
beside the rows. A `derived` column is written and never read; a `generated` one is neither: the
database computes it from the row, so that people find a value under the name they know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from enum import Enum
from functools import cache, cached_property, lru_cache
from operator import itemgetter
from typing import Any, Generic, NoReturn, TypeVar

from stoker.base.errors import PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import MAX_TEXT_LENGTH, Json
from stoker.db.codec import validate_json, validate_text
from stoker.db.database import (
    ROW_ERRORS,
    Transaction,
    Value,
    build_row_error,
    from_db_json,
    from_db_time,
    split_into_batches,
    to_db_time,
)
from stoker.db.policies import TENANT_ONLY, Policy

Row = TypeVar("Row")

SQLITE, POSTGRES = "sqlite", "postgres"

# How an upsert treats a column that is there already; `excluded` is the new row.
KEEP_OLD = "{old}"
KEEP_IF_NULL = "coalesce({new}, {old})"
KEEP_IF_EMPTY = "coalesce(nullif({new}, ''), {old})"
KEEP_LATER = "CASE WHEN {old} IS NULL OR {new} > {old} THEN {new} ELSE {old} END"

_MAX_INT64 = 2**63 - 1

_ROW_SECURITY = """\
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """How values are stored in each database, and which can be.

    `accepts` is an expression over `{v}`; a value for which it is false is refused unwritten
    because it `is_refused_as` something.
    """

    sqlite: str
    postgres: str
    is_text: bool = False
    accepts: str = ""
    is_refused_as: str = ""
    write: Callable[[Any], Value] | None = None
    to_json: Callable[[Any], Json] | None = None
    read: Callable[[Any], Any] | None = None


TEXT = ColumnType(sqlite="TEXT", postgres="text", is_text=True)

# Sorted by code point, as in Python and SQLite, whatever the server's locale.
ORDERED_TEXT = ColumnType(sqlite="TEXT", postgres='text COLLATE "C"', is_text=True)

INT = ColumnType(
    sqlite="INTEGER",
    postgres="bigint",
    accepts=f"-{_MAX_INT64} <= {{v}} <= {_MAX_INT64}",
    is_refused_as="too large a number",
)

REAL = ColumnType(
    sqlite="REAL",
    postgres="double precision",
    accepts="{v} == {v}",
    is_refused_as="no number",
    write=float,
)

FLAG = ColumnType(sqlite="INTEGER", postgres="boolean", read=bool)

BLOB = ColumnType(sqlite="BLOB", postgres="bytea")

TIME = ColumnType(sqlite="TEXT", postgres="timestamptz", write=to_db_time, read=from_db_time)

# For a column in which most rows have the moment of the row before.
REPEATED_TIME = ColumnType(
    sqlite="TEXT",
    postgres="timestamptz",
    write=lru_cache(maxsize=4096)(to_db_time),
    read=lru_cache(maxsize=4096)(from_db_time),
)


def _read_date(value: str | date) -> date:
    return date.fromisoformat(value) if isinstance(value, str) else value


DATE = ColumnType(sqlite="TEXT", postgres="date", write=date.isoformat, read=_read_date)

# A day that is text in both databases.
DATE_TEXT = ColumnType(
    sqlite="TEXT", postgres='text COLLATE "C"', write=date.isoformat, read=date.fromisoformat
)


def key(max_bytes: int = 500) -> ColumnType:
    """Return the type of a text that rows are found by: not empty, and short enough for a key."""
    return ColumnType(
        sqlite="TEXT",
        postgres='text COLLATE "C"',
        is_text=True,
        accepts=f"{{v}} and (len({{v}}) <= {max_bytes // 4}"
        f" or len({{v}}.encode(errors='surrogatepass')) <= {max_bytes})",
        is_refused_as=f"empty or longer than {max_bytes} bytes",
    )


KEY = key()


def enum(kind: type[Enum], *, ordered: bool = False) -> ColumnType:
    """Return the type of a column that holds an enum's values."""
    collation = ' COLLATE "C"' if ordered else ""
    return ColumnType(
        sqlite="TEXT", postgres=f"text{collation}", write=lambda value: value.value, read=kind
    )


def json_of(
    to_json: Callable[[Any], Json] | None = None, from_json: Callable[[Any], Any] | None = None
) -> ColumnType:
    """Return the type of a JSON column: an object or a list, made and read by these functions."""

    def write(value: Any) -> str:
        return _write_json(value if to_json is None else to_json(value))

    def read(value: Any) -> Any:
        found = from_db_json(value)
        return found if from_json is None else from_json(found)

    plain = to_json or (lambda value: value)
    return ColumnType(sqlite="TEXT", postgres="json", write=write, to_json=plain, read=read)


def _write_json(value: Json) -> str:
    try:
        text = compact_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentError(
            f"a value cannot be written as JSON ({error}); nothing was written"
        ) from error
    if "\\u" in text or len(text) > MAX_TEXT_LENGTH:  # ours is ASCII: else no text in it is bad
        validate_json(value, what="a text in a JSON value")
    return text


JSON = json_of()

JSON_OBJECT = json_of(dict, dict)

JSON_TEXTS = json_of(list, tuple)


@dataclass(frozen=True, slots=True)
class Column:
    """One column; see the module for `field`, `parent`, `derived`, `generated` and `since`."""

    name: str
    type: ColumnType
    _: KW_ONLY
    field: str = ""
    null: bool = False
    default: str = ""
    check: str = ""
    merge: str = "{new}"
    parent: bool = False
    derived: bool = False
    generated: str = ""
    since: int = 0

    @property
    def path(self) -> str:
        """Where a row has the column's value."""
        return self.field or self.name

    def define(self, dialect: str, *, key: bool = False) -> str:
        """Return the column's line in CREATE TABLE or ALTER TABLE."""
        words = [self.name, self.type.postgres if dialect == POSTGRES else self.type.sqlite]
        if self.generated:  # each database has only one kind that can be added to a table
            kept = "STORED" if dialect == POSTGRES else "VIRTUAL"
            return f"{' '.join(words)} GENERATED ALWAYS AS ({self.generated}) {kept}"
        if key:
            words.append("PRIMARY KEY")
        elif not self.null:
            words.append("NOT NULL")
        if self.default:
            words.append(f"DEFAULT {self.default}")
        if self.check:
            words.append(f"CHECK ({self.check})")
        return " ".join(words)


_TENANT = Column("tenant_id", ORDERED_TEXT)


@dataclass(frozen=True, slots=True)
class Index:
    """An index; that of a tenant's table begins with the tenant.

    `renamed_from` is the name it had before step `renamed_in`.
    """

    name: str
    columns: str
    where: str = ""
    since: int = 0
    renamed_from: str = ""
    renamed_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """SQL written by hand as part of a step: functions, views, triggers."""

    since: int
    sqlite: str = ""
    postgres: str = ""
    grants: Mapping[str, str] = field(default_factory=dict)

    def build_step(self, dialect: str, number: int) -> str:
        """Return what this step runs, empty if nothing."""
        return getattr(self, dialect) if number == self.since else ""


class Table(Generic[Row]):
    """One table. `what` names a row in messages, e.g. "the reservation".

    A tenant's table begins with `tenant_id`, which the transaction binds; a shared one has none,
    and may have `policies` since a step (`guarded_since`) that say who else than all may use it.
    `fill` is the share of a page, in percent, that Postgres fills, so that rows can be rewritten
    in place. Rows larger than a fraction of a page need `wide`: where the key is the table, SQLite
    puts most of a large row elsewhere and reads it in two steps.
    """

    def __init__(
        self,
        name: str,
        row: Callable[..., Row] | None,
        *columns: Column,
        key: Sequence[str],
        since: int,
        what: str = "",
        grants: str,
        tenant: bool = True,
        policies: Sequence[Policy] = (),
        guarded_since: int = 0,
        nested: Mapping[str, Callable[..., Any]] | None = None,
        check: Callable[[Row], object] | None = None,
        indexes: Sequence[Index] = (),
        unique: Sequence[str] = (),
        references: Table[Any] | None = None,
        fill: int | None = None,
        wide: bool = False,
    ) -> None:
        self.name, self.since, self.tenant = name, since, tenant
        self.what = what or f"a row of {name}"
        self.grants = {name: grants}
        self.policies = TENANT_ONLY if tenant else tuple(policies)
        self._guarded_since = guarded_since or since
        self.key = (*(["tenant_id"] if tenant else []), *key)
        stored = [column for column in columns if not column.generated]
        self.columns = (*([_TENANT] if tenant else []), *stored)
        self.generated = {column.name: column for column in columns if column.generated}
        self._build, self._nested, self._check = row, nested or {}, check
        self._indexes, self._unique, self._references = indexes, unique, references
        self._fill, self._wide = fill, wide
        self._written = [column for column in stored if not column.parent]
        self._parents = [column for column in stored if column.parent]
        self._read = [column for column in self._written if not column.derived]

    # DDL

    def build_step(self, dialect: str, number: int) -> str:
        """Return what this step runs for the table, empty if nothing."""
        table = f"stoker.{self.name}" if dialect == POSTGRES else self.name
        if number == self.since:
            parts = [self._create(table, dialect)]
        else:
            every = (*self.columns, *self.generated.values())
            added = [column for column in every if column.since == number]
            parts = [f"ALTER TABLE {table} ADD COLUMN {c.define(dialect)};\n" for c in added]
        for index in self._indexes:
            if number == (index.since or self.since):
                first_name = index.renamed_from or index.name
                parts.append(self._create_index(index, first_name, table, dialect))
            if number == index.renamed_in:
                parts.append(self._rename_index(index, table, dialect))
        if number == self._guarded_since and self.policies and dialect == POSTGRES:
            parts.append(_ROW_SECURITY.format(table=table))
            parts += [policy.create(table) for policy in self.policies]
        return "".join(parts)

    def _create(self, table: str, dialect: str) -> str:
        alone = len(self.key) == 1
        lines = [
            column.define(dialect, key=alone and column.name in self.key)
            for column in self.columns
            if column.since <= self.since
        ]
        if not alone:
            lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        lines += [f"UNIQUE ({self._with_tenant(columns)})" for columns in self._unique]
        if self._references is not None:
            other = self._references
            target = f"stoker.{other.name} ON DELETE CASCADE" if dialect == POSTGRES else other.name
            lines.append(f"FOREIGN KEY ({', '.join(other.key)}) REFERENCES {target}")
        end = " STRICT" if self._wide else " STRICT, WITHOUT ROWID"
        if dialect == POSTGRES:
            end = f" WITH (fillfactor = {self._fill})" if self._fill else ""
        body = ",\n    ".join(lines)
        return f"CREATE TABLE {table} (\n    {body}\n){end};\n"

    def _rename_index(self, index: Index, table: str, dialect: str) -> str:
        if dialect == POSTGRES:
            return f"ALTER INDEX stoker.{index.renamed_from} RENAME TO {index.name};\n"
        made_again = self._create_index(index, index.name, table, dialect)
        return f"DROP INDEX {index.renamed_from};\n{made_again}"

    def _create_index(self, index: Index, name: str, table: str, dialect: str) -> str:
        columns = self._with_tenant(index.columns)
        if dialect == SQLITE:  # which sorts missing values last where the order is descending
            columns = columns.replace(" NULLS LAST", "")
        where = f" WHERE {index.where}" if index.where else ""
        return f"CREATE INDEX {name} ON {table} ({columns}){where};\n"

    def _with_tenant(self, columns: str) -> str:
        return f"tenant_id, {columns}" if self.tenant else columns

    # Statements

    @cached_property
    def names(self) -> str:
        """The columns that `read` takes, as in SELECT."""
        return ", ".join(column.name for column in self._read)

    def names_of(self, alias: str) -> str:
        """Return `names`, each behind the table's alias in a join."""
        return ", ".join(f"{alias}.{column.name}" for column in self._read)

    @cached_property
    def insert(self) -> str:
        """The INSERT with a `?` for each value of `to_row`, after tenant and parents."""
        names = [*(["tenant_id"] if self.tenant else [])]
        names += [column.name for column in (*self._parents, *self._written)]
        places = ", ".join("?" * len(names))
        return f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({places})"

    @cached_property
    def upsert(self) -> str:
        """The INSERT that replaces the row there is, column by column as `merge` says."""
        changes = ", ".join(
            f"{column.name} = "
            + column.merge.format(old=f"{self.name}.{column.name}", new=f"excluded.{column.name}")
            for column in self._written
            if column.name not in self.key and column.merge != KEEP_OLD
        )
        return f"{self.insert} ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {changes}"

    @cached_property
    def _select(self) -> str:
        where = "tenant_id = :tenant AND " if self.tenant else ""
        return f"SELECT {self.names} FROM {self.name} WHERE {where}"

    def select_in(self, column: str) -> str:
        """Return the query for rows that have one of the ids in `asked` in a column."""
        where = "t.tenant_id = :tenant AND " if self.tenant else ""
        names = self.names_of("t")
        return f"SELECT {names} FROM asked JOIN {self.name} t ON {where}t.{column} = asked.id"

    def find(self, tx: Transaction, where: str, **values: Value) -> list[Row]:
        """Return the tenant's rows for which a condition holds; ORDER BY and LIMIT may follow."""
        return [self.read(row) for row in tx.query(self._select + where, **values)]

    def find_in(
        self, tx: Transaction, column: str, ids: Sequence[Value], where: str = "", **values: Value
    ) -> list[Row]:
        """Return the tenant's rows with one of these ids in a column; `t` is the table."""
        query = self.select_in(column) + (f" AND {where}" if where else "")
        return [
            self.read(row)
            for batch, some in split_into_batches(query, ids)
            for row in tx.query(batch, **some, **values)
        ]

    def update(self, tx: Transaction, changes: str, where: str, **values: Value) -> int:
        """Change the tenant's rows for which a condition holds; return how many."""
        tenant = "tenant_id = :tenant AND " if self.tenant else ""
        return tx.execute(f"UPDATE {self.name} SET {changes} WHERE {tenant}{where}", **values)

    def delete(self, tx: Transaction, where: str, **values: Value) -> int:
        """Delete the tenant's rows for which a condition holds; return how many."""
        tenant = "tenant_id = :tenant AND " if self.tenant else ""
        return tx.execute(f"DELETE FROM {self.name} WHERE {tenant}{where}", **values)

    def insert_new(self, tx: Transaction, rows: Iterable[Row], *parents: Value) -> int:
        """Insert the rows whose keys are not there yet; return how many."""
        return self._write(tx, f"{self.insert} ON CONFLICT DO NOTHING", rows, parents)

    def save(self, tx: Transaction, rows: Iterable[Row], *parents: Value) -> int:
        """Insert the rows, or replace those there are as `upsert` says."""
        return self._write(tx, self.upsert, rows, parents)

    def _write(
        self, tx: Transaction, query: str, rows: Iterable[Row], parents: Sequence[Value]
    ) -> int:
        before = (tx.tenant, *parents) if self.tenant else tuple(parents)
        # In the order of their keys, so that two writers never deadlock, and so that each goes
        # beside the last one: in another order each goes to a page of its own, which is slower.
        ready = sorted((before + self.to_row(row) for row in rows), key=self._key_of)
        return tx.execute_many(query, ready) if ready else 0

    @cached_property
    def _key_of(self) -> Callable[[Sequence[Any]], Any]:
        names = [*(["tenant_id"] if self.tenant else [])]
        names += [column.name for column in (*self._parents, *self._written)]
        varying = [name for name in self.key if name in {c.name for c in self._written}]
        return itemgetter(*(names.index(name) for name in varying or self.key))

    # Codec

    def encode(self, **values: Any) -> dict[str, Value]:
        """Return values of columns as a statement takes them. Raises as `to_row`."""
        return {name: self._encode(self._by_name[name], value) for name, value in values.items()}

    def _encode(self, column: Column, value: Any) -> Value:
        if value is None:
            return None
        kind = column.type
        if kind.is_text:
            validate_text(value, what=f"{self.what}'s {column.name}")
        if kind.accepts and not _compile_check(kind.accepts)(value):
            self._refuse(column)
        return value if kind.write is None else kind.write(value)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def values(self, row: Row) -> dict[str, Value]:
        """Return a row's values by column."""
        names = [column.name for column in self._written]
        return dict(zip(names, self.to_row(row), strict=True))

    def to_json(self, row: Row) -> dict[str, Json]:
        """Return a row's values by column for a larger JSON value, what is JSON as it is."""
        values: dict[str, Any] = self.values(row)
        for column in self._written:
            if column.type.to_json is not None:
                values[column.name] = column.type.to_json(getattr(row, column.path))
        return values

    def store(self, row: Row) -> Row:
        """Return a row as the store gives it back. Raises for one that cannot be stored."""
        by_name = self.values(row)
        return self.read([by_name[column.name] for column in self._read])

    # Both are generated once, as dataclasses generate __init__: they run for each of a million
    # rows, and a loop over columns would take several times as long.

    @cached_property
    def to_row(self) -> Callable[[Row], tuple[Value, ...]]:
        """Return a row's values in the order of `insert`, if all can be stored.

        Raises PermanentError for one that cannot, ConfigError for a moment without a time zone.
        """
        names: dict[str, Any] = {"check": self._check, "refuse": self._refuse}
        names["columns"] = self._written
        lines = ["def to_row(row):", " check(row)" if self._check else " pass"]
        texts, values = [], []
        for n, column in enumerate(self._written):
            value, missing = f"v{n}", f"v{n} is None" if column.null else "False"
            lines.append(f" {value} = row.{column.path}")
            if column.type.is_text:
                texts.append(f"({value} or '')" if column.null else value)
            if column.type.accepts:
                accepted = column.type.accepts.format(v=value)
                lines.append(f" if not ({missing} or {accepted}): refuse(columns[{n}])")
            if column.type.write is not None:
                names[f"w{n}"] = column.type.write
                value = f"None if {missing} else w{n}({value})" if column.null else f"w{n}({value})"
            values.append(value)
        if texts:
            # One look at all of them together; nearly always they are short and ASCII.
            lines += [
                f" texts = ''.join(({', '.join(texts)},))",
                f" if len(texts) > {MAX_TEXT_LENGTH} or not texts.isascii() or '\\0' in texts:",
                "  check_texts(row)",
            ]
            names["check_texts"] = self._check_texts
        lines.append(f" return ({', '.join(values)},)")
        encode: Callable[[Row], tuple[Value, ...]] = self._compile(lines, "to_row", names)
        return encode

    @cached_property
    def read(self) -> Callable[[Sequence[Any]], Row]:
        """Return the row in values in the order of `names`, as either driver gave them.

        Raises TransientError for a row that makes no sense: it fails closed.
        """
        names: dict[str, Any] = {"Row": self._build, "errors": ROW_ERRORS, "fail": self._fail}
        given: dict[str, Any] = {}
        for n, column in enumerate(self._read):
            value = f"v{n}"
            if column.type.read is not None:
                names[f"r{n}"] = column.type.read
                value = f"r{n}({value})"
                if column.null:
                    value = f"None if v{n} is None else {value}"
            *path, field = (column.name if "[" in column.field else column.path).split(".")
            place = given
            for part in path:
                place = place.setdefault(part, {})
            place[field] = value
        for field, kind in self._nested.items():
            names[f"Nested_{field}"] = kind
        found = ", ".join(f"v{n}" for n in range(len(self._read)))
        lines = [
            "def read(row):",
            " try:",
            f"  {found}, = row",
            f"  return Row({_format_arguments(given)})",
            " except errors as error:",
            "  raise fail(row, error) from error",
        ]
        decode: Callable[[Sequence[Any]], Row] = self._compile(lines, "read", names)
        return decode

    def _compile(self, lines: Sequence[str], name: str, names: dict[str, Any]) -> Any:
        exec(compile("\n".join(lines), f"<{name} of {self.name}>", "exec"), names)  # noqa: S102 – ours
        return names[name]

    def _fail(self, row: Sequence[Any], error: Exception) -> Exception:
        return build_row_error(f"{self.what} {row[0] if len(row) else ''}", error)

    def _refuse(self, column: Column) -> NoReturn:
        raise PermanentError(
            f"{self.what}'s {column.name} is {column.type.is_refused_as}; nothing was written"
        )

    def _check_texts(self, row: Row) -> None:
        for column in self._written:
            if column.type.is_text:
                value: Any = row
                for part in column.path.split("."):
                    value = getattr(value, part)
                validate_text(value or "", what=f"{self.what}'s {column.name}")


@cache
def _compile_check(accepts: str) -> Callable[[Any], bool]:
    check: Callable[[Any], bool] = eval(f"lambda v: {accepts.format(v='v')}")  # noqa: S307 – ours
    return check


def _format_arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{field}=Nested_{field}({_format_arguments(value)})"
        if isinstance(value, dict)
        else f"{field}={value}"
        for field, value in given.items()
    )


def split_row(row: Sequence[Any], *tables: Table[Any]) -> list[Sequence[Any]]:
    """Return the parts of a join's row that belong to each table, selected one after the other."""
    parts, start = [], 0
    for table in tables:
        end = start + len(table.names.split(","))
        parts.append(row[start:end])
        start = end
    return parts
