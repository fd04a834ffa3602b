"""The reference pages, made from the code they describe: settings, commands, errors and events.

    python -m stoker.cli.reference --write docs/reference
    python -m stoker.cli.reference --check docs/reference

Nothing is explained here that is not already explained where it is defined.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click

from stoker.base import errors, events
from stoker.base.errors import StokerError
from stoker.base.events import Event
from stoker.cli.main import COMMANDS, stoker
from stoker.cli.output import Exit, print_error, to_error_exit
from stoker.config.fields import list_settings
from stoker.config.settings import TenantTable
from stoker.files.durable import open_output
from stoker.settings import FIELDS, SECTIONS, TENANT_KEYS, Settings

_GENERATED_NOTE = "<!-- Made by `make docs` from the code. Change the code, not this page. -->\n"


def build_pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    return {
        "settings.md": _join_page(_iterate_settings()),
        "commands.md": _join_page(_iterate_command_lines()),
        "errors-and-events.md": _join_page(_iterate_errors_and_events()),
    }


def iterate_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by the words one types for it, groups before their commands."""
    root = click.Context(stoker, info_name="stoker")
    yield "stoker", stoker
    for name in COMMANDS:
        command = stoker.get_command(root, name)
        if command is not None:
            yield from _iterate_below(f"stoker {name}", command)


def list_events() -> list[type[Event]]:
    """Return every kind of event, in the order they are defined."""
    return [
        kind
        for kind in vars(events).values()
        if inspect.isclass(kind) and issubclass(kind, Event) and kind is not Event
    ]


def list_errors() -> list[type[StokerError]]:
    """Return every kind of error, in the order they are defined."""
    return [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, StokerError) and kind is not StokerError
    ]


@click.command()
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), help="Write the pages.")
@click.option("--check", type=click.Path(file_okay=False, path_type=Path), help="Compare them.")
def reference(*, write: Path | None, check: Path | None) -> None:
    """Write the reference pages into a directory, or say which of them are out of date."""
    if (write is None) == (check is None):
        raise click.UsageError("give --write DIR or --check DIR")
    if write is not None:
        for name, text in build_pages().items():
            with open_output(write / name) as stream:
                stream.write(text.encode())
        return
    old = find_outdated(check) if check is not None else []
    if old:
        print_error(f"out of date: {', '.join(old)}; run: make docs")
        sys.exit(Exit.PROBLEMS)


def find_outdated(directory: Path) -> list[str]:
    """Return the pages in a directory that no longer say what the code says."""
    return [
        name
        for name, text in build_pages().items()
        if not (directory / name).is_file()
        or (directory / name).read_text(encoding="utf-8") != text
    ]


def _join_page(lines: Iterator[str]) -> str:
    return _GENERATED_NOTE + "\n".join(lines) + "\n"


def _iterate_settings() -> Iterator[str]:
    yield "# Settings\n"
    yield (
        "Weakest first: defaults, `stoker.toml`, `.env`, environment, `--set KEY=VALUE`. "
        "`stoker config show` prints every value and its origin. In the environment an empty "
        "value counts as not set; two names of one setting that differ are an error."
    )
    defaults = Settings()
    for section, kind in SECTIONS.items():
        yield f"\n## {section}\n\n{kind.__doc__}\n"
        yield "| key | default | allowed | in the environment | what it is |\n|---|---|---|---|---|"
        for key, about in FIELDS.items():
            if key.partition(".")[0] != section:
                continue
            names = ", ".join(f"`{name}`" for name in about.env)
            default = f"`{_escape_cell(about.format(defaults.get_value(key)))}`"
            secret = " Secret: masked wherever it is shown." if about.kind.secret else ""
            allowed = _escape_cell(about.kind.allowed)
            text = _escape_cell(about.help)
            yield f"| `{key}` | {default} | {allowed} | {names} | {text}{secret} |"
    yield "\n## tenants\n"
    yield (
        "`[tenants.ID]`, one table per tenant. Without any there is one tenant: "
        "`DEFAULT_TENANT_ID`, or `default`.\n"
    )
    yield "| key | allowed | what it is |\n|---|---|---|"
    for about in list_settings(TenantTable):
        allowed = _escape_cell(about.kind.allowed)
        yield f"| `tenants.ID.{about.key}` | {allowed} | {_escape_cell(about.help)} |"
    own = ", ".join(f"`{key}`" for key in TENANT_KEYS if key in FIELDS)
    yield f"\nA tenant may set these for itself, as `tenants.ID.KEY`: {own}."


def _iterate_command_lines() -> Iterator[str]:
    yield "# Commands\n"
    yield "Options before the command's name go for every command.\n"
    for words, command in iterate_commands():
        context = click.Context(command, info_name=words)
        yield f"## `{words}`\n"
        yield inspect.cleandoc(command.help or "") + "\n"
        yield "    " + " ".join([words, *command.collect_usage_pieces(context)]) + "\n"
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                names = ", ".join([*parameter.opts, *parameter.secondary_opts])
                value = "" if parameter.is_flag else f" {parameter.make_metavar(context)}"
                yield f"- `{names}{value}`: {parameter.help or ''}"
        if any(isinstance(parameter, click.Option) for parameter in command.params):
            yield ""
    yield "## Exit codes\n\n| code | name | meaning |\n|---|---|---|"
    for code in Exit:
        yield f"| {code.value} | {code.name} | {_escape_cell(code.meaning)} |"


def _iterate_errors_and_events() -> Iterator[str]:
    yield "# Errors and events\n\n## Errors\n"
    yield "Sorted by what the caller does next. Each is one line that says what to do.\n"
    yield "| error | what it says | exit code |\n|---|---|---|"
    for kind in list_errors():
        code = to_error_exit(kind("…"))
        yield f"| `{kind.__name__}` | {_escape_cell(inspect.getdoc(kind) or '')} | {code.value} |"
    yield "\n## Events\n"
    yield (
        "Every line of the log is one of these, or a library's own. As JSON a line has `at`, "
        "`level`, `event`, `tenant`, `message`, and the fields named here.\n"
    )
    yield "| event | level | what happened | fields |\n|---|---|---|---|"
    for event in list_events():
        own = [field.name for field in fields(event) if field.name not in ("at", "tenant")]
        names = ", ".join(f"`{name}`" for name in own)
        about = _escape_cell(inspect.getdoc(event) or "")
        yield f"| `{event.__name__}` | {event.level.value} | {about} | {names} |"


def _iterate_below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            if inner.hidden:
                continue
            yield from _iterate_below(f"{words} {name}", inner)


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    reference()
