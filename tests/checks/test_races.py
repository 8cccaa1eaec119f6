"""Races: cores and programs that use the same bytes without a synchronization between the accesses,
and programs without races."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.checks.races import HappensBefore

ROWS, COLUMNS = 64, 33


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((2 * ROWS, COLUMNS)).astype(np.float32)


def shared(x, rows=None):
    return nl.ndarray((rows or x.shape[0], *x.shape[1:]), x.dtype, buffer=nl.shared_hbm)


def part(x, core):
    return x[nl.ds(core * ROWS, ROWS)]


def raced(kernel, *arguments, target="trn2"):
    """(severity, line in its function, text) of each race of two programs."""
    run = neuroncore.run(kernel[2], *arguments, target=target)
    first = kernel.__wrapped__.__code__.co_firstlineno
    found = [one for one in run.findings if one.code == "RACE"]
    return [(one.severity, one.place.line - first, one.message) for one in found]


# --- races ----------------------------------------------------------------------------------------


@nki.jit
def zeros_then_parts(x):
    """Both cores fill all of the output, like in the test test_folded_load_store_dst_batch of
    nki-library."""
    core, out = nl.program_id(0), shared(x)
    zeros = nl.zeros(x.shape, x.dtype)
    nisa.dma_copy(dst=out, src=zeros)
    nisa.dma_copy(dst=part(out, core), src=nl.load(part(x, core)))
    return out


def test_filling_all_of_an_output_on_both_cores_is_reported_with_both_lines(x):
    (same, *_), (other, line, text) = sorted(raced(zeros_then_parts, x))
    assert (same, other, line) == ("note", "warning", 7)
    assert "core 0 writes at test_races.py:" in text and "core 1 writes" in text


@nki.jit
def exchanged(x, barriers):
    core, middle, out = nl.program_id(0), shared(x), shared(x)
    nisa.dma_copy(dst=part(middle, core), src=part(x, core))
    if barriers > 0:
        nisa.core_barrier(middle, (0, 1))
    other = nl.load(part(middle, 1 - core))
    if barriers > 1:
        nisa.core_barrier(middle, (0, 1))
    nisa.dma_copy(dst=part(middle, core), src=nl.add(other, 1.0))
    nl.store(part(out, core), other)
    return out


@pytest.mark.parametrize(("barriers", "races"), [(0, 1), (1, 1), (2, 0)])
def test_an_exchange_needs_a_barrier_after_the_write_and_after_the_read(x, barriers, races):
    assert len(raced(exchanged, x, barriers)) == races


@nki.jit
def each_writes_its_own_number(x):
    core, out = nl.program_id(0), shared(x, ROWS)
    nl.store(out, nl.load(part(x, core)))
    return out


def test_two_writes_of_a_whole_tensor_from_one_line_are_a_note(x):
    ((severity, line, _),) = raced(each_writes_its_own_number, x)
    assert (severity, line) == ("note", 3)


def test_programs_that_cannot_synchronize_are_unordered(x):
    """The programs of a grid without logical cores of two run on one core each."""
    assert [one[:2] for one in raced(zeros_then_parts, x, target="trn1")] == [
        ("note", 6),
        ("warning", 7),
    ]


# --- programs without a race ----------------------------------------------------------------------


@nki.jit
def halves_by_rows(x):
    core, out = nl.program_id(0), shared(x)
    nl.store(part(out, core), nl.load(part(x, core)))
    return out


@nki.jit
def halves_by_columns(x):
    core, out, half = nl.program_id(0), shared(x), x.shape[1] // 2
    columns = nl.ds(core * half, half)
    nl.store(out[:, columns], nl.load(x[:, columns]))
    nl.store(
        out[core * ROWS : core * ROWS + ROWS, 2 * half :], nl.load(part(x, core)[:, 2 * half :])
    )
    return out


@nki.jit
def every_second_row(x):
    core, out = nl.program_id(0), shared(x)
    nl.store(out[core::2], nl.load(x[core::2]))
    return out


@nki.jit
def every_second_element(x):
    core, out = nl.program_id(0), shared(x)
    nl.store(out[:, core::2], nl.load(x[:, core::2]))
    return out


@nki.jit
def by_heads(x):
    """Both cores use parts of a tensor of three axes, whose bytes interleave."""
    core, heads = nl.program_id(0), x.reshape((ROWS, 2, COLUMNS))
    out = nl.ndarray(heads.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out[:, core], nl.load(heads[:, core]))
    return out


@nki.jit
def diagonal_blocks(x):
    core, out = nl.program_id(0), shared(x)
    mine = nl.load(part(x, core))
    for i in range(2):
        columns = nl.ds(16 * ((i + core) % 2), 16)
        nl.store(out[nl.ds(core * ROWS, ROWS), columns], mine[:, columns])
    nl.store(part(out, core)[:, 32:], mine[:, 32:])
    return out


@nki.jit
def private_scratch(x):
    core, out = nl.program_id(0), shared(x)
    scratch = nl.ndarray((ROWS, COLUMNS), x.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=scratch, src=part(x, core))
    nl.store(part(out, core), nl.load(scratch))
    return out


@nki.jit
def exchanged_tiles(x):
    core, out = nl.program_id(0), shared(x)
    mine = nl.load(part(x, core))
    other = nl.ndarray(mine.shape, mine.dtype)
    nisa.sendrecv(mine, other, 1 - core, 1 - core, pipe_id=0)
    nl.store(part(out, 1 - core), other)
    return out


@nki.jit
def ordered_by_an_exchange(x):
    """The sendrecv orders everything that the other core did before it."""
    core, middle, out = nl.program_id(0), shared(x), shared(x)
    nisa.dma_copy(dst=part(middle, core), src=part(x, core))
    mine, other = nl.zeros((1, 8), nl.float32), nl.ndarray((1, 8), nl.float32)
    nisa.sendrecv(mine, other, 1 - core, 1 - core, pipe_id=0)
    nl.store(part(out, core), nl.load(part(middle, 1 - core)))
    return out


@nki.jit
def back_and_forth(x):
    core, middle, out = nl.program_id(0), shared(x), shared(x)
    tile = nl.load(part(x, core))
    for _ in range(3):
        nl.store(part(middle, core), tile)
        nisa.core_barrier(middle, (0, 1))
        tile = nl.load(part(middle, 1 - core))
        nisa.core_barrier(middle, (0, 1))
    nl.store(part(out, core), tile)
    return out


@nki.jit
def one_writes_both_read(x):
    core, middle, out = nl.program_id(0), shared(x), shared(x)
    if core == 0:
        nisa.dma_copy(dst=middle, src=x)
    nisa.core_barrier(middle, (0, 1))
    nl.store(part(out, core), nl.load(part(middle, 1 - core)))
    return out


FINE = (
    *(halves_by_rows, halves_by_columns, every_second_row, every_second_element, by_heads),
    *(diagonal_blocks, private_scratch, exchanged_tiles, ordered_by_an_exchange, back_and_forth),
    one_writes_both_read,
)

# Kernels of nki-library 2.29 on two cores, without races (bench/conformance/nki_library.py).
OF_NKI_LIBRARY = (
    "embeddings/test_rope.py::TestRopeKernel::test_rope_fast[64-1-1-16-True-True]",
    "max/test_cascaded_max_utils.py::TestCascadedMaxUtils::"
    "test_folded_load_store_full_batch[lnc-2_b-5_n-512_ff-4]",
    "attention/test_gen_mask_tkg.py::TestGenMaskTkgHbm::"
    "test_active_mask[b-8_qh-8_sc-256_sa-5_bl-0_smm1-1_lnc-2]",
    "subkernels/test_layernorm_tkg.py::TestLayerNormTKGKernel::"
    "test_layernorm_tkg_sweep_shard_on_h[2-1-1-3072-True-float16]",
    "rmsnorm/test_rmsnorm_quant.py::TestRmsNormQuantKernel::"
    "test_rmsnorm_row_quant_sweep[128-1024-1-0.0]",
    "output_projection/test_output_proj_tkg.py::TestOutputProjTkgKernel::"
    "test_output_proj_tkg_fp8_sweep[128-10-8-39-128-False]",
    "output_projection/test_output_proj_cte.py::TestOutputProjCteKernel::"
    "test_output_proj_cte_bf16_unit[b-1_s-128_h-3072_nh-16_dh-10_bias-1]",
    "max/test_cascaded_max.py::TestCascadedMaxKernel::"
    "test_cascaded_max_unit[lnc-2_b-63_s-1_v-3168_dt-float32]",
    "subkernels/test_rmsnorm_tkg.py::TestRmsNormTKGKernel::"
    "test_rmsnorm_tkg_unit[lnc-2_b-63_s-32_h-3072_ha-None_hdtp-0_sh-0_dt-float16]",
)


@pytest.mark.parametrize("kernel", FINE, ids=lambda kernel: kernel.__name__)
def test_separate_or_synchronized_data_is_not_a_race(kernel, x):
    assert raced(kernel, x) == []


def test_twenty_published_kernels_are_named():
    assert len({*FINE, *OF_NKI_LIBRARY}) == 20


# --- other orders ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("barriers", "differs"), [(1, True), (2, False)])
def test_another_order_of_the_cores(x, barriers, differs):
    found = neuroncore.run(exchanged[2], x, barriers).orders(5)
    assert bool(found.finding) == differs
    if differs:
        assert 1 <= found.tried <= 5 and found.reversed >= 1
        assert found.finding.code == "ORDER_MATTERS" and "core 1" in found.finding.message
        first = exchanged.__wrapped__.__code__.co_firstlineno
        assert found.finding.place.line - first == 9
    else:
        assert "nothing can be reordered" in str(found)


@nki.jit
def at_an_index(x, rows, shared_too):
    """Each core writes the 8 rows of the result from rows[core] on."""
    core, out = nl.program_id(0), nl.ndarray((64, x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    tile, row = nl.load(x[:8]), nl.load(rows[core : core + 1].reshape((1, 1)))
    if shared_too:
        nl.store(out[40:48], tile)
    nisa.dma_copy(dst=out.ap([[x.shape[1], 8], [1, x.shape[1]]], scalar_offset=row), src=tile)
    return out


@pytest.mark.parametrize("shared_too", [False, True])
def test_accesses_through_an_index_are_not_called_synchronized(x, shared_too):
    run = neuroncore.run(at_an_index[2], x, np.array([0, 7], np.int32), shared_too)
    told = str(run.orders(2))
    assert "synchronized" not in told and "accesses through an index" in told
    assert ("nothing else can be reordered" in told) != shared_too


def test_an_open_order_without_an_effect_has_no_finding(x):
    found = neuroncore.run(each_writes_its_own_number[2], np.concatenate([x[:ROWS]] * 2)).orders(3)
    assert (found.tried, found.open, found.reversed, found.finding) == (3, 1, 1, None)
    assert "the bits are the same" in str(found)


# --- several ranks --------------------------------------------------------------------------------


@pytest.mark.parametrize(("barriers", "differs"), [(1, True), (2, False)])
def test_another_order_of_the_cores_of_several_ranks(x, barriers, differs, tmp_path):
    run = neuroncore.run(exchanged, per_rank=[(x, barriers), (2 * x, barriers)], lnc=2)
    run.save(tmp_path / "world.run")
    for each in (run, neuroncore.load(tmp_path / "world.run")):
        found = each.orders(5)
        assert bool(found.finding) == differs
        if differs:
            assert found.open >= 2 and " of rank " in found.finding.message
        else:
            assert "nothing can be reordered" in str(found)
    told = [one.message for one in run.findings if one.code == "RACE"]
    assert len(told) == int(differs) and all(one.startswith("rank 0 (core") for one in told)


@nki.jit
def through_another_rank(x, rank, barrier):
    """Core 0 synchronizes with core 0 of rank 1, which synchronizes with core 1 there, which
    synchronizes with core 1 of rank 0."""
    core, middle, out = nl.program_id(0), shared(x), shared(x)
    if core == 0:
        nl.store(part(middle, 0), nl.load(part(x, 0)))
    tile, total = nl.zeros((128, 8), nl.float32), nl.ndarray((128, 8), nl.float32)
    ncc.all_reduce([tile], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
    if rank == barrier:
        nisa.core_barrier(middle, (0, 1))
    ncc.all_reduce([tile], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
    nl.store(part(out, core), nl.load(part(middle, 0)))
    return out


@pytest.mark.parametrize(("barrier", "races"), [(None, 1), (0, 0), (1, 0)])
def test_cores_of_a_rank_are_ordered_through_another_rank(x, barrier, races):
    run = neuroncore.run(through_another_rank, per_rank=[(x, n, barrier) for n in (0, 1)], lnc=2)
    assert sum(one.code == "RACE" for one in run.findings) == races
    assert bool(run.orders(1).open) == bool(races)


# --- happens-before -------------------------------------------------------------------------------


def test_synchronization_is_transitive_over_any_threads():
    """Thread 0 synchronizes with 1, then 1 with 2: accesses of 0 before that precede those of 2,
    although 0 and 2 never synchronized."""
    order = HappensBefore(3, [{0: 4, 1: 2}, {1: 5, 2: 1}])
    assert order.segment(0, np.array([0, 4, 5])).tolist() == [0, 0, 1]
    assert not order.are_concurrent(0, 0, 2, 1)
    assert order.are_concurrent(0, 0, 2, 0) and order.are_concurrent(0, 1, 2, 1)
    assert order.are_concurrent(0, 1, 1, 1) and not order.are_concurrent(0, 0, 1, 1)
    assert not order.are_concurrent(1, 0, 2, 1)
