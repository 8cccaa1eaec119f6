"""Rules about calls of the API: names, parameters and arguments that a release does not accept.
Also rules about a kernel's interface (decorators, parameters, classes and results), and about
source that means something else in the older API.

An ApiSignature is the parameters of a name in some releases. A Scope is a kernel, or a function
that a kernel calls. A Spot is a node in the syntax tree of a Scope. A rule yields its findings as
tuples (code, node, sentence)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache

from neuroncore.lint.constructs import Report, Rules, Spot
from neuroncore.lint.inference import Scope
from neuroncore.lint.kernels import SourceFiles
from neuroncore.lint.modules import (
    RELEASES,
    ROLES,
    ApiSignature,
    Module,
    elsewhere,
    signature_in,
    signatures,
)
from neuroncore.lint.syntax import argument, name_of

RULES = Rules()


@RULES.about(ast.Call)
def allocations(spot: Spot) -> Iterator[Report]:
    """Report allocations of shared HBM in a loop. All programs of a launch share such a tensor."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Call) or not spot.nested:
        return
    called = scope.scope_of(node.func)
    calls = (
        [(scope, node)] if called is None else [(called, inner) for inner in called.of(ast.Call)]
    )
    if any(_is_shared(*scope_and_call) for scope_and_call in calls):
        yield "SHARED_HBM_IN_LOOP", node, f"`{ast.unparse(node)}` is called in a loop"


def _is_shared(scope: Scope, call: ast.Call) -> bool:
    """Return whether a call allocates a tensor in HBM that all programs of a launch share."""
    buffer = argument(call, 2, "buffer")
    if buffer is None or scope.api(call.func) not in ROLES["allocations"]:
        return False
    memory = ROLES["memories"].get(scope.api(scope.stands_for(buffer)))
    return bool(memory == ROLES["result_memory"])


@RULES.about(ast.AugAssign, ast.Assign)
def counters(spot: Spot) -> Iterator[Report]:
    """Report numbers that are incremented in a traced loop and read after it. The older API's
    compiler reads the body of such a loop only once. Numbers that are read only in the loop are
    accepted: published kernels compute addresses in this way."""
    node, scope = spot.node, spot.scope
    name = _counted(node) if spot.traced else ""
    if not name:
        return
    bound = scope.bindings.get(name, [])
    starts = [
        expression
        for how, expression in bound
        if how == "is" and isinstance(expression, ast.Constant)
    ]
    plain = all(
        how == "is" and isinstance(expression, ast.Constant | ast.BinOp)
        for how, expression in bound
    )
    if starts and plain and _is_read_behind(scope, name, spot.traced[-1]):
        message = f"`{name}` is incremented in a loop whose body the compiler reads only once"
        yield "COUNTER_IN_TRACED_LOOP", node, message


def _counted(node: ast.AST) -> str:
    """Return the name that a statement increments; "" for other statements."""
    match node:
        case ast.AugAssign(target=ast.Name(name)):
            return name
        case ast.Assign(targets=[ast.Name(name)], value=ast.BinOp(left=left, right=right)):
            return name if name in (name_of(left), name_of(right)) else ""
    return ""


def _is_read_behind(scope: Scope, name: str, loop: ast.For) -> bool:
    end = loop.end_lineno or loop.lineno
    named = (node for node in scope.nodes if isinstance(node, ast.Name) and node.id == name)
    return any(isinstance(node.ctx, ast.Load) and node.lineno > end for node in named)


@RULES.about(ast.Subscript)
def indexing(spot: Spot) -> Iterator[Report]:
    """Report subscripts that combine slices with index expressions."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        sliced = any(isinstance(part, ast.Slice) for part in parts)
        if sliced and any(_is_expression(scope, part) for part in parts):
            yield (
                "MIXED_INDEXING",
                node,
                f"`{ast.unparse(node)}` mixes slices and index expressions",
            )


def _is_expression(scope: Scope, node: ast.expr) -> bool:
    return scope.value(node).kind == "indices"


def of_the_api(spot: Spot) -> bool:
    """Return whether a node is a name of the API, or a call of such a name."""
    node = spot.node.func if isinstance(spot.node, ast.Call) else spot.node
    return isinstance(node, ast.Attribute | ast.Name) and bool(spot.scope.api(node))


@RULES.about(ast.Attribute, ast.Name, ast.Call)
def of_its_release(spot: Spot) -> Iterator[Report]:
    """Report names and parameters that the release of the kernel lacks (`misfits`)."""
    return misfits(spot, spot.scope.release)


def misfits(spot: Spot, release: str) -> Iterator[Report]:
    """Report names, parameters and argument orders that `release` lacks and another release has,
    and missing arguments. Functions of the older API are checked only against its release, and all
    others against other releases."""
    node, scope = spot.node, spot.scope
    if scope.is_older != (release == RELEASES[0]):
        return
    if isinstance(node, ast.Call):
        yield from _parameters(scope, node, release)
    elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
        name = scope.api(node)
        if others := elsewhere(signatures().get(name, ()), release):
            message = f"`{name_of(node)}` is in API {others}, not in {release}"
            yield "NAME_OF_RELEASE", node, message


@RULES.about(ast.Attribute, ast.Name)
def of_no_release(spot: Spot) -> Iterator[Report]:
    """Report unknown names that are similar to a name of a release. Other unknown names are
    accepted, because the reference pages may omit names."""
    node = spot.node
    if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    name = spot.scope.api(node)
    if name in signatures() or name in UNLISTED or name.rpartition(".")[0] not in MODULES:
        return
    if meant := _meant(name):
        unknown = f"no release of the API has `{name_of(node)}`"
        yield "UNKNOWN_NAME", node, f"{unknown}; did you mean `{meant}`?"


# the reference pages of all releases omit these names, but nki-library uses them
UNLISTED = ("nki.language.bool", "nki.language.range")
MODULES = ("nki.isa", "nki.language", "nki.collectives")
LIKE = 0.8  # the least similarity (equal names have 1): about one letter may differ


@cache
def _meant(name: str) -> str:
    """Return the name in the same module of the API that is most similar to `name`, without the
    module; "" for none."""
    module, _, last = name.rpartition(".")
    known = (api_name.rpartition(".") for api_name in signatures())
    names = [name_there for home, _, name_there in known if home == module]
    return next(iter(get_close_matches(last, names, 1, LIKE)), "")


def alike(uses: Sequence[Spot]) -> Iterator[list[Spot]]:
    """Yield groups of uses with the same name and kinds of arguments, which a release accepts or
    refuses together."""
    groups: dict[object, list[Spot]] = {}
    for spot in uses:
        node, scope = spot.node, spot.scope
        key: tuple[object, ...] = ()
        if isinstance(node, ast.Call):
            kinds_given = (type(passed) for passed in node.args)
            named = ((keyword.arg or id(keyword), type(keyword.value)) for keyword in node.keywords)
            key = scope.is_older, scope.api(node.func), *kinds_given, *named
        elif isinstance(node, ast.Attribute | ast.Name):
            key = scope.is_older, type(node.ctx), scope.api(node)
        groups.setdefault(key, []).append(spot)
    yield from groups.values()


def _parameters(scope: Scope, call: ast.Call, release: str) -> Iterator[Report]:
    name = scope.api(call.func)
    signature = signature_in(name, release)
    if signature is None or signature.parameters is None:
        return
    unknown = [(word, at) for word, at, _ in _keywords(scope, call) if word not in signature.names]
    for word, at in () if signature.takes_any else unknown:
        having = [signature for signature in signatures()[name] if word in signature.names]
        if others := elsewhere(having, release):
            parameter = f"`{name_of(call.func)}` has the parameter `{word}`"
            yield "PARAMETER_OF_RELEASE", at, f"{parameter} in API {others}, not in {release}"
    for parameter, value in _arguments(scope, call, signature):
        listed = isinstance(scope.stands_for(value), ast.List | ast.Tuple)
        if _is_operator_of(parameter) and listed:
            message = (
                f"`{ast.unparse(value)}` is passed to `{name_of(call.func)}` as `{parameter}`, but "
                f"`{parameter}` must be an operator"
            )
            yield "ORDER_OF_ARGUMENTS", value, message
    if missing := _missing(scope, call, signature):
        names = " and ".join(f"`{name}`" for name in missing)
        yield "MISSING_ARGUMENT", call, f"`{name_of(call.func)}` is called without {names}"


def _missing(scope: Scope, call: ast.Call, signature: ApiSignature) -> list[str]:
    """Return the required parameters without an argument in a call; an empty list if `*`, `**` or a
    partial function may pass them."""
    spread = any(keyword.arg is None for keyword in call.keywords)
    spread |= any(isinstance(passed, ast.Starred) for passed in call.args)
    if spread or scope.program.modules.is_bound(scope.module, call.func):
        return []
    passed = {parameter for parameter, _ in _arguments(scope, call, signature)}
    return [parameter for parameter in signature.required if parameter not in passed]


def _arguments(
    scope: Scope, call: ast.Call, signature: ApiSignature
) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments of a call, each with the name of its parameter."""
    yield from zip(signature.names, call.args, strict=False)
    for word, _, value in _keywords(scope, call):
        yield word, value


def _keywords(scope: Scope, call: ast.Call) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """Yield the keyword arguments of a call as (name, node at which to report a fault, value), also
    for entries of a dictionary after `**`."""
    for keyword in call.keywords:
        dictionary = keyword.value if keyword.arg is None else None
        dictionary = None if dictionary is None else scope.stands_for(dictionary)
        if keyword.arg is not None:
            yield keyword.arg, keyword, keyword.value
        elif isinstance(dictionary, ast.Dict):
            for key, value in zip(dictionary.keys, dictionary.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value, value


@RULES.about(ast.Call)
def axes(spot: Spot) -> Iterator[Report]:
    """Report tensors on the chip that lack a second axis."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    if scope.api(node.func) in ROLES["allocations"]:
        tensor = scope.value(node)
        if (
            tensor.memory in ROLES["on_chip"]
            and tensor.shape is not None
            and len(tensor.shape) == 1
        ):
            yield "ONE_AXIS", node, f"`{ast.unparse(node)}` has only one axis"


@RULES.about(ast.Call)
def operands(spot: Spot) -> Iterator[Report]:
    """Report operands of instructions with more axes than a view can have."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    signature = signature_in(scope.api(node.func), scope.release)
    instruction = scope.api(node.func).startswith("nki.isa.") and not scope.is_older
    for parameter, value in _arguments(scope, node, signature) if instruction and signature else ():
        operand = scope.value(value)
        axes = len(operand.shape or ()) if operand.memory in ROLES["on_chip"] else 0
        if axes > (most := ROLES["most_axes"]):
            message = f"`{parameter}` of `{name_of(node.func)}` has {axes} axes, more than {most}"
            yield "MANY_AXES", node, message


@RULES.about(ast.Call)
def kinds(spot: Spot) -> Iterator[Report]:
    """Report strings and numbers for parameters that don't accept them, such as a string for
    `buffer`."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    signature = signature_in(scope.api(node.func), scope.release)
    for parameter, value in () if signature is None else _arguments(scope, node, signature):
        constants = _constants(scope, value) if parameter in ROLES["objects"] else []
        for constant in constants:
            if parameter == "buffer" and isinstance(constant, str):
                yield "STRING_BUFFER", value, f"`buffer` is the string {constant!r}"
            elif parameter != "buffer" and type(constant) is int:
                code = "ENUM_BY_A_NAME" if isinstance(value, ast.Name) else "ENUM_BY_NUMBER"
                yield code, value, f"`{parameter}` is the number {constant}"


def _constants(scope: Scope, node: ast.expr) -> list[object]:
    """Return the constants that may be the value of an expression: of both branches of a
    conditional, of a parameter's default, and of the arguments of calls."""
    value = scope.stands_for(node)
    if isinstance(value, ast.IfExp):
        return [*_constants(scope, value.body), *_constants(scope, value.orelse)]
    is_given = isinstance(value, ast.Name) and value.id in scope.parameters
    values = scope.given(value.id) if is_given else [value]  # type: ignore[attr-defined]
    return [expression.value for expression in values if isinstance(expression, ast.Constant)]


def _is_operator_of(parameter: str) -> bool:
    return parameter.rstrip("0123456789").rpartition("_")[2] == "op"


ENUMERATIONS = ("enum.Enum", "enum.IntEnum", "enum.Flag", "enum.IntFlag", "enum.StrEnum")


def kernels(scope: Scope) -> Iterator[Report]:
    """Report faults in the parameters and results of a kernel, and in classes of its objects."""
    device, node = scope.device, scope.node
    if isinstance(node, ast.ClassDef):
        yield from _class(scope)
        return
    if not device.is_kernel:
        return
    if node.args.kwonlyargs:
        where = node.args.kwonlyargs[0]
        yield "KEYWORD_ONLY", where, f"`{node.name}` has parameters after `*`"
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if default is not None and _is_a_list(scope.module, default):
            yield (
                "LIST_ARGUMENT",
                default,
                f"`{node.name}` has a list as the default of a parameter",
            )
    if scope.program.starts(node):
        yield from _results(scope)


def decorators(scope: Scope) -> Iterator[Report]:
    """Report faults in the decorators that make a function a kernel, and in their options."""
    functions = scope.program.checked(scope.node)
    for decorator in (d for function in functions for d in function.decorator_list):
        name = scope.program.launcher(scope.module, decorator)
        if name in ROLES["compiled"] and isinstance(decorator, ast.Call):
            yield from _options(decorator)
        if name in ROLES["compiled"] and scope.program.is_called_by_kernels(scope.node):
            yield (
                "KERNEL_IN_KERNEL",
                decorator,
                f"`{scope.node.name}` is called by a kernel, but is decorated as a kernel itself",
            )


def _options(call: ast.Call) -> Iterator[Report]:
    for keyword in call.keywords:
        if keyword.arg == "mode":
            yield (
                "JIT_MODE",
                keyword.value,
                "nki.jit is called with the argument mode, which has no effect",
            )
        elif keyword.arg == "platform_target":
            yield (
                "JIT_PLATFORM",
                keyword.value,
                "nki.jit is called with the argument platform_target, which was removed",
            )


def _class(scope: Scope) -> Iterator[Report]:
    """Report a class whose objects a kernel makes or receives. Enumerations, errors, and classes
    that inherit only from NKIObject are allowed."""
    node = scope.node
    assert isinstance(node, ast.ClassDef)
    meanings = [scope.program.modules.meaning(scope.module, base) for base in node.bases]
    if any(meaning in ENUMERATIONS for meaning in meanings) or _is_an_error(node):
        return
    if not any(_is_object(scope.program, meaning) for meaning in meanings):
        yield (
            "NOT_NKI_OBJECT",
            node,
            f"class `{node.name}` of a kernel does not inherit from NKIObject",
        )
    elif len(meanings) > 1:
        bases = ", ".join(map(ast.unparse, node.bases))
        yield "NOT_NKI_OBJECT", node, f"class `{node.name}` of a kernel inherits from {bases}"


def _is_object(program: SourceFiles, meant: object) -> bool:
    """Return whether a class is NKIObject, or inherits from it."""
    if isinstance(meant, tuple) and isinstance(meant[1], ast.ClassDef):
        module, node = meant
        meanings = [program.modules.meaning(module, base) for base in node.bases]
        return any(_is_object(program, meaning) for meaning in meanings if meaning != meant)
    return isinstance(meant, str) and meant.rpartition(".")[2] == ROLES["base_class"]


def _is_an_error(node: ast.ClassDef) -> bool:
    names = [ast.unparse(base) for base in node.bases]
    return any(name.endswith(("Error", "Exception")) for name in names)


def _returned(scope: Scope, node: ast.expr) -> list[ast.expr]:
    """Return the expressions of a kernel's results: the elements of a returned list, tuple or
    dictionary, or `node` itself."""
    match node:
        case ast.Dict():
            return node.values
        case ast.Call(func=ast.Name("tuple" | "list"), args=[sequence]):
            return _returned(scope, sequence)
    listed = scope.elements(node)
    return [node] if listed is None else [*listed]


def _results(scope: Scope) -> Iterator[Report]:
    """Report tensors that a kernel returns although the caller can't read their memory."""
    for statement in scope.nodes:
        if not isinstance(statement, ast.Return) or statement.value is None:
            continue
        for result in _returned(scope, statement.value):
            value = scope.value(result)
            if value.kind != "tensor" or value.memory in (None, ROLES["result_memory"]):
                continue
            on_chip = value.memory in ROLES["on_chip"]
            born = () if on_chip or value.born is None else (value.born,)
            for at in (statement, *born):
                message = (
                    f"the kernel returns `{ast.unparse(result)}`, which is in {value.memory}; "
                    "results must be in HBM"
                )
                yield "RESULT_MEMORY", at, message


def launches(program: SourceFiles) -> Iterator[Report]:
    """Report faults in calls of kernels, and in calls such as nki.jit(f) that make a kernel."""
    first = program.modules.first
    for device, passed, values in program.arguments():
        if values and all(_is_a_list(first, value) for value in values):
            message = f"`{device.name}` is called with a list: `{ast.unparse(passed)}`"
            yield "LIST_ARGUMENT", passed, message
    decorators = {
        decorator for node in first.definitions.values() for decorator in node.decorator_list
    }
    for call in (node for node in first.nodes if isinstance(node, ast.Call)):
        if call not in decorators and program.api_name(first, call.func) in ROLES["compiled"]:
            yield from _options(call)


def _is_a_list(module: Module, node: ast.expr) -> bool:
    """Return whether an expression makes a list, or a tuple that contains a list."""
    match node:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name("list" | "sorted")):
            return True
        case ast.Tuple():
            return any(_is_a_list(module, element) for element in node.elts)
        case ast.Name() if node.id in module.values and node.id not in module.changed:
            value = module.values[node.id]
            return not isinstance(value, ast.Name) and _is_a_list(module, value)
    return False
