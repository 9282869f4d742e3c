"""Small changes of a module's functions, one at a time: what a test should notice.

A mutation changes one place of a syntax tree: a comparison, a sign, a bound, a condition, a call
that is left out. Texts of errors, annotations, asserts and what stands outside of functions stay as
they are.
"""

import ast
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType
from typing import NamedTuple

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE,), ast.LtE: (ast.Lt,), ast.Gt: (ast.GtE,), ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "nsmallest": "nlargest",
    "nlargest": "nsmallest",
}  # fmt: skip
LEFT_OUT = (ast.Expr, ast.AugAssign)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutation(NamedTuple):
    """One change, and the module with it."""

    line: int
    before: str
    after: str
    code: CodeType

    def __str__(self) -> str:
        """Return the change, on a line."""
        return f"{self.line}: {self.before} -> {self.after}"


def count(source: str) -> int:
    """Return how many mutations a module has."""
    return sum(1 for _ in _places(ast.parse(source)))


def mutation(source: str, filename: str, number: int) -> Mutation:
    """Return one mutation of a module, by its number."""
    tree = ast.parse(source)
    node, change = next(islice(_places(tree), number, None))
    line, before = node.lineno, _said(node)
    after = change()
    return Mutation(line, before, after, compile(ast.fix_missing_locations(tree), filename, "exec"))


Place = tuple[ast.expr | ast.stmt, Callable[[], str]]
"""A node, and what changes it and says what has become of it."""


def _places(tree: ast.Module) -> Iterator[Place]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.Module):
            for child in node.body:
                if isinstance(child, FUNCTIONS):
                    yield from _of_body(child.body)


def _of_body(body: list[ast.stmt]) -> Iterator[Place]:
    for number, statement in enumerate(body):
        if isinstance(statement, ast.Assert) or _is_text(statement):
            continue
        if isinstance(statement, LEFT_OUT):
            yield statement, _left_out(body, number)
        yield from _of(statement)


def _of(node: ast.AST) -> Iterator[Place]:
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield from ((node, change) for change in _changes(node))
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        children = value if isinstance(value, list) else [value]
        if children and isinstance(children[0], ast.stmt):
            yield from _of_body(children)
            continue
        for child in children:
            if isinstance(child, ast.AST):
                yield from _of(child)


def _changes(node: ast.AST) -> Iterator[Callable[[], str]]:  # noqa: C901 - one branch a kind of node
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARED[type(op)]:
                yield _set(node, "ops", [other()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in SIGNS:
            yield _set(node, "op", SIGNS[type(op)]())
        case ast.BoolOp(op=op):
            yield _set(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.Constant(value=bool() as value):
            yield _set(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield _set(node, "value", value + 1)
        case ast.Name(id=name) if name in NAMES:
            yield _set(node, "id", NAMES[name])
        case ast.If() | ast.IfExp() | ast.While():
            yield _set(node, "test", ast.UnaryOp(ast.Not(), node.test), node.test)
        case ast.comprehension(ifs=[_, *_]):
            yield _set(node, "ifs", [])
        case ast.List(elts=[_, *rest], ctx=ast.Load()):
            yield _set(node, "elts", rest)
        case ast.Break():
            yield _set(node, "__class__", ast.Continue)


def _set(
    node: ast.AST, field: str, value: object, shown: ast.AST | None = None
) -> Callable[[], str]:
    def change() -> str:
        setattr(node, field, value)
        return f"not ({ast.unparse(shown)})" if shown is not None else _said(node)

    return change


def _left_out(body: list[ast.stmt], number: int) -> Callable[[], str]:
    def change() -> str:
        body[number] = ast.Pass()
        return "left out"

    return change


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _said(node: ast.AST) -> str:
    """Return a node as a line; of what holds other statements, its condition."""
    shown = node.test if isinstance(node, ast.If | ast.While) else node
    return " ".join(ast.unparse(shown).split())[:100]
