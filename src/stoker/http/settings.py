"""The settings of the sandbox, which stands in for the internet."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.config.fields import (
    Section,
    setting,
)
from stoker.http.fields import LOOPBACK


@dataclass(frozen=True, kw_only=True)
class SandboxSettings(Section):
    """A fake internet for trying things out; `stoker sandbox serve` is one."""

    address: str | None = setting(
        LOOPBACK,
        None,
        "Where names ending in .test lead. While it is set, vendors without an address of their "
        "own are the sandbox's, only keys with the word sandbox in them go there, and files "
        "without a configured path are the sandbox's own.",
    )
