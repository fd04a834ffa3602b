"""Whatever a command is given and wherever it runs: one line and an exit code, never a fault."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.disks import make_read_only, memory_disk, why_no_memory_disk
from kit.command_words import (
    ENDLESS,
    build_words,
    call,
    is_number,
    iterate_commands,
    takes_value,
)
from stoker.cli.output import Exit

NUMBERS = (str(2**63), str(-(2**63) - 1), "9" * 5000)
TIMES = ("9999-12-31T00:00+00:00", "0001-01-01T00:00+00:00")
TEXTS = ("x" * 5000, f"+{2**64}", "a\nb\udcff\x1b[2J", f"/dev/fd/{10**20}", *TIMES)
NOWHERE = '[sandbox]\naddress = "127.0.0.1:1"\n'  # instead of the network, where nothing listens
COMMANDS = [each for each in iterate_commands() if each[0] not in ENDLESS]


ENDS_OF_RUNS = (Exit.OK, Exit.PROBLEMS, Exit.PARTIAL, Exit.FAILED, Exit.CANCELLED)


def wrong(words, ending):
    """Return what is wrong with an ending, or nothing."""
    shown = [word[:40] for word in words]
    if ending.code not in [*Exit] or ending.code == Exit.BUG or ending.other:
        return shown, ending
    explained = ending.errors or ending.code in ENDS_OF_RUNS
    if len(ending.errors) > 1 or not explained:
        return shown, ending
    return None


def judge(directory, **how):
    """Call every command in a directory; return the endings by command and what is wrong."""
    endings = {
        path: call(directory, build_words(path, each), **how)
        for path, each in COMMANDS
        if path != ("connectors", "test")  # which tries for long
    }
    assert len(endings) > 75
    return endings, [found for path in endings if (found := wrong(path, endings[path]))]


@pytest.fixture
def home(tmp_path):
    """A directory with two tenants and their store."""
    (tmp_path / "stoker.toml").write_text(f"{NOWHERE}[tenants.acme]\n[tenants.bolt]\n")
    assert call(tmp_path, ["db", "setup"]).code == Exit.OK
    return tmp_path


def test_no_value_of_any_option_or_argument_is_a_fault_of_ours(home):
    tried, found = 0, []
    for path, command in iterate_commands():
        for parameter in filter(takes_value, command.params):
            values = NUMBERS if is_number(parameter) else () if path in ENDLESS else TEXTS
            for value in values:
                words = build_words(path, command, parameter, value)
                found.append(wrong(words, call(home, words)))
                tried += 1
    assert tried > 600
    assert [each for each in found if each] == []


def test_no_command_takes_a_number_that_a_database_cannot_keep(home):
    for path, command in iterate_commands():
        for parameter in filter(is_number, command.params):
            ending = call(home, build_words(path, command, parameter, str(2**63)))
            assert ending.code == Exit.CONFIG, (path, parameter.name)


@pytest.mark.parametrize("name", ["nosuch", "No Such!", "0-operators", "x" * 5000])
def test_no_command_ignores_a_tenant_that_is_not_there(home, name):
    seen = 0
    for path, command in COMMANDS:
        for option in (each for each in command.params if "--tenant" in each.opts):
            seen += 1
            ending = call(home, build_words(path, command, option, name))
            assert (ending.code, len(ending.errors)) == (Exit.CONFIG, 1), path
    assert seen > 30


def test_two_tenants_for_one_command_and_a_name_that_settings_set_are_refused(home):
    both = call(home, ["pulls", "price", "acme", "--tenant", "bolt"])
    assert (both.code, "name two tenants" in both.errors[0]) == (Exit.CONFIG, True)

    (home / "stoker.toml").write_text(f'{NOWHERE}[tenants.acme]\nname = "Acme"\n')
    named = call(home, ["tenants", "add", "acme", "--name", "Other"])
    assert (named.code, "stoker.toml:4" in named.errors[0]) == (Exit.CONFIG, True)
    assert call(home, ["tenants", "add", "acme", "--name", "x" * 5000]).code == Exit.CONFIG


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "[" * 100_000, "x = " + "{a=" * 100_000])
def test_settings_of_many_brackets_are_one_line(tmp_path, text):
    (tmp_path / "stoker.toml").write_text(text)
    endings, problems = judge(tmp_path)

    assert problems == []
    read = [
        each for each in endings.values() if each.errors[:1] and "stoker.toml" in each.errors[0]
    ]
    assert {each.code for each in read} == {Exit.CONFIG}
    assert len(read) > 60


@pytest.mark.parametrize("option", ["-C", "--config"])
def test_a_path_of_5000_characters_is_one_line(tmp_path, option):
    for path, command in COMMANDS:
        ending = call(tmp_path, [option, "x" * 5000, *build_words(path, command)])
        assert wrong(path, ending) is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_that_is_printed_to_is_called_full(home):
    endings, problems = judge(home, out="/dev/full")

    assert problems == []
    unprinted = [each for each in endings.values() if each.code == Exit.UNCERTAIN]
    assert len(unprinted) > 30
    assert all("the disk is full" in each.errors[0] for each in unprinted)


@pytest.fixture
def disk(tmp_path):
    if reason := why_no_memory_disk():
        pytest.skip(reason)
    with memory_disk(tmp_path / "disk", size="2m") as disk:
        yield disk


@pytest.mark.parametrize("backend", ["sqlite", "json"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_is_called_full_by_every_command_that_needs_room(disk, backend, is_new):
    (disk / "stoker.toml").write_text(f'storage.backend = "{backend}"\n{NOWHERE}[tenants.acme]\n')
    if not is_new:
        assert call(disk, ["db", "setup"]).code == Exit.OK
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize))
    endings, problems = judge(disk)

    assert problems == []
    later = [each for each in endings.values() if each.code == Exit.LATER]
    assert len(later) > 20
    assert all("the disk is full" in each.errors[0] for each in later)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_read_only_disk_is_one_line_for_every_command_that_writes(disk, is_new):
    (disk / "stoker.toml").write_text(f"{NOWHERE}[tenants.acme]\n")
    if not is_new:
        assert call(disk, ["db", "setup"]).code == Exit.OK
    make_read_only(disk)
    endings, problems = judge(disk)

    assert problems == []
    assert sum("read-only" in "".join(each.errors).lower() for each in endings.values()) > 20
    assert endings["runs", "list"].code == Exit.OK  # reading works


def run(shell, cwd):
    """Run the command line in a shell that closes or replaces its streams."""
    command = [*["bash", "-c"], shell, sys.executable, "-m", "stoker.cli.main"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["--help", "runs list --json", "db setup", "nonsense"])
def test_a_closed_stdout_is_refused_before_anything_is_done(tmp_path, words):
    done = run(f'"$0" "$@" {words} >&-', tmp_path)

    assert done.returncode == Exit.CONFIG
    assert done.stderr.startswith("stoker: stdout is closed")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_stdout_that_cannot_be_written_to_is_one_line(tmp_path):
    done = run('"$0" "$@" runs list 1</dev/null', tmp_path)

    assert (done.returncode, len(done.stderr.splitlines())) == (Exit.UNCERTAIN, 1)
    assert "Bad file descriptor" in done.stderr


@pytest.mark.parametrize("stderr", [">&-", ">/dev/full"])
@pytest.mark.parametrize(
    ("words", "code"),
    [("db setup", Exit.OK), ("nonsense", Exit.CONFIG), ("runs show 20300101_000000", Exit.CONFIG)],
)
def test_without_stderr_the_exit_code_says_what_happened(tmp_path, stderr, words, code):
    done = run(f'"$0" "$@" {words} 2{stderr}', tmp_path)

    assert (done.returncode, done.stderr) == (code, "")


def test_with_all_streams_closed_the_store_is_what_it_was(tmp_path):
    assert run('"$0" "$@" db setup', tmp_path).returncode == Exit.OK
    for words, streams in (("stop", "<&- 2>&-"), ("stop", "<&- >&- 2>&-")):
        run(f'"$0" "$@" {words} {streams}', tmp_path)
    checked = call(tmp_path, ["db", "status"])
    assert checked.code == Exit.OK, checked


EVERY_COMMAND_WITHOUT_STDERR = """
import json, os, sys
from pathlib import Path
from kit.command_words import ENDLESS, build_words, iterate_commands
from stoker.cli.main import main

told = os.fdopen(os.dup(1), "w")
sys.stdout = open(os.devnull, "w")
codes = {}
for path, command in iterate_commands():
    if path not in {*ENDLESS, ("connectors", "test")}:
        sys.stderr = None
        os.close(2)
        codes[" ".join(path)] = int(main(["-C", sys.argv[1], *build_words(path, command)]))
json.dump(codes, told)
"""


def test_a_closed_stderr_changes_no_exit_code(home, tmp_path_factory):
    quiet = tmp_path_factory.mktemp("quiet")
    (quiet / "stoker.toml").write_bytes((home / "stoker.toml").read_bytes())
    assert call(quiet, ["db", "setup"]).code == Exit.OK
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND_WITHOUT_STDERR, str(quiet)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        check=True,
    )
    endings, problems = judge(home)

    assert problems == []
    codes = {" ".join(path): int(each.code) for path, each in endings.items()}
    assert json.loads(done.stdout) == codes


def test_every_plot_goes_below_the_directory_or_alone_to_stdout(home):
    plots = [
        (path, command, option)
        for path, command in COMMANDS
        for option in command.params
        if "--plot" in option.opts and path[0] == "simulate"
    ]
    assert len(plots) == 4
    for path, command, option in plots:
        name = f"{path[-1]}.png"
        assert call(home, build_words(path, command, option, name)).code == Exit.OK
        words = build_words(path, command, option, "-")
        assert call(home, words).out == (home / name).read_bytes()
        both = call(home, [*words, "--json"])
        assert (both.code, both.out) == (Exit.CONFIG, b"")


def test_every_export_goes_to_stdout_for_a_dash(home):
    exports = [each for each in COMMANDS if any("--out" in p.opts for p in each[1].params)]
    files = [each for each in exports if each[0] != ("discover",)]  # which writes into a folder
    assert len(files) == 2
    for path, command in files:
        words = build_words(path, command)
        assert call(home, words) == call(home, [*words, "--out", "-"])
        assert call(home, [*words, "--out", "-", "--json"]).code == Exit.CONFIG
    assert not (home / "-").exists()
