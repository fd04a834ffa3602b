"""What is known about one setting besides its value, and how a section says it.

Sections are dataclasses whose fields carry this along; everything shown about settings is made
from it. Which settings there are is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker.config.values import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known about one setting besides its value."""

    kind: Kind
    help: str
    env: tuple[str, ...] = ()  # the first is its name, the rest are aliases
    per_tenant: bool = False  # a tenant's own table may say otherwise


def setting(kind: Kind, default: Any, help: str, *env: str, per_tenant: bool = False) -> Any:  # noqa: A002 - it is what the sentence is
    """Return a section's field: of this kind, with this default, explained in this sentence."""
    about = Explained(kind=kind, help=help, env=env, per_tenant=per_tenant)
    return field(default=default, metadata={"about": about})


def tenant_setting(kind: Kind, default: Any, help: str, *env: str) -> Any:  # noqa: A002 - as above
    """As `setting`, for one that a tenant's own table may say otherwise."""
    return setting(kind, default, help, *env, per_tenant=True)
