"""Finds loops in the kernel's source whose iterations differ only in affine indices.

In such a loop, variables are only added, subtracted and multiplied by constants, for subscripts of
tensors and for masks. Python binds only names that nothing outside the loop reads. So an iteration
can be computed from others (`templates`)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base import syntax
from neuroncore.frontend.neuronxcc.nki.blocks import Blocks
from neuroncore.frontend.neuronxcc.nki.lifetimes import RANGES, has_source
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.memory.parts import Affine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format

API = "neuroncore.frontend."  # functions of these modules execute no code of the kernel
LASTING = (int, float, str, Enum, np.generic, np.dtype, Affine, Tile, Blocks, Format)
LIBRARIES = "neuroncore", "numpy", "ml_dtypes"  # a kernel changes no attributes in them
HARMLESS = (abs, float, int, len, max, min, range)
# loops that are unrolled; their variables have the same values in all iterations of outer loops
UNROLLED = {"static_range", "range"}
SUMS = (ast.Add, ast.Sub)


class Body(NamedTuple):
    """Conditions for repeating the iterations of a loop. The conditions that the loop's source does
    not decide are checked when the loop begins."""

    depth: int  # the number of loops around the loop in its function; all are loops of the API
    called: frozenset[tuple[str, ...]]  # dotted names that are called, as lists of their parts
    indexed: frozenset[str]  # names of tensors that loop variables index
    read: frozenset[str]  # all names that the loop reads and does not bind


def is_repeatable(frame: FrameType, depth: int) -> bool:
    """Return whether iterations of the loop that begins in a frame can be computed from other
    iterations. `depth` is the number of running loops of the API around this loop."""
    body = _body(frame)
    if body is None or body.depth != depth:
        return False
    pure = all(_is_pure(_named(frame, name)) for name in body.called)
    tensors = all(isinstance(_named(frame, (n,)), Tensor | Blocks) for n in body.indexed)
    return pure and tensors and all(_lasts(_named(frame, (n,))) for n in body.read)


def values_read(frame: FrameType) -> list[Any]:
    """Return the values of the names that a loop reads but does not bind, sorted by name. The loop
    is about to begin in this frame."""
    body = _body(frame)
    return [] if body is None else [_named(frame, (name,)) for name in sorted(body.read)]


def _lasts(value: Any) -> bool:
    """Return whether a Python value can't change: numbers, strings, formats, index expressions,
    tensors (apart from contents), types and modules of libraries, pure functions, and tuples of
    these.

    Numbers and strings of the kernel's own classes may change, because they may have attributes."""
    if isinstance(value, tuple):
        return all(map(_lasts, value))
    if isinstance(value, ModuleType | type):
        module = value.__name__ if isinstance(value, ModuleType) else value.__module__
        # a class that `exec` defines may be of the module builtins, which does not contain it
        built_in = vars(builtins).get(value.__name__) is value
        return built_in or module.partition(".")[0] in LIBRARIES
    lasts = isinstance(value, LASTING) and _lasts(type(value))
    return value is None or lasts or _is_pure(value)


def _named(frame: FrameType, name: Sequence[str]) -> Any:
    """Return the present value of a name with attributes, such as `a.b.c`, or None if the name is
    not bound."""
    root, *attributes = name
    for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
        if root in scope:
            value = scope[root]
            break
    else:
        return None
    for attribute in attributes:
        value = getattr(value, attribute, None)
    return value


def _is_pure(function: Any) -> bool:
    """Return whether calls of a function have no side effects: functions of the API, classes of
    numpy, and a few functions of Python."""
    if any(function is harmless for harmless in HARMLESS):
        return True
    module = str(getattr(function, "__module__", None) or "")
    prints = getattr(function, "__name__", "") == "device_print"
    return (module.startswith(API) and not prints) or (
        module == "numpy" and isinstance(function, type)
    )


@syntax.by_site
def _body(frame: FrameType) -> Body | None:
    """Return the conditions for repeating iterations of the loop that begins in a frame; None if
    impossible."""
    file = frame.f_code.co_filename
    names_and_nest = _loops(file).get(syntax.span(frame))
    if names_and_nest is None or not has_source(frame.f_code):
        return None
    return _Reader(*names_and_nest).body


@syntax.by_text
def _loops(file: str) -> dict[syntax.Span, tuple[_Names, list[ast.For]]]:
    """Return the `for` loops in the functions of a file, as pairs (names of the function, nested
    loops from the outermost to this one).

    Each loop is found under two spans. While a loop fetches its next element, Python 3.11 and 3.12
    report the span of the loop, but Python 3.13 reports the span of its iterable."""
    loops = {}
    for function in ast.walk(syntax.tree(file)):
        if isinstance(function, ast.FunctionDef):
            names = _Names(function)
            for nest in _nests(function.body, []):
                loop = nest[-1]
                loops[syntax.node_span(loop)] = loops[syntax.node_span(loop.iter)] = names, nest
    return loops


def _nests(body: Sequence[ast.stmt], around: list[ast.For]) -> Iterator[list[ast.For]]:
    """Yield, for each loop of a body, the nested loops from the outermost to this one. Loops in
    other statements, such as `if`, are left out."""
    for statement in body:
        if isinstance(statement, ast.For):
            nest = [*around, statement]
            yield nest
            yield from _nests(statement.body, nest)


class _Names:
    """The names that a function reads, and the names that each of its loops binds."""

    def __init__(self, function: ast.FunctionDef) -> None:
        nodes = [*ast.walk(function)]
        self._loops = [node for node in nodes if isinstance(node, ast.For)]
        self._within = {id(loop): {id(node) for node in ast.walk(loop)} for loop in self._loops}
        names = [node for node in nodes if isinstance(node, ast.Name)]
        # += to a name counts as a read, not as a binding: a tensor's name stays bound to it
        changed = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
        stored = [n for n in names if isinstance(n.ctx, ast.Store) and id(n) not in changed]
        self._bound = {
            number: {n.id for n in stored if id(n) in inside}
            for number, inside in self._within.items()
        }
        self._read = [n for n in names if isinstance(n.ctx, ast.Load) or id(n) in changed]

    def are_local(self, outermost: ast.For) -> bool:
        """Return whether the names that a loop binds are read only inside it, or in loops that bind
        them again. This is checked for `outermost` and for all loops inside it."""
        within, bound = self._within, self._bound
        for loop in (node for node in ast.walk(outermost) if isinstance(node, ast.For)):
            inside, names = within[id(loop)], bound[id(loop)]
            after = [n for n in self._read if n.id in names and id(n) not in inside]
            others = [id(o) for o in self._loops if id(o) not in inside]
            again = [o for o in others if id(loop) not in within[o]] if after else []
            for n in after:
                if not any(id(n) in within[o] and n.id in bound[o] for o in again):
                    return False
        return True


class _Reader:
    """Decides from the source of nested loops whether iterations of the innermost one can be
    computed.

    `body`: the conditions that the source does not decide, or None if they can't

    The outer loops may contain any statements, but must not bind names that the innermost loop
    reads."""

    def __init__(self, names: _Names, nest: list[ast.For]) -> None:
        self.varying: set[str] = set()  # names of loop variables, and of sums of them
        self.masks: set[str] = set()
        self.tiles: set[str] = set()  # names that results are bound to
        self.called: set[tuple[str, ...]] = set()
        self.indexed: set[str] = set()
        loop = nest[-1]
        around = {target.id for target in map(_target, nest) if target is not None}
        self.loops = {*around}  # variables of loops
        self.varying |= around
        fits = self._is_range(nest[:-1]) and self._statement(loop)
        fits = fits and names.are_local(loop) and not self._reads_others(nest)
        called = frozenset(name for name in self.called if name[0] not in self.tiles)
        read = frozenset(_read(loop) - around)
        body = Body(len(nest) - 1, called, frozenset(self.indexed - self.tiles), read)
        self.body = body if fits else None

    def _is_range(self, loops: Sequence[ast.For]) -> bool:
        """Return whether all of these loops are over affine_range or sequential_range."""
        called = [_dotted(loop.iter.func) for loop in loops if isinstance(loop.iter, ast.Call)]
        self.called.update(name for name in called if name)
        return len(called) == len(loops) and all({*name[-1:]} & RANGES for name in called)

    def _reads_others(self, nest: Sequence[ast.For]) -> bool:
        """Return whether the innermost loop reads a name that the outer loops bind. The variables
        of the outer loops don't count."""
        inside = {id(node) for node in ast.walk(nest[-1])} | {id(loop.target) for loop in nest}
        outer = (node for node in ast.walk(nest[0]) if id(node) not in inside)
        names = {n.id for n in outer if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return bool(names & _read(nest[-1]))

    def _statement(self, node: ast.stmt) -> bool:
        """Return whether repeated iterations may contain a statement, and note the names in it."""
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return True
            case ast.Expr(value=ast.Call() as call):
                return self._is_value(call)
            case ast.Assign(targets=[target], value=value):
                return self._assignment(target, value)
            case ast.AugAssign(target=ast.Subscript() as target, value=value):
                return self._is_value(target) and self._is_value(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                if name not in self.tiles:
                    self.indexed.add(name)  # must be a tensor, to which the name stays bound
                return self._is_value(node.target) and self._is_value(value)
            case ast.If(test=test, body=body, orelse=orelse):
                return self._is_value(test) and all(map(self._statement, (*body, *orelse)))
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as called, orelse=[]):
                ranged = _dotted(called.func)[-1:]
                if {*ranged} & RANGES:
                    self.loops.add(name)
                    self.varying.add(name)
                fits = bool({*ranged} & (RANGES | UNROLLED)) and self._is_value(called)
                return fits and all(map(self._statement, node.body))
        return False

    def _assignment(self, target: ast.expr, value: ast.expr) -> bool:
        if isinstance(target, ast.Subscript):
            return self._is_value(target) and self._is_value(value)
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(name, ast.Name) for name in names):
            return False
        bound = {name.id for name in names if isinstance(name, ast.Name)}
        if bound & (self.varying | self.masks):
            return False
        if self._is_value(value):
            self.tiles |= bound
            return True
        if self._is_index(value):
            self.varying |= bound
            return not bound & self.tiles
        if self._is_mask(value):
            self.masks |= bound
            return not bound & self.tiles
        return False

    def _varies(self, node: ast.AST) -> bool:
        """Return whether an expression has a loop variable, or a name for a mask or affine function
        of them."""
        names = self.varying | self.masks
        return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))

    def _is_value(self, node: ast.expr | None) -> bool:
        """Return whether an expression is the same in all iterations, or is a tile: a new one, or a
        part that affine indices select."""
        match node:
            case None | ast.Constant():
                return True
            case ast.Name():
                return not self._varies(node)
            case ast.Attribute(value=value):
                return self._is_value(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(map(self._is_value, parts))
            case ast.UnaryOp(operand=operand):
                return self._is_value(operand)
            case ast.Compare(left=left, comparators=others):
                return all(map(self._is_value, (left, *others)))
            case ast.BoolOp(values=parts):
                return all(map(self._is_value, parts))
            case ast.BinOp(left=left, right=right):
                return self._is_value(left) and self._is_value(right)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return all(map(self._is_value, (lower, upper, step)))
            case ast.Subscript(value=ast.Name(id=name), slice=key) if self._varies(key):
                self.indexed.add(name)
                return name not in self.varying | self.masks and self._is_index(key)
            case ast.Subscript(value=value, slice=key):
                return self._is_value(value) and self._is_value(key)
            case ast.Call():
                return self._is_call(node)
        return False

    def _is_call(self, node: ast.Call) -> bool:
        name = _dotted(node.func)
        if name:
            self.called.add(name)
        fits = bool(name) or (isinstance(node.func, ast.Attribute) and self._is_value(node.func))
        known: dict[str | None, Callable[[ast.expr], bool]] = {None: lambda _: False}
        known["mask"] = self._is_mask
        if name[-1:] == ("loop_reduce",):
            known["loop_indices"] = self._are_loops
        named = all(known.get(word.arg, self._is_value)(word.value) for word in node.keywords)
        return fits and named and all(map(self._is_value, node.args))

    def _are_loops(self, node: ast.expr) -> bool:
        """Return whether an expression is the variable of a loop, or a list of such variables."""
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        return all(isinstance(part, ast.Name) and part.id in self.loops for part in parts)

    def _is_index(self, node: ast.expr | None) -> bool:
        """Return whether an expression is affine in the loop variables, or is a slice, a tuple or
        an nl.ds of such expressions."""
        if node is None or not self._varies(node):
            return self._is_value(node)
        match node:
            case ast.Name(id=name):
                return name in self.varying
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self._is_index(operand)
            case ast.BinOp(left=left, op=op, right=right):
                product = isinstance(op, ast.Mult) and not (
                    self._varies(left) and self._varies(right)
                )
                allowed = product or isinstance(op, SUMS)
                return allowed and self._is_index(left) and self._is_index(right)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return self._is_index(lower) and self._is_index(upper) and self._is_value(step)
            case ast.Tuple(elts=parts):
                return all(map(self._is_index, parts))
            case ast.Subscript(value=value, slice=key):
                return self._is_index(value) and self._is_value(key)
            case ast.Call(func=func, args=args, keywords=[]):
                called = _dotted(func)
                if called[-1:] != ("ds",):
                    return False
                self.called.add(called)
                return all(map(self._is_index, args))
        return False

    def _is_mask(self, node: ast.expr) -> bool:
        """Return whether an expression is a mask: comparisons of affine expressions, joined by
        `&`."""
        match node:
            case ast.Name(id=name) if name in self.masks:
                return True
            case ast.Compare(left=left, comparators=others):
                return all(map(self._is_index, (left, *others)))
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self._is_mask(left) and self._is_mask(right)
        return self._is_value(node)


def _target(loop: ast.For) -> ast.Name | None:
    """Return the variable of a loop, or None if the loop binds anything but one name."""
    return loop.target if isinstance(loop.target, ast.Name) else None


def _read(loop: ast.For) -> set[str]:
    """Return the names that a loop reads and does not bind. An operator such as `+=` counts as a
    read."""
    nodes = [*ast.walk(loop)]
    changed = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    names = [(n, isinstance(n.ctx, ast.Load)) for n in nodes if isinstance(n, ast.Name)]
    bound = {n.id for n, is_read in names if not is_read and id(n) not in changed}
    return {n.id for n, is_read in names if is_read or id(n) in changed} - bound


def _dotted(node: ast.expr) -> tuple[str, ...]:
    """Return the parts of `a.b.c`; an empty tuple for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()
