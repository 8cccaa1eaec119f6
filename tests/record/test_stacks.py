"""Records that keep call stacks."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.options import Options
from neuroncore.record.stacks import Witness


def load(source, at):
    tile = nl.ndarray((128, 4), source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source[:, at : at + 4])
    return tile


@nki.jit
def copies(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in range(0, a.shape[1], 4):
        nisa.dma_copy(dst=out[:, i : i + 4], src=load(a, i))
    return out


@pytest.mark.parametrize("limit", [4_000_000, 3])
def test_each_instruction_has_its_calls_and_loop_variables(limit):
    options = Options(stacks=True, record_limit=limit)
    run = neuroncore.run(copies, np.zeros((128, 8), np.float32), options=options)
    (program,) = run.record.programs
    assert isinstance(program, Witness) and len(program.stack) == len(program)
    told = [
        [(frame.place.function, dict(frame.variables)) for frame in program.stacks[number]]
        for number in program.stack
    ]
    loads = [[("load", {"at": i}), ("copies", {"i": i})] for i in (0, 4)]
    stores = [[("copies", {"i": i})] for i in (0, 4)]
    assert told == [loads[0], stores[0], loads[1], stores[1]][:limit]


def test_without_the_option_there_are_none():
    run = neuroncore.run(copies, np.zeros((128, 8), np.float32))
    assert not isinstance(run.record.programs[0], Witness)
