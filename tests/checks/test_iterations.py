"""Parallel loops of the older API: iterations that read data that other iterations write."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from every import for_all

import neuroncore
from neuroncore.checks import orders

X = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)


def findings_of(kernel):
    found = neuroncore.run(kernel, X).findings
    return [one for one in found if one.code == "LOOP_CARRIED_READ"]


def line_of(finding):
    with open(finding.place.file, encoding="utf-8") as file:
        return file.read().splitlines()[finding.place.line - 1]


@nki.jit
def within_sbuf(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(3):
        squares = nl.square(tile[:, nl.ds(i * 128, 128)])  # reads
        tile[:, nl.ds(i * 128 + 128, 128)] = nl.exp(squares)
    nl.store(out, tile)
    return out


@nki.jit
def through_hbm(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[:, 0:128], nl.load(x[:, 0:128]))
    for i in nl.affine_range(1, 4):
        before = nl.load(out[:, nl.ds(i * 128 - 128, 128)])  # reads
        nl.store(out[:, nl.ds(i * 128, 128)], before)
    return out


@nki.jit
def of_the_outer_loop(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(3):
        for j in nl.sequential_range(2):
            mine = tile[:, nl.ds(i * 128 + j * 64, 64)]
            tile[:, nl.ds(i * 128 + 128 + j * 64, 64)] = nl.exp(mine)  # reads
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("kernel", [within_sbuf, through_hbm, of_the_outer_loop])
def test_a_read_of_data_of_another_iteration_is_reported_with_both_lines(kernel):
    (found,) = findings_of(kernel)
    assert "# reads" in line_of(found)
    values, line = ("2", "1") if kernel is through_hbm else ("1", "0"), found.message.split(":")[-1]
    assert f"iteration {values[0]} of" in found.message
    assert f"what iteration {values[1]} has written" in found.message
    distance = {within_sbuf: 1, through_hbm: 1, of_the_outer_loop: 0}[kernel]
    assert int(line) == found.place.line + distance


@nki.jit
def before_it_is_overwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(3):
        tile[:, nl.ds(i * 128, 100)] = nl.exp(tile[:, nl.ds(i * 128 + 64, 100)])  # reads
    nl.store(out, tile)
    return out


def test_overwriting_data_of_another_iteration_is_reported_for_a_loaded_run_too(tmp_path):
    (found,) = findings_of(before_it_is_overwritten)
    assert "# reads" in line_of(found) and "reads what iteration 1 overwrites at" in found.message
    neuroncore.run(before_it_is_overwritten, X).save(tmp_path / "a.run")
    again = neuroncore.load(tmp_path / "a.run").findings
    assert [one for one in again if one.code == "LOOP_CARRIED_READ"] == [found]


@nki.jit
def in_place(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(4):
        tile[:, nl.ds(i * 128, 128)] = nl.exp(tile[:, nl.ds(i * 128, 128)])
        tile[:, nl.ds(i * 128, 64)] = nl.exp(tile[:, nl.ds(i * 128 + 64, 64)])
    nl.store(out, tile)
    return out


@nki.jit
def in_sequence(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(2):  # the two halves of an iteration run one after another
        for j in nl.sequential_range(1):
            mine = tile[:, nl.ds(i * 256 + j * 128, 128)]
            tile[:, nl.ds(i * 256 + j * 128 + 128, 128)] = nl.exp(mine)
    nl.store(out, tile)
    return out


@nki.jit
def sums(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    total, product = (
        nl.zeros((128, 128), nl.float32),
        nl.zeros((128, 128), nl.float32, buffer=nl.psum),
    )
    for i in nl.affine_range(4):
        part = nl.load(x[:, nl.ds(i * 128, 128)])
        total += part
        product += nl.matmul(part, part, transpose_x=True)
    nl.store(out, total + product)
    return out


@nki.jit
def filled_when_first_read(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    zeros = nl.zeros((128, 128), nl.float32)
    for i in nl.affine_range(4):
        part = nl.load(x[:, nl.ds(i * 128, 128)])
        nl.store(out[:, nl.ds(i * 128, 128)], part + zeros)
    return out


@nki.jit
def folded(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        part = nl.load(x[:, nl.ds(i * 128, 128)])
        total = nl.loop_reduce(part, op=np.add, loop_indices=[i])
    nl.store(out, total)
    return out


@nki.jit
def repeated_rows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.load(x[0:1, 0:128])
    for i in nl.affine_range(4):
        part = nl.load(x[:, nl.ds(i * 128, 128)])
        nl.store(out[:, nl.ds(i * 128, 128)], part * row.broadcast_to((128, 128)))
    return out


@nki.jit
def after_the_loop(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype)
    for i in nl.affine_range(4):
        tile[:, nl.ds(i * 128, 128)] = nl.load(x[:, nl.ds(i * 128, 128)])
    for i in nl.affine_range(4):
        nl.store(out[:, nl.ds(i * 128, 128)], tile[:, nl.ds(384 - i * 128, 128)])
    return out


LEGAL = in_place, in_sequence, sums, filled_when_first_read, folded, repeated_rows, after_the_loop


@for_all("kernel", LEGAL)
def test_independent_iterations_have_no_finding(kernel):
    assert not findings_of(kernel)


# --- other orders ---------------------------------------------------------------------------------

CARRIED = within_sbuf, through_hbm, of_the_outer_loop, before_it_is_overwritten


@pytest.mark.parametrize("kernel", CARRIED)
def test_other_orders_of_iterations_name_two_lines_that_depend(kernel, tmp_path):
    neuroncore.run(kernel, X).save(tmp_path / "a.run")
    for run in (neuroncore.run(kernel, X), neuroncore.load(tmp_path / "a.run")):
        found = run.orders(3)
        assert found.finding.code == "ORDER_MATTERS" and found.iterations.tried == 1
        carried = findings_of(kernel)[0]
        assert found.finding.place.line in (carried.place.line, int(carried.message[-2:]))
        assert str(carried.place.short) in found.finding.message
        assert "the bits differ" in str(found) and "affine_range" in found.finding.because


@for_all("kernel", LEGAL)
def test_independent_iterations_have_the_same_bits_in_other_orders(kernel):
    found = neuroncore.run(kernel, X).orders(3)
    assert found.finding is None and (found.tried, found.iterations.tried) == (0, 3)
    assert found.iterations.moved == found.iterations.among >= 2
    assert "in 3 other orders of iterations" in str(found)


@nki.jit
def by_turns(x):
    out = nl.ndarray((512, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        for j in nl.affine_range(2):
            at = i * 256 + j * 128
            part = nl.load(x[:, nl.ds(at, 128)])
            product = nl.zeros((128, 128), nl.float32, buffer=nl.psum)
            for _ in nl.affine_range(3):
                product += nl.matmul(part, part, transpose_x=True)
            nl.store(out[nl.ds(at, 128), :], nl.copy(product))
    return out


def test_outer_iterations_can_be_reordered_around_the_sum_of_an_inner_loop():
    run = neuroncore.run(by_turns, X)
    program = run.record.programs[0]
    rows, call = orders.Permutations(program).rows(0), program.columns().call
    assert sorted(rows.tolist()) == list(range(len(program))) and rows[0] > len(program) / 2
    assert (program.permuted(rows).columns().call == call[rows]).all()
    products = [row for row in rows.tolist() if program.calls[call[row]].name == "nc_matmul"]
    assert len(products) == 12 and products[0] > products[3]
    assert [one - products[0] for one in products[:3]] == [0, 1, 2]
    assert run.orders(2).finding is None


def test_loops_that_begin_with_the_kernel_are_distinguished():
    assert not findings_of(by_turns)
    marks = neuroncore.run(by_turns, X).record.programs[0].data.marks()
    assert marks[:3, 0].tolist() == [0, 0, 1] and marks[0, 1] != marks[1, 1]


@nki.jit
def sums_first(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile, total = nl.load(x[:, 0:128]), nl.zeros((128, 128), nl.float32)
    for _ in nl.affine_range(4):
        total += tile
    nl.store(out, total)
    return out


@nki.jit
def with_random_numbers(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[:, nl.ds(i * 128, 128)], nl.rand((128, 128)))
    return out


@pytest.mark.parametrize(
    ("kernel", "why"),
    [(sums_first, "no iterations can change places"), (with_random_numbers, "random")],
)
def test_loops_that_are_not_replayed_are_reported(kernel, why):
    found = neuroncore.run(kernel, X).orders(3)
    assert found.finding is None and found.iterations.tried == 0 and why in str(found)


def test_different_bits_without_two_dependent_instructions_are_a_note(monkeypatch):
    monkeypatch.setattr(orders.Permutations, "swapped", lambda *_: None)
    found = neuroncore.run(within_sbuf, X).orders(1).finding
    assert (found.severity, found.place) == ("note", None) and "elements of result 0" in str(found)
