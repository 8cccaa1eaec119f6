"""Activation functions, which the Scalar engine looks up in tables of polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuroncore.clause.alu import Function
from neuroncore.clause.arithmetic import activate
from neuroncore.core.core import Core


def look_up(core: Core, op: Function, x: Any, out: Any) -> None:
    """out = op(x); inputs for which the tables are not valid are reported."""
    _report_outside(core, op, x)
    activate(op.apply, x, out)


def _report_outside(core: Core, op: Function, x: Any) -> None:
    """Zeros and infinities are taken to be no matter of tables."""
    low, high = op.valid
    if low == -np.inf:
        return
    size = np.abs(x) if op.of_magnitude else x
    if low <= size.min() and size.max() <= high:
        return
    outside = ((size < low) | (size > high)) & (x != 0) & np.isfinite(x)
    if outside.any():
        core.report(
            "OUT_OF_RANGE",
            f"{op} of {x[outside].flat[0]:g}: the engine's tables are valid from {low:g} to "
            f"{high:g}, and beyond the device's results are not these",
        )
