"""Imports point one way: towards the core. And the core touches nothing outside itself."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "stoker"
LAYERS = [  # top to bottom; a module may import only from layers below its own
    {"__main__"},
    {"cli", "testing"},
    {"wiring"},
    {"in_touch"},
    {"pulling"},
    {"nightly", "discovery"},
    {"connecting", "in_force"},
    {"engine", "connectors", "stores", "sandbox", "simulate", "telemetry", "config"},
    {"ports"},
    {"sources", "accounts", "touches", "attention", "listings"},
    {"core"},
    {"errors"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
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


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole way"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(name):
    """The files `config_*.py` are one part with `config.py`: its rooms, not its neighbours."""
    return "config" if name.startswith("config_") else name


def here_of(path):
    return part_of(path.relative_to(SRC).with_suffix("").parts[0])


def wrong_ways(here, tree):
    for name in imports(tree):
        if name == "stoker.__version__" or not name.startswith("stoker."):
            continue
        there = part_of(name.split(".")[1])
        if there != here and RANK[there] <= RANK[here]:
            yield f"{here} must not import {name}"


def clock_readings(tree):
    for node in ast.walk(tree):
        call = node.func if isinstance(node, ast.Call) else None
        if isinstance(call, ast.Attribute) and call.attr in CLOCKS:
            owner = call.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if name in ("datetime", "date"):
                yield f"line {node.lineno} reads the clock"


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def named(paths):
    return [pytest.param(path, id=str(path.relative_to(SRC))) for path in sorted(paths)]


modules = [path for path in SRC.rglob("*.py") if path.name != "__init__.py"]
timeless = [path for part in ("core", "stores") for path in (SRC / part).rglob("*.py")]


@pytest.mark.parametrize("path", named(modules))
def test_imports_point_towards_the_core(path):
    assert list(wrong_ways(here_of(path), parsed(path))) == []


@pytest.mark.parametrize("path", named((SRC / "core").rglob("*.py")))
def test_the_core_touches_nothing_outside_itself(path):
    assert not {name.split(".")[0] for name in imports(parsed(path))} & IMPURE


@pytest.mark.parametrize("path", named(timeless))
def test_the_core_and_the_stores_are_told_the_time(path):
    assert list(clock_readings(parsed(path))) == []


@pytest.mark.parametrize("path", named(modules))
def test_only_wiring_and_the_command_itself_look_at_the_environment(path):
    readers = {"wiring.py", "cli/main.py"}
    looks = [
        node
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    ]

    assert not looks or path.relative_to(SRC).as_posix() in readers


@pytest.mark.parametrize("path", named(modules))
def test_every_module_says_what_it_knows(path):
    assert ast.get_docstring(parsed(path))


def test_no_file_has_a_name_that_means_nothing():
    nothing = {"utils", "helpers", "common", "base", "manager", "misc"}

    assert not {path.stem for path in modules} & nothing


@pytest.mark.parametrize(
    ("here", "line"),
    [
        ("core", "from stoker.ports import Clock"),
        ("core", "import stoker.stores.sqlite"),
        ("stores", "from stoker.engine.running import Runner"),
        ("telemetry", "def f():\n    from stoker.config.settings import Settings"),
        ("config", "from stoker import wiring"),
        ("errors", "from stoker.core.model import Job"),
    ],
)
def test_a_wrong_way_is_seen(here, line):
    assert list(wrong_ways(here, ast.parse(line)))


@pytest.mark.parametrize("line", ["datetime.now(UTC)", "datetime.datetime.utcnow()"])
def test_a_glance_at_the_clock_is_seen(line):
    assert list(clock_readings(ast.parse(line)))
