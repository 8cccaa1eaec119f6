"""Calls of the API compared with one of its releases: names and parameters that it lacks, forms
that it refuses, and the vendor's lists of known issues (`api/issues.toml`)."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache

from neuroncore.base.structs import dataclass
from neuroncore.lint.inference import Scope
from neuroncore.lint.nodes import name_of
from neuroncore.lint.releases import (
    HOME,
    RELEASES,
    ROLES,
    ApiForm,
    elsewhere,
    form_in,
    forms,
    is_in,
)
from neuroncore.lint.syntax import argument
from neuroncore.lint.walk import Rules, Spot, Told

RULES = Rules()


def of_the_api(spot: Spot) -> bool:
    """Return whether a node is a name of the API, or a call of one."""
    node = spot.node.func if isinstance(spot.node, ast.Call) else spot.node
    return isinstance(node, ast.Attribute | ast.Name) and bool(spot.scope.api(node))


@RULES.about(ast.Attribute, ast.Name, ast.Call)
def of_its_release(spot: Spot) -> Iterator[Told]:
    """Report what is missing from the release that a function is compared with."""
    return misfits(spot, spot.scope.release)


def misfits(spot: Spot, release: str) -> Iterator[Told]:
    """Report names and parameters that only other releases have, and arguments in the order of
    another release. Functions of the other API are left out."""
    node, scope = spot.node, spot.scope
    if scope.is_older != (release == RELEASES[0]):
        return
    if isinstance(node, ast.Call):
        yield from _parameters(scope, node, release)
    elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
        name = scope.api(node)
        if others := elsewhere(forms().get(name, ()), release):
            message = f"{name_of(node)} is in {others} of the API, not in {release}"
            yield "NAME_OF_RELEASE", node, message


@RULES.about(ast.Attribute, ast.Name)
def of_no_release(spot: Spot) -> Iterator[Told]:
    """Report names that no release has, if a release has a similar name. The reference pages may
    leave out other unknown names."""
    node = spot.node
    if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    name = spot.scope.api(node)
    if name in forms() or name in UNLISTED or name.rpartition(".")[0] not in MODULES:
        return
    if meant := _meant(name):
        unknown = f"no release of the API has {name_of(node)}"
        yield "UNKNOWN_NAME", node, f"{unknown}: did you mean {meant}?"


UNLISTED = ("nki.language.bool", "nki.language.range")  # by all pages; nki-library uses them
MODULES = ("nki.isa", "nki.language", "nki.collectives")
LIKE = 0.8  # similarity, at most 1: one letter missing, wrong or added


@cache
def _meant(name: str) -> str:
    """Return the last part of the most similar name in the same module, or an empty string."""
    module, _, last = name.rpartition(".")
    known = (one.rpartition(".") for one in forms())
    names = [name_there for home, _, name_there in known if home == module]
    return next(iter(get_close_matches(last, names, 1, LIKE)), "")


def alike(uses: Sequence[Spot]) -> Iterator[list[Spot]]:
    """Group uses of the API so that all uses of a group fit the same releases."""
    groups: dict[object, list[Spot]] = {}
    for spot in uses:
        node, scope = spot.node, spot.scope
        key: tuple[object, ...] = ()
        if isinstance(node, ast.Call):
            kinds_given = (type(one) for one in node.args)
            named = ((one.arg or id(one), type(one.value)) for one in node.keywords)
            key = scope.is_older, scope.api(node.func), *kinds_given, *named
        elif isinstance(node, ast.Attribute | ast.Name):
            key = scope.is_older, type(node.ctx), scope.api(node)
        groups.setdefault(key, []).append(spot)
    yield from groups.values()


def _parameters(scope: Scope, call: ast.Call, release: str) -> Iterator[Told]:
    name = scope.api(call.func)
    form = form_in(name, release)
    if form is None or form.parameters is None:
        return
    unknown = [(word, at) for word, at, _ in _keywords(scope, call) if word not in form.names]
    for word, at in () if form.takes_any else unknown:
        having = [one for one in forms()[name] if word in one.names]
        if others := elsewhere(having, release):
            message = f"{name_of(call.func)} has {word} in {others}, not in {release}"
            yield "PARAMETER_OF_RELEASE", at, f"{message} of the API"
    for parameter, value in _given(scope, call, form):
        listed = isinstance(scope.stands_for(value), ast.List | ast.Tuple)
        if _is_operator_of(parameter) and listed:
            message = f"{ast.unparse(value)} is where {name_of(call.func)} takes {parameter}"
            yield "ORDER_OF_ARGUMENTS", value, message


def _given(scope: Scope, call: ast.Call, form: ApiForm) -> Iterator[tuple[str, ast.expr]]:
    """Return the arguments of a call, each with its parameter."""
    yield from zip(form.names, call.args, strict=False)
    for word, _, value in _keywords(scope, call):
        yield word, value


def _keywords(scope: Scope, call: ast.Call) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """Return the named arguments of a call, also from a `**` dictionary: name, node and value."""
    for one in call.keywords:
        held = one.value if one.arg is None else None
        held = None if held is None else scope.stands_for(held)
        if one.arg is not None:
            yield one.arg, one, one.value
        elif isinstance(held, ast.Dict):
            for key, value in zip(held.keys, held.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value, value


@RULES.about(ast.Call)
def axes(spot: Spot) -> Iterator[Told]:
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
            yield "ONE_AXIS", node, f"{ast.unparse(node)} has one axis"


@RULES.about(ast.Call)
def operands(spot: Spot) -> Iterator[Told]:
    """Report operands of instructions with more axes than a view can have."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    form = form_in(scope.api(node.func), scope.release)
    instruction = scope.api(node.func).startswith("nki.isa.") and not scope.is_older
    for parameter, value in _given(scope, node, form) if instruction and form else ():
        operand = scope.value(value)
        axes = len(operand.shape or ()) if operand.memory in ROLES["on_chip"] else 0
        if axes > ROLES["most_axes"]:
            yield "MANY_AXES", node, f"{parameter} of {name_of(node.func)} has {axes} axes"


@RULES.about(ast.Call)
def kinds(spot: Spot) -> Iterator[Told]:
    """Report arguments of a kind that their parameter doesn't take."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    form = form_in(scope.api(node.func), scope.release)
    for parameter, value in () if form is None else _given(scope, node, form):
        known = _constants(scope, value) if parameter in ROLES["objects"] else []
        for one in known:
            if parameter == "buffer" and isinstance(one, str):
                yield "STRING_BUFFER", value, f"buffer is the string {one!r}"
            elif parameter != "buffer" and type(one) is int:
                code = "ENUM_BY_A_NAME" if isinstance(value, ast.Name) else "ENUM_BY_NUMBER"
                yield code, value, f"{parameter} is the number {one}"


def _constants(scope: Scope, node: ast.expr) -> list[object]:
    """Return the strings and numbers that an expression may be: its value in each branch, and for
    a parameter its default and the arguments of all calls."""
    value = scope.stands_for(node)
    if isinstance(value, ast.IfExp):
        return [*_constants(scope, value.body), *_constants(scope, value.orelse)]
    is_given = isinstance(value, ast.Name) and value.id in scope.parameters
    held = scope.given(value.id) if is_given else [value]  # type: ignore[attr-defined]
    return [one.value for one in held if isinstance(one, ast.Constant)]


def _is_operator_of(parameter: str) -> bool:
    return parameter.rstrip("0123456789").rpartition("_")[2] == "op"


# --- known issues ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Issue:
    """A row of the vendor's lists of known issues: the report about a name in some releases, `when`
    a condition of `CONDITIONS` holds for its call. A run reports issues of single machines."""

    name: str
    when: str
    releases: str
    sentence: str
    hint: str
    source: str
    code: str = "KNOWN_ISSUE"
    because: str | None = None


@cache
def issues() -> Mapping[str, Sequence[Issue]]:
    """Return all rows, by name."""
    table = tomllib.loads((HOME / "issues.toml").read_text("utf-8"))
    rows = [Issue(name, **row) for row in table["issue"] for name in row.pop("names")]
    return {name: [one for one in rows if one.name == name] for name in {one.name for one in rows}}


def _always(_: Scope, __: ast.Call) -> bool:
    return True


def _second_is_a_number(scope: Scope, call: ast.Call) -> bool:
    first, second = argument(call, 0, "x"), argument(call, 1, "y")
    if first is None or second is None:
        return False
    is_number = scope.value(second).kind in ("host", "integer")
    return scope.value(first).kind == "tensor" and is_number


def _not_transposed(scope: Scope, call: ast.Call) -> bool:
    transpose = argument(call, 2, "transpose_x")
    transpose = None if transpose is None else scope.stands_for(transpose)
    return transpose is None or (isinstance(transpose, ast.Constant) and not transpose.value)


def _of_other_shapes(scope: Scope, call: ast.Call) -> bool:
    """Return whether two operands are known to have different shapes."""
    operands = [argument(call, 0, "x"), argument(call, 1, "y")]
    shapes = [scope.value(one).shape for one in operands if one is not None]
    if len(shapes) < 2 or None in shapes:
        return False
    first, second = (shape for shape in shapes if shape is not None)
    known = [pair for pair in zip(first, second, strict=False) if None not in pair]
    return len(first) == len(second) and any(one != other for one, other in known)


def _reads_psum(scope: Scope, call: ast.Call) -> bool:
    operand = call.args[0] if call.args else argument(call, 0, "x")
    return operand is not None and scope.value(operand).memory == "psum"


def _stores_psum(scope: Scope, call: ast.Call) -> bool:
    stored = argument(call, 1, "value")
    return stored is not None and scope.value(stored).memory == "psum"


NAMED = "it is named"  # wherever the name is used
CONDITIONS: Mapping[str, Callable[[Scope, ast.Call], bool]] = {
    "it is called": _always,
    "the second operand is a number": _second_is_a_number,
    "transpose_x is not True": _not_transposed,
    "the shapes differ": _of_other_shapes,
    "the operand is in PSUM": _reads_psum,
    "it stores PSUM": _stores_psum,
}


def known_issues(spot: Spot, release: str) -> Iterator[Issue]:
    """Return the issues of a name or a call in a release of today's API."""
    node, scope = spot.node, spot.scope
    if scope.is_older:
        return
    called = node.func if isinstance(node, ast.Call) else node
    named = scope.api(called) if isinstance(called, ast.expr) else ""
    for one in issues().get(named, ()):
        if not is_in(one.releases, release):
            continue
        if isinstance(node, ast.Call) and one.when != NAMED:
            holds = CONDITIONS[one.when](scope, node)
        else:
            holds = one.when == NAMED and not isinstance(node, ast.Call)
        if holds:
            yield one
