"""Recipes of the instructions that move, look for, draw and hold: most of them bit by bit."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
from alu import alu
from device import Device
from recipes import FLOATS, SHAPE, either, given, put, recipe, single

from neuroncore.numerics.formats import lookup

UNSIGNED = ("bool", "uint8", "uint16", "uint32")


def computes(form):
    return not lookup(form).is_opaque


# --- copies ---------------------------------------------------------------------------------------


@recipe
def tensor_copy(device, form):
    src, x = given(device, form)
    dst, wide = device.empty(SHAPE, form), device.empty(SHAPE)
    device.issue("tensor_copy", dst, src)
    yield dst, x
    if computes(form):
        device.issue("tensor_copy", wide, src)
        yield wide, single(x)
        wide, x = given(device, "float32")
        device.issue("tensor_copy", dst, wide)
        yield dst, x


@recipe
def tensor_copy_predicated(device, form):
    dst, old = given(device, form)
    src, new = given(device, form, seed=1)
    predicate, chosen = given(device, either(form, UNSIGNED, "uint8"), seed=2)
    device.issue("tensor_copy_predicated", dst, src, predicate)
    yield dst, np.where(chosen != 0, new, old)


@recipe
def memset(device, form):
    dst, kind = device.empty(SHAPE, form), lookup(form)
    value = 0 if kind.is_opaque else 1 if kind.is_integer else 1.5
    device.issue("memset", dst, value)
    yield dst, np.full(SHAPE, value, kind.code_type if kind.is_opaque else kind.numpy)


@recipe
def nc_stream_shuffle(device, form):
    src, x = given(device, form, (64, 3))
    dst, old = given(device, form, (64, 3), 1)
    order = [*range(31, 0, -1), 255]
    device.issue("nc_stream_shuffle", dst, src, order)
    moved = x.reshape(2, 32, 3)[:, ::-1].reshape(64, 3)
    yield dst, np.where((np.arange(64) % 32 == 31)[:, None], old, moved)


@recipe
def nc_transpose(device, form):
    data, x = given(device, form, (33, 7))
    for buffer, rows in (("psum", 33), ("sbuf", 31)):  # the Tensor engine, the Vector engine
        dst = device.empty((7, rows), form, buffer)
        device.issue("nc_transpose", dst, data[:rows])
        yield dst, x[:rows].T


@recipe
def dma_copy(device, form):
    src, x = given(device, form)
    far, dst, wide = (
        device.empty(SHAPE, f, m) for f, m in ((form, "hbm"), (form, "sbuf"), ("float32", "sbuf"))
    )
    device.issue("dma_copy", far, src)
    device.issue("dma_copy", dst, far)
    yield far, x
    yield dst, x
    if computes(form):
        device.issue("dma_copy", wide, far)
        yield wide, single(x)
        wide, x = given(device, "float32")
        device.issue("dma_copy", far, wide)
        yield far, x


@recipe
def dma_transpose(device, form):
    for buffer in ("hbm", "sbuf"):
        src, x = given(device, form, (33, 5, 3), buffer=buffer)
        dst = device.empty((3, 5, 33), form)
        device.issue("dma_transpose", dst, src)
        yield dst, x.transpose(2, 1, 0)


@recipe
def dma_compute(device, form):
    (first, a), (second, b) = (given(device, form, seed=seed, buffer="hbm") for seed in (0, 1))
    dst = device.empty(SHAPE, form)
    device.issue("dma_compute", dst, [first, second], nl.add)
    yield dst, alu("add", a, b)


# --- gathers and searches -------------------------------------------------------------------------


@recipe
def local_gather(device, form):
    src, x = given(device, form, (32, 9))
    index = np.random.default_rng(0).integers(0, 9, (32, 1))
    dst = device.empty((32, 16), form)
    device.issue("local_gather", dst, src, device.tile(index, "uint16"))
    yield dst, np.stack([row[index[p // 16 * 16 :][:16, 0]] for p, row in enumerate(x)])


@recipe
def nc_n_gather(device, form):
    data, x = given(device, form, (33, 9))
    index = np.random.default_rng(0).integers(0, 9, (33, 5))
    dst = device.empty((33, 5), form)
    device.issue("nc_n_gather", dst, data, device.tile(index, "uint32"))
    yield dst, np.take_along_axis(x, index, axis=1)


def looked_for(device, form, order):
    """Data, eight values of which some are in it, and where each takes the first that is free."""
    data, x = given(device, form, (5, 11))
    vals, v = given(device, form, (5, 8), 1)
    v[:, 1::2] = x[:, 2:10:2]
    vals = put(device, v, form)
    places = np.full(v.shape, 0xFFFFFFFF, np.uint32)
    for p in range(len(x)):
        free = list(range(x.shape[1]))
        for i in order:
            place = next((j for j in free if single(x)[p, j] == single(v)[p, i]), None)
            if place is not None:
                places[p, i] = place
                free.remove(place)
    return data, x, vals, places


@recipe
def nc_find_index8(device, form):
    data, _, vals, places = looked_for(device, form, range(8))
    kind = either(form, ("uint16",), "uint32")
    dst = device.empty((5, 8), kind)
    device.issue("nc_find_index8", dst, data, vals)
    yield dst, places.astype(kind)


@recipe
def nc_match_replace8(device, form):
    data, x, vals, places = looked_for(device, form, range(7, -1, -1))
    kind = either(form, ("uint16",), "uint32")
    dst, index = device.empty((5, 11), form), device.empty((5, 8), kind)
    device.issue("nc_match_replace8", dst, data, vals, 2.0, index)
    lane, i = np.nonzero(places != 0xFFFFFFFF)
    want = x.copy()
    want[lane, places[lane, i]] = 2
    yield dst, want
    yield index, places.astype(kind)


@recipe
def topk(device, form):
    x = np.random.default_rng(0).permutation(32).reshape(16, 2)  # element j at [j % 16, j // 16]
    src, best, index = (
        device.tile(x, "bfloat16"),
        *(device.zeros((16, 5), f) for f in ("bfloat16", "uint32")),
    )
    device.issue("topk", best, index, src, 19)
    row = x.T.reshape(-1)[:19]
    order = np.argsort(row)[-5:]
    for tile, found in ((best, row[order]), (index, order)):
        want = np.zeros((16, 5), np.uint32)
        want[:5, 0] = found
        yield tile, want.astype(tile.dtype)


@recipe
def nonzero_with_count(device, form):
    x = np.array([[0, 2, -1, 0, 3]])
    dst = device.empty((1, 6), "int32")
    device.issue("nonzero_with_count", dst, device.tile(x, form), 10)
    yield dst, np.int32([[11, 12, 14, -1, -1, 3]])


@recipe
def sequence_bounds(device, form):
    ids, dst = device.tile(np.array([[4, 4, 7, 0, 7]]), form), device.empty((1, 2, 5), form)
    device.issue("sequence_bounds", dst, ids)
    yield dst, np.array([[[0, 0, 2, 5, 4], [2, 2, 3, -1, 5]]]).astype(form)


# --- random numbers -------------------------------------------------------------------------------


@recipe
def rng(device, form):
    """The lowest bits of what a core that has just started draws."""
    dst, kind = device.empty(SHAPE, form), lookup(form)
    device.issue("rng", dst)
    numbers = Device(device.core.machine.name).random(SHAPE)
    assert len(np.unique(numbers)) == numbers.size
    yield dst, numbers.astype(kind.code_type).view(kind.numpy)


@recipe
def rand2(device, form):
    """Between a number and itself there is no choice."""
    least, x = given(device, "float32", (5, 1))
    dst = device.empty((5, 7), form)
    device.issue("rand2", dst, least, put(device, x, "float32"))
    yield dst, np.repeat(x, 7, axis=1)


@recipe
def dropout(device, form):
    """Of what is dropped surely or never."""
    data, x = given(device, form)
    sure = np.arange(len(x))[:, np.newaxis] % 3 == 0
    prob = device.tile(sure, either(form, FLOATS))
    dst = device.empty(SHAPE, form)
    device.issue("dropout", dst, data, prob)
    yield dst, np.where(sure[..., np.newaxis], np.zeros(SHAPE, x.dtype), x)


@recipe
def set_rng_seed(device, form):
    """The bits of the cell are the seed."""
    seed, x = given(device, form, (1, 1))
    device.issue("set_rng_seed", seed)
    other = Device(device.core.machine.name)
    unseeded = other.random((5, 7))
    other.issue("set_rng_seed", other.tile(x.view(np.uint32)))
    numbers = other.random((5, 7))
    assert (numbers != unseeded).any()
    yield device.tile(device.random((5, 7))), numbers


@recipe
def rand_set_state(device, form):
    words, x = given(device, form, (5, 6))
    dst = device.empty((5, 6), form)
    device.issue("rand_set_state", words)
    device.issue("rand_get_state", dst)
    yield dst, x


@recipe
def rand_get_state(device, form):
    yield from rand_set_state(device, form)


# --- registers ------------------------------------------------------------------------------------


@recipe
def register_load(device, form):
    src, x = given(device, form, (1, 1))
    held, dst = device.call(nisa.register_alloc, 0), device.empty((1, 1), "int32")
    device.issue("register_load", held, src)
    device.issue("register_store", dst, held)
    yield dst, np.rint(x).astype(np.int32) if form in FLOATS else x.astype(np.int32)


@recipe
def register_store(device, form):
    for number in (3, 1, 0):
        dst = device.empty((1, 1), form)
        device.issue("register_store", dst, device.call(nisa.register_alloc, number))
        yield dst, np.array([[number]]).astype(lookup(form).numpy)


# --- what ranks do together, of which there is one ------------------------------------------------

ONE = [[0]]


@recipe
def all_reduce(device, form):
    src, x = given(device, form, (5, 3))
    dst = device.empty((5, 3), form)
    device.issue("all_reduce", [src], [dst], ONE, nl.add)
    yield dst, x


@recipe
def all_gather(device, form):
    src, x = given(device, form, (5, 3))
    dst = device.empty((5, 3), form)
    device.issue("all_gather", [src], [dst], ONE, 1)
    yield dst, x


@recipe
def reduce_scatter(device, form):
    src, x = given(device, form, (5, 3), buffer="hbm")
    dst = device.empty((5, 3), form, "hbm")
    device.issue("reduce_scatter", [src], [dst], ONE, 0, nl.maximum)
    yield dst, x


@recipe
def collective_permute(device, form):
    src, x = given(device, form, buffer="hbm")
    dst = device.empty(SHAPE, form, "hbm")
    device.issue("collective_permute", [src], [dst], [[0, 0]])
    yield dst, x


@recipe
def collective_permute_implicit(device, form):
    src, x = given(device, form)
    dst = device.empty(SHAPE, form)
    device.issue("collective_permute_implicit", [src], [dst], ONE, [0])
    yield dst, x


@recipe
def collective_permute_implicit_reduce(device, form):
    src, x = given(device, form)
    other, y = given(device, form, seed=1)
    dst = device.empty(SHAPE, form)
    device.issue("collective_permute_implicit_reduce", [src], [other], [dst], ONE, nl.maximum, [0])
    yield dst, np.maximum(single(x), single(y))


def stored(device, name, *given):
    """A register that an instruction has loaded, in a tile."""
    register, dst = device.call(nisa.register_alloc, 5), device.empty((1, 1), "int32")
    device.issue(name, register, *given)
    device.issue("register_store", dst, register)
    return dst


@recipe
def rank_id(device, form):
    yield stored(device, "rank_id"), np.zeros((1, 1), np.int32)


@recipe
def collective_permute_implicit_current_processing_rank_id(device, form):
    name = "collective_permute_implicit_current_processing_rank_id"
    yield stored(device, name, 3, ONE, 0), np.zeros((1, 1), np.int32)
