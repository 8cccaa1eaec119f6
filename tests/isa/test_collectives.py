"""What ranks do together: every operation against numpy, in HBM and SBUF, on one core and two."""

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
    given,
    group_of,
    in_hbm,
    joined,
    ran,
    same,
    through_hbm,
    through_sbuf,
)
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.base.options import Options

FORMATS = ("float32", "bfloat16", "float16", "float8_e5m2", "int32", "uint8", "int16")


@pytest.mark.parametrize("kernel", [through_hbm, through_sbuf], ids=["hbm", "sbuf"])
@pytest.mark.parametrize("groups", [ALL, TWO], ids=["all", "pairs"])
@pytest.mark.parametrize("lnc", [1, 2])
def test_all_operations_on_odd_shapes(kernel, groups, lnc):
    n = len(groups[0])
    arrays = given(4, (4 * 3, 5))
    gathered, cut = ((12 * n, 5), (12 // n, 5))
    for op in OPERATORS:
        for rank, got in enumerate(
            ran(kernel, arrays, (12, 5), ncc.all_reduce, groups, lnc, op=op)
        ):
            assert same(got, joined(op, [arrays[r] for r in group_of(rank, groups)]))
    for rank, got in enumerate(
        ran(kernel, arrays, gathered, ncc.all_gather, groups, lnc, collective_dim=0)
    ):
        assert same(got, np.concatenate([arrays[r] for r in group_of(rank, groups)]))
    scattered = ran(
        kernel, arrays, cut, ncc.reduce_scatter, groups, lnc, collective_dim=0, op=nl.add
    )
    for rank, got in enumerate(scattered):
        own = group_of(rank, groups)
        whole = joined(nl.add, [arrays[r] for r in own])
        assert same(got, np.split(whole, n)[own.index(rank)])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kernel", [through_hbm, through_sbuf], ids=["hbm", "sbuf"])
def test_every_format(kernel, dtype):
    arrays = given(4, (7, 3), dtype)
    for got in ran(kernel, arrays, (7, 3), ncc.all_reduce, ALL, op=nl.add):
        assert same(got, joined(nl.add, arrays))
    for got in ran(kernel, arrays, (28, 3), ncc.all_gather, ALL, collective_dim=0):
        assert same(got, np.concatenate(arrays))


def test_tiles_are_gathered_along_the_free_axis():
    arrays = given(4, (5, 3))
    for got in ran(through_sbuf, arrays, (5, 12), ncc.all_gather, ALL, collective_dim=1):
        assert same(got, np.concatenate(arrays, 1))


@pytest.mark.parametrize(("ranks", "lnc"), [(4, 2), (8, 1)])
def test_pieces_for_all(ranks, lnc):
    arrays = given(ranks, (ranks * 2, 3), "bfloat16")
    got = ran(
        through_hbm, arrays, (ranks * 2, 3), ncc.all_to_all, [[*range(ranks)]], lnc,
        collective_dim=0,
    )  # fmt: skip
    for rank, one in enumerate(got):
        assert same(one, np.concatenate([x[2 * rank : 2 * rank + 2] for x in arrays]))


@pytest.mark.parametrize("lnc", [1, 2])
def test_permuted(lnc):
    arrays = given(4, (3, 2))
    pairs = [[0, 1], [1, 2], [2, 3], [3, 0]]
    got = ran(through_hbm, arrays, (3, 2), ncc.collective_permute, pairs, lnc)
    assert all(same(one, arrays[rank - 1]) for rank, one in enumerate(got))


def test_who_is_no_target_keeps_what_it_has_and_others_need_not_come():
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
    wanted = [arrays[0], arrays[0], arrays[1], arrays[3]]
    assert all(map(same, run.results, wanted)) and all(map(same, run.replay(), wanted))
    assert {found.code for found in run.findings} == {"NO_RING"}


# --- rings ----------------------------------------------------------------------------------------


@nki.jit
def around(x, ranks, group, channels, buffer):
    """All ranks' x, gathered by steps of each channel's ring over its part of the columns."""
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


@pytest.mark.parametrize("rings", [0, 1, 2, 3])
@pytest.mark.parametrize("turns", [0, 5])
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
def test_a_ring_brings_everything_to_everyone_whatever_its_order(rings, turns, buffer):
    arrays, group = given(4, (3, 6)), ReplicaGroup(ALL)
    options = Options(rings=rings, turns=turns)
    per_rank = [(x, 4, group, 2, buffer) for x in arrays]
    run = neuroncore.run(around, per_rank=per_rank, options=options)
    for got in (*run.results, *run.replay()):
        assert same(got, np.stack(arrays))


def test_a_ring_that_adds_on_its_way():
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
    run = neuroncore.run(added, per_rank=per_rank)
    before = {0: 2, 1: 0, 3: 1, 2: 3}
    for rank, got in enumerate(run.results):
        assert same(got, np.maximum(xs[before[rank]], ys[before[rank]]))


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


def test_several_tensors_in_hbm_are_one_operation():
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

    xs, ys = given(2, (3, 2)), given(2, (5,))
    per_rank = [(x, y, ReplicaGroup([[0, 1]])) for x, y in zip(xs, ys, strict=True)]
    for a, b in neuroncore.run(coalesced, per_rank=per_rank).results:
        assert same(a, xs[0] + xs[1]) and same(b, ys[0] + ys[1])


def test_a_source_that_nothing_has_written_is_told_of_its_rank():
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


def test_halves_that_two_cores_have_written_are_both_there():
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
