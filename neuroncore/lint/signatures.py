"""Rules about the interface of a kernel: decorators, parameters, classes, results."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from neuroncore.lint.inference import Scope
from neuroncore.lint.kernels import SourceFiles
from neuroncore.lint.modules import Module
from neuroncore.lint.releases import ROLES
from neuroncore.lint.walk import Told

ENUMERATIONS = ("enum.Enum", "enum.IntEnum", "enum.Flag", "enum.IntFlag", "enum.StrEnum")


def kernels(scope: Scope) -> Iterator[Told]:
    """Report faults in the decorators and parameters of a kernel."""
    device, node = scope.device, scope.node
    if isinstance(node, ast.ClassDef):
        yield from _class(scope)
        return
    if not device.is_kernel:
        return
    if node.args.kwonlyargs:
        where = node.args.kwonlyargs[0]
        yield "KEYWORD_ONLY", where, f"{node.name} has parameters after `*`"
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if default is not None and _is_a_list(scope.module, default):
            yield "LIST_ARGUMENT", default, f"{node.name} has a list as a default"
    if scope.program.starts(node):
        yield from _results(scope)


def decorators(scope: Scope) -> Iterator[Told]:
    """Report faults in the decorators that make a function a kernel, and in their options."""
    for one in scope.node.decorator_list:
        name = scope.program.launcher(scope.module, one)
        if name in ROLES["compiled"] and isinstance(one, ast.Call):
            yield from _options(one)
        if name in ROLES["compiled"] and scope.program.is_called_by_kernels(scope.node):
            yield (
                "KERNEL_IN_KERNEL",
                one,
                f"{scope.node.name} is called by a kernel, but is a kernel itself",
            )


def _options(call: ast.Call) -> Iterator[Told]:
    for keyword in call.keywords:
        if keyword.arg == "mode":
            yield "JIT_MODE", keyword.value, "nki.jit has a mode"
        elif keyword.arg == "platform_target":
            yield "JIT_PLATFORM", keyword.value, "nki.jit has a platform_target"


def _class(scope: Scope) -> Iterator[Told]:
    """Report faults in classes whose objects a kernel makes or receives."""
    node = scope.node
    assert isinstance(node, ast.ClassDef)
    meant = [scope.program.modules.meaning(scope.module, one) for one in node.bases]
    if any(one in ENUMERATIONS for one in meant) or _is_an_error(node):
        return
    if not any(_is_object(scope.program, one) for one in meant):
        yield (
            "NOT_NKI_OBJECT",
            node,
            f"class {node.name} of a kernel does not inherit from NKIObject",
        )
    elif len(meant) > 1:
        bases = ", ".join(map(ast.unparse, node.bases))
        yield "NOT_NKI_OBJECT", node, f"class {node.name} of a kernel inherits from {bases}"


def _is_object(program: SourceFiles, meant: object) -> bool:
    """Return whether a base is NKIObject, or a class that inherits from it."""
    if isinstance(meant, tuple) and isinstance(meant[1], ast.ClassDef):
        module, node = meant
        inner = [program.modules.meaning(module, one) for one in node.bases]
        return any(_is_object(program, one) for one in inner if one != meant)
    return isinstance(meant, str) and meant.rpartition(".")[2] == ROLES["base_class"]


def _is_an_error(node: ast.ClassDef) -> bool:
    names = [ast.unparse(one) for one in node.bases]
    return any(one.endswith(("Error", "Exception")) for one in names)


def _returned(scope: Scope, node: ast.expr) -> list[ast.expr]:
    """Return the single results in a kernel's return value."""
    match node:
        case ast.Dict():
            return node.values
        case ast.Call(func=ast.Name("tuple" | "list"), args=[held]):
            return _returned(scope, held)
    listed = scope.elements(node)
    return [node] if listed is None else [*listed]


def _results(scope: Scope) -> Iterator[Told]:
    """Report tensors that a kernel returns from memory that the caller can't read."""
    for one in scope.nodes:
        if not isinstance(one, ast.Return) or one.value is None:
            continue
        for result in _returned(scope, one.value):
            value = scope.value(result)
            if value.kind != "tensor" or value.memory in (None, ROLES["result_memory"]):
                continue
            on_chip = value.memory in ROLES["on_chip"]
            born = () if on_chip or value.born is None else (value.born,)
            for at in (one, *born):
                message = f"{ast.unparse(result)}, which the kernel returns, is in {value.memory}"
                yield "RESULT_MEMORY", at, message


def launches(program: SourceFiles) -> Iterator[Told]:
    """Report faults in the arguments of kernels that the file calls, and of the calls that make
    them."""
    first = program.modules.first
    for device, argument, values in program.arguments():
        if values and all(_is_a_list(first, one) for one in values):
            message = f"{device.name} has a list as an argument: {ast.unparse(argument)}"
            yield "LIST_ARGUMENT", argument, message
    decorators = {one for node in first.definitions.values() for one in node.decorator_list}
    for call in (one for one in first.nodes if isinstance(one, ast.Call)):
        if call not in decorators and program.api_name(first, call.func) in ROLES["compiled"]:
            yield from _options(call)


def _is_a_list(module: Module, node: ast.expr) -> bool:
    """Return whether an expression makes a list, or a tuple that contains a list."""
    match node:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name("list" | "sorted")):
            return True
        case ast.Tuple():
            return any(_is_a_list(module, one) for one in node.elts)
        case ast.Name() if node.id in module.values and node.id not in module.changed:
            held = module.values[node.id]
            return not isinstance(held, ast.Name) and _is_a_list(module, held)
    return False
