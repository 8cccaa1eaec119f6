"""Sums over ranks: where they are rounded, integers that float32 cannot represent, and the
comparison with float64."""

from itertools import product

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from collective_worlds import ALL, in_hbm, ran, same, through_hbm, through_sbuf
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.base.options import Options
from neuroncore.report import precision


def test_an_option_selects_where_sums_are_rounded():
    rng, group = np.random.default_rng(0), [[*range(16)]]
    arrays = [rng.standard_normal((32, 5)).astype(nl.bfloat16.numpy) for _ in range(16)]
    found = set()
    for way, kernel in product(("chain", "ring", "mesh"), (through_hbm, through_sbuf)):
        options = {"options": Options(collective_rounding=way), "op": nl.add}
        sums = ran(kernel, arrays, (32, 5), ncc.all_reduce, group, **options)
        if kernel is through_hbm:
            ran(kernel, arrays, (2, 5), ncc.reduce_scatter, group, collective_dim=0, **options)
        found.add(sums[0].tobytes())
    assert len(found) == 3


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_stochastic_rounding_gives_all_ranks_the_same_bits_in_any_order(turns):
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


def test_integers_that_float32_lacks_are_reported():
    arrays = [np.full((2, 2), (1 << 24) + rank, np.int32) for rank in range(2)]
    per_rank = [(x, (2, 2), ncc.all_reduce, ReplicaGroup([[0, 1]]), {"op": nl.add}) for x in arrays]
    run = neuroncore.run(through_hbm, per_rank=per_rank)
    assert {found.code for found in run.findings} == {"INTEGER_SUM"}


# --- precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["all_reduce", "all_gather"])
def test_errors_are_traced_through_collectives(call):
    """The error comes from the line that rounds to bfloat16, on any rank."""

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


def test_a_sum_over_ranks_has_the_error_of_its_rounding():
    """All of the error was attributed to the lines that round the ranks' data."""

    @nki.jit
    def narrow(x, group):
        src, dst = (nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf) for _ in range(2))
        nisa.tensor_copy(src, nl.load(x))
        ncc.all_reduce([src], [dst], group, nl.add)
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, dst)
        return out

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(4)]
    per_rank = [(x, ReplicaGroup(ALL)) for x in arrays]
    found = neuroncore.run(narrow, per_rank=per_rank, options=Options(precision=True)).precision
    assert found is not None
    shares = {line.place.text.strip()[:14]: line.share for line in found.lines}
    bfloat16 = nl.bfloat16.numpy
    rounded = [x.astype(bfloat16) for x in arrays]
    total = np.sum(rounded, 0, dtype=np.float32)
    last = ((total.astype(bfloat16) - total) ** 2).sum()
    first = sum(
        ((x.astype(np.float32) - y) ** 2).sum() for x, y in zip(rounded, arrays, strict=True)
    )
    assert shares["ncc.all_reduce"] == pytest.approx(last / (first + last), abs=0.02)
    assert sum(shares.values()) == pytest.approx(1)
    (line,) = (line for line in precision.text(found) if "ncc.all_reduce" in line)
    assert line.split()[1:3] == ["-", "-"]  # its ulps are not known


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@pytest.mark.parametrize("turns", [0, 3])
def test_errors_of_both_cores_of_a_rank_are_traced(buffer, turns):
    """Each core rounds its half; in HBM the sum over ranks is computed once for both."""

    @nki.jit
    def halves(x, group):
        core = nl.program_id(0)
        mine = slice(3 * core, 3 * core + 3)
        narrow = nl.ndarray((3, 5), nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_scalar(narrow, nl.load(x[mine]), nl.multiply, 1.1)
        wide = nl.ndarray((3, 5), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(wide, narrow)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if buffer is nl.sbuf:
            dst = nl.ndarray((3, 5), x.dtype, buffer=nl.sbuf)
            ncc.all_reduce([wide], [dst], group, nl.add)
            nisa.dma_copy(dst=out[mine], src=dst)
        else:
            src, dst = (in_hbm(x.shape, x.dtype, n) for n in ("src", "dst"))
            nisa.dma_copy(dst=src[mine], src=wide)
            ncc.all_reduce([src], [dst], group, nl.add)
            nisa.dma_copy(dst=out[mine], src=dst[mine])
        return out

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((6, 5)).astype(np.float32) for _ in range(2)]
    per_rank = [(x, ReplicaGroup([[0, 1]])) for x in arrays]
    options = Options(precision=True, turns=turns)
    found = neuroncore.run(halves, per_rank=per_rank, lnc=2, options=options).precision
    assert found is not None and len(found.results) == 2
    for result in found.results:
        np.testing.assert_allclose(result.exact, 1.1 * sum(map(np.float64, arrays)), rtol=1e-12)
        assert result.rel_l2 > 1e-4
    shares = {line.place.text.strip()[:18]: line.share for line in found.lines}
    assert shares["nisa.tensor_scalar"] == pytest.approx(1)
