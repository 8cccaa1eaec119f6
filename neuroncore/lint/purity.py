"""Inputs of a kernel other than its arguments, and effects other than its results: compiled kernels
are cached by their arguments, so a cached kernel has the old inputs and repeats no effect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from neuroncore.lint.inference import Scope
from neuroncore.lint.nodes import name_of
from neuroncore.lint.releases import ROLES
from neuroncore.lint.syntax import default_of
from neuroncore.lint.walk import Rules, Spot, Told

RULES = Rules()
CHANGING = (
    *("append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "popitem"),
    *("add", "discard", "sort", "reverse"),
)


@RULES.about(ast.Attribute, ast.Name)
def host_state(spot: Spot) -> Iterator[Told]:
    """Report random numbers, the environment, clocks and files of the host."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    meaning = scope.program.modules.meaning(scope.module, _made_by(scope, node))
    if isinstance(node, ast.Name) and _is_of_python(scope, node):
        yield "IMPURE_KERNEL", node, f"{node.id} of the host is used in a kernel"
    elif isinstance(meaning, str) and _is_of_the_host(meaning):
        yield "IMPURE_KERNEL", node, f"{meaning} of the host is used in a kernel"


def _is_of_python(scope: Scope, node: ast.Name) -> bool:
    """Return whether a node is a built-in function of Python that reads from the host."""
    if node.id not in ROLES["host_functions"]:
        return False
    module, local = scope.module, (*scope.bindings, *scope.parameters)
    return node.id not in (*local, *module.values, *module.definitions, *module.imports)


def _made_by(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the function whose call made a value of the file, such as a generator of numbers; else
    the node."""
    if isinstance(node, ast.Name) and node.id not in (*scope.bindings, *scope.parameters):
        known = scope.module.values.get(node.id)
        return known.func if isinstance(known, ast.Call) else node
    return node


@cache
def _is_of_the_host(dotted: str) -> bool:
    return any(f"{dotted}.".startswith(f"{known}.") for known in ROLES["host_state"])


@RULES.about(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Call)
def changes(spot: Spot) -> Iterator[Told]:
    """Report values of the file that a kernel changes."""
    node, scope = spot.node, spot.scope
    for target in _changed(node):
        if name := _of_the_file(scope, target):
            yield "IMPURE_KERNEL", node, f"{name} of the file is changed by a kernel"
        elif name := _default(scope, target):
            message = f"the default of {name}, which is the same for all calls, is changed"
            yield "IMPURE_KERNEL", node, message


def _changed(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that a statement or a call changes."""
    if isinstance(node, ast.Call):
        func, held = node.func, None
        if isinstance(func, ast.Attribute) and func.attr in CHANGING:
            held = func.value
        elif isinstance(func, ast.Name) and func.id == "next" and node.args:
            held = node.args[0]
        return [] if held is None else [ast.Subscript(held, ast.Constant(0))]
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _of_the_file(scope: Scope, target: ast.expr) -> str:
    """Return the name of the file that an assignment to a target changes."""
    inner = target
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return ""
    if inner is target:
        return inner.id if inner.id in scope.file_names else ""
    around: Scope | None = scope
    while around is not None:
        if inner.id in around.bindings or inner.id in around.parameters:
            return ""
        around = around.outer
    module = scope.module
    is_module = isinstance(target, ast.Attribute) and inner.id in module.imports
    is_known = is_module or inner.id in module.values or inner.id in module.definitions
    return inner.id if is_known else ""


def _default(scope: Scope, target: ast.expr) -> str:
    """Return the parameter whose default an assignment to an element changes."""
    root = name_of(target.value) if isinstance(target, ast.Subscript) else None
    is_given = root in scope.parameters and root not in scope.bindings
    if root is None or isinstance(scope.node, ast.ClassDef) or not is_given:
        return ""
    held = default_of(scope.node.args, root)
    return root if isinstance(held, ast.List | ast.Dict | ast.Set) else ""


@RULES.about(ast.Name)
def changed_values(spot: Spot) -> Iterator[Told]:
    """Report values of the file that a kernel reads and that the file's main part changes."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Name)
    if node.id in scope.module.changed and node.id not in scope.file_names:
        message = f"{node.id} of the file is read by a kernel, and changes while the file runs"
        yield "IMPURE_KERNEL", node, message


@RULES.about(ast.Attribute, ast.Name)
def older_names(spot: Spot) -> Iterator[Told]:
    """Report names of neuronxcc.nki in a kernel of today's API."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Attribute | ast.Name) or scope.is_older or not scope.api(node):
        return
    first = (name_of(node) or "").partition(".")[0]
    _, origin = scope.module.imports.get(first, (0, ""))
    if origin.startswith("neuronxcc.nki"):
        yield "OLDER_NAMESPACE", node, f"{ast.unparse(node)} is of {origin.partition('.')[0]}.nki"
