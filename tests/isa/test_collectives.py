"""Collectives: every operation, in HBM and SBUF, on one core and two."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from collective_worlds import (
    ALL,
    OPERATORS,
    TWO,
    X4,
    agreed,
    given,
    in_hbm,
    ran,
    same,
    through_hbm,
    through_sbuf,
)
from every import for_all
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.base.options import Options

FORMATS = ("float32", "bfloat16", "float16", "float8_e5m2", "int32", "uint8", "int16")


@pytest.mark.parametrize("kernel", [through_hbm, through_sbuf], ids=["hbm", "sbuf"])
@for_all("groups, lnc", [(ALL, 1), (TWO, 1), (TWO, 2)])
def test_all_collectives_on_odd_shapes(kernel, groups, lnc):
    n, arrays = len(groups[0]), given(4, (12, 5))
    for op in OPERATORS:
        ran(kernel, arrays, (12, 5), ncc.all_reduce, groups, lnc, op=op)
    ran(kernel, arrays, (12 * n, 5), ncc.all_gather, groups, lnc, collective_dim=0)
    scattered = {"collective_dim": 0, "op": nl.add}
    ran(kernel, arrays, (12 // n, 5), ncc.reduce_scatter, groups, lnc, **scattered)


@for_all("dtype", FORMATS)
def test_every_format_in_sbuf(dtype):
    arrays = given(4, (7, 3), dtype)
    ran(through_sbuf, arrays, (7, 3), ncc.all_reduce, ALL, op=nl.add)
    ran(through_sbuf, arrays, (7, 12), ncc.all_gather, ALL, collective_dim=1)


@for_all("ranks, lnc", [(4, 2), (8, 1)])
def test_pieces_for_all_ranks(ranks, lnc):
    arrays, group = given(ranks, (ranks * 2, 3), "bfloat16"), [[*range(ranks)]]
    ran(through_hbm, arrays, (ranks * 2, 3), ncc.all_to_all, group, lnc, collective_dim=0)


@for_all("lnc", [1, 2])
def test_permuted_ranks(lnc):
    pairs = [[0, 1], [1, 2], [2, 3], [3, 0]]
    ran(through_hbm, given(4, (3, 2)), (3, 2), ncc.collective_permute, pairs, lnc)


def test_a_rank_that_is_not_a_target_keeps_its_data_and_others_need_not_take_part():
    @nki.jit
    def some(x, rank):
        src, dst, out = (in_hbm(x.shape, x.dtype, n) for n in ("src", "dst", "out"))
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=dst, src=x)
        if rank < 3:
            ncc.collective_permute([src], [dst], [(0, 1), (1, 2)])
        nisa.dma_copy(dst=out, src=dst)
        return out

    arrays = given(4, (3, 2))
    run = neuroncore.run(some, per_rank=[(x, rank) for rank, x in enumerate(arrays)])
    assert all(map(same, run.results, [arrays[0], arrays[0], arrays[1], arrays[3]]))
    agreed(run)
    assert {found.code for found in run.findings} == {"NO_RING"}


# --- rings ----------------------------------------------------------------------------------------


@nki.jit
def around(x, ranks, group, channels, buffer):
    """Gather the x of all ranks by steps of each channel's ring over its part of the columns."""
    each = x.shape[1] // channels
    out = nl.ndarray((ranks, *x.shape), x.dtype, buffer=nl.shared_hbm)
    make = {nl.sbuf: lambda n: nl.ndarray((x.shape[0], each), x.dtype, buffer=nl.sbuf)}.get(
        buffer, lambda n: in_hbm((x.shape[0], each), x.dtype, n)
    )
    held = [[make(f"a{c}"), make(f"b{c}")] for c in range(channels)]
    for c in range(channels):
        nisa.dma_copy(dst=held[c][0], src=x[:, c * each : (c + 1) * each])
    for step in range(ranks):
        now, then = step % 2, (step + 1) % 2
        for c in range(channels):
            whose = ncc.collective_permute_implicit_current_processing_rank_id(step, group, c)
            row = out.ap(
                [[x.shape[1], x.shape[0]], [1, each]],
                offset=c * each, scalar_offset=whose, indirect_dim=0,
            )  # fmt: skip
            nisa.dma_copy(dst=row, src=held[c][now])
        if step < ranks - 1:
            srcs, dsts = ([[held[c][i]] for c in range(channels)] for i in (now, then))
            ncc.collective_permute_implicit(srcs, dsts, group, channel_ids=list(range(channels)))
    return out


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@for_all("rings, turns", [(0, 0), (1, 5), (2, 0), (3, 5)])
def test_a_ring_in_any_order_brings_all_data_to_all_ranks(rings, turns, buffer):
    arrays, group = given(4, (3, 6)), ReplicaGroup(ALL)
    options = Options(rings=rings, turns=turns)
    per_rank = [(x, 4, group, 2, buffer) for x in arrays]
    run = agreed(neuroncore.run(around, per_rank=per_rank, options=options))
    assert all(same(got, np.stack(arrays)) for got in run.results)


def test_a_ring_can_add_at_each_step():
    @nki.jit
    def added(x, y, group):
        a, b, dst, out = (in_hbm(x.shape, x.dtype, n) for n in ("a", "b", "dst", "out"))
        nisa.dma_copy(dst=a, src=x)
        nisa.dma_copy(dst=b, src=y)
        ncc.collective_permute_implicit_reduce([[a]], [[b]], [[dst]], group, nl.maximum)
        nisa.dma_copy(dst=out, src=dst)
        return out

    xs, ys = given(4, (3, 6), seed=1), given(4, (3, 6), seed=2)
    per_rank = [(x, y, ReplicaGroup([[2, 0, 1, 3]])) for x, y in zip(xs, ys, strict=True)]
    agreed(neuroncore.run(added, per_rank=per_rank))


def test_registers_with_the_rank():
    @nki.jit
    def picked(table):
        out = nl.ndarray((1, 3), table.dtype, buffer=nl.shared_hbm)
        rank = ncc.rank_id()
        row = table.ap([[3, 1], [1, 3]], scalar_offset=rank * 2 % 4, indirect_dim=0)
        nisa.dma_copy(dst=out, src=row)
        return out

    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    run = neuroncore.run(picked, per_rank=[(table,)] * 4, lnc=1)
    for results in (run.results, run.replay()):
        assert [int(got[0, 0]) for got in results] == [0, 6, 0, 6]


@pytest.mark.parametrize("form", [np.float32, np.int32])
def test_several_tensors_in_hbm_are_one_operation(form):
    @nki.jit
    def coalesced(x, y, group):
        srcs, dsts, outs = ([in_hbm(t.shape, t.dtype, f"{n}{i}") for i, t in enumerate((x, y))]
                            for n in "sdo")  # fmt: skip
        for src, t in zip(srcs, (x, y), strict=True):
            nisa.dma_copy(dst=src, src=t)
        ncc.all_reduce(srcs, dsts, group, nl.add)
        for out, dst in zip(outs, dsts, strict=True):
            nisa.dma_copy(dst=out, src=dst)
        return tuple(outs)

    xs, ys = given(2, (3, 2)), [y.astype(form) for y in given(2, (5,))]
    per_rank = [(x, y, ReplicaGroup([[0, 1]])) for x, y in zip(xs, ys, strict=True)]
    run = neuroncore.run(coalesced, per_rank=per_rank)
    for a, b in run.results:
        assert same(a, xs[0] + xs[1]) and same(b, ys[0] + ys[1])
    assert run.verify().difference is None and run.estimate.seconds > 0


def test_an_uninitialized_source_is_reported_with_its_rank():
    @nki.jit
    def some(x, rank, group):
        src, dst, out = (in_hbm(x.shape, x.dtype, n) for n in ("src", "dst", "out"))
        if rank != 1:
            nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], group, nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    per_rank = [(x, rank, ReplicaGroup(ALL)) for rank, x in enumerate(X4)]
    run = neuroncore.run(some, per_rank=per_rank)
    found = [one for one in run.findings if one.code == "UNINIT_READ"]
    assert found and "all_reduce" in found[0].place.text


def test_halves_that_two_cores_have_written_are_both_sent():
    @nki.jit
    def halves(x, group):
        core = nl.program_id(0)
        src, dst, out = (in_hbm(x.shape, x.dtype, n) for n in ("src", "dst", "out"))
        mine = slice(2 * core, 2 * core + 2)
        nisa.dma_copy(dst=src[mine], src=x[mine])
        ncc.all_reduce([src], [dst], group, nl.add)
        nisa.dma_copy(dst=out[mine], src=dst[mine])
        return out

    arrays = given(2, (4, 3))
    per_rank = [(x, ReplicaGroup([[0, 1]])) for x in arrays]
    run = neuroncore.run(halves, per_rank=per_rank, lnc=2)
    assert not run.findings and all(same(got, arrays[0] + arrays[1]) for got in run.results)
