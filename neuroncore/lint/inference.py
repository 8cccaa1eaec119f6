"""The kinds of a kernel's expressions, inferred from its source alone: a tensor, a register, an
index that the device counts, and others.

A name has a kind if all its assignments have this kind, in any order. A parameter has a kind if the
arguments in all calls have this kind. Otherwise, and for parameters of kernels, the kind is
unknown, which avoids false reports. A function of the device is a kernel, or a function that a
kernel calls. `depth` limits how many further calls and assignments are followed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal

from neuroncore.lint.kernels import Device, Names, SourceFiles
from neuroncore.lint.modules import RELEASES, ROLES, signature_in
from neuroncore.lint.syntax import (
    Definition,
    Shape,
    argument,
    given_to,
    literal,
    name_of,
    numbers,
    shape_of_view,
    sizes,
)

Kind = Literal[
    "tensor", "register", "index", "indices", "integer", "instruction", "host", "unknown"
]
# kinds whose values only the device knows, so Python can't compute with them
RUNTIME = ("tensor", "register", "index")


@dataclass(frozen=True)
class Value:
    """The known facts about the value of an expression: its kind, and properties of tensors.

    `memory`, `shape`: the memory and shape of a tensor, or None if unknown
    `born`: the call that allocates the tensor, or None if unknown
    `compared`: True for the result of a comparison

    Other kinds are "register", "index" (the variable of a loop that the device runs), "indices" (an
    index expression of the older API), "integer" (the variable of a loop that the compiler
    unrolls), "instruction" (the result of a call of nki.isa), "host" (any other value of Python),
    and "unknown"."""

    kind: Kind
    memory: str | None = None
    shape: Shape | None = None
    born: ast.AST | None = None
    compared: bool = False

    def agreeing(self, other: Value) -> Value:
        """Return a Value with the properties that both values share. Its kind is "unknown" if the
        kinds differ."""
        if self.kind != other.kind:
            return UNKNOWN
        memory = self.memory if self.memory == other.memory else None
        shape = self.shape if self.shape == other.shape else None
        born = self.born if self.born is other.born else None
        return Value(self.kind, memory, shape, born, self.compared and other.compared)


UNKNOWN, HOST = Value("unknown"), Value("host")
DEPTH = 40  # the longest chain of calls and assignments that is followed


def agreed(values: Iterable[Value]) -> Value:
    candidates = [*values]
    return reduce(Value.agreeing, candidates) if candidates else UNKNOWN


class Scopes:
    """The scopes of the device functions in all checked files (`kernels.SourceFiles`). The kinds
    are inferred for one release of the API."""

    def __init__(self, program: SourceFiles, release: str) -> None:
        self.program, self.release = program, release
        self._of: dict[ast.AST, Scope] = {}

    def use_release(self, release: str) -> None:
        """Infer the kinds for another release, where names may have other meanings. Forget all
        known values."""
        self.release = release
        for scope in self._of.values():
            scope.forget_values()

    @cached_property
    def _calls(self) -> dict[ast.AST, list[tuple[Scope, ast.Call]]]:
        """The calls of each function, each with the scope that contains the call."""
        calls_of: dict[ast.AST, list[tuple[Scope, ast.Call]]] = {}
        for scope in self.all():
            for inner in (scope, *scope.all_inner()):
                for call in inner.of(ast.Call):
                    called = self.program.modules.meaning(inner.module, call.func)
                    if isinstance(called, tuple):
                        calls_of.setdefault(called[1], []).append((inner, call))
        return calls_of

    def calls(self, node: Definition) -> Sequence[tuple[Scope, ast.Call]]:
        """Return all calls of a function, with their scopes. Return an empty list if there may be
        unknown calls: the function is launched, passed as a value or called by another name."""
        known = self._calls.get(node, [])
        by_its_name = all((name_of(call.func) or "").endswith(node.name) for _, call in known)
        return [] if self.program.is_more_than_called(node) or not by_its_name else known

    def of(self, device: Device) -> Scope:
        if device.node not in self._of:
            self._of[device.node] = Scope(self, device)
        return self._of[device.node]

    def all(self) -> list[Scope]:
        """Return the scopes of all functions of the device, except functions inside other
        functions."""
        return self._all

    @cached_property
    def _all(self) -> list[Scope]:
        scopes = [self.of(device) for device in self.program.functions]
        for scope in scopes:
            for inner in (scope, *scope.all_inner()):
                inner.set_body_parameters()
        return scopes


class Scope(Names):
    """A function of the device, or a function that is defined in it, with the values of its
    names."""

    outer: Scope | None

    def __init__(self, scopes: Scopes, device: Device, outer: Scope | None = None) -> None:
        super().__init__(scopes.program, device, outer)
        self.scopes = scopes
        self._values: dict[str, Value] = {}
        self._of_nodes: dict[ast.expr, Value] = {}
        self._open: set[str] = set()
        defined: list[ast.FunctionDef | ast.AsyncFunctionDef]
        defined = [*self.of(ast.FunctionDef), *self.of(ast.AsyncFunctionDef)]
        self.inner = {
            definition.name: Scope(scopes, replace(device, node=definition, is_kernel=False), self)
            for definition in defined
        }
        self.is_loop_body = False  # True for the body of a loop that the device runs
        self.loop_values: dict[str, Value] = {}  # the values of a loop body's parameters

    @property
    def release(self) -> str:
        """The release whose rules apply to the function."""
        return RELEASES[0] if self.names_older else self.scopes.release

    @property
    def is_older(self) -> bool:
        return self.names_older or self.scopes.release == RELEASES[0]

    def is_of_python(self, name: str) -> bool:
        """Return whether a name is Python's built-in: neither the function nor its file binds
        it."""
        module, local = self.module, (*self.bindings, *self.parameters)
        return name not in (*local, *module.values, *module.definitions, *module.imports)

    def all_inner(self) -> Iterator[Scope]:
        """Yield the scopes of the functions that are defined in this function, at any depth."""
        for inner in self.inner.values():
            yield inner
            yield from inner.all_inner()

    def forget_values(self) -> None:
        """Forget the values of names and expressions, which depend on the release."""
        self._values, self._of_nodes = {}, {}
        for inner in self.inner.values():
            inner.forget_values()

    def set_body_parameters(self) -> None:
        """Find the functions that are passed as bodies of loops of the device. Set `is_loop_body`
        and the values of their parameters."""
        for call in self.of(ast.Call):
            body = self.body_of(call)
            if body is not None:
                body.is_loop_body = True
            if body is not None and (parameters := body.parameters):
                counted = self.api(call.func) in ROLES["counted_loops"]
                body.loop_values[parameters[0]] = Value("index" if counted else "register")

    def body_of(self, call: ast.Call) -> Scope | None:
        """Return the scope of the loop body in a call such as nl.fori_loop(...); None for other
        calls."""
        where = ROLES["loop_bodies"].get(self.api(call.func))
        if where is None:
            return None
        body = {keyword.arg: keyword.value for keyword in call.keywords}.get("body_fun")
        if len(call.args) <= where and body is None:
            return None
        return self.scope_of(call.args[where] if body is None else body)

    # --- names ---------------------------------------------------------------------------------

    def named(self, name: str, depth: int = DEPTH) -> Value:
        """Return the value of a name, or UNKNOWN if its bindings have different kinds."""
        if name in self._values:
            return self._values[name]
        if name in self._open or not depth:  # the name depends on itself: its other bindings decide
            return UNKNOWN
        if name in self.parameters:
            self._open.add(name)
            value = UNKNOWN if name in self.bindings else self._from_calls(name, depth - 1)
            self._open.discard(name)
        elif name in self.bindings:
            self._open.add(name)
            value = agreed(
                self._bound(how, expression, depth - 1) for how, expression in self.bindings[name]
            )
            self._open.discard(name)
        elif self.outer is not None:
            return self.outer.named(name, depth - 1)
        else:
            constant = self.module.values.get(name)
            value = HOST if isinstance(constant, ast.Constant) else UNKNOWN
        self._values[name] = value
        return value

    def _from_calls(self, name: str, depth: int) -> Value:
        """Return the value of a parameter: the properties that the arguments in all calls share."""
        if name in self.loop_values:
            return self.loop_values[name]
        if self.outer is not None or isinstance(self.node, ast.ClassDef):
            return UNKNOWN
        values = []
        for scope, call in self.scopes.calls(self.node):
            passed = given_to(call, self.node.args, name)
            values.append(UNKNOWN if passed is None else scope.value(passed, depth // 2))
        return replace(agreed(values), born=None)

    def given(self, name: str) -> list[ast.expr]:
        """Return the expressions that calls pass for a parameter, or its default. Return an empty
        list if some calls are unknown."""
        if isinstance(self.node, ast.ClassDef):
            return []
        calls = self.scopes.calls(self.node)
        passed = [(scope, given_to(call, self.node.args, name)) for scope, call in calls]
        return [
            scope.stands_for(expression) for scope, expression in passed if expression is not None
        ]

    def _bound(self, how: str, expression: ast.expr, depth: int) -> Value:
        """Return the value of a name from one of its bindings (`syntax.bindings`)."""
        if how == "is":
            return self.value(expression, depth)
        if how == "each":
            return self._element(expression, depth)
        maker = isinstance(expression, ast.Subscript) and self.api(expression.value)
        return Value("indices") if maker == ROLES["index_grid"] else UNKNOWN

    def _element(self, iterable: ast.expr, depth: int) -> Value:
        """Return the value of the elements that a loop over an expression visits."""
        if isinstance(iterable, ast.Call):
            called = self.api(iterable.func)
            if called in ROLES["dynamic_ranges"]:
                return Value("index")
            plain = isinstance(iterable.func, ast.Name) and iterable.func.id == "range"
            if called in ROLES["traced_ranges"] or plain:
                return Value("integer")
        return self._common(iterable, depth)

    def _common(self, node: ast.expr, depth: int) -> Value:
        """Return the properties that all elements of a list share; UNKNOWN if this function does
        not build it."""
        name = f"{node.id}[]" if isinstance(node, ast.Name) else ""
        if name in self._open or not depth:
            return UNKNOWN
        if name not in self._values:
            self._open.add(name)
            common = agreed(self.value(element, depth - 1) for element in self.elements(node) or ())
            self._open.discard(name)
            if not name:
                return common
            self._values[name] = common
        return self._values[name]

    # --- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr, depth: int = DEPTH) -> Value:
        """Return the value of an expression."""
        if depth < DEPTH:
            return self._value(node, depth) if depth > 0 else UNKNOWN
        if node not in self._of_nodes:
            self._of_nodes[node] = self._value(node, depth)
        return self._of_nodes[node]

    def _value(self, node: ast.expr, depth: int) -> Value:
        match node:
            case ast.Constant() | ast.JoinedStr():
                return HOST
            case ast.Name():
                return self.named(node.id, depth)
            case ast.Call():
                return self._called(node, depth - 1)
            case ast.Subscript():
                return self._part(node, depth - 1)
            case ast.Attribute():
                return self._attribute(node, depth - 1)
            case ast.IfExp():
                return agreed(self.value(branch, depth - 1) for branch in (node.body, node.orelse))
            case ast.BinOp():
                return self._computed([node.left, node.right], depth - 1)
            case ast.UnaryOp():
                return self._computed([node.operand], depth - 1)
            case ast.NamedExpr():
                return self.value(node.value, depth - 1)
            case ast.Compare():
                if all(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
                    return HOST
                computed = self._computed([node.left, *node.comparators], depth - 1)
                return replace(computed, compared=computed.kind == "tensor")
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, depth: int) -> Value:
        """Return the value of an attribute such as a.b. It is known if this function binds `a` once
        and assigns to a.b."""
        name = name_of(node) or ""
        first = name.partition(".")[0]
        if (
            name not in self.bindings
            or len(self.bindings.get(first, ())) != 1
            or name in self._open
        ):
            return UNKNOWN
        self._open.add(name)
        value = agreed(
            self._bound(how, expression, depth) for how, expression in self.bindings[name]
        )
        self._open.discard(name)
        return value

    def _computed(self, operands: Sequence[ast.expr], depth: int) -> Value:
        kinds = [self.value(operand, depth).kind for operand in operands]
        for kind in ("tensor", "register", "index", "indices"):
            if kind in kinds:
                return Value(kind, "sbuf" if kind == "tensor" else None)
        if all(kind in ("integer", "host") for kind in kinds):
            return Value("integer") if "integer" in kinds else HOST
        return UNKNOWN

    def _called(self, call: ast.Call, depth: int) -> Value:
        name = self.api(call.func)
        if name:
            return self._of_the_api(name, call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ROLES["views"]:
            viewed = self.value(call.func.value, depth)
            shape = shape_of_view(call)
            return Value("tensor", viewed.memory, shape) if viewed.kind == "tensor" else UNKNOWN
        return self._returned(call.func, depth)

    def _of_the_api(self, name: str, call: ast.Call) -> Value:
        if name in ROLES["registers"]:
            return Value("register")
        if name == ROLES["index_maker"]:
            return Value("indices")
        if name in ROLES["allocations"]:
            return Value("tensor", self._memory(call), self._shape(call), call)
        signature = signature_in(name, self.release)
        if signature is None or signature.parameters is None:
            return UNKNOWN
        if name.startswith("nki.language.") and name not in ROLES["values"]:
            compared = name in ROLES["comparisons"]
            memory, shape = self._result_memory(name, call), self._loaded(name, call)
            return Value("tensor", memory, shape, compared=compared)
        if name.startswith("nki.isa.") and not self.is_older:
            return Value("instruction")
        return UNKNOWN

    def _result_memory(self, name: str, call: ast.Call) -> str | None:
        """Return the memory of the result of a function of nki.language. Return None if it is
        unknown: the older API's compiler chooses the memory."""
        if name in ROLES["in_psum"]:
            return "psum"
        may_choose = any(keyword.arg in (None, "buffer") for keyword in call.keywords)
        return None if may_choose or self.is_older else "sbuf"

    def _loaded(self, name: str, call: ast.Call) -> Shape | None:
        """Return the shape of the result of nl.load for a slice of a tensor; None if unknown, and
        for other functions."""
        if name in ROLES["loads"] and call.args and isinstance(call.args[0], ast.Subscript):
            return sizes(call.args[0].slice)
        return None

    def _memory(self, call: ast.Call) -> str | None:
        """Return the memory that an allocation names, by default SBUF; None if unknown."""
        buffer = argument(call, 2, "buffer")
        if buffer is None:
            return "sbuf" if len(call.args) <= 2 else None
        memory: str | None = ROLES["memories"].get(self.api(buffer))
        return memory

    def _shape(self, call: ast.Call) -> Shape | None:
        shape = argument(call, 0, "shape")
        if not isinstance(shape, ast.Tuple | ast.List):
            return None
        return numbers(shape.elts)

    def _part(self, node: ast.Subscript, depth: int) -> Value:
        whole = self.value(node.value, depth)
        if whole.kind == "tensor":
            shape = sizes(node.slice, whole.shape)
            return Value("tensor", whole.memory, shape, compared=whole.compared)
        if whole.kind == "indices":
            return whole
        if isinstance(node.slice, ast.Slice):
            return UNKNOWN  # the value is a list of elements, not an element
        number = literal(node.slice)
        if isinstance(node.value, ast.List | ast.Tuple) and number is not None:
            return agreed(
                self.value(element, depth) for element in node.value.elts[number : number + 1]
            )
        return self._common(node.value, depth)

    def _returned(self, function: ast.expr, depth: int) -> Value:
        """Return the value that a call of the function `function` returns."""
        scope = self.scope_of(function)
        if scope is None:
            return UNKNOWN
        results = [statement.value for statement in scope.of(ast.Return)]
        value = agreed(scope.value(result, depth // 2) if result else HOST for result in results)
        return replace(value, born=None, shape=None)

    def makes_its_result(self) -> bool:
        """Return whether this function only returns tensors that it allocates."""
        results = [
            statement.value for statement in self.of(ast.Return) if statement.value is not None
        ]
        return bool(results) and all(self.value(result).born is not None for result in results)

    def scope_of(self, function: ast.expr) -> Scope | None:
        """Return the scope of the function that an expression names, in any file; None if it is
        unknown or launched."""
        scope: Scope | None = self
        while isinstance(function, ast.Name) and scope is not None:
            if function.id in scope.inner:
                return scope.inner[function.id]
            if function.id in scope.bindings:
                return None
            scope = scope.outer
        meaning = self.program.modules.meaning(self.module, function)
        if not isinstance(meaning, tuple) or isinstance(meaning[1], ast.ClassDef):
            return None
        if self.program.is_launched(*meaning):  # a launch returns values of the host
            return None
        return self.scopes.of(Device(meaning[0], meaning[1], is_kernel=False))
