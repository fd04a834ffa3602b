"""Simulations run the production planner, and show what a planner that looks away would do."""

import json
import struct
import zlib

import numpy as np
import pytest

from stoker.base.errors import ConfigError
from stoker.cli.main import main
from stoker.simulation.chart import draw_bar_chart
from stoker.simulation.touches import (
    MAX_WAIT_FIRST,
    OLD_FORMULA,
    REPLANNED_DAILY,
    WEEKLY,
    compare_coverage,
    compare_formulas,
    compute_chi_square_p,
    compute_old_scores,
    simulate_timing,
)
from stoker.touches.planning.coverage import OutcomeOdds
from stoker.touches.planning.random import Purpose, RandomStream
from stoker.touches.settings import PlanRule

RULE = PlanRule()
USUAL = OutcomeOdds(failed=0.1, already_reacted=0.05, no_posts=0.05)


def test_repaired_daily_nearly_everybody_is_reached_in_time_and_planning_weekly_is_caught():
    found = {
        each.policy: each
        for each in compare_coverage(profiles=100, weeks=12, runs=15, odds=USUAL, rule=RULE)
    }
    assert found[REPLANNED_DAILY].within >= 0.995
    assert found[WEEKLY].within < 0.95
    assert found[REPLANNED_DAILY].within <= found[MAX_WAIT_FIRST].within + 0.001
    assert min(sum(each.gaps) for each in found.values()) > 10_000


def test_a_rehearsal_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="at least a profile"):
        compare_coverage(profiles=0, weeks=1, runs=1, odds=USUAL, rule=RULE)
    with pytest.raises(ConfigError, match="at least a day"):
        simulate_timing(days=0, per_day=1, rule=RULE)


def test_who_waited_longer_is_picked_more_often_by_both_formulas():
    new, old = compare_formulas(profiles=100, weeks=20, odds=USUAL, rule=RULE)
    for each in (new, old):
        frequencies = [bucket.frequency for bucket in each.buckets if bucket.seen > 20]
        assert frequencies == sorted(frequencies)
        assert each.within > 0.99
    assert new.forced_picks > 0
    assert old.forced_picks == 0


def test_the_old_formula_is_days_times_ten_and_fifteen_plus_or_minus_ten():
    since = np.array([0, 3, 12] * 500)
    spread = compute_old_scores(since, chance=RandomStream(1, Purpose.PICKS)) - 10 * since - 15
    assert -10 <= spread.min() < -9
    assert 9 < spread.max() <= 10
    assert abs(spread.mean()) < 0.6


def test_coverage_reports_shares_reasons_days_and_frequencies():
    ours, _, best, old = compare_coverage(profiles=100, weeks=6, runs=4, odds=USUAL, rule=RULE)
    assert old.policy == OLD_FORMULA
    assert list(ours.within_days) == [7, 10, 12, 14, 16]
    shares = list(ours.within_days.values())
    assert shares == sorted(shares)
    assert ours.within_days[14] == ours.within
    assert 0 < ours.forced < ours.pressing < 1
    assert (best.forced, old.pressing) == (None, None)
    assert sum(ours.day_sizes) == 4 * 6 * 7
    assert sum(size * days for size, days in enumerate(ours.day_sizes)) == 4 * 6 * 80
    assert ours.day_mean == pytest.approx(80 / 7)
    assert 2 < ours.day_deviation < 5
    assert ours.frequency_mean == pytest.approx(0.8)
    assert ours.frequency_least < 0.8 < ours.frequency_most


def test_touches_follow_the_table_of_rates_and_are_never_too_near():
    found = simulate_timing(days=500, per_day=12, rule=RULE, zone="Asia/Singapore")
    assert found.hours == tuple(range(9, 18))
    assert found.p > 0.01
    assert (found.gap_violations, found.outside_hours) == (0, 0)
    assert found.shortest_seconds >= RULE.gap.total_seconds()


def test_times_spread_evenly_over_the_day_would_be_caught():
    even = simulate_timing(days=500, per_day=12, rule=PlanRule(rates="9-18 1"))
    shares = [rate / 8.2 for rate in (0.6, 1.3, 1.3, 0.8, 1.2, 1.2, 0.7, 0.7, 0.4)]
    expected = [share * sum(even.drawn) for share in shares]
    statistic = sum((a - b) ** 2 / b for a, b in zip(even.drawn, expected, strict=True))
    assert compute_chi_square_p(statistic, freedom=8) < 1e-6


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (15.507, 8, 0.05), (20.090, 8, 0.01), (0.0, 5, 1.0)],
)
def test_the_tail_of_chi_square_is_that_of_the_tables(statistic, freedom, p):
    assert compute_chi_square_p(statistic, freedom=freedom) == pytest.approx(p, rel=2e-3)


def test_a_picture_is_a_png_that_can_be_read_back():
    data = draw_bar_chart("Gaps", ["a", "b"], [1, 3])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        parts[kind] = body
        at += 12 + length
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    assert len(zlib.decompress(parts[b"IDAT"])) == height * (width + 1)
    assert draw_bar_chart("", [], []) != data


@pytest.mark.parametrize(
    "command",
    [
        ["coverage", "--runs", "2", "--weeks", "3"],
        ["scores", "--weeks", "3"],
        ["timing", "--days", "20"],
    ],
)
def test_every_simulation_prints_a_table_and_json_and_draws(command, tmp_path, capsys):
    picture = tmp_path / "bars.png"
    assert main(["simulate", *command, "--plot", str(picture)]) == 0
    assert "█" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["simulate", *command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_rates_that_leave_nothing_to_be_done_are_a_sentence(capsys):
    assert main(["simulate", "coverage", "--failure-rate", "1", "--runs", "1"]) == 2
    assert "together below 1" in capsys.readouterr().err


def test_simulations_go_by_the_tenants_settings_and_by_set(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text(
        'touches.weekdays = "1,2,3,4,5"\n[tenants.acme.touches]\nweekly_target = 40\n'
    )

    def asked(*words, sets=()):
        flags = [part for each in sets for part in ("--set", each)]
        assert main(["-C", str(tmp_path), *flags, "simulate", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    small = ("coverage", "--runs", "1", "--weeks", "2")
    own = asked(*small, "--tenant", "acme")["policies"][0]
    assert sum(size * days for size, days in enumerate(own["day_sizes"])) == 2 * 40
    assert own["day_sizes"][0] == 4
    rest = asked(*small, sets=["touches.min_rest_days=9", "touches.coverage_days=20"])
    assert rest["window_days"] == 20
    assert sum(rest["policies"][0]["gaps"][:9]) == 0
    hours = asked("timing", "--days", "20", sets=["touches.opens=10:00", "touches.closes=12:00"])
    assert hours["hours"] == [10, 11]
    calm = asked("scores", "--weeks", "4", sets=["touches.force_after_days=3650"])
    assert calm[0]["forced_picks"] == 0
