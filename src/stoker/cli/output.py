"""How a command answers: tables or JSON on stdout, one line about trouble on stderr, an exit code.

Every command is handed an `CommandContext` and prints through this file, so that all of them look
alike.
Nothing slow is imported before it is needed: `stoker --help` must feel instant.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import Json
    from stoker.runs.model import RunState
    from stoker.settings import Settings

_Result = TypeVar("_Result")

_Item = TypeVar("_Item")

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Exit(IntEnum):
    """What a command's exit code tells a script. A command returns one; None means OK."""

    OK = 0
    PROBLEMS = 1
    CONFIG = 2
    PARTIAL = 3
    FAILED = 4
    CANCELLED = 5
    LATER = 6
    UNCERTAIN = 7
    BUG = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141

    @property
    def meaning(self) -> str:
        """Say what happened, for the reference page."""
        return _EXIT_TEXTS[self]


_EXIT_TEXTS = {
    Exit.OK: "done; a run ended DONE",
    Exit.PROBLEMS: "the command worked and found problems (`doctor`, `ledger verify`, …)",
    Exit.CONFIG: "a setting, a file or the command itself must be changed first (ConfigError)",
    Exit.PARTIAL: "a run ended PARTIAL: a cap or a deadline stopped part of it",
    Exit.FAILED: "a run ended FAILED, or trying again will not help (PermanentError)",
    Exit.CANCELLED: "a run ended CANCELLED",
    Exit.LATER: "nothing was done; try again later (TransientError, ConflictError)",
    Exit.UNCERTAIN: "it may have been done; find out before repeating (UncertainError)",
    Exit.BUG: "a fault in Stoker itself; `STOKER_DEBUG=1` shows details",
    Exit.INTERRUPTED: "stopped by Ctrl-C or SIGTERM",
    Exit.BROKEN_PIPE: "whoever read the output stopped reading",
}

_MAX_SIGNALS = 2  # times a command may be told to stop before it is gone at once

_NOTICE_SECONDS = 1.0  # seconds; whatever stops sooner needs no words

_STOPPING_TEXT = "what is under way is brought to its end; Ctrl-C once more does not wait for it"

_STOPPED_TEXT = (
    "stopped at once; a run that was under way may be told as RUNNING for another 90 seconds"
)

_EXIT_BY_ERROR: tuple[tuple[type[StokerError], Exit], ...] = (
    (ConfigError, Exit.CONFIG),
    (PermanentError, Exit.FAILED),
    (TransientError, Exit.LATER),
    (ConflictError, Exit.LATER),
    (UncertainError, Exit.UNCERTAIN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What was asked before the command's name: where, with which file, with which flags."""

    directory: Path
    config: Path | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)  # learnt with the settings; never printed

    def use_sandbox(self, address: str | None) -> CommandContext:
        """Return the same, asked on the sandbox at an address; without one, as settings say."""
        if address is None:
            return self
        return replace(self, flags={**self.flags, "sandbox.address": address})

    def format_command(self) -> str:
        """Return the words a command for the same place begins with, as one would type them."""
        from shlex import quote

        words = ["stoker"]
        if self.directory != Path():
            words += ["-C", quote(str(self.directory))]
        if self.config is not None:
            words += ["--config", quote(str(self.config))]
        return " ".join(words)

    def read_settings(self) -> Settings:
        """Read the settings now. Raises ConfigError."""
        from stoker import app as wiring

        settings = wiring.read_settings(
            directory=self.directory, config=self.config, flags=self.flags
        )
        self.secrets.update(settings.list_secret_values())
        return settings

    def open_app(self, *, only_to_read: bool = False) -> AbstractAsyncContextManager[App]:
        """Read the settings and open everything they name: `async with asked.app() as app`."""
        from stoker import app as wiring

        return wiring.open_app(self.read_settings(), only_to_read=only_to_read)


pass_context = click.make_pass_decorator(CommandContext)


def json_option(command: _Command) -> _Command:
    """Give a command `--json`, passed to it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def run_async(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command's coroutine to its end; being told to end is the same as Ctrl-C.

    The first time, what is under way is ended in order; the second, with less patience; the third,
    at once, whatever is left open by that.
    """
    import asyncio

    async def until_told() -> _Result:
        doing = asyncio.ensure_future(work)
        told = 0

        def stop() -> None:
            nonlocal told
            told += 1
            if told > _MAX_SIGNALS:
                print_error(_STOPPED_TEXT)
                os._exit(Exit.INTERRUPTED)
            doing.cancel()
            if told == 1:
                asyncio.get_running_loop().call_later(_NOTICE_SECONDS, say_so)

        def say_so() -> None:
            if not doing.done() and told == 1:
                print_error(_STOPPING_TEXT)

        # Without this a run would be left for dead by every shutdown, not CANCELLED; and a second
        # Ctrl-C would break off whatever is being written down then.
        on_stop_signal(stop)
        return await doing

    try:
        return asyncio.run(until_told())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Have something done at every Ctrl-C and SIGTERM, but for those the process is to ignore."""
    import asyncio
    import signal

    for name in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(name) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(name, stop)


def to_error_exit(error: StokerError) -> Exit:
    """Return the exit code that tells a script what to do next about this error."""
    return next((code for kind, code in _EXIT_BY_ERROR if isinstance(error, kind)), Exit.FAILED)


def to_run_exit(state: RunState) -> Exit:
    """Return the exit code of a command whose run ended like this."""
    ends = {"DONE": Exit.OK, "PARTIAL": Exit.PARTIAL, "CANCELLED": Exit.CANCELLED}
    return ends.get(state.value, Exit.FAILED)


def print_text(text: str = "") -> None:
    """Print lines of our own for a person; anything that could move the cursor is made visible."""
    from stoker.base.telemetry import escape_invisible

    click.echo("\n".join(escape_invisible(line) for line in text.split("\n")))


def print_json(value: Json) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "none"
) -> None:
    """Print rows under their headers, columns aligned; with no rows, say so in a word."""
    from stoker.base.telemetry import escape_invisible

    lines = [[escape_invisible("" if cell is None else str(cell)) for cell in row] for row in rows]
    if not lines:
        click.echo(empty)
        return
    lines.insert(0, [header.upper() for header in headers])
    widths = [max(_compute_width(line[place]) for line in lines) for place in range(len(headers))]
    for line in lines:
        padded = (
            cell + " " * (width - _compute_width(cell))
            for cell, width in zip(line, widths, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def show_progress(
    items: Iterable[_Item], *, label: str, length: int | None = None
) -> AbstractContextManager[Iterable[_Item]]:
    """Show on a terminal how far a loop is: `with progress(…) as items: for item in items`."""
    return click.progressbar(
        items, label=label, length=length, file=sys.stderr, hidden=not sys.stderr.isatty()
    )


def print_error(text: str) -> None:
    """Say on stderr what is wrong, each line on its own and marked as ours."""
    from stoker.base.telemetry import escape_invisible

    for line in text.split("\n"):
        click.echo(f"stoker: {escape_invisible(line)}", err=True)


def _compute_width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
