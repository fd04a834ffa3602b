"""Show running nightly runs on a terminal: one line, redrawn as companies end.

An observer of the run's events. Without a terminal it passes every event on to the log.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from stoker.base.events import (
    CompanyEnded,
    ConnectorRests,
    Event,
    Level,
    NightPlanned,
    NightProgress,
)

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.base.events import Observer
    from stoker.base.types import TenantId

_REDRAW_SECONDS = 0.1  # seconds between two drawings

_MAX_WIDTH = 160


@dataclass(slots=True)
class _TenantProgress:
    companies: int = 0
    ended: int = 0
    incomplete: int = 0  # companies that did not end done
    finish: datetime | None = None
    late: bool = False
    stuck_since: datetime | None = None  # no item has ended, and the finish is unknown
    waits_for: str = ""  # a vendor that is backing off
    waits_until: datetime | None = None


class ProgressDisplay:
    """An observer that draws, as a context manager. Warnings are passed on."""

    def __init__(
        self, stream: TextIO, *, otherwise: Observer, every: float = _REDRAW_SECONDS
    ) -> None:
        self._stream = stream
        self._fallback = otherwise
        self._is_terminal = stream.isatty()
        self._lines: dict[TenantId, _TenantProgress] = {}
        self._interval = every
        self._drawn_at = float("-inf")

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def __call__(self, event: Event) -> None:
        if not self._is_terminal:
            self._fallback(event)
            return
        if event.level is not Level.INFO:
            self._clear()
            self._fallback(event)
        if event.tenant is None:
            return
        line = self._lines.setdefault(event.tenant, _TenantProgress())
        match event:
            case NightPlanned():
                line.companies = event.companies
            case CompanyEnded():
                line.ended += 1
                line.incomplete += event.state != "done"
            case NightProgress():
                line.finish, line.late = event.finish, event.late
                line.stuck_since = event.began_at if event.finish is None else None
                line.waits_for, line.waits_until = event.waits_for, event.waits_until
            case ConnectorRests():
                line.waits_for, line.waits_until = event.connector, event.until
        if time.monotonic() - self._drawn_at >= self._interval:
            self._draw()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        text = "  |  ".join(_format_progress(tenant, line) for tenant, line in self._lines.items())
        self._write(f"\r\x1b[K{text[:_MAX_WIDTH]}")

    def _clear(self) -> None:
        if self._is_terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._is_terminal = False  # the terminal is gone; the run continues


def _format_progress(tenant: TenantId, line: _TenantProgress) -> str:
    if not line.companies:
        return f"{tenant} selecting …"
    incomplete = f" ({line.incomplete} incomplete)" if line.incomplete else ""
    late = " (late)" if line.late else ""
    progress = f"{tenant} {line.ended}/{line.companies}{incomplete}"
    return f"{progress}{_format_finish(line)}{late}{_format_wait(line)}"


def _format_finish(line: _TenantProgress) -> str:
    if line.stuck_since:
        return f", no company done since {line.stuck_since:%H:%M:%S} UTC"
    return f", done about {line.finish:%H:%M:%S} UTC" if line.finish else ""


def _format_wait(line: _TenantProgress) -> str:
    if line.waits_until is None:
        return ""
    return f"; waiting for {line.waits_for} until {line.waits_until:%H:%M:%S} UTC"
