"""Every instruction of nki.isa and nki.collectives is compared with the plain reading: on every
machine, with every format that some operand may have, at odd sizes."""

from functools import partial

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from accepted import accepted
from calls import ONE_CORE, SIZES, Case
from collective_worlds import in_hbm
from device import TARGETS, Device
from every import every, for_all
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore import machine
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.core import Core
from neuroncore.memory.geometry import View
from neuroncore.memory.tile import Tile

CORES = ("core_barrier", "sendrecv")


def forms_of(name, target):
    """Return the formats that an operand of an instruction may have; any format if it has no
    tiles."""
    return accepted(name, target) if INSTRUCTIONS[name].operands else ["float32"]


def test_each_instruction_of_the_api_is_in_a_table():
    assert {*ONE_CORE, *CALLS, *CORES} == {*INSTRUCTIONS}
    assert {name for name, one in INSTRUCTIONS.items() if one.meets} == {*CALLS, *CORES}


# --- a core alone, and a group of one rank --------------------------------------------------------


def cases(name, target):
    """Yield each format and each size, on one device. Every machine has other sizes for a format,
    and other operators."""
    device, forms = Device(target), forms_of(name, target)
    first = TARGETS.index(target)
    for turn in range(first, first + max(len(forms), len(SIZES)) if forms else first):
        size = SIZES[(turn + turn // len(forms)) % len(SIZES)]
        yield Case(device, name, str(forms[turn % len(forms)]), *size, turn)


@for_all("target", TARGETS)
@pytest.mark.parametrize("name", ONE_CORE)
def test_legal_calls_agree_with_the_plain_reading(name, target):
    made = [*cases(name, target)]
    every(made, Case.issue)
    if not made:
        assert not machine.load(target).has(INSTRUCTIONS[name].feature)
        return
    device = made[0].device
    device.agrees()
    assert not device.findings
    calls = [call for call in device.core.program.calls if call.name == name]
    forms = {v.dtype.name for call in calls for v in call.arguments.values() if isinstance(v, View)}
    assert not forms or forms >= {*forms_of(name, target)}, "no operand of a call has one of these"
    for call in calls:
        assert not any(isinstance(one, Core | Tile | np.ndarray) for one in kept(call.run))


def kept(run):
    """Yield the values that a function returned by a clause refers to, and the functions among
    them."""
    if isinstance(run, partial):
        inside = [run.func, *run.args, *run.keywords.values()]
    else:
        inside = [cell.cell_contents for cell in getattr(run, "__closure__", None) or ()]
    return [*inside, *(one for each in inside for one in kept(each))]


# --- collectives ----------------------------------------------------------------------------------

ROWS = {  # shapes of src and dst, in a group of this size
    "all_gather": lambda n: (3, 3 * n), "reduce_scatter": lambda n: (3 * n, 3),
    "all_to_all": lambda n: (3 * n, 3 * n), "all_gather_v": lambda n: (3, 3 * n),
    "all_to_all_v": lambda n: (3, 3 * n),
}  # fmt: skip
JOINS = (nl.add, nl.maximum, nl.minimum)
CALLS = {  # of srcs, other sources, dsts, the group, rows of lengths, and an operator
    "all_reduce": lambda s, o, d, g, rows, op: ncc.all_reduce(s, d, g, op),
    "all_gather": lambda s, o, d, g, rows, op: ncc.all_gather(s, d, g, 0),
    "reduce_scatter": lambda s, o, d, g, rows, op: ncc.reduce_scatter(s, d, g, 0, op),
    "all_to_all": lambda s, o, d, g, rows, op: ncc.all_to_all(s, d, g, 0),
    "all_gather_v": lambda s, o, d, g, rows, op: ncc.all_gather_v(s, d, g, rows),
    "all_to_all_v": lambda s, o, d, g, rows, op: ncc.all_to_all_v(s, d, g, rows),
    "collective_permute": lambda s, o, d, g, rows, op: ncc.collective_permute(
        s, d, [[n, (n + 1) % 4] for n in range(4)]
    ),
    "collective_permute_implicit": lambda s, o, d, g, rows, op: ncc.collective_permute_implicit(
        [s], [d], g
    ),
    "collective_permute_implicit_reduce": lambda s, o, d, g, rows, op: (
        ncc.collective_permute_implicit_reduce([s], [o], [d], g, op)
    ),
}


@nki.jit
def among_ranks(x, y, rows, name, forms, group, sizes):
    """Return the result of an operation for the bits of x in the last of several formats. Each
    instruction is compared, whether or not its result is returned."""
    for turn, form in enumerate(forms):
        columns = x.view(form).shape[1]
        src, other, dst = (
            in_hbm((size, columns), form, f"{use}{turn}")
            for use, size in zip(("src", "other", "dst"), sizes, strict=True)
        )
        lengths = in_hbm(rows.shape, rows.dtype, f"lengths{turn}")
        nisa.dma_copy(src, x.view(form))
        if name.endswith("_implicit_reduce"):
            nisa.dma_copy(other, y.view(form))
        if name.endswith("_v"):
            nisa.dma_copy(lengths, rows)
        CALLS[name]([src], [other], [dst], group, lengths, JOINS[turn % 3])
    out = nl.ndarray((sizes[2], x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out.view(form), dst)
    return out


WORLDS = [(name, "trn3") for name in CALLS]  # its switches allow groups with few ranks
WORLDS += ("all_to_all", "trn1"), ("all_to_all", "trn2"), ("all_gather_v", "trn2")
"""Where ranks take part in what one rank by itself can't do, and once in what it can."""


@pytest.mark.parametrize("name, target", WORLDS)
def test_ranks_agree_with_the_plain_reading(name, target):
    eight = name == "all_to_all_v" or (name == "all_to_all" and target != "trn3")  # whole chips
    forms, n = accepted(name, target), 8 if eight else 4
    rng, (size, result) = np.random.default_rng(0), ROWS.get(name, lambda n: (3, 3))(n)
    lengths = rng.integers(0, 4, (n, 3, n)).astype(np.uint32)  # the number of ranks, and the first
    bits = rng.integers(0, 256, (2, n, size, 12), np.uint8)
    more = name, forms, ReplicaGroup([[*range(n)]]), (size, size, result)
    per_rank = [(bits[0, rank], bits[1, rank], lengths[rank], *more) for rank in range(n)]
    run = neuroncore.run(
        among_ranks, per_rank=per_rank, lnc=1 if target == "trn1" else 2, target=target
    )
    assert run.verify().difference is None


# --- two cores ------------------------------------------------------------------------------------


@nki.jit
def between_cores(x, name, forms):
    """Return the halves of x, exchanged in one format after the other: as tiles, or through HBM."""
    core, outs = nl.program_id(0), []
    mine, other = (slice(3 * n, 3 * n + 3) for n in (core, 1 - core))
    for turn, form in enumerate(forms):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, came = nl.load(x[mine]), nl.ndarray((3, x.shape[1]), x.dtype)
        if name == "sendrecv":
            nisa.sendrecv(tile.view(form), came.view(form), 1 - core, 1 - core, pipe_id=turn)
        else:
            middle = in_hbm(x.shape, x.dtype, f"middle{turn}")
            nl.store(middle[mine], tile)
            nisa.core_barrier(middle.view(form), (0, 1))
            came = nl.load(middle[other])
        nl.store(out[mine], came)
        outs.append(out)
    return tuple(outs)


@for_all("target", ["trn2", "trn3"])
@pytest.mark.parametrize("name", CORES)
def test_two_cores_agree_with_the_plain_reading(name, target):
    x = np.random.default_rng(0).integers(0, 256, (6, 12), np.uint8)
    run = neuroncore.run(between_cores[2], x, name, accepted(name, target), target=target)
    assert run.verify().difference is None
    assert all(np.array_equal(got, np.concatenate([x[3:], x[:3]])) for got in run.results)
