"""How a schema grows: numbered steps, each taken once, in order, and never backwards.

What the steps say is in `schema_sqlite.py` and `schema_postgres.py`; both number the same steps
the same way. How a step is made atomic is each backend's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step: from version `number - 1` to version `number`."""

    number: int
    name: str
    script: str

    def __str__(self) -> str:
        return f"{self.number:04d} {self.name}"


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
