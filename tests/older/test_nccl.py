"""neuronxcc.nki.nccl: collectives of the older API, in the form of AWS's contributed kernels."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.nccl as nccl
import numpy as np
import pytest
from neuronxcc.nki._private.private_api import cc_div
from neuronxcc.nki.nccl.collectives import collective_permute_implicit

import neuroncore
from neuroncore.base.errors import SignatureError, UsageError
from neuroncore.report.collectives import operations

ALL = [[0, 1, 2, 3]]
CALLS = {
    "all_reduce": lambda src, dst: nccl.all_reduce(
        op=np.add, srcs=[src], dsts=[dst], replica_groups=ALL, dtype=src.dtype
    ),
    "all_gather": lambda src, dst: nccl.all_gather(
        op=np.add, srcs=[src], dsts=[dst], replica_groups=ALL, all_gather_dim=1, dtype=src.dtype
    ),
    "reduce_scatter": lambda src, dst: nccl.reduce_scatter(
        op=np.add, srcs=[src], dsts=[dst], replica_groups=ALL, reduce_scatter_dim=1, dtype=src.dtype
    ),
    "collective_permute": lambda src, dst: nccl.collective_permute(
        dst=dst, src=src, source_target_pairs=[(0, 1), (1, 2), (2, 3), (3, 0)]
    ),
    "implicit": lambda src, dst: collective_permute_implicit(
        dst=dst, src=src, replica_groups=ALL, channel_id=1, num_channels=2
    ),
}
SHAPES = {"all_gather": (3, 32), "reduce_scatter": (3, 2)}


@nki.jit
def through(x, name):
    shape = SHAPES.get(name, x.shape)
    src = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    dst = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(src, nl.load(x) * 2)
    CALLS[name](src, dst)
    nl.store(out, nl.load(dst))
    return out


def expected(name, arrays, rank):
    if name == "all_reduce":
        return sum(arrays)
    if name == "all_gather":
        return np.concatenate(arrays, 1)
    if name == "reduce_scatter":
        return np.split(sum(arrays), 4, 1)[rank]
    return arrays[rank - 1]


@pytest.mark.parametrize("name", CALLS)
def test_collectives_of_the_older_api_equal_the_current_ones(name):
    arrays = [np.arange(24, dtype=np.float32).reshape(3, 8) + rank for rank in range(4)]
    run = neuroncore.run(through, per_rank=[(x, name) for x in arrays])
    for results in (run.results, run.replay()):
        for rank, got in enumerate(results):
            np.testing.assert_array_equal(got, expected(name, [2 * x for x in arrays], rank))


@pytest.mark.parametrize("rings", [0, 1])
def test_collective_matmul_passes_the_rank_of_the_current_data(rings):
    """Each rank multiplies the data that arrives by its matrix, in pieces for each channel, like
    AWS's contributed kernel; with a mask that is False, no data is moved."""
    ranks, channels, rows, inner = 4, 2, 6, 5
    each = rows // channels

    @nki.jit
    def matmul(x, w):
        out = nl.ndarray((ranks, channels, each, w.shape[1]), x.dtype, buffer=nl.shared_hbm)
        held = [
            [nl.ndarray((each, inner), x.dtype, buffer=nl.shared_hbm) for _ in range(channels)]
            for _ in range(2)
        ]
        right = nl.load(w)
        for c in range(channels):
            nl.store(held[0][c], nl.load(x[c * each : (c + 1) * each]))
        for step in range(ranks):
            now, then = held[step % 2], held[(step + 1) % 2]
            for c in range(channels):
                product = nl.matmul(nl.load(now[c]), right)
                nl.store(out[cc_div(step * channels + c, channels, ALL), c], product)
                collective_permute_implicit(
                    dst=then[c], src=now[c], replica_groups=ALL, channel_id=c,
                    num_channels=channels, mask=step + 1 < ranks,
                )  # fmt: skip
        return out

    rng = np.random.default_rng(0)
    xs, ws = (rng.integers(0, 4, (4, *s)).astype(np.float32) for s in ((rows, inner), (inner, 3)))
    options = neuroncore.Options(rings=rings)
    run = neuroncore.run(matmul, per_rank=list(zip(xs, ws, strict=True)), options=options)
    for got, w in zip(run.results, ws, strict=True):
        np.testing.assert_array_equal(got.reshape(ranks * rows, 3), np.concatenate(xs) @ w)
    assert len(operations(run.timelines)) == channels * (ranks - 1)


def test_wrong_collectives_are_refused():
    x = np.ones((3, 8), np.float32)
    with pytest.raises(
        UsageError, match="the kernel's grid needs 1 core, but with lnc=2 a rank has 2 cores"
    ):
        neuroncore.run(through, per_rank=[(x, "all_reduce")] * 4, lnc=2)
    with pytest.raises(SignatureError, match="replica_group has rank 2"):
        neuroncore.run(through, per_rank=[(x, "all_reduce")] * 2)

    @nki.jit
    def elsewhere(x):
        dst = nl.ndarray((3, 32), x.dtype, buffer=nl.shared_hbm)
        nccl.all_gather(op=np.add, srcs=[x], dsts=[dst], replica_groups=ALL, all_gather_dim=2)
        return dst

    with pytest.raises(SignatureError, match="all_gather_dim is 2"):
        neuroncore.run(elsewhere, per_rank=[(x,)] * 4)
