"""ALU operators by kind, and the valid inputs of activation functions."""

import numpy as np

PLAIN = ("add", "subtract", "multiply", "maximum", "minimum")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
MAGNITUDES = ("abs_max", "abs_min")  # v4
UNARY = ("abs", "reciprocal", "rsqrt")
UNARY_V4 = ("square", "relu")
TWO_OPERANDS = (*PLAIN, *COMPARISONS, *LOGICAL)  # of the Vector engine of every machine
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
