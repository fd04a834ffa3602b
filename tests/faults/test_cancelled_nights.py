"""Nights that are asked to stop at random moments, and gone on with: what is promised of them."""

import asyncio
from datetime import timedelta

import pytest

from faults.tally import Tally
from night_house import ACME, PLENTY, house
from stoker.budgets.reservations import OPEN_STATUSES
from stoker.budgets.verify import verify_ledger
from stoker.enrichment.outcomes import summarize_partial_run
from stoker.nightly.setup import build_nightly_run
from stoker.runs.cancel import CancelWatcher, request_cancel
from stoker.runs.leases import LeaseHolder, acquire_lease, get_lease_name, release_lease
from stoker.runs.model import RunState
from stoker.runs.service import Runner, build_manifest
from stoker.sandbox.server import Sandbox

pytestmark = pytest.mark.faults

COMPANIES = 6
MOST_NIGHTS = 4  # until one is through
LATENCY = {f"{vendor}.latency": 0.1 for vendor in ("tavily", "openai", "lusha", "zerobounce")}
SOON = CancelWatcher(poll_interval=timedelta(milliseconds=5))


class CutsOff(CancelWatcher):
    """The naive twin: a cancel request cancels the work at once."""

    async def run_until_cancelled(self, work, *, find_request, stop_accepting_work):
        return await super().run_until_cancelled(
            work, find_request=find_request, stop_accepting_work=lambda _: False
        )


def installed(room, box):
    room.mkdir()
    return house(room, box=box, backend="sqlite", companies=COMPANIES, troubles=False, at_once=3)


async def asked_once(home, moment_has_come, heeding):
    """Have a night, asked to stop once its moment has come; return how it ended."""
    store, clock = home.store(), home.app.clock
    length = timedelta(hours=1)
    lease = acquire_lease("run/nightly", None, owner="a", task="", now=clock.now(), length=length)
    assert lease.name == get_lease_name("nightly")
    await store.schedule.swap_lease(None, lease)
    leases = LeaseHolder(owner="a", clock=clock, observer=home.told, length=length)
    runner = Runner(leases=leases, cancel_watcher=heeding, summarize=summarize_partial_run)
    manifest = build_manifest(home.app.settings.for_tenant(ACME))
    run = await runner.start_run(store, lease, kind="nightly", manifest=manifest)
    night = build_nightly_run(home.app.for_tenant(ACME))
    doing = asyncio.ensure_future(runner.execute(store, run, night))
    while not (moment_has_come() or doing.done()):
        await asyncio.sleep(0.001)
    await request_cancel(store, run, by="ann", runner=runner)
    ended = await doing
    await store.schedule.swap_lease(lease, release_lease(lease, now=clock.now()))
    return ended


async def known(home):
    found = await home.store().accounts.list_company_records(limit=1000)
    return {each.company.id: (each.score, sorted(map(repr, each.contacts))) for each in found}


def spent(before, after):
    return {
        vendor: {
            unit: amount - before.get(vendor, {}).get(unit, 0) for unit, amount in all_.items()
        }
        for vendor, all_ in after.items()
    }


async def broken_by(home, ended):
    """Return which promises a stopped night broke."""
    store, manifest = home.store(), ended.manifest
    units = await store.work_items.list_items(ended.name)
    left = [unit.company for unit in units if unit.ended_at is None]
    wrong = [
        f"{hold.key} is {hold.status}"
        for hold in await store.budgets.list_reservations(phases=OPEN_STATUSES)
    ]
    wrong += [
        f"{unit.company} is held by {unit.owner}"
        for unit in units
        if unit.owner and unit.ended_at is None
    ]
    wrong += (await verify_ledger(store)).problems
    if ended.state not in (RunState.CANCELLED, RunState.DONE):
        wrong.append(f"it ended {ended.state}: {ended.reason}")
    if list(manifest.remaining) != left:
        wrong.append(f"{left} are left, and {manifest.remaining} are listed")
    return wrong


async def trials(n, room):
    tally = Tally()
    async with Sandbox(companies=200, dials={"zerobounce.calls": PLENTY, **LATENCY}) as box:
        for warm in ("warm", "calm"):  # the sandbox makes its pages once
            async with installed(room / warm, box) as home:
                before, requests = home.charged(), box.meter.requests
                assert (await home.night()).state is RunState.DONE
                requests = box.meter.requests - requests
                calm = spent(before, home.charged()), await known(home)
        for nth in range(n):
            async with installed(room / f"trial-{nth}", box) as home:
                before, moment = home.charged(), box.meter.requests + requests * nth // n
                ended = await asked_once(home, lambda at=moment: box.meter.requests >= at, SOON)
                wrong = await broken_by(home, ended)
                nights = 0
                while ended.state is not RunState.DONE and nights < MOST_NIGHTS:
                    ended, nights = await home.night(), nights + 1
                if (spent(before, home.charged()), await known(home)) != calm:
                    wrong.append("it did not end as if undisturbed")
                tally.n += 1
                tally.acked += nights > 0
                tally.broken += [f"trial {nth}: {told}" for told in wrong]
    return tally


async def test_a_night_cancelled_at_any_moment_leaves_no_reservation_open_and_pays_nothing_twice(
    tmp_path, report
):
    tally = await trials(6, tmp_path)
    report("nights asked to stop (acknowledged: stopped before they were done)", tally)

    assert tally.acked >= 3
    assert tally.broken == []


def test_a_night_that_drops_everything_when_cancelled_is_caught(tmp_path):
    async def twin():
        # Searches are charged at once and answered long after: they are under way when it stops.
        dials = {"zerobounce.calls": PLENTY, "tavily.latency": 300}
        async with (
            Sandbox(companies=200, dials=dials) as box,
            installed(tmp_path / "a", box) as home,
        ):
            hasty = CutsOff(poll_interval=SOON.poll_interval)
            ended = await asked_once(home, lambda: "tavily" in box.charges, hasty)
            return await broken_by(home, ended)

    assert any("UNCERTAIN" in wrong for wrong in asyncio.run(twin()))
