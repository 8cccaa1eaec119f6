"""Nodes of a file's syntax tree, and values that the source states directly: numbers, sizes,
arguments of calls, bindings of names.

The functions that visit nodes must be fast: they run for each node of all files that a kernel
calls.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CLOSED = frozenset((*DEFINITIONS, ast.Lambda))  # nodes that have their own names
# fields that contain no nodes, or only operators such as `+`
PLAIN = {
    *("ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "module"),
    *("level", "simple", "is_async", "conversion", "rest", "kwd_attrs"),
}


INNER = {  # for each kind of node, the fields that contain other nodes
    kind: tuple(one for one in kind._fields if one not in PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
INNER[ast.Constant] = INNER[ast.MatchSingleton] = ()
OUTER = {kind: fields[::-1] for kind, fields in INNER.items()}  # the same fields in reverse order


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
    """Return all nodes in a node, except those in functions and classes that are defined in it."""
    return _below(children(node)[::-1], CLOSED)


def _below(left: list[ast.AST], closed: frozenset[type[ast.AST]]) -> list[ast.AST]:
    """Return the nodes in `left`, and the nodes in them, in source order. `left` is in reverse
    order. Nodes inside a node of a type in `closed` are left out."""
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


Shape = tuple[int | None, ...]
BINDING = (
    *(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.For, ast.comprehension),
    *(ast.withitem, ast.FunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal),
)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return an argument of a call, by its position or its name."""
    if position < len(call.args):
        return call.args[position]
    return next((one.value for one in call.keywords if one.arg == name), None)


def given_to(call: ast.Call, parameters: ast.arguments, name: str) -> ast.expr | None:
    """Return the argument that a call passes for a parameter, or its default; None if unknown."""
    if any(isinstance(one, ast.Starred) for one in call.args) or None in _named(call):
        return None
    positional = [one.arg for one in (*parameters.posonlyargs, *parameters.args)]
    by_name = [one.value for one in call.keywords if one.arg == name]
    if by_name:
        return by_name[0]
    if name in positional and positional.index(name) < len(call.args):
        return call.args[positional.index(name)]
    return default_of(parameters, name)


def _named(call: ast.Call) -> list[str | None]:
    return [one.arg for one in call.keywords]


def default_of(parameters: ast.arguments, name: str) -> ast.expr | None:
    """Return the default of a parameter, if it has one."""
    positional = [one.arg for one in (*parameters.posonlyargs, *parameters.args)]
    defaults = positional[len(positional) - len(parameters.defaults) :]
    named = [one.arg for one in parameters.kwonlyargs]
    by_name = {**dict(zip(defaults, parameters.defaults, strict=True))}
    by_name |= {key: one for key, one in zip(named, parameters.kw_defaults, strict=True) if one}
    return by_name.get(name)


def literal(node: ast.expr | None) -> int | None:
    """Return an integer that the source states, also as a sum, a product or a power of literals."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            operand = literal(inner)
            return None if operand is None else -operand
        case ast.BinOp(left=left, op=op, right=right):
            return _folded(literal(left), op, literal(right))
    return None


def _folded(left: int | None, op: ast.operator, right: int | None) -> int | None:
    if left is None or right is None or max(abs(left), abs(right)) >= 1 << 64:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.LShift() if 0 <= right < 128:
            return left << right
        case ast.Pow() if 0 <= right < 128 and abs(left) < 4096:
            return int(left**right)
    return None


def sizes(index: ast.expr, whole: Shape | None = None) -> Shape | None:
    """Return the number of elements that an index takes from each axis, if it consists of slices
    with literal numbers; else None. `whole` is the shape of the tensor, for slices without an
    end."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    axes = whole if whole is not None and len(whole) == len(parts) else (None,) * len(parts)
    counts: list[int | None] = []
    for one, size in zip(parts, axes, strict=True):
        if not isinstance(one, ast.Slice) or one.step is not None:
            return None
        first = 0 if one.lower is None else literal(one.lower)
        last = size if one.upper is None else literal(one.upper)
        known = first is not None and last is not None and 0 <= first <= last
        counts.append(last - first if known else None)  # type: ignore[operator]
    return tuple(counts)


def numbers(parts: Sequence[ast.expr]) -> Shape:
    """Return a shape, with None for each part that is not a literal number."""
    literals = [literal(one) for one in parts]
    return tuple(None if one is None or one < 0 else one for one in literals)


def shape_of_view(call: ast.Call) -> Shape | None:
    """Return the shape of tensor.reshape(shape) or tensor.ap(pattern), if the source states it."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    shape = argument(call, 0, {"reshape": "shape", "ap": "pattern"}.get(method, ""))
    if method not in ("reshape", "ap") or not isinstance(shape, ast.Tuple | ast.List):
        return None
    if method == "reshape":
        return numbers(shape.elts)
    pairs = [one.elts for one in shape.elts if isinstance(one, ast.Tuple | ast.List)]
    if len(pairs) != len(shape.elts) or any(len(one) != 2 for one in pairs):
        return None
    return numbers([count for _, count in pairs])


def bindings(nodes: Sequence[ast.AST]) -> dict[str, list[tuple[str, ast.expr]]]:
    """Return, for each name that a function binds (also an attribute, such as "a.b"), its bindings.
    A binding is a pair of a word and an expression: with "is" the name has the value of the
    expression; with "each" the value of one of its elements in turn; with "part" something else
    that comes from the expression."""
    bound_to: dict[str, list[tuple[str, ast.expr]]] = {}

    def bind(target: ast.expr, how: str, source: ast.expr) -> None:
        if (name := name_of(target)) is not None:
            bound_to.setdefault(name, []).append((how, source))
        elif isinstance(target, ast.Starred):
            bind(target.value, "part", source)
        elif isinstance(target, ast.Tuple | ast.List):
            pairs = how == "is" and isinstance(source, ast.Tuple | ast.List)
            same = pairs and len(source.elts) == len(target.elts)  # type: ignore[attr-defined]
            for number, one in enumerate(target.elts):
                if same:
                    bind(one, "is", source.elts[number])  # type: ignore[attr-defined]
                else:
                    bind(one, "part", source)

    shared: set[str] = set()
    for node in nodes:
        match node:
            case ast.Global() | ast.Nonlocal():
                shared.update(node.names)
            case ast.Assign():
                for target in node.targets:
                    bind(target, "is", node.value)
            case ast.AnnAssign(value=ast.expr() as given):
                bind(node.target, "is", given)
            case ast.NamedExpr():
                bind(node.target, "is", node.value)
            case ast.AugAssign():
                bind(node.target, "is", ast.BinOp(_loaded_name(node.target), node.op, node.value))
            case ast.For():
                bind(node.target, "each", node.iter)
            case ast.comprehension():
                bind(node.target, "each", node.iter)
            case ast.withitem(optional_vars=ast.expr() as name):
                bind(name, "part", node.context_expr)
            case ast.FunctionDef() | ast.ClassDef():
                bound_to.setdefault(node.name, []).append(("part", ast.Constant(None)))
    return {name: bound for name, bound in bound_to.items() if name not in shared}


def _loaded_name(target: ast.expr) -> ast.expr:
    return ast.Name(target.id) if isinstance(target, ast.Name) else target
