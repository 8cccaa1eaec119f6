"""Functions that visit the nodes of a syntax tree, and functions that read numbers, sizes,
arguments of calls, and bindings of names. Visiting must be fast, because it visits each node of all
checked files."""

from __future__ import annotations

import ast
from collections.abc import Sequence

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CLOSED = frozenset((*DEFINITIONS, ast.Lambda))  # nodes that open a new scope of names
# fields that contain no nodes, or only operators such as `+`
PLAIN = {
    *("ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "module"),
    *("level", "simple", "is_async", "conversion", "rest", "kwd_attrs"),
}


INNER = {  # for each kind of node, the fields that contain other nodes
    kind: tuple(field for field in kind._fields if field not in PLAIN)
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
            nodes += value if None not in value else [child for child in value if child is not None]
        elif value is not None:
            nodes.append(value)
    return nodes


def inside(node: ast.AST) -> list[ast.AST]:
    """Return a node and all nodes below it in the syntax tree, each before its children."""
    return _below([node], frozenset())


def nested(node: ast.AST) -> list[ast.AST]:
    """Return all nodes below a node, without the nodes inside functions, classes and lambdas."""
    return _below(children(node)[::-1], CLOSED)


def _below(pending: list[ast.AST], closed: frozenset[type[ast.AST]]) -> list[ast.AST]:
    """Return the nodes in `pending` and all nodes below them, in source order.

    `pending`: a stack with the first node last; it is empty afterwards
    `closed`: types of nodes that are not entered"""
    nodes: list[ast.AST] = []
    while pending:
        node = pending.pop()
        nodes.append(node)
        kind = type(node)
        if kind in closed:
            continue
        for name in OUTER[kind]:
            value = getattr(node, name, None)
            if type(value) is list:
                pending += (
                    value[::-1] if None not in value else [child for child in value[::-1] if child]
                )
            elif value is not None:
                pending.append(value)
    return nodes


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of `body` and all statements inside them, also inside functions."""
    listed: list[ast.stmt] = []
    for statement in body:
        listed.append(statement)
        for name in ("body", "orelse", "finalbody"):
            listed += statements(getattr(statement, name, []))
        for block in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            listed += statements(block.body)
    return listed


def name_of(expression: ast.AST) -> str | None:
    """Return the dotted name that an expression is, such as "a.b.c"; None for other expressions."""
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
    """Return the argument that a call passes at `position` or as the keyword `name`, or None."""
    if position < len(call.args):
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def given_to(call: ast.Call, parameters: ast.arguments, name: str) -> ast.expr | None:
    """Return the argument of a call for the parameter `name`, or its default; None if unknown."""
    if any(isinstance(value, ast.Starred) for value in call.args) or None in _named(call):
        return None
    positional = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
    if by_name:
        return by_name[0]
    if name in positional and positional.index(name) < len(call.args):
        return call.args[positional.index(name)]
    return default_of(parameters, name)


def _named(call: ast.Call) -> list[str | None]:
    return [keyword.arg for keyword in call.keywords]


def default_of(parameters: ast.arguments, name: str) -> ast.expr | None:
    """Return the default of a parameter; None if it has none."""
    positional = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    defaults = positional[len(positional) - len(parameters.defaults) :]
    named = [parameter.arg for parameter in parameters.kwonlyargs]
    by_name = {**dict(zip(defaults, parameters.defaults, strict=True))}
    by_name |= {
        key: default for key, default in zip(named, parameters.kw_defaults, strict=True) if default
    }
    return by_name.get(name)


def literal(node: ast.expr | None) -> int | None:
    """Return the value of an integer literal, or of literals with +, -, *, ** and <<; None for
    others."""
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
    """Return the shape that an index of slices without a step selects, with None for unknown sizes.
    Return None for other indices.

    `whole`: the shape of the indexed tensor, for slices without an end"""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    axes = whole if whole is not None and len(whole) == len(parts) else (None,) * len(parts)
    counts: list[int | None] = []
    for part, size in zip(parts, axes, strict=True):
        if not isinstance(part, ast.Slice) or part.step is not None:
            return None
        first = 0 if part.lower is None else literal(part.lower)
        last = size if part.upper is None else literal(part.upper)
        known = first is not None and last is not None and 0 <= first <= last
        counts.append(last - first if known else None)  # type: ignore[operator]
    return tuple(counts)


def numbers(parts: Sequence[ast.expr]) -> Shape:
    """Return the shape that these expressions state, with None for unknown numbers."""
    literals = [literal(part) for part in parts]
    return tuple(None if size is None or size < 0 else size for size in literals)


def shape_of_view(call: ast.Call) -> Shape | None:
    """Return the shape of tensor.reshape(shape) or tensor.ap(pattern); None if the source does not
    state it, and for other calls."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    shape = argument(call, 0, {"reshape": "shape", "ap": "pattern"}.get(method, ""))
    if method not in ("reshape", "ap") or not isinstance(shape, ast.Tuple | ast.List):
        return None
    if method == "reshape":
        return numbers(shape.elts)
    pairs = [pair.elts for pair in shape.elts if isinstance(pair, ast.Tuple | ast.List)]
    if len(pairs) != len(shape.elts) or any(len(pair) != 2 for pair in pairs):
        return None
    return numbers([count for _, count in pairs])


def bindings(nodes: Sequence[ast.AST]) -> dict[str, list[tuple[str, ast.expr]]]:
    """Return the bindings of each name, or attribute such as "a.b". A binding is (word,
    expression):

    * "is": the name has the value of the expression;
    * "each": the name has the values of its elements, one after the other;
    * "part": the name has some other value that comes from the expression."""
    bound_to: dict[str, list[tuple[str, ast.expr]]] = {}

    def bind(target: ast.expr, how: str, source: ast.expr) -> None:
        if (name := name_of(target)) is not None:
            bound_to.setdefault(name, []).append((how, source))
        elif isinstance(target, ast.Starred):
            bind(target.value, "part", source)
        elif isinstance(target, ast.Tuple | ast.List):
            pairs = how == "is" and isinstance(source, ast.Tuple | ast.List)
            same = pairs and len(source.elts) == len(target.elts)  # type: ignore[attr-defined]
            for number, part in enumerate(target.elts):
                if same:
                    bind(part, "is", source.elts[number])  # type: ignore[attr-defined]
                else:
                    bind(part, "part", source)

    shared: set[str] = set()
    for node in nodes:
        match node:
            case ast.Global() | ast.Nonlocal():
                shared.update(node.names)
            case ast.Assign():
                for target in node.targets:
                    bind(target, "is", node.value)
            case ast.AnnAssign(value=ast.expr() as value):
                bind(node.target, "is", value)
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
