"""Lifetimes of the tiles of a tensor with block dimensions, from the kernel's source.

Published kernels index such tiles by the variables of all loops around them. There may be
thousands, each used in only one iteration. A tile that no line can name any more needs no memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import takewhile
from types import CodeType, FrameType
from typing import Any, NamedTuple

from neuroncore.base import source

RANGES = {"affine_range", "sequential_range"}  # each of their numbers occurs once
SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
ANYWHERE = {
    "locals",
    "vars",
    "eval",
    "exec",
}  # these may use names that the source lacks


class Numbering(NamedTuple):
    """The first keys of all subscripts of a tensor in the source: at least this many keys, each for
    one axis, with loop variables at these positions, outermost loop first. Each loop is the only
    one in the previous loop that repeats a subscript of the tensor, and the first is the only one
    since the tensor was made, so the same numbers never occur again."""

    keys: int
    places: tuple[int, ...]

    def of(self, axes: int) -> tuple[int, ...]:
        """Return the axes, among the first `axes`, by whose loop variables tiles are indexed: no
        tile is named after its iteration of the innermost of these loops."""
        blocks = takewhile(lambda place: place < axes, self.places)
        return tuple(blocks) if self.keys >= axes else ()


NONE = Numbering(0, ())


def numbering(frame: FrameType | None) -> Numbering:
    """Return the numbering of the tensor that a frame's current call makes; an empty one if the
    source is missing or doesn't determine it."""
    return NONE if frame is None else _numbering(frame)


@source.by_site
def _numbering(frame: FrameType) -> Numbering:
    code, user = frame.f_code, source.user_of_value(frame)
    is_known = user is not None and _text(code) in _texts(code.co_filename)
    return _of_assigned(user, code.co_filename) if user is not None and is_known else NONE


Text = tuple[Any, ...]


def _text(code: CodeType) -> Text:
    """Return a key that is equal for code objects of the same source text."""
    names = code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars
    return code.co_name, code.co_firstlineno, code.co_code, code.co_linetable, names


@source.by_text
def _texts(file: str) -> set[Text]:
    """Return the keys of all code in a file, which may have changed since the running code was
    made."""
    texts, codes = set(), [compile(source.tree(file), file, "exec", dont_inherit=True)]
    while codes:
        code = codes.pop()
        texts.add(_text(code))
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return texts


def _of_assigned(made: ast.AST, file: str) -> Numbering:
    match made:
        case ast.Assign(targets=[ast.Name() as target]):
            above = _above(file)
            around = list(_around(made, above))
        case _:
            return NONE
    function = next((node for node in around if isinstance(node, SCOPES)), None)
    if not isinstance(function, ast.FunctionDef):
        return NONE
    nodes = list(ast.walk(function))
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
    inner = [[loop for loop in listed or () if id(loop) not in outside] for listed in loops]
    return _numbered(inner, [listed or [] for listed in keys])


@source.by_text
def _above(file: str) -> dict[ast.AST, ast.AST]:
    """Return the parent of each node of a file."""
    walk = ast.walk(source.tree(file))
    return {child: node for node in walk for child in ast.iter_child_nodes(node)}


def _around(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in above:
        node = above[node]
        yield node


def _keys(use: ast.AST, name: str) -> list[ast.expr] | None:
    """Return the first keys of a subscript, while each is for one axis; None for any other use."""
    match use:
        case ast.Subscript(value=ast.Name(id=subscripted), slice=key) if subscripted == name:
            keys = key.elts if isinstance(key, ast.Tuple) else [key]
        case _:
            return None
    several = (i for i, k in enumerate(keys) if _is_several(k))
    return keys[: next(several, len(keys))]


def _is_several(key: ast.expr) -> bool:
    """Return whether a key may be for no axis, or for several."""
    return isinstance(key, ast.Starred) or (
        isinstance(key, ast.Constant) and not isinstance(key.value, int)
    )


def _loops(use: ast.AST, function: ast.AST, above: dict[ast.AST, ast.AST]) -> list[ast.AST] | None:
    """Return the loops of a function that repeat a use, outermost first; None in a nested scope."""
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
    """Return whether a loop repeats a part directly in it; it doesn't repeat an `else` or the
    iterable of a `for`."""
    once = loop.orelse if isinstance(loop, ast.While) else [*loop.orelse, loop.iter]
    return not any(part is other for other in once)


def _numbered(loops: Sequence[list[ast.AST]], keys: Sequence[list[ast.expr]]) -> Numbering:
    places: list[int] = []
    for same in zip(*loops, strict=False):
        loop = same[0]
        if any(other is not loop for other in same):
            break
        variable = _variable(loop)
        at = [{p for p, k in enumerate(ks) if _is_name(k, variable)} for ks in keys]
        common = set.intersection(*at)
        if variable is None or not common:
            break
        places.append(min(common))
    return Numbering(min(map(len, keys)), tuple(places))


def _variable(loop: ast.AST) -> str | None:
    """Return the variable of a loop over a range of the API, if nothing in the loop assigns to
    it."""
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
