"""Declare the row security policies of tables on Postgres, as its catalog shows them.

Each is permissive and for all roles. `request.tenant_id` says for whom a transaction is: a tenant,
the operators, or no tenant (the process itself, which asks for what tenants share).
`row_security.py` refuses a database whose tables have any other policies than these.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.base.types import OPERATORS

_FOR_WHOM = "COALESCE(current_setting('request.tenant_id'::text, true), ''::text)"

_IS_TENANT = "(tenant_id = ( SELECT stoker_sec.tenant() AS tenant))"

_IS_PROCESS = f"({_FOR_WHOM} = ''::text)"

_IS_OPERATORS = f"({_FOR_WHOM} = '{OPERATORS}'::text)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy: which rows are seen, and which may be written, by which commands."""

    name: str
    using: str
    check: str = ""
    command: str = "*"  # as in pg_policy: all of them; r is SELECT

    def create(self, table: str) -> str:
        """Return the statement that makes the policy."""
        command = "ALL" if self.command == "*" else "SELECT"
        check = f"\n    WITH CHECK ({self.check})" if self.check else ""
        start = f"CREATE POLICY {self.name} ON {table} FOR {command}"
        return f"{start}\n    USING ({self.using}){check};\n"


# Of every table with a tenant_id. Without a policy, forced row security shows no rows at all.
TENANT_ONLY = (Policy(name="tenant_only", using=_IS_TENANT, check=_IS_TENANT),)

# For tables that tenants share: who else than the process itself may see or write rows.
PROCESS_ONLY = (Policy(name="process_only", using=_IS_PROCESS, check=_IS_PROCESS),)

PROCESS_AND_OPERATORS = (
    Policy(
        name="process_and_operators",
        using=f"({_FOR_WHOM} = ANY (ARRAY[''::text, '{OPERATORS}'::text]))",
        check=f"({_FOR_WHOM} = ANY (ARRAY[''::text, '{OPERATORS}'::text]))",
    ),
)

OWN_ROW = (
    Policy(name="own_row", using=f"({_FOR_WHOM} = ANY (ARRAY[''::text, id]))", check=_IS_PROCESS),
)

WRITTEN_BY_OPERATORS = (
    Policy(name="operators_only", using=_IS_OPERATORS, check=_IS_OPERATORS),
    Policy(name="read_by_all", using="true", command="r"),
)
