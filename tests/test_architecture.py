"""Decisions touch nothing outside themselves. Which way imports point is held by `make check`."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "stoker"
IMPURE = {
    "apsw",
    "asyncio",
    "logging",
    "os",
    "pathlib",
    "psycopg",
    "random",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
}
CLOCKS = {"now", "utcnow", "today"}
READ_THE_ENVIRONMENT = {"wiring.py", "cli/main.py"}
MEANINGLESS = {"utils", "helpers", "common", "base", "manager", "misc"}


def parse_modules(*folders):
    """Return the syntax tree of each module in these folders, by its path."""
    return {
        path.relative_to(SRC).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((SRC / folder).rglob("*.py"))
        if path.name != "__init__.py"
    }


@pytest.fixture(scope="module")
def modules():
    return parse_modules("")


def find_impure_imports(tree):
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in IMPURE:
                yield f"line {node.lineno} imports {name}"


def find_clock_reads(tree):
    for node in ast.walk(tree):
        call = node.func if isinstance(node, ast.Call) else None
        if isinstance(call, ast.Attribute) and call.attr in CLOCKS:
            owner = call.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if name in ("datetime", "date"):
                yield f"line {node.lineno} reads the clock"


def find_environment_reads(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
            yield f"line {node.lineno} reads the environment"


def find_faults(modules, find):
    return {path: faults for path, tree in modules.items() if (faults := list(find(tree)))}


def test_decisions_are_pure():
    assert find_faults(parse_modules("core"), find_impure_imports) == {}


def test_decisions_and_stores_get_the_time_as_an_argument():
    assert find_faults(parse_modules("core", "stores"), find_clock_reads) == {}


def test_only_the_assembly_and_the_command_line_read_the_environment(modules):
    assert find_faults(modules, find_environment_reads).keys() <= READ_THE_ENVIRONMENT


def test_every_module_has_a_docstring_and_a_name_that_means_something(modules):
    assert [path for path, tree in modules.items() if not ast.get_docstring(tree)] == []
    assert not {Path(path).stem for path in modules} & MEANINGLESS


@pytest.mark.parametrize(
    ("find", "line"),
    [
        (find_impure_imports, "import os.path"),
        (find_impure_imports, "def f():\n    from asyncio import gather"),
        (find_clock_reads, "datetime.now(UTC)"),
        (find_clock_reads, "datetime.datetime.utcnow()"),
        (find_environment_reads, "os.environ['HOME']"),
    ],
)
def test_what_is_forbidden_is_found(find, line):
    assert list(find(ast.parse(line)))
