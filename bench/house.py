"""How the code is arranged: lines, files per room, names, and modules crossed by three walks.

A walk counts the modules of which a function ran that does something: one with more than two
lines besides its signature and docstring. The walks are one paid search, one company's nightly
run from the scheduler to the CRM, and `stoker pulls plan`.
"""

from __future__ import annotations

import ast
import io
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC, TESTS = ROOT / "src" / "stoker", ROOT / "tests"
ODD = re.compile(r"\b(whoever|somebody|nobody|told|said|anew|heed\w*|reckon\w*)\b", re.IGNORECASE)
FIELD = {  # words of the field that end in -ing
    *[
        "billing",
        "caching",
        "crawling",
        "encoding",
        "logging",
        "pricing",
        "parsing",
        "polling",
        "posting",
        "rating",
    ],
    *[
        "ranking",
        "routing",
        "sampling",
        "scheduling",
        "scoring",
        "setting",
        "spacing",
        "string",
        "testing",
        "timing",
    ],
    *["tracking", "warning", "matching", "mapping", "listing", "pending", "loading"],
}
PARTICIPLE = re.compile(r"_*([a-z]+(?:ed|ing)|told|said|kept|held|taken|made|found)(?:_|$)")
VERBS = {"need", "feed", "speed", "seed", "embed", "string", "ring"}


def count_lines(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def list_functions() -> list[str]:
    return [
        node.name
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("__")
    ]


def is_gerund(path: Path) -> bool:
    return any(
        word.endswith("ing") and word not in FIELD and word.rstrip("s") not in FIELD
        for word in path.stem.split("_")
    )


def is_participle(name: str) -> bool:
    found = PARTICIPLE.match(name)
    return found is not None and found[1] not in VERBS


@cache
def find_working_lines(file: str) -> frozenset[int]:
    """Return the first lines of functions in a file that do something."""
    lines = set()
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body and body[-1].end_lineno - body[0].lineno + 1 > 2:
                lines.add(min([node.lineno, *(each.lineno for each in node.decorator_list)]))
    return frozenset(lines)


class Walk:
    """Records the modules whose functions run while it is on, in every thread."""

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}  # in order

    @contextmanager
    def recording(self):
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def __call__(self, frame, event, _) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(str(SRC)) and frame.f_code.co_firstlineno in find_working_lines(file):
            self.modules[str(Path(file).relative_to(SRC))[:-3]] = None


def run_stoker(*words: str) -> None:
    from stoker.cli.main import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
        code = main([*words])
    if code not in (0, 3):
        raise SystemExit(f"stoker {' '.join(words)} ended with {code}: {errors.getvalue()}")


@contextmanager
def a_tenant_on_the_sandbox():
    """Serve the sandbox; go to a new directory with a tenant that uses it."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "stoker", "sandbox", "serve", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home)
        try:
            address = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline()).group()
            os.environ["STOKER_SANDBOX_ADDRESS"] = address
            os.chdir(home)
            run_stoker("tenants", "add", "acme")
            run_stoker("icp", "set", "--industry", "technology", "--employees", "2-200")
            run_stoker("crm", "connect")
            csv = "http://sandbox.test/registry.csv"
            run_stoker("registry", "import", csv, "--release", "2025-12-31")
            yield
        finally:
            server.terminate()
            server.wait()


def walk_company() -> Walk:
    with Walk().recording() as walk:
        run_stoker("nightly", "--limit", "1")
    return walk


def walk_search() -> Walk:
    """Follow the first search of a nightly run from the question to the settled money."""
    from stoker.vendors.client import VendorClient

    walk, ask = Walk(), VendorClient.ask

    async def ask_recorded(self, source, *args, **options):
        if source.name != "tavily" or walk.modules:
            return await ask(self, source, *args, **options)
        with walk.recording():
            return await ask(self, source, *args, **options)

    VendorClient.ask = ask_recorded
    try:
        run_stoker("nightly", "--limit", "1")
    finally:
        VendorClient.ask = ask
    return walk


def walk_plan() -> Walk:
    run_stoker("heat", "sweep")
    with Walk().recording() as walk:
        run_stoker("pulls", "plan")
    return walk


def measure_processor_ms(*words: str, rounds: int = 5) -> float:
    """Return the least processor time of a command, in milliseconds."""
    stoker, times = str(Path(sys.executable).with_name("stoker")), []
    for _ in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([stoker, *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1000 * min(times[1:])


def main() -> list[tuple[str, str, str, str]]:
    files = Counter(str(path.relative_to(SRC).parent) for path in SRC.rglob("*.py"))
    modules, functions = list(SRC.rglob("*.py")), list_functions()
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    odd = 10_000 * len(ODD.findall(text)) / text.count("\n")
    [(largest, most)] = files.most_common(1)
    gerunds = 100 * sum(map(is_gerund, modules)) / len(modules)
    participles = 100 * sum(map(is_participle, functions)) / len(functions)
    rows = [
        ("lines in src", f"{count_lines(SRC):,}", "58,000", "-"),
        ("lines in tests", f"{count_lines(TESTS):,}", "62,000", "-"),
        (f"files in the largest folder ({largest})", str(most), "15", "-"),
        ("modules named with a gerund", f"{gerunds:.1f} %", "3 %", "-"),
        ("functions named with a participle", f"{participles:.1f} %", "5 %", "-"),
        ("whoever, somebody, told, said … in 10,000 lines", f"{odd:.0f}", "-", "-"),
        (
            "processor time of `stoker --help`",
            f"{measure_processor_ms('--help'):.0f} ms",
            "90",
            "-",
        ),
    ]
    with a_tenant_on_the_sandbox():
        walks = [
            ("a company's nightly run", walk_company(), "30"),
            ("one paid search", walk_search(), "12"),
            ("`stoker pulls plan`", walk_plan(), "12"),
        ]
        listed = measure_processor_ms("runs", "list")
    rows.append(("processor time of `stoker runs list`", f"{listed:.0f} ms", "250", "-"))
    for what, walk, asked in walks:
        rows.append((f"modules crossed by {what}", str(len(walk.modules)), asked, "-"))
        print(f"{what}: {', '.join(walk.modules)}\n", file=sys.stderr)
    return rows


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
