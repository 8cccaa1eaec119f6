"""Methods of the older API's tensors that issue instructions: operators, astype, broadcast_to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.frontend import misuse
from neuroncore.frontend.neuronxcc.nki import language
from neuroncore.frontend.neuronxcc.nki.blocks import Blocks
from neuroncore.frontend.neuronxcc.nki.boxes import place_of
from neuroncore.frontend.neuronxcc.nki.expressions import Index, Shifted
from neuroncore.frontend.neuronxcc.nki.results import assign, fill, flush
from neuroncore.frontend.neuronxcc.nki.scopes import running
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor

PSUM = MemoryRegion.psum
BOTH_SIDES = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
    "mod": "mod",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
REDUCTIONS = ("mean", "sum", "max", "min")
COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _defined(name: str, swapped: bool = False) -> Callable[[Tensor, Any], Any]:
    """Return the method for a binary operator: it calls the function `name` of nl. If `swapped`,
    the tensor is the right operand."""

    def method(self: Tensor, other: Any) -> Any:
        if name == "add" and isinstance(other, Index) and self.size == 1:
            return Shifted(self, other)
        function = getattr(language, name)
        return function(other, self) if swapped else function(self, other)

    return method


def _in_place(name: str) -> Callable[[Tensor, Any], Tensor]:
    """Return the method for an operator such as `+=`, whose name in nl is `name`."""

    def method(self: Tensor, other: Any) -> Tensor:
        update(self, name, other)
        return self

    return method


def _equal(name: str, of_none: bool) -> Callable[[Tensor, object], Any]:
    """Return the method for `==` or `!=`. `of_none` is the result of the comparison with None."""

    def method(self: Tensor, other: object) -> Any:
        return of_none if other is None else getattr(language, name)(self, other)

    return method


def _numpy_function(
    self: Tensor, function: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Reduce a tile that is passed to a numpy function, by the function of nl with the same name.
    The published backward pass of a gated rmsnorm calls np.mean(tile, axis=[1]). Raises
    SignatureError for numpy functions that are not in REDUCTIONS."""
    name = misuse.NUMPY.get(function.__name__, function.__name__)
    if name not in REDUCTIONS:
        raise misuse.refused_ufunc(function.__name__, "a tensor")
    return getattr(language, name)(*args, **kwargs)


def _astype(self: Tensor, dtype: Any) -> Tensor:
    """Return a copy in another format, like nl.copy."""
    copy: Tensor = language.copy(self, dtype=dtype)
    return copy


def _broadcast_to(self: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the tile with axes of size 1 repeated, like nl.broadcast_to."""
    return language.broadcast_to(self, shape=shape)


def update(target: Tensor, name: str, other: Any) -> None:
    """Run `target <op>= other`, where `name` is the operator's name in nl.

    If a matrix product is added to a tile in PSUM, the Tensor engine accumulates the product there.
    The first product overwrites the tile, even if the kernel did not fill the tile with zeros (as
    in attention of nki-samples)."""
    state = running()
    pending = state.pending
    if isinstance(other, Tensor):
        target = place_of(target, other)
    adds = name == "add" and pending is not None and pending.tile is other and pending.sums
    if adds and target.region is PSUM:
        assert pending is not None
        state.pending = None
        place = target.shaped(other.shape)
        parts = [place.within(box) if box else place for box in pending.boxes]
        begun = _begun(parts)
        if state.trace is not None:
            state.trace.continues = begun is True
        with state.accumulating():
            pending.issue(place, accumulate=begun)
        return
    flush()
    fill(target)
    with state.accumulating():
        result = getattr(language, name)(target, other)
        assign(target, result)


def _inverted(self: Tensor) -> Tensor:
    """Return nl.invert of a tile. According to the page of nl.invert, this is the operator ~."""
    return language.invert(self)  # type: ignore[no-any-return]


def _negated(self: Tensor) -> Tensor:
    """Return nl.negative of a tile. The page of known issues lists some operators of tiles, and
    ends the list with "etc". The unary minus is not listed, but can have no other meaning."""
    return language.negative(self)  # type: ignore[no-any-return]


def _begun(parts: Sequence[Tensor]) -> bool | None:
    """Return whether a sum has begun in all elements of the tiles (True), in none (False), or in
    some (None). For None, a product overwrites the elements in which no sum has begun: PSUM does so
    with the first write to each element."""
    missing = [part.unwritten() for part in parts]
    if all(flags is None for flags in missing):
        return True
    return False if all(flags is not None and flags.all() for flags in missing) else None


def _setitem(self: Tensor, key: Any, value: Any) -> None:
    """Write a part of a tensor. If possible, the instruction that computes `value` writes there
    directly (`results.assign`)."""
    whole = key is ... and not self.dynamic and self.fault is None
    assign(self if whole else self[key], value)


def _set_block(self: Blocks, key: Any, value: Any) -> None:
    """Write a tile, or a part of a tile, of a tensor with block axes. Raises SignatureError if the
    key does not index all block axes."""
    part = self[key]
    if isinstance(part, Blocks):
        raise part.not_a_tile("the target")
    assign(part, value)


def install() -> None:
    """Add the methods of this module to the class of tensors. The class can't define them, because
    they use functions whose modules import the class."""
    for symbol, name in BOTH_SIDES.items():
        setattr(Tensor, f"__{symbol}__", _defined(name))
        setattr(Tensor, f"__r{symbol}__", _defined(name, swapped=True))
        setattr(Tensor, f"__i{symbol}__", _in_place(name))
    for symbol, name in COMPARISONS.items():
        setattr(Tensor, f"__{symbol}__", _defined(name))
    methods: dict[str, Callable[..., Any]] = {
        "__setitem__": _setitem,
        "__eq__": _equal("equal", of_none=False),
        "__ne__": _equal("not_equal", of_none=True),
        "__invert__": _inverted,
        "__neg__": _negated,
        "__array_function__": _numpy_function,
        "astype": _astype,
        "broadcast_to": _broadcast_to,
    }
    Tensor.as_number = (
        "to use the tensor as an index, write it into the subscript: data[tensor, columns]; to "
        "compute with it, pass it to a function of nl"
    )
    for method, function in methods.items():
        setattr(Tensor, method, function)
    setattr(Blocks, "__setitem__", _set_block)  # noqa: B010 - type checkers refuse an assignment


install()
