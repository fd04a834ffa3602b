"""Break each line of the pure money modules, one at a time, and see whether a test notices.

A mutant is the module with one small fault in it. The module's own tests run against it in a
process of its own; a mutant that no test notices has survived. Below 90 % noticed in any module,
the proof fails. At scale 1 a sample of each module's mutants is tried, the same one every time; at
a large scale all are.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import random
import resource
import sys
import time
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest
from proof.mutating import Mutant, mutants

HOME = Path(__file__).parents[1]
SRC = HOME / "src" / "stoker"
SAMPLE = 40  # mutants of each module, at scale 1
ENOUGH = 0.90
MODULES = {  # each money module, and the tests that must notice its mutants
    "budgets.caps": ("budgets/test_caps.py", "budgets/test_default_caps.py"),
    "budgets.windows": ("budgets/test_windows.py",),
    "budgets.reservations": (
        "budgets/test_reservations.py",
        "budgets/test_total_changes.py",
        "budgets/test_gate.py",
    ),
    "budgets.ledger_entries": (
        "budgets/test_ledger_entries.py",
        "budgets/test_replay.py",
        "budgets/test_operator_settings.py",
    ),
    "budgets.charges": ("budgets/test_charges.py", "budgets/test_gate.py"),
    "budgets.statements": ("budgets/test_statements.py", "budgets/test_run_cost.py"),
    "rate_limits.rate_limit": (
        "rate_limits/test_fairness.py",
        "rate_limits/test_rate.py",
        "rate_limits/test_rate_limit.py",
    ),
    "base.text": ("base/test_text.py",),
    "ledger.query": ("ledger/test_query.py",),
}
_FAST_PATH = "a call that is not let go here is let go by the same rule in `_acquire_in_order`"
_SAME_ROUNDS = "rounds are skipped at another time, or walked through; they come to the same"
EQUIVALENT = {  # by line and change: mutants that behave in no other way, and why
    (
        "id: str = field(init=False, repr=False, compare=False)",
        "False  →  True",
    ): "what it is made of is compared already, and how it is shown is nobody's promise",
    (
        "interval: timedelta = field(init=False, repr=False, compare=False)",
        "False  →  True",
    ): "what it is made of is compared already, and how it is shown is nobody's promise",
    (
        "slack: timedelta = field(init=False, repr=False, compare=False)",
        "False  →  True",
    ): "what it is made of is compared already, and how it is shown is nobody's promise",
    (
        "if self.raised_to is not None and self.raised_until is not None:",
        "self.raised_to is not None and self.raised_until is not None  →  "
        "self.raised_to is not None or self.raised_until is not None",
    ): "the line before has made sure that both are given or neither; one is for the types",
    (
        "if change.raised_to is not None and change.raised_until is not None:",
        "change.raised_to is not None and change.raised_until is not None  →  "
        "change.raised_to is not None or change.raised_until is not None",
    ): "a change has both or neither, or it would not have been made; one is for the types",
    (
        'TenantT = TypeVar("TenantT", bound=Hashable)',
        "'TenantT'  →  'TenantT!'",
    ): "a name for type checkers",
    ('ItemT = TypeVar("ItemT")', "'ItemT'  →  'ItemT!'"): "a name for type checkers",
    ("passed = 0", "0  →  1"): _SAME_ROUNDS,
    ("passed = 0", "0  →  -1"): _SAME_ROUNDS,
    ("passed += 1", "1  →  2"): _SAME_ROUNDS,
    (
        "if passed == len(self._round):",
        "passed == len(self._round)  →  passed != len(self._round)",
    ): _SAME_ROUNDS,
    ("rounds = min(short) - 1", "1  →  2"): _SAME_ROUNDS,
    (
        "return _compute_timed_window(kind, moment.replace(microsecond=0), reset)",
        "0  →  1",
    ): "windows begin at whole seconds, so any part of a second is in the same one",
    ("if due - self._slack <= now:", "due - self._slack  →  due + self._slack"): _FAST_PATH,
    (
        "if due - self._slack <= now:",
        "due - self._slack <= now  →  due - self._slack < now",
    ): _FAST_PATH,
    (
        "POLL_INTERVAL = timedelta(milliseconds=25)  # there is no notification of a free slot",
        "25  →  24",
    ): "how often a free slot is looked for is no promise",
    (
        "POLL_INTERVAL = timedelta(milliseconds=25)  # there is no notification of a free slot",
        "25  →  26",
    ): "how often a free slot is looked for is no promise",
    ("self._waiting += 1", "1  →  2"): _FAST_PATH,
    ("self._numbers = count(1)", "1  →  2"): "numbers of slots only differ from each other",
    (
        'if value[:1] in _HARMLESS and "\0" not in value:',
        "1  →  0",
    ): "a shortcut: the lines below come to the same",
}


class _Hurry:
    """Looks for the first failure only: plain examples first, and no search for a simpler one."""

    def pytest_collection(self) -> None:
        hypothesis.settings.register_profile(
            "mutants",
            deadline=None,
            database=None,
            derandomize=True,
            max_examples=50,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: hasattr(getattr(item, "obj", None), "hypothesis"))


def _path(module: str) -> Path:
    return SRC / f"{module.replace('.', '/')}.py"


def _load(module: str, tree: ast.Module) -> None:
    """Put a mutant in its module's place before anything imports it."""
    name = f"stoker.{module}"
    room, _, leaf = module.rpartition(".")
    spec = importlib.util.find_spec(name)
    assert spec is not None
    loaded: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    setattr(sys.modules[f"stoker.{room}"], leaf, loaded)
    exec(compile(tree, str(_path(module)), "exec"), loaded.__dict__)


def _try(module: str, tree: ast.Module, *, limit: int) -> int:
    """Start the module's tests against this tree in a process of its own; return its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    verdict = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(HOME)
        # In seconds of computing, not of waiting: a busy machine must not notice what tests do not.
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        _load(module, tree)
        tests = [str(HOME / "tests" / test) for test in MODULES[module]]
        quiet = ["-x", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly"]
        verdict = int(pytest.main([*quiet, *tests], plugins=[_Hurry()]))
    finally:
        os._exit(verdict)


def _outcomes(
    module: str, trees: list[ast.Module], *, limit: int
) -> tuple[list[bool], list[float]]:
    """Return for each tree whether all tests passed, and how many seconds they computed.

    Tests that do not end within the limit have noticed something.
    """
    passed, took = [False] * len(trees), [0.0] * len(trees)
    running: dict[int, int] = {}
    waiting = list(enumerate(trees))[::-1]
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            place, tree = waiting.pop()
            running[_try(module, tree, limit=limit)] = place
        for child, place in list(running.items()):
            done, status, used = os.wait4(child, os.WNOHANG)
            if done:
                passed[place] = os.waitstatus_to_exitcode(status) == 0
                took[place] = used.ru_utime + used.ru_stime
                del running[child]
        time.sleep(0.01)
    return passed, took


def survivors(module: str, sample: int) -> tuple[int, list[Mutant]]:
    """Return how many mutants of a module were tried, and those that no test noticed."""
    source = _path(module).read_text()
    there = mutants(source, module=module, equivalent=EQUIVALENT)
    tried = there if sample >= len(there) else random.Random(0).sample(there, sample)
    [sound], [usual] = _outcomes(module, [ast.parse(source)], limit=600)
    if not sound:
        raise AssertionError(f"the tests of {module} fail without any mutant; make them pass first")
    passed, _ = _outcomes(module, [one.tree for one in tried], limit=5 + int(3 * usual))
    return len(tried), [one for one, unnoticed in zip(tried, passed, strict=True) if unnoticed]


def main(scale: float = 1.0) -> int:
    """Print each module's score with n, and the survivors; return how many fall short."""
    short = 0
    for module in MODULES:
        tried, living = survivors(module, max(1, int(SAMPLE * scale)))
        score = 1 - len(living) / tried
        short += score < ENOUGH
        print(f"{module:<16} n={tried:<4} noticed {score:6.1%}", flush=True)
        for one in sorted(living, key=lambda one: one.line):
            print(f"    survived: {one}")
    return short


if __name__ == "__main__":
    asked, *modules = sys.argv[1:] or ["1"]  # a scale, and the modules to try if not all
    MODULES = {name: MODULES[name] for name in modules} or MODULES
    sys.exit(1 if main(float(asked)) else 0)
