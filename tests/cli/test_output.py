import asyncio
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.terminals import terminal, width
from stoker.base.errors import ConfigError, TransientError
from stoker.cli.main import main
from stoker.cli.output import (
    Exit,
    Progress,
    choose_exit,
    print_command,
    print_fields,
    print_table,
    print_text,
)
from stoker.runs.model import RunState
from stoker.runs.service import run_for_tenants

HOSTILE = "[red]\x1b[31mLtd[/red] :smile: https://example.test [link=x]y[/link]"
ROWS = [("20260207_013000", 5, HOSTILE * 3, None), ("x", 12_345, "漢字" * 40, "")]


def test_a_pipe_gets_whole_rows(capsys):
    print_table(["run", "count", "note", "empty"], ROWS)

    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["RUN", "COUNT", "NOTE"]
    assert first.endswith(HOSTILE.replace("\x1b", "\\u{1b}") * 3)
    assert second.endswith("12345  " + "漢字" * 40)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_terminal_gets_rows_that_fit_it_and_lose_nothing(columns):
    with terminal(columns) as screen:
        print_table(["run", "count", "note", "empty"], ROWS)

    assert screen.widest <= columns
    shown = "".join(line[width("20260207_013000  ") :].strip() for line in screen.lines)
    assert "\x1b" not in screen.raw
    assert shown.count("漢字") >= 38
    assert screen.raw.count("[red]") == 3


def test_short_cells_and_numbers_are_not_wrapped():
    rows = [("20260207_013000", "merlion", 12_345, "words " * 40)]
    with terminal(80) as screen:
        print_table(["run", "tenant", "count", "note"], rows)

    assert screen.lines[1].startswith("20260207_013000  merlion  12345  words words")


def test_a_wide_terminal_is_used():
    with terminal(120) as screen:
        print_table(["note"], [("words " * 40,)])

    assert 100 < screen.widest <= 120


letters = st.sampled_from("abc de [/]\\\x1b\n\r\u202eé漢字ｗ😀")


@given(st.lists(st.text(letters, max_size=90), min_size=1, max_size=4), st.integers(20, 130))
def test_no_text_of_any_kind_is_wider_than_its_terminal(cells, columns):
    with terminal(columns) as screen:
        print_table(["column"] * len(cells), [cells])
        print_text("  " + "\n".join(cells))
        print_fields([("label", cell) for cell in cells])

    assert screen.widest <= columns


def test_a_long_command_can_be_copied_from_a_terminal():
    command = "stoker holds settle --tenant merlion tavily/" + "0123456789 " * 12
    with terminal(80) as screen:
        print_command(command)

    assert screen.widest <= 80
    assert " ".join(part.rstrip("\\").strip() for part in screen.lines) == command.strip()


def test_progress_is_drawn_on_a_terminal_and_erased():
    with terminal(80, errors=True) as screen, Progress() as progress:
        progress.set("merlion 1/5 [red]\x1b[31m", line="merlion")

    assert "merlion 1/5 [red]\\u{1b}[31m" in screen.raw
    assert screen.raw.rstrip("\r\n").endswith("\x1b[2K")


def test_progress_writes_nothing_to_a_pipe(capsys):
    with Progress() as progress:
        progress.set("merlion 1/5")

    assert capsys.readouterr().err == ""
    assert not sys.stderr.isatty()


def test_a_tenant_that_fails_does_not_stop_the_others():
    async def work(tenant):
        if tenant == "b":
            raise TransientError("the store is away")
        return tenant.upper()

    done, failed = asyncio.run(run_for_tenants(["a", "b", "c"], work, concurrency=2))

    assert done == ["A", "C"]
    assert [(tenant, str(error)) for tenant, error in failed] == [("b", "the store is away")]


def test_no_more_tenants_than_allowed_are_worked_on_at_once():
    running, most = set(), 0

    async def work(tenant):
        nonlocal most
        running.add(tenant)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.discard(tenant)

    asyncio.run(run_for_tenants(list("abcdef"), work, concurrency=2))

    assert most == 2


@pytest.mark.parametrize(
    ("states", "errors", "code"),
    [
        ([], [], Exit.OK),
        (["DONE", "PARTIAL"], [], Exit.PARTIAL),
        (["PARTIAL", "CANCELLED", "DONE"], [], Exit.CANCELLED),
        (["CANCELLED", "FAILED"], [ConfigError("x")], Exit.FAILED),
        (["PARTIAL"], [ConfigError("x")], Exit.CONFIG),
        ([], [TransientError("x")], Exit.LATER),
    ],
)
def test_the_exit_code_is_the_worst_run_s_or_that_of_what_did_not_begin(states, errors, code):
    assert choose_exit([RunState(state) for state in states], errors) is code


def test_a_command_typed_on_a_terminal_logs_warnings_only(tmp_path):
    main(["-C", str(tmp_path), "tenants", "add", "acme"])
    with terminal(errors=True) as quiet:
        main(["-C", str(tmp_path), "heat", "sweep"])
    with terminal(errors=True) as verbose:
        main(["-C", str(tmp_path), "--log-level", "info", "heat", "sweep"])
    assert quiet.raw == ""
    assert "sweep run" in verbose.raw
