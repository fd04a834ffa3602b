"""Touches built from settings: what `doctor` says of them, and the appeal of a tenant's leads."""

from datetime import UTC, datetime

import pytest

from kit.touch_desk import add_lead
from stoker.accounts.model import CompanyId
from stoker.app import read_settings
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import TenantId
from stoker.heat.settings import HeatSettings
from stoker.touches.setup import check_touches, read_lead_appeals

NOW = datetime(2026, 2, 9, 1, 30, tzinfo=UTC)


async def test_leads_appeal_by_what_the_store_knows_of_them_and_others_not_at_all():
    store = MemoryBackend().tenant(TenantId("acme"))
    for number, value in ((1, 0.9), (2, 0.5), (3, 0.1)):
        await add_lead(store, number, value, now=NOW)
    await store.heat.update_postures(
        {CompanyId("T2"): 1.0},
        rule=HeatSettings(posture_weight=1.0, recency_weight=0.0, volume_weight=0.0),
        now=NOW,
    )
    assert await read_lead_appeals(store, min_score=0.4) == {
        "https://l1.test/": 0.9,
        "https://l2.test/": 1.0,
    }


def checks(tmp_path, text):
    (tmp_path / "stoker.toml").write_text(text)
    return check_touches(
        read_settings(directory=tmp_path, config=None, flags={}, environment={}), NOW
    )


def test_what_is_usual_is_in_order(tmp_path):
    [check] = checks(tmp_path, "")
    assert check.ok
    assert check.what == "touches, default"
    assert check.detail == "80 a week, delivered by file, kept in the store"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("daily_min = 19", "lower the daily minimum"),
        ('opens = "18:00"', "operating hours"),
        ('way = "webhook"', "touches.webhook_url and keys.webhook"),
        ('way = "webhook"\nwebhook_url = "https://h.test/x"', "set keys.webhook too"),
        ('way = "odoo"', "keys.odoo"),
    ],
)
def test_what_would_stop_a_week_or_a_hand_over_is_told_with_what_to_do(tmp_path, said, says):
    [check] = checks(tmp_path, f"[touches]\n{said}\n")
    assert not check.ok
    assert says in check.detail


def test_a_way_that_has_what_it_needs_is_in_order(tmp_path):
    text = '[touches]\nway = "webhook"\nwebhook_url = "https://h.test/x"\n'
    [check] = checks(tmp_path, f'{text}[keys]\nwebhook = "a secret that is long"\n')
    assert check.ok
    assert "secret" not in check.detail


def test_hours_that_are_too_short_for_the_week_are_told_and_are_no_error(tmp_path):
    [check] = checks(tmp_path, '[touches]\nopens = "09:00"\ncloses = "10:00"\n')
    assert check.ok
    assert "room for 35 touches" in check.detail


def test_tenants_that_share_a_state_file_are_told(tmp_path):
    text = '[touches]\nstate = "file"\n[tenants.acme]\n[tenants.bolt]\n[tenants.solo.touches]\n'
    found = checks(tmp_path, f'{text}state_file = "solo.json"\n')
    assert [check.ok for check in found] == [False, False, True]
    assert "state_file of its own" in found[0].detail
    assert found[2].detail.endswith("kept in solo.json")
