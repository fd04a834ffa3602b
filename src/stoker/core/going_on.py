"""Whether a run is begun at once for what a dead process left of a scheduled one.

An instant is started once, so what goes on with it is a run without an instant of its own. What
is left, and that it is not paid for twice, is the work's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from stoker.core.runs import GONE, Run, RunState

MOST_DEATHS = 3  # in a row; what killed so many processes would kill the next one too


def to_go_on_with(newest_first: Sequence[Run], *, since: datetime) -> Run | None:
    """Return the latest of these runs of one kind if it is to be gone on with, or None.

    It is, when its process died and it, or the dead one it went on with, answered to an instant;
    what somebody began by hand is left to them. A run that began before `since`, the day's
    beginning, has left nothing: the next instant is about another day. After `MOST_DEATHS` in a
    row the next instant is waited for.
    """
    dead = list(takewhile(lambda run: _given_up(run) and run.at >= since, newest_first))
    if len(dead) >= MOST_DEATHS or all(run.instant is None for run in dead):
        return None
    return dead[0]


def _given_up(run: Run) -> bool:
    return run.state is RunState.FAILED and run.reason == GONE
