"""One small fault at a time in a module's source: flipped comparisons, swapped signs, lost lines.

Texts of raised errors are left alone, and so are type annotations, decorators and docstrings: they
decide nothing. Whether a test notices is `mutants`' business.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass

Way = tuple[tuple[str, int | None], ...]
"""How to come from a tree to a node in it: field by field, with a place where it is a list."""

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


def mutants(source: str, *, module: str, equivalent: Collection[tuple[str, str]]) -> list[Mutant]:
    """Return every mutant of a module but those known to behave alike, in the order of lines."""
    tree, lines = ast.parse(source), source.splitlines()
    found = []
    for path, node in _decisions(tree, ()):
        for broken in _broken(node, in_error=_in_error(tree, path)):
            mutated = _with(tree, path, broken)
            change = f"{_text(node)}  →  {_text(broken)}"
            line = getattr(node, "lineno", 1)
            if (lines[line - 1].strip(), change) not in equivalent:
                found.append(Mutant(module=module, line=line, change=change, tree=mutated))
    return found


def _decisions(node: ast.AST, path: Way) -> Iterator[tuple[Way, ast.AST]]:
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


def _at(tree: ast.AST, path: Way) -> ast.AST:
    for name, place in path:
        value = getattr(tree, name)
        tree = value if place is None else value[place]
    return tree


def _in_error(tree: ast.Module, path: Way) -> bool:
    return any(isinstance(_at(tree, path[:end]), ast.Raise) for end in range(len(path)))


def _with(tree: ast.Module, path: Way, broken: ast.AST) -> ast.Module:
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
