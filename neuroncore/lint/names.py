"""A function of the device in its source: its nodes, and the bindings of its names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from neuroncore.lint.kernels import Device, SourceFiles
from neuroncore.lint.modules import of_the_api
from neuroncore.lint.nodes import name_of, nested
from neuroncore.lint.syntax import BINDING, bindings

Node = TypeVar("Node", bound=ast.AST)
ALIASES = 40  # the longest chain of aliases of a name


class Names:
    """A function of the device, or a function defined in the `outer` one."""

    def __init__(self, program: SourceFiles, device: Device, outer: Names | None) -> None:
        self.program, self.device, self.outer = program, device, outer
        self.module, self.node = device.module, device.node
        self.nodes = nested(self.node)
        self._of_kind: dict[type[ast.AST], list[ast.AST]] = {}
        for one in self.nodes:
            self._of_kind.setdefault(type(one), []).append(one)
        self._api: dict[ast.expr, str] = {}
        self.names_older: bool = self._is_of_the_older() if outer is None else outer.names_older
        self.bindings = bindings([one for kind in BINDING for one in self.of(kind)])
        self.file_names = {name for one in self.of(ast.Global) for name in one.names}

    def of(self, kind: type[Node]) -> Sequence[Node]:
        """Return the nodes of a kind, without the nodes of functions and classes defined here."""
        return self._of_kind.get(kind, ())  # type: ignore[return-value]

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names that are bound here, or in the enclosing function."""
        around = frozenset() if self.outer is None else self.outer.own_names
        return around.union(self.bindings, self.parameters, self._more_parameters)

    @property
    def _more_parameters(self) -> list[str]:
        """The names of `*args` and `**kwargs`."""
        arguments = None if isinstance(self.node, ast.ClassDef) else self.node.args
        stars = () if arguments is None else (arguments.vararg, arguments.kwarg)
        return [one.arg for one in stars if one is not None]

    @cached_property
    def parameters(self) -> list[str]:
        if isinstance(self.node, ast.ClassDef):
            return []
        arguments = self.node.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    def api(self, expression: ast.expr) -> str:
        """Return the API's name for an expression; empty if it isn't of the API."""
        if expression not in self._api:
            self._api[expression] = self._of_api(expression)
        return self._api[expression]

    def _of_api(self, expression: ast.expr) -> str:
        first, dot, rest = (name_of(expression) or "").partition(".")
        if first in self.own_names:
            alias = name_of(self.stands_for(ast.Name(first)))
            if alias is None or alias == first:
                return ""
            first = alias
        return self.program.api_name_of(self.module, f"{first}{dot}{rest}") or ""

    def stands_for(self, node: ast.expr) -> ast.expr:
        """Return the expression that a name is bound to, here or in the file, if it is bound once;
        else the name itself."""
        for _ in range(ALIASES):
            if not isinstance(node, ast.Name):
                break
            around = self._binding(node.id)
            if around is None or len(around) != 1 or around[0][0] != "is":
                break
            node = around[0][1]
        return node

    def _binding(self, name: str) -> Sequence[tuple[str, ast.expr]] | None:
        """Return the bindings of a name in its scope; None for parameters and unbound names."""
        if name in self.parameters:
            return None
        if name in self.bindings:
            return self.bindings[name]
        if self.outer is not None:
            return self.outer._binding(name)
        value = self.module.values.get(name)
        return None if value is None else [("is", value)]

    def _is_of_the_older(self) -> bool:
        """Return whether all names of an API that a function uses are of the older API."""
        origins = [self.module.imports.get(name) for name in {one.id for one in self.of(ast.Name)}]
        of_api = {one[1].partition(".")[0] for one in origins if one and of_the_api(one[1])}
        return self.module.is_older or of_api == {"neuronxcc"}

    def elements(self, node: ast.expr) -> Sequence[ast.expr] | None:
        """Return the elements of a list or a tuple of this function, also those appended to it;
        None if it is something else, or is changed in other ways."""
        if isinstance(node, ast.List | ast.Tuple):
            return node.elts
        bound = self.bindings.get(node.id) if isinstance(node, ast.Name) else None
        if bound is None or not isinstance(node, ast.Name) or node.id in self.parameters:
            return None
        listed: list[ast.expr] = []
        for how, one in bound:
            if how != "is" or not isinstance(one, ast.List | ast.Tuple):
                return None
            listed += one.elts
        return [*listed, *self._appended.get(node.id, ())]

    @cached_property
    def _appended(self) -> dict[str, list[ast.expr]]:
        """The values that are appended to names, or assigned to their elements."""
        appended: dict[str, list[ast.expr]] = {}
        for call in self.of(ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(ast.Name(name), "append"), args=[one]):
                    appended.setdefault(name, []).append(one)
                case ast.Call(func=ast.Attribute(ast.Name(name), "extend" | "insert")):
                    appended.setdefault(name, []).append(call)  # an unknown value
        for assign in self.of(ast.Assign):
            for target in assign.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    appended.setdefault(target.value.id, []).append(assign.value)
        return appended
