"""Single machine operations for which numba has no name."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from neuroncore.base.jit import generated


def _llvm(name: str, kind: Any, count: int) -> tuple[Any, Any]:
    """Return the signature and the code generator of an LLVM intrinsic on `count` scalars of the
    type `kind`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        value = context.get_value_type(kind)
        shape = ir.FunctionType(value, [value] * count)
        return builder.call(cgutils.get_or_insert_function(builder.module, shape, name), values)

    return kind(*[kind] * count), generate


@generated
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c in float64 with one rounding. The bits are the same on every processor."""
    return _llvm("llvm.fma.f64", types.float64, 3)


@generated
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the greater of two floats of one type; NaN if either is NaN; +0 is above -0."""
    return _llvm(f"llvm.maximum.f{a.bitwidth}", a, 2)


@generated
def minimum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the smaller of two floats of one type; NaN if either is NaN; -0 is below +0."""
    return _llvm(f"llvm.minimum.f{a.bitwidth}", a, 2)


@generated
def pointer(typingctx: Any, address: Any) -> Any:
    """Return the pointer to the float32 numbers at an address."""
    kind = types.CPointer(types.float32)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(types.int64), generate
