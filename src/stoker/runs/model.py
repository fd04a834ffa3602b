"""Define runs, their manifests, cancel requests, their JSON, and what a run store does.

A run belongs to one tenant. One UTC timestamp in whole seconds names it everywhere: rows, file
names, manifest, logs. Parsing is strict: an unknown key or a wrong type is refused, because writing
the record again would lose it. A missing key has its default, so old records can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.base.errors import ConfigError, ConflictError
from stoker.base.jsontools import compute_digest
from stoker.base.types import Json, TenantId, to_utc

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Value = TypeVar("_Value")

# Stored with runs and read back, so the words stay.
PROCESS_DIED = "its process stopped without a word and its lease lapsed"

_RUN_NAME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})_([0-9]{2})([0-9]{2})([0-9]{2})")


class RunState(StrEnum):
    """The state of a run. Every state but RUNNING is final."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    PARTIAL = "PARTIAL"  # a cap or a deadline stopped part of it; the reason says which
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


STATES_WORST_FIRST = (RunState.FAILED, RunState.CANCELLED, RunState.PARTIAL, RunState.DONE)


def find_worst_state(states: Iterable[RunState]) -> RunState:
    """Return the state a script should act on; DONE when there were no runs."""
    found = set(states)
    return next((state for state in STATES_WORST_FIRST if state in found), RunState.DONE)


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
            raise ConflictError(f"run {self.name} cannot end as RUNNING; choose another state")
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
    return compute_digest(config, length=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSize:
    """The size of a set of runs. Rows are exact; bytes are what the backend can measure."""

    runs: int = 0
    rows: int = 0
    bytes: int = 0


def to_manifest_json(manifest: Manifest) -> dict[str, Json]:
    """Return the manifest as plain JSON values; times are ISO text in UTC."""
    return {field.name: _to_json(getattr(manifest, field.name)) for field in fields(manifest)}


def _to_json(value: Any) -> Json:
    if isinstance(value, datetime):
        return to_utc(value).isoformat()
    if isinstance(value, StepTiming):
        return asdict(value)
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def to_run_json(run: Run) -> dict[str, Json]:
    """Return the run, manifest and all, as plain JSON values."""
    return {
        "at": _to_json(run.at),
        "epoch": run.key.fencing_token,
        "kind": run.kind,
        "state": run.state.value,
        "instant": _to_json(run.instant),
        "ended_at": _to_json(run.ended_at),
        "reason": run.reason,
        "manifest": to_manifest_json(run.manifest),
    }


def to_run_view(tenant: TenantId, run: Run) -> dict[str, Json]:
    """Return a run as programs are shown it: by its name, with everything its manifest has."""
    return {"tenant": tenant, "run": run.name, **to_run_json(run)}


def parse_manifest(data: Any) -> Manifest:
    """Return the manifest that `to_manifest_json` wrote; ConfigError when the data is not one."""
    return Manifest(**_parse_object(data, _list_types(Manifest), what="a manifest"))


def parse_run(data: Any) -> Run:
    """Return the run that `to_run_json` wrote; ConfigError when the data is not one."""
    types = {"at": "datetime | None", "epoch": "int", **_list_types(Run)}
    del types["key"]
    read = _parse_object(data, types, what="a run")
    if missing := [key for key in ("at", "epoch", "kind") if read.get(key) is None]:
        raise ConfigError(f"a run's record has no {missing[0]!r}; it cannot be read")
    key = RunKey(read.pop("at"), read.pop("epoch"))
    return Run(key=key, **read)


def _list_types(kind: type[DataclassInstance]) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields(kind)}


def _parse_object(data: Any, types: Mapping[str, str], *, what: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{what} is written as a JSON object, not as {type(data).__name__}")
    read = {}
    for key, value in data.items():
        if key not in types:
            raise ConfigError(f"{what} has no {key!r}; was it written by a newer Stoker?")
        try:
            read[key] = _PARSERS[types[key]](value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{what} cannot have {value!r} as its {key!r}: {error}") from error
    return read


def _require(kind: type[_Value], value: Any) -> _Value:
    # True is an int to Python; in a file it is a mistake.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"a value of type {kind.__name__} is needed")
    return value


def _parse_text(value: Any) -> str:
    return _require(str, value)


def _parse_int(value: Any) -> int:
    return _require(int, value)


def _parse_time(value: Any) -> datetime | None:
    return None if value is None else to_utc(datetime.fromisoformat(_parse_text(value)))


def _parse_ints(value: Any) -> dict[str, int]:
    return {_parse_text(key): _parse_int(number) for key, number in _require(dict, value).items()}


def _parse_timing(value: Any) -> StepTiming:
    return StepTiming(**_parse_object(value, _list_types(StepTiming), what="a timing"))


# By the annotation of a field of `Run`, `Manifest` or `StepTiming`.
_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _parse_text,
    "int": _parse_int,
    "float": lambda value: float(value) if isinstance(value, int) else _require(float, value),
    "datetime | None": _parse_time,
    "tuple[str, ...]": lambda value: tuple(map(_parse_text, _require(list, value))),
    "tuple[StepTiming, ...]": lambda value: tuple(map(_parse_timing, _require(list, value))),
    "Mapping[str, int]": _parse_ints,
    "Mapping[str, Json]": lambda value: dict(_require(dict, value)),
    "RunState": RunState,
    "Manifest": parse_manifest,
}
