"""What upkeep tells a tenant. What it does over weeks is in `journeys`."""

from datetime import timedelta

import pytest

from stoker import app as wiring
from stoker.accounts.model import CompanyId
from stoker.base.events import OutcomeUncertain
from stoker.base.types import TenantId
from stoker.budgets.charges import SpendRequest
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import build_reset_rule, list_caps
from stoker.enrichment.runner import run_now
from stoker.heat.model import Signal, SignalKind
from stoker.maintenance.service import HEALTH_CHECK_TTL, build_maintenance
from stoker.runs.model import RunState
from stoker.testing import EventRecorder, FakeClock
from stoker.vendors.model import CachedAnswer

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")


async def test_what_is_wrong_with_one_tenants_files_is_not_told_to_another(tmp_path):
    (tmp_path / "stoker.toml").write_text(
        '[storage]\nbackend = "json"\n[tenants.acme]\n[tenants.umbrella]\n'
    )
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    clock = FakeClock()
    async with wiring.open_app(settings, clock=clock, observer=EventRecorder()) as app:
        theirs = await run_now(
            app.for_tenant(UMBRELLA), build_maintenance(app.for_tenant(UMBRELLA))
        )
        damaged = tmp_path / "stoker-data" / UMBRELLA / "runs" / theirs.name / "summary.json"
        damaged.write_text("{")
        clock.advance(HEALTH_CHECK_TTL)
        run = await run_now(app.for_tenant(ACME), build_maintenance(app.for_tenant(ACME)))

    assert run.state is RunState.FAILED
    assert "stoker doctor" in run.reason
    assert UMBRELLA not in run.reason


async def test_promises_of_owners_that_fell_silent_are_dealt_with_every_night(tmp_path):
    told = EventRecorder()
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    clock = FakeClock()
    async with wiring.open_app(settings, clock=clock, observer=told) as app:
        [tenant] = settings.list_active_tenants()
        store, now = app.backend.tenant(tenant), clock.now()
        for key, at_once in (("kept", False), ("sent", True)):
            await store.budgets.reserve(
                SpendRequest(
                    key=key, connector="tavily", amounts={"calls": 1}, sends_at_once=at_once
                ),
                caps=await list_caps(app.for_tenant(tenant)),
                reset=build_reset_rule(app.settings.for_tenant(tenant)),
                owner="gone",
                until=now + timedelta(minutes=1),
                now=now,
            )
        clock.advance(timedelta(minutes=2))
        run = await run_now(app.for_tenant(tenant), build_maintenance(app.for_tenant(tenant)))

    assert run.state is RunState.DONE
    assert run.manifest.counts["holds_expired"] == 1
    assert run.manifest.counts["holds_uncertain"] == 1
    assert [event.key for event in told.of_type(OutcomeUncertain)] == ["sent"]
    assert any("tavily" in cap for cap in run.manifest.budgets)


async def test_closed_reservations_and_idle_rates_are_deleted_whatever_runs_are_kept(tmp_path):
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})
    clock = FakeClock()
    async with wiring.open_app(settings, clock=clock, observer=EventRecorder()) as app:
        [tenant] = settings.list_active_tenants()
        store, shared = app.backend.tenant(tenant), app.backend.shared()

        async def spend(key):
            await store.budgets.reserve(
                SpendRequest(key=key, connector="tavily", amounts={"calls": 1}),
                caps=await list_caps(app.for_tenant(tenant)),
                reset=build_reset_rule(app.settings.for_tenant(tenant)),
                owner="me",
                until=clock.now() + timedelta(minutes=1),
                now=clock.now(),
            )
            await store.budgets.settle(key, {"calls": 1}, now=clock.now())

        await spend("old")
        await shared.delay_until("connector/tavily", until=clock.now())
        clock.advance(timedelta(days=401))
        await spend("new")
        run = await run_now(app.for_tenant(tenant), build_maintenance(app.for_tenant(tenant)))
        left = await store.budgets.list_reservations(phases=list(ReservationStatus))
        assert run.state is RunState.DONE
        assert [reservation.key for reservation in left] == ["new"]
        assert len(await store.budgets.list_usage()) == 1
        assert await shared.find_next_at("connector/tavily") is None
        assert run.manifest.counts["pruned_money"] == 2


@pytest.mark.parametrize("prunes", [True, False])
async def test_answers_and_texts_go_with_retention_once_they_are_good_for_nothing(tmp_path, prunes):
    (tmp_path / "stoker.toml").write_text(
        f"retention.enabled = {str(prunes).lower()}\nretention.days = 30\n"
    )
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    clock = FakeClock()
    async with wiring.open_app(settings, clock=clock, observer=EventRecorder()) as app:
        [tenant] = settings.list_active_tenants()
        answers, now = app.backend.tenant(tenant).answers, clock.now()
        ages = {"corpus/old": 31, "corpus/new": 29, "tavily/good": -1}
        for key, days in ages.items():
            until = now - timedelta(days=days)
            kept = CachedAnswer(
                key=key, connector="crawl", answer={}, cost={}, at=until, expires_at=until
            )
            await answers.save_answers([kept])
        run = await run_now(app.for_tenant(tenant), build_maintenance(app.for_tenant(tenant)))
        pruned, left = (
            run.manifest.counts["pruned_answers"],
            set(await answers.find_answers(list(ages))),
        )
    assert pruned == int(prunes)
    assert left == {"corpus/new", "tavily/good"} | (set() if prunes else {"corpus/old"})


@pytest.mark.parametrize("prunes", [True, False])
async def test_signals_go_once_nothing_of_them_is_left_and_not_before(tmp_path, prunes):
    (tmp_path / "stoker.toml").write_text(
        f"retention.enabled = {str(prunes).lower()}\nheat.half_life_hours = 240\n[tenants.acme]\n"
    )
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    clock = FakeClock()
    async with wiring.open_app(settings, clock=clock, observer=EventRecorder()) as app:
        attention, own = app.backend.tenant(ACME).heat, settings.for_tenant(ACME).heat
        signals = [
            Signal(
                id=f"{days}",
                account=CompanyId("a"),
                kind=SignalKind.IMPORTED,
                at=clock.now() - timedelta(days=days),
            )
            for days in (401, 399)
        ]
        await attention.add_signals(signals, rule=own, now=clock.now())
        await run_now(app.for_tenant(ACME), build_maintenance(app.for_tenant(ACME)))
        assert [each.id for each in await attention.list_signals(CompanyId("a"))] == (
            ["399"] if prunes else ["399", "401"]
        )
