"""The ALU operators once more, in numpy: float32 in, float32 out, one rounding."""

import numpy as np


def greatest(a, b):
    """NaN wins; of two zeros the positive one."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def least(a, b):
    return -greatest(-a, -b)


def exactly(function):
    """In float64, rounded once."""
    return lambda *x: function(*(np.asarray(v, np.float64) for v in x))


PLAIN = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": greatest,
    "minimum": least,
}
COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
LOGICAL = {
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
}
MAGNITUDES = {  # v4
    "abs_max": lambda a, b: np.where(np.abs(a) > np.abs(b), a, b),
    "abs_min": lambda a, b: np.where(np.abs(a) < np.abs(b), a, b),
}
POWER = {"power": exactly(np.power)}
UNARY = {
    "abs": lambda a, b: np.abs(a),
    "reciprocal": lambda a, b: np.float32(1) / a,
    "rsqrt": lambda a, b: exactly(lambda x: 1 / np.sqrt(x))(a),
}
UNARY_V4 = {
    "square": lambda a, b: a * a,
    "relu": lambda a, b: greatest(a, np.float32(0)),
}
TWO_OPERANDS = {**PLAIN, **COMPARISONS, **LOGICAL}  # of the Vector engine of every machine
# nki.api.shared.rst, "Supported Activation Functions for NKI ISA": valid inputs, of |x| for the
# reciprocal, where not all are
VALID = {
    "log": (2.0**-64, 2.0**64),
    "sin": (-np.pi, np.pi),
    "arctan": (-np.pi / 2, np.pi / 2),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
}
MEANING = {**TWO_OPERANDS, **MAGNITUDES, **POWER, **UNARY, **UNARY_V4}


def alu(name, a, b=None, reverse=False):
    """a <op> b of float32 arrays, or b <op> a."""
    with np.errstate(all="ignore"):
        a, b = (None if x is None else np.asarray(x).astype(np.float32) for x in (a, b))
        result = MEANING[name](b, a) if reverse and name not in UNARY else MEANING[name](a, b)
        return np.asarray(result).astype(np.float32)
