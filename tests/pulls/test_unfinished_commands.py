"""`stoker why` for a company its run never ended with, asked the way a person does."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from night_desk import Desk, small_internet
from stoker import app as wiring
from stoker.accounts.model import CompanyId
from stoker.base.types import Depth
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.enrichment.model import KIND, WorkItem, WorkState
from stoker.runs.model import Manifest, Run, RunKey, RunState

CAP = Cap(scope=Scope.TENANT, unit="calls", window=WindowKind.DAY, limit=1000)


@pytest.fixture(scope="module")
def box():
    with small_internet() as box:
        yield box


@pytest.fixture
def stoker(tmp_path, capsys, box):
    return Desk(tmp_path, capsys, box).set_up("acme")


def in_store(stoker, work):
    """Do something to what acme's store remembers."""

    async def opened():
        settings = wiring.read_settings(directory=stoker.directory, config=None, flags={})
        async with wiring.open_app(settings) as app:
            return await work(app.backend.tenant("acme"), app.clock.now())

    return asyncio.run(opened())


def test_whom_a_stop_left_out_is_told_so_and_what_to_do(stoker):
    stoker("stop", "--reason", "vendor trouble")
    code, [night] = stoker.told("nightly", "--limit", "3")
    assert (code, night["state"]) == (3, "PARTIAL")

    company = night["manifest"]["remaining"][-1]
    _, out, _ = stoker("why", f"acme/{company}")
    assert f"not started: run {night['run']} ended PARTIAL (3 of 3 companies not" in out
    assert "vendor trouble" in out
    assert "Cost: nothing so far." in out
    assert "first allow it again with: stoker resume\n" in out
    assert f"Resume with: stoker runs rerun {night['run']} --tenant acme" in out
    assert "Status: waiting" not in out
    _, told = stoker.told("why", f"acme/{company}")
    assert (told["night"]["run_state"], told["night"]["stops"]) == ("PARTIAL", ["stoker resume"])
    assert "vendor trouble" in told["night"]["not_done_because"]

    stoker("resume")
    assert "take that back" not in stoker("why", f"acme/{company}")[1]


def a_run_with_one_company_under_way(
    stoker, *, ended, resume_at=None, state=WorkState.WAITING, spends=True
):
    """A run that paid for a company, lost track of a call, and did not come to its end."""
    company = CompanyId(stoker.told("nightly", "--dry-run")[1][0]["selected"][0]["company"])

    async def work(store, now):
        run = Run(key=RunKey(now.replace(microsecond=0), 1), kind=KIND, manifest=Manifest())
        await store.runs.insert_run(run)
        unit = WorkItem(company=company, rank=0, depth=Depth.DEEP, reason="never scored")
        await store.work_items.insert_items(run.name, [unit])
        await store.work_items.claim_items(
            run.name, owner="me", until=now + timedelta(minutes=1), now=now, limit=1
        )
        for key in ("settled", "lost") if spends else ():
            request = SpendRequest(
                key=key, connector="tavily", amounts={"calls": 2}, run=run.name, account=company
            )
            await store.budgets.reserve(
                request,
                caps=[CAP],
                reset=ResetRule(),
                owner="me",
                until=now + timedelta(minutes=1),
                now=now,
            )
        if spends:
            await store.budgets.settle("settled", {"calls": 1}, now=now)
        if state is WorkState.DROPPED:
            shed = replace(unit, state=state, owner="me")
            assert await store.work_items.finish_item(run.name, shed, None)
        if ended:
            if state is WorkState.WAITING:
                await store.work_items.release_items(run.name, owner="me")
            await store.runs.finish_run(
                run.end(
                    RunState.CANCELLED,
                    at=now,
                    reason="by ann",
                    manifest=Manifest(resume_at=resume_at),
                )
            )
        return run.name

    return company, in_store(stoker, work)


def test_what_was_paid_for_a_company_that_was_given_back_is_told(stoker):
    company, run = a_run_with_one_company_under_way(stoker, ended=True)
    _, out, _ = stoker("why", f"acme/{company}")
    assert f"started but not finished: run {run} ended CANCELLED (by ann)." in out
    assert "Cost: tavily 1 call so far (not paid again when it is resumed)." in out
    assert "tavily 2 calls may have been spent too" in out
    _, told = stoker.told("why", f"acme/{company}")
    assert told["night"]["cost"] == {"tavily/calls": 1}
    assert told["night"]["unknown"] == {"tavily/calls": 2}


def test_whom_a_full_cap_left_out_is_told_when_there_is_room_again(stoker):
    at = datetime(2030, 1, 1, 16, tzinfo=UTC)
    company, _ = a_run_with_one_company_under_way(stoker, ended=True, resume_at=at)
    assert "The first full cap resets at 2030-01-01 16:00 UTC." in stoker("why", company)[1]


def test_a_company_that_is_being_worked_on_is_told_what_it_cost_so_far(stoker):
    company, _ = a_run_with_one_company_under_way(stoker, ended=False)
    _, out, _ = stoker("why", f"acme/{company}")
    assert "Status: in progress." in out
    assert "Cost: tavily 1 call so far." in out
    assert "runs rerun" not in out


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (WorkState.WAITING, "Status: not started: run"),
        (WorkState.CLAIMED, "Status: started but not finished: run"),
        (WorkState.DROPPED, "Status: dropped"),
    ],
)
def test_whom_a_run_left_out_is_told_how_far_it_came_and_what_to_do(stoker, state, words):
    company, run = a_run_with_one_company_under_way(stoker, ended=True, state=state, spends=False)
    _, out, _ = stoker("why", company)
    assert words in out
    assert "Cost: nothing so far." in out
    assert f"Resume with: stoker runs rerun {run} --tenant acme" in out
