"""Rules about constructs of Python that the compiler of kernels does not accept. Also the search
for all nodes of a kernel's functions (`spots`).

The rules describe the compiler's usual front end, which parses the source of a kernel. A loop of
the device is a loop that the device runs; the compiler unrolls other loops. A function of the
device is a kernel, or a function that a kernel calls.

Each rule receives a Spot: a node of such a function, and the loops around the node. The rule yields
its findings as tuples (code, node, sentence). For each code, a row in
neuroncore/base/codes/source.toml lists the releases in which the rule applies."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from neuroncore.lint.inference import Scope
from neuroncore.lint.modules import ROLES
from neuroncore.lint.syntax import DEFINITIONS, argument, children, literal


class Spot(NamedTuple):
    """A node in the syntax tree of a function of the device, with its scope.

    `loops`: the loops of the device around the node, the outermost first
    `traced`: the loops around the node whose body the older API's compiler reads once for all
        iterations
    `ordered`: True in a `with` block that keeps the order of instructions"""

    node: ast.AST
    scope: Scope
    loops: tuple[ast.AST, ...] = ()
    traced: tuple[ast.For, ...] = ()
    ordered: bool = False
    nested: bool = False  # in a loop of any kind


# the fields of a Spot other than its node
Around = tuple[Scope, tuple[ast.AST, ...], tuple[ast.For, ...], bool, bool]
AROUND = frozenset((ast.For, ast.While, ast.With))  # nodes that change the fields of Spots inside
DEFINED = frozenset(DEFINITIONS)
# kinds of nodes without rules
WITHOUT_RULES = frozenset((ast.keyword, ast.Slice, ast.FormattedValue, ast.Expr))
# A rule's finding: a code, the node at fault, and a sentence.
Report = tuple[str, ast.AST, str]
Rule = Callable[[Spot], Iterator[Report]]


class Rules:
    """The rules of one module. `of` maps each type of node to its rules."""

    def __init__(self) -> None:
        self.of: dict[type[ast.AST], list[Rule]] = {}

    def about(self, *types: type[ast.AST]) -> Callable[[Rule], Rule]:
        """Return a decorator that adds a rule for nodes of these types."""

        def add(rule: Rule) -> Rule:
            for node_type in types:
                self.of.setdefault(node_type, []).append(rule)
            return rule

        return add


def spots(scope: Scope) -> list[Spot]:
    """Return a Spot for each node of a function that has rules, also in inner functions."""
    listed: list[Spot] = []
    loops = (scope.node,) if scope.is_loop_body else ()
    _enter(scope.node, (scope, loops, (), False, False), listed)
    for inner in scope.inner.values():
        listed += spots(inner)
    return listed


@lru_cache(64)  # bounded, so that old files are released
def loops_of_assignments(scope: Scope) -> dict[str, tuple[ast.AST, ...]]:
    """Return, for each name that the function assigns, the loops of the device around the
    assignment. Names with assignments in different loops are left out."""
    loops_of: dict[str, set[tuple[ast.AST, ...]]] = {}
    for spot in spots(scope):
        if spot.scope is scope and isinstance(spot.node, ast.Assign):
            for target in spot.node.targets:
                if isinstance(target, ast.Name):
                    loops_of.setdefault(target.id, set()).add(spot.loops)
    return {name: next(iter(loops)) for name, loops in loops_of.items() if len(loops) == 1}


def _enter(node: ast.AST, around: Around, listed: list[Spot]) -> None:
    """Append the Spots of a node, and of the nodes inside it that the compiler reads, to `listed`.

    `around`: the fields of the node's Spot, except the node"""
    kind = type(node)
    if kind not in WITHOUT_RULES:
        listed.append(Spot(node, *around))
    if kind in AROUND:
        around = _entered(Spot(node, *around))
    for child in _read(node):
        kind = type(child)
        if kind is ast.Name or kind is ast.Attribute:
            if not _is_own(around[0], child):
                _enter(child, around, listed)
        elif kind is ast.ClassDef:
            listed.append(Spot(child, *around))
        elif kind not in DEFINED and not (kind is ast.Constant and _is_plain(child)):
            _enter(child, around, listed)


def _is_plain(node: ast.AST) -> bool:
    """Return whether a node is a constant that every release accepts."""
    return isinstance(node, ast.Constant) and type(node.value) in (str, bool, float, type(None))


def _read(node: ast.AST) -> Sequence[ast.AST]:
    """Return the children of a node that the compiler reads: no decorators, parameters or
    annotations."""
    if isinstance(node, DEFINITIONS):
        return node.body
    if isinstance(node, ast.AnnAssign):
        return [part for part in (node.target, node.value) if part is not None]
    return children(node)


def _is_own(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node is a name (or an attribute of one) that the function or an enclosing
    function binds. No rule reports such a node."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in scope.own_names


def _entered(spot: Spot) -> Around:
    """Return the fields, except the node, of the Spots inside `spot`, a loop or `with` block."""
    node, scope = spot.node, spot.scope
    loops, traced, ordered = spot.loops, spot.traced, spot.ordered
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
        called = scope.api(node.iter.func)
        loops += (node,) if called in ROLES["dynamic_ranges"] else ()
        traced += (node,) if called in ROLES["traced_once"] else ()
    elif isinstance(node, ast.While) and scope.value(node.test).kind == "register":
        loops += (node,)
    elif isinstance(node, ast.With):
        ordered = ordered or any(_keeps_order(scope, item) for item in node.items)
    nested = spot.nested or isinstance(node, ast.For | ast.While)
    return scope, loops, traced, ordered, nested


def _keeps_order(scope: Scope, item: ast.withitem) -> bool:
    block = scope.stands_for(item.context_expr)
    return (
        scope.api(block.func if isinstance(block, ast.Call) else block) in ROLES["ordered_blocks"]
    )


RULES = Rules()
NUMBERS = ("cmath", "decimal", "fractions")  # modules of Python's library
WIDE = ("int64", "uint64", "float64", "longdouble", "complex64", "complex128")
LARGEST = 2**32  # the magnitude of a 32-bit number, signed or unsigned, is smaller


class Construct(NamedTuple):
    """A kind of node that the language of kernels lacks.

    `sentence`: the message, with "{function}" for the name of the function
    `example`: the shortest body of a kernel with such a node"""

    kind: type[ast.AST]
    code: str
    sentence: str
    example: str


A_COMPREHENSION, A_GENERATOR = (
    "a kernel contains a comprehension",
    "{function} is a generator: it yields",
)
CAUGHT, ASYNC = "a kernel catches exceptions", "a kernel contains async code"
CONSTRUCTS = {
    construct.kind: construct
    for construct in (
        Construct(ast.ListComp, "COMPREHENSION", A_COMPREHENSION, "n = [i for i in (1, 2)]"),
        Construct(ast.SetComp, "COMPREHENSION", A_COMPREHENSION, "n = {i for i in (1, 2)}"),
        Construct(ast.DictComp, "COMPREHENSION", A_COMPREHENSION, "n = {'a': i for i in (1, 2)}"),
        Construct(
            *(ast.GeneratorExp, "GENERATOR", "a kernel contains a generator expression"),
            "n = sum(i for i in (1, 2))",
        ),
        Construct(ast.Yield, "GENERATOR", A_GENERATOR, "yield 1"),
        Construct(ast.YieldFrom, "GENERATOR", A_GENERATOR, "yield from (1, 2)"),
        Construct(ast.Lambda, "LAMBDA", "a kernel contains a lambda", "f = lambda n: n"),
        Construct(ast.Set, "SET", "a kernel contains a set", "n = {1, 2}"),
        Construct(ast.Try, "TRY", CAUGHT, "try: n = 1\nexcept ValueError: n = 2"),
        Construct(ast.TryStar, "TRY", CAUGHT, "try: n = 1\nexcept* ValueError: n = 2"),
        Construct(ast.Await, "ASYNC", ASYNC, "async def f(g):\n    await g()"),
        Construct(ast.AsyncFor, "ASYNC", ASYNC, "async def f(g):\n    async for n in g: n"),
        Construct(ast.AsyncWith, "ASYNC", ASYNC, "async def f(g):\n    async with g: g"),
        Construct(ast.AsyncFunctionDef, "ASYNC", ASYNC, "async def f(): return 1"),
        Construct(
            *(ast.Match, "MATCH", "a kernel contains a match statement"),
            "match x.shape:\n    case _: n = 1",
        ),
        Construct(
            *(ast.NamedExpr, "WALRUS", "an expression contains an assignment"),
            "n = (m := 1) + 1",
        ),
    )
}


@RULES.about(*CONSTRUCTS)
def constructs(spot: Spot) -> Iterator[Report]:
    """Report expressions and statements that are not part of the language."""
    row = CONSTRUCTS[type(spot.node)]
    yield row.code, spot.node, row.sentence.format(function=spot.scope.node.name)


@RULES.about(ast.Call)
def sets(spot: Spot) -> Iterator[Report]:
    """Report sets that a call creates."""
    if isinstance(spot.node, ast.Call) and _calls_one_of(spot.scope, spot.node, "set", "frozenset"):
        yield "SET", spot.node, "a kernel contains a set"


@RULES.about(ast.Compare, ast.Call)
def identity(spot: Spot) -> Iterator[Report]:
    """Report `is` between two values, except None: an error for a constant or a name of the API,
    otherwise a warning, because AWS's own kernels compare tensors with `is`."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Call) and len(node.args) == 2:
        called = scope.program.modules.meaning(scope.module, node.func)
        if called in ("operator.is_", "operator.is_not"):
            yield _identity(spot, node.args, f"{called}")
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for number, operator in enumerate(node.ops):
        pair = operands[number : number + 2]
        to_none = any(
            isinstance(operand, ast.Constant) and operand.value is None for operand in pair
        )
        if isinstance(operator, ast.Is | ast.IsNot) and not to_none:
            yield _identity(spot, pair, "is" if isinstance(operator, ast.Is) else "is not")


def _identity(spot: Spot, operands: Sequence[ast.expr], word: str) -> Report:
    scope = spot.scope
    is_constant = any(
        isinstance(operand, ast.Constant) or scope.api(operand) for operand in operands
    )
    code = "IDENTITY" if is_constant else "IDENTITY_OF_OBJECTS"
    return code, spot.node, f"`{word}` compares the identity of objects, not their values"


@RULES.about(ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp)
def values(spot: Spot) -> Iterator[Report]:
    """Report values that the language of kernels doesn't have."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.expr)
    constant = node.value if isinstance(node, ast.Constant) else None
    if isinstance(constant, complex) or _calls_one_of(scope, node, "complex"):
        yield "VALUE_TYPE", node, "a kernel contains a complex number"
    elif isinstance(constant, bytes) or _calls_one_of(scope, node, "bytes", "bytearray"):
        yield "VALUE_TYPE", node, "a kernel contains bytes"
    elif _is_wide(node):
        yield "VALUE_TYPE", node, f"the integer {literal(node)} needs more than 32 bits"


@RULES.about(ast.Name, ast.Attribute)
def values_of_the_file(spot: Spot) -> Iterator[Report]:
    """Report values from outside of the kernel that its language lacks: global names of the file,
    and names of modules such as `decimal`."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Name | ast.Attribute)
    if isinstance(node, ast.Name) and (file_value := scope.module.values.get(node.id)) is not None:
        if _is_wide(file_value):
            message = f"`{node.id}` is {literal(file_value)}, which needs more than 32 bits"
            yield "VALUE_TYPE", node, message
        if isinstance(file_value, ast.Set) or _calls_one_of(scope, file_value, "set", "frozenset"):
            yield "SET", node, f"the global `{node.id}` is a set"
    meaning = scope.program.modules.meaning(scope.module, node)
    if isinstance(meaning, str) and "." in meaning and meaning.partition(".")[0] in NUMBERS:
        yield "VALUE_TYPE", node, f"a kernel uses {meaning}"


@RULES.about(ast.Call)
def wide_values(spot: Spot) -> Iterator[Report]:
    """Report numpy numbers that are wider than the numbers of the language."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    meaning = scope.program.modules.meaning(scope.module, node.func)
    if (
        isinstance(meaning, str)
        and meaning.removeprefix("numpy.") in WIDE
        and meaning[:6] == "numpy."
    ):
        yield "VALUE_TYPE", node, f"{meaning} creates a number with more than 32 bits"


def _calls_one_of(scope: Scope, node: ast.expr, *names: str) -> bool:
    """Return whether an expression calls one of these built-in functions of Python."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id in names and scope.is_of_python(called.id)


def _is_wide(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and type(node.value) is not int:
        return False
    number = literal(node) if isinstance(node, ast.expr) else None
    return number is not None and abs(number) >= LARGEST


@RULES.about(ast.Dict, ast.Subscript, ast.Call)
def keys(spot: Spot) -> Iterator[Report]:
    """Report dictionaries whose keys are not strings."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None and (kind := _not_a_string(scope, key)):
                yield "DICT_KEY", key, f"a dictionary has {kind} as a key"
    elif isinstance(node, ast.Subscript) and _is_dictionary(scope, node.value):
        kind = _not_a_string(scope, node.slice)
        if kind:
            yield "DICT_KEY", node, f"a dictionary has {kind} as a key"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        looks_up = node.func.attr in ("get", "setdefault", "pop") and _is_dictionary(
            scope, node.func.value
        )
        if looks_up and (kind := _not_a_string(scope, node.args[0])):
            yield "DICT_KEY", node, f"a dictionary is searched for the key {kind}"


def _not_a_string(scope: Scope, key: ast.expr) -> str:
    match key:
        case ast.Constant(value=str()):
            return ""
        case ast.Constant(value=value):
            return f"{value!r}"
        case ast.Tuple():
            return "a tuple"
        case ast.Attribute() if scope.api(key):
            return f"{ast.unparse(key)}"
    return "an integer" if scope.value(key).kind == "integer" else ""


def _is_dictionary(scope: Scope, node: ast.expr) -> bool:
    value = scope.stands_for(node)
    return isinstance(value, ast.Dict) or _calls_one_of(scope, value, "dict")


@RULES.about(ast.FunctionDef)
def functions(spot: Spot) -> Iterator[Report]:
    """Report functions that are defined in a kernel, except bodies of loops of the device."""
    outer = spot.scope.outer
    if spot.node is not spot.scope.node or outer is None or isinstance(outer.node, ast.ClassDef):
        return
    program, device = spot.scope.program, outer.device
    in_kernel = device.is_kernel or program.is_called_by_kernels(device.node)
    launches = program.is_launched(spot.scope.module, spot.scope.node)
    if in_kernel and not launches and not spot.scope.is_loop_body:
        name = spot.scope.node.name
        yield "INNER_FUNCTION", spot.node, f"`{name}` is defined inside a kernel"


@RULES.about(ast.Assign)
def targets(spot: Spot) -> Iterator[Report]:
    """Report assignments that unpack a tuple into something other than plain names, such as `a[0],
    b = pair`."""
    if not isinstance(spot.node, ast.Assign):
        return
    for target in spot.node.targets:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        for part in parts:
            if kind := WHERE.get(type(part)):
                yield (
                    "UNPACKING",
                    spot.node,
                    f"a tuple is unpacked into {kind}: `{ast.unparse(part)}`",
                )


WHERE: dict[type[ast.expr], str] = {
    ast.Subscript: "an element",
    ast.Attribute: "an attribute",
    ast.Starred: "a starred name",
}


@RULES.about(ast.Call)
def objects(spot: Spot) -> Iterator[Report]:
    """Report calls that make named tuples or SimpleNamespaces."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    origin = scope.stands_for(node.func)
    maker = origin.func if isinstance(origin, ast.Call) else origin
    made_by = scope.program.modules.meaning(scope.module, maker)
    if made_by in ("collections.namedtuple", "types.SimpleNamespace"):
        yield "NOT_NKI_OBJECT", node, f"the class `{ast.unparse(node.func)}` is made by {made_by}"


@RULES.about(ast.ClassDef)
def classes(spot: Spot) -> Iterator[Report]:
    """Report classes that are defined in a kernel."""
    if isinstance(spot.node, ast.ClassDef) and spot.node is not spot.scope.node:
        yield "NOT_NKI_OBJECT", spot.node, f"class `{spot.node.name}` is defined inside a kernel"


@RULES.about(ast.Call)
def printing(spot: Spot) -> Iterator[Report]:
    """Report calls of device_print whose prefix is not a constant string."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Call) or scope.api(node.func) not in ROLES["printing"]:
        return
    prefix = argument(node, 0, "print_prefix")
    prefix = None if prefix is None else scope.stands_for(prefix)
    is_text = isinstance(prefix, ast.Constant) and isinstance(prefix.value, str)
    composed = isinstance(prefix, ast.JoinedStr | ast.BinOp | ast.Constant | ast.Call)
    if prefix is None or is_text:
        return
    if composed or scope.value(prefix).kind != "unknown":
        yield "PRINT_PREFIX", node, f"the prefix `{ast.unparse(prefix)}` is not a constant string"
