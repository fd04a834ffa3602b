"""Every command there is, found by walking the command line's tree, and words to call it with."""

import contextlib
import io
from dataclasses import dataclass

import click

from stoker.cli.main import main, stoker

ENDLESS = {("sandbox", "serve"), ("demo",)}  # they serve until they are stopped

# So that a simulation takes no time, and the scheduler looks once.
SHORT = {
    ("simulate", "coverage"): ("--runs", "1", "--weeks", "2", "--profiles", "10"),
    ("simulate", "scores"): ("--weeks", "2", "--profiles", "10"),
    ("simulate", "timing"): ("--days", "2"),
    ("simulate", "pulls"): ("--accounts", "50", "--days", "14"),
    ("simulate", "nights"): ("--nights", "12", "--accounts", "10"),
    ("touches", "certify"): ("--runs", "1"),
    ("schedule", "run"): ("--once",),
}

SKIPPED = " is skipped: "  # a notice about one of the tenants

ARGUMENTS = {"cap": "tavily/calls/day", "limit": "900", "name": "acme", "amounts": "calls=1"}


def iterate_commands(command=stoker, path=()):
    """Yield each command that is no group: the words that lead to it, and itself."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from iterate_commands(command.get_command(context, name), (*path, name))


def is_number(parameter):
    return isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)


def takes_value(parameter):
    return not isinstance(parameter.type, click.Choice) and not getattr(parameter, "is_flag", False)


def build_words(path, command, parameter=None, value=""):
    """Return words for a command, with a value for one parameter and little for what it needs."""
    given = parameter.opts if parameter else ()
    short = SHORT.get(path, ())
    words = [*path, *(() if short[:1] == tuple(given[:1]) else short)]
    arguments = []
    for each in command.params:
        wanted = value if each is parameter else choose_value(each) if each.required else None
        if wanted is None:
            continue
        if isinstance(each, click.Argument):
            arguments.append(wanted)
        else:
            words.append(f"{each.opts[0]}={wanted}")
    return [*words, *(["--"] if arguments else []), *arguments]


def choose_value(parameter):
    if isinstance(parameter.type, click.Choice):
        return parameter.type.choices[0]
    return "5" if is_number(parameter) else ARGUMENTS.get(parameter.name, "2h")


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, what it printed, and our lines on stderr."""

    code: int
    out: bytes
    errors: tuple[str, ...]
    other: tuple[str, ...]  # lines on stderr that are neither ours nor of the log


def call(directory, words, *, out=None):
    """Run a command in this process; what it prints goes to the file `out`, if there is one."""
    printed, err = io.BytesIO(), io.StringIO()
    raw = io.FileIO(out, "w") if out else printed
    with io.TextIOWrapper(raw, encoding="utf-8") as stream:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(err):
            code = main(["-C", str(directory), *words])
        shown = b"" if out else printed.getvalue()
    lines = err.getvalue().splitlines()
    return Ending(
        code,
        shown,
        tuple(line for line in lines if line.startswith("stoker: ") and SKIPPED not in line),
        tuple(line for line in lines if not line.startswith(("stoker: ", "{"))),
    )
