"""Rules of the older API: source that it refuses, or gives another meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from neuroncore.lint.inference import Scope
from neuroncore.lint.nodes import name_of
from neuroncore.lint.releases import ROLES
from neuroncore.lint.syntax import argument
from neuroncore.lint.walk import Rules, Spot, Told

RULES = Rules()


@RULES.about(ast.Call)
def allocations(spot: Spot) -> Iterator[Told]:
    """Report tensors that programs share and that are made in a loop."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Call) or not spot.nested:
        return
    called = scope.scope_of(node.func)
    calls = [(scope, node)] if called is None else [(called, one) for one in called.of(ast.Call)]
    if any(_is_shared(*one) for one in calls):
        yield "SHARED_HBM_IN_LOOP", node, f"{ast.unparse(node)} is in a loop"


def _is_shared(scope: Scope, call: ast.Call) -> bool:
    """Return whether a call makes a tensor in memory that programs share."""
    buffer = argument(call, 2, "buffer")
    if buffer is None or scope.api(call.func) not in ROLES["allocations"]:
        return False
    memory = ROLES["memories"].get(scope.api(scope.stands_for(buffer)))
    return bool(memory == ROLES["result_memory"])


@RULES.about(ast.AugAssign, ast.Assign)
def counters(spot: Spot) -> Iterator[Told]:
    """Report numbers that are counted up in a loop, and read after it: the compiler runs the body
    once. Published kernels count addresses this way for use within the loop."""
    node, scope = spot.node, spot.scope
    name = _counted(node) if spot.traced else ""
    if not name:
        return
    bound = scope.bindings.get(name, [])
    starts = [one for how, one in bound if how == "is" and isinstance(one, ast.Constant)]
    plain = all(how == "is" and isinstance(one, ast.Constant | ast.BinOp) for how, one in bound)
    if starts and plain and _is_read_behind(scope, name, spot.traced[-1]):
        message = f"{name} is incremented in a loop that is traced once"
        yield "COUNTER_IN_TRACED_LOOP", node, message


def _counted(node: ast.AST) -> str:
    """Return the name that a statement adds to."""
    match node:
        case ast.AugAssign(target=ast.Name(name)):
            return name
        case ast.Assign(targets=[ast.Name(name)], value=ast.BinOp(left=left, right=right)):
            return name if name in (name_of(left), name_of(right)) else ""
    return ""


def _is_read_behind(scope: Scope, name: str, loop: ast.For) -> bool:
    end = loop.end_lineno or loop.lineno
    named = (one for one in scope.nodes if isinstance(one, ast.Name) and one.id == name)
    return any(isinstance(one.ctx, ast.Load) and one.lineno > end for one in named)


@RULES.about(ast.Subscript)
def indexing(spot: Spot) -> Iterator[Told]:
    """Report slices that are combined with index expressions."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        sliced = any(isinstance(one, ast.Slice) and (one.lower or one.upper) for one in parts)
        if sliced and any(_is_expression(scope, one) for one in parts):
            yield "MIXED_INDEXING", node, f"{ast.unparse(node)} mixes slices and index expressions"


def _is_expression(scope: Scope, node: ast.expr) -> bool:
    return scope.value(node).kind == "indices"
