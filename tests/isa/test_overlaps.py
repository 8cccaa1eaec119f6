"""Instructions on integers write their results in place: operands may overlap what they write."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
from device import Device
from every import for_all

ARITHMETIC = nl.multiply, nl.subtract, nl.maximum
UNITS = {
    nisa.engine.vector: (*ARITHMETIC, nl.left_shift, nl.bitwise_xor),
    nisa.engine.gpsimd: ARITHMETIC,
}


@for_all("form", ["int32", "uint32", "int16", "uint8"])
@for_all("unit", UNITS)
@for_all("shift", [0, 1])
def test_an_operand_may_overlap_the_result(form, unit, shift):
    rng = np.random.default_rng(0)
    for op in UNITS[unit]:
        device = Device()
        x = device.tile(rng.integers(0, 9, (4, 9)), form)
        a = device.tile(rng.integers(0, 9, (4, 8)), form)
        dst, src = x[:, shift : 8 + shift], x[:, :8]
        for one, other in ((src, a), (a, src)):
            device.issue("tensor_tensor", dst=dst, data1=one, data2=other, op=op, engine=unit)
        device.agrees()
