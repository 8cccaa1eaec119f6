"""Tiles of tensors with block dimensions are kept as long as the kernel's source can refer to
them."""

import linecache
import weakref

import numpy as np
from every import for_all
from neuronxcc.nki import language as nl
from older_device import Older

SHAPE = (2, 3, nl.par_dim(4), 5)
VALUES = np.arange(6 * 4 * 5, dtype=np.float32).reshape(6, 4, 5)


def note(born, tile):
    born.append(weakref.ref(tile.storage))


def alive(born):
    return sum(ref() is not None for ref in born)


def ends_with_each_iteration(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.sequential_range(3):
            made[i, j, :, 0:5] = nl.load(x[3 * i + j])
            note(born, made[i, j])
            nl.store(out[3 * i + j], made[i, j, ...])
    return alive(born)


def ends_with_the_loop_around(x, out, born):
    made = nl.zeros(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
        for k in range(3):
            nl.store(out[3 * i + k], made[i, 2 - (2 - k)])
    return alive(born)


def made_again_in_a_loop(x, out, born):
    for i in nl.affine_range(2):
        made = nl.ndarray((3, nl.par_dim(4), 5), dtype=np.float32)
        for j in nl.affine_range(3):
            made[j] = nl.load(x[3 * i + j])
            note(born, made[j])
            nl.store(out[3 * i + j], made[j])
    return alive(born)


def held_elsewhere(x, out, born):
    tiles = {}
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
            tiles[i, j] = made[i, j]
    for n, tile in enumerate(tiles.values()):
        nl.store(out[n], tile)
    del tile
    tiles.clear()
    return alive(born)


def read_after_the_loops(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            nl.store(out[3 * i + j], made[i, j])
    return alive(born)


def read_in_the_else(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
    else:
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                nl.store(out[3 * i + j], made[i, j])
    return alive(born)


def numbered_by_what_comes_again(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for turn in nl.sequential_range(2):
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                if turn == 0:
                    made[i, j] = nl.load(x[3 * i + j])
                    note(born, made[i, j])
                else:
                    nl.store(out[3 * i + j], made[i, j])
    return alive(born)


def in_a_plain_loop(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for turn in range(2):
        for i in nl.affine_range(2):
            for j in nl.affine_range(3):
                if turn == 0:
                    made[i, j] = nl.load(x[3 * i + j])
                    note(born, made[i, j])
                else:
                    nl.store(out[3 * i + j], made[i, j])
    return alive(born)


def by_another_name(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    same = made
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
    for n in range(6):
        nl.store(out[n], same[n // 3, n % 3])
    return alive(born)


def by_its_parts(x, out, born):
    made, rows = nl.ndarray(SHAPE, dtype=np.float32), {}
    for i in nl.affine_range(2):
        rows[i] = made[i]
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
    for n in range(6):
        nl.store(out[n], rows[n // 3][n % 3])
    return alive(born)


def by_an_inner_function(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)

    def read(n):
        return made[n // 3, n % 3]

    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
    for n in range(6):
        nl.store(out[n], read(n))
    return alive(born)


def by_a_variable_that_is_changed(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
            if i == 1 and j == 2:
                for i in range(2):
                    for j in range(3):
                        nl.store(out[3 * i + j], made[i, j])
    return alive(born)


def backwards_from_the_end(x, out, born):
    made = nl.ndarray((3, nl.par_dim(4), 5), dtype=np.float32)
    for j in nl.sequential_range(2, -4, -1):
        if j >= 0:
            made[j] = nl.load(x[j])
            note(born, made[j])
        else:
            nl.store(out[3 + j], made[j])
            nl.store(out[6 + j], nl.load(x[6 + j]))
    return alive(born)


def along_a_free_axis(x, out, born):
    made = nl.ndarray((2, nl.par_dim(4), 3, 5), dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, :, j] = nl.load(x[3 * i + j])
            note(born, made[i, :, j])
            if j == 2:
                for k in range(3):
                    nl.store(out[3 * i + k], made[i, :, j - 2 + k])
    return alive(born)


def by_what_python_finds(x, out, born):
    made = nl.ndarray(SHAPE, dtype=np.float32)
    for i in nl.affine_range(2):
        for j in nl.affine_range(3):
            made[i, j] = nl.load(x[3 * i + j])
            note(born, made[i, j])
    for n in range(6):
        nl.store(out[n], locals()["made"][n // 3, n % 3])
    return alive(born)


ENDING = [
    ends_with_each_iteration,
    ends_with_the_loop_around,
    made_again_in_a_loop,
    held_elsewhere,
    along_a_free_axis,
]
LASTING = [
    read_after_the_loops,
    read_in_the_else,
    numbered_by_what_comes_again,
    in_a_plain_loop,
    by_another_name,
    by_its_parts,
    by_an_inner_function,
    by_a_variable_that_is_changed,
    backwards_from_the_end,
    by_what_python_finds,
]


@for_all("kernel", ENDING + LASTING)
def test_tiles_that_can_be_named_are_kept(kernel):
    device, born = Older(), []
    x, out = (device.tile(values, buffer="hbm") for values in (VALUES, np.zeros_like(VALUES)))
    left = device.call(kernel, x, out, born)
    assert np.array_equal(out.numpy(), VALUES)
    assert not device.core.findings
    assert left == (0 if kernel in ENDING else len(born))


def test_a_changed_file_is_not_analyzed(tmp_path):
    head = (
        f"from {nl.__name__} import *\n"
        + """
def kernel(x, out, last):
    made = ndarray((2, par_dim(4), 5), dtype=x.dtype)
    for i in affine_range(2):
        made[i] = load(x[i])
"""
    )
    reads = head + "    for i in affine_range(2):\n        store(out[i], made[i])\n"
    file = tmp_path / "tuned.py"
    file.write_text(head)
    linecache.getlines(str(file))
    names = {}
    exec(compile(reads, str(file), "exec"), names)
    device = Older()
    x, out = (device.tile(v[:2], buffer="hbm") for v in (VALUES, np.zeros_like(VALUES)))
    device.call(names["kernel"], x, out, None)
    assert np.array_equal(out.numpy(), VALUES[:2])
    assert not device.core.findings
