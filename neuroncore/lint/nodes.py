"""Nodes of a file's syntax tree and their children. All files that a kernel calls are visited, so
these functions run for each of their nodes."""

from __future__ import annotations

import ast

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CLOSED = frozenset((*DEFINITIONS, ast.Lambda))  # with separate names
# fields of nodes that hold no nodes, or signs such as `+`
PLAIN = {
    *("ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "module"),
    *("level", "simple", "is_async", "conversion", "rest", "kwd_attrs"),
}


INNER = {  # for each kind of node, the fields that hold other nodes
    kind: tuple(one for one in kind._fields if one not in PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
INNER[ast.Constant] = INNER[ast.MatchSingleton] = ()
OUTER = {kind: fields[::-1] for kind, fields in INNER.items()}  # from the last to the first


def children(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node in source order, without operators and names of imports."""
    nodes: list[ast.AST] = []
    for name in INNER[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            nodes += value if None not in value else [one for one in value if one is not None]
        elif value is not None:
            nodes.append(value)
    return nodes


def inside(node: ast.AST) -> list[ast.AST]:
    """Return a node and all nodes in it, each before its children."""
    return _below([node], frozenset())


def nested(node: ast.AST) -> list[ast.AST]:
    """Return all nodes in a node, without those of functions and classes defined in it."""
    return _below(children(node)[::-1], CLOSED)


def _below(left: list[ast.AST], closed: frozenset[type[ast.AST]]) -> list[ast.AST]:
    """Return nodes and the nodes in them, except in closed ones; `left` is from last to first."""
    nodes: list[ast.AST] = []
    while left:
        node = left.pop()
        nodes.append(node)
        kind = type(node)
        if kind in closed:
            continue
        for name in OUTER[kind]:
            value = getattr(node, name, None)
            if type(value) is list:
                left += value[::-1] if None not in value else [one for one in value[::-1] if one]
            elif value is not None:
                left.append(value)
    return nodes


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements and the statements in them, also in functions."""
    listed: list[ast.stmt] = []
    for one in body:
        listed.append(one)
        for name in ("body", "orelse", "finalbody"):
            listed += statements(getattr(one, name, []))
        for block in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            listed += statements(block.body)
    return listed


def name_of(expression: ast.AST) -> str | None:
    """Return `a.b.c` for attributes of a name; None for anything else."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        inner = name_of(expression.value)
        return None if inner is None else f"{inner}.{expression.attr}"
    return None
