"""What can happen, as frozen values, and how observers receive them.

Rooms emit events and telemetry writes them as lines; no room acts on one. Each event says in
`message` what a person needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.base.types import TenantId


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

    def message(self) -> str:
        """Say what happened, in one line."""
        raise TypeError(f"{type(self).__name__} does not say what happened")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run began."""

    run: str
    kind: str

    def message(self) -> str:
        return f"{self.kind} run {self.run} started"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """One step of a run came to its end."""

    run: str
    step: str
    seconds: float
    items: int

    def message(self) -> str:
        return f"run {self.run}: {self.step} took {self.seconds:.3f} s for {self.items} items"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """A run ended, well or badly."""

    run: str
    kind: str
    state: str
    reason: str

    def message(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"{self.kind} run {self.run} ended {self.state}{because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAskedToStop(Event):
    """A run noticed that somebody asked it to stop, and begins nothing new."""

    level = Level.WARNING

    run: str
    by: str

    def message(self) -> str:
        return f"run {self.run} begins nothing new: {self.by} asked it to stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGivenUp(Event):
    """A run whose process died was found and closed."""

    level = Level.WARNING

    run: str
    reason: str

    def message(self) -> str:
        return f"run {self.run} is closed as FAILED: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPassed(Event):
    """An instant of a schedule did not start a run."""

    level = Level.WARNING

    schedule: str
    instant: datetime
    state: str
    reason: str

    def message(self) -> str:
        return f"{self.schedule} at {self.instant:%Y-%m-%d %H:%M} UTC {self.state}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateWindow(Event):
    """Another scheduler on the same store was first."""

    schedule: str
    instant: datetime

    def message(self) -> str:
        return (
            f"DUPLICATE_WINDOW: {self.schedule} at {self.instant:%Y-%m-%d %H:%M} UTC "
            "was started by another scheduler"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """We were taken for dead while we were working; what we still write is refused."""

    level = Level.ERROR

    lease: str

    def message(self) -> str:
        return f"the lease {self.lease} was lost to another process; this run stops"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockWentBack(Event):
    """The wall clock is earlier than something already written down."""

    level = Level.ERROR

    seen: datetime

    def message(self) -> str:
        return (
            f"the clock says {self.at:%Y-%m-%d %H:%M:%S} UTC, but {self.seen:%Y-%m-%d %H:%M:%S} "
            "was already recorded; nothing is started until it catches up"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFailed(Event):
    """Something about one tenant went wrong; the others go on."""

    level = Level.ERROR

    error: str

    def message(self) -> str:
        return f"skipped this time: {self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPruned(Event):
    """Retention let runs go."""

    runs: int
    rows: int
    bytes: int

    def message(self) -> str:
        return f"retention removed {self.runs} runs, {self.rows} rows, {self.bytes} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated(Event):
    """The schema moved one version up."""

    step: str

    def message(self) -> str:
        return f"schema: {self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun(Event):
    """A vendor charged more than was promised; the next reservation sees it."""

    level = Level.WARNING

    key: str
    connector: str
    over: str

    def message(self) -> str:
        return f"{self.connector} charged {self.over} more than was promised for {self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUncertain(Event):
    """Nobody knows whether something was charged; its promise stands until somebody finds out."""

    level = Level.WARNING

    key: str
    connector: str
    reason: str

    def message(self) -> str:
        return (
            f"whether {self.connector} charged for {self.key} is not known ({self.reason}); "
            "its promise stands until somebody says: stoker holds"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOff(Event):
    """A vendor will answer nothing before a person acts; it is not asked any more in this run."""

    level = Level.WARNING

    connector: str
    reason: str

    def message(self) -> str:
        return f"{self.connector} is not asked any more in this run: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRests(Event):
    """A vendor asked to be left alone for a while; told once, however many had asked it."""

    level = Level.WARNING

    connector: str
    until: datetime

    def message(self) -> str:
        return (
            f"{self.connector} asked to be left alone; "
            f"it is asked nothing before {self.until:%H:%M:%S} UTC"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRead(Event):
    """A file of the register of companies was read to its end."""

    source: str
    release: str
    part: str
    rows: int
    new: int
    changed: int
    rejected: int
    gone: int

    def message(self) -> str:
        return (
            f"register {self.release}, {self.part}: {self.rows} rows read from {self.source}, "
            f"{self.new} new, {self.changed} changed, {self.rejected} rejected, {self.gone} gone"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed(Event):
    """A source of postings could not be read; the others go on."""

    level = Level.WARNING

    run: str
    source: str
    reason: str

    def message(self) -> str:
        return f"run {self.run}: {self.source} could not be read: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlanned(Event):
    """Tonight's companies are chosen, and the night has its deadline."""

    run: str
    companies: int
    deep: int
    candidates: int
    taken_over_from: str  # an earlier run of the same day; empty: chosen anew
    deadline: datetime

    def message(self) -> str:
        chosen = f"{self.companies} companies, {self.deep} of them looked at deeply"
        origin = (
            f"left by run {self.taken_over_from}"
            if self.taken_over_from
            else (f"chosen from {self.candidates} candidates")
        )
        return f"run {self.run}: {chosen}, {origin}; to be done by {self.deadline:%H:%M} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightProgress(Event):
    """How far a night has come, when it will be through, and which vendor it waits for."""

    run: str
    ended: int
    under_way: int
    left: int
    began_at: datetime  # its companies' part
    finish: datetime | None  # None: nothing has ended yet, and by the quote all should have
    late: bool
    waits_for: str = ""  # a vendor that wants to be left alone
    waits_until: datetime | None = None

    def message(self) -> str:
        return (
            f"run {self.run}: {self.ended} done, {self.under_way} under way, {self.left} left; "
            f"{self._format_finish()}"
        )

    def _format_finish(self) -> str:
        late = ", after its deadline" if self.late else ""
        if self.finish is None:
            passed = ", and its deadline has passed" if self.late else ""
            return f"nothing has ended since {self.began_at:%H:%M:%S} UTC{passed}"
        if self.waits_until is None:
            return f"through at about {self.finish:%H:%M:%S} UTC{late}"
        alone = f"{self.waits_for} wants to be left alone until"
        if self.finish == self.waits_until:
            return f"not through before {self.finish:%H:%M:%S} UTC{late}: {alone} then"
        return (
            f"through at about {self.finish:%H:%M:%S} UTC{late}; "
            f"{alone} {self.waits_until:%H:%M:%S} UTC"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsShed(Event):
    """Companies were left out so that the more valuable ones are done in time."""

    level = Level.WARNING

    run: str
    units: int

    def message(self) -> str:
        return f"run {self.run}: {self.units} companies are left out to end in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyEnded(Event):
    """One company's night came to its end."""

    run: str
    company: str
    state: str
    reasons: tuple[str, ...]

    def message(self) -> str:
        because = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"run {self.run}: {self.company} {self.state}{because}"


Observer = Callable[[Event], None]
"""Receives events. It must not raise, wait, or decide anything."""


class EventBus:
    """An `Observer` that passes events on to another one, which can be replaced for a while.

    Long-lived parts report to the bus, so that a replaced observer reaches them too.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def __call__(self, event: Event) -> None:
        self._observer(event)

    @contextmanager
    def redirect(self, observer: Observer) -> Iterator[None]:
        """Pass events on to this observer until the block ends."""
        before, self._observer = self._observer, observer
        try:
            yield
        finally:
            self._observer = before
