"""Every mutant of a module's source: one operator, constant, condition or statement changed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "mutants"]

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
}
_LEFT = (ast.Import, ast.ImportFrom, ast.JoinedStr)
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module.

    Attributes
    ----------
    line
        Where it was changed.
    change
        What, in Python: before and after.
    tree
        The whole module.
    """

    line: int
    change: str
    tree: ast.Module


def mutants(source: str) -> Iterator[Mutant]:
    """Yield every mutant, in the order of the source; annotations, imports and messages stay as they are."""
    tree = ast.parse(source)
    for number, node in enumerate(_code(tree)):
        for other in _others(node):
            changed = copy.deepcopy(tree)
            place = next(one for k, one in enumerate(_code(changed)) if k == number)
            _Replaced(place, other).visit(changed)
            change = f"{_told(node)} -> {_told(other)}"
            yield Mutant(getattr(node, "lineno", 0), change, ast.fix_missing_locations(changed))


def _told(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:80]


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what computes something: no annotations, decorators, imports, and no wording of messages."""
    yield tree
    for name, field in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr) or not isinstance(
                child, ast.AST
            ):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue  # of `zip`: it says that two lists are as long as each other, and computes nothing
            yield from _code(child)


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for kind in _COMPARED.get(type(op), ()):
                yield _with(node, ops=[*node.ops[:at], kind(), *node.ops[at + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        for kind_ in _COMPUTED.get(type(node.op), ()):
            yield _with(node, op=kind_())
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        for at in range(len(node.values)):
            rest = [value for k, value in enumerate(node.values) if k != at]
            yield rest[0] if len(rest) == 1 else _with(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.If | ast.IfExp):
        yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.Constant(False))
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _CALLED:
            changed = copy.deepcopy(node.func)
            setattr(changed, "id" if isinstance(changed, ast.Name) else "attr", _CALLED[name])
            yield _with(node, func=changed)
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield ast.Pass()


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield ast.Constant(node.value * 4 if node.value else 1.0)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


class _Replaced(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, place: ast.AST, other: ast.AST) -> None:
        self._place, self._other = place, other

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the other node for the one that is replaced."""
        return self._other if node is self._place else self.generic_visit(node)
