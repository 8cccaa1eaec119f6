"""Functions of each element, and the operators that instructions take."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.enums import MemoryRegion
from neuroncore.errors import OperatorError, ShapeError, SignatureError
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language.creation import ndarray
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.operation import Operation, Simulated
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, Format, float32, int32, lookup, uint8

PSUM = MemoryRegion.psum
WIDTHS = list(FORMATS)  # widest first among floats: which format two operands share


def result(like: Tile, dtype: Any = None) -> NkiTensor:
    """A new tile of SBUF, of the same shape and, unless said otherwise, format."""
    if not isinstance(like, Tile):
        raise SignatureError(
            f"{like!r:.60} is not a tile",
            argument="x",
            position=0,
            expected="a tensor in sbuf or psum",
            got=type(like).__name__,
            hint="nl.load brings an argument to sbuf; nl.full makes a tile of a number",
        )
    return ndarray(like.shape, dtype or like.dtype)


def common(x: Any, y: Any) -> Format:
    """The format of x <op> y: that of the tile, or of two tiles the wider."""
    found = [lookup(t.dtype) for t in (x, y) if isinstance(t, Tile)]
    return min(found, key=WIDTHS.index)


def in_sbuf(x: Tile) -> Tile:
    """The tile itself, or if it is in PSUM a copy: tensor_copy."""
    if x.region is not PSUM:
        return x
    copied = result(x)
    isa.tensor_copy(copied, x)
    return copied


def _is_column(x: Any, other: Any) -> bool:
    """Whether x is a [P, 1] tile to go along a wider one."""
    return (
        isinstance(x, Tile)
        and x.free_size == 1
        and (isinstance(other, Tile) and other.free_size > 1 and x.shape[0] == other.shape[0])
    )


def _scalar_operand(x: Any, bitvec: bool) -> Any:
    """A number or a [P, 1] tile, which arithmetic wants in float32."""
    if not isinstance(x, Tile) or bitvec or x.dtype is float32:
        return x
    column = ndarray(x.shape, float32)
    isa.tensor_copy(column, x)
    return column


def _binary(name: str, kind: type[Operation] = Operation) -> Operation:
    def lowered(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        if not isinstance(x, Tile) and not isinstance(y, Tile):
            raise SignatureError(f"nl.{name} needs a tile", got=f"{x!r}, {y!r}")
        out = ndarray(_wider(x, y).shape, dtype or common(x, y))
        bitvec = token.operator.kind == "bitvec"
        if not isinstance(y, Tile) or _is_column(y, x):
            isa.tensor_scalar(out, x, token, _scalar_operand(y, bitvec))
        elif not isinstance(x, Tile) or _is_column(x, y):
            isa.tensor_scalar(out, y, token, _scalar_operand(x, bitvec), reverse0=True)
        elif x.shape != y.shape:
            raise ShapeError(
                f"nl.{name}: shapes {x.shape} and {y.shape} differ",
                argument="y",
                position=1,
                because="tiles are combined lane by lane; only a (P, 1) tile is broadcast",
                hint="nl.broadcast_to(tile, shape)",
            )
        else:
            both = x.region is PSUM and y.region is PSUM
            isa.tensor_tensor(out, in_sbuf(x) if both else x, y, token)
        return out

    doc = (
        f"x {name} y, element by element: tensor_tensor, or tensor_scalar with a number or a "
        "(P, 1) tile."
    )
    token = kind(name, lowered, doc)
    return token


def _wider(x: Any, y: Any) -> NkiTensor:
    return y if not isinstance(x, Tile) or _is_column(x, y) else x  # type: ignore[return-value]


def _activated(name: str) -> Operation:
    def lowered(x: NkiTensor, dtype: Any = None) -> NkiTensor:
        out = result(x, dtype)
        isa.activation(out, token, x)
        return out

    token = Operation(name, lowered, f"{name} of each element: activation.")
    return token


add = _binary("add")
subtract = _binary("subtract")
multiply = _binary("multiply")
maximum = _binary("maximum")
minimum = _binary("minimum")
power = _binary("power")
abs_max = _binary("abs_max")
abs_min = _binary("abs_min")
equal = _binary("equal")
not_equal = _binary("not_equal")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
less = _binary("less")
less_equal = _binary("less_equal")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
left_shift = _binary("left_shift")
right_shift = _binary("right_shift")

exp = _activated("exp")
log = _activated("log")
sqrt = _activated("sqrt")
rsqrt = _activated("rsqrt")
tanh = _activated("tanh")
sigmoid = _activated("sigmoid")
relu = _activated("relu")
gelu = _activated("gelu")
gelu_dx = _activated("gelu_dx")
gelu_apprx_tanh = _activated("gelu_apprx_tanh")
gelu_apprx_sigmoid = _activated("gelu_apprx_sigmoid")
gelu_apprx_sigmoid_dx = _activated("gelu_apprx_sigmoid_dx")
silu = _activated("silu")
silu_dx = _activated("silu_dx")
softplus = _activated("softplus")
mish = _activated("mish")
erf = _activated("erf")
erf_dx = _activated("erf_dx")
square = _activated("square")
sign = _activated("sign")
arctan = _activated("arctan")

prelu = Operation("prelu", None, "Parametric ReLU: a token for nisa.activation.")
bypass = Operation("bypass", None, "No operation: a token for nki.isa instructions.")
average = Operation("average", None, "The mean: a token for nki.isa reductions.")


def _abs(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    isa.tensor_scalar(out, x, abs, None)
    return out


def _reciprocal(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    isa.reciprocal(out, x)
    return out


def _copy(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    isa.tensor_copy(out, x)
    return out


def _invert(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    out = result(x, dtype)
    isa.tensor_scalar(out, x, invert, None)
    return out


abs = Operation("abs", _abs, "|x|: tensor_scalar.")
reciprocal = Operation("reciprocal", _reciprocal, "1 / x: reciprocal.")
copy = Operation("copy", _copy, "x in SBUF: tensor_copy.")
invert = Operation("invert", _invert, "Every bit of x the other way: tensor_scalar.")


def logical_not(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """1 - x of a tile of zeros and ones: tensor_scalar (equal to 0)."""
    out = result(x, dtype)
    isa.tensor_scalar(out, x, equal, 0.0)
    return out


def negative(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """-x: tensor_scalar."""
    out = result(x, dtype)
    isa.tensor_scalar(out, x, multiply, -1.0)
    return out


def _divided(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    if not isinstance(y, Tile):
        return multiply(x, float(np.divide(1.0, y)), dtype)  # type: ignore[no-any-return]
    inverse = ndarray(y.shape, float32)
    isa.reciprocal(inverse, y)
    return multiply(x, inverse, dtype or common(x, y))  # type: ignore[no-any-return]


divide = Simulated(
    "divide",
    _divided,
    "x / y, as x times 1 / y, each rounded: reciprocal, and tensor_tensor or tensor_scalar.",
)


def where(condition: NkiTensor, x: NkiTensor, y: NkiTensor, dtype: Any = None) -> NkiTensor:
    """x where the condition isn't 0, else y: tensor_scalar, tensor_copy, tensor_copy_predicated."""
    out, chosen = result(x, dtype), ndarray(condition.shape, uint8)
    isa.tensor_scalar(chosen, condition, not_equal, 0.0)
    isa.tensor_copy(out, y)
    source = x if x.dtype is out.dtype else copy(x, out.dtype)
    isa.tensor_copy_predicated(out, source, chosen)
    return out


def _rounded(x: NkiTensor) -> NkiTensor:
    """The nearest integer, as float32, and x itself where it has no fraction: large or NaN."""
    whole, nearest = ndarray(x.shape, int32), ndarray(x.shape, float32)
    isa.tensor_copy(whole, x)
    isa.tensor_copy(nearest, whole)
    small, magnitude = ndarray(x.shape, uint8), ndarray(x.shape, float32)
    isa.tensor_scalar(magnitude, x, abs, None)
    isa.tensor_scalar(small, magnitude, less, float(2**23))
    exact = x if x.dtype is float32 else copy(x, float32)
    isa.tensor_copy_predicated(nearest, exact, small, reverse_pred=True)
    return nearest


def _stepped(x: NkiTensor, comparison: Operation, sign_: float, dtype: Any) -> NkiTensor:
    """The nearest integer, moved by one where it is on the wrong side of x; x if it is whole."""
    if x.dtype.is_integer:
        return copy(x, dtype)  # type: ignore[no-any-return]
    nearest, wrong, out = _rounded(x), ndarray(x.shape, float32), result(x, dtype)
    isa.tensor_tensor(wrong, nearest, x, comparison)
    isa.scalar_tensor_tensor(out, wrong, multiply, sign_, add, nearest)
    return out


def floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The greatest integer not above x: tensor_copy to int32 and back, which rounds; tensor_scalar
    and tensor_copy_predicated keep what is too large; tensor_tensor and scalar_tensor_tensor step
    down where that was up."""
    return _stepped(x, greater, -1.0, dtype)


def ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """The least integer not below x: the instructions of nl.floor."""
    return _stepped(x, less, 1.0, dtype)


def trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """x without its fraction: tensor_scalar and nl.floor of |x|, and the sign back with activation
    and tensor_tensor."""
    if x.dtype.is_integer:
        return copy(x, dtype)  # type: ignore[no-any-return]
    magnitude, signs, out = ndarray(x.shape, float32), ndarray(x.shape, float32), result(x, dtype)
    isa.tensor_scalar(magnitude, x, abs, None)
    isa.activation(signs, sign, x)
    isa.tensor_tensor(out, floor(magnitude), signs, multiply)
    return out


def _no_hardware(name: str) -> Simulated:
    simulated = _binary(name, Simulated)

    def refused(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        if token.taken:
            return simulated(x, y, dtype)  # type: ignore[no-any-return]
        raise OperatorError(
            f"nl.{name} has no hardware instruction",
            because="no engine divides; the vendor's simulator computes it, the compiler refuses",
            hint="x - y * nl.floor(nl.divide(x, y)), or Options(simulator_operators=True)",
        )

    token = Simulated(name, refused, "Refused: no instruction of the hardware computes it.")
    return token


mod = _no_hardware("mod")
fmod = _no_hardware("fmod")
