"""Nodes of a file's tree, and which stand in which. All files that a kernel calls are gone through,
so what stands here is asked of each node of them."""

from __future__ import annotations

import ast

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CLOSED = frozenset((*DEFINITIONS, ast.Lambda))  # whose names are their own
# fields of nodes that hold no nodes, or signs such as `+`
PLAIN = {
    *("ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "module"),
    *("level", "simple", "is_async", "conversion", "rest", "kwd_attrs"),
}


INNER = {  # of each kind of nodes, the fields in which others stand
    kind: tuple(one for one in kind._fields if one not in PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
INNER[ast.Constant] = INNER[ast.MatchSingleton] = ()
OUTER = {kind: fields[::-1] for kind, fields in INNER.items()}  # from the last to the first


def children(node: ast.AST) -> list[ast.AST]:
    """What stands in a node, in the order of the source, without signs and names of imports."""
    found: list[ast.AST] = []
    for name in INNER[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += value if None not in value else [one for one in value if one is not None]
        elif value is not None:
            found.append(value)
    return found


def inside(node: ast.AST) -> list[ast.AST]:
    """A node and all that are in it, each before those in it."""
    return _below([node], frozenset())


def nested(node: ast.AST) -> list[ast.AST]:
    """All nodes in a node, but those of functions and classes that are defined in it."""
    return _below(children(node)[::-1], CLOSED)


def _below(left: list[ast.AST], closed: frozenset[type[ast.AST]]) -> list[ast.AST]:
    """Nodes, given from the last to the first, and those in them, but not in closed ones."""
    found: list[ast.AST] = []
    while left:
        node = left.pop()
        found.append(node)
        kind = type(node)
        if kind in closed:
            continue
        for name in OUTER[kind]:
            value = getattr(node, name, None)
            if type(value) is list:
                left += value[::-1] if None not in value else [one for one in value[::-1] if one]
            elif value is not None:
                left.append(value)
    return found


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements and those in them, also of functions."""
    found: list[ast.stmt] = []
    for one in body:
        found.append(one)
        for name in ("body", "orelse", "finalbody"):
            found += statements(getattr(one, name, []))
        for block in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            found += statements(block.body)
    return found


def name_of(expression: ast.AST) -> str | None:
    """`a.b.c` of attributes of a name; None for anything else."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        inner = name_of(expression.value)
        return None if inner is None else f"{inner}.{expression.attr}"
    return None
