"""Which promises are news: a cost above what was promised, an outcome that nobody knows.

Turns a hold as it now stands into the event a person should hear of, if it is one. Who tells it,
and when, is the engine's business.
"""

from __future__ import annotations

from datetime import datetime

from stoker.core.events import Event, OutcomeUncertain, Overrun
from stoker.core.holds import Hold, Phase, overrun
from stoker.core.model import TenantId


def news_of(hold: Hold, *, tenant: TenantId | None, at: datetime) -> Event | None:
    """Return what there is to tell about a promise that has just come to this, or None."""
    if hold.phase is Phase.UNCERTAIN:
        return OutcomeUncertain(
            at=at,
            tenant=tenant,
            key=hold.key,
            connector=hold.connector,
            reason=hold.reason or "no reason was given",
        )
    if hold.phase is Phase.SETTLED and (over := overrun(hold)):
        amounts = ", ".join(f"{number} {unit}" for unit, number in sorted(over.items()))
        return Overrun(at=at, tenant=tenant, key=hold.key, connector=hold.connector, over=amounts)
    return None
