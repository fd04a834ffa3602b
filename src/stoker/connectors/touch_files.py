"""Touches handed over as lines of a JSON file, for whoever reads it from there.

A line is on the disk before we return. What was handed over just before a crash stands among the
last lines, and is not written again. Which touches there are is not known here.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import datetime
from pathlib import Path

from stoker.core.cells import page_safe_json
from stoker.core.coverage.values import Touch
from stoker.core.model import TenantId
from stoker.core.touch_contents import touch_content
from stoker.errors import ConfigError, TransientError

LOOK_BACK = 64_000  # bytes


class ByFile:
    """Touches as lines at the end of a file; one that stands in its last lines is not repeated."""

    name = "file"

    def __init__(self, path: Path, *, tenant: TenantId, look_back: int = LOOK_BACK) -> None:
        self._path = path
        self._tenant = tenant
        self._look_back = look_back

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        content = {**touch_content(self._tenant, delivery, touch), "left_at": now.isoformat()}
        line = page_safe_json(content).encode() + b"\n"
        await asyncio.to_thread(self._append, delivery, line)

    def _append(self, delivery: str, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written ({error.strerror}); change touches.file"
            ) from error
        try:
            end = os.fstat(file).st_size
            looked = min(end, self._look_back)
            if looked and delivery in _deliveries(os.pread(file, looked, end - looked)):
                os.fsync(file)  # whoever wrote it may have died before it was on the disk
                return
            # What a crash left of a line must not swallow this one.
            torn = end and os.pread(file, 1, end - 1) != b"\n"
            whole = b"\n" + line if torn else line
            if os.write(file, whole) < len(whole):
                raise OSError(None, "no room for a whole line")
            os.fsync(file)
        except OSError as error:
            raise TransientError(
                f"{self._path} did not take a line ({error.strerror}); free some room"
            ) from error
        finally:
            os.close(file)


def _deliveries(tail: bytes) -> set[str]:
    """Return what the whole lines at the end of a file delivered."""
    found = set()
    for line in tail.split(b"\n")[:-1]:
        try:
            said = json.loads(line)
        except ValueError:
            continue  # the first may be cut off, another torn
        if isinstance(said, dict) and isinstance(said.get("delivery"), str):
            found.add(said["delivery"])
    return found
