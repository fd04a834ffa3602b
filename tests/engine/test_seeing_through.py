import asyncio
from contextlib import suppress

import pytest

from stoker.engine.seeing_through import cut_off, seen_through


async def tries_to_stop(task, *, times):
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_work_is_seen_through_however_often_one_is_cancelled_meanwhile(times):
    done = []

    async def writing():
        for step in range(20):
            await asyncio.sleep(0)
            done.append(step)
        return "written"

    async def work():
        waiting = asyncio.create_task(seen_through(writing()))
        await tries_to_stop(waiting, times=times)
        await asyncio.wait({waiting})
        return waiting

    ended = asyncio.run(work())
    assert done == list(range(20))
    assert ended.cancelled() is bool(times)
    assert times or ended.result() == "written"


def test_what_goes_wrong_while_nobody_is_impatient_is_raised():
    async def breaking():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(seen_through(breaking()))


def test_whoever_is_impatient_cancels_once_more_and_waits_all_the_same():
    cancelled = 0

    async def stubborn():
        nonlocal cancelled
        while cancelled < 3:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            cancelled += 1

    async def work():
        doing = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        cutting = asyncio.create_task(cut_off(doing))
        await tries_to_stop(cutting, times=2)
        await asyncio.wait({cutting})
        return doing.done(), cutting.cancelled()

    assert asyncio.run(work()) == (True, True)
    assert cancelled == 3
