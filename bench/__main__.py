"""Measure everything we make a claim about, beside its bare baseline, in the same run.

    python -m bench [--write] [bulk_insert startup ...]

A benchmark is a module here with `main()` that returns rows of (what, ours, baseline, ratio).
`--write` puts each one's table into docs/benchmarks.md with the date and the machine; those that
were not asked for stay as they are.
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
BLOCK = re.compile(r"(?=\*\*(\w+)\*\*, measured)(.*?)(?=\n\*\*\w+\*\*, measured|\Z)", re.DOTALL)
HEAD = ("what", "ours", "baseline", "ratio")

Row = tuple[str, str, str, str]


def measured(name: str) -> list[Row]:
    """Return the rows of a benchmark."""
    print(f"measuring {name} …", file=sys.stderr, flush=True)
    rows: list[Row] = []
    for what, ours, baseline, ratio in importlib.import_module(f"bench.{name}").main():
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


def write(name: str, rows: list[Row]) -> None:
    """Put a benchmark's table on the page, with when and on what it was measured."""
    where = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    said = f"**{name}**, measured {datetime.now(UTC):%Y-%m-%d} on {where}\n\n{table(rows)}"
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    inside, _, after = rest.partition(END)
    blocks = dict(BLOCK.findall(inside)) | {name: said}
    kept = "\n\n".join(blocks[each].strip() for each in sorted(blocks))
    PAGE.write_text(f"{before}{BEGIN}\n{kept}\n{END}{after}")


def main() -> int:
    """Measure, print one table, and write it down when asked."""
    there = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(prog="python -m bench", description="Every ratio we claim.")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    parser.add_argument("benchmarks", nargs="*", metavar="benchmark", help=", ".join(there))
    asked = parser.parse_args()
    if unknown := set(asked.benchmarks) - set(there):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose of {there}")
    for name in asked.benchmarks or there:
        rows = measured(name)
        print(f"{table(rows)}\n", flush=True)
        if asked.write:
            write(name, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
