"""How a command prints: tables or JSON on stdout, one line per problem on stderr, an exit code.

Every command gets a `CommandContext`. Nothing slow is imported before it is needed: `stoker --help`
must feel instant.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

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
    from stoker.base.clock import Clock
    from stoker.base.types import Json
    from stoker.context import Context
    from stoker.runs.model import RunState
    from stoker.settings import Settings

_Params = ParamSpec("_Params")

_Result = TypeVar("_Result")

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
    Exit.BUG: "an internal error of Stoker; `STOKER_DEBUG=1` shows details",
    Exit.INTERRUPTED: "stopped by Ctrl-C or SIGTERM",
    Exit.BROKEN_PIPE: "the reader of the output stopped reading",
}

_MAX_SIGNALS = 2  # more of them end the process at once

_NOTICE_SECONDS = 1.0  # after which a notice says that work is still ending

_REDRAW_SECONDS = 0.1  # between two drawings of progress

_WRAPPED_CELL = 12  # characters; a column that is wrapped keeps at least this width

_STOPPING_TEXT = "what is under way is brought to its end; Ctrl-C once more does not wait for it"

_STOPPED_TEXT = (
    "stopped at once; a run that was under way may be listed as RUNNING for another 90 seconds"
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
    """The options before the command's name: directory, settings file, flags."""

    directory: Path
    config: Path | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)  # learnt with the settings; never printed
    clock: Clock | None = None  # None: the machine's

    def use_sandbox(self, address: str | None) -> CommandContext:
        """Return this context with the sandbox at an address; unchanged without one."""
        if address is None:
            return self
        return replace(self, flags={**self.flags, "sandbox.address": address})

    def format_command(self) -> str:
        """Return how a command line with the same directory and file begins."""
        from shlex import quote

        words = ["stoker"]
        if self.directory != Path():
            words += ["-C", quote(str(self.directory))]
        if self.config is not None:
            words += ["--config", quote(str(self.config))]
        return " ".join(words)

    def read_settings(self) -> Settings:
        """Read the settings now. Raises ConfigError."""
        from stoker import app
        from stoker.settings import FIELDS, get_field

        settings = app.read_settings(directory=self.directory, config=self.config, flags=self.flags)
        for key, given in self.flags.items():
            if (about := get_field(key)).kind.secret:
                own = key not in FIELDS  # one tenant's
                instead = f"{key} in {app.CONFIG_FILE}" if own else f"{about.env[0]} in .env"
                self.warn_of_secret(key, given, instead=instead)
        self.secrets.update(settings.list_secret_values())
        return settings

    def warn_of_secret(self, what: str, given: str, *, instead: str) -> None:
        """Say once that a secret stands on the command line; not of a URL without a password."""
        from stoker.config.fields import Secret

        parts = Secret(given).list_parts()
        is_secret = len(parts) > 1 if "://" in given else given.strip()
        if is_secret and not self.secrets.issuperset(parts):
            print_error(
                f"warning: {what} stands on the command line, where other users of this machine "
                f"can read it; set {instead} instead"
            )
        self.secrets.update(parts)

    def open_app(
        self, *, only_to_read: bool = False, logs_progress: bool = False
    ) -> AbstractAsyncContextManager[Context]:
        """Read the settings and open everything they name.

        On a terminal the command prints its result, so only warnings are logged beside it, unless
        a level is set or the command `logs_progress`, as a daemon does.
        """
        from stoker import app

        settings = self.read_settings()
        level = "logging.level"
        if sys.stderr.isatty() and not logs_progress and settings.get_origin(level) == "default":
            settings = settings.with_values({level: "warning"}, {})
        return app.open_app(settings, clock=self.clock, only_to_read=only_to_read)


pass_context = click.make_pass_decorator(CommandContext)


def async_command(
    command: Callable[_Params, Coroutine[Any, Any, _Result]],
) -> Callable[_Params, _Result]:
    """Let click call a coroutine function; the innermost decorator of a command."""

    @wraps(command)
    def run(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        return run_async(command(*args, **kwargs))

    return run


def json_option(command: _Command) -> _Command:
    """Give a command `--json`, passed to it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def export_options(formats: Sequence[str], *, out: str) -> Callable[[_Command], _Command]:
    """Give a command `--format`, passed to it as `kind`, `--out` with this help, and `--force`."""
    from stoker.cli.options import OUTPUT_FILE

    options = (
        click.option("--force", is_flag=True, help="Replace a file that is already there."),
        click.option(
            "--out",
            type=OUTPUT_FILE,
            metavar="FILE",
            callback=lambda _, __, path: None if path == Path("-") else path,
            help=out,
        ),
        click.option(
            "--format", "kind", type=click.Choice(formats), required=True, help="The format."
        ),
    )

    def add(command: _Command) -> _Command:
        for option in options:
            command = option(command)
        return command

    return add


def export_json_option(command: _Command) -> _Command:
    """Give a command that writes a file `--json`, passed to it as `as_json`."""
    text = "Print the number of rows written as JSON; needs --out."
    return click.option("--json", "as_json", is_flag=True, help=text)(command)


def run_async(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a command's coroutine to its end; SIGTERM is the same as Ctrl-C.

    The first signal ends the work in order; the second waits less; the third ends the process at
    once, whatever that leaves open.
    """
    import asyncio

    async def run_until_stopped() -> _Result:
        task = asyncio.ensure_future(work)
        signals = 0

        def stop() -> None:
            nonlocal signals
            signals += 1
            if signals > _MAX_SIGNALS:
                print_error(_STOPPED_TEXT)
                if sys.stderr.isatty():
                    click.echo("\x1b[?25h", err=True, nl=False)  # progress hides the cursor
                os._exit(Exit.INTERRUPTED)
            task.cancel()
            if signals == 1:
                asyncio.get_running_loop().call_later(_NOTICE_SECONDS, print_notice)

        def print_notice() -> None:
            if not task.done() and signals == 1:
                print_error(_STOPPING_TEXT)

        # Without this every shutdown would leave a dead run behind, not a CANCELLED one; and a
        # second Ctrl-C would interrupt what is being written.
        on_stop_signal(stop)
        return await task

    try:
        return asyncio.run(run_until_stopped())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Call a function at every Ctrl-C and SIGTERM, unless the process ignores that signal."""
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


def choose_exit(states: Iterable[RunState], errors: Sequence[StokerError] = ()) -> Exit:
    """Return the exit code of several runs: that of the worst, or of what did not begin."""
    from stoker.runs.model import find_worst_state

    worst = to_run_exit(find_worst_state(states))
    return to_error_exit(errors[0]) if errors and worst in (Exit.OK, Exit.PARTIAL) else worst


def print_json(value: Json) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def print_text(text: str = "") -> None:
    """Print lines for a person, wrapped at a terminal's width; control characters are escaped."""
    width = _find_width(sys.stdout)
    for line in text.split("\n"):
        for part in _wrap(_escape(line), width):
            click.echo(part)


def print_file(text: str) -> None:
    """Print what is meant for a file, as it is; on a terminal control characters are escaped."""
    if sys.stdout.isatty():
        text = "\n".join(_escape(line.removesuffix("\r")) for line in text.split("\n"))
    click.echo(text.encode(), nl=False)


def print_command(command: str) -> None:
    """Print a command to copy, indented; a terminal's line ends in a backslash where it wraps."""
    width = _find_width(sys.stdout)
    parts = _wrap(f"  {_escape(command)}", width and width - 2)
    for number, part in enumerate(parts, 1):
        click.echo(part if number == len(parts) else f"{part} \\")


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print labels and their values under each other, without those that have none."""
    texts = [(label, _to_cell(value)) for label, value in fields if _to_cell(value)]
    column = 4 + max((len(label) for label, _ in texts), default=0)
    width = _find_width(sys.stdout)
    for label, text in texts:
        for number, part in enumerate(_wrap(text, width and width - column)):
            click.echo(f"  {'' if number else label:<{column - 2}}{part}".rstrip())


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    empty: str = "none",
) -> None:
    """Print rows under their headers, without columns that are empty in every row.

    A terminal gets cells wrapped to its width, all else whole rows. Numbers stand right, and so do
    the columns named in `right`. With no rows, prints `empty`.
    """
    found = [list(row) for row in rows]
    if not found:
        print_text(empty)
        return
    filled = [n for n in range(len(headers)) if any(_to_cell(row[n]) for row in found)]
    lines = [[headers[n].upper() for n in filled]]
    lines += [[_to_cell(row[n]) for n in filled] for row in found]
    numeric = [
        headers[n] in right or all(isinstance(row[n], int | float | None) for row in found)
        for n in filled
    ]
    widths = [max(_measure(line[n]) for line in lines) for n in range(len(filled))]
    width = _find_width(sys.stdout)
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        for text in _wrap_table(lines, widths, numeric, width):
            click.echo(text.rstrip())
        return
    for line in lines:
        cells = (_pad(*cell) for cell in zip(line, widths, numeric, strict=True))
        click.echo("  ".join(cells).rstrip())


def print_error(text: str) -> None:
    """Say on stderr what is wrong, in one line that is marked as ours."""
    with suppress(OSError, ValueError):  # then the exit code alone says what happened
        for part in _wrap(f"stoker: {_escape(text)}", _find_width(sys.stderr)):
            click.echo(part, err=True)


class Progress:
    """Lines on a terminal's stderr that are redrawn in place; nothing is drawn elsewhere."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._live: Any = None
        self._drawn_at = float("-inf")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def set(self, text: str, *, line: str = "") -> None:
        """Replace the line's text; drawn at once if the last drawing is a while ago."""
        self._lines[line] = text
        if sys.stderr.isatty() and time.monotonic() - self._drawn_at >= _REDRAW_SECONDS:
            self._draw()

    def clear(self) -> None:
        """Erase the lines, so that something else can be written; `set` draws them again."""
        live, self._live, self._drawn_at = self._live, None, float("-inf")
        if live is not None:
            with suppress(OSError, ValueError):  # the terminal is gone; the work continues
                live.stop()

    def _draw(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._drawn_at = time.monotonic()
        text = Text("\n".join(map(_escape, self._lines.values())))
        text.no_wrap, text.overflow = True, "ellipsis"
        with suppress(OSError, ValueError):
            if self._live is None:
                console = Console(stderr=True, markup=False, highlight=False, emoji=False)
                self._live = Live(
                    console=console,
                    auto_refresh=False,
                    transient=True,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                self._live.start()
            self._live.update(text, refresh=True)


def _escape(text: str) -> str:
    from stoker.base.telemetry import escape_invisible

    return escape_invisible(text)


def _to_cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return _escape(str(value))


def _find_width(stream: TextIO) -> int | None:
    """Return a terminal's columns; None for a pipe or file, which get lines as they are."""
    if not stream.isatty():
        return None
    try:
        return int(os.environ.get("COLUMNS", "")) or None
    except ValueError:
        with suppress(OSError, ValueError):
            return os.get_terminal_size(stream.fileno()).columns or 80
        return 80


def _measure(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _pad(text: str, width: int, is_number: bool) -> str:
    space = " " * (width - _measure(text))
    return space + text if is_number else text + space


def _wrap(line: str, width: int | None) -> list[str]:
    """Return a line in parts of at most this width, each indented as the line is."""
    if width is None or _measure(line) <= width:
        return [line]
    from rich.console import Console
    from rich.text import Text

    indent = line[: len(line) - len(line.lstrip())]
    parts = Text(line.strip()).wrap(Console(), max(width - len(indent), 1), overflow="fold")
    return [indent + part.plain.rstrip() for part in parts]


def _wrap_table(
    lines: Sequence[Sequence[str]], widths: Sequence[int], numeric: Sequence[bool], width: int
) -> Iterable[str]:
    """Return the lines of a table made to fit the width: cells are wrapped, none is cut off.

    Numbers and narrow columns stay whole as long as the others keep a readable width.
    """
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    whole: set[int] = set()  # the narrowest columns, as long as the others have room to wrap
    for n in sorted(range(len(widths)), key=lambda n: (not numeric[n], widths[n])):
        taken = sum(widths[each] for each in (*whole, n))
        if taken + _WRAPPED_CELL * (len(widths) - len(whole) - 1) + 2 * (len(widths) - 1) > width:
            break
        whole.add(n)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for n, is_number in enumerate(numeric):
        table.add_column(
            justify="right" if is_number else "left", no_wrap=n in whole, overflow="fold"
        )
    for line in lines:
        table.add_row(*map(Text, line))
    screen = StringIO()
    Console(file=screen, width=width, color_system=None).print(table)
    return screen.getvalue().splitlines()
