"""The functions of the device: the kernels of a file, and all functions that they call. Also the
nodes of these functions, and the values of their names.

A launcher makes a function a kernel, such as the decorator `nki.jit`. A definition is the node of a
function or a class."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from neuroncore.base.errors import unknown
from neuroncore.lint.modules import ROLES, Module, Modules, of_the_api
from neuroncore.lint.syntax import (
    BINDING,
    DEFINITIONS,
    Definition,
    bindings,
    inside,
    name_of,
    nested,
)


@dataclass(frozen=True)
class Device:
    """A function or class that is compiled for the device. `is_kernel`: whether the host launches
    it."""

    module: Module
    node: Definition
    is_kernel: bool

    @property
    def name(self) -> str:
        return self.node.name


class SourceFiles:
    """The kernels of a file, and the functions that they call, also in other files."""

    def __init__(self, modules: Modules, kernel: str | None) -> None:
        self.modules = modules
        self.functions: list[Device] = []
        self._seen: set[int] = set()
        self._called: set[int] = set()
        # the parts of host functions that run on the device, by the id of the host function
        self._parts: dict[int, list[Definition]] = {}
        self._passed_as_values: set[int] = set()
        roots = self._roots(kernel)
        for module, node in roots or self._without_kernels():
            self._passed_as_values.add(id(node))
            self._add(module, node, is_kernel=bool(roots))
        self._started = {id(device.node) for _, device in self.launches()}
        self._started |= {id(node) for _, node in roots if kernel is not None}
        self._started |= {id(node) for _, node in roots if self._is_named_nowhere(node)}
        for definition in self._argument_classes():
            self._add(*definition, is_kernel=False)

    @property
    def files(self) -> list[str]:
        """The paths of the files that were read; the first is the user's file."""
        paths = [
            str(self.modules.first.path),
            *(str(device.module.path) for device in self.functions),
        ]
        return list(dict.fromkeys(paths))

    def api_name(self, module: Module, expression: ast.expr) -> str | None:
        """Return the API's name for an expression, such as "nki.isa.iota"; None for other
        expressions."""
        dotted = name_of(expression)
        return None if dotted is None else self.api_name_of(module, dotted)

    def api_name_of(self, module: Module, dotted: str) -> str | None:
        """Return the API's name, such as "nki.isa.iota", for a dotted name in the file, such as
        "nisa.iota"; None for other names."""
        meaning = self.modules.meaning_of(module, dotted)
        return meaning if isinstance(meaning, str) and meaning.split(".")[0] == "nki" else None

    def is_launched(self, module: Module, node: Definition) -> bool:
        """Return whether a decorator of a function makes it a kernel."""
        return any(self.launcher(module, decorator) for decorator in node.decorator_list)

    def is_called_by_kernels(self, node: Definition) -> bool:
        """Return whether any function of the device calls this function by its name."""
        return id(node) in self._called

    def _is_named_nowhere(self, node: Definition) -> bool:
        """Return whether only the host can call a kernel, because the file never uses its name.
        Return False in a package, whose other modules may import the name."""
        if self.modules.first.path.with_name("__init__.py").exists():
            return False
        names = (name_of(node) for node in self.modules.first.nodes if isinstance(node, ast.Name))
        return node.name not in names

    def is_more_than_called(self, node: Definition) -> bool:
        """Return whether there may be unknown calls of a function: it is a kernel, an entry point
        of the file, or passed as a value."""
        return id(node) in self._passed_as_values

    def starts(self, node: Definition) -> bool:
        """Return whether the host gets the results of a function: a kernel that the file launches,
        that the user requested, or whose name the file never uses."""
        return id(node) in self._started

    def launcher(self, module: Module, decorator: ast.expr) -> str | None:
        """Return the API's name of a decorator (perhaps with arguments) that makes a function a
        kernel; None for others."""
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self.api_name(module, called)
        if name is None and isinstance(decorator, ast.Call) and decorator.args:
            name = self.api_name(module, decorator.args[0])  # functools.partial(nki.jit, ...)
        return name if name in ROLES["launchers"] else None

    def _roots(self, kernel: str | None) -> list[tuple[Module, Definition]]:
        first = self.modules.first
        if (
            kernel is not None
            and (definition := self._definition(first, ast.Name(kernel))) is not None
        ):
            return [definition]
        if kernel is not None and kernel not in {**first.values, **first.imports}:
            raise unknown(f"{first.path} has no {kernel}", kernel, first.definitions)
        kernels = [
            (first, function) for function in _functions(first) if self.is_launched(first, function)
        ]
        return [*kernels, *self._launched_kernels()]

    def _argument_classes(self) -> Iterator[tuple[Module, Definition]]:
        """Yield the classes of objects that the file passes to kernels, or that are defaults of
        parameters."""
        passed = [value for _, _, values in self.arguments() for value in values]
        for device in self.functions:
            if device.is_kernel and not isinstance(device.node, ast.ClassDef):
                passed += device.node.args.defaults
        for value in passed:
            known = self.modules.first.values
            passed_object = known.get(value.id) if isinstance(value, ast.Name) else value
            if isinstance(passed_object, ast.Call):
                yield from self._classes(self.modules.first, passed_object)

    def _classes(
        self, module: Module, call: ast.Call, depth: int = 3
    ) -> Iterator[tuple[Module, Definition]]:
        """Yield the classes that the object returned by `call` may have. Calls of functions are
        followed to their results, through at most `depth` calls."""
        definition = self._definition(module, call.func) if depth else None
        if definition is not None and isinstance(definition[1], ast.ClassDef):
            yield definition
        elif definition is not None:
            for inner in inside(definition[1]):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Call):
                    yield from self._classes(definition[0], inner.value, depth - 1)

    def arguments(self) -> Iterator[tuple[Device, ast.expr, list[ast.expr]]]:
        """Yield the arguments of launches as (kernel, argument, possible values).

        The values of a name are all values that the file assigns to it. Elements of lists, tuples
        and dictionaries are yielded too."""
        assigned: dict[str, list[ast.expr]] = {}
        first = self.modules.first
        for statement in first.nodes:
            for target in statement.targets if isinstance(statement, ast.Assign) else ():
                if isinstance(target, ast.Name) and isinstance(statement, ast.Assign):
                    assigned.setdefault(target.id, []).append(statement.value)
        for call, device in self.launches():
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                name = argument.id if isinstance(argument, ast.Name) else None
                values = [argument] if name is None else assigned.get(name, [])
                yield device, argument, values
                yield from (
                    (device, argument, [part]) for value in values for part in _parts(value)
                )

    def launches(self) -> Iterator[tuple[ast.Call, Device]]:
        """Yield the calls that launch kernels, with their kernels: k(...), k[2](...),
        nki.jit(k)(...) and nki.simulate(k)(...)."""
        kernels = {device.node: device for device in self.functions if device.is_kernel}
        first = self.modules.first
        nodes = (device.node for device in self.functions if device.module is first)
        within = {inner for node in nodes for inner in inside(node)}
        for call in first.nodes:
            if isinstance(call, ast.Call) and call not in within:
                launched = self._launched(call)
                if launched is not None and launched[1] in kernels:
                    yield call, kernels[launched[1]]

    def _launched(self, call: ast.Call) -> tuple[Module, Definition] | None:
        first, called = self.modules.first, call.func
        if isinstance(called, ast.Subscript):
            called = called.value
        if isinstance(called, ast.Call) and called.args:
            if self.api_name(first, called.func) not in ROLES["launchers"]:
                return None
            called = called.args[0]
        return self._definition(first, called)

    def _without_kernels(self) -> list[tuple[Module, Definition]]:
        """Return the functions that call instructions or define kernels, except tests. They are
        checked in a file without kernels at module level: kernels in other files may call them."""
        first = self.modules.first
        helpers = [
            function for function in _functions(first) if not function.name.startswith("test")
        ]
        for helper in helpers:
            self._parts[id(helper)] = self._kernels_inside(first, helper)
        return [
            (first, helper)
            for helper in helpers
            if self._parts[id(helper)] or self._issues(first, inside(helper))
        ]

    def _kernels_inside(self, module: Module, node: Definition) -> list[Definition]:
        """Return the kernels that a function defines, and the functions inside it that they use or
        that call instructions. Return an empty list if it defines no kernel."""
        defined: list[Definition] = [
            inner for inner in inside(node) if isinstance(inner, ast.FunctionDef)
        ]
        kernels = [inner for inner in defined if self.is_launched(module, inner)]
        more = (inner for inner in defined if self._issues(module, nested(inner)))
        found = list(dict.fromkeys([*kernels, *more])) if kernels else []
        for function in found:  # grows
            names = {inner.id for inner in inside(function) if isinstance(inner, ast.Name)}
            found += [used for used in defined if used.name in names and used not in found]
        return found

    def checked(self, node: Definition) -> list[Definition]:
        """Return the parts of a function that run on the device: the function, or if it defines
        kernels on the host, these kernels and the functions inside it that they use."""
        return self._parts.get(id(node)) or [node]

    def runs_on_device(self, names: Names) -> bool:
        """Return whether a function runs on the device. Others define kernels on the host."""
        around = [names.node]
        while names.outer is not None:
            names = names.outer
            around.append(names.node)
        return any(node in around for node in self.checked(names.node))

    def _launched_kernels(self) -> Iterator[tuple[Module, Definition]]:
        """Yield the kernels that the file launches, also from other files, and the functions that
        it passes to a launcher."""
        first = self.modules.first
        for call in (node for node in first.nodes if isinstance(node, ast.Call)):
            if self.api_name(first, call.func) in ROLES["launchers"] and call.args:
                if (definition := self._definition(first, call.args[0])) is not None:
                    yield definition
                continue
            definition = self._definition(first, call.func)
            if definition is not None and self.is_launched(*definition):
                yield definition

    def _issues(self, module: Module, nodes: Sequence[ast.AST]) -> bool:
        """Return whether one of the nodes of a function is a call of an instruction."""
        calls = (inner.func for inner in nodes if isinstance(inner, ast.Call))
        return any(
            (self.api_name(module, function) or "").startswith("nki.isa.") for function in calls
        )

    def _definition(self, module: Module, expression: ast.expr) -> tuple[Module, Definition] | None:
        return _defined(self.modules.meaning(module, expression))

    def _add(self, module: Module, node: Definition, is_kernel: bool) -> None:
        """Add a function, and then all functions whose names it uses."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        self.functions.append(Device(module, node, is_kernel))
        parts = self.checked(node)
        body = [inner for part in parts for statement in part.body for inner in inside(statement)]
        self._called |= {id(definition[1]) for definition in self._calls(module, body)}
        for name, is_called in _names_of_the_file(node, body):
            if (definition := _defined(self.modules.meaning_of(module, name))) is not None:
                if not is_called:
                    self._passed_as_values.add(id(definition[1]))
                self._add(*definition, is_kernel=False)
            elif isinstance(file_value := module.values.get(name.partition(".")[0]), ast.Call):
                for kind in [*self._classes(module, file_value)]:
                    self._add(*kind, is_kernel=False)

    def _calls(
        self, module: Module, body: Sequence[ast.AST]
    ) -> Iterator[tuple[Module, Definition]]:
        """Yield the functions that the nodes in `body` call, also with a grid, as in f[2](x)."""
        for call in (inner for inner in body if isinstance(inner, ast.Call)):
            called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
            if (definition := self._definition(module, called)) is not None:
                yield definition


def _defined(meaning: object) -> tuple[Module, Definition] | None:
    return meaning if isinstance(meaning, tuple) else None


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the elements of a tuple, a list or a dictionary written in the source."""
    match node:
        case ast.Tuple() | ast.List():
            return node.elts
        case ast.Dict():
            return node.values
        case ast.Call(func=ast.Name("dict")):
            return [keyword.value for keyword in node.keywords]
    return []


def _functions(module: Module) -> Iterator[Definition]:
    for definition in module.definitions.values():
        if not isinstance(definition, ast.ClassDef):
            yield definition


def _names_of_the_file(node: Definition, body: Sequence[ast.AST]) -> list[tuple[str, bool]]:
    """Return the distinct pairs (name, whether it is called) that the nodes in `body`, of a
    function or class, use and the function or class does not bind, with attributes as in `a.b`.
    Decorators and annotations are left out."""
    bound: set[str] = set()
    for inner in inside(node)[1:]:
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            bound.add(inner.id)
        elif isinstance(inner, ast.arg):
            bound.add(inner.arg)
        elif isinstance(inner, DEFINITIONS) and not isinstance(node, ast.ClassDef):
            bound.add(inner.name)
    read = [
        inner
        for inner in body
        if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Load)
    ]
    called = {inner.func for inner in body if isinstance(inner, ast.Call)}
    names = dict.fromkeys((name_of(expression), expression in called) for expression in read)
    return [
        (name, is_called)
        for name, is_called in names
        if name is not None and name.partition(".")[0] not in bound
    ]


Node = TypeVar("Node", bound=ast.AST)
ALIASES = 40  # the longest chain of aliases that is followed


class Names:
    """The names in a function that is compiled for the device. `outer`: the Names of the enclosing
    function."""

    def __init__(self, program: SourceFiles, device: Device, outer: Names | None) -> None:
        self.program, self.device, self.outer = program, device, outer
        self.module, self.node = device.module, device.node
        self.nodes = nested(self.node)
        self._of_kind: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.nodes:
            self._of_kind.setdefault(type(node), []).append(node)
        self._api: dict[ast.expr, str] = {}
        self.names_older: bool = self._is_of_the_older() if outer is None else outer.names_older
        self.bindings = bindings([node for kind in BINDING for node in self.of(kind)])
        self.file_names = {name for statement in self.of(ast.Global) for name in statement.names}

    def of(self, kind: type[Node]) -> Sequence[Node]:
        """Return the nodes of a kind in this function, without inner functions and classes."""
        return self._of_kind.get(kind, ())  # type: ignore[return-value]

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names that this function or an enclosing function binds."""
        around = frozenset() if self.outer is None else self.outer.own_names
        return around.union(self.bindings, self.parameters, self._more_parameters)

    @property
    def _more_parameters(self) -> list[str]:
        """The names of the parameters with a star, such as `args` of `*args`."""
        arguments = None if isinstance(self.node, ast.ClassDef) else self.node.args
        stars = () if arguments is None else (arguments.vararg, arguments.kwarg)
        return [parameter.arg for parameter in stars if parameter is not None]

    @cached_property
    def parameters(self) -> list[str]:
        if isinstance(self.node, ast.ClassDef):
            return []
        arguments = self.node.args
        return [
            parameter.arg
            for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]

    def api(self, expression: ast.expr) -> str:
        """Return the API's name for an expression, such as "nki.isa.iota"; "" for other
        expressions."""
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
        """Return the expression that is bound to the name `node`, through aliases. Return `node`
        itself if it has no binding or several."""
        for _ in range(ALIASES):
            if not isinstance(node, ast.Name):
                break
            around = self._binding(node.id)
            if around is None or len(around) != 1 or around[0][0] != "is":
                break
            node = around[0][1]
        return node

    def _binding(self, name: str) -> Sequence[tuple[str, ast.expr]] | None:
        """Return the bindings of a name (`syntax.bindings`); None for parameters and unbound
        names."""
        if name in self.parameters:
            return None
        if name in self.bindings:
            return self.bindings[name]
        if self.outer is not None:
            return self.outer._binding(name)
        value = self.module.values.get(name)
        return None if value is None else [("is", value)]

    def _is_of_the_older(self) -> bool:
        """Return whether the function uses names of the older API and no names of today's API."""
        origins = [
            self.module.imports.get(name) for name in {node.id for node in self.of(ast.Name)}
        ]
        of_api = {
            origin[1].partition(".")[0] for origin in origins if origin and of_the_api(origin[1])
        }
        return self.module.is_older or of_api == {"neuronxcc"}

    def elements(self, node: ast.expr) -> Sequence[ast.expr] | None:
        """Return the elements of a list or tuple that this function builds, also appended ones.
        `node` is the list or tuple, or its name. Return None for other expressions."""
        if isinstance(node, ast.List | ast.Tuple):
            return node.elts
        bound = self.bindings.get(node.id) if isinstance(node, ast.Name) else None
        if bound is None or not isinstance(node, ast.Name) or node.id in self.parameters:
            return None
        listed: list[ast.expr] = []
        for how, value in bound:
            if how != "is" or not isinstance(value, ast.List | ast.Tuple):
                return None
            listed += value.elts
        return [*listed, *self._appended.get(node.id, ())]

    @cached_property
    def _appended(self) -> dict[str, list[ast.expr]]:
        """For each name, the values that are appended to it or assigned to its elements."""
        appended: dict[str, list[ast.expr]] = {}
        for call in self.of(ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(ast.Name(name), "append"), args=[value]):
                    appended.setdefault(name, []).append(value)
                case ast.Call(func=ast.Attribute(ast.Name(name), "extend" | "insert")):
                    appended.setdefault(name, []).append(call)  # an unknown element
        for assign in self.of(ast.Assign):
            for target in assign.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    appended.setdefault(target.value.id, []).append(assign.value)
        return appended
