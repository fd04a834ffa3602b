"""`python -m stoker.compat.touches`: the planner's flags, as the commands of `stoker touches`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from stoker.cli.main import main as run_stoker
from stoker.compat.touches import settings
from stoker.compat.touches.rule import get_zone_name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the flags on `./schedule_state.json`; return the exit code of its command."""
    parser = argparse.ArgumentParser(
        prog="python -m stoker.compat.touches",
        description="The weekly planner's flags; `stoker touches --help` has all it can do.",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    for flag, command, text in (
        ("--generate-week", "plan", "plan this week (stoker touches plan)"),
        ("--show-plan", "show", "show this week's plan (stoker touches show)"),
        ("--batch", "run", "deliver what is due (stoker touches run)"),
        ("--status", "status", "show what is used of each limit (stoker touches status)"),
    ):
        action.add_argument(flag, dest="command", action="store_const", const=command, help=text)
    parser.add_argument("--profiles", metavar="FILE", help="with --generate-week: who to plan")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    options = ["--profiles", given.profiles] if given.profiles else []
    options += ["--dry-run"] * given.dry_run + ["--json"] * given.json
    in_file = {
        "touches.state": "file",
        "touches.state_file": settings.SCHEDULE_STATE_FILE,
        "scheduling.timezone": get_zone_name(),
    }
    sets = [part for key, value in in_file.items() for part in ("--set", f"{key}={value}")]
    return run_stoker([*sets, "touches", given.command, *options])


if __name__ == "__main__":
    sys.exit(main())
