"""Break each line of the pure money modules, one at a time, and see whether a test notices.

A mutant is the module with one small fault in it. The module's own tests run against it in a
process of its own; a mutant that no test notices has survived. Texts of raised errors are left
alone, and so are type annotations, decorators and docstrings: they decide nothing. Below 90 %
noticed in any module, the proof fails. At scale 1 a sample of each module's mutants is tried, the
same one every time; at a large scale all are.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

HOME = Path(__file__).parents[1]
CORE = HOME / "src" / "stoker" / "core"
SAMPLE = 40  # mutants of each module, at scale 1
ENOUGH = 0.90
MODULES = (
    "caps",
    "budget",
    "budget_windows",
    "holds",
    "limits",
    "fairness",
    "money_notes",
    "replaying",
)
EQUIVALENT: dict[tuple[str, str], str] = {}

_FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
_OTHER_NAME = {"max": "min", "min": "max", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is, what it changed, and the whole module with it."""

    module: str
    line: int
    change: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line}  {self.change}"


def mutants(module: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    tree = ast.parse((CORE / f"{module}.py").read_text())
    found = []
    for path, node in _decisions(tree, ()):
        for broken in _broken(node, in_error=_in_error(tree, path)):
            mutated = _with(tree, path, broken)
            change = f"{_text(node)}  →  {_text(broken)}"
            line = getattr(node, "lineno", 0)
            found.append(Mutant(module=module, line=line, change=change, tree=mutated))
    return [one for one in found if (module, one.change) not in EQUIVALENT]


Path_ = tuple[tuple[str, int | None], ...]


def _decisions(node: ast.AST, path: Path_) -> Iterator[tuple[Path_, ast.AST]]:
    """Yield every node that can decide something, with the way to it."""
    yield path, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
            continue
        if isinstance(value, ast.AST):
            yield from _decisions(value, (*path, (name, None)))
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, ast.AST) and not _says_nothing(item):
                    yield from _decisions(item, (*path, (name, place)))


def _says_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets)
    return False


def _at(tree: ast.AST, path: Path_) -> ast.AST:
    for name, place in path:
        value = getattr(tree, name)
        tree = value if place is None else value[place]
    return tree


def _in_error(tree: ast.Module, path: Path_) -> bool:
    return any(isinstance(_at(tree, path[:end]), ast.Raise) for end in range(len(path)))


def _with(tree: ast.Module, path: Path_, broken: ast.AST) -> ast.Module:
    copied = deepcopy(tree)
    (name, place), above = path[-1], _at(copied, path[:-1])
    if place is None:
        setattr(above, name, broken)
    else:
        getattr(above, name)[place] = broken
    return ast.fix_missing_locations(copied)


def _text(node: ast.AST) -> str:
    return ast.unparse(node).replace("\n", " ; ")[:110]


def _broken(node: ast.AST, *, in_error: bool) -> Iterator[ast.AST]:
    """Yield this node with each fault it can have."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for place, op in enumerate(ops):
                for other in _FLIPPED.get(type(op), ()):
                    changed = [*ops[:place], other(), *ops[place + 1 :]]
                    yield ast.Compare(left, changed, others)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SWAPPED:
            yield ast.BinOp(left, _SWAPPED[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value):
            if type(op) in _SWAPPED:
                yield ast.AugAssign(target, _SWAPPED[type(op)](), value)
            yield ast.Pass()
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value) if not in_error:
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=str() as value) if not in_error:
            yield ast.Constant(f"{value}!" if value else "!")
        case ast.Name(id=name, ctx=ast.Load()) if name in _OTHER_NAME:
            yield ast.Name(_OTHER_NAME[name], ast.Load())
        case ast.If(test=test, body=body, orelse=orelse) if not isinstance(test, ast.Compare):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Return(value=ast.AST() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Continue():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


class _Hurry:
    """Looks for the first failure only: plain examples first, and no search for a simpler one."""

    def pytest_collection(self) -> None:
        hypothesis.settings.register_profile(
            "mutants",
            deadline=None,
            database=None,
            derandomize=True,
            max_examples=80,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: hasattr(getattr(item, "obj", None), "hypothesis"))


def _load(module: str, tree: ast.Module) -> None:
    """Put a mutant in its module's place before anything imports it."""
    name = f"stoker.core.{module}"
    spec = importlib.util.find_spec(name)
    assert spec is not None
    loaded: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    setattr(sys.modules["stoker.core"], module, loaded)
    exec(compile(tree, str(CORE / f"{module}.py"), "exec"), loaded.__dict__)


def _try(module: str, tree: ast.Module) -> int:
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
        _load(module, tree)
        test = HOME / "tests" / "core" / f"test_{module}.py"
        quiet = ["-x", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly"]
        verdict = int(pytest.main([*quiet, str(test)], plugins=[_Hurry()]))
    finally:
        os._exit(verdict)


def _survived(child: int, *, limit: float) -> bool:
    """Wait for the tests; say whether they all passed. One that hangs has been noticed."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def survivors(module: str, sample: int) -> tuple[int, list[Mutant]]:
    """Return how many mutants of a module were tried, and those that no test noticed."""
    there = mutants(module)
    tried = there if sample >= len(there) else random.Random(0).sample(there, sample)
    began = time.monotonic()
    whole = ast.parse((CORE / f"{module}.py").read_text())
    if not _survived(_try(module, whole), limit=300):
        raise AssertionError(f"the tests of {module} fail without any mutant; make them pass first")
    limit = 20 + 5 * (time.monotonic() - began)
    living = [one for one in tried if _survived(_try(module, one.tree), limit=limit)]
    return len(tried), living


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
    MODULES = tuple(sys.argv[2:]) or MODULES
    sys.exit(1 if main(float(sys.argv[1]) if sys.argv[1:] else 1.0) else 0)
