"""Report a discovery run: counts of each source, totals, outcome and reasons.

Writes the counts of every source into the manifest's counts by name, and reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta

from stoker.discovery.sources import SourceState
from stoker.runs.model import RunState

MAX_REASONS = 20  # reasons of one kind that a person will read
_STATES = tuple(SourceState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    name: str
    state: SourceState
    reason: str = ""  # why it failed, or what was left out
    listed: int = 0  # postings it lists
    new: int = 0  # of them, never listed there before
    gone: int = 0  # listed there the last time, and no longer
    twins: int = 0  # of those listed, at a source before it as well
    rejected: int = 0  # that could not be read
    requests: int = 0
    elapsed: timedelta = timedelta(0)


_COUNT_NAMES = ("listed", "new", "gone", "twins", "rejected", "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What became of all postings together."""

    kept: int = 0  # in this run, each opening once
    enriched: int = 0
    scored: int = 0
    employers_matched: int = 0
    matched: int = 0  # postings of accounts
    signals: int = 0  # of them, never heard before


def build_counts(reports: Sequence[SourceReport], totals: Totals) -> dict[str, int]:
    """Return all numbers by name, as a manifest keeps them."""
    counts = {name: sum(getattr(each, name) for each in reports) for name in _COUNT_NAMES}
    counts |= {each.name: getattr(totals, each.name) for each in fields(totals)}
    counts["sources"] = len(reports)
    counts["sources_failed"] = sum(each.state is SourceState.FAILED for each in reports)
    for each in reports:
        own = {name: getattr(each, name) for name in _COUNT_NAMES if getattr(each, name)}
        own["state"] = _STATES.index(each.state)
        counts |= {f"{each.name} {name}": number for name, number in own.items()}
    return counts


def parse_source_counts(counts: Mapping[str, int]) -> dict[str, dict[str, int | str]]:
    """Return each source's numbers out of a manifest's counts, by the source's name."""
    found: dict[str, dict[str, int | str]] = {}
    for key, number in counts.items():
        name, blank, what = key.rpartition(" ")
        if blank and what == "state":
            found.setdefault(name, dict.fromkeys(("state", *_COUNT_NAMES), 0))["state"] = (
                _STATES[number] if 0 <= number < len(_STATES) else ""
            )
        elif blank and what in _COUNT_NAMES:
            found.setdefault(name, dict.fromkeys(("state", *_COUNT_NAMES), 0))[what] = number
    return found


def compute_outcome(reports: Sequence[SourceReport]) -> tuple[RunState, str]:
    """Return how a discovery ended, and why: a source that failed fails alone."""
    failed = [each for each in reports if each.state is SourceState.FAILED]
    if not failed:
        return RunState.DONE, ""
    first = f"{failed[0].name}: {failed[0].reason}"
    if len(failed) == len(reports):
        return RunState.FAILED, f"no source could be read; {first}"
    return RunState.PARTIAL, f"{len(failed)} of {len(reports)} sources could not be read; {first}"


def list_reasons(reports: Sequence[SourceReport], *, rejects: Sequence[str]) -> tuple[str, ...]:
    """Return the sentences a person should read: what failed, what was left out, what was bad."""
    reasons = [
        f"{each.name} {'failed' if each.state is SourceState.FAILED else 'is incomplete'}: "
        f"{each.reason}"
        for each in reports
        if each.reason
    ]
    shown = [*reasons[:MAX_REASONS], *rejects[:MAX_REASONS]]
    more = len(reasons) + len(rejects) - len(shown)
    return (*shown, f"and {more} more of the kind") if more else tuple(shown)
