"""A file that a command writes: whole or not at all, and never over another unless asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from stoker.errors import ConfigError


@contextmanager
def new_file(path: Path, *, replace: bool) -> Iterator[BinaryIO]:
    """Lend a stream; when the block ends well, its bytes are durably at the path.

    Raises ConfigError when something is there already, or nothing can be.
    """
    if path.exists() and not replace:
        raise ConfigError(f"{path} is already there; --force replaces it")
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with beside.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                beside.replace(path)
            else:
                path.hardlink_to(beside)  # unlike a rename it fails when somebody was faster
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError:
        raise ConfigError(f"{path} is already there; --force replaces it") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
