"""Which connectors there are, what settings each needs to be on, and where they send it.

A connector without its key is off, and that is a sentence, not an error. Who builds them is not
known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stoker.config.sections import KNOWN
from stoker.config.settings import Settings
from stoker.errors import ConfigError

NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "crawl": (),
        "tavily": ("keys.tavily",),
        "openai": ("keys.openai",),
        "lusha": ("keys.lusha",),
        "zerobounce": ("keys.zerobounce",),
        "odoo": ("odoo.url", "odoo.database", "keys.odoo"),
        "datagov": (),
        "boards": (),
    }
)
"""Every connector there is, and the settings without which it is off."""
ADDRESSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "crawl": (),
        "tavily": ("tavily.base_url",),
        "openai": ("openai.base_url",),
        "lusha": ("lusha.base_url",),
        "zerobounce": ("zerobounce.base_url",),
        "odoo": ("odoo.url",),
        "datagov": ("datagov.base_url", "datagov_downloads.base_url"),
        "boards": ("boards.greenhouse_url", "boards.lever_url", "boards.ashby_url"),
    }
)
"""Which settings say where a connector goes; the crawler goes wherever it is sent."""


def why_off(own: Settings, name: str) -> str:
    """Say why a tenant's settings leave a connector off; empty when it is on.

    Raises ConfigError when there is no such connector.
    """
    if name not in NEEDS:
        raise ConfigError(f"there is no connector {name[:40]!r}; there are: {', '.join(NEEDS)}")
    return not_set([key for key in NEEDS[name] if own.value(key) is None])


def addresses(own: Settings, name: str) -> list[str]:
    """Return where a tenant's settings send a connector, each address once."""
    said = [own.value(key) for key in ADDRESSES[name]]
    return list(dict.fromkeys(url for url in said if url))


def not_set(keys: Sequence[str]) -> str:
    """Say which settings are missing, and their names in the environment; empty when none is."""
    if not keys:
        return ""
    names = ", ".join(f"{key} ({KNOWN[key].env[0]})" for key in keys)
    return f"{names} {'is' if len(keys) == 1 else 'are'} not set"
