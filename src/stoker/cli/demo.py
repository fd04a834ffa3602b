"""`stoker demo`: the real thing on the embedded store, with no keys, no network and no set-up.

Two tenants in different time zones live through four months on a clock we turn; then one real
run is done now. Everything shown is read back from the store, as the other commands would.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.output import (
    Exit,
    exit_for_run,
    progress,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.core.cadence import compute_next_run, preview
from stoker.core.localtime import clock_note, local_text

if TYPE_CHECKING:
    from stoker.config.settings import Settings
    from stoker.core.events import Event
    from stoker.core.model import Json, TenantId
    from stoker.ports import Weight
    from stoker.wiring import App

NIGHTS = 120
OFF_FROM, OFF_FOR = timedelta(days=80), timedelta(days=3)  # when the make-believe machine is off
SETTINGS = """\
# Written by `stoker demo`. Two tenants, each on its own night.
[scheduling]
cron = "0 1 * * *"
timezone = "Asia/Singapore"

[retention]
enabled = false   # so that `stoker prune --dry-run` has something to show
days = 60
keep_latest_n_runs = 14

[tenants.merlion]
name = "Merlion Analytics"

[tenants.hudson]
name = "Hudson Revenue"
timezone = "America/New_York"
scheduling.cron = "30 2 * * *"   # a time that clocks skip every spring
"""


@click.command()
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave settings and store in this new directory, to look around in.",
)
@takes_json
def demo(keep: Path | None, as_json: bool) -> Exit:
    """See it work: two tenants, four months of nights, no keys, no network."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise click.UsageError(f"{keep} is not empty; name a new directory")
        return run_async(_demo(keep, kept=True, as_json=as_json))
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as directory:
        return run_async(_demo(Path(directory), kept=False, as_json=as_json))


async def _demo(directory: Path, *, kept: bool, as_json: bool) -> Exit:
    from stoker import wiring
    from stoker.engine.clock import SystemClock

    (directory / wiring.CONFIG_FILE).write_text(SETTINGS, encoding="utf-8")
    # Only what stands in the demo's own file counts: whatever is set outside is for real work.
    settings = wiring.settings(directory=directory, config=None, flags={}, environment={})
    now = SystemClock().now()
    if not as_json:
        _show_schedules(settings, now)
    await _live_through(settings, until=now, quiet=as_json)
    async with wiring.opened(settings, observer=_unheard) as app:
        tenants = settings.active_tenants()
        tonight = await app.scheduler(tenants).start_now(app.task(tenants[0]))
        stories = {tenant: await _story(app, tenant, now) for tenant in tenants}
    if as_json:
        told: dict[str, Json] = {tenant: _story_json(story) for tenant, story in stories.items()}
        show_json({"run": tonight.name, "state": tonight.state.value, "tenants": told})
        return exit_for_run(tonight.state)
    _show_history(stories)
    say(f"\nAnd one run just now, for real: {tonight.name} of {tenants[0]}, {tonight.state.value}")
    show_table(
        ["step", "seconds", "items"],
        [(step.step, f"{step.seconds:.4f}", step.items) for step in tonight.manifest.steps],
    )
    _show_next(directory if kept else None)
    return exit_for_run(tonight.state)


def _show_schedules(settings: Settings, now: datetime) -> None:
    say("Two tenants, each on its own clock. Their next nights:\n")
    rows = []
    for tenant in settings.active_tenants():
        zone = settings.for_tenant(tenant).scheduling.timezone
        schedule = settings.schedule_for(tenant)
        coming = preview(now, schedule, 400)
        special = next((at for at in coming if clock_note(at, zone)), None)
        for at in [*coming[:3], *([special] if special else [])]:
            utc, wall = f"{at:%Y-%m-%d %H:%M}", local_text(at, zone)
            rows.append((tenant, utc, wall, clock_note(at, zone)))
    show_table(["tenant", "utc", "local", "note"], rows)


async def _live_through(settings: Settings, *, until: datetime, quiet: bool) -> None:
    """Let the production scheduler live through the nights on a clock that we turn."""
    from stoker import wiring
    from stoker.engine.clock import VirtualClock

    began = until - timedelta(days=NIGHTS)
    clock = VirtualClock(began)
    async with wiring.opened(settings, clock=clock, observer=_unheard) as app:
        tenants = settings.active_tenants()
        scheduler = app.scheduler(tenants)
        schedules = [settings.schedule_for(tenant) for tenant in tenants]
        if not quiet:
            say(f"\nLiving through {NIGHTS} nights; the machine is off for three of them …")
        with progress(range(NIGHTS), label="nights", length=NIGHTS) as nights:
            for _ in nights:
                end_of_night = clock.now() + timedelta(days=1)
                while (due := min(compute_next_run(clock.now(), s) for s in schedules)) < min(
                    end_of_night, until
                ):
                    clock.advance(due - clock.now())
                    if not OFF_FROM <= clock.now() - began < OFF_FROM + OFF_FOR:
                        await scheduler.tick()
                clock.advance(end_of_night - clock.now())


@dataclass(frozen=True, kw_only=True)
class Story:
    """What the store says about one tenant afterwards."""

    runs: int
    missed: tuple[str, ...]
    unexplained: int
    ledger_entries: int
    ledger_sound: bool
    prunable: Weight


async def _story(app: App, tenant: TenantId, now: datetime) -> Story:
    from stoker.core import retention
    from stoker.core.audit import FindingKind
    from stoker.engine.upkeep import audited
    from stoker.engine.verifying import verified
    from stoker.wiring import retention_rule

    store, own, task = app.backend.tenant(tenant), app.settings.for_tenant(tenant), app.task(tenant)
    since = now - timedelta(days=NIGHTS + 1)
    findings = await audited(
        store, task.name, task.schedule, since=since, until=now, now=now, rule=retention_rule(own)
    )
    runs = await store.runs.runs()
    going = retention.prunable(
        runs,
        rule=retention_rule(own),
        now=now,
        current=None,
        window_since=retention.longest_window_start(now, own.scheduling.timezone),
    )
    verdict = await verified(store)
    return Story(
        runs=len(runs),
        missed=tuple(f.sentence for f in findings if f.kind is FindingKind.MISSED),
        unexplained=sum(f.kind in (FindingKind.GAP, FindingKind.LOST) for f in findings),
        ledger_entries=verdict.entries,
        ledger_sound=not verdict.problems,
        prunable=await store.runs.weigh([run.at for run in going]),
    )


def _show_history(stories: dict[TenantId, Story]) -> None:
    say("\nWhat the store says about them:\n")
    show_table(
        ["tenant", "runs", "missed", "unexplained", "ledger", "retention would remove"],
        [
            (
                tenant,
                story.runs,
                len(story.missed),
                story.unexplained,
                f"{story.ledger_entries} entries, {'sound' if story.ledger_sound else 'BROKEN'}",
                f"{story.prunable.runs} runs, {story.prunable.rows} rows, "
                f"{story.prunable.bytes} bytes",
            )
            for tenant, story in stories.items()
        ],
    )
    for tenant, story in stories.items():
        for sentence in story.missed[:1]:
            say(f"\nWhy {tenant} missed a night: {sentence}")


def _show_next(kept: Path | None) -> None:
    if kept is None:
        say("\nNothing is left behind. To look around in it yourself:")
        say("  stoker demo --keep demo-out")
        say("To begin with your own tenants:")
        say("  stoker init && stoker doctor && stoker schedule next")
        return
    say(f"\nLook around in {kept}:")
    for command in ("schedule audit", "runs list", "prune --dry-run", "config show"):
        say(f"  stoker -C {kept} {command}")


def _story_json(story: Story) -> dict[str, Json]:
    weight = story.prunable
    return {
        "runs": story.runs,
        "missed": list(story.missed),
        "unexplained": story.unexplained,
        "ledger_entries": story.ledger_entries,
        "ledger_sound": story.ledger_sound,
        "would_prune": {"runs": weight.runs, "rows": weight.rows, "bytes": weight.bytes},
    }


def _unheard(_: Event) -> None:
    """The demo tells its story itself."""
