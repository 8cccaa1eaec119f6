"""Replays of programs whose places, paths or random bits depend on data."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from precise import copied, loaded, stored

import neuroncore
from neuroncore.base.errors import OutOfBoundsError, UsageError
from neuroncore.replay import batches, cursor
from neuroncore.replay.execution import OtherPath

RNG = np.random.default_rng(5)
X, Y = (RNG.standard_normal((64, 32), np.float32) for _ in range(2))
COUNT = np.array([[3]], np.int32)


@nki.jit
def times(x, count):
    """The number of instructions depends on a register."""
    a, number = loaded(x), loaded(count)
    register = nisa.register_alloc()
    nisa.register_load(register, number)
    for _ in nl.dynamic_range(register * 2 - 1):
        nisa.tensor_scalar(a, a, nl.multiply, 2.0)
    return stored(a)


@nki.jit
def rows_of(x, count):
    """Only the row of an access depends on a register."""
    number = loaded(count)
    register = nisa.register_alloc()
    nisa.register_load(register, number)
    row = nl.ndarray((1, 32), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(row, x[nl.ds(register + 1, 1)])
    nisa.register_store(number, register + 5)
    nisa.tensor_scalar(row, row, nl.add, copied(number))
    return stored(row)


@nki.jit
def picked(x, index):
    rows = loaded(index)
    found = nl.ndarray((2, 32), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(found, x.ap([[32, 2], [1, 32]], vector_offset=rows, indirect_dim=0))
    return stored(found)


def test_a_place_that_depends_on_data_follows_the_new_data():
    run = neuroncore.run(rows_of, X, COUNT, target="trn2")
    np.testing.assert_array_equal(run.results, X[4:5] + 8)
    np.testing.assert_array_equal(run.replay(), run.results)
    np.testing.assert_array_equal(run.replay(Y, COUNT + 9), Y[13:14] + 17)
    index = np.array([[7], [2]], np.int32)
    run = neuroncore.run(picked, X, index, target="trn2")
    np.testing.assert_array_equal(run.replay(Y, index[::-1]), Y[[2, 7]])


def test_a_register_has_no_value_again_before_the_instruction_that_loads_it():
    replay = neuroncore.run(rows_of, X, COUNT, target="trn2").steps()
    registers = replay.executions[0].registers
    replay.finish()
    assert COUNT in (registers.value(number) for number in range(2))
    replay.to_step(0)
    with pytest.raises(UsageError, match="has not loaded yet"):
        [registers.value(number) for number in range(2)]


def test_a_constant_beyond_32_bits_is_the_same_number_in_a_replay():
    def kernel(count):
        number = loaded(count)
        register = nisa.register_alloc()
        nisa.register_load(register, number[:, 0:1])
        for result in (register // 2**31, register < 2**31, register % 2**32 + register):
            nisa.register_store(number[:, 0:1], result + register)
            nisa.tensor_tensor(number[:, 1:2], number[:, 1:2], number[:, 0:1], nl.add)
        return stored(number)

    run = neuroncore.run(nki.jit(kernel), np.array([[3, 0]], np.int32), target="trn2")
    assert run.results.tolist() == [[9, 16]]
    assert run.replay().tolist() == [[9, 16]]
    assert run.replay(np.array([[5, 0]], np.int32)).tolist() == [[15, 26]]
    assert run.verify().difference is None


def test_a_place_out_of_bounds_is_refused_at_the_kernels_line():
    run = neuroncore.run(rows_of, X, COUNT, target="trn2")
    with pytest.raises(OutOfBoundsError) as refused:
        run.replay(X, COUNT + 100)
    assert refused.value.place.text.strip().startswith("nisa.dma_copy(row")


@nki.jit
def outside(x, count):
    """An access that is skipped if a register is past the end."""
    number = loaded(count)
    register = nisa.register_alloc()
    nisa.register_load(register, number)
    row = loaded(x[0:1])
    nisa.dma_copy(row, x[nl.ds(register, 1)], oob_mode=nisa.oob_mode.skip)
    return stored(row)


def test_an_access_that_was_skipped_may_happen_on_other_inputs():
    run = neuroncore.run(outside, X, COUNT + 100, target="trn2")
    np.testing.assert_array_equal(run.results, X[0:1])
    np.testing.assert_array_equal(run.replay(), run.results)
    with pytest.raises(UsageError, match="the kernel skipped an access"):
        run.replay(X, COUNT)
    inside = neuroncore.run(outside, X, COUNT, target="trn2")
    np.testing.assert_array_equal(inside.replay(X, COUNT + 100), X[0:1])


def test_a_returned_view_at_an_index_is_not_replayed_on_other_inputs():
    def kernel(x, count):
        register = nisa.register_alloc()
        nisa.register_load(register, loaded(count))
        return stored(loaded(x))[:, nl.ds(register, 2)]

    run = neuroncore.run(nki.jit(kernel), X, COUNT, target="trn2")
    np.testing.assert_array_equal(run.results, X[:, 3:5])
    np.testing.assert_array_equal(run.replay(), run.results)
    with pytest.raises(UsageError, match="returns a view at an index"):
        run.replay(Y, COUNT)


@nki.jit
def drawn_thrice(x):
    """Random bits of three draws, one after the other."""
    made = loaded(x)
    draws = nl.ndarray((3, *x.shape), nl.uint32, buffer=nl.shared_hbm)
    for n in range(3):
        bits = nl.ndarray(x.shape, nl.uint32, buffer=nl.sbuf)
        nisa.rng(bits)
        nisa.tensor_tensor(dst=made, data1=made, data2=made, op=nl.add)
        nisa.dma_copy(dst=draws[n], src=bits)
    return draws


def test_snapshots_keep_the_states_of_random_generators(monkeypatch):
    monkeypatch.setattr(cursor, "APART", 1)  # steps between snapshots
    run = neuroncore.run(drawn_thrice, X, target="trn2")
    replay = run.steps()
    replay.finish()
    for step in range(replay.steps, -1, -1):  # each snapshot is returned to, and drawn from, twice
        for _ in range(2):
            replay.to_step(step)
            replay.finish()
            np.testing.assert_array_equal(replay.results(), run.results)


@nki.jit
def thrice_decided(x, turns):
    """One decision before an instruction, two before the next."""
    made = loaded(x)
    registers = [nisa.register_alloc() for _ in range(3)]
    for column, register in enumerate(registers):
        nisa.register_load(register, loaded(turns[:, column : column + 1]))
    for _ in nl.dynamic_range(registers[0]):
        nisa.tensor_scalar(dst=made, data=made, op0=nl.add, operand0=1.0)
    for _ in nl.dynamic_range(registers[1]):
        pass
    for _ in nl.dynamic_range(registers[2]):
        nisa.tensor_scalar(dst=made, data=made, op0=nl.multiply, operand0=2.0)
    return stored(made)


def test_the_decisions_up_to_the_first_different_one_are_known():
    run = neuroncore.run(thrice_decided, X, np.array([[1, 2, 3]], np.int32), target="trn2")
    np.testing.assert_array_equal(run.replay(), (X + 1) * 8)
    for turns in ([4, 2, 3], [1, 4, 3], [1, 2, 4]):
        with pytest.raises(OtherPath) as found:
            run.replay(X, np.array([turns], np.int32))
        assert found.value.decisions == tuple(turns[: turns.index(4) + 1])


def test_another_path_is_reported_with_its_line():
    run = neuroncore.run(times, X, COUNT, target="trn2")
    np.testing.assert_array_equal(run.results, X * 32)
    np.testing.assert_array_equal(run.replay(Y, COUNT), Y * 32)
    message = r"test_data_dependence.py:\d+.* different path .* is 7, and was 5"
    with pytest.raises(UsageError, match=message):
        run.replay(X, COUNT + 1)


@nki.jit
def decided_at_the_end(x, turns):
    """A loop after the last instruction, whose length comes from a register."""
    made, register = loaded(x), nisa.register_alloc()
    for _ in range(8):
        nisa.tensor_scalar(dst=made, data=made, op0=nl.add, operand0=1.0)
    result = stored(made)
    nisa.register_load(register, loaded(turns))
    for _ in nl.dynamic_range(register):
        pass
    return result


def test_a_branch_after_the_last_instruction_is_checked(monkeypatch):
    monkeypatch.setattr(batches, "are_worth", lambda rows: True)
    run = neuroncore.run(decided_at_the_end, X, COUNT, target="trn2")
    np.testing.assert_array_equal(run.replay(), run.results)
    with pytest.raises(OtherPath):
        run.replay(X, COUNT + 1)
