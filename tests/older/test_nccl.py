"""neuronxcc.nki.nccl: collectives of the older API, as AWS's contributed kernels call them."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.nccl as nccl
import numpy as np
import pytest
from neuronxcc.nki.nccl.collectives import collective_permute_implicit

import neuroncore
from neuroncore.errors import SignatureError, UsageError

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
def test_they_are_the_collectives_of_today(name):
    arrays = [np.arange(24, dtype=np.float32).reshape(3, 8) + rank for rank in range(4)]
    run = neuroncore.run(through, per_rank=[(x, name) for x in arrays])
    for results in (run.results, run.replay()):
        for rank, got in enumerate(results):
            np.testing.assert_array_equal(got, expected(name, [2 * x for x in arrays], rank))


def test_what_is_refused():
    x = np.ones((3, 8), np.float32)
    with pytest.raises(UsageError, match="the kernel's grid asks for 1 cores, and a rank's are 2"):
        neuroncore.run(through, per_rank=[(x, "all_reduce")] * 4, lnc=2)
    with pytest.raises(SignatureError, match="the replica group has rank 2"):
        neuroncore.run(through, per_rank=[(x, "all_reduce")] * 2)

    @nki.jit
    def elsewhere(x):
        dst = nl.ndarray((3, 32), x.dtype, buffer=nl.shared_hbm)
        nccl.all_gather(op=np.add, srcs=[x], dsts=[dst], replica_groups=ALL, all_gather_dim=2)
        return dst

    with pytest.raises(SignatureError, match="all_gather_dim is 2"):
        neuroncore.run(elsewhere, per_rank=[(x,)] * 4)
