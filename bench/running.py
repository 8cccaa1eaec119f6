"""Measure work around a launch: `neuroncore.run`, kernels on tiles of 128 columns, weights that are
used once, reports about a run, ranks, and loops that repeat slow operations."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import neuronxcc.nki as older
import neuronxcc.nki.language as ol
import nki
import nki.collectives as collectives
import nki.isa as nisa
import nki.language as nl
import numpy as np
from issuing import LOAD, REPEATS, Line, yardstick
from measure import least
from neuroncore.kernels import ch01_add, ch02_softmax

import neuroncore
from neuroncore.base.options import Options
from neuroncore.replay import batches

TILE = 128
STEPS = 1_000  # instructions of a loop
PRECISE = Options(precision=True)
RANKS = 8, 64


def lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    yield from run_lines(rng)
    yield attention_line(rng)
    yield weights_line(rng)
    yield from reading_lines()
    yield rank_line()
    yield from loop_lines()


def of(what: str, found: tuple[float, ...], limit: float, other: str) -> Line:
    ours, theirs = found
    return what, ours / theirs, limit, f"{ours * 1e3:.2f} ms; {other} {theirs * 1e3:.2f} ms"


# --- kernels --------------------------------------------------------------------------------------


def run_lines(rng: np.random.Generator) -> Iterator[Line]:
    """Yield the lines that compare `neuroncore.run`, which keeps copies of the arguments, with a
    call of the kernel."""
    x, y = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    wide = rng.standard_normal((2048, 2048), np.float32)
    cases: tuple[tuple[str, Any, tuple[Any, ...], float], ...] = (
        ("add 512 x 512", ch01_add.add, (x, y), 1.4),
        ("softmax 2048 x 2048", ch02_softmax.softmax, (wide,), 1.15),
    )
    for name, kernel, given, limit in cases:
        found = least(
            lambda: neuroncore.run(kernel, *given),  # noqa: B023
            lambda: kernel(*given),  # noqa: B023
            rounds=21,
        )
        yield of(f"neuroncore.run {name}, of a call", found, limit, "call")


@nki.jit
def attention(q_t, k_t, v):
    """softmax(q @ k.T) @ v in tiles of 128 x 128, with the largest score so far, as published
    kernels write it. q_t and k_t are q and k transposed."""
    width, length = q_t.shape
    out = nl.ndarray((length, width), nl.float32, buffer=nl.shared_hbm)
    for row in range(0, length, TILE):
        query = nl.load(q_t[:, row : row + TILE])
        total, weight = (nl.zeros((TILE, n), nl.float32) for n in (width, 1))
        largest = nl.ndarray((TILE, 1), nl.float32)
        nisa.memset(dst=largest, value=-1e30)
        for column in range(0, length, TILE):
            keys = nl.load(k_t[:, column : column + TILE])
            values = nl.load(v[column : column + TILE, :])
            scores = nl.ndarray((TILE, TILE), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=scores, stationary=query, moving=keys)
            here, least_of, scale, part = (nl.ndarray((TILE, 1), nl.float32) for _ in range(4))
            nisa.tensor_reduce(dst=here, op=nl.maximum, data=scores, axis=1)
            nisa.tensor_tensor(dst=here, data1=here, data2=largest, op=nl.maximum)
            nisa.tensor_scalar(dst=least_of, data=here, op0=nl.multiply, operand0=-1.0)
            nisa.activation(dst=scale, op=nl.exp, data=largest, bias=least_of)
            powers = nl.ndarray((TILE, TILE), nl.float32)
            nisa.activation(dst=powers, op=nl.exp, data=scores, bias=least_of)
            nisa.tensor_reduce(dst=part, op=nl.add, data=powers, axis=1)
            turned = nl.ndarray((TILE, TILE), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=powers)
            weights = nl.ndarray((TILE, TILE), nl.float32)
            nisa.tensor_copy(dst=weights, src=turned)
            sums = nl.ndarray((TILE, width), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=sums, stationary=weights, moving=values)
            for old, new in ((total, sums), (weight, part)):
                nisa.scalar_tensor_tensor(
                    dst=old, data=old, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=new
                )
            largest = here
        nisa.reciprocal(dst=weight, data=weight)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=weight)
        nisa.dma_copy(dst=out[row : row + TILE, :], src=total)
    return out


def attention_line(rng: np.random.Generator) -> Line:
    q_t, k_t = (rng.standard_normal((TILE, 1024), np.float32) * np.float32(0.1) for _ in range(2))
    v = rng.standard_normal((1024, TILE), np.float32)

    def reference() -> Any:
        scores = q_t.T @ k_t
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True) @ v

    np.testing.assert_allclose(attention(q_t, k_t, v), reference(), rtol=1e-3, atol=1e-5)
    found = least(lambda: attention(q_t, k_t, v), reference, rounds=15)
    return of("attention 1024 x 128 in tiles of 128, of numpy", found, 5.5, "numpy")


@nki.jit
def tokens_times_weights(x_t, weights):
    """x_t.T @ weights for 128 tokens: each tile of the weights is used once."""
    depth, width = weights.shape
    out = nl.ndarray((x_t.shape[1], width), nl.float32, buffer=nl.shared_hbm)
    tokens = [nl.load(x_t[k : k + TILE, :]) for k in range(0, depth, TILE)]
    for column in range(0, width, 512):
        total = nl.ndarray((x_t.shape[1], 512), nl.float32, buffer=nl.psum)
        for n, stationary in enumerate(tokens):
            moving = nl.load(weights[n * TILE : (n + 1) * TILE, column : column + 512])
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        result = nl.ndarray(total.shape, nl.float32)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[:, column : column + 512], src=result)
    return out


def weights_line(rng: np.random.Generator) -> Line:
    x_t, weights = (rng.standard_normal((2048, n)).astype(ml_dtypes.bfloat16) for n in (TILE, 2048))
    x, wide = x_t.T.astype(np.float32), weights.astype(np.float32)
    np.testing.assert_allclose(tokens_times_weights(x_t, weights), x @ wide, rtol=1e-3, atol=1e-2)
    found = least(lambda: tokens_times_weights(x_t, weights), lambda: x @ wide, rounds=15)
    return of("weights 2048 x 2048 used once, bfloat16, of numpy", found, 2.3, "numpy")


# --- estimates, reports, replays and files of a run -----------------------------------------------


@nki.jit
def steps(x):
    """Load narrow tiles, and apply operations that write to new tiles."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in range(STEPS // 4):
        tile, power, total = (nl.ndarray(x.shape, nl.float32) for _ in range(3))
        nisa.dma_copy(dst=tile, src=x)
        nisa.activation(dst=power, op=nl.exp, data=tile)
        nisa.tensor_tensor(dst=total, data1=power, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=total)
    return out


def reading_lines() -> Iterator[Line]:
    """Yield the lines about estimates, reports, replays and files of a run with many instructions.
    Times are multiples of the time of the run."""
    x = np.ones((128, 4), np.float32)
    run = neuroncore.run(steps, x)
    batches.load()  # without this, a new installation begins without compiled code
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run")
        run.save(file)
        works: dict[str, tuple[Callable[[], Any], float]] = {
            "its estimate, of a run": (lambda: neuroncore.run(steps, x).estimate.seconds, 3.0),
            "why, of a run": (lambda: neuroncore.run(steps, x).why(), 6.0),
            "with precision, of a run": (lambda: neuroncore.run(steps, x, options=PRECISE), 9.0),
            "replay, of a run": (run.replay, 0.35),
            "save, of a run": (lambda: run.save(file), 0.5),
            "load, of a run": (lambda: neuroncore.load(file), 0.8),
        }
        launched, *found = least(
            lambda: neuroncore.run(steps, x), *(work for work, _ in works.values()), rounds=9
        )
    for (name, (_, limit)), spent in zip(works.items(), found):
        yield name, spent / launched, limit, f"{spent / STEPS * 1e6:.1f} us an instruction"


@nki.jit
def summed(x, ranks):
    """The sum of x over all ranks."""
    source, result = (nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm) for _ in range(2))
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=source, src=x)
    group = collectives.ReplicaGroup([[*range(ranks)]])
    collectives.all_reduce(dsts=[result], srcs=[source], replica_group=group, op=nl.add)
    nisa.dma_copy(dst=out, src=result)
    return out


def rank_line() -> Line:
    """Return the line that compares two times per rank, including the estimate: for a run of many
    ranks, and for a run of few."""
    x = np.ones((128, 4), np.float32)

    def world(ranks: int) -> Callable[[], Any]:
        return lambda: neuroncore.run(summed, per_rank=[(x, ranks)] * ranks).estimate.seconds

    # process time, because threads run the ranks
    few, many = least(*map(world, RANKS), rounds=3, clock=time.process_time)
    ratio = many / few * RANKS[0] / RANKS[1]
    remark = f"{many / RANKS[1] * 1e3:.2f} ms; of {RANKS[0]}, {few / RANKS[0] * 1e3:.2f} ms"
    return f"a rank of {RANKS[1]} and its estimate, of one of {RANKS[0]}", ratio, 1.5, remark


# --- habits ---------------------------------------------------------------------------------------


def loop_lines() -> Iterator[Line]:
    """Yield the lines about slow operations in loops: reads of uninitialized memory, compared with
    other reads; and index expressions and masks that a Python loop of the older API makes again in
    each iteration."""
    found: list[float] = []

    @nki.jit
    def reads():
        written, result = (nl.zeros((128, 512), nl.float32) for _ in range(2))
        unwritten = nl.ndarray((128, 512), nl.float32)

        def copies(source: Any) -> Callable[[], None]:
            def work() -> None:
                for _ in range(REPEATS):
                    nisa.tensor_scalar(dst=result, data=source, op0=nl.add, operand0=1.0)

            return work

        found.extend(least(copies(unwritten), copies(written), rounds=15))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reads()
    yield of("reads of unwritten memory, of other reads", (found[0], found[1]), 3.0, "others")
    yield from expression_lines()


@older.jit
def loads(x, form):
    """Load the same elements repeatedly: by slices, by index expressions, or with a mask."""
    out = ol.ndarray(x.shape, dtype=x.dtype, buffer=ol.shared_hbm)
    for _ in range(STEPS):
        p, f = ol.arange(8)[:, None], ol.arange(16)[None, :]
        if form == "slices":
            ol.load(x[0:8, 0:16])
        elif form == "expressions":
            ol.load(x[p, f])
        else:
            ol.load(x[p, f], mask=f < 12)
    ol.store(out, value=ol.load(x))
    return out


def expression_lines() -> Iterator[Line]:
    x = np.ones((128, 64), np.float32)
    forms = {"expressions": 1.2, "mask": 1.8}  # limits: times the cost of a load by slices
    add, *spent = least(yardstick(), *(lambda form=form: loads(x, form) for form in forms))
    for (form, limit), whole in zip(forms.items(), spent):
        each = whole / STEPS
        name = f"older load in a Python loop, {form}, of np.add"
        yield name, each / add * REPEATS, limit * LOAD, f"{each * 1e6:.1f} us"
