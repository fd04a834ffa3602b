"""Decisions touch nothing outside themselves. Which way imports point is held by `make check`."""

import ast
import re
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
READ_THE_ENVIRONMENT = {"app", "cli/main", "cli/output"}
ACTS = re.compile(  # modules that may do I/O; every other module is a decision or a value
    r"(service|store|commands.*|setup|json_.*|sqlite.*|postgres.*|delivery|state_file)$"
)
ACT_TOO = {
    "accounts/account_rows",
    "app", "backends/json", "base/cancellation", "base/clock", "base/telemetry", "base/heartbeat",
    "base/process_pool",
    "compat/threads", "compat/touches/scheduler",
    "cli/doctor", "cli/main", "cli/options", "cli/output", "cli/reference", "config/fields",
    "config/sources", "crawl/fetch", "rate_limits/host_delays",
    "crm/export", "crm/odoo", "db/settings",
    "discovery/boards", "discovery/files",
    "discovery/run", "discovery/settings",
    "enrichment/workers",
    "files/durable", "files/export", "http/client",
    "http/pool", "http/resolver", "http/ssrf", "maintenance/erasure", "maintenance/files",
    "nightly/progress",
    "rate_limits/limiter", "rate_limits/rate_limit",
    "registry/download", "registry/files",
    "runs/cancel", "runs/leases", "settings/load", "settings/sandbox",
    "simulation/chart", "simulation/world", "testing",
    "touches/profiles",
    "touches/settings", "vendors/client", "vendors/email_batches",
}  # fmt: skip
NOT_BELOW = {  # what a module of this name may not import of its own room
    "model": {"store", "service", "setup", "commands"},
    "settings": {"store", "service", "setup", "commands"},
    "store": {"service", "setup", "commands"},
    "service": {"commands"},
    "setup": {"commands"},
}
READ_THE_CLOCK = {"base/clock", "cli/output"}
MEANINGLESS = {"utils", "helpers", "common", "manager", "misc"}


def parse_modules():
    """Return the syntax tree of each module by its path; the fake internet is left out."""
    return {
        path.relative_to(SRC).with_suffix("").as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(SRC.rglob("*.py"))
        if path.name != "__init__.py" and path.relative_to(SRC).parts[0] != "sandbox"
    }


@pytest.fixture(scope="module")
def modules():
    return parse_modules()


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


def find_imports_upwards(path, tree):
    room, _, name = path.rpartition("/")
    above = NOT_BELOW.get(name, set())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"stoker.{room}."):
            other = node.module.rpartition(".")[2].partition("_")[0]
            if other in above:
                yield f"{path} imports {node.module}"


def find_faults(modules, find):
    return {path: faults for path, tree in modules.items() if (faults := list(find(tree)))}


def test_decisions_are_pure(modules):
    decisions = {p: tree for p, tree in modules.items() if not ACTS.match(Path(p).name)}
    assert find_faults(decisions, find_impure_imports).keys() == ACT_TOO


def test_the_time_is_an_argument(modules):
    assert find_faults(modules, find_clock_reads).keys() <= READ_THE_CLOCK


def test_only_the_assembly_and_the_command_line_read_the_environment(modules):
    assert find_faults(modules, find_environment_reads).keys() <= READ_THE_ENVIRONMENT


def test_in_a_room_commands_call_services_and_services_call_stores(modules):
    assert [
        fault for path, tree in modules.items() for fault in find_imports_upwards(path, tree)
    ] == []
    assert list(find_imports_upwards("runs/store", ast.parse("from stoker.runs.service import x")))


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
