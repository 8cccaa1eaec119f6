"""Every instruction, on every machine, with every format that some operand of it may have."""

from functools import partial

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
import recipes_compute  # noqa: F401  fills the table
import recipes_move  # noqa: F401  so does this
from accepted import accepted
from device import TARGETS, Device, converted, same
from every import every
from recipes import RECIPES, values

from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.core import Core
from neuroncore.memory.geometry import View
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import lookup

TOGETHER = ("core_barrier", "sendrecv")  # take two cores: see below
RANKS = ("all_to_all", "all_gather_v", "all_to_all_v")  # several: see test_collectives.py
WITH_TILES = [name for name, row in INSTRUCTIONS.items() if any(p.operand for p in row.operands)]


def issued(device, name):
    """The formats of the tiles of the instructions of that name."""
    calls = [c for c in device.core.program.calls if c.name == name]
    return {v.dtype for c in calls for v in c.arguments.values() if isinstance(v, View)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n in WITH_TILES if n not in (*TOGETHER, *RANKS)])
def test_a_legal_call_with_each_format(name, target):
    assert name in RECIPES, f"there is no recipe for {name} in tests/recipes_*.py"
    every(accepted(name, target), lambda form: is_as_it_should_be(name, form, target))


def is_as_it_should_be(name, form, target):
    device, found = Device(target), 0
    for tile, want in RECIPES[name](device, form):
        if tile.dtype.is_opaque:
            assert np.array_equal(tile.codes(), want)
        else:
            same(tile.numpy(), converted(want, tile.dtype))
        found += 1
    assert found and not device.findings
    assert form in issued(device, name), f"the recipe of {name} has no operand of {form}"
    for call in device.core.program.calls:
        assert not any(isinstance(one, Core | Tile | np.ndarray) for one in kept(call.run))


def kept(run):
    """What a function that a clause has returned was made with, and functions in there."""
    if isinstance(run, partial):
        inside = [run.func, *run.args, *run.keywords.values()]
    else:
        inside = [cell.cell_contents for cell in getattr(run, "__closure__", None) or ()]
    return [*inside, *(one for each in inside for one in kept(each))]


# --- what two cores do together -------------------------------------------------------------------


def half(x, rank):
    return x[32 * rank : 32 * rank + 32]


@nki.jit
def exchanged(x, form):
    """The halves of x, sent from core to core as tiles of a format."""
    rank = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    mine = nl.load(half(x, rank))
    other = nl.ndarray(mine.shape, mine.dtype)
    nisa.sendrecv(mine.view(form), other.view(form), 1 - rank, 1 - rank, pipe_id=0)
    nl.store(half(out, rank), other)
    return out


@nki.jit
def met(x, form):
    """The same through HBM, where the cores meet at a tensor of a format."""
    rank = nl.program_id(0)
    middle, out = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    nl.store(half(middle, rank), nl.load(half(x, rank)))
    nisa.core_barrier(middle.view(form), (0, 1))
    nl.store(half(out, rank), nl.load(half(middle, 1 - rank)))
    return out


KERNELS = {"sendrecv": exchanged, "core_barrier": met}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TOGETHER)
def test_two_cores_exchange_each_format(name, target, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    every(accepted(name, target), lambda form: is_exchanged(name, lookup(form)))


def is_exchanged(name, form):
    x = np.ascontiguousarray(values(form, (64, 7))).view(form.code_type)
    got = KERNELS[name][2](x, form)
    np.testing.assert_array_equal(got, np.concatenate([half(x, 1), half(x, 0)]))
