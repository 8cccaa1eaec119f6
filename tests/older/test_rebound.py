"""Python names that the body of a loop assigns, if the loop is traced once."""

import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki import language as nl

import neuroncore
from neuroncore.base.errors import ScopeError

X = np.random.default_rng(0).random((4, 8, 16)).astype(np.float32)
LOOPS = [nl.affine_range, nl.sequential_range]
seen_so_far = []


@pytest.fixture(autouse=True)
def _nothing_seen():
    seen_so_far.clear()


def rebound(run):
    return [one for one in run.findings if one.code == "LOOP_REBOUND"]


def halved(x, loop):
    out = nl.ndarray((4, 8, 8), x.dtype, buffer=nl.shared_hbm)
    width = 16
    for i in loop(4):
        tile = nl.load(x[i])
        width = width // 2
        nl.store(out[i, :, 0:width], tile[:, 0:width])
    return out


@pytest.mark.parametrize("loop", LOOPS)
def test_a_number_is_the_same_in_every_iteration(loop):
    run = neuroncore.run(nki.jit(halved), X, loop)
    assert np.array_equal(run.results, X[:, :, :8])
    (told,) = rebound(run)
    assert told.severity == "warning" and told.place.text.strip() == "width = width // 2"
    assert "width is 16 when the body of the loop begins, and 8 when it ends" in told.message


def test_an_unrolled_loop_runs_its_body_for_each_iteration():
    run = neuroncore.run(nki.jit(halved), X, nl.static_range)
    assert not rebound(run)
    assert np.array_equal(run.results[0], X[0, :, :8])
    assert np.array_equal(run.results[3, :, :1], X[3, :, :1])


def counted(x):
    """The guide to migration has this example: val is 1 after the loop."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    val, shape, name, parts = 0, (1, 2), "a", []
    for i in nl.affine_range(4):
        nl.store(out[i], nl.load(x[i]))
        seen_so_far.append((int(i), val, shape, name, len(parts)))
        val += 1
        shape = (*shape, val)
        name += "b"
        parts.append(i)
        for _ in nl.static_range(3):
            parts.append(val)
    seen_so_far.append((val, shape, name, len(parts)))
    return out


def test_numbers_tuples_strings_and_lists_have_changed_once_after_the_loop():
    run = neuroncore.run(nki.jit(counted), X)
    assert seen_so_far == [*((i, 0, (1, 2), "a", 0) for i in range(4)), (1, (1, 2, 1), "ab", 4)]
    told = {one.message.split()[0]: one.message for one in rebound(run)}
    assert set(told) == {"val", "shape", "name", "parts"}
    assert "parts is a list of 0 elements when" in told["parts"]
    assert "a list of 4 elements when it ends" in told["parts"]


def swapped(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    one, other = nl.load(x[0]), nl.load(x[1])
    for i in nl.sequential_range(4):
        nl.store(out[i], one)
        one, other = other, one
    return out


def test_tiles_are_exchanged_once():
    run = neuroncore.run(nki.jit(swapped), X)
    assert np.array_equal(run.results, np.broadcast_to(X[0], X.shape))
    assert {one.message.split()[0] for one in rebound(run)} == {"one", "other"}


def summed(x):
    out = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros(x.shape[1:], x.dtype)
    for i in nl.sequential_range(4):
        total = nl.add(total, nl.load(x[i]))
    nl.store(out, total)
    return out


def test_a_tile_of_an_iteration_is_refused_where_the_next_one_reads_it():
    with pytest.raises(ScopeError, match="iteration that has ended") as caught:
        nki.jit(summed)(X)
    assert "total = nl.add" in caught.value.place.text


def unchanged(x):
    """Names that the body binds before it reads them, or to what they were."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    p, f, rows, last, kept = nl.arange(8)[:, None], nl.arange(16)[None, :], 8, 0, [x]
    for i in nl.affine_range(4):
        nl.store(out[i, p, f], nl.load(x[i, p, f]))
        p, f, rows = nl.arange(8)[:, None], nl.arange(16)[None, :], rows * 1
        last = i
        parts = []
        parts.append(last)
        kept.append(parts)
        kept.pop()
    assert last == 3
    return out


def test_names_with_their_old_value_are_not_reported():
    run = neuroncore.run(nki.jit(unchanged), X)
    assert np.array_equal(run.results, X) and not rebound(run)


def nested(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    n = 0
    for i in nl.affine_range(2):
        for j in nl.affine_range(2):
            nl.store(out[2 * i + j], nl.load(x[2 * i + j]))
            seen_so_far.append(n)
            n += 1
        n *= 10
    seen_so_far.append(n)
    return out


def test_each_loop_of_a_nest_is_traced_once():
    neuroncore.run(nki.jit(nested), X)
    assert seen_so_far == [0, 0, 0, 0, 10]


def in_a_cell(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    row = 0

    def stored():
        nl.store(out[row], nl.load(x[row]))

    for _, i in enumerate(nl.affine_range(4)):
        seen_so_far.append(row)
        row = row + i
        stored()
    return out


def test_names_that_functions_share_and_loops_through_enumerate():
    run = neuroncore.run(nki.jit(in_a_cell), X)
    assert seen_so_far == [0, 0, 0, 0]
    assert np.array_equal(run.results, X)
