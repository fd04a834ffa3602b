"""Which accounts to look at, when, how deep and at what cost; and why not the others.

The names below are the ones another program may rely on; they are loaded when first used, so
that `import stoker` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.core.cadence import Cron as Cron
    from stoker.core.cadence import Interval as Interval
    from stoker.core.cadence import Window as Window
    from stoker.core.cadence import compute_next_run as compute_next_run
    from stoker.core.cadence import preview as preview
    from stoker.core.cadence import should_run as should_run
    from stoker.engine.touch_scheduler import RateLimiter as RateLimiter
    from stoker.engine.touch_scheduler import Scheduler as Scheduler
    from stoker.errors import ConfigError as ConfigError
    from stoker.errors import ConflictError as ConflictError
    from stoker.errors import PermanentError as PermanentError
    from stoker.errors import StokerError as StokerError
    from stoker.errors import TransientError as TransientError
    from stoker.errors import UncertainError as UncertainError
    from stoker.in_touch import scheduler_in_file as scheduler_in_file

__version__ = "0.1.0"

_HOME = {
    "Cron": "stoker.core.cadence",
    "Interval": "stoker.core.cadence",
    "Window": "stoker.core.cadence",
    "compute_next_run": "stoker.core.cadence",
    "preview": "stoker.core.cadence",
    "should_run": "stoker.core.cadence",
    "RateLimiter": "stoker.engine.touch_scheduler",
    "Scheduler": "stoker.engine.touch_scheduler",
    "scheduler_in_file": "stoker.in_touch",
    "ConfigError": "stoker.errors",
    "ConflictError": "stoker.errors",
    "PermanentError": "stoker.errors",
    "StokerError": "stoker.errors",
    "TransientError": "stoker.errors",
    "UncertainError": "stoker.errors",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"stoker has no {name!r}")
    return getattr(import_module(_HOME[name]), name)
