"""What ranks do together: every operation against numpy, in HBM and SBUF, on one core and two."""

import itertools

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.errors import (
    BufferKindError,
    DeadlockError,
    DtypeError,
    KernelError,
    OperatorError,
    OutOfBoundsError,
    ShapeError,
    SignatureError,
    TargetError,
)
from neuroncore.options import Options

FORMATS = ("float32", "bfloat16", "float16", "float8_e5m2", "int32", "uint8", "int16")


def given(ranks, shape, dtype="float32", seed=0):
    """Small whole numbers, which every format has and adds exactly."""
    rng = np.random.default_rng(seed)
    form = getattr(nl, dtype).numpy
    return [rng.integers(0, 4, shape).astype(form) for _ in range(ranks)]


def in_hbm(shape, dtype, name):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm, name=name)


@nki.jit
def through_hbm(x, shape, call, group, more):
    """What a collective makes of x, copied as the device wants it."""
    src, dst = in_hbm(x.shape, x.dtype, "src"), in_hbm(shape, x.dtype, "dst")
    out = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    call([src], [dst], group, **more)
    nisa.dma_copy(dst=out, src=dst)
    return out


@nki.jit
def through_sbuf(x, shape, call, group, more):
    src, dst = (nl.ndarray(s, x.dtype, buffer=nl.sbuf) for s in (x.shape, shape))
    out = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    call([src], [dst], group, **more)
    nisa.dma_copy(dst=out, src=dst)
    return out


def ran(kernel, arrays, shape, call, groups, lnc=1, options=None, target=None, **more):
    group = groups if call is ncc.collective_permute else ReplicaGroup(groups)
    per_rank = [(x, shape, call, group, more) for x in arrays]
    run = neuroncore.run(kernel, per_rank=per_rank, lnc=lnc, options=options, target=target)
    assert not [found for found in run.findings if found.severity != "note"]
    assert all(map(same, run.replay(), run.results))
    return run.results


def same(got, want):
    return got.dtype == want.dtype and got.tobytes() == np.ascontiguousarray(want).tobytes()


ALL = [[0, 1, 2, 3]]
TWO = [[0, 2], [3, 1]]
OPERATORS = {nl.add: np.add, nl.minimum: np.minimum, nl.maximum: np.maximum}


def joined(op, arrays):
    exact = arrays[0].astype(np.float64)
    for x in arrays[1:]:
        exact = OPERATORS[op](exact, x.astype(np.float64))
    return exact.astype(arrays[0].dtype)


def group_of(rank, groups):
    return next(ranks for ranks in groups if rank in ranks)


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


# --- lengths of run time --------------------------------------------------------------------------


@nki.jit
def with_lengths(x, metadata, size, call, group, known, displaced):
    src, dst = in_hbm(x.shape, x.dtype, "src"), in_hbm((size,), x.dtype, "dst")
    rows = in_hbm(metadata.shape, nl.uint32, "rows")
    out, told = in_hbm((size,), x.dtype, "out"), in_hbm(metadata.shape, nl.uint32, "told")
    nisa.dma_copy(dst=src, src=x)
    nisa.dma_copy(dst=rows, src=metadata)
    zeros = nl.ndarray((1, size), x.dtype)
    nisa.memset(zeros, 0)
    nisa.dma_copy(dst=dst.reshape((1, size)), src=zeros)
    call([src], [dst], group, rows, recv_counts_known=known, has_rdispls=displaced)
    nisa.dma_copy(dst=out, src=dst)
    nisa.dma_copy(dst=told, src=rows)
    return out, told


def lengths(call, arrays, rows, size, groups, known=False, displaced=False, target=None):
    group = ReplicaGroup(groups)
    per_rank = [
        (x, r, size, call, group, known, displaced) for x, r in zip(arrays, rows, strict=True)
    ]
    return neuroncore.run(with_lengths, per_rank=per_rank, lnc=2, target=target)


@pytest.mark.parametrize("known", [False, True])
def test_a_gather_of_lengths_known_at_run_time(known):
    arrays = [np.arange(10, dtype=np.float32) + 100 * rank for rank in range(4)]
    counts, begins = (3, 0, 5, 1), (2, 9, 5, 0)
    rows = [np.zeros((3, 4), np.uint32) + 9 for _ in range(4)]
    for rank in range(4):
        rows[rank][:2, 0] = counts[rank], begins[rank]
    run = lengths(ncc.all_gather_v, arrays, rows, 20, ALL, known)
    want = np.zeros(20, np.float32)
    for rank, (count, begin) in enumerate(zip(counts, begins, strict=True)):
        want[5 * rank : 5 * rank + count] = arrays[rank][begin : begin + count]
    for (got, told), own in zip(run.results, rows, strict=True):
        assert same(got, want)
        assert told[2].tolist() == ([9] * 4 if known else list(counts))
        assert same(told[:2], own[:2])
    for (got, told), (again, told_again) in zip(run.results, run.replay(), strict=True):
        assert same(again, got) and same(told_again, told)


def test_an_exchange_of_lengths_known_at_run_time():
    """Between servers, as trn2 has it: ranks 0, 64 and so on would be many; behind trn3's switches
    whole chips do."""
    ranks = range(8)
    arrays = [np.arange(64, dtype=np.float32) + 100 * rank for rank in ranks]
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (8, 8))
    rows = [np.zeros((3, 8), np.uint32) for _ in ranks]
    for rank in ranks:
        rows[rank][0], rows[rank][1] = counts[rank], np.arange(8) * 8
    run = lengths(ncc.all_to_all_v, arrays, rows, 8 * 9, [[*ranks]], target="trn3")
    for rank, (got, told) in enumerate(run.results):
        want = np.zeros(72, np.float32)
        for other in ranks:
            count = counts[other, rank]
            want[9 * other : 9 * other + count] = arrays[other][8 * rank : 8 * rank + count]
        assert same(got, want) and told[2].tolist() == counts[:, rank].tolist()


def test_places_that_the_receiver_says():
    arrays = [np.arange(16, dtype=np.float32) + 100 * rank for rank in range(8)]
    rows = [np.zeros((4, 8), np.uint32) for _ in range(8)]
    for own in rows:
        own[0], own[1], own[3] = 2, np.arange(8) * 2, np.arange(8)[::-1] * 2
    run = lengths(ncc.all_to_all_v, arrays, rows, 16, [[*range(8)]], displaced=True, target="trn3")
    for rank, (got, _) in enumerate(run.results):
        want = np.concatenate([arrays[o][2 * rank : 2 * rank + 2] for o in reversed(range(8))])
        assert same(got, want)


@pytest.mark.parametrize(
    ("count", "begin", "why"), [(6, 0, "more than rank 0 has room for"), (2, 9, "beyond its src")]
)
def test_lengths_that_have_no_room(count, begin, why):
    arrays = given(4, (10,))
    rows = [np.zeros((3, 4), np.uint32) for _ in range(4)]
    rows[2][:2, 0] = count, begin
    with pytest.raises(OutOfBoundsError, match=f"rank 2 sends .*{why}"):
        lengths(ncc.all_gather_v, arrays, rows, 20, ALL)


# --- rounding -------------------------------------------------------------------------------------


def bfloat16(x):
    return x.astype(nl.bfloat16.numpy).astype(np.float32)


def chained(arrays):
    total = arrays[0]
    for x in arrays[1:]:
        total = total + x
    return total


def ringed(arrays):
    """Piece p starts at rank p + 1 and is rounded at each hop."""
    n = len(arrays)
    flat = [np.array_split(x.ravel(), n) for x in arrays]
    pieces = []
    for p in range(n):
        total = flat[(p + 1) % n][p]
        for hop in range(1, n):
            total = bfloat16(total + flat[(p + 1 + hop) % n][p])
        pieces.append(total)
    return np.concatenate(pieces).reshape(arrays[0].shape)


def meshed(arrays):
    """The ranks of each chip, rounded, and then the chips."""
    chips = [bfloat16(chained(arrays[at : at + 8])) for at in range(0, len(arrays), 8)]
    return chained(chips)


MODELS = {"chain": chained, "ring": ringed, "mesh": meshed}


@pytest.mark.parametrize("way", MODELS)
def test_where_sums_are_rounded_is_an_option(way):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((32, 5)).astype(nl.bfloat16.numpy) for _ in range(16)]
    options, group = Options(collective_rounding=way), [[*range(16)]]
    want = MODELS[way]([x.astype(np.float32) for x in arrays]).astype(nl.bfloat16.numpy)
    for kernel in (through_hbm, through_sbuf):
        for got in ran(kernel, arrays, (32, 5), ncc.all_reduce, group, options=options, op=nl.add):
            assert same(got, want)
        pieces = ran(
            kernel, arrays, (2, 5), ncc.reduce_scatter, group, options=options,
            collective_dim=0, op=nl.add,
        )  # fmt: skip
        assert same(np.concatenate(pieces), want)


def test_the_ways_differ():
    rng = np.random.default_rng(0)
    arrays = [bfloat16(rng.standard_normal((32, 5))) for _ in range(16)]
    found = [bfloat16(model(arrays)).tobytes() for model in MODELS.values()]
    assert all(a != b for a, b in itertools.combinations(found, 2))


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_stochastic_rounding_gives_all_ranks_the_same_bits_in_whatever_turns(turns):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((8, 5)).astype(nl.bfloat16.numpy) for _ in range(4)]
    options = Options(stochastic=True, turns=turns)
    usual = Options(stochastic=True)
    for kernel, lnc in ((through_hbm, 1), (through_hbm, 2), (through_sbuf, 1)):
        got, want = (
            ran(kernel, arrays, (8, 5), ncc.all_reduce, ALL, lnc, options=o, op=nl.add)
            for o in (options, usual)
        )
        assert all(same(one, want[0]) for one in got)


def test_integers_that_float32_lacks_are_told():
    arrays = [np.full((2, 2), (1 << 24) + rank, np.int32) for rank in range(2)]
    per_rank = [(x, (2, 2), ncc.all_reduce, ReplicaGroup([[0, 1]]), {"op": nl.add}) for x in arrays]
    run = neuroncore.run(through_hbm, per_rank=per_rank)
    assert {found.code for found in run.findings} == {"INTEGER_SUM"}


# --- precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["all_reduce", "all_gather"])
def test_float64_sees_through(call):
    """The error comes from the line that rounds to bfloat16, on whichever rank."""

    @nki.jit
    def rounded(x, group):
        n = 4 if call == "all_gather" else 1
        tile = nl.load(x)
        narrow = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_scalar(narrow, tile, nl.multiply, 1.1)
        wide = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(wide, narrow)
        dst = nl.ndarray((x.shape[0], n * x.shape[1]), nl.float32, buffer=nl.sbuf)
        if call == "all_gather":
            ncc.all_gather([wide], [dst], group, 1)
        else:
            ncc.all_reduce([wide], [dst], group, nl.add)
        out = nl.ndarray(dst.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, dst)
        return out

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((8, 16)).astype(np.float32) for _ in range(4)]
    per_rank = [(x, ReplicaGroup(ALL)) for x in arrays]
    run = neuroncore.run(rounded, per_rank=per_rank, options=Options(precision=True))
    plain = neuroncore.run(rounded, per_rank=per_rank)
    assert all(map(same, run.results, plain.results))
    exact = [np.float64(x) * 1.1 for x in arrays]
    want = np.concatenate(exact, 1) if call == "all_gather" else np.sum(exact, 0)
    assert run.precision is not None
    for result, got in zip(run.precision.results, run.results, strict=True):
        np.testing.assert_allclose(result.exact, want, rtol=1e-12)
        error = np.sqrt(((got - want) ** 2).sum() / (want**2).sum())
        assert result.rel_l2 == pytest.approx(error, rel=1e-6) and error > 1e-4
    shares = {line.place.text.strip()[:18]: line.share for line in run.precision.lines}
    assert shares["nisa.tensor_scalar"] > 0.99


# --- what is refused ------------------------------------------------------------------------------


def refused(kind, why, kernel, arrays, shape, call, groups, **more):
    with pytest.raises(kind, match=why):
        ran(kernel, arrays, shape, call, groups, **more)


X4 = [np.ones((4, 2), np.float32)] * 4


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([[0, 1], [1, 2, 3]], "no rank is in it twice"),
        ([[0, 1, 2, 3], []], "no list is empty"),
        ([[0, 1, 2, 4]], "the replica group has rank 4"),
        ([[0, 1, 2]], "the replica group lacks rank 3, which calls it"),
    ],
)
def test_groups_that_there_are_not(groups, why):
    refused(SignatureError, why, through_hbm, X4, (4, 2), ncc.all_reduce, groups, op=nl.add)


def test_other_things_that_are_refused():
    reduce = (ncc.all_reduce, ALL)
    refused(ShapeError, "as many elements", through_hbm, X4, (4, 3), *reduce, op=nl.add)
    refused(OperatorError, "not an operator", through_hbm, X4, (4, 2), *reduce, op=nl.multiply)
    refused(TargetError, "priority", through_hbm, X4, (4, 2), *reduce, op=nl.add, priority=1)
    ran(through_hbm, X4, (4, 2), *reduce, op=nl.add, priority=1, target="trn3")
    refused(
        SignatureError, "priority is 4", through_hbm, X4, (4, 2), *reduce, op=nl.add, priority=4,
        target="trn3",
    )  # fmt: skip
    gather = (ncc.all_gather, ALL)
    refused(ShapeError, "collective_dim is 1", through_hbm, X4, (4, 8), *gather, collective_dim=1)
    refused(
        ShapeError, "as many times its src", through_sbuf, X4, (4, 8), *gather, collective_dim=0
    )
    refused(
        SignatureError, "as long as each other", through_hbm, X4, (8, 2), ncc.all_gather,
        [[0, 1], [2, 3, 4]], collective_dim=0,
    )  # fmt: skip
    scatter = {"collective_dim": 1, "op": nl.add}
    refused(ShapeError, "is 1", through_hbm, X4, (4, 2), ncc.reduce_scatter, ALL, **scatter)
    refused(
        BufferKindError, "must be in hbm", through_sbuf, X4, (4, 2), ncc.all_to_all, ALL,
        collective_dim=0,
    )  # fmt: skip
    refused(
        SignatureError, "whole chips, of 8 ranks", through_hbm, X4, (4, 2), ncc.all_to_all, ALL,
        collective_dim=0,
    )  # fmt: skip
    refused(
        BufferKindError, "must be in hbm", through_sbuf, X4, (4, 2), ncc.collective_permute,
        [[0, 1], [1, 0]],
    )  # fmt: skip
    refused(
        SignatureError, "twice on one side", through_hbm, X4, (4, 2), ncc.collective_permute,
        [[0, 1], [2, 1]],
    )  # fmt: skip


def test_four_ranks_of_trn1_are_neighbours():
    arrays = [np.ones((4, 2), np.float32)] * 8
    apart, near = ([[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 1, 2, 3], [4, 5, 6, 7]])
    given = {"op": nl.add, "target": "trn1"}
    ran(through_hbm, arrays, (4, 2), ncc.all_reduce, near, **given)
    refused(
        SignatureError,
        "not of adjacent",
        through_hbm,
        arrays,
        (4, 2),
        ncc.all_reduce,
        apart,
        **given,
    )


@pytest.mark.parametrize(
    ("srcs", "dsts", "kind", "why"),
    [
        ("s", "h", BufferKindError, "all tensors are in hbm, or all in sbuf"),
        ("ss", "ss", BufferKindError, "several tensors are in hbm"),
        ("h", "hh", SignatureError, "a dst for each src"),
        ("", "", SignatureError, "a dst for each src"),
        ("h", "b", DtypeError, "one format"),
        ("x", "h", BufferKindError, "is an argument of the kernel"),
        ("3", "3", ShapeError, "one free axis"),
        ("p", "p", BufferKindError, "must be in hbm or sbuf, not in psum"),
    ],
)
def test_tensors_that_are_refused(srcs, dsts, kind, why):
    @nki.jit
    def some(x, group):
        made = {
            "s": nl.ndarray((4, 2), x.dtype, buffer=nl.sbuf),
            "h": in_hbm((4, 2), x.dtype, "h"),
            "b": in_hbm((4, 2), nl.bfloat16, "b"),
            "3": nl.ndarray((4, 2, 1), x.dtype, buffer=nl.sbuf),
            "p": nl.ndarray((4, 2), nl.float32, buffer=nl.psum),
            "x": x,
        }
        ncc.all_reduce([made[n] for n in srcs], [made[n] for n in dsts], group, nl.add)

    with pytest.raises(kind, match=why):
        neuroncore.run(some, per_rank=[(x, ReplicaGroup([[0, 1]])) for x in X4[:2]])


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


@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ([1], "channels are 0, 1, 2"),
        ([0, 2], "channels are 0, 1, 2"),
        ([0, 1, 2], "has 2 channels"),
    ],
)
def test_channels_that_there_are_not(channels, why):
    @nki.jit
    def some(x, group):
        srcs, dsts = ([[in_hbm((4, 2), x.dtype, f"{n}{c}")] for c in channels] for n in "sd")
        for (src,) in srcs:
            nisa.dma_copy(dst=src, src=x)
        ncc.collective_permute_implicit(srcs, dsts, group, channel_ids=channels)

    with pytest.raises(SignatureError, match=why):
        neuroncore.run(some, per_rank=[(x, ReplicaGroup([[0, 1]])) for x in X4[:2]])


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


# --- who doesn't come -----------------------------------------------------------------------------


def meets(x, rank, calls, group):
    src, dst = in_hbm(x.shape, x.dtype, "src"), in_hbm((len(group.groups[0]) * 4, 2), x.dtype, "d")
    small = in_hbm(x.shape, x.dtype, "small")
    nisa.dma_copy(dst=src, src=x)
    call = calls(rank)
    if call == "reduce":
        ncc.all_reduce([src], [small], group, nl.add)
    elif call == "largest":
        ncc.all_reduce([src], [small], group, nl.maximum)
    elif call == "gather":
        ncc.all_gather([src], [dst], group, 0)


@pytest.mark.parametrize(
    ("calls", "kind", "why"),
    [
        (
            lambda rank: "" if rank == 63 else "reduce", DeadlockError,
            r"ranks 0 to 62 wait for rank 63 at all_reduce \(.*test_collectives.py:\d+\), but "
            "rank 63 has ended",
        ),
        (
            lambda rank: "gather" if rank == 5 else "reduce", DeadlockError,
            r"ranks 0 to 4, 6 to 63 wait for rank 5 at all_reduce \(.*\), but rank 5 waits at "
            r"all_gather \(.*:\d+\); rank 5 waits for ranks 0 to 4, 6 to 63 at all_gather",
        ),
        (
            lambda rank: "largest" if rank == 7 else "reduce", KernelError,
            "all_reduce: rank 7 and rank 0 differ about op",
        ),
    ],
)  # fmt: skip
def test_a_rank_that_does_something_else(calls, kind, why):
    group = ReplicaGroup([[*range(64)]])
    per_rank = [(X4[0], rank, calls, group) for rank in range(64)]
    with pytest.raises(kind, match=why):
        neuroncore.run(meets, per_rank=per_rank)


def test_groups_that_do_not_match():
    def groups(rank):
        return ReplicaGroup([[0, 1], [2, 3]] if rank == 0 else [[0, 1, 2, 3]])

    per_rank = [(x, rank, lambda _: "reduce", groups(rank)) for rank, x in enumerate(X4)]
    with pytest.raises(DeadlockError, match="rank 0 waits for rank 1 at all_reduce"):
        neuroncore.run(meets, per_rank=per_rank)
    per_rank = [
        (x, rank, lambda _: "reduce", ReplicaGroup([[0, 1, 2, 3] if rank else [1, 0, 2, 3]]))
        for rank, x in enumerate(X4)
    ]
    with pytest.raises(KernelError, match="differ about replica_group"):
        neuroncore.run(meets, per_rank=per_rank)


def test_a_rank_is_in_sixteen_groups_at_most():
    @nki.jit
    def many(x, rank, count):
        src, dst = (in_hbm(x.shape, x.dtype, n) for n in ("src", "dst"))
        nisa.dma_copy(dst=src, src=x)
        for k in range(count):
            ranks = [r for r in range(32) if r < k + 2]
            if rank in ranks:
                ncc.all_reduce([src], [dst], ReplicaGroup([ranks]), nl.add)

    per_rank = [(X4[0], rank, 16) for rank in range(32)]
    neuroncore.run(many, per_rank=per_rank)
    with pytest.raises(SignatureError, match="in more than 16 replica groups"):
        neuroncore.run(many, per_rank=[(x, rank, 17) for x, rank, _ in per_rank])


def test_on_one_rank_a_collective_is_a_copy():
    x = np.ones((4, 2), np.float32)
    result = through_hbm(x, (4, 2), ncc.all_reduce, ReplicaGroup([[0]]), {"op": nl.add})
    assert same(result, x)
    with pytest.raises(SignatureError, match="the kernel runs on 1 ranks"):
        through_hbm(x, (4, 2), ncc.all_reduce, ReplicaGroup([[0, 1]]), {"op": nl.add})


@pytest.mark.parametrize(
    ("call", "ranks", "group", "target", "displaced", "why"),
    [
        (ncc.all_gather_v, 4, [[0, 1], [2, 3]], None, False, "ranks of one chip"),
        (ncc.all_gather_v, 8, [[0, 1, 4, 5], [2, 3, 6, 7]], None, False, "ranks of one chip"),
        (ncc.all_gather_v, 4, ALL, None, True, "ranks of one chip"),
        (ncc.all_to_all_v, 4, ALL, None, False, "same place in different servers"),
        (ncc.all_to_all_v, 4, ALL, "trn3", False, "several whole chips"),
        (ncc.all_to_all_v, 8, [[0, 1, 2, 4], [3, 5, 6, 7]], "trn3", False, "several whole chips"),
    ],
)
def test_groups_that_lengths_of_run_time_have_not(call, ranks, group, target, displaced, why):
    arrays, n = [np.ones(16, np.float32)] * ranks, len(group[0])
    rows = [np.zeros((4 if displaced else 3, n), np.uint32)] * ranks
    with pytest.raises(SignatureError, match=why):
        lengths(call, arrays, rows, 16, group, displaced=displaced, target=target)
