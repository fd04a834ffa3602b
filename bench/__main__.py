"""Measure everything we make a claim about, beside its bare baseline, in the same run.

    python -m bench [--write] [bulk_insert startup ...]

A benchmark is a module here with `main()` that returns rows of (what, ours, baseline, ratio).
`--write` puts the table into docs/benchmarks.md with the date and the machine.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HEAD = ("what", "ours", "baseline", "ratio")

Row = tuple[str, str, str, str]


def measured(names: list[str]) -> list[Row]:
    """Return the rows of these benchmarks, in order."""
    rows: list[Row] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        found = importlib.import_module(f"bench.{name}").main()
        for what, ours, baseline, ratio in found:
            shown = f"{ratio:.2f}" if isinstance(ratio, float) else str(ratio)
            rows.append((str(what), str(ours), str(baseline), shown))
    return rows


def table(rows: list[Row]) -> str:
    """Return the rows as one table, readable as text and as Markdown."""
    widths = [max(len(row[nth]) for row in [HEAD, *rows]) for nth in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [HEAD, *rows]
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def write(rows: list[Row]) -> None:
    """Replace the table on the page, and say when and on what it was measured."""
    where = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    block = f"{BEGIN}\nMeasured {datetime.now(UTC):%Y-%m-%d} on {where}.\n\n{table(rows)}\n{END}"
    page = PAGE.read_text()
    between = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    PAGE.write_text(between.sub(lambda _: block, page))


def main() -> int:
    """Measure, print one table, and write it down when asked."""
    there = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(prog="python -m bench", description="Every ratio we claim.")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    parser.add_argument("benchmarks", nargs="*", metavar="benchmark", help=", ".join(there))
    asked = parser.parse_args()
    if unknown := set(asked.benchmarks) - set(there):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose of {there}")
    rows = measured(asked.benchmarks or there)
    print(table(rows))
    if asked.write:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
