"""The stop switch: what is begun after `stop` returned is refused, in every process."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

import pg
from faults.spenders import opened, spending, written

pytestmark = pytest.mark.faults

PROCESSES = 4
STOPS = ("", "lusha", "")  # every connector, the one that is used


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """A kind of store and where it is, made and empty."""
    if request.param == "postgres":
        return "postgres", pg.fresh_database(request.getfixturevalue("postgres"))[1]

    async def migrated(path):
        backend = opened("sqlite", path)
        await backend.migrate()
        await backend.close()

    asyncio.run(migrated(str(tmp_path / "stoker.db")))
    return "sqlite", str(tmp_path / "stoker.db")


async def stopped_and_resumed(store):
    """Stop and resume a few times; return when each stop was asked for, in force, and over."""
    backend = opened(*store)
    shared, stops = backend.shared(), []
    for connector in STOPS:
        await asyncio.sleep(0.3)
        asked = time.monotonic_ns()
        await shared.stop(connector, reason="the bill looks wrong", now=datetime.now(UTC))
        in_force = time.monotonic_ns()
        await asyncio.sleep(0.3)
        stops.append((asked, in_force, time.monotonic_ns()))
        await shared.resume(connector, now=datetime.now(UTC))
    await backend.close()
    return stops


def broken_and_slowest(reservations, stops):
    """Return how many were granted that began under a stop, and how late the last grant came."""
    broken, slowest = 0, 0
    for asked, in_force, over in stops:
        # What waited through the whole stop and was granted after it is no business of this one.
        granted = [one for one in reservations if one.granted and one.ended <= over]
        broken += sum(in_force <= one.began for one in granted)
        slowest = max([slowest, *(one.ended - asked for one in granted)])
    return broken, slowest / 10**9


def test_nothing_that_is_begun_after_a_stop_returned_is_granted_in_any_process(
    store, tmp_path, request
):
    told = tmp_path / "told"
    told.mkdir()
    with spending(*store, told, processes=PROCESSES):
        stops = asyncio.run(stopped_and_resumed(store))

    reservations = written(told)
    broken, slowest = broken_and_slowest(reservations, stops)
    granted = sum(one.granted for one in reservations)
    line = (
        f"stop switch on {store[0]}, {PROCESSES} processes: n={len(reservations)} reservations, "
        f"{granted} granted, {len(stops)} stops, {broken} granted under one, "
        f"last grant {slowest:.3f} s after the stop was asked for, "
        f"slowest stop took {max(force - asked for asked, force, _ in stops) / 10**9:.3f} s"
    )
    request.node.user_properties.append(("fault", line))
    assert broken == 0
    assert granted
    assert granted < len(reservations)


def test_the_naive_twin_that_looked_for_stops_once_is_caught(store, tmp_path):
    told = tmp_path / "told"
    told.mkdir()
    with spending(*store, told, processes=2, naive=True):
        stops = asyncio.run(stopped_and_resumed(store))

    broken, _ = broken_and_slowest(written(told), stops)
    assert broken
