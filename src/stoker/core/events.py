"""What happened, as frozen values.

The engine emits them, telemetry writes them down, and nobody acts on them. Each says in
`sentence` what a person needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.core.model import TenantId


class Level(StrEnum):
    """How much attention an event asks for."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to one tenant (or, with no tenant, to the program)."""

    level = Level.INFO

    at: datetime
    tenant: TenantId | None = None

    def sentence(self) -> str:
        """Say what happened, in one line."""
        raise TypeError(f"{type(self).__name__} does not say what happened")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run began."""

    run: str
    kind: str

    def sentence(self) -> str:
        return f"{self.kind} run {self.run} started"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """One step of a run came to its end."""

    run: str
    step: str
    seconds: float
    items: int

    def sentence(self) -> str:
        return f"run {self.run}: {self.step} took {self.seconds:.3f} s for {self.items} items"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """A run ended, well or badly."""

    run: str
    kind: str
    state: str
    reason: str

    def sentence(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"{self.kind} run {self.run} ended {self.state}{because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGivenUp(Event):
    """A run whose process died was found and closed."""

    level = Level.WARNING

    run: str
    reason: str

    def sentence(self) -> str:
        return f"run {self.run} is closed as FAILED: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPassed(Event):
    """An instant of a schedule did not start a run."""

    level = Level.WARNING

    schedule: str
    instant: datetime
    state: str
    reason: str

    def sentence(self) -> str:
        return f"{self.schedule} at {self.instant:%Y-%m-%d %H:%M} UTC {self.state}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateWindow(Event):
    """Another scheduler on the same store was first."""

    schedule: str
    instant: datetime

    def sentence(self) -> str:
        return (
            f"DUPLICATE_WINDOW: {self.schedule} at {self.instant:%Y-%m-%d %H:%M} UTC "
            "was started by another scheduler"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """We were taken for dead while we were working; what we still write is refused."""

    level = Level.ERROR

    lease: str

    def sentence(self) -> str:
        return f"the lease {self.lease} was lost to another process; this run stops"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockWentBack(Event):
    """The wall clock is earlier than something already written down."""

    level = Level.ERROR

    seen: datetime

    def sentence(self) -> str:
        return (
            f"the clock says {self.at:%Y-%m-%d %H:%M:%S} UTC, but {self.seen:%Y-%m-%d %H:%M:%S} "
            "was already recorded; nothing is started until it catches up"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFailed(Event):
    """Something about one tenant went wrong; the others go on."""

    level = Level.ERROR

    error: str

    def sentence(self) -> str:
        return f"skipped this time: {self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPruned(Event):
    """Retention let runs go."""

    runs: int
    rows: int
    bytes: int

    def sentence(self) -> str:
        return f"retention removed {self.runs} runs, {self.rows} rows, {self.bytes} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated(Event):
    """The schema moved one version up."""

    step: str

    def sentence(self) -> str:
        return f"schema: {self.step}"
