"""Functions of one element and operators: numpy's, and the plain reading's for those that numpy
lacks."""

import numpy as np
from alu import COMPARISONS as ORDERS
from alu import LOGICAL

from neuroncore.plain.arithmetic import activation_of

COMPARISONS = (*ORDERS, *LOGICAL)
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift")
FUNCTIONS = (  # functions of any number in both releases of the API
    *("exp", "tanh", "sigmoid", "relu", "square", "sign", "arctan", "erf_dx", "gelu_apprx_tanh"),
    *("gelu_apprx_sigmoid", "silu", "silu_dx", "softplus", "mish"),
)
POSITIVE = ("log", "sqrt", "rsqrt")


def reference(name):
    """The function of that name, of arrays."""
    return getattr(np, name, None) or (lambda x: activation_of(name, np.asarray(x, np.float32)))
