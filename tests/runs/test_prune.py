"""What a run planned and worked on goes with it, and nothing else does."""

from datetime import timedelta

from contracts.attending import NOW, plan
from contracts.backends import ACME
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth
from stoker.enrichment.model import WorkItem
from stoker.runs.model import Run, RunKey, RunState
from stoker.runs.prune import delete_old_runs

HOUR = timedelta(hours=1)
FIRST, SECOND, LAST = "20260207_013000", "20260207_023000", "20260207_033000"


async def store_with_runs():
    """Three runs with a plan and work items each; the last of them goes on."""
    store = MemoryBackend().tenant(ACME)
    for n, state in enumerate((RunState.DONE, RunState.DONE, RunState.RUNNING)):
        run = Run(key=RunKey(NOW.replace(microsecond=0) + n * HOUR, 1), kind="pulls")
        await store.runs.insert_run(run)
        await store.plans.insert_plan(plan(run.name), [b"part"])
        items = [WorkItem(company=f"c{k}", rank=k, depth=Depth.DEEP) for k in range(3)]
        await store.work_items.insert_items(run.name, items)
        if state is RunState.DONE:
            end = Run(key=run.key, kind="pulls", state=state, ended_at=run.at)
            await store.runs.finish_run(end)
    return store


async def list_left(store):
    plans = sorted(kept.run for kept in await store.plans.list_plans())
    assert plans == await store.work_items.list_item_runs()
    return plans


async def test_plan_and_work_items_go_with_their_run_and_those_of_one_under_way_stay():
    store = await store_with_runs()
    runs = {run.name: run.at for run in await store.runs.list_runs()}
    size = await delete_old_runs(store, [runs[FIRST], runs[LAST]])
    assert (size.runs, await list_left(store)) == (1, [SECOND, LAST])


async def test_what_an_interruption_left_of_deleted_runs_goes_the_next_time():
    store = await store_with_runs()
    await store.runs.delete_runs([run.at for run in await store.runs.list_runs()])
    assert await list_left(store) == [FIRST, SECOND, LAST]
    await delete_old_runs(store, [])
    assert await list_left(store) == [LAST]
