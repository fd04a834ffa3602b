"""Every number of a weekly plan is a setting, each tenant's own, and nonsense is refused."""

from dataclasses import fields
from datetime import time

import pytest

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.config.load import load_settings
from stoker.settings import FIELDS
from stoker.touches.model import PlanRule, Rate


def settings(**touches):
    flags = {f"touches.{name}": value for name, value in touches.items()}
    return load_settings(file=None, env_file=None, environment={}, flags=flags)


def test_what_nobody_set_is_the_rule_as_it_is_by_default():
    assert settings().touches.build_plan_rule() == PlanRule()


ANOTHER = {
    "weekly_target": "70",
    "weekly_cap": "75",
    "daily_mean": "10.5",
    "daily_std": "3",
    "daily_min": "4",
    "daily_max": "18",
    "daily_cap": "19",
    "hourly_cap": "6",
    "force_after_days": "11",
    "force_most": "4",
    "coverage_days": "15",
    "pressing_days": "2",
    "score_per_day": "0.7",
    "score_most": "11",
    "score_chance": "4",
    "pool": "3",
    "appeal_factor": "0.5",
    "opens": "08:30",
    "closes": "17:00",
    "weekdays": "5,1,2",
    "rates": "8-12 1, 12-24  0.5",
    "min_gap_minutes": "4",
    "jitter_minutes": "6",
    "burst_chance": "0.2",
    "burst_least": "2",
    "burst_most": "4",
    "light_less": "2",
}


def test_every_number_of_the_rule_can_be_set():
    rule, usual = settings(**ANOTHER).touches.build_plan_rule(), PlanRule()
    same = [
        each.name for each in fields(rule) if getattr(rule, each.name) == getattr(usual, each.name)
    ]
    assert same == []
    assert rule.weekdays == (1, 2, 5)
    assert rule.rates == (Rate(time(8), time(12), 1.0), Rate(time(12), time(0), 0.5))


def test_each_of_them_is_a_tenants_own(tmp_path):
    file = tmp_path / "stoker.toml"
    file.write_text("[tenants.acme]\ntouches.weekly_target = 60\n[tenants.umbrella]\n")
    told = load_settings(file=file, env_file=None, environment={}, flags={})
    assert told.for_tenant(TenantId("acme")).touches.build_plan_rule().weekly_budget == 60
    assert told.for_tenant(TenantId("umbrella")).touches.build_plan_rule().weekly_budget == 80
    assert all(about.per_tenant for key, about in FIELDS.items() if key.startswith("touches."))


@pytest.mark.parametrize(
    "rates", ["", "9-8 1", "9-25 1", "9-11 1, 10-12 1", "9-10", "9-10 0", "nine 1", "9-10 -1"]
)
def test_rates_that_make_no_sense_are_refused(rates):
    with pytest.raises(ConfigError, match="rates"):
        settings(rates=rates)


@pytest.mark.parametrize("days", ["", "0", "8", "1,1", "Mon", "1-5"])
def test_days_that_make_no_sense_are_refused(days):
    with pytest.raises(ConfigError, match="weekdays"):
        settings(weekdays=days)


def test_numbers_that_contradict_each_other_are_told_when_a_week_is_planned():
    with pytest.raises(ConfigError, match="daily minimum"):
        settings(daily_min="19", daily_max="20").touches.build_plan_rule()
