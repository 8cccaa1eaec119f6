"""Operators as kernels of the older API name them: nl.add, or numpy's np.add."""

from __future__ import annotations

from typing import Any

from neuroncore.base.errors import OperatorError, did_you_mean
from neuroncore.frontend.nki import language
from neuroncore.frontend.operators import Operation, Simulated

# numpy's names that differ from those of the API
NUMPY = {
    "max": "maximum",
    "amax": "maximum",
    "fmax": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "fmin": "minimum",
    "sum": "add",
    "prod": "multiply",
    "mean": "average",
    "true_divide": "divide",
    "remainder": "mod",
    "absolute": "abs",
    "fabs": "abs",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "all": "logical_and",
    "any": "logical_or",
}


def token(op: Any) -> Any:
    """Return an operator or activation function in the form of nki.isa. Raises OperatorError."""
    if op is None or isinstance(op, Operation):
        return op
    name = getattr(op, "__name__", None)
    operator = getattr(language, NUMPY.get(str(name), str(name)), None) if name else None
    if _is_taken(operator):
        return operator
    known = [n for n, value in vars(language).items() if _is_taken(value)]
    raise OperatorError(
        f"{op!r} is not an operator",
        argument="op",
        expected="an operator of nki.language, or numpy's function of the same name",
        hint=did_you_mean(str(name), known),
    )


def _is_taken(value: Any) -> bool:
    return isinstance(value, Operation) and not (isinstance(value, Simulated) and not value.taken)
