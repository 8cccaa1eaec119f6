"""Tensors as Python objects: their text in a debugger or a notebook, and errors for operations of
Python and numpy that need contents, which only the device knows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from neuroncore.base import source
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import DynamicControlError, NeuronError, SignatureError
from neuroncore.base.lazy import Lazy
from neuroncore.clause.alu import Operator
from neuroncore.core.core import current, running
from neuroncore.memory.tile import Tile

if TYPE_CHECKING:
    from neuroncore.base import syntax
    from neuroncore.report import heat_maps
else:
    heat_maps = Lazy("neuroncore.report.heat_maps")
    syntax = Lazy("neuroncore.base.syntax")


# how a number of a kind of format is written; floats have four digits. The bits of a packed element
# are its four numbers.
FORMS = {"int": "d", "uint": "d", "bool": "d", "packed": "#x"}


class Seen(Tile):
    """A tile that can be shown. `repr` shows the values at the corners of the tile, and -- for an
    uninitialized value. `str`, which messages use, shows only shape, format and memory."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def buffer(self) -> MemoryRegion:
        return self.storage.region

    @property
    def name(self) -> str:
        return self.storage.name

    def __str__(self) -> str:
        return super().__repr__()

    def __repr__(self) -> str:
        try:
            return f"{self} {_corners(self)}".rstrip()
        # the tile is outside of its tensor, or an index has not chosen its elements yet
        except NeuronError:
            return str(self)

    def _repr_html_(self) -> str | None:
        try:
            tile = self.resolved()
            return heat_maps.TileContents(str(self), tile.numpy(), tile.missing())._repr_html_()
        except NeuronError:
            return None


def _corners(tile: Tile) -> str:
    """Return a text with the values of the first and the last element along each axis."""
    tile = tile.resolved()
    if not tile.size:
        return ""
    axes = list(zip(tile.shape, tile.strides, strict=True))
    shape = tuple(min(size, 2) for size, _ in axes)
    strides = tuple(step * max(size - 1, 1) for size, step in axes)
    corners = tile.window(shape, strides, tile.offset, dynamic=())
    form = FORMS.get(tile.dtype.kind, ".4g")
    return _text(corners.numpy(), corners.missing(), tile.shape, form)


def _text(values: Any, missing: Any, sizes: tuple[int, ...], form: str) -> str:
    """Return nested lists of numbers as text.

    `values`: the corners of an array whose axes have the `sizes`
    `missing`: flags of the uninitialized corners, or None if there are none
    `form`: how a number is written"""
    if not sizes:
        return "--" if missing is not None and missing else format(values.item(), form)
    inner = [
        _text(value, None if missing is None else missing[n], sizes[1:], form)
        for n, value in enumerate(values)
    ]
    return f"[{(' .. ' if sizes[0] > 2 else ' ').join(inner)}]"


class Unread:
    """A base class of tensors that refuses conversion to an array, a number or a container of the
    host. Without this class, numpy would make an array that contains the tensor as one object, and
    `in` would compare objects."""

    __slots__ = ()
    as_number: ClassVar[str] = (
        "to use the tensor as an index, load it into a register with nisa.register_load"
    )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise _unknown(
            self,
            "an array",
            "compute with instructions, and return a tensor in hbm: the caller gets an array; "
            "nl.device_print(text, tensor) prints the contents",
        )

    def __index__(self) -> NoReturn:
        raise _unknown(self, "a number", self.as_number)

    __int__ = __index__
    __float__ = __index__

    def __contains__(self, value: object) -> NoReturn:
        raise _unknown(self, "searched", "compare with nl.equal")

    def __len__(self) -> NoReturn:
        raise SignatureError(
            f"{self} has no len()",
            because="a tensor has a size for each of its axes",
            hint="tensor.shape[0] is the size of axis 0",
        )

    def __delitem__(self, key: object) -> NoReturn:
        raise SignatureError(
            f"elements of {self} can't be deleted",
            because="the size of a tensor is fixed",
            hint="use tensor[...] with the elements to keep",
        )


def _unknown(tensor: object, what: str, hint: str) -> DynamicControlError:
    return DynamicControlError(
        f"{tensor} can't be {what} while the kernel is compiled",
        because="the contents of a tensor are known only on the device",
        hint=hint,
    )


def asserted() -> bool:
    """Return whether the user's code needs a truth value for an `assert`."""
    return isinstance(question().by, ast.Assert)


def question() -> syntax.Question:
    """Return the expression whose truth value the user's code needs, and the syntax node that needs
    it. The node is for example an `if`, an `assert` or a `not`. Both are None outside the user's
    code."""
    frame = source.user_frame()
    return syntax.Question(None, None) if frame is None else syntax.question(frame)


def is_there(tile: Tile) -> bool:
    """Return whether the user's condition may test that a tile was passed, as in `if bias:`.

    Kernels test optional arguments in this way (nki-library of SDK 2.29, mlp_tkg_constants.py). The
    condition is true for any tile, and is reported. Return False for `not`, `while` and
    comparisons, which need the contents."""
    test, core = question(), running()
    negated = isinstance(test.by, ast.UnaryOp) and isinstance(test.by.op, ast.Not)
    if core is None or negated or isinstance(test.by, ast.While) or _compares(test.of, tile):
        return False
    core.report("TENSOR_TRUTH", f"{tile} is used as a condition, and is true whatever it contains")
    return True


def _compares(expression: ast.AST | None, tile: Tile) -> bool:
    """Return whether an expression is a comparison, or a call whose instruction wrote the tile by a
    comparison."""
    if isinstance(expression, ast.Compare):
        return True
    program = current().program
    if program is None or not isinstance(expression, ast.Call):
        return False
    last = program.last_writer(tile.storage.id)
    arguments = last.shown_arguments.values() if last else ()
    operators = [value for value in arguments if isinstance(value, Operator)]
    return bool(operators) and operators[-1].predicate


def truth_value(tensor: object) -> DynamicControlError:
    """Return the error for a `not`, a `while` or a condition that needs the contents of a tile."""
    return _unknown(
        tensor,
        "a condition",
        "choose between elements with nl.where(condition, a, b); to loop until a value changes, "
        "read it with nisa.register_load and write `while register:`; to test whether there is a "
        "tensor, use `is None`",
    )
