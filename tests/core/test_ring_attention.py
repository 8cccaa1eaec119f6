"""Ring attention on four ranks: each rank has its queries, and the keys and values are passed
around the ring."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.options import Options

RANKS, ROWS, WIDE = 4, 33, 16


def matrix(stationary, moving, rows, columns):
    """Return stationary.T @ moving in SBUF."""
    sums = nl.ndarray((rows, columns), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary, moving)
    out = nl.ndarray((rows, columns), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(out, sums)
    return out


@nki.jit
def ring_attention(q, k, v, group):
    """Return softmax(q @ k.T) @ v over the keys of all ranks, with running maxima and sums. q and k
    are [WIDE, ROWS], v is [ROWS, WIDE]."""
    queries = nl.load(q)
    held = [[nl.load(k), nl.load(v)]]
    held.append([nl.ndarray(one.shape, one.dtype, buffer=nl.sbuf) for one in held[0]])
    highest = nl.full((ROWS, 1), -1e30, nl.float32)
    total, sums = nl.zeros((ROWS, 1), nl.float32), nl.zeros((ROWS, WIDE), nl.float32)
    for step in range(RANKS):
        (keys, values), then = held[step % 2], held[(step + 1) % 2]
        scores = matrix(queries, keys, ROWS, ROWS)
        new = nl.maximum(highest, nl.max(scores, axis=1, keepdims=True))
        weights = nl.exp(nl.subtract(scores, new))
        shrunk = nl.exp(nl.subtract(highest, new))
        turned = nl.ndarray((ROWS, ROWS), nl.float32, buffer=nl.psum)
        nisa.nc_transpose(turned, weights)
        across = nl.ndarray((ROWS, ROWS), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(across, turned)
        total = nl.add(nl.multiply(total, shrunk), nl.sum(weights, axis=1, keepdims=True))
        sums = nl.add(nl.multiply(sums, shrunk), matrix(across, values, ROWS, WIDE))
        highest = new
        if step < RANKS - 1:
            for src, dst in zip((keys, values), then, strict=True):
                ncc.collective_permute_implicit([[src]], [[dst]], group)
    out = nl.ndarray((ROWS, WIDE), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.divide(sums, total))
    return out


@pytest.mark.parametrize("turns", [0, 3])
def test_ring_attention_equals_attention_over_the_keys_of_all_ranks(turns):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((RANKS, ROWS, WIDE)).astype(np.float32) for _ in range(3))
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])
    given = [(q[r].T.copy(), k[r].T.copy(), v[r], group) for r in range(RANKS)]
    run = neuroncore.run(ring_attention, per_rank=given, options=Options(turns=turns))
    keys, values = (np.concatenate(one).astype(np.float64) for one in (k, v))
    for rank, got in enumerate(run.results):
        weights = np.exp(q[rank].astype(np.float64) @ keys.T)
        want = weights @ values / weights.sum(1, keepdims=True)
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
    assert [one.tobytes() for one in run.replay()] == [one.tobytes() for one in run.results]
