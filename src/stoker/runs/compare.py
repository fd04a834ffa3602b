"""List the differences of two runs.

Each run is flattened to facts under dotted names. Its time and occurrence are left out: they always
differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.base.jsontools import compact_json
from stoker.base.types import Json
from stoker.runs.model import Run, StepTiming

ABSENT = "–"

MAX_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that is not the same in two runs; `–` where a run does not have it."""

    what: str
    one: str
    other: str


def diff_runs(one: Run, other: Run) -> list[Difference]:
    """Return what differs, sorted by name; nothing for equal runs.

    Swapping the arguments swaps the sides. Seconds that agree to the millisecond are equal.
    """
    left = {**dict(_list_facts(one)), **dict(_list_unique(one, other))}
    right = {**dict(_list_facts(other)), **dict(_list_unique(other, one))}
    return [
        Difference(what=what, one=left.get(what, ABSENT), other=right.get(what, ABSENT))
        for what in sorted(left.keys() | right.keys())
        if left.get(what) != right.get(what)
    ]


def _list_facts(run: Run) -> Iterator[tuple[str, str]]:
    manifest = run.manifest
    yield "kind", run.kind
    yield "state", run.state.value
    yield "reason", run.reason or ABSENT
    if run.ended_at is not None:
        yield "seconds", f"{(run.ended_at - run.at).total_seconds():.3f}"
    if manifest.resume_at is not None:
        yield "resume_at", manifest.resume_at.isoformat()
    yield "config_hash", manifest.config_hash or ABSENT
    yield from _flatten("config", manifest.config)
    yield from _flatten("caps", manifest.caps)
    yield from _flatten("cost", manifest.cost)
    yield from _flatten("counts", manifest.counts)
    yield from _list_timings("steps", manifest.steps)
    yield from _list_timings("sources", manifest.sources)


def _flatten(name: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flatten(f"{name}.{key}", inner)
    elif not isinstance(value, Mapping) or "." in name:
        yield name, compact_json(value)


def _list_timings(name: str, timings: Sequence[StepTiming]) -> Iterator[tuple[str, str]]:
    # A step that was done in several goes counts as one, or each go would look like a difference.
    seconds: dict[str, float] = {}
    items: dict[str, int] = {}
    for timing in timings:
        seconds[timing.step] = seconds.get(timing.step, 0.0) + timing.seconds
        items[timing.step] = items.get(timing.step, 0) + timing.items
    for step in seconds:
        yield f"{name}.{step}.seconds", f"{seconds[step]:.3f}"
        yield f"{name}.{step}.items", str(items[step])


def _list_unique(run: Run, other: Run) -> Iterator[tuple[str, str]]:
    mine, theirs = run.manifest, other.manifest
    yield "selected", _format_list(mine.selected, theirs.selected)
    yield "remaining", _format_list(mine.remaining, theirs.remaining)
    yield "lacking", _format_list(mine.lacking, theirs.lacking)
    yield "reasons", _format_list(mine.reasons, theirs.reasons)


def _format_list(mine: Sequence[str], theirs: Sequence[str]) -> str:
    if list(mine) == list(theirs):
        return str(len(mine))
    only = sorted(set(mine) - set(theirs))
    if only:
        return f"{len(mine)}, {len(only)} only here: {_format_few(only)}"
    if set(mine) != set(theirs):
        return str(len(mine))
    same = next(
        (n for n, pair in enumerate(zip(mine, theirs, strict=False)) if len({*pair}) > 1), 0
    )
    return f"{len(mine)} in another order, from {same + 1} on: {_format_few(mine[same:])}"


def _format_few(texts: Sequence[str]) -> str:
    more = ", …" if len(texts) > MAX_LISTED else ""
    return ", ".join(texts[:MAX_LISTED]) + more
