"""How a schema grows: numbered steps, each taken once, in order, and never backwards.

Both databases take the same steps under the same numbers. What a step does follows from the
tables; see `table.py`. How a step is made atomic is each database's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from stoker.base.errors import ConfigError
from stoker.db.policies import Policy
from stoker.db.table import POSTGRES, SQLITE, Script, Table

# Raises when no tenant is set: a silent "no rows" would read as "nothing spent yet".
# The search path is pinned, or a function called current_setting in another schema would
# decide who the tenant is. No EXCEPTION block: those cannot run in a parallel query.
_TENANT_FUNCTION = """
CREATE FUNCTION stoker_sec.tenant() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog AS $body$
DECLARE
    tenant text := current_setting('request.tenant_id', true);
BEGIN
    IF tenant IS NULL OR tenant = '' THEN
        RAISE EXCEPTION 'request.tenant_id is not set' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF tenant !~ '^[a-z0-9][a-z0-9_-]{0,62}$' OR tenant ~ '[^a-z0-9_-]' THEN
        RAISE EXCEPTION 'request.tenant_id is not a tenant id'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN tenant;
END
$body$;
REVOKE ALL ON FUNCTION stoker_sec.tenant() FROM PUBLIC;
"""

_FUNCTION = re.compile(
    r"CREATE (?:OR REPLACE )?FUNCTION (\S+)\(.*?\$body\$(.*?)\$body\$", re.DOTALL
)

_TRIGGER = re.compile(r"CREATE TRIGGER (\w+) [^;]*? ON stoker\.(\w+)[^;]*")

# Holds the schema's version.
_META = Script(
    since=1,
    sqlite="CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;\n",
    postgres=_TENANT_FUNCTION
    + "CREATE TABLE stoker.meta (key text PRIMARY KEY, value text NOT NULL);\n",
    grants={"meta": "SELECT"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step: from version `number - 1` to version `number`.

    `grants` says what the app's role may do with the tables and views of this step on Postgres.
    """

    number: int
    name: str
    script: str
    grants: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.number:04d} {self.name}"


class Schema:
    """Every table of the program. `load` is called when a table is first needed, not before."""

    def __init__(
        self, names: Sequence[str], load: Callable[[], Sequence[Script | Table[object]]]
    ) -> None:
        self._names = names
        self._load = load

    @property
    def version(self) -> int:
        """The number of the newest step."""
        return len(self._names)

    @cached_property
    def sqlite(self) -> tuple[Migration, ...]:
        """The steps of SQLite."""
        return self._build_steps(SQLITE)

    @cached_property
    def postgres(self) -> tuple[Migration, ...]:
        """The steps of Postgres."""
        return self._build_steps(POSTGRES)

    @cached_property
    def shared_tables(self) -> frozenset[str]:
        """The tables that belong to no tenant: they have no tenant_id, and must not get one."""
        shared = {part.name for part in self._load() if isinstance(part, Table) and not part.tenant}
        return frozenset({"meta", *shared})

    @cached_property
    def policies(self) -> Mapping[str, Sequence[Policy]]:
        """The row security policies of each table on Postgres; none of some that tenants share."""
        tables = [part for part in self._load() if isinstance(part, Table)]
        return {"meta": (), **{table.name: table.policies for table in tables}}

    @cached_property
    def functions(self) -> Mapping[str, str]:
        """The functions of the newest version on Postgres, with their bodies."""
        return {
            name: body for step in self.postgres for name, body in _FUNCTION.findall(step.script)
        }

    @cached_property
    def triggers(self) -> Mapping[str, str]:
        """The triggers on Postgres, by `table.trigger`, as its catalog shows them."""
        found = [match for step in self.postgres for match in _TRIGGER.finditer(step.script)]
        return {f"{match[2]}.{match[1]}": " ".join(match[0].split()) for match in found}

    @cached_property
    def tables(self) -> tuple[Table[object], ...]:
        """Every table, of tenants and shared."""
        return tuple(part for part in self._load() if isinstance(part, Table))

    @cached_property
    def grants(self) -> Mapping[str, str]:
        """What the app's role may do with each table and view on Postgres, after the last step."""
        return {name: granted for step in self.postgres for name, granted in step.grants.items()}

    def list_pending(self, version: int, *, where: str) -> list[str]:
        """Return the names of the steps still to take, as `list_pending`."""
        steps = [
            Migration(number=n, name=name, script="") for n, name in enumerate(self._names, start=1)
        ]
        return [str(step) for step in list_pending(steps, version=version, where=where)]

    def _build_steps(self, dialect: str) -> tuple[Migration, ...]:
        parts = [_META, *self._load()]
        return tuple(
            Migration(
                number=number,
                name=name,
                script="".join(part.build_step(dialect, number) for part in parts),
                grants={
                    table: granted
                    for part in parts
                    if part.since == number
                    for table, granted in part.grants.items()
                },
            )
            for number, name in enumerate(self._names, start=1)
        )


def list_pending(
    migrations: Sequence[Migration], *, version: int, where: str
) -> Sequence[Migration]:
    """Return the steps still to take from this version, in order.

    Raises ConfigError when the schema is newer than this program, which then must not touch it.
    """
    if [step.number for step in migrations] != list(range(1, len(migrations) + 1)):
        raise ConfigError("the migrations of this program are not numbered 1, 2, 3, …")
    if version > len(migrations):
        raise ConfigError(
            f"{where} has schema version {version}, newer than this Stoker knows "
            f"({len(migrations)}); upgrade Stoker, nothing was changed"
        )
    return migrations[version:]
