"""A record that is executed again has the bits of the run, and can be stepped forward and back."""

import ml_dtypes
import neuronxcc.nki as older
import neuronxcc.nki.isa as older_nisa
import neuronxcc.nki.language as older_nl
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from collective_worlds import ALL, lengths, through_hbm
from every import for_all
from nki.collectives import ReplicaGroup
from precise import copied, loaded, stored

import neuroncore
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import DeadlockError, UsageError
from neuroncore.base.options import Options
from neuroncore.replay import cursor
from neuroncore.replay.execution import Waits

RNG = np.random.default_rng(5)
X, Y = (RNG.standard_normal((64, 32), np.float32) for _ in range(2))
COUNT = np.array([[3]], np.int32)


@nki.jit
def steps(x, y):
    """Values that differ only in a sign or a type, a constant of the host, a product."""
    a, b = loaded(x), loaded(y, nl.bfloat16)
    nisa.tensor_scalar(a, a, nl.multiply, 0.0, op1=nl.add, operand1=1)
    nisa.tensor_scalar(a, a, nl.multiply, -0.0, op1=nl.maximum, operand1=1.0)
    nisa.tensor_scalar(a, a, nl.multiply, np.float32(0.1))
    for factor in (1, 1.5, True):
        nisa.activation(a, nl.exp, a, scale=float(factor), bias=None)
    c = loaded(nl.shared_constant(np.arange(64 * 32, dtype=np.float32).reshape(64, 32)))
    nisa.tensor_tensor(c, c, a, nl.add)
    product = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, b, b)
    nisa.nc_matmul(product, b, b)
    return [stored(c), {"product": stored(copied(product))}]


@nki.jit
def placed(x, y):
    """Two tensors at one address, each of which begins a sum."""
    out = []
    for data in (x, y):
        b = nl.ndarray(data.shape, nl.bfloat16, buffer=nl.sbuf, address=(0, 4096))
        nisa.dma_copy(b, data)
        total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum, address=(0, 0))
        for _ in range(2):
            nisa.nc_matmul(total, b, b)
        out.append(stored(copied(total)))
    return tuple(out)


@nki.jit
def drawn(x, y):
    """Random numbers, some from a seed that is an input."""
    a, b = loaded(x), loaded(y)
    numbers = nl.ndarray(x.shape, nl.uint32, buffer=nl.sbuf)
    nisa.rng(numbers)
    nisa.dropout(a, a, 0.5)
    nisa.tensor_copy(b, numbers)
    nisa.tensor_tensor(a, a, b, nl.add)
    return stored(a)


@nki.jit
def both(x, y):
    """Each core doubles a half, and gets the other's half."""
    rank = nl.program_id(0)
    out = nl.ndarray((64, 32), x.dtype, buffer=nl.shared_hbm)
    mine, theirs = loaded(x[rank * 32 : rank * 32 + 32]), nl.ndarray((32, 32), x.dtype)
    nisa.tensor_scalar(mine, mine, nl.multiply, 2.0 + rank)
    nisa.sendrecv(mine, theirs, 1 - rank, 1 - rank, 0)
    nisa.tensor_tensor(mine, mine, theirs, nl.subtract)
    nisa.dma_copy(out[rank * 32 : rank * 32 + 32], mine)
    return out


def in_place(x, y):
    a = loaded(x)
    nisa.tensor_tensor(a, a, loaded(y), nl.add)
    nisa.dma_copy(x, a)


@older.jit
def of_the_older_api(x, y):
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    for i in older_nl.affine_range(2):
        rows = i * 32 + older_nl.arange(32)[:, None]
        columns = older_nl.arange(32)[None, :]
        value = older_nl.load(x[rows, columns]) * 2.0 + older_nl.load(y[rows, columns])
        older_nl.store(out[rows, columns], value)
    return out


@nki.jit
def added_up(x, y):
    """Sums that the engine's registers keep across instructions."""
    a, b, row = loaded(x), loaded(y), nl.ndarray((64, 1), nl.float32, buffer=nl.sbuf)
    keep, add = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce
    for command, given in ((keep, a), (add, b), (add, a), (keep, b), (add, a)):
        more = {"reduce_op": nl.add, "reduce_res": row, "reduce_cmd": command}
        nisa.activation(b, nl.square, given, scale=0.5, **more)
    return stored(row), stored(b)


KERNELS = {
    "added_up": added_up, "steps": steps, "placed": placed, "drawn": drawn, "both": both[2],
    "in_place": in_place, "older": of_the_older_api,
}  # fmt: skip


def bits(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [part for one in value for part in bits(one)]
    return [] if value is None else [np.ascontiguousarray(value).tobytes()]


@pytest.mark.parametrize("name", KERNELS)
def test_a_replay_has_the_bits_of_the_run_and_of_a_run_on_other_inputs(name):
    run = neuroncore.run(KERNELS[name], X.copy(), Y, target="trn2")
    x, y = Y[::-1].copy(), X * 3
    other = neuroncore.run(KERNELS[name], x, y, target="trn2")
    if name == "in_place":
        wanted = [(X + Y).tobytes()], [x.tobytes()]
    else:
        wanted = bits(run.results), bits(other.results)
    assert wanted[0] != wanted[1]
    assert bits(run.replay()) == wanted[0]
    assert bits(run.replay(Y[::-1], X * 3)) == wanted[1]
    assert bits(run.replay({"x": Y[::-1], "y": X * 3})) == wanted[1]


def rounded(x, y):
    a = loaded(x, nl.bfloat16)
    nisa.tensor_tensor(a, a, loaded(y), nl.multiply)
    return stored(a)


@pytest.mark.parametrize(
    "options",
    [
        Options(stochastic=True, stochastic_seed=7),
        Options(storage="float32"),
        Options(uninitialized="zeros"),
        Options(nan_minmax="number", rng="hardware"),
    ],
    ids=["stochastic", "float32", "zeros", "number"],
)
@for_all("kernel", [rounded, in_place, drawn])
def test_a_replay_has_the_options_of_the_run(kernel, options):
    x = X.copy()
    run = neuroncore.run(kernel, x, Y, target="trn2", options=options)
    assert bits(run.replay()) == bits(x if kernel is in_place else run.results)


@pytest.mark.parametrize("name", ["steps", "placed", "drawn", "both", "added_up"])
@for_all("room", [0, 1 << 30])
def test_steps_forward_and_back_give_the_same_tensors(name, room):
    run = neuroncore.run(KERNELS[name], X, Y, target="trn2")
    replay = run.steps(snapshots=room)
    replay._apart = 4
    wanted = bits(replay.results())
    rng = np.random.default_rng(1)
    for step in rng.integers(0, replay.steps + 1, 12).tolist():
        replay.to_step(step)
        assert replay.step == step
    seen = {}
    for step in [*range(replay.steps), *rng.permutation(replay.steps).tolist()]:
        replay.to_step(step)
        core, row = replay.next
        names = run.record.programs[core].calls[replay.executions[core]._row()[0]].writes
        after = [replay.tile(row, name, core, after=True).elements.tobytes() for name in names]
        assert seen.setdefault((core, row), after) == after
    assert bits(replay.results()) == wanted


def test_the_result_of_a_collective_is_restored_between_the_steps_of_its_ranks(monkeypatch):
    """The last rank to arrive writes to the tensors of all ranks; the others continue later."""

    @nki.jit
    def kernel(x):
        own, total = loaded(x), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        ncc.all_reduce(srcs=[own], dsts=[total], replica_group=ReplicaGroup([[0, 1]]), op=nl.add)
        return stored(total)

    monkeypatch.setattr(cursor, "APART", 1)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    replay = neuroncore.run(kernel, target="trn2", per_rank=[(x,), (x,)], lnc=1).steps()
    for step in [*range(replay.steps), *range(replay.steps)][::-1]:
        replay.to_step(step)
        for rank in range(2):
            assert np.array_equal(replay.tile(1, "dsts[0]", rank, after=True).elements, 2 * x)


def test_data_of_collectives_of_lengths_is_restored_between_the_steps_of_their_ranks(monkeypatch):
    arrays = [np.arange(6, dtype=np.float32) + 10 * rank for rank in range(4)]
    rows = [np.zeros((3, 4), np.uint32) + 2 for _ in arrays]
    monkeypatch.setattr(cursor, "APART", 1)
    run = lengths(ncc.all_gather_v, arrays, rows, 12, ALL, False)
    program = run.record.programs[0]
    names = [program.calls[call].name for call in program.columns().call]
    replay, row = run.steps(), names.index("all_gather_v")
    replay.finish()
    for step in range(replay.steps)[::-1]:
        replay.to_step(step)
        for name, wanted in zip(("dsts[0]", "metadata_tensor"), run.results[0], strict=True):
            assert np.array_equal(replay.tile(row, name, after=True).elements, wanted)


def test_registers_are_restored_when_stepping_back_from_the_end():
    run = neuroncore.run(added_up, X, Y, target="trn2")
    replay, held = run.steps(snapshots=1 << 30), {}
    replay._apart = 1
    for step in [*range(replay.steps), *range(replay.steps)]:
        replay.to_step(step)
        registers = [one.copy() for one in replay.cores[0].accumulators.values()]
        np.testing.assert_array_equal(registers, held.setdefault(step, registers))
        if len(held) == replay.steps:
            replay.to_step(replay.steps)


@nki.jit
def written_in_pieces(x):
    out = nl.ndarray((40, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i in range(40):
        nisa.dma_copy(dst=out[i], src=loaded(x))
    return out


def test_snapshots_copy_no_more_than_the_program_writes(monkeypatch):
    copied, content = [], cursor.content
    monkeypatch.setattr(cursor, "content", lambda *given: copied.append(given) or content(*given))
    replay = neuroncore.run(written_in_pieces, X, target="trn2").steps()
    replay._apart = 1
    replay.finish()
    assert len(replay._snapshots) > 2
    assert sum(storage.nbytes for _, storage in copied) <= 3 * 40 * X.nbytes
    replay.room = X.nbytes
    replay.to_step(1)
    assert replay.tile(2, "dst").elements.shape == X.shape


def test_tiles_on_the_chip_are_released_after_their_last_use():
    replay = neuroncore.run(steps, X, Y, target="trn2").steps(snapshots=0)
    replay.to_step(replay.steps)
    held = [root.storage.region for root in replay._tensors.roots.values()]
    assert held and not {MemoryRegion.sbuf, MemoryRegion.psum} & {*held}


def test_tiles_before_and_after_an_instruction():
    run = neuroncore.run(in_place, X.copy(), Y, target="trn2")
    replay = run.steps()
    added = [c.name for c in run.record.programs[0].calls].index("tensor_tensor")
    rows = run.record.programs[0].columns().call
    at = int(np.flatnonzero(rows == added)[0])
    np.testing.assert_array_equal(replay.tile(at, "data1").elements, X)
    np.testing.assert_array_equal(replay.tile(at, "dst", after=True).elements, X + Y)
    np.testing.assert_array_equal(replay.tile(at, "dst").elements, X)
    assert replay.tile(0, "dst").unwritten.all() and replay.tile(at, "dst").unwritten is None
    assert np.isnan(replay.tile(0, "dst").elements).all()  # not old memory of the host
    replay.to(0)
    with pytest.raises(UsageError, match="no tile 'op'"):
        replay.tile(at, "op")
    replay.back()
    with pytest.raises(UsageError, match="core 0 has no instruction 5: it has 4"):
        replay.to(5)


# --- inputs, and records that can't be executed ---------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "word"),
    [
        ((X,), "got 1 input, but the record has the inputs x, y"),
        (({"x": X},), "the input y is missing"),
        (({"x": X, "y": Y, "z": Y},), "z is not an input"),
        ((X[:1], Y), r"input x is \(1, 32\) float32, but it was \(64, 32\) float32"),
        ((X, Y.astype(np.float16)), r"input y is \(64, 32\) float16"),
    ],
)
def test_inputs_that_do_not_fit_the_kernel_are_refused(inputs, word):
    run = neuroncore.run(steps, X, Y, target="trn2")
    with pytest.raises(UsageError, match=word):
        run.replay(*inputs)


def test_an_input_that_is_stored_as_float32_is_returned_in_its_format():
    x, y = X.astype(ml_dtypes.bfloat16), Y.astype(ml_dtypes.bfloat16)
    changed = x.copy()
    run = neuroncore.run(in_place, changed, y, options=Options(storage="float32"))
    (again,) = run.replay(x, y)
    assert again.dtype == x.dtype and bits(again) == bits(changed)


@nki.jit
def first_row_cleared(x):
    zeros = nl.zeros((1, x.shape[1]), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x[0:1], src=zeros)
    return x


def test_unchanged_elements_of_such_an_input_keep_the_bits_of_nan():
    x = np.full((2, 4), 0x7F81, np.uint16).view(ml_dtypes.bfloat16)
    changed, given = x.copy(), x.copy()
    run = neuroncore.run(first_row_cleared, changed, options=Options(storage="float32"))
    assert bits(run.replay(given)) == bits(changed)
    assert changed.view(np.uint16).tolist() == [[0] * 4, [0x7F81] * 4]


@older.jit
def one_column_of_zeros(x, place):
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    rows, first = older_nl.mgrid[0:32, 0:1]
    column = older_nl.load(place)
    tile = older_nl.zeros(x.shape, x.dtype)
    source = older_nl.load(x)
    older_nisa.tensor_copy_dynamic_dst(
        dst=tile[rows, column[0, 0] + first], src=source[rows, first]
    )
    older_nl.store(out, tile)
    return out


def test_zeros_are_replayed_where_only_the_recorded_kernel_wrote_later():
    x = np.arange(32 * 6, dtype=np.float32).reshape(32, 6) + 1
    run = neuroncore.run(one_column_of_zeros, x, np.array([[1]], np.int32))
    for column in (4, 1):
        want = np.zeros_like(x)
        want[:, column] = x[:, 0]
        assert np.array_equal(run.replay(x, np.array([[column]], np.int32)), want)


@older.jit
def last_program_rounds(x):
    """A grid whose first programs record nothing: three programs begin at one row."""
    out = older_nl.ndarray(x.shape, older_nl.bfloat16, buffer=older_nl.shared_hbm)
    if older_nl.program_id(0) == 2:
        older_nl.store(out, older_nl.multiply(older_nl.load(x), 1.1, dtype=older_nl.bfloat16))
    return out


def test_an_instruction_rounds_as_in_the_last_program_that_begins_at_it():
    rounding = Options(stochastic=True, stochastic_seed=7)
    run = neuroncore.run(last_program_rounds[3], X, options=rounding)
    assert bits(run.replay()) == bits(run.results)


def test_ranks_take_their_turns_in_line():
    given = X.shape, ncc.all_reduce, ReplicaGroup([[0, 1, 2, 3]]), {"op": nl.add}
    run = neuroncore.run(through_hbm, per_rank=[(X, *given)] * 4)
    replay = run.steps()
    replay.finish()
    order = replay.order.tolist()
    assert sorted(set(order), key=order.index) == [0, 1, 2, 3]


def test_a_part_of_a_program_is_not_executed():
    run = neuroncore.run(steps, X, Y, options=Options(record_limit=3))
    with pytest.raises(UsageError, match="the record covers the first 3 of"):
        run.replay()


def test_inputs_that_the_kernel_writes_to_are_not_changed():
    run = neuroncore.run(in_place, X.copy(), Y)
    given = X.copy()
    (changed,) = run.replay(given, Y)
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(changed, X + Y)


@nki.jit
def separate(x):
    """Each core writes a half of an output that it has allocated itself."""
    rank, out = nl.program_id(0), nl.ndarray((64, 32), x.dtype, buffer=nl.hbm)
    half = slice(rank * 32, rank * 32 + 32)
    nisa.dma_copy(out[half], x[half])
    return out


def test_a_replay_completes_the_outputs_that_two_cores_allocated_separately():
    run = neuroncore.run(separate[2], X, target="trn2")
    np.testing.assert_array_equal(run.results, X)
    np.testing.assert_array_equal(run.replay(Y), Y)


@pytest.mark.parametrize("waits", [True, False])
def test_cores_that_never_continue_are_reported(monkeypatch, waits):
    run = neuroncore.run(both[2], X, Y, target="trn2")
    cursor = run.steps()
    if waits:
        for execution in cursor.executions:
            monkeypatch.setattr(execution, "step", never)
        with pytest.raises(DeadlockError, match="wait for each other"):
            cursor.forward()
    else:
        cursor.finish()
        assert cursor.step == cursor.steps


def never():
    """An instruction that starts again each time, which a damaged record may have."""
    raise Waits


@nki.jit
def roots(x, y):
    a, b = loaded(x), loaded(y)
    for tile in (a, b):
        nisa.activation(tile, nl.rsqrt, tile)
    nisa.activation(b, nl.log, b)
    return stored(a), stored(b)


def test_a_finding_of_a_replay_is_at_the_line_of_the_kernel():
    """Each finding appears once, also if the replay returns to an earlier state."""
    run = neuroncore.run(roots, np.abs(X), np.abs(Y))
    replay = cursor.Replay(run.record, [-np.abs(X), np.abs(Y)])
    replay.to(len(run.instructions))
    replay.to(1)
    replay.to(len(run.instructions))
    (finding,) = [found for core in replay.cores for found in core.findings]
    assert (finding.code, finding.place.file) == ("OUT_OF_RANGE", __file__)
    assert "nl.rsqrt" in finding.place.text


@nki.jit
def half_written(x):
    tile = nl.ndarray((4, 8), nl.float32, nl.sbuf)
    a, b = (nl.ndarray((4, 8), nl.float32, nl.sbuf) for _ in range(2))
    nisa.dma_copy(tile[:, :4], x[:4, :4])
    nisa.tensor_copy(a, tile)
    nisa.tensor_copy(b, tile)
    return stored(a), stored(b)


@pytest.mark.parametrize("saved", [False, True])
def test_a_replay_has_the_findings_of_the_run_with_their_lines(tmp_path, saved):
    """Two lines that read the same elements have two findings, also in a record from a file."""
    run = neuroncore.run(half_written, X)
    if saved:
        run.save(tmp_path / "run.npz")
        run = neuroncore.load(tmp_path / "run.npz")
    replay = cursor.Replay(run.record, [X])
    replay.to(len(run.instructions))
    (core,) = replay.cores
    first, second = ((f.code, f.place) for f in core.findings)
    assert [first, second] == [(f.code, f.place) for f in run.findings if f.code == "UNINIT_READ"]
    assert first != second
