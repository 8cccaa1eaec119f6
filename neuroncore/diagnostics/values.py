"""What expressions of a kernel stand for, as far as its source alone tells: a tensor, a register,
an index that the device counts.

A name means what all assignments to it in its function agree on, in whatever order they come; where
they don't, and for parameters, nothing is known. So that nothing is told that isn't so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal, TypeVar

from neuroncore.diagnostics.kernels import Device, Program
from neuroncore.diagnostics.modules import of_the_api
from neuroncore.diagnostics.nodes import nested
from neuroncore.diagnostics.releases import RELEASES, ROLES, form_in

Kind = Literal[
    "tensor", "register", "index", "indices", "integer", "instruction", "host", "unknown"
]
# of the device: Python can't compute with their values while the kernel is compiled
RUNTIME = ("tensor", "register", "index")
Shape = tuple[int | None, ...]
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Value:
    """What an expression is; of a tensor its memory, shape and format where they are known.

    "index" is what a loop of the device counts, "indices" an index expression of the older API,
    "integer" what a loop of the compiler counts, "host" any other value of Python's.
    """

    kind: Kind
    memory: str | None = None
    shape: Shape | None = None
    born: ast.AST | None = None

    def agreeing(self, other: Value) -> Value:
        """What both have in common."""
        if self.kind != other.kind:
            return UNKNOWN
        memory = self.memory if self.memory == other.memory else None
        shape = self.shape if self.shape == other.shape else None
        return Value(self.kind, memory, shape, self.born if self.born is other.born else None)


UNKNOWN, HOST = Value("unknown"), Value("host")
BINDING = (
    *(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.For, ast.comprehension),
    *(ast.withitem, ast.FunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal),
)
DEPTH = 40  # of calls and assignments that lead to a value


def agreed(values: Iterable[Value]) -> Value:
    found = [*values]
    return reduce(Value.agreeing, found) if found else UNKNOWN


class Scopes:
    """The functions of a program, each read once, for a release of the API."""

    def __init__(self, program: Program, release: str) -> None:
        self.program, self.release = program, release
        self._of: dict[ast.AST, Scope] = {}

    def hold_against(self, release: str) -> None:
        """Read them for another release: what the names of the API are in it."""
        self.release = release
        for scope in self._of.values():
            scope.forget_values()

    def of(self, device: Device) -> Scope:
        if device.node not in self._of:
            self._of[device.node] = Scope(self, device)
        return self._of[device.node]

    def all(self) -> list[Scope]:
        """Those of the program, without functions that are defined in others."""
        return [self.of(device) for device in self.program.functions]


class Scope:
    """A function of the device, or one that is defined in it, and what its names are."""

    def __init__(self, scopes: Scopes, device: Device, outer: Scope | None = None) -> None:
        self.scopes, self.program, self.device, self.outer = scopes, scopes.program, device, outer
        self.module, self.node = device.module, device.node
        self._values: dict[str, Value] = {}
        self._api: dict[ast.expr, str] = {}
        self._open: set[str] = set()
        self.nodes = nested(self.node)
        self._of_kind: dict[type[ast.AST], list[ast.AST]] = {}
        for one in self.nodes:
            self._of_kind.setdefault(type(one), []).append(one)
        self._names_older = self._is_of_the_older()
        self.bindings = _bindings([one for kind in BINDING for one in self.of(kind)])
        self.file_names = {name for one in self.of(ast.Global) for name in one.names}
        self.inner = {
            one.name: Scope(scopes, replace(device, node=one, is_kernel=False), self)
            for one in self.of(ast.FunctionDef)
        }
        self.is_loop_body = False  # of a loop that the device runs
        self.loop_values: dict[str, Value] = {}  # of its parameters, if it is one
        self._give_to_bodies()

    def of(self, kind: type[Node]) -> Sequence[Node]:
        """The nodes of a kind, without those of functions and classes that are defined here."""
        return self._of_kind.get(kind, ())  # type: ignore[return-value]

    @property
    def release(self) -> str:
        """The release that the function is held against."""
        return RELEASES[0] if self._names_older else self.scopes.release

    @property
    def is_older(self) -> bool:
        return self.release == RELEASES[0]

    def forget_values(self) -> None:
        """What names are, which depends on the release."""
        self._values = {}
        for inner in self.inner.values():
            inner.forget_values()

    def api(self, expression: ast.expr) -> str:
        """What the API calls what an expression names; empty if it isn't the API's."""
        if expression not in self._api:
            self._api[expression] = self._of_api(expression)
        return self._api[expression]

    def _of_api(self, expression: ast.expr) -> str:
        if isinstance(expression, ast.Name) and expression.id in self.bindings:
            return ""
        return self.program.api_name(self.module, expression) or ""

    def _is_of_the_older(self) -> bool:
        """Whether all that a function uses of the API is of the older one."""
        if self.outer is not None:
            return self.outer._names_older
        origins = [self.module.imports.get(name) for name in {one.id for one in self.of(ast.Name)}]
        of_api = {one[1].partition(".")[0] for one in origins if one and of_the_api(one[1])}
        return self.module.is_older or of_api == {"neuronxcc"}

    def _give_to_bodies(self) -> None:
        """What loops of the device give to the functions that they call."""
        for call in self.of(ast.Call):
            body = self.body_of(call)
            if body is not None:
                body.is_loop_body = True
            if body is not None and (given := body.parameters):
                counted = self.api(call.func) in ROLES["counted_loops"]
                body.loop_values[given[0]] = Value("index" if counted else "register")

    def body_of(self, call: ast.Call) -> Scope | None:
        """The function of here that a loop of the device is given as its body."""
        where = ROLES["loop_bodies"].get(self.api(call.func))
        named = {one.arg: one.value for one in call.keywords}.get("body_fun")
        if where is None or (len(call.args) <= where and named is None):
            return None
        body = call.args[where] if named is None else named
        return self.inner.get(body.id) if isinstance(body, ast.Name) else None

    @cached_property
    def own_names(self) -> frozenset[str]:
        """What is bound here, or in the function around."""
        around = frozenset() if self.outer is None else self.outer.own_names
        return around.union(self.bindings, self.parameters)

    @cached_property
    def parameters(self) -> list[str]:
        if isinstance(self.node, ast.ClassDef):
            return []
        given = self.node.args
        return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]

    # --- names ---------------------------------------------------------------------------------

    def named(self, name: str, depth: int = DEPTH) -> Value:
        """What a name is."""
        if name in self._values:
            return self._values[name]
        if name in self._open or not depth:  # it is made of itself: the rest decides
            return UNKNOWN
        if name in self.parameters:
            own = self.loop_values.get(name, UNKNOWN)
            found = own if name not in self.bindings else UNKNOWN
        elif name in self.bindings:
            self._open.add(name)
            found = agreed(self._bound(how, one, depth - 1) for how, one in self.bindings[name])
            self._open.discard(name)
        elif self.outer is not None:
            return self.outer.named(name, depth - 1)
        else:
            constant = self.module.values.get(name)
            found = HOST if isinstance(constant, ast.Constant) else UNKNOWN
        self._values[name] = found
        return found

    def _bound(self, how: str, expression: ast.expr, depth: int) -> Value:
        if how == "is":
            return self.value(expression, depth)
        if how == "each":
            return self._element(expression, depth)
        made = isinstance(expression, ast.Subscript) and self.api(expression.value)
        return Value("indices") if made == ROLES["index_grid"] else UNKNOWN

    def _element(self, iterable: ast.expr, depth: int) -> Value:
        """What a loop over an expression goes through."""
        if isinstance(iterable, ast.Call):
            called = self.api(iterable.func)
            if called in ROLES["dynamic_ranges"]:
                return Value("index")
            plain = isinstance(iterable.func, ast.Name) and iterable.func.id == "range"
            if called in ROLES["traced_ranges"] or plain:
                return Value("integer")
        return UNKNOWN

    # --- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr, depth: int = DEPTH) -> Value:
        """What an expression is."""
        if not depth:
            return UNKNOWN
        match node:
            case ast.Constant() | ast.JoinedStr():
                return HOST
            case ast.Name():
                return self.named(node.id, depth)
            case ast.Call():
                return self._called(node, depth - 1)
            case ast.Subscript():
                return self._part(node, depth - 1)
            case ast.IfExp():
                return agreed(self.value(one, depth - 1) for one in (node.body, node.orelse))
            case ast.BinOp():
                return self._computed([node.left, node.right], depth - 1)
            case ast.UnaryOp():
                return self._computed([node.operand], depth - 1)
            case ast.Compare():
                if all(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
                    return HOST
                return self._computed([node.left, *node.comparators], depth - 1)
        return UNKNOWN

    def _computed(self, operands: Sequence[ast.expr], depth: int) -> Value:
        kinds = [self.value(one, depth).kind for one in operands]
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
            return Value("tensor", viewed.memory) if viewed.kind == "tensor" else UNKNOWN
        return self._returned(call.func, depth)

    def _of_the_api(self, name: str, call: ast.Call) -> Value:
        if name in ROLES["registers"]:
            return Value("register")
        if name == ROLES["index_maker"]:
            return Value("indices")
        if name in ROLES["allocations"]:
            return Value("tensor", self._memory(call), self._shape(call), call)
        form = form_in(name, self.release)
        if form is None or form.parameters is None:
            return UNKNOWN
        if name.startswith("nki.language.") and name not in ROLES["values"]:
            return Value("tensor", self._result_memory(name, call), self._loaded(name, call))
        if name.startswith("nki.isa.") and not self.is_older:
            return Value("instruction")
        return UNKNOWN

    def _result_memory(self, name: str, call: ast.Call) -> str | None:
        """Where functions of nki.language leave their results; the older API's compiler chooses."""
        if name in ROLES["in_psum"]:
            return "psum"
        chosen = any(one.arg in (None, "buffer") for one in call.keywords)
        return None if chosen or self.is_older else "sbuf"

    def _loaded(self, name: str, call: ast.Call) -> Shape | None:
        """The shape of a tensor that is loaded from a part of another."""
        if name in ROLES["loads"] and call.args and isinstance(call.args[0], ast.Subscript):
            return _sizes(call.args[0].slice)
        return None

    def _memory(self, call: ast.Call) -> str | None:
        """The memory that an allocation names; where it names none, that of tiles."""
        given = argument(call, 2, "buffer")
        if given is None:
            return "sbuf" if len(call.args) <= 2 else None
        found: str | None = ROLES["memories"].get(self.api(given))
        return found

    def _shape(self, call: ast.Call) -> Shape | None:
        given = argument(call, 0, "shape")
        if not isinstance(given, ast.Tuple | ast.List):
            return None
        return tuple(literal(one) for one in given.elts)

    def _part(self, node: ast.Subscript, depth: int) -> Value:
        whole = self.value(node.value, depth)
        if whole.kind == "tensor":
            return Value("tensor", whole.memory, _sizes(node.slice))
        return whole if whole.kind == "indices" else UNKNOWN

    def _returned(self, function: ast.expr, depth: int) -> Value:
        """What a function of the file, or of another, gives back."""
        scope = self._scope_of(function)
        if scope is None:
            return UNKNOWN
        made = [one.value for one in scope.of(ast.Return)]
        found = agreed(scope.value(one, depth // 2) if one else HOST for one in made)
        return replace(found, born=None, shape=None)

    def _scope_of(self, function: ast.expr) -> Scope | None:
        scope: Scope | None = self
        while isinstance(function, ast.Name) and scope is not None:
            if function.id in scope.inner:
                return scope.inner[function.id]
            if function.id in scope.bindings:
                return None
            scope = scope.outer
        found = self.program.modules.meaning(self.module, function)
        if not isinstance(found, tuple) or isinstance(found[1], ast.ClassDef):
            return None
        if self.program.is_launched(*found):  # what a launch returns is the host's
            return None
        return self.scopes.of(Device(found[0], found[1], is_kernel=False))


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument of a call, by its position or its name."""
    if position < len(call.args):
        return call.args[position]
    return next((one.value for one in call.keywords if one.arg == name), None)


def literal(node: ast.expr | None) -> int | None:
    """An integer that stands in the source, also as a sum, a product or a power of some."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = literal(inner)
            return None if found is None else -found
        case ast.BinOp(left=left, op=op, right=right):
            return _folded(literal(left), op, literal(right))
    return None


def _folded(left: int | None, op: ast.operator, right: int | None) -> int | None:
    if left is None or right is None or not 0 <= right < 4096:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.LShift() if right < 128:
            return left << right
        case ast.Pow() if right < 128 and abs(left) < 4096:
            return int(left**right)
    return None


def _sizes(index: ast.expr) -> Shape | None:
    """How many elements slices with plain numbers take of each axis."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    found: list[int | None] = []
    for one in parts:
        if not isinstance(one, ast.Slice) or one.step is not None:
            return None
        first = 0 if one.lower is None else literal(one.lower)
        last = literal(one.upper)
        found.append(None if first is None or last is None else last - first)
    return tuple(found)


def _bindings(nodes: Sequence[ast.AST]) -> dict[str, list[tuple[str, ast.expr]]]:
    """What is bound to names in a function, and how: it "is" an expression, "each" element of one,
    or a part of one ("part")."""
    found: dict[str, list[tuple[str, ast.expr]]] = {}

    def bind(target: ast.expr, how: str, source: ast.expr) -> None:
        if isinstance(target, ast.Name):
            found.setdefault(target.id, []).append((how, source))
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
                found.setdefault(node.name, []).append(("part", ast.Constant(None)))
    return {name: bound for name, bound in found.items() if name not in shared}


def _loaded_name(target: ast.expr) -> ast.expr:
    return ast.Name(target.id) if isinstance(target, ast.Name) else target
