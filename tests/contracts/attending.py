"""Values for the suites about heat and pulls: signals, looks, plans."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta

from stoker.heat.heat import score_heats
from stoker.heat.model import LookupObservation, Signal, SignalKind
from stoker.heat.settings import ChangeRateRule, HeatSettings
from stoker.pulls.schema import PlanRecord

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RULE, BELIEFS = HeatSettings(), ChangeRateRule()
AT_ONCE = {"rule": RULE, "now": NOW}
RUN, LATER_RUN = "20260207_013000", "20260208_013000"


def signal(one="s", *, account="T1", **changes):
    plain = {"kind": SignalKind.POSTING, "at": NOW - HOUR, "strength": 0.5, "source": "greenhouse"}
    return Signal(**{"id": one, "account": account} | plain | changes)


def look(key="k", *, account="T1", at=NOW, surface=False, deep=None):
    return LookupObservation(key=key, account=account, at=at, surface=surface, deep=deep)


def plan(run=RUN, **changes):
    plain = {"at": NOW, "policy": "optimal", "header": {"price": 0.25, "caps": {"lusha": 200}}}
    return PlanRecord(**{"run": run} | plain | changes)


def listed(columns):
    """Columns as plain lists, which can be compared; text for numbers, as nan is not itself."""
    found = {each.name: getattr(columns, each.name) for each in fields(columns)}
    return {
        name: [str(value) for value in column]
        for name, column in found.items()
        if not isinstance(column, float)  # one number for all accounts
    }


async def sweep(attention, *, now, seen=None):
    """Bring everything up to date; return how many were, and how many had been read."""
    page = await attention.list_heats() if seen is None else seen
    after = score_heats(page, now=now, rule=RULE)
    return await attention.update_heats(after, expected=page), len(page)
