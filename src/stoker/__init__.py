"""Which accounts to look at, when, how deep and at what cost; and why not the others.

The names below are the ones another program may rely on; they are loaded when first used, so
that `import stoker` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.base.errors import ConfigError as ConfigError
    from stoker.base.errors import ConflictError as ConflictError
    from stoker.base.errors import PermanentError as PermanentError
    from stoker.base.errors import StokerError as StokerError
    from stoker.base.errors import TransientError as TransientError
    from stoker.base.errors import UncertainError as UncertainError
    from stoker.calendar.recurrence import Cron as Cron
    from stoker.calendar.recurrence import Interval as Interval
    from stoker.calendar.recurrence import Window as Window
    from stoker.calendar.recurrence import compute_next_run as compute_next_run
    from stoker.calendar.recurrence import preview as preview
    from stoker.calendar.recurrence import should_run as should_run
    from stoker.touches.setup import RateLimiter as RateLimiter
    from stoker.touches.setup import Scheduler as Scheduler
    from stoker.touches.setup import scheduler_in_file as scheduler_in_file

__version__ = "0.1.0"

_HOME = {
    "Cron": "stoker.calendar.recurrence",
    "Interval": "stoker.calendar.recurrence",
    "Window": "stoker.calendar.recurrence",
    "compute_next_run": "stoker.calendar.recurrence",
    "preview": "stoker.calendar.recurrence",
    "should_run": "stoker.calendar.recurrence",
    "RateLimiter": "stoker.touches.setup",
    "Scheduler": "stoker.touches.setup",
    "scheduler_in_file": "stoker.touches.setup",
    "ConfigError": "stoker.base.errors",
    "ConflictError": "stoker.base.errors",
    "PermanentError": "stoker.base.errors",
    "StokerError": "stoker.base.errors",
    "TransientError": "stoker.base.errors",
    "UncertainError": "stoker.base.errors",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"stoker has no {name!r}")
    return getattr(import_module(_HOME[name]), name)
