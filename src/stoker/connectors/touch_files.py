"""Touches handed over as lines of a JSON file, for whoever reads it from there.

A line is on the disk before we return. Which touches there are is not known here.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from pathlib import Path

from stoker.core.cells import page_safe_json
from stoker.core.coverage.values import Touch
from stoker.core.model import TenantId
from stoker.core.touch_contents import touch_content
from stoker.errors import ConfigError, TransientError


class ByFile:
    """Touches as lines at the end of a file; the same one again has the same delivery in it."""

    name = "file"

    def __init__(self, path: Path, *, tenant: TenantId) -> None:
        self._path = path
        self._tenant = tenant

    async def deliver(self, delivery: str, touch: Touch, *, now: datetime) -> None:
        content = {**touch_content(self._tenant, delivery, touch), "left_at": now.isoformat()}
        await asyncio.to_thread(self._append, page_safe_json(content).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written ({error.strerror}); change touches.file"
            ) from error
        try:
            # What a crash left of a line must not swallow this one.
            end = os.fstat(file).st_size
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
