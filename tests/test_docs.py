"""Every command, option, setting, event and error is in the docs; what is generated is current."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stoker.cli.main import stoker
from stoker.cli.output import Exit
from stoker.cli.reference import (
    build_pages,
    find_outdated,
    iterate_commands,
    list_errors,
    list_events,
)
from stoker.settings import FIELDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
# What is typed in the docs: `stoker …` in a code span, or a line of a code block.
TYPED = re.compile(r"`(stoker [^`]+)`|^ {0,8}(?:\$ )?(stoker [^#\n]+)", re.MULTILINE)


def written(name):
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_the_generated_pages_are_current():
    assert find_outdated(REFERENCE) == []


def test_a_page_that_is_out_of_date_is_noticed(tmp_path):
    for name, text in build_pages().items():
        (tmp_path / name).write_text(text)
    assert find_outdated(tmp_path) == []

    (tmp_path / "settings.md").write_text("old")
    (tmp_path / "commands.md").unlink()
    assert find_outdated(tmp_path) == ["settings.md", "commands.md"]


def test_every_setting_and_every_name_of_it_is_in_the_docs():
    page = written("settings.md")
    for key, about in FIELDS.items():
        assert f"`{key}`" in page
        assert about.help in page
        assert all(f"`{name}`" in page for name in about.env)


def test_every_command_and_option_is_in_the_docs_and_explained():
    page = written("commands.md")
    for words, command in iterate_commands():
        assert f"## `{words}`" in page
        assert command.help, words
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{words} {parameter.name}"
                assert all(option in page for option in parameter.opts)


def test_every_exit_code_is_in_the_docs():
    page = written("commands.md")
    assert all(f"| {code.value} | {code.name} |" in page for code in Exit)


def test_every_event_and_error_is_in_the_docs():
    page = written("errors-and-events.md")
    assert len(list_errors()) == 5
    for kind in [*list_errors(), *list_events()]:
        assert f"`{kind.__name__}`" in page


def typed_in(path):
    for match in TYPED.finditer(path.read_text(encoding="utf-8")):
        yield (match[1] or match[2]).strip()


def understood(line):
    """Walk the words of a line down the commands; return what is not known, or None."""
    known = dict(iterate_commands())
    here, options = "stoker", {option for p in stoker.params for option in p.opts}
    for word in shlex.split(line.replace("…", "").replace("|", " "))[1:]:
        name = word.partition("=")[0]
        if f"{here} {name}" in known:
            here = f"{here} {name}"
            options |= {option for p in known[here].params for option in p.opts}
            continue
        unknown_option = name.startswith("-") and name not in options | {"--help", "-h"}
        unknown_command = isinstance(known[here], click.Group) and re.fullmatch(r"[a-z]+", name)
        if unknown_option or unknown_command:
            return f"{line}: {name}"
    return None


handwritten = sorted(
    path for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")] if path.name not in build_pages()
)


@pytest.mark.parametrize("path", handwritten, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_typed_in_the_docs_exists(path):
    assert [found for line in typed_in(path) if (found := understood(line))] == []


@pytest.mark.parametrize("path", handwritten, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_in_the_docs_leads_to_a_page_and_a_heading(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, heading = target.partition("#")
        page = path.parent / name if name else path
        assert page.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert heading in anchors, target


def test_no_block_of_commands_stands_on_two_pages():
    places = {}  # README shows a little of everything
    for path in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"^```\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S):
            lines = [line.split("#")[0].strip() for line in block.splitlines()]
            typed = [line for line in lines if line.startswith("stoker ")]
            for three in zip(typed, typed[1:], typed[2:], strict=False):
                places.setdefault(three, set()).add(path.name)
    assert [three for three, pages in places.items() if len(pages) > 1] == []


SCRIPTS = re.findall(
    r"^```python\n(.*?)^```",
    (DOCS / "guides" / "python.md").read_text(encoding="utf-8"),
    re.M | re.S,
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_in_the_python_guide_runs(script, tmp_path):
    (tmp_path / "stoker.toml").write_text("[caps]\ntavily_queries = 0\n")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", ["stoker dcotor", "stoker doctor --jsno", "stoker db nonsense"])
def test_a_command_that_does_not_exist_is_noticed(line):
    assert understood(line)


def test_every_test_that_the_security_page_names_exists():
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 30
    for path, test in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, f"{path}::{test}"
    rows = re.findall(
        r"^\| [^|]+ \| [^|]+ \| (.+) \|$", page.partition("## What row security")[0], re.M
    )
    assert all("tests/" in row for row in rows if row not in ("test", "---"))
