"""An access at a run-time offset waits for the instructions that compute the offset."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from device import launched
from every import for_all

from neuroncore.time.schedule import schedule

X = np.arange(64 * 512, dtype=np.float32).reshape(64, 512)
COUNT = 40  # instructions that compute the offset one after another


def computed():
    """Return an offset in SBUF, 5 - 4, which is known only after many instructions."""
    index = nl.ndarray((1, 1), nl.int32)
    nisa.memset(index, 5 + COUNT)
    for _ in range(COUNT + 4):
        nisa.tensor_scalar(index, index, nl.subtract, 1)
    return index


def row_of(x, offset):
    return x.ap([[512, 1], [1, 512]], scalar_offset=offset, indirect_dim=0)


def fetch(x, offset):
    nisa.dma_copy(nl.ndarray((1, 512), x.dtype), row_of(x, offset))


def loaded(index):
    register = nisa.register_alloc()
    nisa.register_load(register, index)
    return register


def by_tile(x):
    fetch(x, computed())


def by_register(x):
    fetch(x, loaded(computed()))


def by_sum(x):
    fetch(x, 1 + loaded(computed()) * 1)


def by_moved_register(x):
    register = nisa.register_alloc(0)
    nisa.register_move(register, loaded(computed()))
    fetch(x, register)


def by_loop_variable(x):
    for i in nl.dynamic_range(loaded(computed())):
        fetch(x, i)


def by_loop_condition(x):
    def body(register):
        fetch(x, register)
        return nisa.register_alloc(0)

    nl.while_loop(loaded(computed()), body)


def in_a_loop(x):
    for _ in nl.dynamic_range(loaded(computed())):
        fetch(x, nisa.register_alloc(3))


def in_a_body(x):
    nl.fori_loop(0, loaded(computed()), lambda i: fetch(x, nisa.register_alloc(3)))


def between_two(x):
    """The bound of the loop that is last in the program is read first."""
    early = nl.ndarray((1, 1), nl.int32)
    nisa.memset(early, 3)
    stop = loaded(early)
    for _ in nl.dynamic_range(loaded(computed()), stop):
        fetch(x, nisa.register_alloc(3))


def under_a_condition(x):
    left = loaded(computed())
    while left:
        fetch(x, nisa.register_alloc(3))
        nisa.register_move(left, 0)


def by_two_registers(x):
    """The register that is available last was loaded first."""
    late = loaded(computed())
    early = nl.ndarray((1, 1), nl.int32)
    nisa.memset(early, 1)
    fetch(x, late + loaded(early))


def by_two_axes(x):
    late = loaded(computed())
    early = nl.ndarray((1, 1), nl.int32)
    nisa.memset(early, 1)
    dst = nl.ndarray((1, 16), x.dtype)
    nisa.dma_copy(dst, x[nl.ds(late, 1), nl.ds(loaded(early), 16)])


def by_a_stored_offset(x):
    again = nl.ndarray((1, 1), nl.int32)
    nisa.register_store(again, loaded(computed()))
    fetch(x, again)


def by_slice(x):
    nisa.dma_copy(nl.ndarray((1, 512), x.dtype), x[nl.ds(loaded(computed()), 1), :])


def on_chip(x):
    tile = nl.load(x)
    out = nl.ndarray((64, 8), x.dtype)
    nisa.tensor_copy(out, tile.ap([[512, 64], [1, 8]], scalar_offset=computed(), indirect_dim=1))


def store(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    zeros = nl.ndarray((1, 512), x.dtype)
    nisa.memset(zeros, 0.0)
    nisa.dma_copy(row_of(out, computed()), zeros)


def timeline(function, order="scheduled"):
    def kernel(x):
        function(x)
        return x

    run = launched(nki.jit(kernel), X)
    return schedule(run.core.program, run.machine, order)


REGISTERS = [by_register, by_sum, by_moved_register, by_two_registers, by_two_axes]
CONTROL = [by_loop_variable, by_loop_condition, in_a_loop, in_a_body, between_two]
USES = [
    by_tile,
    *REGISTERS,
    *CONTROL,
    under_a_condition,
    by_a_stored_offset,
    by_slice,
    on_chip,
    store,
]


@for_all("order", ["in-order", "scheduled", "compiled"])
@for_all("use", USES)
def test_the_access_waits_for_its_offset(use, order):
    time = timeline(use, order)
    names = [time.program.calls[i].name for i in time.columns.call]
    computing = [i for i, name in enumerate(names) if name == "tensor_scalar"]
    assert len(computing) == COUNT + 4
    access = max(i for i, name in enumerate(names) if name in ("dma_copy", "tensor_copy"))
    assert time.begin[access] >= max(time.end[i] for i in computing)


def test_no_access_waits_for_a_register_without_a_load():
    def kernel(x):
        computed()
        fetch(x, nisa.register_alloc(1))

    time = timeline(kernel)
    assert time.begin[-1] < min(time.end[:-1])
    assert time.program.edges().tolist() == []


def test_no_access_waits_for_instructions_that_the_record_omits():
    def kernel(x):
        by_register(x)
        return x

    for limit in (3, COUNT + 6, COUNT + 7):
        run = launched(nki.jit(kernel), X, record_limit=limit)
        program = run.core.program
        edges = [[COUNT + 6, COUNT + 5]] if limit == COUNT + 7 else []
        assert program.edges().tolist() == edges
        schedule(program, run.machine)
