"""What can happen, as frozen values, and how observers receive them.

Rooms emit events and telemetry writes them as lines; no room acts on one. Each has a
`message` for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
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
    text = ""  # the message, as a template over the fields

    at: datetime
    tenant: TenantId | None = None

    def message(self) -> str:
        """Return what happened, in one line."""
        return self.text.format(**{field.name: getattr(self, field.name) for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run began."""

    text = "{kind} run {run} started"

    run: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """One step of a run ended."""

    text = "run {run}: {step} took {seconds:.3f} s for {items} items"

    run: str
    step: str
    seconds: float
    items: int


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
    """A run found a cancel request and begins nothing new."""

    level = Level.WARNING
    text = "run {run} is stopping: {by} cancelled it"

    run: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGivenUp(Event):
    """A run whose process died was found and closed."""

    level = Level.WARNING
    text = "run {run} is closed as FAILED: {reason}"

    run: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPassed(Event):
    """A scheduled time did not start a run."""

    level = Level.WARNING
    text = "{schedule} at {instant:%Y-%m-%d %H:%M} UTC {state}: {reason}"

    schedule: str
    instant: datetime
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateWindow(Event):
    """Another scheduler on the same store was first."""

    text = (
        "DUPLICATE_WINDOW: {schedule} at {instant:%Y-%m-%d %H:%M} UTC was started by "
        "another scheduler"
    )

    schedule: str
    instant: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """Another process took our lease while we worked; our writes are refused from now on."""

    level = Level.ERROR
    text = "the lease {lease} was lost to another process; this run stops"

    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockWentBack(Event):
    """The wall clock is earlier than a time already recorded."""

    level = Level.ERROR
    text = (
        "the clock says {at:%Y-%m-%d %H:%M:%S} UTC, but {seen:%Y-%m-%d %H:%M:%S} was "
        "already recorded; nothing is started until it catches up"
    )

    seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockBehind(Event):
    """A run was started by hand while the wall clock is earlier than a time already recorded."""

    level = Level.ERROR
    text = (
        "the clock says {at:%Y-%m-%d %H:%M:%S} UTC, but {seen:%Y-%m-%d %H:%M:%S} was already "
        "recorded, so nothing is paid for until it catches up; set the clock, or if it is right "
        "now: stoker schedule accept-clock"
    )

    seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFailed(Event):
    """One tenant's work failed; the others continue."""

    level = Level.ERROR
    text = "skipped this time: {error}"

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPruned(Event):
    """Retention deleted runs."""

    text = "retention removed {runs} runs, {rows} rows, {bytes} bytes"

    runs: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated(Event):
    """The schema moved one version up."""

    text = "schema: {step}"

    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTenantNamed(Event):
    """A setting that lists tenants has an id that no tenant has; it changes nothing."""

    level = Level.WARNING
    text = "{origin}: {key} names {named}, and no tenant has this id; see: stoker tenants list"

    key: str
    named: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun(Event):
    """A vendor charged more than was reserved; the next reservation sees it."""

    level = Level.WARNING
    text = "{connector} charged {over} more than was reserved for {key}"

    key: str
    connector: str
    over: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUncertain(Event):
    """It is unknown whether a vendor charged; the reservation stays until a person decides."""

    level = Level.WARNING
    text = (
        "it is unknown whether {connector} charged for {key} ({reason}); the amount stays reserved "
        "until you decide: stoker holds"
    )

    key: str
    connector: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOff(Event):
    """A vendor needs a person to act first; this run calls it no more."""

    level = Level.WARNING
    text = "{connector} is not called any more in this run: {reason}"

    connector: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRests(Event):
    """A vendor asked us to back off; reported once for all queries that wait for it."""

    level = Level.WARNING
    text = "{connector} asked us to slow down; no calls to it before {until:%H:%M:%S} UTC"

    connector: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRead(Event):
    """A file of the company register was imported."""

    text = (
        "register {release}, {part}: {rows} rows read from {source}, {new} new, {changed} "
        "changed, {rejected} rejected, {gone} removed"
    )

    source: str
    release: str
    part: str
    rows: int
    new: int
    changed: int
    rejected: int
    gone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed(Event):
    """A source of postings could not be read; the others continue."""

    level = Level.WARNING
    text = "run {run}: {source} could not be read: {reason}"

    run: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlanned(Event):
    """Tonight's companies are chosen, and the nightly run has its deadline."""

    run: str
    companies: int
    deep: int
    candidates: int
    taken_over_from: str  # an earlier run of the same day; empty: a new choice
    deadline: datetime

    def message(self) -> str:
        chosen = f"{self.companies} companies, {self.deep} of them with deep research"
        origin = (
            f"left by run {self.taken_over_from}"
            if self.taken_over_from
            else (f"chosen from {self.candidates} candidates")
        )
        return f"run {self.run}: {chosen}, {origin}; to be done by {self.deadline:%H:%M} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightProgress(Event):
    """How far a nightly run is, when it will be done, and which vendor it waits for."""

    run: str
    ended: int
    under_way: int
    left: int
    began_at: datetime  # its companies' part
    finish: datetime | None  # None: nothing has ended yet, and by the quote all should have
    late: bool
    waits_for: str = ""  # a vendor that asked us to slow down
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
            return f"nothing done since {self.began_at:%H:%M:%S} UTC{passed}"
        if self.waits_until is None:
            return f"done about {self.finish:%H:%M:%S} UTC{late}"
        waiting = f"waiting for {self.waits_for} until"
        if self.finish == self.waits_until:
            return f"not done before {self.finish:%H:%M:%S} UTC{late}: {waiting} then"
        return (
            f"done about {self.finish:%H:%M:%S} UTC{late}; "
            f"{waiting} {self.waits_until:%H:%M:%S} UTC"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsShed(Event):
    """Companies were skipped so that the more valuable ones are done in time."""

    level = Level.WARNING
    text = "run {run}: {units} companies are skipped to end in time"

    run: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyEnded(Event):
    """The work on one company ended."""

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
