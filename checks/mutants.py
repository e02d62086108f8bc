"""Small wrong changes of a module, for `make mutate`: operators, numbers, conditions, statements.

Strings, annotations, messages of errors and asserts are left alone.
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Mutant", "mutants_of", "mutate"]

_OPERATORS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
    ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.MatMult: ast.Mult,
}  # fmt: skip
_SKIPPED = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom, ast.arg)
_DECLARATIONS = ("Meta", "Annotated", "TypeVar", "field", "Struct", "Cycles")  # or measurements

Site = tuple[ast.AST, ast.AST, ast.AST]  # a node, one of its children, and what replaces it


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: where it is, what it says, and its place in the order of all changes."""

    path: str
    function: str
    line: int
    change: str
    index: int

    @property
    def name(self) -> str:
        """The change and its function: a name that stays when other code changes."""
        return f"{self.path}: {self.function}: {self.change}"


def mutants_of(path: str, text: str) -> list[Mutant]:
    """Return all changes of a module.

    >>> [one.change for one in mutants_of("a.py", "def f(x: int = 1):\\n    return x < 2\\n")]
    ['1 → 2', 'return x < 2 → return None', 'x < 2 → x <= 2', '2 → 3']
    """
    seen: Counter[str] = Counter()
    found = []
    for index, (function, (_, node, new)) in enumerate(_sites(ast.parse(text), "")):
        change = f"{_short(node)} → {_short(new)}"
        seen[f"{function}: {change}"] += 1
        number = seen[f"{function}: {change}"]
        which = change if number == 1 else f"{change} (#{number})"
        found.append(Mutant(path, function, getattr(node, "lineno", 0), which, index))
    return found


def mutate(text: str, index: int) -> str:
    """Return a module with one change.

    >>> mutate("x = 1 + 2", 0)
    'x = 1 - 2'
    >>> mutate("def f(x=1):\\n    pass", 0).splitlines()[0]
    'def f(x=2):'
    >>> mutate("def f(x):\\n    assert x > 0\\n    return x", 0).splitlines()[1:]
    ['    assert x > 0', '    return None']
    """
    tree = ast.parse(text)
    _replace(*list(_sites(tree, ""))[index][1])
    return ast.unparse(ast.fix_missing_locations(tree))


def _sites(node: ast.AST, function: str) -> Iterator[tuple[str, Site]]:
    """Yield every change inside a node, with the qualified name of its function."""
    for child in _parts(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            between = ".<locals>." if isinstance(node, ast.FunctionDef) else "."
            inner = f"{function}{between}{child.name}" if function else child.name
        for new in _alternatives(child):
            yield inner, (node, child, new)
        yield from _sites(child, inner)


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the children in which something can be changed."""
    if isinstance(node, ast.FunctionDef):
        parts = [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        return [part for part in parts if not isinstance(part, _SKIPPED)]
    if isinstance(node, ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value else []
    if isinstance(node, ast.Raise) or _declares(node):
        return []
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, _SKIPPED)]


def _declares(node: ast.AST) -> bool:
    """Return whether a node states a type or a key, or what a module exports."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    named = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
    is_part = isinstance(node, ast.Call | ast.Subscript)
    return (
        is_part
        and isinstance(named, ast.Name | ast.Attribute)
        and (ast.unparse(named).rpartition(".")[2] in _DECLARATIONS)
    )


def _alternatives(node: ast.AST) -> list[ast.AST]:
    """Return the wrong nodes that can take the place of a node."""
    for kinds, change in _CHANGES:
        if isinstance(node, kinds):
            return change(node)
    return []


def _with_operator(node: Any) -> list[ast.AST]:  # noqa: ANN401 - several kinds of nodes
    if isinstance(node, ast.Compare):
        lists = [
            [*node.ops[:place], _OPERATORS[type(old)](), *node.ops[place + 1 :]]
            for place, old in enumerate(node.ops)
        ]
        return [ast.Compare(node.left, ops, node.comparators) for ops in lists]
    other = copy.copy(node)
    other.op = _OPERATORS[type(node.op)]()
    return [other]


def _with_number(node: ast.Constant) -> list[ast.AST]:
    if isinstance(node.value, bool):
        return [ast.Constant(not node.value)]
    if not isinstance(node.value, int | float):
        return []
    return [ast.Constant(node.value + 1 if node.value + 1 != node.value else 2 * node.value)]


def _with_condition(node: Any) -> list[ast.AST]:  # noqa: ANN401
    if not isinstance(node.test, ast.Name | ast.Attribute | ast.Call) or _declares(node):
        return []  # a comparison inside is changed itself
    other = copy.copy(node)
    other.test = ast.UnaryOp(ast.Not(), node.test)
    return [other]


def _without_value(node: ast.Return) -> list[ast.AST]:
    plain = node.value is None or isinstance(node.value, ast.Constant)
    return [] if plain else [ast.Return(ast.Constant(None))]


def _removed(node: ast.AST) -> list[ast.AST]:
    states = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call)
    names = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple)
    return [] if states or names else [ast.Pass()]


_CHANGES: tuple[tuple[Any, Callable[[Any], list[ast.AST]]], ...] = (
    (ast.Compare | ast.BoolOp | ast.BinOp | ast.AugAssign, _with_operator),
    (ast.UnaryOp, lambda node: [node.operand]),
    (ast.Constant, _with_number),
    (ast.If | ast.While | ast.IfExp, _with_condition),
    (ast.Return, _without_value),
    (ast.Expr | ast.Assign | ast.Raise | ast.Continue | ast.Break | ast.Delete, _removed),
)


def _replace(parent: ast.AST, node: ast.AST, new: ast.AST) -> None:
    if isinstance(parent, ast.FunctionDef):
        _replace(parent.args, node, new)  # a default
    for name, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, name, new)
        elif isinstance(value, list) and any(one is node for one in value):
            setattr(parent, name, [new if one is node else one for one in value])


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:40]} … {text[-25:]}"
