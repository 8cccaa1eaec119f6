"""What the older API refuses of a kernel's source, or makes something else of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from neuroncore.diagnostics.releases import ROLES
from neuroncore.diagnostics.syntax import argument
from neuroncore.diagnostics.values import Scope
from neuroncore.diagnostics.walk import Rules, Spot, Told

RULES = Rules()


@RULES.about(ast.Call)
def allocations(spot: Spot) -> Iterator[Told]:
    """Tensors that programs share, made in a loop."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Call) and scope.api(node.func) in ROLES["allocations"] and spot.nested:
        given = argument(node, 2, "buffer")
        memory = ROLES["memories"].get(scope.api(given)) if given is not None else None
        if memory == ROLES["result_memory"]:
            yield "SHARED_HBM_IN_LOOP", node, f"{ast.unparse(node)} stands in a loop"


@RULES.about(ast.AugAssign)
def counters(spot: Spot) -> Iterator[Told]:
    """Numbers that are counted up in a loop which Python goes through once, and read behind it.
    Published kernels count addresses so for the loop itself."""
    node, scope = spot.node, spot.scope
    if not (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and spot.traced):
        return
    name = node.target.id
    bound = scope.bindings.get(name, [])
    starts = [one for how, one in bound if how == "is" and isinstance(one, ast.Constant)]
    plain = all(how == "is" and isinstance(one, ast.Constant | ast.BinOp) for how, one in bound)
    if starts and plain and _is_read_behind(scope, name, spot.traced[-1]):
        said = f"{name} is counted in a loop that is traced once"
        yield "COUNTER_IN_TRACED_LOOP", node, said


def _is_read_behind(scope: Scope, name: str, loop: ast.For) -> bool:
    end = loop.end_lineno or loop.lineno
    named = (one for one in scope.nodes if isinstance(one, ast.Name) and one.id == name)
    return any(isinstance(one.ctx, ast.Load) and one.lineno > end for one in named)


@RULES.about(ast.Subscript)
def indexing(spot: Spot) -> Iterator[Told]:
    """Slices beside index expressions."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        sliced = any(isinstance(one, ast.Slice) and (one.lower or one.upper) for one in parts)
        if sliced and any(_is_expression(scope, one) for one in parts):
            yield "MIXED_INDEXING", node, f"{ast.unparse(node)} mixes slices and index expressions"


def _is_expression(scope: Scope, node: ast.expr) -> bool:
    return scope.value(node).kind == "indices"
