"""What a run is: its one timestamp, how it can end, and the manifest that explains it.

A run belongs to one tenant. One UTC timestamp, whole seconds, names it everywhere: rows, file
names, manifest, logs. Which runs may be forgotten is `retention`'s business.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from stoker.core.model import Json, in_utc
from stoker.errors import ConfigError, ConflictError

# Made once: making an encoder costs about as much as a small value takes to encode.
_COMPACT = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)
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


def compact_json(value: Json) -> str:
    """Return the one way we write JSON down: sorted keys, no spaces, ASCII, no NaN."""
    return _COMPACT.encode(value)


def config_hash(config: Mapping[str, Json]) -> str:
    """Return a short digest; two runs with the same digest ran with the same settings."""
    return hashlib.sha256(compact_json(config).encode()).hexdigest()[:16]
