"""The ALU operators and the activation functions, one row each (nki.api.shared.rst)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import Any

import numpy as np

from neuroncore.clause import alu
from neuroncore.clause.alu import (
    FUNCTIONS,
    NUMBERS,
    OPERATORS,
    SIMULATED,
    Function,
    Operator,
    named_loop,
)
from neuroncore.numerics.loops import elementary
from neuroncore.numerics.loops import fold as folds

EVERYWHERE = ("vector", "scalar", "gpsimd")


def fold(name: str) -> Callable[..., Any]:
    """Return the function `name` of `numerics.loops.fold`. The module is loaded at the first
    call."""
    return named_loop(folds, name)


def poly(name: str) -> Callable[..., Any]:
    """Return the function `name` of `numerics.loops.elementary`. The module is loaded at the first
    call."""
    return named_loop(elementary, name)


_OPERATORS = (
    # arithmetic, two operands
    Operator(
        "add", np.add, reduces=True, identity=0.0, neutral=-0.0, fold=fold("add"),
        integer=np.add, engines=EVERYWHERE,
    ),
    Operator("subtract", np.subtract, reduces=True, identity=0.0, integer=np.subtract),
    Operator(
        "multiply", np.multiply, reduces=True, identity=1.0, neutral=1.0, fold=fold("multiply"),
        integer=np.multiply, engines=EVERYWHERE,
    ),
    Operator(
        "maximum", alu.maximum, reduces=True, identity=-inf, neutral=-inf,
        fold=fold("maximum"), integer=np.maximum,
    ),
    Operator(
        "minimum", alu.minimum, reduces=True, identity=inf, neutral=inf,
        fold=fold("minimum"), integer=np.minimum,
    ),
    Operator("equal", np.equal, integer=np.equal, predicate=True),
    Operator("not_equal", np.not_equal, integer=np.not_equal, predicate=True),
    Operator("greater", np.greater, integer=np.greater, predicate=True),
    Operator("greater_equal", np.greater_equal, integer=np.greater_equal, predicate=True),
    Operator("less", np.less, integer=np.less, predicate=True),
    Operator("less_equal", np.less_equal, integer=np.less_equal, predicate=True),
    Operator("logical_and", np.logical_and, reduces=True, integer=np.logical_and, predicate=True),
    Operator("logical_or", np.logical_or, reduces=True, integer=np.logical_or, predicate=True),
    Operator("logical_xor", np.logical_xor, reduces=True, integer=np.logical_xor, predicate=True),
    Operator("power", alu.power, engines=("gpsimd",)),
    Operator(
        "abs_max", alu.larger_magnitude, identity=0.0, fold=fold("larger_magnitude"),
        feature="magnitude_operators",
    ),
    Operator(
        "abs_min", alu.smaller_magnitude, identity=inf, fold=fold("smaller_magnitude"),
        feature="magnitude_operators",
    ),
    # arithmetic, one operand
    Operator("abs", alu.absolute, arity=1, engines=("vector", "scalar")),
    Operator("square", alu.square, arity=1, feature="unary_alu"),
    Operator("relu", alu.relu, arity=1, feature="unary_alu"),
    Operator("rsqrt", alu.rsqrt, arity=1, engines=("gpsimd",)),
    Operator("reciprocal", alu.reciprocal, arity=1),
    Operator("bypass", alu.bypass, arity=1, engines=("scalar",)),
    # across partitions only
    Operator("average", np.add, kind="partition", engines=("gpsimd",)),
    # bit patterns
    Operator("invert", alu.invert, kind="bitvec", arity=1),
    Operator("bitwise_and", np.bitwise_and, kind="bitvec", reduces=True),
    Operator("bitwise_or", np.bitwise_or, kind="bitvec", reduces=True),
    Operator("bitwise_xor", np.bitwise_xor, kind="bitvec", reduces=True),
    Operator("left_shift", alu.left_shift, kind="bitvec"),
    Operator("right_shift", alu.right_shift, kind="bitvec"),
)  # fmt: skip

_FUNCTIONS = (
    Function("copy", alu.copy, "x", adds_bias=False),  # without bias: aws-neuron-sdk#1296
    Function("square", alu.squared, "x^2"),
    Function("relu", alu.rectified, "max(x, 0)"),
    Function("prelu", alu.rectified, "x if x > 0 else relu_param * x"),
    Function("abs", alu.magnitude, "|x|"),
    Function("sign", alu.sign, "-1, 0 or 1"),
    Function("sigmoid", poly("sigmoid"), "1 / (1 + e^-x)", table="sigmoid"),
    Function("tanh", poly("tanh"), "tanh x", table="tanh"),
    Function("exp", poly("exp"), "e^x", table="exp"),
    Function("log", poly("log"), "ln x", (2.0**-64, 2.0**64), table="exp"),
    Function("gelu", poly("gelu"), "x (1 + erf(x / sqrt 2)) / 2", table="gelu"),
    Function("gelu_dx", poly("gelu_dx"), "Phi(x) + x phi(x)", table="gelu"),
    Function(
        "gelu_apprx_tanh", poly("gelu_tanh"),
        "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", table="gelu",
    ),
    Function("gelu_apprx_sigmoid", poly("gelu_sigmoid"), "x sigmoid(1.702 x)", table="gelu"),
    Function(
        "gelu_apprx_sigmoid_dx", poly("gelu_sigmoid_dx"),
        "s (1 + 1.702 x (1 - s)), s = sigmoid(1.702 x)", table="gelu",
    ),
    Function("silu", poly("silu"), "x sigmoid(x)", table="silu"),
    Function("silu_dx", poly("silu_dx"), "s (1 + x (1 - s)), s = sigmoid(x)", table="silu"),
    Function("softplus", poly("softplus"), "ln(1 + e^x)", table="softplus"),
    Function("mish", poly("mish"), "x tanh(ln(1 + e^x))", table="mish"),
    Function("erf", poly("erf"), "erf x", table="erf"),
    Function("erf_dx", poly("erf_dx"), "2 / sqrt(pi) e^(-x^2)", table="erf"),
    Function("sin", poly("sin"), "sin x; outside of [-pi, pi] a cubic", (-pi, pi), table="sin"),
    Function("arctan", poly("arctan"), "arctan x", (-pi / 2, pi / 2), table="arctan"),
    Function("sqrt", alu.root, "sqrt x", (2.0**-116, 2.0**118), table="sqrt"),
    Function("rsqrt", poly("rsqrt"), "1 / sqrt x", (2.0**-87, 2.0**97)),
    Function("reciprocal", alu.inverse, "1 / x", (2.0**-42, 2.0**42), of_magnitude=True),
)  # fmt: skip

NUMBERS.update(
    maximum=Operator(
        "maximum_number", alu.maximum_number, reduces=True, identity=-inf, integer=np.maximum
    ),
    minimum=Operator(
        "minimum_number", alu.minimum_number, reduces=True, identity=inf, integer=np.minimum
    ),
)
SIMULATED.update(
    divide=Operator("divide", np.divide),
    mod=Operator("mod", np.mod),
    fmod=Operator("fmod", np.fmod),
)
OPERATORS.update({row.name: row for row in _OPERATORS})
FUNCTIONS.update({row.name: row for row in _FUNCTIONS})
ADD, EQUAL, MAXIMUM = OPERATORS["add"], OPERATORS["equal"], OPERATORS["maximum"]
EXP, PRELU = FUNCTIONS["exp"], FUNCTIONS["prelu"]
