"""Activation functions, which the Scalar engine looks up in tables of polynomials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neuroncore.clause.alu import Function
from neuroncore.clause.arithmetic import activate
from neuroncore.core.core import Core
from neuroncore.memory.tile import Array


def looked_up(op: Function) -> Callable[[Core, Array, Array], None]:
    """Return the function that puts op(x) into an array; inputs outside the range of the tables are
    reported."""
    function = op.apply
    if op.valid[0] == -np.inf:
        return lambda core, x, out: activate(function, x, out)

    def look_up(core: Core, x: Array, out: Array) -> None:
        _report_outside(core, op, x)
        activate(function, x, out)

    return look_up


def _report_outside(core: Core, op: Function, x: Array) -> None:
    """Zeros and infinities are taken to be no matter of tables."""
    low, high = op.valid
    size = np.abs(x) if op.of_magnitude else x
    if low <= size.min() and size.max() <= high:
        return
    outside = ((size < low) | (size > high)) & (x != 0) & np.isfinite(x)
    if outside.any():
        core.report(
            "OUT_OF_RANGE",
            f"{op} of {x[outside].flat[0]:g}: the engine's tables are valid from {low:g} to "
            f"{high:g}, and the device's results differ beyond",
        )
