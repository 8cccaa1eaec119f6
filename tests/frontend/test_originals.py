"""Arguments as they were before a launch: large arrays are copied when an instruction first writes
to them. A run has no copy of the other arrays, and refuses to use those that changed."""

import weakref
from functools import partial

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.frontend import originals
from neuroncore.frontend.originals import LARGE, OriginalArray

ROWS, COLUMNS = 128, LARGE // 4 // 128


def array(seed=0):
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS), np.float32)


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def stored(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x[:, 0:8], src=tile[:, 0:8])
    return x


@nki.jit
def scattered(x, rows):
    tile = nl.ndarray((4, COLUMNS), x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=3.0)
    index = nl.ndarray((4, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=rows)
    at = x.ap(pattern=[[COLUMNS, 4], [1, COLUMNS]], vector_offset=index, indirect_dim=0)
    nisa.dma_copy(dst=at, src=tile)
    return x


@older.jit
def stored_older(x: older.typing.tensor[older.typing.mutable]):
    tile = older_nl.load(x)
    older_nl.store(x, older_nl.multiply(tile, 2.0))
    return x


@pytest.mark.parametrize(
    ("kernel", "others"),
    [(stored, ()), (stored_older, ()), (scattered, (np.int32([[3], [1], [5], [7]]),))],
)
def test_an_array_is_copied_before_a_kernel_writes_to_it(kernel, others):
    x = array()
    before = x.copy()
    run = neuroncore.run(kernel, x, *others)
    assert not np.array_equal(x, before)
    wanted = x.copy()
    x[:] = 0  # the run has a copy
    assert np.array_equal(run.replay(), wanted)
    (given, *_), _ = run._original
    assert np.array_equal(given, before)


def test_an_array_that_is_only_read_is_not_copied_and_refused_after_a_change():
    x, small = array(), np.ones((128, 8), np.float32)
    run = neuroncore.run(doubled, x)
    assert np.array_equal(run.replay(), 2 * x) and run.verify().compared == 3
    assert run.compare(lambda given: 2 * given)
    x[5] += 1
    for used in (run.replay, run.verify, lambda: run.compare(lambda given: given)):
        with pytest.raises(UsageError, match="argument x has changed since the launch"):
            used()
    x[5] -= 1
    other = neuroncore.run(doubled, small)
    small[:] = 0
    assert np.array_equal(other.replay(), np.full((128, 8), 2.0))


def test_arrays_that_share_memory_and_arguments_of_other_functions_are_copied():
    both = np.stack([array(), array(1)])
    wanted = 2 * both[0]
    runs = [
        neuroncore.run(nki.jit(lambda x, whole: doubled.function(x)), both[0], both),
        neuroncore.run(partial(doubled), both[0]),
    ]
    both[:] = 0
    assert all(np.array_equal(run.replay(), wanted) for run in runs)


@pytest.mark.parametrize("shape", [(3, 5), (1,), (64, 64), (2, 1021)])
def test_a_sample_detects_a_change_of_two_blocks(shape):
    x = np.zeros(shape, np.float64)
    flat, length = x.reshape(-1), 2 * originals.BLOCK // x.itemsize
    for first in range(0, x.size, 100):
        kept = OriginalArray(x)
        kept.launched()
        assert kept.value() is not x and not kept.value().flags.writeable
        flat[first : first + length] += 1
        if first + length <= x.size:
            with pytest.raises(UsageError, match="of the kernel has changed"):
                kept.value()


def test_the_sample_of_a_very_large_array_is_limited_and_covers_columns():
    x = np.zeros((8192, 2048), np.float32)  # 64 MiB
    kept = OriginalArray(x)
    kept.launched()
    assert len(originals._sample(x)) <= (originals.MOST + 1) * originals.WORD
    kept.value()
    x[:, 5] = 1.0
    with pytest.raises(UsageError, match="has changed since the launch"):
        kept.value()


def test_arrays_that_allocated_their_memory_are_kept_lazily():
    whole = np.zeros((2, 1 << 18), np.float32)
    own = np.zeros(1 << 18, np.float32)
    assert originals.Originals(((own, own), {}), True).of.keys() == {id(own)}
    halves = whole[0], whole[1]
    assert originals.Originals((halves, {}), True).of.keys() == {*map(id, halves)}
    assert not originals.Originals(((whole, whole[0]), {}), True).of


def test_a_record_has_the_original_arrays_if_a_list_of_arguments_changes_after_the_launch():
    @nki.jit
    def summed(arrays):
        total, *tiles = map(nl.load, arrays)
        for tile in tiles:
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        nl.store(arrays[0], total)

    given = [np.full((4, 8), n, np.float32) for n in range(3)]
    run = neuroncore.run(summed, given)
    given[:] = [np.full((4, 8), 9.0, np.float32)]
    inputs = [*run.record.setting.arrays.values()]
    assert [x[0, 0] for x in inputs] == [0, 1, 2]
    assert (run.replay()[0] == 3).all()


def test_a_record_does_not_keep_arguments_of_which_it_has_copies():
    given = np.ones((4, 8), np.float32)
    alive = weakref.ref(given)
    record = neuroncore.run(stored, given).record
    del given
    assert alive() is None
    assert (record.setting.arrays["x"] == 1).all()
