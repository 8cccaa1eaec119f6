"""Names that the body of a loop rebinds, and lifetimes of the tiles of tensors with block axes.
Both are found from the kernel's source.

The device's compiler traces the body of an affine_range or a sequential_range once, for all its
iterations. If the body rebinds a Python number (`w = w // 2`), the new value holds for the rest of
the body. But each iteration begins with the value that the name had before the loop. So `n += 1` in
a loop adds only 1 to n (SDK NKI migration guide, 0.1 to 0.2, Consistent control flow behavior; the
pages of nl.affine_range and nl.static_range, SDK 2.21 to 2.26).

Published kernels index tensors with block axes by the variables of all surrounding loops. There may
be thousands of tiles, each used in only one iteration. A tile that no line can name any more is
released."""

from __future__ import annotations

import ast
import ctypes
import dis
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base import source, syntax
from neuroncore.base.findings import Severity
from neuroncore.base.units import plural
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.expressions import Index
from neuroncore.frontend.neuronxcc.nki.tensor import Awaited, Tensor
from neuroncore.memory.tile import Tile

PLAIN = (int, float, str, bytes, type(None), np.generic)
# methods that change a list
CHANGING = {"append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort"}
METHODS = ("LOAD_METHOD", "LOAD_ATTR")
READS, WRITES = ("LOAD_FAST", "LOAD_DEREF"), ("STORE_FAST", "STORE_DEREF")


class ReboundName:
    """Variables that Python carries from one iteration of a loop to the next, with their values
    before it."""

    def __init__(self, frame: FrameType, carried: Mapping[str, int]) -> None:
        self._frame, self._carried = frame, carried
        variables = frame.f_locals
        values = {name: variables[name] for name in carried if name in variables}
        self._before = {name: (value, _list_copied(value)) for name, value in values.items()}

    def again(self, severity: Severity) -> None:
        """Restore, for the next iteration, the values that the names had before the loop. Report
        LOOP_REBOUND for each that has changed.

        A name of a tile of the iteration stays bound to this tile: if it is read later,
        `scopes.check_read` raises an error."""
        variables, changed = self._frame.f_locals, False
        for name, (value, before) in [*self._before.items()]:
            now = variables.get(name, value)
            if _is_of_the_iteration(now):
                del self._before[name]
            elif not _same(now, value) or not _same(before, value):
                self._report(name, before, now, severity)
                if type(value) is list:
                    value[:] = before
                variables[name], changed = value, True
        if changed:
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self._frame), ctypes.c_int(0))

    def _report(self, name: str, before: Any, after: Any, severity: Severity) -> None:
        site = self._frame.f_code, self._carried[name]
        current().report(
            "LOOP_REBOUND",
            lambda: (
                f"{name} is {_text_of(before)} when the body of the loop begins, and "
                f"{_text_of(after)} when it ends; on the device, each iteration begins with "
                f"{_text_of(before)}"
            ),
            name,
            site=site,
            severity=severity,
        )


def bound(frame: FrameType | None) -> ReboundName | None:
    """Return the names that Python would carry between iterations of the loop that begins in a
    frame, or None. Names that only operators such as `+=` change are left out: they stay bound to
    their tensors."""
    if frame is None or source.is_ours(frame):
        return None
    names = _carried(frame).items()
    carried = {n: at for n, (at, same) in names if not (same and _is_tensor(frame, n))}
    return ReboundName(frame, carried) if carried else None


def _is_tensor(frame: FrameType, name: str) -> bool:
    value = frame.f_locals.get(name)
    return isinstance(value, Tensor) and type(value) is not Awaited


@syntax.by_site
def _carried(frame: FrameType) -> dict[str, tuple[int, bool]]:
    """Return the results of `_carried_by` for the loop that begins in a frame, by name."""
    return {name: (at, same) for name, at, same in _carried_by(frame.f_code, frame.f_lasti)}


def _carried_by(code: CodeType, start: int) -> Iterator[tuple[str, int, bool]]:
    """Yield (name, position, in_place) for each name that a loop's body reads before it binds or
    changes it.

    `position`: the position of the instruction that binds or changes the name
    `in_place`: whether only operators such as `+=` bind the name
    `start`: the position of the loop's FOR_ITER instruction, or of a cache entry after it"""
    steps = _steps(code)
    head = [step for step in steps if step.offset <= start][-1]
    if head.opname != "FOR_ITER":
        return
    body = [step for step in steps if head.offset <= step.offset < head.argval]
    read: set[str] = set()
    replaced: set[str] = set()  # names that are bound in another way than by an operator like +=
    written: dict[str, int] = {}
    for before, step in zip([body[0], *body], body, strict=False):
        reads, writes = _names(step)
        read |= {name for name in reads if name not in written}
        if not (before.opname == "BINARY_OP" and before.argrepr.endswith("=")):
            replaced |= {*writes}
        for name in writes:
            written.setdefault(name, step.offset)
        names, _ = _names(before)
        if step.opname in METHODS and step.argval in CHANGING and names and names[-1] in read:
            written.setdefault(names[-1], step.offset)
    yield from ((n, at, n not in replaced) for n, at in written.items() if n in read)


@lru_cache(maxsize=1)  # nested loops ask for the same code one after the other
def _steps(code: CodeType) -> list[dis.Instruction]:
    return [*dis.get_instructions(code)]


def _names(step: dis.Instruction) -> tuple[list[str], list[str]]:
    """Return the variables that a bytecode instruction reads, and the variables that it binds.
    Since Python 3.13 an instruction may read or bind two variables, or do both."""
    kinds = [kind for kind in (*READS, *WRITES) if kind in step.opname]
    if not kinds or "CLEAR" in step.opname:
        return [], []
    names = [*step.argval] if isinstance(step.argval, tuple) else [step.argval]
    stores = step.opname.startswith("STORE")
    stored = names[: 1 if "LOAD" in step.opname else None] if stores else []
    return names[len(stored) :], stored


def _list_copied(value: Any) -> Any:
    """Return a copy of a list, and any other value unchanged."""
    return value.copy() if type(value) is list else value


def _same(a: Any, b: Any) -> bool:
    """Return whether two Python values are equal. A tile is equal only to itself."""
    if a is b:
        return True
    if isinstance(a, PLAIN) and isinstance(b, PLAIN):
        return bool(a == b)
    if isinstance(a, Index) and isinstance(b, Index):
        return (a.shape, a.steps, a.start) == (b.shape, b.steps, b.start)
    if type(a) is not type(b) or not isinstance(a, tuple | list):
        return False
    return len(a) == len(b) and all(map(_same, a, b))


def _is_of_the_iteration(value: Any) -> bool:
    """Return whether a value is or contains a tile of an ended iteration, or an Awaited result."""
    if isinstance(value, tuple):
        return any(map(_is_of_the_iteration, value))
    if not isinstance(value, Tile) or type(value) is Awaited:
        return type(value) is Awaited
    scope = value.storage.scope
    return scope is not None and bool(scope.over)


def _text_of(value: Any) -> str:
    """Return a value as text for a message."""
    if isinstance(value, list):
        return f"a list of {plural(len(value), 'element')}"
    return f"{value!s:.60}" if isinstance(value, Tile) else f"{value!r:.60}"


RANGES = {"affine_range", "sequential_range"}  # loops whose variable has each number once
SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
ANYWHERE = {
    "locals",
    "vars",
    "eval",
    "exec",
}  # functions that may use names which the source doesn't show


class Numbering(NamedTuple):
    """How the source indexes a tensor.

    `keys`: the least number of keys in a subscript that each index one axis
    `places`: the positions of the keys that are loop variables, outermost loop first

    There are no other loops between the tensor's creation and its subscripts. So a combination of
    these variables never occurs again."""

    keys: int
    places: tuple[int, ...]

    def of(self, axes: int) -> tuple[int, ...]:
        """Return the axes, among the first `axes`, that loop variables index; () if a subscript may
        have fewer keys.

        After an iteration of the innermost of these loops, no line can name its tiles."""
        blocks = takewhile(lambda place: place < axes, self.places)
        return tuple(blocks) if self.keys >= axes else ()


NONE = Numbering(0, ())


def numbering(frame: FrameType | None) -> Numbering:
    """Return how the source indexes the tensor that a call creates; `frame` is executing the call.
    Return NONE if the source is missing or does not show how the tensor is indexed."""
    return NONE if frame is None else _numbering(frame)


@syntax.by_site
def _numbering(frame: FrameType) -> Numbering:
    code, user = frame.f_code, syntax.user_of_value(frame)
    if user is None or not has_source(code):
        return NONE
    return _of_assigned(user, code.co_filename)


def has_source(code: CodeType) -> bool:
    """Return whether the source file still contains the text from which `code` was compiled."""
    return _text(code) in _texts(code.co_filename)


Text = tuple[Any, ...]


def _text(code: CodeType) -> Text:
    """Return a key for the text from which a code object was compiled. Equal texts have equal
    keys."""
    names = code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars
    return code.co_name, code.co_firstlineno, code.co_code, code.co_linetable, names


@syntax.by_text
def _texts(file: str) -> set[Text]:
    """Return the keys (`_text`) of all code in a file. The file may have changed since the running
    code was compiled."""
    texts, codes = set(), [compile(syntax.tree(file), file, "exec", dont_inherit=True)]
    while codes:
        code = codes.pop()
        texts.add(_text(code))
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return texts


def _of_assigned(statement: ast.AST, file: str) -> Numbering:
    """Return the Numbering of the tensor that a statement of a file makes and assigns to a name."""
    match statement:
        case ast.Assign(targets=[ast.Name() as target]):
            above = _above(file)
            around = list(_around(statement, above))
        case _:
            return NONE
    function = next((node for node in around if isinstance(node, SCOPES)), None)
    if not isinstance(function, ast.FunctionDef):
        return NONE
    nodes = [*ast.walk(function)]
    names = [n for n in nodes if isinstance(n, ast.Name)]
    anywhere = any(isinstance(n, ast.Global | ast.Nonlocal) for n in nodes)
    if anywhere or any(n.id in ANYWHERE for n in names):
        return NONE
    uses = [above[n] for n in names if n.id == target.id and n is not target]
    keys = [_keys(use, target.id) for use in uses]
    loops = [_loops(use, function, above) for use in uses]
    if not uses or None in keys or None in loops:
        return NONE
    outside = {id(node) for node in around}
    inner = [[loop for loop in of_use or () if id(loop) not in outside] for of_use in loops]
    return _numbered(inner, [of_use or [] for of_use in keys])


@syntax.by_text
def _above(file: str) -> dict[ast.AST, ast.AST]:
    """Return the parent of each node of a file."""
    nodes = ast.walk(syntax.tree(file))
    return {child: node for node in nodes for child in ast.iter_child_nodes(node)}


def _around(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes around a node, from the inside. `above` maps each node to its parent."""
    while node in above:
        node = above[node]
        yield node


def _keys(use: ast.AST, name: str) -> list[ast.expr] | None:
    """Return the keys of the subscript `use` of a variable; None for any other use. The first key
    that may index no axis or several, and all later keys, are left out."""
    match use:
        case ast.Subscript(value=ast.Name(id=subscripted), slice=key) if subscripted == name:
            keys = key.elts if isinstance(key, ast.Tuple) else [key]
        case _:
            return None
    several = (i for i, k in enumerate(keys) if _is_several(k))
    return keys[: next(several, len(keys))]


def _is_several(key: ast.expr) -> bool:
    """Return whether a key might index no axis or several axes: `*keys`, None or `...`."""
    return isinstance(key, ast.Starred) or (
        isinstance(key, ast.Constant) and not isinstance(key.value, int)
    )


def _loops(use: ast.AST, function: ast.AST, above: dict[ast.AST, ast.AST]) -> list[ast.AST] | None:
    """Return the loops of a function that repeat a use of a name, outermost first; None in a nested
    scope. `above` maps each node to its parent."""
    loops: list[ast.AST] = []
    for node in _around(use, above):
        if node is function:
            return loops[::-1]
        if isinstance(node, SCOPES):
            return None
        if isinstance(node, ast.While | ast.AsyncFor | ast.For) and _repeats(node, use):
            loops.append(node)
        use = node
    return None


def _repeats(loop: ast.While | ast.AsyncFor | ast.For, part: ast.AST) -> bool:
    """Return whether a loop repeats its direct part `part`: not its `else` statements, and not the
    iterable of a `for`."""
    once = loop.orelse if isinstance(loop, ast.While) else [*loop.orelse, loop.iter]
    return not any(part is other for other in once)


def _numbered(loops: Sequence[list[ast.AST]], keys: Sequence[list[ast.expr]]) -> Numbering:
    """Return the Numbering of a tensor.

    `loops`: for each use, the loops since the creation of the tensor, outermost first
    `keys`: for each use, the keys of the subscript"""
    places: list[int] = []
    for of_uses in zip(*loops, strict=False):
        loop = of_uses[0]
        if any(other is not loop for other in of_uses):
            break
        variable = _variable(loop)
        at = [{p for p, k in enumerate(ks) if _is_name(k, variable)} for ks in keys]
        common = set.intersection(*at)
        if variable is None or not common:
            break
        places.append(min(common))
    return Numbering(min(map(len, keys)), tuple(places))


def _variable(loop: ast.AST) -> str | None:
    """Return the variable of a loop over affine_range or sequential_range. Return None for other
    loops, and if the body assigns to the variable."""
    match loop:
        case ast.For(
            target=ast.Name(id=name),
            iter=ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)),
        ) if called in RANGES:
            pass
        case _:
            return None
    inside = (node for part in loop.body for node in ast.walk(part))
    stored = (n for n in inside if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    return None if any(n.id == name for n in stored) else name


def _is_name(key: ast.expr, name: str | None) -> bool:
    return isinstance(key, ast.Name) and key.id == name
