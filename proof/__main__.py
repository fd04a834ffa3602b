"""Run every large proof and say, for each, how often it looked and what it found.

    python -m proof [--scale 0.01] [faults cron_oracle ...]

A proof is a module here with `main(scale) -> int`, the number of things that went wrong. One that
breaks off counts as gone wrong too. `--scale` makes the counts larger or smaller.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
import traceback

PROOFS = (
    "properties",
    "fuzz",
    "hostile_pages",
    "cron_oracle",
    "stores_agree",
    "migrations",
    "postgres",
    "faults",
    "metered_vendor",
    "shared_rate",
    "money_chaos",
    "web",
    "nights",
    "touches",
    "pulls",
    "people",
    "mutants",
)


def outcome(name: str, scale: float) -> tuple[str, bool]:
    """Run one proof; return a line about it, and whether it held."""
    began = time.monotonic()
    try:
        failures = importlib.import_module(f"proof.{name}").main(scale)
        said = "held" if not failures else f"FAILED ({failures})"
    except Exception:  # noqa: BLE001  # one proof that breaks must not hide the others
        traceback.print_exc()
        failures, said = 1, "FAILED (it broke off, see above)"
    return f"{name:<14} {said:<34} {time.monotonic() - began:8.1f} s", not failures


def main() -> int:
    """Run the proofs asked for, all by default; return 0 only when every one of them held."""
    there = [name for name in PROOFS if importlib.util.find_spec(f"proof.{name}")]
    parser = argparse.ArgumentParser(prog="python -m proof", description="The large counts.")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is what we publish")
    parser.add_argument("proofs", nargs="*", metavar="proof", help=", ".join(there))
    asked = parser.parse_args()
    if unknown := set(asked.proofs) - set(there):
        parser.error(
            f"there is no proof {', '.join(sorted(unknown))}; choose of {', '.join(there)}"
        )
    results = []
    for name in asked.proofs or there:
        print(f"== {name}", flush=True)
        results.append(outcome(name, asked.scale))
    print(f"\n== all, at scale {asked.scale:g}")
    for line, _ in results:
        print(line)
    return 0 if all(held for _, held in results) else 1


if __name__ == "__main__":
    sys.exit(main())
