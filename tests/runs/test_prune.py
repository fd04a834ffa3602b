"""What a run decided goes with it, and nothing else does."""

from datetime import timedelta

from contracts.attending import NOW, plan
from contracts.backends import ACME
from model.backend import MemoryBackend
from stoker.runs.model import Run, RunKey, RunState
from stoker.runs.prune import delete_old_runs

HOUR = timedelta(hours=1)


async def with_runs(store, *, ended):
    """Three runs with plans; return their moments. The last of them goes on unless it `ended`."""
    ats = [NOW.replace(microsecond=0) + n * HOUR for n in range(3)]
    for at in ats:
        run = Run(key=RunKey(at, 1), kind="pulls")
        await store.runs.insert_run(run)
        await store.attention.insert_plan(plan(run.name), [b"part"])
        if at != ats[-1] or ended:
            end = Run(key=run.key, kind="pulls", state=RunState.DONE, ended_at=at)
            await store.runs.finish_run(end)
    return ats


def planned(store):
    return store.attention.list_plans()


async def test_a_plan_goes_with_its_run_and_one_under_way_stays():
    store = MemoryBackend().tenant(ACME)
    ats = await with_runs(store, ended=False)
    weight = await delete_old_runs(store, [ats[0], ats[2]])
    assert (weight.runs, [kept.run for kept in await planned(store)]) == (
        1,
        ["20260207_033000", "20260207_023000"],
    )


async def test_a_plan_whose_run_went_before_it_goes_the_next_time():
    """As after a stop half-way."""

    store = MemoryBackend().tenant(ACME)
    ats = await with_runs(store, ended=True)
    await store.runs.delete_runs(ats[:2])
    before = len(await planned(store))
    await delete_old_runs(store, [])
    assert (before, [kept.run for kept in await planned(store)]) == (3, ["20260207_033000"])
