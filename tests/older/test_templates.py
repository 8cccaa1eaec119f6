"""Iterations that are copied from earlier ones equal those that Python would have run."""

from contextlib import suppress
from struct import Struct

import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl

import neuroncore
from neuroncore.base import source
from neuroncore.base.errors import KernelError
from neuroncore.base.options import Options
from neuroncore.core import later
from neuroncore.frontend.neuronxcc.nki import known_iterations, templates, tracing
from neuroncore.frontend.settings import settings
from neuroncore.memory.storage import Memory
from neuroncore.record import program

X = np.random.default_rng(0).random((6, 8, 16)).astype(np.float32)
BIRTHS = Struct("<qq")  # a storage, and the line of its allocation
COLUMNS = 8, 0, 4, 12
ROWS = [2, 0, 1, 5, 3, 4]
P, F = nl.arange(8)[:, None], nl.arange(16)[None, :]


def blocks_in_a_nest(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray((6, 2, nl.par_dim(8), 8), x.dtype)
    b = nl.ndarray((6, 2, nl.par_dim(8), 8), x.dtype)
    for i in nl.affine_range(6):
        for k in nl.affine_range(2):
            half = nl.arange(8)[None, :]
            a[i, k, P, half] = nl.load(x[i, P, 8 * k + half], mask=8 * i + P < 45)
            b[i, k, P, half] = nl.add(a[i, k, P, half], 1.0, mask=8 * i + P < 45)
            nl.store(out[i, P, 8 * k + half], b[i, k, P, half], mask=8 * i + P < 45)
    return out


def sums_of_products(x):
    out = nl.ndarray((16, 6 * 16), x.dtype, buffer=nl.shared_hbm)
    weights = nl.load(x[0])
    total = nl.zeros((6, nl.par_dim(16), 16), np.float32, buffer=nl.psum, lazy_initialization=True)
    for i in nl.affine_range(6):
        for _k in nl.sequential_range(4):
            tile = nl.load(x[i])
            total[i] += nisa.nc_matmul(weights, tile)
        nl.store(out[nl.arange(16)[:, None], 16 * i + F], nl.copy(total[i]))
    return out


def sums_of_kept_tiles(x):
    out = nl.ndarray((6, 16, 16), x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((6, nl.par_dim(8), 16), x.dtype)
    total = nl.zeros((6, nl.par_dim(16), 16), np.float32, buffer=nl.psum, lazy_initialization=True)
    for k in nl.affine_range(6):
        kept[k] = nl.load(x[k])
    for i in nl.affine_range(6):
        mine = nl.multiply(kept[i], 2.0)
        for k in nl.affine_range(6):
            total[i] += nisa.nc_matmul(kept[k], mine)
        for k in nl.affine_range(6):
            total[i] += nisa.nc_matmul(mine, kept[k])
        nl.store(out[i], nl.copy(total[i]))
    return out


def tiles_in_shared_storages(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        one = nl.load(x[i])
        total = nl.zeros((16, 16), np.float32, buffer=nl.psum)
        total += nisa.nc_matmul(one, one)
        half = nl.ndarray((8, 16), x.dtype)
        half[:, 0:8] = nl.add(one[:, 0:8], 1.0)
        other = nl.multiply(one, nl.copy(total[0:8]))
        total = nl.zeros((16, 16), np.float32, buffer=nl.psum)
        total += nisa.nc_matmul(one, one)
        last = nl.ndarray((8, 16), x.dtype)
        last[:, 0:8] = nl.copy(half[:, 0:8])
        last[:, 8:16] = nl.copy(other[:, 8:16])
        nl.store(out[i], last)
    return out


def half_filled_tiles(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        tile = nl.ndarray((8, 16), x.dtype)
        tile[:, 0:8] = nl.load(x[i, :, 0:8])
        nl.store(out[i, :, 0:8], nl.add(tile, tile)[:, 0:8])
        other = nl.ndarray((8, 16), x.dtype)
        other[:, 8:16] = nl.load(x[i, :, 8:16])
        nl.store(out[i, :, 8:16], nl.add(other, other)[:, 8:16])
    return out


def sums_in_a_name(x):
    out = nl.ndarray((6, 16, 16), x.dtype, buffer=nl.shared_hbm)
    weights = nl.load(x[0])
    for i in nl.affine_range(6):
        total = nl.zeros((16, 16), np.float32, buffer=nl.psum)
        for k in nl.affine_range(3):
            total += nisa.nc_matmul(weights, nl.load(x[i, :, nl.ds(0 * k, 16)]))
        nl.store(out[i], nl.copy(total))
    return out


def one_block_in_several_steps(x):
    out = nl.ndarray((6, 4, 8, 16), x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((8, nl.par_dim(8), 16), x.dtype)
    for k in nl.affine_range(8):
        kept[k] = nl.load(x[0 * k])
    for i in nl.affine_range(6):
        for k in nl.affine_range(4):
            tile = nl.add(kept[i], kept[i + 0 * k])
            nl.store(out[i, k], nl.multiply(tile, kept[2 * k + 0 * i]))
            kept[i] = nl.copy(tile)
    return out


def pieces_of_a_tile(x):
    out = nl.ndarray((8, 96), x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((8, 96), x.dtype)
    for i in nl.affine_range(6):
        at = i * 16
        rows[:, at : at + 16] = nl.load(x[5 - i])
        rows[:, nl.ds(16 * i, 8)] = nl.copy(rows[:, at + 8 : at + 16])
    nl.store(out, rows)
    return out


def written_by_every_iteration(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((2, nl.par_dim(8), 16), x.dtype)
    for i in nl.affine_range(6):
        for k in nl.affine_range(2):
            kept[k] = nl.load(x[i])
            nl.store(out[i], kept[k])
    return out


def read_before_it_is_written(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        tile = nl.ndarray((8, 16), x.dtype)
        tile[:, 0:8] = nl.load(x[i, :, 0:8])
        nl.store(out[i], nl.exp(tile))
    return out


def unrolled_in_it(x, twice=True):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        tile = nl.ndarray((8, 16), x.dtype)
        for k in nl.static_range(4):
            tile[:, nl.ds(COLUMNS[k], 4)] = nl.load(x[i, :, 0:4])
        if twice:
            tile = nl.add(tile, tile)
        nl.store(out[i, P, F], tile)
    return out


def past_the_end(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        tile = nl.load(x[i, P, 4 * i + F[:, 0:4] - 3 * i])
        nl.store(out[i, :, 0:4], nl.multiply(tile, 2.0))
        nl.store(out[i, :, nl.ds(3 * i, 4)], tile)
    return out


def reduced_over_loops(x):
    out = nl.ndarray((3, 8, 1), x.dtype, buffer=nl.shared_hbm)
    part = nl.ndarray((3, 2, 4, 3, nl.par_dim(8), 1), x.dtype)
    top = nl.ndarray((3, 2, nl.par_dim(8), 1), x.dtype)
    total = nl.ndarray((3, nl.par_dim(8), 1), x.dtype)
    for i in nl.affine_range(3):
        for j in nl.affine_range(2):
            for k in nl.affine_range(4):
                for m in nl.affine_range(5, 2, -1):
                    column = 4 * k + m - 2 + nl.arange(2)[None, :]
                    tile = nl.load(x[i + j, P, column], mask=column < 16)
                    part[i, j, k, m - 3] = nl.max(tile, axis=1, keepdims=True)
                    top[i, j, P, 0] = nl.loop_reduce(
                        part[i, j, k, m - 3, P, 0], op=np.max, loop_indices=[k, m]
                    )
            total[i, P, 0] = nl.loop_reduce(top[i, j, P, 0], op=np.add, loop_indices=[j])
        nl.store(out[i], total[i])
    return out


def reduced_into_a_new_tile(x):
    out = nl.ndarray((2, 3, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        for k in nl.sequential_range(3):
            total = nl.loop_reduce(nl.load(x[i + k]), op=np.add, loop_indices=[k])
            nl.store(out[i, k], total)
    return out


def chosen_by_python(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        scale = 2.0 if i == 4 else 1.0
        nl.store(out[i], nl.multiply(nl.load(x[i]), scale))
    return out


def listed(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        nl.store(out[ROWS[i]], nl.load(x[i]))
    return out


def products_of_variables(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        for k in nl.affine_range(4):
            nl.store(out[i * k], nl.load(x[k]))
    return out


def a_number_as_data(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        nl.store(out[i], nl.add(nl.load(x[i]), i))
    return out


def a_mask_of_numbers(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(6):
        tile = nl.load(x[i])
        nl.store(out[i], tile, mask=i < 4)
    return out


def a_list_that_changes(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    at = [0]
    for i in nl.affine_range(3):
        at[0] = i * i
        for k in nl.affine_range(3):
            nl.store(out[at[0] + 0 * k], nl.load(x[k]))
    return out


class Factor(float):
    value = 1.0


executed = {}
exec("class Executed: value = 1.0", executed)  # of the module builtins, as it has no other


def reading_an_attribute_of(factor):
    def an_attribute_that_changes(x):
        out = nl.ndarray((6, 6, 8, 16), x.dtype, buffer=nl.shared_hbm)
        factor.value = 1.0
        rounds = iter(range(6))
        for i in nl.affine_range(6):
            if next(rounds) == 4:
                factor.value = 5.0
            for k in nl.affine_range(6):
                nl.store(out[i, k], nl.multiply(nl.load(x[k]), factor.value))
        return out

    return an_attribute_that_changes


def a_name_changed_after_its_loop(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((6, nl.par_dim(8), 16), x.dtype)
    for k in nl.affine_range(6):
        kept[k] = nl.load(x[k])
    for _i in nl.sequential_range(3):
        for k in nl.affine_range(6):
            one = kept[k]
            nl.store(out[k], one)
        one += 1.0
    return out


def sums_in_names_of_outer_tensors(x):
    out = nl.ndarray((24, 16), np.float32, buffer=nl.shared_hbm)
    weights = nl.load(x[0])
    total = nl.zeros((8, 16), np.float32)
    product = nl.zeros((16, 16), np.float32, buffer=nl.psum)
    for i in nl.affine_range(6):
        tile = nl.load(x[i])
        total += tile
        product += nisa.nc_matmul(weights, tile)
    nl.store(out[0:8], total)
    nl.store(out[8:24], nl.copy(product))
    return out


def running_sums_of_ragged_tiles(x):
    out = nl.ndarray((6, 3, 8, 5), np.float32, buffer=nl.shared_hbm)
    total = nl.zeros((8, 5), np.float32)
    for i in nl.sequential_range(6):
        total *= 0.5
        for k in nl.sequential_range(3):
            total -= nl.load(x[i, :, nl.ds(5 * k, 5)])
            nl.store(out[i, k], total)
    return out


def a_tensor_that_is_changed_and_replaced(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    total, other = nl.zeros((8, 16), np.float32), nl.zeros((8, 16), np.float32)
    for i in nl.sequential_range(6):
        total += nl.load(x[i])
        nl.store(out[i], total)
        total, other = other, total
    return out


def a_number_that_is_changed(x):
    out = nl.ndarray((6, 8, 16), x.dtype, buffer=nl.shared_hbm)
    number = 0
    for i in nl.sequential_range(6):
        nl.store(out[i], nl.load(x[number]))
        number = number + 1
    return out


REPEATED = [
    *(blocks_in_a_nest, sums_of_products, pieces_of_a_tile, written_by_every_iteration),
    *(unrolled_in_it, past_the_end, reduced_over_loops),
    *(sums_in_a_name, one_block_in_several_steps, sums_of_kept_tiles, tiles_in_shared_storages),
    *(sums_in_names_of_outer_tensors, running_sums_of_ragged_tiles),
]
RUN_BY_PYTHON = [
    *(read_before_it_is_written, half_filled_tiles),
    *(chosen_by_python, listed, products_of_variables, a_number_as_data, a_mask_of_numbers),
    *map(reading_an_attribute_of, (Factor, Factor(2), executed["Executed"])),
    *(a_list_that_changes, reduced_into_a_new_tile, a_name_changed_after_its_loop),
    *(a_tensor_that_is_changed_and_replaced, a_number_that_is_changed),
]


def outcome(kernel):
    """Return results and findings of a kernel, or its error, and rows with their places."""
    try:
        run = neuroncore.run(nki.jit(kernel), X)
    except KernelError as error:
        return str(error)
    (rows,) = run.record.programs
    places = [str(source.place(*line)) for line in rows.lines]
    lines = [places[line] for line in rows.columns().line]
    births = [(n, places[line]) for n, line in BIRTHS.iter_unpack(rows.births.since())]
    told = [str(finding) for finding in run.findings]
    data = births, rows.data.marks().tolist(), sorted(rows.data.carried), lines
    return run.results.tobytes(), told, rows.rows.since(), data


def both(kernel, monkeypatch):
    """Return the outcome, the outcome without templates, and the values of the loop variables of
    each repeated iteration."""
    repeated = []
    repeat = templates.Template.repeat

    def counted(template, loop_run, outer, values):
        done = repeat(template, loop_run, outer, values)
        repeated.extend((*outer, value) for value in values[:done])
        return done

    monkeypatch.setattr(templates.Template, "repeat", counted)
    first = outcome(kernel)
    monkeypatch.setattr(templates, "_plan", lambda *_: None)
    return first, outcome(kernel), repeated


@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.__name__)
def test_repeated_iterations_equal_those_of_python(kernel, monkeypatch):
    repeated, plain, iterations = both(kernel, monkeypatch)
    assert repeated == plain and iterations


@pytest.mark.parametrize("kernel", RUN_BY_PYTHON, ids=lambda kernel: kernel.__name__)
def test_python_runs_iterations_that_it_has_to_run(kernel, monkeypatch):
    repeated, plain, _ = both(kernel, monkeypatch)
    assert repeated == plain


@pytest.mark.parametrize("packed", [1, 3, 50])
@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.__name__)
def test_rows_are_the_same_if_they_are_compressed_while_a_kernel_runs(kernel, packed, monkeypatch):
    whole = outcome(kernel)
    monkeypatch.setattr(program, "PACKED", packed)
    assert outcome(kernel) == whole


@pytest.mark.parametrize("ahead", [1, 100])
@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.__name__)
def test_any_number_of_iterations_can_be_made_at_once(kernel, ahead, monkeypatch):
    whole = outcome(kernel)
    monkeypatch.setattr(templates, "AHEAD", ahead)
    assert outcome(kernel) == whole


@pytest.mark.parametrize("limit", [5, 11, 12, 20])
@pytest.mark.parametrize("kernel", [unrolled_in_it, running_sums_of_ragged_tiles, past_the_end])
def test_a_record_ends_at_its_limit_in_repeated_iterations(kernel, limit, monkeypatch):
    options = Options(record_limit=limit)
    with settings(options=options):
        repeated, plain, _ = both(kernel, monkeypatch)
    assert repeated == plain


class Watching:
    def begun(self, core):
        self.core = core

    def done(self, *ranks):
        pass


@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.__name__)
def test_the_record_ends_before_an_instruction_that_fails(kernel, monkeypatch):
    def record(failing):
        watching, count = Watching(), iter(range(10_000))

        def counted(*given):
            if next(count) == failing:
                raise ZeroDivisionError
            execute(*given)

        monkeypatch.setattr(known_iterations, "_execute", counted)
        with settings(observer=watching), suppress(KernelError, ZeroDivisionError):
            nki.jit(kernel)(X)
        data = watching.core.program.data
        return watching.core.program, data.marks(), next(count)

    execute = known_iterations._execute
    whole, marks, count = record(-1)
    for failing in {0, 1, count // 2, count - 2, count - 1}:
        part, its_marks, executed = record(failing)
        assert executed == failing + 1
        assert whole.rows.since()[: part.rows.size] == part.rows.since()
        assert part.count == len(part.columns().call) < whole.count
        begun = its_marks[its_marks[:, 1] >= 0]
        assert begun.tolist() == marks[marks[:, 1] >= 0][: len(begun)].tolist()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [sums_of_kept_tiles, tiles_in_shared_storages])
def test_deferred_sums_end_before_their_storage_is_used_again(kernel, threads, monkeypatch):
    monkeypatch.setattr(later, "MOST", 4)
    monkeypatch.setattr(later, "WORTH", 1)
    monkeypatch.setenv(later.THREADS, str(threads))
    repeated, plain, _ = both(kernel, monkeypatch)
    assert repeated == plain


def test_repeated_iterations_share_storages(monkeypatch):
    made = []
    unnumbered = Memory.unnumbered
    monkeypatch.setattr(Memory, "unnumbered", lambda *given: made.append(1) or unnumbered(*given))
    outcome(tiles_in_shared_storages)
    shared = len(made)
    monkeypatch.setattr(templates, "_plan", lambda *_: None)
    outcome(tiles_in_shared_storages)
    assert shared < (len(made) - shared) * 3 / 4


def too_long_to_note(x):
    out = nl.ndarray((2, 4, 4, 8, 16), x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        for j in nl.affine_range(4):
            for k in nl.affine_range(4):
                nl.store(out[i, j, k], nl.load(x[k]))
    return out


def test_inner_loops_are_repeated_if_an_iteration_around_them_is_too_long(monkeypatch):
    monkeypatch.setattr(tracing, "MOST", 30)
    repeated, plain, iterations = both(too_long_to_note, monkeypatch)
    assert repeated == plain
    assert 2 in map(len, iterations)


def test_a_method_of_a_result_of_a_call_with_a_loop_variable_is_allowed():
    @nki.jit
    def kernel(x):
        total = nl.zeros((8, 16), np.float32)
        out = nl.ndarray((8, 16), np.float32, buffer=nl.shared_hbm)
        for i in nl.sequential_range(4):
            row = nisa.iota(i * 16 + F, dtype=np.float32).broadcast_to(x.shape)
            total[...] = total + row
        nl.store(out, total)
        return out

    want = np.arange(64, dtype=np.float32).reshape(4, 1, 16).sum(0) + np.zeros((8, 1), np.float32)
    np.testing.assert_array_equal(kernel(X[0]), want)
