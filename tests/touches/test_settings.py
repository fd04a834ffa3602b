"""Every number of a weekly plan is a setting, each tenant's own, and nonsense is refused."""

from dataclasses import fields, replace
from datetime import time, timedelta

import pytest

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.settings import FIELDS
from stoker.settings.load import load_settings
from stoker.touches.settings import PlanRule

HOUR = timedelta(hours=1)
ANOTHER = {
    "weekly_target": "70",
    "weekly_cap": "75",
    "daily_mean": "10.5",
    "daily_std": "3",
    "daily_min": "4",
    "daily_max": "18",
    "daily_cap": "19",
    "hourly_cap": "6",
    "min_rest_days": "4",
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
    "success_rate": "0.7",
}


def settings(**touches):
    flags = {f"touches.{name}": value for name, value in touches.items()}
    return load_settings(file=None, env_file=None, environment={}, flags=flags)


def test_the_numbers_are_those_we_promise():
    rule = PlanRule()
    rule.check()
    assert (rule.target, rule.max_per_day, rule.daily_min, rule.hourly_cap) == (80, 20, 5, 5)
    assert (rule.force_after.days, rule.force_limit, rule.window.days) == (12, 5, 14)
    assert (rule.gap, rule.jitter) == (timedelta(minutes=3), timedelta(minutes=5))
    assert sum((each.end - each.start) / HOUR * each.rate for each in rule.hourly_rates) == (
        pytest.approx(8.2)
    )


def test_every_number_of_the_rule_can_be_set():
    loaded, default = settings(**ANOTHER), PlanRule()
    rule = loaded.touches
    names = [each.name for each in fields(default)]
    assert [name for name in names if getattr(rule, name) == getattr(default, name)] == []
    assert rule.weekdays == (1, 2, 5)
    assert rule.hourly_rates == ((8 * HOUR, 12 * HOUR, 1.0), (12 * HOUR, 24 * HOUR, 0.5))
    shown = {key: FIELDS[f"touches.{key}"] for key in ("weekdays", "rates", "min_gap_minutes")}
    plain = {key: about.format(getattr(rule, about.attribute)) for key, about in shown.items()}
    assert plain == {
        "weekdays": "1,2,5",
        "rates": "8-12 1, 12-24 0.5",
        "min_gap_minutes": "4.0",
    }


def test_each_of_them_is_a_tenants_own(tmp_path):
    file = tmp_path / "stoker.toml"
    file.write_text("[tenants.acme]\ntouches.weekly_target = 60\n[tenants.umbrella]\n")
    loaded = load_settings(file=file, env_file=None, environment={}, flags={})
    assert loaded.for_tenant(TenantId("acme")).touches.weekly_budget == 60
    assert loaded.for_tenant(TenantId("umbrella")).touches.weekly_budget == 80
    assert all(about.per_tenant for key, about in FIELDS.items() if key.startswith("touches."))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *[
            ("rates", text)
            for text in ["", "9-8 1", "9-25 1", "9-11 1, 10-12 1", "9-10", "9-10 0", "nine 1"]
        ],
        ("rates", "9-10 -1"),
        *[("weekdays", text) for text in ["", "0", "8", "1,1", "Mon", "1-5"]],
        ("pool", "0.5"),
        ("burst_chance", "1.5"),
        ("coverage_days", "0"),
        ("jitter_minutes", "1440"),
        ("daily_std", "inf"),
        ("daily_mean", "nan"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(key, text):
    with pytest.raises(ConfigError, match=key):
        settings(**{key: text})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weekly_budget": 34}, "7 days of at least 5 touches are more than 34 a week"),
        ({"weekly_cap": 20}, "more than 20 a week"),
        ({"daily_min": 21}, "does not fit under a daily maximum of 20"),
        ({"daily_cap": 4}, "does not fit under a daily maximum of 4"),
        ({"hourly_cap": 0}, "hourly cap below 1"),
        ({"burst_least": 6}, "burst day"),
        ({"opens": time(18), "closes": time(9)}, "from 18:00 to 09:00 are empty"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused_when_a_week_is_planned(change, message):
    rule = replace(PlanRule(), **change)
    with pytest.raises(ConfigError, match=message):
        rule.check()


def test_midnight_as_an_end_is_the_days_end():
    replace(PlanRule(), opens=time(0), closes=time(0)).check()
