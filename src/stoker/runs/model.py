"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.

What a run is: its one timestamp, how it can end, and the manifest that explains it.

A run belongs to one tenant. One UTC timestamp, whole seconds, names it everywhere: rows, file
names, manifest, logs. Which runs may be forgotten is `retention`'s business.

How a run and its manifest are written down as JSON, and read back.

Reading is strict: a key we do not know or a value of the wrong kind is refused, because writing
such a record again would lose what we did not understand. A key that is missing has its default,
so records written before a key existed still read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from stoker.base.errors import ConfigError, ConflictError
from stoker.base.jsontools import compact_json
from stoker.base.types import Enriched, Job, JobScore, Json, in_utc
from stoker.db.codec import _utc, kept_json, kept_text

GONE = "its process stopped without a word and its lease lapsed"

_NAME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})_([0-9]{2})([0-9]{2})([0-9]{2})")


class RunState(StrEnum):
    """Where a run stands. Everything but RUNNING is an end, and an end is final."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    PARTIAL = "PARTIAL"  # a cap or a deadline stopped part of it; the reason says which
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class RunKey:
    """The right to write into one run: its timestamp, and the epoch of the lease it runs under.

    A run that was given up for dead has ended, so a key that comes back late opens nothing.
    """

    at: datetime
    epoch: int

    def __post_init__(self) -> None:
        run_name(self.at)
        # In UTC, or in the hour that a zone repeats the same moment would not equal itself.
        object.__setattr__(self, "at", in_utc(self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTiming:
    """How long one step took, and how many things went through it."""

    step: str
    seconds: float
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything needed to explain a run later, or to repeat it."""

    config_hash: str = ""
    config: Mapping[str, Json] = field(default_factory=dict)
    selected: tuple[str, ...] = ()
    caps: Mapping[str, int] = field(default_factory=dict)
    budgets: Mapping[str, int] = field(default_factory=dict)  # used at the start, by cap and window
    counts: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, int] = field(default_factory=dict)  # by currency or unit, minor units
    steps: tuple[StepTiming, ...] = ()
    sources: tuple[StepTiming, ...] = ()
    reasons: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()  # worked on, and something was left out
    rule: Mapping[str, Json] = field(default_factory=dict)  # by which companies were chosen
    resume_at: datetime | None = None
    goes_on_with: datetime | None = None  # the run that died, of which this one does what is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One tenant's run of one kind of work."""

    key: RunKey
    kind: str
    state: RunState = RunState.RUNNING
    instant: datetime | None = None  # the schedule's instant it answers to; None if started by hand
    ended_at: datetime | None = None
    reason: str = ""
    manifest: Manifest = field(default_factory=Manifest)

    @property
    def at(self) -> datetime:
        """The timestamp that names this run."""
        return self.key.at

    @property
    def name(self) -> str:
        """The timestamp as it stands in file names and on the command line."""
        return run_name(self.at)

    def ended(
        self, state: RunState, *, at: datetime, reason: str = "", manifest: Manifest | None = None
    ) -> Run:
        """Return this run at its end, never before its start.

        Ending twice is a conflict: the first end stands.
        """
        if self.state is not RunState.RUNNING:
            raise ConflictError(f"run {self.name} has already ended as {self.state}")
        if state is RunState.RUNNING:
            raise ConflictError(f"run {self.name} cannot end as RUNNING; say how it ended")
        return replace(
            self,
            state=state,
            # Named by a second that was still to come, it may end before that second is there.
            ended_at=max(in_utc(at, what="the end of a run"), self.at),
            reason=reason,
            manifest=manifest or self.manifest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """Somebody's wish that a run come to its end: who asked, and when."""

    by: str
    at: datetime

    @property
    def reason(self) -> str:
        """Why a run that heeds it ended."""
        return f"cancelled by {self.by} with: stoker runs cancel"


def run_name(at: datetime) -> str:
    """Return the name of the run that started at this UTC second: `YYYYMMDD_HHMMSS`."""
    moment = in_utc(at, what="a run's timestamp")
    if moment.microsecond:
        raise ConfigError(f"a run is named by a whole second, not {moment.isoformat()}")
    return f"{moment.year:04}{moment:%m%d_%H%M%S}"  # %Y alone leaves out leading zeros


def run_at(name: str) -> datetime:
    """Return the UTC second a run's name stands for."""
    parts = _NAME.fullmatch(name)
    try:
        if parts is None:
            raise ValueError(name)
        return datetime(*(int(part) for part in parts.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # six numbers
    except ValueError:
        raise ConfigError(
            f"{name!r} does not name a run; names look like 20260207_013000 (UTC)"
        ) from None


def next_free_second(now: datetime, *, taken: datetime | None) -> datetime:
    """Return the second a run starting now is named by: now, or just after the latest taken one."""
    second = in_utc(now).replace(microsecond=0)
    if taken is None or taken < second:
        return second
    return taken + timedelta(seconds=1)


def config_hash(config: Mapping[str, Json]) -> str:
    """Return a short digest; two runs with the same digest ran with the same settings."""
    return hashlib.sha256(compact_json(config).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """How much a set of runs takes up. Rows are exact; bytes are what the backend can tell."""

    runs: int = 0
    rows: int = 0
    bytes: int = 0


class RunStore(Protocol):
    """One tenant's runs and what they found."""

    async def insert_run(self, run: Run) -> None:
        """Remember a run that is starting.

        Raises ConflictError when this tenant already has a run with that timestamp, or the run
        given has already ended.
        """
        ...

    async def finish_run(self, run: Run) -> None:
        """Replace a running run with its end.

        Raises ConflictError, and changes nothing, unless the run is there, still RUNNING, and
        was started under the same epoch: a run given up for dead stays as it was left.
        """
        ...

    async def run(self, at: datetime) -> Run | None:
        """Return the run with this timestamp."""
        ...

    async def runs(self, *, kind: str | None = None, limit: int | None = None) -> list[Run]:
        """Return runs, newest first."""
        ...

    async def ask_to_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        """Ask a run to stop, while it is RUNNING; return the request that stands.

        Twice is once: whoever asked first is the one who asked. None, with nothing written, when
        the run has ended or is not there. Whoever carries it out reads this every few seconds.
        """
        ...

    async def cancel_request(self, at: datetime) -> CancelRequest | None:
        """Return who asked this run to stop, if anybody did while it was RUNNING."""
        ...

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        """Remember postings under a run; return how many were new to it.

        A posting already there is left as it is. Raises ConflictError, and writes nothing,
        unless the key's run is RUNNING under the key's epoch.
        """
        ...

    async def insert_enriched(self, key: RunKey, enriched: Sequence[Enriched]) -> int:
        """Remember what enrichment made of postings; return how many were new.

        As `insert_jobs`; and PermanentError, with nothing written, when one of them speaks of a
        posting that this run does not have.
        """
        ...

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        """Remember scores of postings; as `insert_enriched`."""
        ...

    async def jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        """Return one page of a run's postings, in id order, beginning after an id."""
        ...

    async def enriched(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Enriched]:
        """Return one page of a run's enriched postings, in id order."""
        ...

    async def scores(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[JobScore]:
        """Return one page of a run's scores, in id order."""
        ...

    async def weigh(self, ats: Sequence[datetime]) -> Weight:
        """Return what `prune` would remove, without removing it."""
        ...

    async def prune(self, ats: Sequence[datetime]) -> Weight:
        """Forget these runs and everything under them; return what went.

        A timestamp that names no run is passed over, and so is a run that is still RUNNING.
        """
        ...


_Value = TypeVar("_Value")


def manifest_json(manifest: Manifest) -> dict[str, Json]:
    """Return the manifest as plain JSON values; moments are ISO text in UTC."""
    return {
        "config_hash": manifest.config_hash,
        "config": dict(manifest.config),
        "selected": list(manifest.selected),
        "caps": dict(manifest.caps),
        "budgets": dict(manifest.budgets),
        "counts": dict(manifest.counts),
        "cost": dict(manifest.cost),
        "steps": [_timing_json(timing) for timing in manifest.steps],
        "sources": [_timing_json(timing) for timing in manifest.sources],
        "reasons": list(manifest.reasons),
        "remaining": list(manifest.remaining),
        "lacking": list(manifest.lacking),
        "rule": dict(manifest.rule),
        "resume_at": _moment_json(manifest.resume_at),
        "goes_on_with": _moment_json(manifest.goes_on_with),
    }


def manifest_from_json(data: Any) -> Manifest:
    """Return the manifest that `manifest_json` wrote; ConfigError when the data is not one."""
    return Manifest(**_read(data, _MANIFEST, what="a manifest"))


def run_json(run: Run) -> dict[str, Json]:
    """Return the run, manifest and all, as plain JSON values."""
    return {
        "at": _moment_json(run.at),
        "epoch": run.key.epoch,
        "kind": run.kind,
        "state": run.state.value,
        "instant": _moment_json(run.instant),
        "ended_at": _moment_json(run.ended_at),
        "reason": run.reason,
        "manifest": manifest_json(run.manifest),
    }


def run_from_json(data: Any) -> Run:
    """Return the run that `run_json` wrote; ConfigError when the data is not one."""
    read = _read(data, _RUN, what="a run")
    if missing := [key for key in ("at", "epoch", "kind") if read.get(key) is None]:
        raise ConfigError(f"a run's record has no {missing[0]!r}; it cannot be read")
    key = RunKey(read.pop("at"), read.pop("epoch"))
    return Run(key=key, **read)


def _timing_json(timing: StepTiming) -> dict[str, Json]:
    return {"step": timing.step, "seconds": timing.seconds, "items": timing.items}


def _moment_json(moment: datetime | None) -> str | None:
    return None if moment is None else in_utc(moment).isoformat()


def _read(data: Any, shape: Mapping[str, Callable[[Any], Any]], *, what: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{what} is written as a JSON object, not as {type(data).__name__}")
    read = {}
    for key, value in data.items():
        if key not in shape:
            raise ConfigError(f"{what} has no {key!r}; was it written by a newer Stoker?")
        try:
            read[key] = shape[key](value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{what} cannot have {value!r} as its {key!r}: {error}") from error
    return read


def _text(value: Any) -> str:
    return _of(str, value)


def _whole(value: Any) -> int:
    # True is an int to Python; to us it is a mistake in somebody's file.
    if isinstance(value, bool):
        raise TypeError("a whole number is needed")
    return _of(int, value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int) else _of(float, value)


def _of(kind: type[_Value], value: Any) -> _Value:
    if not isinstance(value, kind):
        raise TypeError(f"a value of type {kind.__name__} is needed")
    return value


def _moment(value: Any) -> datetime | None:
    return None if value is None else in_utc(datetime.fromisoformat(_text(value)))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in _of(list, value))


def _object(value: Any) -> dict[str, Json]:
    return dict(_of(dict, value))


def _wholes(value: Any) -> dict[str, int]:
    return {_text(key): _whole(number) for key, number in _of(dict, value).items()}


def _timings(value: Any) -> tuple[StepTiming, ...]:
    shape = {"step": _text, "seconds": _number, "items": _whole}
    return tuple(StepTiming(**_read(item, shape, what="a timing")) for item in _of(list, value))


_MANIFEST: Mapping[str, Callable[[Any], Any]] = {
    "config_hash": _text,
    "config": _object,
    "selected": _texts,
    "caps": _wholes,
    "budgets": _wholes,
    "counts": _wholes,
    "cost": _wholes,
    "steps": _timings,
    "sources": _timings,
    "reasons": _texts,
    "remaining": _texts,
    "lacking": _texts,
    "rule": _object,
    "resume_at": _moment,
    "goes_on_with": _moment,
}

_RUN: Mapping[str, Callable[[Any], Any]] = {
    "at": _moment,
    "epoch": _whole,
    "kind": _text,
    "state": RunState,
    "instant": _moment,
    "ended_at": _moment,
    "reason": _text,
    "manifest": manifest_from_json,
}


def kept_run(run: Run) -> Run:
    """Return the run as a store gives it back."""
    kept_text(run.kind, what="a run's kind")
    kept_text(run.reason, what="a run's reason")
    manifest = kept_json(manifest_json(run.manifest), what="a run's manifest")
    return replace(
        run,
        key=replace(run.key, at=in_utc(run.at)),
        instant=_utc(run.instant, what="a run's instant"),
        ended_at=_utc(run.ended_at, what="a run's end"),
        manifest=manifest_from_json(manifest),
    )


def kept_request(request: CancelRequest) -> CancelRequest:
    """Return the wish that a run stop as a store gives it back."""
    kept_text(request.by, what="who asks a run to stop")
    return replace(request, at=in_utc(request.at, what="when a run was asked to stop"))
