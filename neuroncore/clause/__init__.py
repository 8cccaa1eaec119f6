"""The words that a clause is written in: operands, shapes, rules, arithmetic, costs."""

from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost, product, rules
from neuroncore.clause.arithmetic import FUNCTIONS, Function, Operator
from neuroncore.clause.immediate import (
    Constant,
    Immediate,
    InRegister,
    InRegisterOrNumber,
    Integer,
    Integers,
    Pattern,
)
from neuroncore.clause.instruction import Call, Fusion, Traits, instruction, out_of_reach, require
from neuroncore.clause.operand import (
    HBM,
    PSUM,
    SBUF,
    Act,
    Gathered,
    In,
    Op,
    Operand,
    Out,
    SbufIn,
    SbufOut,
    Scattered,
    Static,
    View,
)
from neuroncore.clause.rules import Fault, Rule, fault, lacks, rule

__all__ = [
    "FUNCTIONS",
    "HBM",
    "PSUM",
    "SBUF",
    "Act",
    "Call",
    "Constant",
    "Fault",
    "Function",
    "Fusion",
    "Gathered",
    "Immediate",
    "In",
    "InRegister",
    "InRegisterOrNumber",
    "Integer",
    "Integers",
    "Op",
    "Operand",
    "Operator",
    "Out",
    "Pattern",
    "Rule",
    "SbufIn",
    "SbufOut",
    "Scattered",
    "Static",
    "Traits",
    "View",
    "cost",
    "fault",
    "instruction",
    "lacks",
    "numeric",
    "out_of_reach",
    "product",
    "require",
    "rule",
    "rules",
]  # fmt: skip
