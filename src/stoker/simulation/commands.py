"""`stoker simulate`: run the weekly touch plan on a virtual clock and show the result.

Settings of touches are the tenant's, so `--set` and stoker.toml count. Nothing else is read, and
nothing written or delivered except the picture asked for. The simulations run the planner the
product uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.cli.options import choose_tenant, plot_option, seed_option, tenant_option
from stoker.cli.output import (
    Exit,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)
from stoker.simulation.chart import write_bar_chart
from stoker.simulation.commands_pulls import nights, pulls

if TYPE_CHECKING:
    from stoker.cli.output import CommandContext
    from stoker.settings import Settings
    from stoker.touches.planning.coverage import OutcomeOdds
    from stoker.touches.settings import PlanRule

_Command = TypeVar("_Command", bound=Callable[..., Any])

_MAX_BAR_WIDTH = 50  # letters of the longest bar

_SHARE_TYPE = click.FloatRange(0, 1)


@click.group()
def simulate() -> None:
    """Simulate touch plans, pulls and nightly runs on a virtual clock."""


simulate.add_command(pulls)

simulate.add_command(nights)


def _plot_options(command: _Command) -> _Command:
    """Give a command `--plot`, `--seed` and `--json`."""
    for option in (
        plot_option("Draw the histogram"),
        seed_option,
        json_option,
    ):
        command = option(command)
    return command


def _profile_options(command: _Command) -> _Command:
    """Give a command how many profiles there are and how often touches come to nothing."""
    for option in (
        click.option(
            "--no-posts-rate", type=_SHARE_TYPE, default=0.05, show_default=True, help="Share."
        ),
        click.option(
            "--already-reacted", type=_SHARE_TYPE, default=0.05, show_default=True, help="Share."
        ),
        click.option(
            "--failure-rate", type=_SHARE_TYPE, default=0.10, show_default=True, help="Share."
        ),
        click.option(
            "--profiles",
            type=click.IntRange(1, 1_000_000),
            default=100,
            show_default=True,
            help="How many profiles there are.",
        ),
    ):
        command = option(command)
    return command


@simulate.command()
@click.option(
    "--weeks", type=click.IntRange(1, 520), default=12, show_default=True, help="Weeks in each run."
)
@click.option(
    "--runs", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many."
)
@_profile_options
@_plot_options
@tenant_option
@pass_context
def coverage(
    ctx: CommandContext,
    weeks: int,
    runs: int,
    profiles: int,
    failure_rate: float,
    already_reacted: float,
    no_posts_rate: float,
    plot: Path | None,
    seed: int,
    as_json: bool,
    tenant: str | None,
) -> Exit:
    """Compare waits: replanned daily, planned weekly, the best possible, and the old formula.

    The rule is the tenant's [touches] section; --set tries another one.
    """
    from stoker.simulation.touches import SHARE_DAYS, compare_coverage

    rule = _read_rule(ctx, tenant)
    found = compare_coverage(
        profiles=profiles,
        weeks=weeks,
        runs=runs,
        odds=_build_odds(failure_rate, already_reacted, no_posts_rate),
        rule=rule,
        seed=seed,
    )
    ours = found[0]
    labels = _format_gaps(ours.gaps)
    if write_bar_chart(plot, "GAPS IN DAYS, REPAIRED DAILY", labels, ours.gaps, as_json=as_json):
        return Exit.OK
    if as_json:
        print_json(
            {
                "profiles": profiles,
                "weeks": weeks,
                "runs": runs,
                "window_days": rule.window.days,
                "policies": [asdict(each) for each in found],
            }
        )
        return Exit.OK
    print_text(f"{runs} runs of {weeks} weeks, {profiles} profiles, {rule.target} touches a week\n")
    print_text("share of gaps within so many days")
    print_table(
        ("policy", *(f"{days} d" for days in SHARE_DAYS), "longest", "runs over"),
        (
            (
                each.policy,
                *(f"{each.within_days[days]:.2%}" for days in SHARE_DAYS),
                f"{each.longest_days} d",
                f"{each.runs_too_long:.0%}",
            )
            for each in found
        ),
    )
    print_text(
        f"runs over: a wait of more than {rule.window.days} days; gaps: {sum(ours.gaps):,}\n"
    )
    print_table(
        ("policy", "forced", "pressing", "a day", "+-", "a profile/week", "+-", "from", "to"),
        (
            (
                each.policy,
                _format_share(each.forced),
                _format_share(each.pressing),
                f"{each.day_mean:.1f}",
                f"{each.day_deviation:.1f}",
                f"{each.frequency_mean:.2f}",
                f"{each.frequency_deviation:.2f}",
                f"{each.frequency_least:.2f}",
                f"{each.frequency_most:.2f}",
            )
            for each in found
        ),
    )
    print_text("\ndays by their number of touches, repaired daily")
    _print_bars(_format_gaps(ours.day_sizes), ours.day_sizes)
    print_text("\ngaps in days, repaired daily")
    _print_bars(labels, ours.gaps)
    return Exit.OK


@simulate.command()
@click.option(
    "--weeks", type=click.IntRange(1, 520), default=52, show_default=True, help="Weeks of the run."
)
@_profile_options
@_plot_options
@tenant_option
@pass_context
def scores(
    ctx: CommandContext,
    weeks: int,
    profiles: int,
    failure_rate: float,
    already_reacted: float,
    no_posts_rate: float,
    plot: Path | None,
    seed: int,
    as_json: bool,
    tenant: str | None,
) -> Exit:
    """Show who is picked after how many days, by today's score and by the one before it."""
    from stoker.simulation.touches import WaitBucket, compare_formulas

    found = compare_formulas(
        profiles=profiles,
        weeks=weeks,
        odds=_build_odds(failure_rate, already_reacted, no_posts_rate),
        rule=_read_rule(ctx, tenant),
        seed=seed,
    )

    def named(bucket: WaitBucket) -> str:
        return (
            f"{bucket.min_days}+"
            if bucket.max_days > 999
            else f"{bucket.min_days}-{bucket.max_days}"
        )

    new = found[0]
    labels = [named(bucket) for bucket in new.buckets]
    frequencies = [bucket.frequency for bucket in new.buckets]
    title = "SHARE PICKED A DAY, BY DAYS SINCE"
    if write_bar_chart(plot, title, labels, frequencies, as_json=as_json):
        return Exit.OK
    if as_json:
        print_json(
            [
                {
                    "formula": each.name,
                    "forced_picks": each.forced_picks,
                    "forced_days": each.forced_days,
                    "within": each.within,
                    "buckets": [
                        {
                            "days_since": named(bucket),
                            "seen": bucket.seen,
                            "picked": bucket.picked,
                            "frequency": bucket.frequency,
                            "score_mean": _compute_mean(bucket.scores.tolist()),
                        }
                        for bucket in each.buckets
                    ],
                }
                for each in found
            ]
        )
        return Exit.OK
    rows = []
    for each in found:
        for bucket in each.buckets:
            points = bucket.scores.tolist()
            rows.append(
                (
                    each.name,
                    named(bucket),
                    f"{bucket.seen:,}",
                    f"{bucket.frequency:.1%}",
                    f"{_compute_mean(points):.2f}" if points else "-",
                    f"{min(points):.2f}" if points else "-",
                    f"{max(points):.2f}" if points else "-",
                )
            )
    print_table(
        ("formula", "days since", "seen", "picked a day", "mean score", "least", "most"), rows
    )
    for each in found:
        print_text(
            f"\n{each.name}: {each.forced_picks:.1%} of picks forced, on {each.forced_days:.0%} of "
            f"days; {each.within:.2%} of picks within the window"
        )
    print_text("\nshare picked a day, by days since, new formula")
    _print_bars(labels, frequencies)
    return Exit.OK


@simulate.command()
@click.option(
    "--days", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="How many."
)
@click.option(
    "--per-day", type=click.IntRange(1, 1000), default=12, show_default=True, help="Touches."
)
@click.option("--timezone", help="Time zone of the hours. Default: the tenant's.")
@_plot_options
@tenant_option
@pass_context
def timing(
    ctx: CommandContext,
    days: int,
    per_day: int,
    timezone: str | None,
    plot: Path | None,
    seed: int,
    as_json: bool,
    tenant: str | None,
) -> Exit:
    """Show when touches are made: by hour, and from one to the next."""
    from stoker.simulation.touches import simulate_timing

    rule = _read_rule(ctx, tenant)
    zone = timezone or _read_own_settings(ctx, tenant).scheduling.timezone
    found = simulate_timing(days=days, per_day=per_day, rule=rule, seed=seed, zone=zone)
    labels = [f"{hour:02d}" for hour in found.hours]
    ending = Exit.PROBLEMS if found.gap_violations or found.outside_hours else Exit.OK
    if write_bar_chart(plot, "TOUCHES BY HOUR", labels, found.planned, as_json=as_json):
        return ending
    if as_json:
        print_json(asdict(found))
        return ending
    print_table(
        ("hour", "expected", "drawn", "planned"),
        (
            (label, f"{expected:,.0f}", f"{drawn:,}", f"{planned:,}")
            for label, expected, drawn, planned in zip(
                labels, found.expected, found.drawn, found.planned, strict=True
            )
        ),
    )
    _print_bars(labels, found.planned)
    spans = (found.shortest_seconds, found.median_seconds, found.longest_seconds)
    shortest, median, longest = (
        None if span is None else timedelta(seconds=span) for span in spans
    )
    print_text(
        f"\nchi-square {found.chi_square:.2f}, p {found.p:.3f} (before gaps are kept)\n"
        f"from one to the next: shortest {shortest}, median {median}, longest {longest}\n"
        f"gap violations {found.gap_violations}, outside hours {found.outside_hours}"
    )
    return ending


def _read_rule(ctx: CommandContext, tenant: str | None) -> PlanRule:
    rule = _read_own_settings(ctx, tenant).touches
    rule.check()
    return rule


def _read_own_settings(ctx: CommandContext, tenant: str | None) -> Settings:
    """Return the settings of a tenant of stoker.toml, without opening the store."""
    settings = ctx.read_settings()
    name = choose_tenant(settings, tenant) if tenant else settings.find_default_tenant()
    known = [settings.for_tenant(each.id) for each in settings.tenants if each.id == name]
    return known[0] if known else settings


def _format_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _build_odds(failed: float, already: float, no_posts: float) -> OutcomeOdds:
    from stoker.touches.planning.coverage import OutcomeOdds

    return OutcomeOdds(failed=failed, already_reacted=already, no_posts=no_posts)


def _print_bars(labels: Sequence[str], values: Sequence[float]) -> None:
    most = max(values, default=0) or 1
    width = max(map(len, labels), default=0)
    for label, value in zip(labels, values, strict=True):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        print_text(f"{label.rjust(width)} {'█' * round(_MAX_BAR_WIDTH * value / most)} {shown}")


def _format_gaps(gaps: Sequence[int]) -> list[str]:
    return [str(day) for day in range(len(gaps))]


def _compute_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
