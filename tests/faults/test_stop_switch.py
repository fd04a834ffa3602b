"""The stop switch: what is begun after `stop` returned is refused, in every process."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

import pg
from faults.spenders import TASKS, open_backend, read_reservations, spending

pytestmark = pytest.mark.faults

PROCESSES = 4
PATIENCE = 120  # seconds
STOPS = ("", "lusha", "")  # every connector, the one that is used


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """A kind of store and where it is, made and empty."""
    if request.param == "postgres":
        return "postgres", pg.fresh_database(request.getfixturevalue("postgres"))[1]

    async def migrated(path):
        backend = open_backend("sqlite", path)
        await backend.migrate()
        await backend.close()

    asyncio.run(migrated(str(tmp_path / "stoker.db")))
    return "sqlite", str(tmp_path / "stoker.db")


EACH = 2 * TASKS + 1  # so many more of a process, and one of them was begun and answered since


async def more_made(made):
    """Wait until every process has begun and made a reservation."""
    before = made()
    async with asyncio.timeout(PATIENCE):
        while not has_more(before, made()):
            await asyncio.sleep(0.01)


def has_more(before, after):
    return all(now - then >= EACH for now, then in zip(after, before, strict=True))


async def stopped_and_resumed(store, made):
    """Stop and resume a few times; return when each stop was asked for, in force, and over."""
    backend = open_backend(*store)
    shared, stops = backend.shared(), []
    for connector in STOPS:
        await more_made(made)
        asked = time.monotonic_ns()
        await shared.stop(connector, reason="the bill looks wrong", now=datetime.now(UTC))
        in_force = time.monotonic_ns()
        await more_made(made)
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
    with spending(*store, told, processes=PROCESSES) as made:
        stops = asyncio.run(stopped_and_resumed(store, made))

    reservations = read_reservations(told)
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
    with spending(*store, told, processes=2, naive=True) as made:
        stops = asyncio.run(stopped_and_resumed(store, made))

    broken, _ = broken_and_slowest(read_reservations(told), stops)
    assert broken
