import asyncio
import gc
from contextlib import suppress

import pytest

from stoker.base.cancellation import cancel_and_wait, finish_despite_cancel, run_while
from stoker.base.errors import TransientError

LONG = 120  # seconds, which nobody waits for unless something is broken
NOT_OURS = TransientError("it is somebody else's by now")


async def tries_to_stop(task, *, times):
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()


@pytest.mark.parametrize("times", [0, 1, 2, 5])
async def test_work_is_seen_through_however_often_one_is_cancelled_meanwhile(times):
    done = []

    async def writing():
        for step in range(20):
            await asyncio.sleep(0)
            done.append(step)
        return "written"

    waiting = asyncio.create_task(finish_despite_cancel(writing()))
    await tries_to_stop(waiting, times=times)
    await asyncio.wait({waiting})
    ended = waiting
    assert done == list(range(20))
    assert ended.cancelled() is bool(times)
    assert times or ended.result() == "written"


async def test_what_goes_wrong_while_nobody_is_impatient_is_raised():
    async def breaking():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await finish_despite_cancel(breaking())


async def test_whoever_is_impatient_cancels_once_more_and_waits_all_the_same():
    cancelled = 0

    async def stubborn():
        nonlocal cancelled
        while cancelled < 3:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            cancelled += 1

    doing = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    cutting = asyncio.create_task(cancel_and_wait(doing))
    await tries_to_stop(cutting, times=2)
    await asyncio.wait({cutting})
    assert (doing.done(), cutting.cancelled()) == (True, True)
    assert cancelled == 3


async def complaints_about(scenario):
    """Run something; return what asyncio complains of once nobody remembers it any more."""

    complaints = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, about: complaints.append(about["message"])
    )
    await scenario()
    gc.collect()
    return complaints


async def test_what_goes_wrong_after_one_became_impatient_is_not_complained_of():
    async def breaking():
        for _ in range(5):
            await asyncio.sleep(0)
        raise ValueError("broken")

    async def scenario():
        waiting = asyncio.create_task(finish_despite_cancel(breaking()))
        await tries_to_stop(waiting, times=1)
        await asyncio.wait({waiting})
        assert waiting.cancelled()

    assert await complaints_about(scenario) == []


class Waiting:
    """Work that goes on for long or for so many steps; some that is cut off ends all the same."""

    def __init__(self, *, steps=None, clings=False):
        self.steps, self.clings, self.came_to = steps, clings, "nothing"
        self.began = asyncio.Event()

    async def __call__(self):
        self.began.set()
        try:
            if self.steps is None:
                await asyncio.sleep(LONG)
            for _ in range(self.steps or 0):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.came_to = "cut off"
            if not self.clings:
                raise
        else:
            self.came_to = "its end"
        return "a turn"


@pytest.mark.parametrize("ours", [True, False])
async def test_what_comes_to_its_end_before_anybody_looks_is_returned(ours):
    work = Waiting(steps=5)
    got = await run_while(lambda: ours, work(), otherwise=NOT_OURS)
    assert (got, work.came_to) == ("a turn", "its end")


async def test_what_is_waited_for_is_looked_after_as_long_as_it_is_ours():
    looks = []

    enough = asyncio.Event()

    def ours():
        looks.append("ours")
        enough.set()
        return True

    async def waiting():
        await asyncio.wait_for(enough.wait(), LONG)
        return "a turn"

    assert await run_while(ours, waiting(), otherwise=NOT_OURS) == "a turn"
    assert looks == ["ours"]


async def test_what_is_not_ours_any_more_is_cut_off_and_said_so():
    work = Waiting()
    with pytest.raises(TransientError) as raised:
        await run_while(lambda: False, work(), otherwise=NOT_OURS)
    assert raised.value is NOT_OURS
    assert work.came_to == "cut off"


async def test_what_comes_to_its_end_although_it_is_cut_off_is_returned():
    work = Waiting(clings=True)
    got = await run_while(lambda: False, work(), otherwise=NOT_OURS)
    assert (got, work.came_to) == ("a turn", "cut off")


async def test_what_goes_wrong_while_it_is_ours_is_raised_as_it_is():
    async def breaking():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await run_while(lambda: True, breaking(), otherwise=NOT_OURS)


async def test_a_waiter_that_is_cancelled_cuts_the_work_off_and_passes_that_on():
    work = Waiting()

    waiter = asyncio.create_task(run_while(lambda: True, work(), otherwise=NOT_OURS))
    await work.began.wait()
    waiter.cancel()
    await asyncio.wait({waiter})
    assert (waiter.cancelled(), work.came_to) == (True, "cut off")
