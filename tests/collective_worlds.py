"""Worlds of ranks for tests: results of a collective for an array in HBM or in SBUF."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

import neuroncore

ALL = [[0, 1, 2, 3]]
TWO = [[0, 2], [3, 1]]
X4 = [np.ones((4, 2), np.float32)] * 4
OPERATORS = nl.add, nl.minimum, nl.maximum


def given(ranks, shape, dtype="float32", seed=0):
    """Small whole numbers, which every format represents and adds exactly."""
    rng = np.random.default_rng(seed)
    form = getattr(nl, dtype).numpy
    return [rng.integers(0, 4, shape).astype(form) for _ in range(ranks)]


def in_hbm(shape, dtype, name):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm, name=name)


@nki.jit
def through_hbm(x, shape, call, group, more):
    """The result of a collective for x, which is copied as the device requires."""
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
    """The results of all ranks, after a comparison with the plain reading and a replay."""
    group = groups if call is ncc.collective_permute else ReplicaGroup(groups)
    per_rank = [(x, shape, call, group, more) for x in arrays]
    run = neuroncore.run(kernel, per_rank=per_rank, lnc=lnc, options=options, target=target)
    assert not [found for found in run.findings if found.severity != "note"]
    agreed(run)
    return run.results


def agreed(run):
    """Return a run after a comparison of its results with the plain reading and a replay."""
    assert run.verify().difference is None
    assert all(map(same, run.replay(), run.results))
    return run


def same(got, want):
    return got.dtype == want.dtype and got.tobytes() == np.ascontiguousarray(want).tobytes()


def refused(kind, why, kernel, arrays, shape, call, groups, **more):
    with pytest.raises(kind, match=why):
        ran(kernel, arrays, shape, call, groups, **more)


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
