import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    TransientError,
    UncertainError,
)
from stoker.cli import main as command_line
from stoker.cli.main import main
from stoker.cli.output import Exit, print_table, to_error_exit, to_run_exit
from stoker.config.fields import POSTGRES_URL
from stoker.runs.model import RunState
from stoker.settings import FIELDS

# A program that runs the real `main` with one more command, which fails as it is told to.
FAILING = """
import sys, click
from stoker.base import errors
from stoker.cli import main as command_line
from stoker.cli.output import pass_context

@click.command()
@click.argument("kind")
@pass_context
def fail(asked, kind):
    "Fail."
    settings = asked.read_settings()
    secret = settings.get_value("keys.openai").reveal() if settings.get_value("keys.openai") else ""
    known = vars(errors) | vars(__builtins__)
    raise known[kind](f"it went wrong {secret}\\nsecond\\x1b[2J line")

sys.modules["failing"] = sys.modules["__main__"]
command_line.COMMANDS["fail"] = command_line.LazyCommand("failing:fail", "Fail.")
sys.exit(command_line.main())
"""


def run(*arguments, cwd, program=("-m", "stoker.cli.main"), **environment):
    """Run the command as a process of its own, with nothing else in its environment."""
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def fail(kind, *, cwd, **environment):
    return run("fail", kind, cwd=cwd, program=("-c", FAILING), **environment)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (PermanentError("x"), 4),
        (TransientError("x"), 6),
        (ConflictError("x"), 6),
        (UncertainError("x"), 7),
    ],
)
def test_each_kind_of_error_has_the_exit_code_that_says_what_to_do_next(error, code):
    assert to_error_exit(error) == code


def test_each_end_of_a_run_has_an_exit_code_of_its_own():
    ends = {state: to_run_exit(state).value for state in RunState if state != RunState.RUNNING}

    assert ends == {"DONE": 0, "PARTIAL": 3, "FAILED": 4, "CANCELLED": 5}


def test_every_exit_code_has_a_meaning():
    assert all(code.meaning for code in Exit)


@pytest.mark.parametrize(("kind", "code"), [("ConfigError", 2), ("UncertainError", 7)])
def test_an_error_of_ours_is_told_on_stderr_without_a_traceback(tmp_path, kind, code):
    done = fail(kind, cwd=tmp_path)

    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr == "stoker: it went wrong \\u{a}second\\u{1b}[2J line\n"


def test_a_fault_of_ours_is_one_line_with_a_hint(tmp_path):
    done = fail("RuntimeError", cwd=tmp_path)

    assert done.returncode == 70
    assert done.stderr == (
        "stoker: internal error: RuntimeError: it went wrong  (STOKER_DEBUG=1 shows details)\n"
    )


def test_the_details_of_a_fault_are_shown_on_request_without_secrets(tmp_path):
    done = fail("RuntimeError", cwd=tmp_path, STOKER_DEBUG="1", OPENAI_API_KEY="canary-1")

    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert "canary" not in done.stderr
    assert r"second\u{1b}[2J line" in done.stderr


def test_ctrl_c_is_one_word_and_130(tmp_path):
    done = fail("KeyboardInterrupt", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (130, "stoker: stopped\n")


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_waiting_command_in_order(tmp_path, told):
    waiting = """
import sys, click, asyncio, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored beside a shell
from stoker.cli import main as command_line
from stoker.cli.output import run_async

async def forever():
    print("waiting", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("tidied up", flush=True)

@click.command()
def wait():
    "Wait."
    run_async(forever())

sys.modules["waiting"] = sys.modules["__main__"]
command_line.COMMANDS["wait"] = command_line.LazyCommand("waiting:wait", "Wait.")
sys.exit(command_line.main(["wait"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", waiting],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(told)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (130, "tidied up\n", "stoker: stopped\n")


@pytest.mark.parametrize("arguments", [("--help",), ("connector", "list", "--json")])
def test_no_room_for_what_is_printed_is_one_line_and_no_fault_of_ours(tmp_path, arguments):
    with Path("/dev/full").open("wb") as full:  # a disk without room, as the system offers one
        done = subprocess.run(
            [sys.executable, "-m", "stoker.cli.main", "-C", str(tmp_path), *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == Exit.UNCERTAIN
    assert len(done.stderr.splitlines()) == 1
    assert "the disk is full" in done.stderr


def test_a_reader_that_stops_reading_is_no_error(tmp_path):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stoker.cli.main", "config", "show"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(write)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rns"], "no such command 'rns' (did you mean runs?); see `stoker --help`"),
        (["nonsense"], "no such command 'nonsense'; see `stoker --help`"),
        (["--nonsense"], "No such option '--nonsense'; see `stoker --help`"),
        (["db", "stats"], None),
        (["doctor", "--what"], None),
        (["--set", "sk-canary", "doctor"], None),
        (["--set", "=x", "doctor"], None),
        (["--config", "missing.toml", "doctor", "--bad"], None),
        (["-C", "missing", "doctor"], None),
    ],
)
def test_a_command_that_cannot_be_understood_is_one_line_and_2(capsys, arguments, line):
    assert main(arguments) == Exit.CONFIG

    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("stoker: ")
    assert "canary" not in said.err
    assert line is None or said.err == f"stoker: {line}\n"


def test_no_command_at_all_shows_the_help(capsys):
    assert main([]) == Exit.CONFIG

    assert "First steps:" in capsys.readouterr().err


def test_a_missing_settings_file_that_was_named_is_one_line(capsys, tmp_path):
    assert main(["--config", str(tmp_path / "no.toml"), "config", "show"]) == Exit.CONFIG

    assert "stoker init" in capsys.readouterr().err


def test_several_problems_of_the_settings_are_a_line_each(capsys, tmp_path):
    (tmp_path / "stoker.toml").write_text("[retention]\ndays = -1\nday = 3\n")

    assert main(["-C", str(tmp_path), "config", "show"]) == Exit.CONFIG
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["stoker", "stoker.toml:2"],
        ["stoker", "stoker.toml:3"],
    ]


def test_help_imports_nothing_that_is_slow(tmp_path):
    look = (
        "import sys; from stoker.cli.main import main; main(['--help']); "
        "print(sorted({'asyncio', 'apsw', 'psycopg', 'rich', 'zoneinfo', 'stoker.config', "
        "'stoker.app'} & set(sys.modules)))"
    )
    done = run(cwd=tmp_path, program=("-c", look))

    assert done.stdout.splitlines()[-1] == "[]"


def test_help_knows_every_command_and_every_command_is_there(capsys):
    assert main(["--help"]) == Exit.OK

    shown = capsys.readouterr().out
    context = click.Context(command_line.stoker)
    for name, lazy in command_line.COMMANDS.items():
        assert f"  {name}" in shown
        assert lazy.help in shown
        assert command_line.stoker.get_command(context, name).help


def test_text_from_outside_cannot_move_the_cursor_in_a_table(capsys):
    print_table(("name", "n"), [("a\x1b[2Jb\nc", 1), ("日本", 22)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("a\\u{1b}[2Jb\\u{a}c")
    assert lines[2] == "日本" + " " * (len("a\\u{1b}[2Jb\\u{a}c") - 4) + "  22"


def canaries():
    """Fill every secret slot there is with a value of its own."""
    slots = [about for about in FIELDS.values() if about.kind.secret]
    return {
        about.env[0]: f"postgresql://app:canary-{n}@127.0.0.1:1/db"
        if about.kind is POSTGRES_URL
        else f"canary-{n}"
        for n, about in enumerate(slots)
    }


def hits(directory, *outputs):
    """Count canaries in what was printed and in every file that was left behind."""
    texts = [output.encode() for output in outputs]
    texts += [path.read_bytes() for path in Path(directory).rglob("*") if path.is_file()]
    return sum(len(re.findall(rb"canary-\d", text)) for text in texts)


COMMANDS = [
    ["config", "show"],
    ["config", "show", "--json"],
    ["doctor"],
    ["doctor", "--json"],
    ["connector", "list"],
    ["connector", "list", "--json"],
    ["db", "setup"],
    ["db", "status", "--json"],
    ["upkeep"],
    ["runs", "list", "--json"],
    ["schedule", "next"],
]


@pytest.mark.parametrize("backend", ["sqlite", "json", "postgres"])
def test_no_canary_in_any_secret_slot_is_ever_printed_or_kept(tmp_path, backend):
    said, codes = [], set()
    for arguments in COMMANDS:
        debug = ["--log-level", "debug", "--set", f"storage.backend={backend}"]
        done = run(*debug, *arguments, cwd=tmp_path, **canaries(), STOKER_DEBUG="1")
        assert "Traceback" not in done.stderr, done.stderr
        said += [done.stdout, done.stderr]
        codes.add(done.returncode)

    # Nobody listens at the Postgres address, so there the errors are what is looked through.
    assert (codes == {0}) is (backend != "postgres"), said
    assert len(canaries()) == 9
    assert hits(tmp_path, *said) == 0


def test_the_naive_twin_that_prints_its_settings_is_caught(tmp_path):
    naive = (
        "import os, json; print(json.dumps(dict(os.environ))); "
        "open('kept', 'w').write(str(os.environ))"
    )
    done = run(cwd=tmp_path, program=("-c", naive), **canaries())

    assert hits(tmp_path, done.stdout, done.stderr) == 2 * len(canaries())
    assert json.loads(done.stdout)["OPENAI_API_KEY"].startswith("canary")


def test_python_m_stoker_is_the_same_as_stoker(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "-C", str(tmp_path), "runs", "show"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == Exit.CONFIG
    assert done.stderr.startswith("stoker: ")
    assert "Traceback" not in done.stderr
