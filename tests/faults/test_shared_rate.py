"""One rate, many processes, some of them killed: never more calls than the rate allows."""

import time
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from faults.paying_trials import Payers
from stoker.backends.sqlite import SqliteBackend

pytestmark = pytest.mark.faults

CALLS, PER, BURST, LASTING = 40, 0.5, 4, 1.5


async def turns_of_eight_processes(tmp_path, rng, *, way, kills):
    """Return the moments at which turns were given, in order."""
    path, told = tmp_path / "stoker.db", tmp_path / "told"
    told.mkdir()

    backend = SqliteBackend(path)
    await backend.migrate()
    await backend.close()
    order = {
        "task": "take turns",
        "way": way,
        "path": str(path),
        "told": str(told),
        "calls": CALLS,
        "per": PER,
        "burst": BURST,
        "lasting": LASTING,
    }
    with Payers(order, at_once=8) as callers:
        for _ in range(kills):
            time.sleep(rng.uniform(0, 2 * LASTING / (kills + 1)))
            if alive := callers.alive():
                callers.kill_and_replace(rng.choice(alive))
        while callers.alive():
            time.sleep(0.02)
    lines = [line for each in told.iterdir() for line in each.read_text().split("\n")[:-1]]
    return sorted(datetime.fromisoformat(line) for line in lines)


def most_in_any_stretch(moments):
    return max(
        sum(first <= at < first + timedelta(seconds=PER) for at in moments[nth:])
        for nth, first in enumerate(moments)
    )


async def test_no_stretch_sees_more_calls_than_allowed_however_many_processes_ask(
    tmp_path, rng, request
):
    moments = await turns_of_eight_processes(tmp_path, rng, way="shared", kills=4)

    most = most_in_any_stretch(moments)
    line = f"one rate, 8 processes, 4 kills: n={len(moments)} turns, most {most} of {CALLS}"
    request.node.user_properties.append(("fault", line))
    assert most <= CALLS
    assert any(one != other for one, other in pairwise(moments))


async def test_the_naive_twin_with_a_pace_in_each_process_is_caught(tmp_path, rng):
    moments = await turns_of_eight_processes(tmp_path, rng, way="keeps a pace of its own", kills=0)

    assert most_in_any_stretch(moments) > CALLS
