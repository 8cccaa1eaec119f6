"""Functions of the older API that only convert arguments and call an instruction: their parameters
agree with the clauses."""

import inspect

import ml_dtypes
import numpy as np
from every import for_all
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_kernels import numbers, stored

import neuroncore
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.frontend.neuronxcc.nki.isa import forwarded

ADDED = {"dtype", "mask", "kwargs"}  # parameters that this API adds to every instruction
NAMED_OTHERWISE = {f"tensor_copy_dynamic_{end}": "tensor_copy" for end in ("dst", "src")}


FUNCTIONS = {n: getattr(m, n) for m in (forwarded, forwarded) for n in m.__all__}


@for_all("name", FUNCTIONS)
def test_every_parameter_exists_in_the_instruction(name):
    given = inspect.signature(FUNCTIONS[name]).parameters.keys() - ADDED
    clause = INSTRUCTIONS[NAMED_OTHERWISE.get(name, name)]
    assert given <= {p.name for p in clause.parameters}
    assert {p.name for p in clause.parameters if p.required} <= {*given, "dst"}


def test_the_scalar_engine_of_trn1_copies_by_way_of_float32():
    def kernel(x, at):
        tile, start = nl.load(x), nl.load(at)
        p, f = nl.arange(77)[:, None], nl.arange(3)[None, :]
        moved = nl.zeros((77, 33), x.dtype)
        dst, part = moved[p, start[0, 0] + f], tile[p, start[0, 0] + f]
        nisa.tensor_copy_dynamic_dst(dst=dst, src=tile[p, f], engine=nisa.scalar_engine)
        copies = (
            nisa.tensor_copy(tile, engine=nisa.scalar_engine),
            nisa.tensor_copy(tile, engine=nisa.scalar_engine, dtype=nl.bfloat16),
            nisa.tensor_copy_dynamic_src(part, engine=nisa.scalar_engine),
            moved,
        )
        return tuple(map(stored, copies))

    x = numbers(77, 33, dtype=np.int32)
    x[0, 0] = 2**24 + 1  # not a float32
    run = neuroncore.run(nki.jit(kernel), x, np.array([[5]], np.int32), target="trn1")
    rounded = x.astype(np.float32)
    moved = np.zeros_like(x)
    moved[:, 5:8] = rounded[:, :3]
    want = (rounded.astype(np.int32), rounded.astype(ml_dtypes.bfloat16), x[:, 5:8], moved)
    for got, expected in zip(run.results, want, strict=True):
        np.testing.assert_array_equal(got, expected)
