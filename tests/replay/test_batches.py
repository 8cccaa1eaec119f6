"""Rows that compiled code executes in one call have the bits, findings and errors of others."""

from dataclasses import replace

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all
from precise import empty, loaded, stored

import neuroncore
from neuroncore.base.errors import OutOfBoundsError
from neuroncore.base.options import Options
from neuroncore.replay import batches, loops
from neuroncore.replay.cursor import Replay
from neuroncore.replay.execution import OtherPath

RNG = np.random.default_rng(7)
OPERATORS = "add subtract multiply maximum minimum logical_and greater power"
FUNCTIONS = "square relu abs sign sigmoid tanh exp gelu silu erf reciprocal sqrt"
TYPES = nl.float32, nl.bfloat16, nl.float8_e4m3, nl.float16, nl.int32, nl.uint8


@pytest.fixture
def executed(monkeypatch):
    """Let compiled code execute every row that it can; the numbers of rows of its calls."""
    counts, run = [], batches.BatchesOnCore.run

    def counted(self, first, tensors):
        done = run(self, first, tensors)
        counts.append(self.ends[first] - first if done else 0)
        return done

    monkeypatch.setattr(batches, "are_worth", lambda rows: True)
    for name, value in (("LEAST", 1), ("_are_long", np.any), ("START", 0), ("SHARED", 0)):
        monkeypatch.setattr(batches, name, value)
    monkeypatch.setattr(batches.BatchesOnCore, "run", counted)
    return counts


def bits(value):
    """The bits of an array, with 0 for any NaN: which of two NaNs a sum returns is left open."""
    array = np.asarray(value)
    return np.where(np.isnan(array), 0, array.view(f"u{array.itemsize}"))


def assert_same_bits(kernel, given, others, **options):
    """A replay has the bits of the run, and on other inputs those of a run on these."""
    run = neuroncore.run(kernel, *given, target="trn2", **options)
    for inputs in (given, others):
        expected = neuroncore.run(kernel, *inputs, target="trn2", **options).results
        replayed = run.replay(*(x for x in inputs if isinstance(x, np.ndarray)))
        for want, got in zip(np.atleast_1d(expected), np.atleast_1d(replayed), strict=True):
            np.testing.assert_array_equal(bits(got), bits(want))
    return run


def drawn(shape, dtype=np.float32):
    """Numbers among which are special ones."""
    values = (RNG.standard_normal(shape) * 3).astype(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1.0], np.float32)
    chosen = RNG.random(shape) < 0.1
    values[chosen] = RNG.choice(special, int(chosen.sum()))
    return values.astype(dtype)


@nki.jit
def elementwise(x, y, form):
    """Each operator and function, on tiles of several formats, contiguous or not."""
    a, b, column = loaded(x), loaded(y), loaded(y[:, 0:1])
    rounded = empty(x.shape, form)
    nisa.tensor_copy(rounded, a)
    out = nl.ndarray((60, *x.shape), nl.float32, buffer=nl.shared_hbm)
    results, wide = [], empty((x.shape[0], 2 * x.shape[1]))
    inside = wide[:, 1 : 1 + x.shape[1]]
    for name in OPERATORS.split():
        op, (first, second) = getattr(nl, name), (empty(x.shape) for _ in range(2))
        nisa.tensor_tensor(first, a, b, op)
        nisa.tensor_tensor(second, rounded, b, op)
        results += [first, second]
        if name != "power":
            nisa.tensor_scalar(inside, a, op, 0.5, reverse0=True)
            third, fourth = (empty(x.shape) for _ in range(2))
            nisa.tensor_copy(third, inside)
            nisa.tensor_scalar(fourth, rounded, op, column, op1=nl.add, operand1=2.0)
            results += [third, fourth]
    for name in FUNCTIONS.split():
        made = empty(x.shape)
        nisa.activation(made, getattr(nl, name), a, bias=column, scale=0.5)
        results.append(made)
    narrow = empty(x.shape, form)
    nisa.tensor_tensor(narrow, rounded, b, nl.maximum)
    nisa.scalar_tensor_tensor(a, a, nl.subtract, column, nl.multiply, narrow)
    nisa.reciprocal(b, b)
    for n, result in enumerate([*results, a, b]):
        nisa.dma_copy(out[n], result)
    return out


@for_all("form", TYPES)
def test_operators_and_functions_have_the_bits_of_the_run(executed, form):
    executed.clear()
    for shape in ((128, 4), (3, 7), (5, 1), (1, 33)):
        given, others = ([drawn(shape) for _ in range(2)] for _ in range(2))
        assert_same_bits(elementwise, (*given, form), (*others, form))
    assert sum(executed) > 100


@nki.jit
def in_place(x, y):
    """The same calls with results that replace an operand, and with other destinations."""
    a, b = loaded(x), loaded(y)
    c, d = empty(x.shape), empty(x.shape)
    out = nl.ndarray((4, *x.shape), nl.float32, buffer=nl.shared_hbm)
    for dst, data, other in ((a, a, b), (c, a, a), (c, c, a), (a, b, a), (d, a, c), (b, b, b)):
        nisa.activation(dst, nl.tanh, data)
        nisa.activation(dst, nl.exp, data, scale=0.5)
        nisa.tensor_tensor(dst, data, other, nl.maximum)
        nisa.tensor_scalar(dst, dst, nl.minimum, 0.75)
    for n, tile in enumerate((a, b, c, d)):
        nisa.dma_copy(out[n], tile)
    return out


@for_all("shape", [(3, 7), (37, 45), (128, 129)])
def test_results_that_replace_operands_have_the_bits_of_the_run(executed, shape):
    """Tiles with and without room for vector registers."""
    executed.clear()
    assert_same_bits(in_place, *([drawn(shape) for _ in range(2)] for _ in range(2)))
    assert sum(executed) > 10


@nki.jit
def folds(x):
    """Reductions over one and two axes, and of tiles that are not contiguous."""
    a = loaded(x)
    out = nl.ndarray((8, x.shape[0], 2), nl.float32, buffer=nl.shared_hbm)
    for n, op in enumerate((nl.add, nl.multiply, nl.maximum, nl.minimum)):
        whole, part, both = empty((x.shape[0], 1)), empty((x.shape[0], 1)), empty((x.shape[0], 2))
        nisa.tensor_reduce(whole, op, a, axis=1, negate=n % 2 == 0)
        nisa.tensor_reduce(part, op, a[:, 2:7], axis=1)
        nisa.tensor_copy(both[:, 0:1], whole)
        nisa.tensor_copy(both[:, 1:2], part)
        nisa.dma_copy(out[n], both)
        nisa.tensor_reduce(both, op, a.reshape((x.shape[0], 2, x.shape[1] // 2)), axis=2)
        nisa.dma_copy(out[4 + n], both)
    return out


@for_all("dtype", [np.float32, ml_dtypes.bfloat16])
def test_folds_have_the_bits_of_the_run(executed, dtype):
    executed.clear()
    for shape in ((128, 16), (13, 8)):
        assert_same_bits(folds, (drawn(shape, dtype),), (drawn(shape, dtype),))
    assert max(executed) > 4


@nki.jit
def chains(x):
    """Tiles that live in one batch, across a product, and to the end; a tile that is read where
    nothing was written; results in pieces, of which one is missing."""
    out = nl.ndarray((128, 24), nl.float32, buffer=nl.shared_hbm)
    kept = loaded(x)
    unwritten = empty((128, 8))
    for n in range(0, 16, 4):
        tile, square, sums = empty((128, 4)), empty((128, 4)), empty((128, 4), buffer=nl.psum)
        nisa.tensor_scalar(tile, kept[:, n : n + 4], nl.add, float(n))
        nisa.tensor_tensor(square, tile, tile, nl.multiply)
        nisa.nc_matmul(sums, loaded(x[:, 0:128]), square)
        nisa.tensor_tensor(tile, sums, square, nl.add)
        nisa.tensor_scalar(kept[:, n : n + 4], tile, nl.multiply, 0.25)
        nisa.memset(unwritten[:, n // 4 : n // 4 + 1], value=1.0 + n)
        nisa.tensor_tensor(tile, tile, unwritten[:, 0:4], nl.add)
        nisa.dma_copy(out[:, n : n + 4], tile)
    nisa.dma_copy(out[:, 16:20], kept[:, 2:6])
    return out


def test_tiles_across_batches_and_reads_of_unwritten_memory(executed, monkeypatch):
    x = RNG.standard_normal((128, 128)).astype(np.float32)
    run = assert_same_bits(chains, (x,), (x + 1,))
    assert 0 < sum(executed) < len(run.record.programs[0])
    found = []
    for worth in (True, False):
        monkeypatch.setattr(batches, "are_worth", lambda rows, worth=worth: worth)
        replay = run.steps(snapshots=0)
        values = replay.results()
        states = [
            (r.storage.version, r.storage.gaps is None) for r in replay._tensors.roots.values()
        ]
        found.append((bits(values).tolist(), [str(f) for f in replay.cores[0].findings], states))
    assert found[0] == found[1]
    assert found[0][1]


def test_a_replay_may_stop_and_go_back_inside_a_batch(executed):
    x, y = drawn((16, 4)), drawn((16, 4))
    run = neuroncore.run(elementwise, x, y, nl.float32, target="trn2")
    replay = run.steps(snapshots=0)
    for step in (50, 7, 90, 20, replay.steps, 33):
        replay.to_step(step)
        assert replay.next is None or replay.next == (0, step)
    np.testing.assert_array_equal(bits(replay.results()), bits(run.results))
    assert executed


@nki.jit
def row_after_steps(x, index):
    """Elementwise rows, then a row that an index chooses."""
    made, number = loaded(x), loaded(index)
    register = nisa.register_alloc()
    for _ in range(6):
        nisa.tensor_scalar(made, made, nl.add, 1.0)
    nisa.register_load(register, number)
    row = empty((1, x.shape[1]))
    nisa.dma_copy(row, x[nl.ds(register, 1)])
    for _ in range(6):
        nisa.tensor_scalar(row, row, nl.multiply, 2.0)
    return stored(row)


def test_an_error_between_batches_has_its_line(executed):
    x = drawn((8, 4))
    run = neuroncore.run(row_after_steps, x, np.array([[3]], np.int32), target="trn2")
    np.testing.assert_array_equal(run.replay(x, np.array([[5]], np.int32)), x[5:6] * 64)
    assert sum(executed) >= 10
    with pytest.raises(OutOfBoundsError) as refused:
        run.replay(x, np.array([[50]], np.int32))
    assert refused.value.place.text.strip().startswith("nisa.dma_copy(row")


@nki.jit
def turns_of_a_register(x, count):
    """Elementwise rows, as often as an input says."""
    made, register = loaded(x), nisa.register_alloc()
    nisa.register_load(register, loaded(count))
    for _ in nl.dynamic_range(register):
        for _ in range(5):
            nisa.tensor_scalar(made, made, nl.add, 1.0)
    return stored(made)


def test_replays_of_one_record_share_its_batches_but_no_memory(executed, monkeypatch):
    """Replays of several records take turns, each on other inputs."""
    built, init = [], batches.Batches.__init__
    monkeypatch.setattr(
        batches.Batches, "__init__", lambda *a, **k: (built.append(a), init(*a, **k))[1]
    )
    replays = []
    for shape in ((16, 4), (3, 7), (128, 1), (1, 33)):
        pairs = [[drawn(shape) for _ in range(2)] for _ in range(3)]
        run = neuroncore.run(elementwise, *pairs[0], nl.bfloat16, target="trn2")
        for inputs in pairs:
            replays.append((run.steps(*inputs, snapshots=0), inputs))
    for step in (40, 90, 91):
        for replay, _ in replays:
            replay.to_step(step)
    for replay, inputs in replays[::-1]:
        wanted = neuroncore.run(elementwise, *inputs, nl.bfloat16, target="trn2").results
        np.testing.assert_array_equal(bits(replay.results()), bits(wanted))
    assert len(built) == 4 and sum(executed) > 100


def test_other_options_and_other_results_have_other_batches(executed):
    """The same programs in another record: there maximum returns the number if the other operand
    is NaN, as `Options.nan_minmax` says."""
    x, y = drawn((16, 40)), drawn((16, 40))
    run = neuroncore.run(elementwise, x, y, nl.float32, target="trn2")
    number = Options(nan_minmax="number")
    other = neuroncore.run(elementwise, x, y, nl.float32, target="trn2", options=number)
    assert (bits(run.results) != bits(other.results)).any()
    for options, wanted in ((None, run), (number, other), (None, run)):
        setting = run.record.setting
        changed = replace(setting, options=options or setting.options)
        replay = Replay(replace(run.record, setting=changed), snapshots=0)
        np.testing.assert_array_equal(bits(replay.results()), bits(wanted.results))


def test_a_replay_that_takes_another_path_does_not_change_the_next_one(executed):
    x, counts = drawn((8, 4)), [np.array([[n]], np.int32) for n in (3, 5, 2)]
    runs = [neuroncore.run(turns_of_a_register, x, count, target="trn2") for count in counts]
    for run, count in zip(runs, counts):
        for given in counts:
            if given is count:
                np.testing.assert_array_equal(bits(run.replay(x, given)), bits(run.results))
            else:
                with pytest.raises(OtherPath):
                    run.replay(x, given)
    assert executed


def test_tensors_of_a_batch_never_share_memory_while_both_are_used():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        count, size = 60, np.array([64, 192])
        first = np.sort(rng.integers(0, 80, count))
        last, kind = first + rng.integers(0, 12, count), rng.integers(0, 2, count)
        at = np.empty(count, np.int64)
        by_last = np.argsort(last, kind="stable")
        total = loops.place.plain(first, last, by_last, kind, size, at)
        assert (at + size[kind]).max() <= total < size[kind].sum()
        for i in range(count):
            for j in range(i):
                apart = last[j] < first[i] or last[i] < first[j]
                ends = at + size[kind]
                assert apart or ends[i] <= at[j] or ends[j] <= at[i]
