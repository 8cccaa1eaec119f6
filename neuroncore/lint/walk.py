"""Visits every node of a kernel's functions, with the loops and blocks of the device around it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from neuroncore.lint.inference import Scope
from neuroncore.lint.nodes import DEFINITIONS, children
from neuroncore.lint.releases import ROLES


class Spot(NamedTuple):
    """A node of a function. `loops` are the device's loops around it, the outermost first; the
    older API runs the body of the `traced` loops once for all iterations; `ordered` is True in a
    block that keeps the order of instructions."""

    node: ast.AST
    scope: Scope
    loops: tuple[ast.AST, ...] = ()
    traced: tuple[ast.For, ...] = ()
    ordered: bool = False
    nested: bool = False  # in a loop of any kind


Around = tuple[Scope, tuple[ast.AST, ...], tuple[ast.For, ...], bool, bool]  # a Spot's other fields
AROUND = frozenset((ast.For, ast.While, ast.With))  # kinds that enclose other nodes
DEFINED = frozenset(DEFINITIONS)
UNASKED = frozenset((ast.keyword, ast.Slice, ast.FormattedValue, ast.Expr))  # without rules
# A rule's finding: a code, the node at fault, and a sentence.
Told = tuple[str, ast.AST, str]
Rule = Callable[[Spot], Iterator[Told]]


class Rules:
    """Rules about nodes; `of` has them by the type of node."""

    def __init__(self) -> None:
        self.of: dict[type[ast.AST], list[Rule]] = {}

    def about(self, *types: type[ast.AST]) -> Callable[[Rule], Rule]:
        """Return a decorator for a rule about nodes of some types."""

        def add(rule: Rule) -> Rule:
            for one in types:
                self.of.setdefault(one, []).append(rule)
            return rule

        return add


def spots(scope: Scope) -> list[Spot]:
    """Return all nodes of a function and of the functions in it, each once."""
    listed: list[Spot] = []
    loops = (scope.node,) if scope.is_loop_body else ()
    _enter(scope.node, (scope, loops, (), False, False), listed)
    for inner in scope.inner.values():
        listed += spots(inner)
    return listed


@lru_cache(64)  # bounded, so that old files are released
def loops_of_assignments(scope: Scope) -> dict[str, tuple[ast.AST, ...]]:
    """Return the loops of the device around the assignments to each name of a function, if all
    assignments to the name have the same loops."""
    loops_of: dict[str, set[tuple[ast.AST, ...]]] = {}
    for spot in spots(scope):
        if spot.scope is scope and isinstance(spot.node, ast.Assign):
            for target in spot.node.targets:
                if isinstance(target, ast.Name):
                    loops_of.setdefault(target.id, set()).add(spot.loops)
    return {name: next(iter(loops)) for name, loops in loops_of.items() if len(loops) == 1}


def _enter(node: ast.AST, around: Around, found: list[Spot]) -> None:
    """Add the nodes that the compiler reads: not decorators, defaults and annotations."""
    kind = type(node)
    if kind not in UNASKED:
        found.append(Spot(node, *around))
    if kind in AROUND:
        around = _entered(Spot(node, *around))
    for child in _read(node):
        kind = type(child)
        if kind is ast.Name or kind is ast.Attribute:
            if not _is_own(around[0], child):
                _enter(child, around, found)
        elif kind is ast.ClassDef:
            found.append(Spot(child, *around))
        elif kind not in DEFINED and not (kind is ast.Constant and _is_plain(child)):
            _enter(child, around, found)


def _is_plain(node: ast.AST) -> bool:
    """Return whether a node is a constant that every release has."""
    return isinstance(node, ast.Constant) and type(node.value) in (str, bool, float, type(None))


def _read(node: ast.AST) -> Sequence[ast.AST]:
    if isinstance(node, DEFINITIONS):
        return node.body
    if isinstance(node, ast.AnnAssign):
        return [one for one in (node.target, node.value) if one is not None]
    return children(node)


def _is_own(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node is a name that the function binds itself, or an attribute of such a
    name: rules look at those only as parts of other nodes."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in scope.own_names


def _entered(spot: Spot) -> Around:
    """Return the loops and blocks around the nodes in a loop or a block."""
    node, scope = spot.node, spot.scope
    loops, traced, ordered = spot.loops, spot.traced, spot.ordered
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
        called = scope.api(node.iter.func)
        loops += (node,) if called in ROLES["dynamic_ranges"] else ()
        traced += (node,) if called in ROLES["traced_once"] else ()
    elif isinstance(node, ast.While) and scope.value(node.test).kind == "register":
        loops += (node,)
    elif isinstance(node, ast.With):
        ordered = ordered or any(_keeps_order(scope, one) for one in node.items)
    nested = spot.nested or isinstance(node, ast.For | ast.While)
    return scope, loops, traced, ordered, nested


def _keeps_order(scope: Scope, item: ast.withitem) -> bool:
    block = scope.stands_for(item.context_expr)
    return (
        scope.api(block.func if isinstance(block, ast.Call) else block) in ROLES["ordered_blocks"]
    )
