"""What every paid vendor has in common: our key, the credits it takes, and saying how it is.

A vendor's word on what it charged is believed as far as a number can be; without one, what was
promised counts, so that nothing is counted too low. Which vendor wants what is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from stoker.errors import ConfigError, StokerError, UncertainError
from stoker.sources import Health

MOST_CREDITS = 1_000_000  # for one call; who says more has not said what it charged
_KEY = re.compile(r"[\x21-\x7e]{1,500}")


def usable_key(vendor: str, key: str) -> str:
    """Return a key that can be sent, or say that there is none. It is not repeated."""
    if not _KEY.fullmatch(key):
        raise ConfigError(f"{vendor} needs a key, one word of plain letters; set it in settings")
    return key


def spent(vendor: str, told: int | None, *, promised: int, calls: int = 1) -> Mapping[str, int]:
    """Return what a call cost, by unit: as the vendor told, or else as promised.

    Raises UncertainError when it told a number that cannot be meant.
    """
    if told is not None and told > MOST_CREDITS:
        raise UncertainError(f"{vendor} says it charged more than {MOST_CREDITS} credits at once")
    return {"calls": calls, "credits": promised if told is None else told}


async def healthy(look: Callable[[], Awaitable[str]]) -> Health:
    """Return how a vendor is, by a look at it that costs nothing. Never raises."""
    try:
        return Health(ok=True, detail=await look())
    except StokerError as error:
        return Health(ok=False, detail=str(error))
