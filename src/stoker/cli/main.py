"""The `stoker` command: the list of commands, and what happens to their errors.

A command's module is imported when that command is called, so the one-line helps are here.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stoker import __version__
from stoker.base.errors import ConfigError, StokerError
from stoker.cli.options import check_not_empty
from stoker.cli.output import CommandContext, Exit, print_error, to_error_exit

if TYPE_CHECKING:
    from stoker.base.clock import Clock

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_PRINTING_ERRORS = (*_DISK_FULL_ERRORS, errno.EBADF, errno.EIO)  # of stdout, a terminal's too


class LazyCommand(NamedTuple):
    """Where a command is, and the line `stoker --help` shows about it."""

    where: str
    help: str


SECTIONS = {
    "First steps": {
        "init": LazyCommand("stoker.settings.commands:init", "Write a stoker.toml with small caps"),
        "doctor": LazyCommand("stoker.cli.doctor:doctor", "Check settings, keys, database, clock"),
        "demo": LazyCommand(
            "stoker.sandbox.commands_demo:demo", "Watch a night of two tenants; no keys"
        ),
    },
    "Set up": {
        "tenants": LazyCommand("stoker.tenants.commands:tenant", "add list show enable disable"),
        "icp": LazyCommand(
            "stoker.accounts.commands:icp", "set show: which companies a tenant wants"
        ),
        "accounts": LazyCommand(
            "stoker.accounts.commands:accounts", "import list show: accounts of your own"
        ),
        "crm": LazyCommand("stoker.crm.commands:crm", "connect disconnect show undo"),
        "connectors": LazyCommand("stoker.vendors.commands:connector", "list test"),
        "registry": LazyCommand(
            "stoker.registry.commands:registry", "import status show rejects industries"
        ),
        "config": LazyCommand(
            "stoker.settings.commands:config", "show: each setting and its origin"
        ),
        "db": LazyCommand("stoker.db.commands:db", "setup status maintain"),
    },
    "Research": {
        "nightly": LazyCommand(
            "stoker.nightly.commands:nightly", "Research tonight's companies; --plan shows the cost"
        ),
        "pulls": LazyCommand("stoker.pulls.commands:pulls", "quote plan run price replay"),
        "discover": LazyCommand(
            "stoker.discovery.commands:discover", "Read job boards and feeds: who is hiring"
        ),
        "sources": LazyCommand(
            "stoker.discovery.commands:sources", "list test: where postings come from"
        ),
        "crawl": LazyCommand("stoker.crawl.commands:crawl", "Visit one website now"),
        "touches": LazyCommand(
            "stoker.touches.commands:touches", "import plan today show mark run status certify"
        ),
    },
    "Results": {
        "leads": LazyCommand("stoker.leads.commands:leads_group", "list export website"),
        "why": LazyCommand(
            "stoker.pulls.commands_why:why", "Explain one account: selected or not, cost, score"
        ),
        "contacts": LazyCommand(
            "stoker.maintenance.commands:contacts", "erase: remove one person everywhere"
        ),
        "heat": LazyCommand("stoker.heat.commands:heat", "top show history sweep"),
        "signals": LazyCommand("stoker.heat.commands:signals", "import: what happened at accounts"),
    },
    "Budget": {
        "caps": LazyCommand("stoker.budgets.commands:caps", "list set raise"),
        "holds": LazyCommand(
            "stoker.budgets.commands:holds", "list settle release: open reservations"
        ),
        "ledger": LazyCommand("stoker.ledger.commands:ledger", "list show verify export"),
        "stop": LazyCommand("stoker.budgets.commands:stop", "Stop all spending now"),
        "resume": LazyCommand("stoker.budgets.commands:resume", "Allow spending again"),
    },
    "Operate": {
        "schedule": LazyCommand(
            "stoker.scheduling.commands:schedule", "run next audit accept-clock"
        ),
        "runs": LazyCommand("stoker.runs.commands:runs", "list show compare rerun cancel prune"),
    },
    "Try it safely": {
        "sandbox": LazyCommand("stoker.sandbox.commands:sandbox", "serve: a fake internet"),
        "simulate": LazyCommand(
            "stoker.simulation.commands:simulate", "pulls nights coverage scores timing"
        ),
    },
}
COMMANDS = {name: lazy for section in SECTIONS.values() for name, lazy in section.items()}
ADDED = {  # commands of a group whose module is another one
    "db": {"maintain": "stoker.scheduling.commands:upkeep"},
    "pulls": {
        "quote": "stoker.pulls.commands:quote",
        "price": "stoker.pulls.commands_why:price",
        "replay": "stoker.pulls.commands:replay",
    },
}
ALIASES = {  # what these commands were called before; they keep working and are not listed
    "tenant": "stoker.tenants.commands:tenant",
    "connector": "stoker.vendors.commands:connector",
    "undo": "stoker.crm.commands:undo",
    "upkeep": "stoker.scheduling.commands:upkeep",
    "quote": "stoker.pulls.commands:quote",
    "price": "stoker.pulls.commands_why:price",
    "replay": "stoker.pulls.commands:replay",
    "export": "stoker.leads.commands:export_files",
    "prune": "stoker.runs.commands:prune",
}


def load_command(where: str) -> click.Command:
    """Import and return the command at `module:name`."""
    module, name = where.split(":")
    command = getattr(import_module(module), name)
    if not isinstance(command, click.Command):
        raise TypeError(f"{where} is not a command")
    return command


class LazyGroup(click.Group):
    """A group that knows its commands' names and help lines without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ALIASES:
            return load_command(ALIASES[cmd_name])
        if cmd_name not in COMMANDS:
            return None
        command = load_command(COMMANDS[cmd_name].where)
        if isinstance(command, click.Group):
            for name, where in ADDED.get(cmd_name, {}).items():
                if name not in command.commands:
                    command.add_command(load_command(where), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and args[0] not in ALIASES:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.7)
            ctx.fail(
                f"no such command {args[0]!r}" + (f" (did you mean {near[0]}?)" if near else "")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<10}", lazy.help) for name, lazy in section.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-C",
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Work as if started in this directory.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read this file instead of stoker.toml.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one setting, stronger than every other source. May be repeated.",
)
@click.option("--log-level", metavar="LEVEL", help="Short for --set logging.level=LEVEL.")
@click.version_option(__version__, prog_name="stoker", message="%(prog)s %(version)s")
@click.pass_context
def stoker(
    ctx: click.Context,
    directory: Path,
    config: Path | None,
    assignments: tuple[str, ...],
    log_level: str | None,
) -> None:
    """Research accounts for each tenant, inside every budget cap, and explain why."""
    flags = dict(_parse_assignment(assignment) for assignment in assignments)
    if log_level is not None:
        flags["logging.level"] = log_level
    ctx.obj = replace(ctx.obj, directory=directory, config=config, flags=flags)


def main(arguments: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run one command; return its exit code. No error leaves a traceback unless asked for."""
    if not _open_closed_streams():
        print_error("stdout is closed; send it somewhere, e.g. with > /dev/null")
        return Exit.CONFIG
    try:
        code = _run_command(arguments, CommandContext(directory=Path(), clock=clock))
        if code == Exit.INTERRUPTED and arguments is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process is on its way out already
        sys.stdout.flush()
    except OSError as error:
        code = _report_unprinted(error)
    return code


def _open_closed_streams() -> bool:
    """Open what was closed when the process began; return whether stdout was open.

    Otherwise the next file that is opened, the database perhaps, would get its number, and what
    is printed would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the end
    is_open = sys.stdout is not None
    if not is_open:
        sys.stdout = sys.stderr
    return is_open


def _report_unprinted(error: OSError) -> Exit:
    _detach_stdout()
    if isinstance(error, BrokenPipeError):
        return Exit.BROKEN_PIPE
    full = "the disk is full" if error.errno in _DISK_FULL_ERRORS else error.strerror
    print_error(f"what was to be printed is not all there ({full}); make room, and look again")
    return Exit.UNCERTAIN


def _detach_stdout() -> None:
    # Python flushes stdout once more while it shuts down; let that go nowhere, quietly.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command(arguments: Sequence[str] | None, context: CommandContext) -> int:
    secrets = context.secrets
    try:
        # Not click's standalone mode: exit codes and one-line errors are decided here.
        given = list(sys.argv[1:] if arguments is None else arguments)
        if arguments is None and "_STOKER_COMPLETE" in os.environ:
            stoker.main(prog_name="stoker")  # click answers the shell's completion, and exits
        check_not_empty(given)
        with stoker.make_context("stoker", given, obj=context) as ctx:
            return int(stoker.invoke(ctx) or Exit.OK)
    except click.exceptions.Exit as asked:
        return asked.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.CONFIG
    except click.UsageError as error:
        print_error(_format_usage_error(error))
        return Exit.CONFIG
    except click.ClickException as error:
        print_error(error.format_message())
        return Exit.CONFIG
    except (KeyboardInterrupt, click.Abort):
        print_error("stopped")
        return Exit.INTERRUPTED
    except StokerError as error:
        return _report(error, secrets)
    except OSError as error:
        if error.filename is not None:
            return _report(_explain(error), secrets)
        if isinstance(error, BrokenPipeError) or error.errno in _PRINTING_ERRORS:
            raise
        return _report_bug(error, secrets)
    except Exception as error:  # noqa: BLE001 - the one place a fault of ours becomes a sentence
        return _report_bug(error, secrets)


def _report(error: StokerError, secrets: set[str]) -> Exit:
    for line in error.args:
        print_error(_redact(str(line), secrets))
    return to_error_exit(error)


def _explain(error: OSError) -> StokerError:
    """Return what the failure of a file asks for that no room expected to fail."""
    from stoker.files.durable import translate_os_error

    path = Path(os.fsdecode(error.filename))
    if error.errno == errno.ENOENT:
        return ConfigError(f"{path} is not there; name another")
    return translate_os_error(error, path)


def _report_bug(error: Exception, secrets: set[str]) -> Exit:
    # Read here and not in `app`, which may be what is broken.
    if os.environ.get("STOKER_DEBUG"):
        import traceback

        from stoker.base.telemetry import escape_invisible

        for line in _redact("".join(traceback.format_exception(error)), secrets).split("\n"):
            click.echo(escape_invisible(line), err=True)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    print_error(_redact(f"internal error: {what} (STOKER_DEBUG=1 shows details)", secrets))
    return Exit.BUG


def _redact(text: str, secrets: set[str]) -> str:
    from stoker.base.telemetry import Redactor

    return Redactor(secrets).redact(text)


def _format_usage_error(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "stoker"
    message = " ".join(error.format_message().split())  # click lists choices on lines of their own
    return f"{message.rstrip('.')}; see `{command} --help`"


def _parse_assignment(assignment: str) -> tuple[str, str]:
    key, equals, value = assignment.partition("=")
    if not equals or not key.strip():
        # What was given is not repeated: half of it may be a secret.
        raise click.BadParameter("give it as KEY=VALUE", param_hint="--set")
    return key.strip(), value


if __name__ == "__main__":
    sys.exit(main())
