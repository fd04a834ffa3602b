"""Which commands there are, their earlier names, and shell completion."""

import os
import subprocess
import sys

import click
import pytest

from stoker.cli import main as command_line


def find(*words):
    """Return the command that these words lead to, or None."""
    command = command_line.stoker
    context = click.Context(command)
    for word in words:
        command = command.get_command(context, word)
        if command is None:
            return None
        context = click.Context(command, parent=context)
    return command


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        (("tenant", "add"), ("tenants", "add")),
        (("connector", "test"), ("connectors", "test")),
        (("undo",), ("crm", "undo")),
        (("upkeep",), ("db", "maintain")),
        (("quote",), ("pulls", "quote")),
        (("price",), ("pulls", "price")),
        (("replay",), ("pulls", "replay")),
        (("export", "leads"), ("leads", "export")),
        (("prune",), ("runs", "prune")),
        (("registry", "ssic", "show"), ("registry", "industries", "show")),
    ],
)
def test_an_earlier_name_is_the_same_command_and_is_not_listed(earlier, now):
    assert find(*earlier) is find(*now) is not None
    assert earlier[0] in command_line.ALIASES or earlier[0] == now[0]
    assert earlier[0] not in command_line.COMMANDS or earlier[0] == now[0]


def test_help_fits_80_columns(capsys):
    assert command_line.main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_shell_is_given_a_completion_script_and_the_names():
    def complete(**environment):
        command = [sys.executable, "-m", "stoker"]
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert "_stoker_completion" in complete(_STOKER_COMPLETE="bash_source")
    names = complete(_STOKER_COMPLETE="bash_complete", COMP_WORDS="stoker ru", COMP_CWORD="1")
    assert names.split() == ["plain,runs"]
