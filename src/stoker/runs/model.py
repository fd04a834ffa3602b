"""Define runs, their manifests, cancel requests, their JSON, and what a run store does.

A run belongs to one tenant. One UTC timestamp in whole seconds names it everywhere: rows, file
names, manifest, logs. Parsing is strict: an unknown key or a wrong type is refused, because writing
the record again would lose it. A missing key has its default, so old records can be read.
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
from stoker.base.types import EnrichedJob, Job, JobScore, Json, TenantId, to_utc
from stoker.db.codec import _to_optional_utc, validate_json, validate_text

PROCESS_DIED = "its process stopped without a word and its lease lapsed"

_RUN_NAME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})_([0-9]{2})([0-9]{2})([0-9]{2})")


class RunState(StrEnum):
    """The state of a run. Every state but RUNNING is final."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    PARTIAL = "PARTIAL"  # a cap or a deadline stopped part of it; the reason says which
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class RunKey:
    """The right to write into one run: its timestamp and the fencing token of its lease.

    A run that was closed as dead has ended, so its old key writes nothing.
    """

    at: datetime
    fencing_token: int

    def __post_init__(self) -> None:
        format_run_name(self.at)
        # In UTC, or in the hour that a zone repeats the same time would not equal itself.
        object.__setattr__(self, "at", to_utc(self.at))


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
    instant: datetime | None = (
        None  # the schedule's occurrence it answers to; None if started by hand
    )
    ended_at: datetime | None = None
    reason: str = ""
    manifest: Manifest = field(default_factory=Manifest)

    @property
    def at(self) -> datetime:
        """The timestamp that names this run."""
        return self.key.at

    @property
    def name(self) -> str:
        """The timestamp as in file names and on the command line."""
        return format_run_name(self.at)

    def end(
        self, state: RunState, *, at: datetime, reason: str = "", manifest: Manifest | None = None
    ) -> Run:
        """Return this run as ended, never before its start.

        Ending twice is a conflict: the first end stays.
        """
        if self.state is not RunState.RUNNING:
            raise ConflictError(f"run {self.name} has already ended as {self.state}")
        if state is RunState.RUNNING:
            raise ConflictError(f"run {self.name} cannot end as RUNNING; say how it ended")
        return replace(
            self,
            state=state,
            # Named by a second that was still to come, it may end before that second is there.
            ended_at=max(to_utc(at, what="the end of a run"), self.at),
            reason=reason,
            manifest=manifest or self.manifest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """A request that a run stop: who asked, and when."""

    by: str
    at: datetime

    @property
    def reason(self) -> str:
        """The reason of a run that ended for it."""
        return f"cancelled by {self.by} with: stoker runs cancel"


def format_run_name(at: datetime) -> str:
    """Return the name of the run that started at this UTC second: `YYYYMMDD_HHMMSS`."""
    moment = to_utc(at, what="a run's timestamp")
    if moment.microsecond:
        raise ConfigError(f"a run is named by a whole second, not {moment.isoformat()}")
    return f"{moment.year:04}{moment:%m%d_%H%M%S}"  # %Y alone leaves out leading zeros


def parse_run_name(name: str) -> datetime:
    """Return the UTC second in a run's name."""
    parts = _RUN_NAME.fullmatch(name)
    try:
        if parts is None:
            raise ValueError(name)
        return datetime(*(int(part) for part in parts.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # six numbers
    except ValueError:
        raise ConfigError(
            f"{name!r} does not name a run; names look like 20260207_013000 (UTC)"
        ) from None


def choose_run_time(now: datetime, *, taken: datetime | None) -> datetime:
    """Return the second a run starting now is named by: now, or just after the latest taken one."""
    second = to_utc(now).replace(microsecond=0)
    if taken is None or taken < second:
        return second
    return taken + timedelta(seconds=1)


def compute_config_hash(config: Mapping[str, Json]) -> str:
    """Return a short digest; two runs with the same digest ran with the same settings."""
    return hashlib.sha256(compact_json(config).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSize:
    """The size of a set of runs. Rows are exact; bytes are what the backend can measure."""

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

    async def find_run(self, at: datetime) -> Run | None:
        """Return the run with this timestamp."""
        ...

    async def list_runs(
        self,
        *,
        kind: str | None = None,
        state: RunState | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        """Return runs, newest first: of a kind, in a state, not before a time."""
        ...

    async def request_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        """Ask a RUNNING run to stop; return the request in force.

        Safe to repeat: the first request stays. None, with nothing written, when the run has ended
        or does not exist. The process that executes it polls for this every few seconds.
        """
        ...

    async def find_cancel_request(self, at: datetime) -> CancelRequest | None:
        """Return this run's cancel request, if there was one while it was RUNNING."""
        ...

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        """Remember postings under a run; return how many were new to it.

        A posting already there is left as it is. Raises ConflictError, and writes nothing,
        unless the key's run is RUNNING under the key's epoch.
        """
        ...

    async def insert_enriched(self, key: RunKey, enriched: Sequence[EnrichedJob]) -> int:
        """Insert enriched postings; return how many were new.

        As `insert_jobs`; and PermanentError, with nothing written, when one is about a posting that
        this run does not have.
        """
        ...

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        """Remember scores of postings; as `insert_enriched`."""
        ...

    async def list_jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        """Return one page of a run's postings, in id order, beginning after an id."""
        ...

    async def list_enriched(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[EnrichedJob]:
        """Return one page of a run's enriched postings, in id order."""
        ...

    async def list_scores(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[JobScore]:
        """Return one page of a run's scores, in id order."""
        ...

    async def measure_runs(self, ats: Sequence[datetime]) -> StorageSize:
        """Return what `delete_runs` would remove, without removing it."""
        ...

    async def delete_runs(self, ats: Sequence[datetime]) -> StorageSize:
        """Forget these runs and everything under them; return what went.

        A timestamp that names no run is passed over, and so is a run that is still RUNNING.
        """
        ...


_Value = TypeVar("_Value")


def to_manifest_json(manifest: Manifest) -> dict[str, Json]:
    """Return the manifest as plain JSON values; times are ISO text in UTC."""
    return {
        "config_hash": manifest.config_hash,
        "config": dict(manifest.config),
        "selected": list(manifest.selected),
        "caps": dict(manifest.caps),
        "budgets": dict(manifest.budgets),
        "counts": dict(manifest.counts),
        "cost": dict(manifest.cost),
        "steps": [_to_timing_json(timing) for timing in manifest.steps],
        "sources": [_to_timing_json(timing) for timing in manifest.sources],
        "reasons": list(manifest.reasons),
        "remaining": list(manifest.remaining),
        "lacking": list(manifest.lacking),
        "rule": dict(manifest.rule),
        "resume_at": _format_time(manifest.resume_at),
        "goes_on_with": _format_time(manifest.goes_on_with),
    }


def parse_manifest(data: Any) -> Manifest:
    """Return the manifest that `to_manifest_json` wrote; ConfigError when the data is not one."""
    return Manifest(**_parse_object(data, _MANIFEST_PARSERS, what="a manifest"))


def to_run_json(run: Run) -> dict[str, Json]:
    """Return the run, manifest and all, as plain JSON values."""
    return {
        "at": _format_time(run.at),
        "epoch": run.key.fencing_token,
        "kind": run.kind,
        "state": run.state.value,
        "instant": _format_time(run.instant),
        "ended_at": _format_time(run.ended_at),
        "reason": run.reason,
        "manifest": to_manifest_json(run.manifest),
    }


def to_run_view(tenant: TenantId, run: Run) -> dict[str, Json]:
    """Return a run as programs are shown it: by its name, with everything its manifest has."""
    return {"tenant": tenant, "run": run.name, **to_run_json(run)}


def parse_run(data: Any) -> Run:
    """Return the run that `to_run_json` wrote; ConfigError when the data is not one."""
    read = _parse_object(data, _RUN_PARSERS, what="a run")
    if missing := [key for key in ("at", "epoch", "kind") if read.get(key) is None]:
        raise ConfigError(f"a run's record has no {missing[0]!r}; it cannot be read")
    key = RunKey(read.pop("at"), read.pop("epoch"))
    return Run(key=key, **read)


def _to_timing_json(timing: StepTiming) -> dict[str, Json]:
    return {"step": timing.step, "seconds": timing.seconds, "items": timing.items}


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else to_utc(moment).isoformat()


def _parse_object(
    data: Any, shape: Mapping[str, Callable[[Any], Any]], *, what: str
) -> dict[str, Any]:
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


def _parse_text(value: Any) -> str:
    return _require_type(str, value)


def _parse_int(value: Any) -> int:
    # True is an int to Python; in a file it is a mistake.
    if isinstance(value, bool):
        raise TypeError("a whole number is needed")
    return _require_type(int, value)


def _parse_number(value: Any) -> float:
    return float(value) if isinstance(value, int) else _require_type(float, value)


def _require_type(kind: type[_Value], value: Any) -> _Value:
    if not isinstance(value, kind):
        raise TypeError(f"a value of type {kind.__name__} is needed")
    return value


def _parse_time(value: Any) -> datetime | None:
    return None if value is None else to_utc(datetime.fromisoformat(_parse_text(value)))


def _parse_texts(value: Any) -> tuple[str, ...]:
    return tuple(_parse_text(item) for item in _require_type(list, value))


def _parse_mapping(value: Any) -> dict[str, Json]:
    return dict(_require_type(dict, value))


def _parse_ints(value: Any) -> dict[str, int]:
    return {
        _parse_text(key): _parse_int(number) for key, number in _require_type(dict, value).items()
    }


def _parse_timings(value: Any) -> tuple[StepTiming, ...]:
    shape = {"step": _parse_text, "seconds": _parse_number, "items": _parse_int}
    return tuple(
        StepTiming(**_parse_object(item, shape, what="a timing"))
        for item in _require_type(list, value)
    )


_MANIFEST_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "config_hash": _parse_text,
    "config": _parse_mapping,
    "selected": _parse_texts,
    "caps": _parse_ints,
    "budgets": _parse_ints,
    "counts": _parse_ints,
    "cost": _parse_ints,
    "steps": _parse_timings,
    "sources": _parse_timings,
    "reasons": _parse_texts,
    "remaining": _parse_texts,
    "lacking": _parse_texts,
    "rule": _parse_mapping,
    "resume_at": _parse_time,
    "goes_on_with": _parse_time,
}

_RUN_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "at": _parse_time,
    "epoch": _parse_int,
    "kind": _parse_text,
    "state": RunState,
    "instant": _parse_time,
    "ended_at": _parse_time,
    "reason": _parse_text,
    "manifest": parse_manifest,
}


def validate_run(run: Run) -> Run:
    """Return the run as a store gives it back."""
    validate_text(run.kind, what="a run's kind")
    validate_text(run.reason, what="a run's reason")
    manifest = validate_json(to_manifest_json(run.manifest), what="a run's manifest")
    return replace(
        run,
        key=replace(run.key, at=to_utc(run.at)),
        instant=_to_optional_utc(run.instant, what="a run's instant"),
        ended_at=_to_optional_utc(run.ended_at, what="a run's end"),
        manifest=parse_manifest(manifest),
    )


def validate_cancel_request(request: CancelRequest) -> CancelRequest:
    """Return the cancel request as stores return it."""
    validate_text(request.by, what="who asks a run to stop")
    return replace(request, at=to_utc(request.at, what="when a run was asked to stop"))
