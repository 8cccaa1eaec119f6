"""Compare the speed of the emulator with numpy on the same work: python bench/speed.py [GROUP ...]

Each line has the measured value and the required limit (`limit`). A value is a ratio: the least CPU
times of two programs that are measured alternately (`measure`). Kernels are recorded, as by
default. The exit code is 0 if all limits are met. The groups of lines are: issuing, starting,
running, clauses, chain, matmul, numpy, recorded, memory, scheduling.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measure import alone, describe, least, status

if __name__ == "__main__":
    alone()

import ml_dtypes
import numpy as np

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl
from clauses import lines as clause_lines
from issuing import Line
from issuing import lines as issuing_lines
from neuroncore.kernels import ch01_add, ch02_softmax, ch03_rmsnorm, ch07_attention
from running import lines as running_lines
from scheduling import lines as scheduling_lines
from starting import lines as starting_lines

from neuroncore.base.options import Options
from neuroncore.clause import product
from neuroncore.frontend.settings import settings

MEMORY_ALLOWANCE = 100 << 20


@nki.jit
def matmul(a_t, b):
    """a_t.T @ b. The result is computed in tiles of 128 x 512, four in a column at a time; b stays
    in SBUF."""
    (depth, rows), columns = a_t.shape, b.shape[1]
    c = nl.ndarray((rows, columns), nl.float32, buffer=nl.shared_hbm)
    rights = [[nl.load(b[k : k + 128, n : n + 512]) for k in range(0, depth, 128)]
              for n in range(0, columns, 512)]  # fmt: skip
    for m in range(0, rows, 512):
        lefts = [[nl.load(a_t[k : k + 128, i : i + 128]) for i in range(m, m + 512, 128)]
                 for k in range(0, depth, 128)]  # fmt: skip
        for n, right in zip(range(0, columns, 512), rights):
            sums = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(4)]
            for left, moving in zip(lefts, right):
                for total, stationary in zip(sums, left):
                    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
            for i, total in zip(range(m, m + 512, 128), sums):
                tile = nl.ndarray((128, 512), nl.float32)
                nisa.tensor_copy(dst=tile, src=total)
                nisa.dma_copy(dst=c[i : i + 128, n : n + 512], src=tile)
    return c


def matmul_lines(rng: np.random.Generator) -> Iterator[Line]:
    a_t, b = (rng.standard_normal((2048, 2048)).astype(ml_dtypes.bfloat16) for _ in range(2))
    a, wide = np.ascontiguousarray(a_t.T).astype(np.float32), b.astype(np.float32)
    error = np.linalg.norm(matmul(a_t, b) - a @ wide) / np.linalg.norm(a @ wide)
    assert error < 1e-5, error
    for mode, limit in (("blas", 1.8), ("chain", 1.35)):
        with settings(options=Options(matmul=mode)):
            found = least(lambda: matmul(a_t, b), lambda: a @ wide)
        yield timed(f"matmul 2048 x 2048 x 2048 bfloat16, {mode}", found, limit)


def chain_lines(rng: np.random.Generator) -> Iterator[Line]:
    """Yield the lines that compare the Tensor engine's product of one tile with BLAS on the same
    arrays."""
    times = 32  # calls in one sample
    for k, m, n in ((128, 128, 512), (64, 64, 512), (128, 128, 128)):
        s, x = rng.standard_normal((k, m), np.float32), rng.standard_normal((k, n), np.float32)
        ours, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)

        def chains() -> None:
            for _ in range(times):
                product.chain(s, x, ours, False)  # noqa: B023

        def products() -> None:
            for _ in range(times):
                np.matmul(s.T, x, out=theirs)  # noqa: B023

        mine, other = least(chains, products, rounds=31)
        remark = f"{mine / times * 1e6:.0f} us; BLAS {other / times * 1e6:.0f} us"
        yield f"chain {k} x {m} x {n} float32, of BLAS", mine / other, 1.25, remark


def numpy_lines(rng: np.random.Generator) -> Iterator[Line]:
    x, y = (rng.standard_normal((4096, 4096), np.float32) for _ in range(2))
    rows, gain = rng.standard_normal((4096, 2048), np.float32), np.ones((1, 2048), np.float32)
    queries = ch07_attention.inputs(rng)
    softmax, add, rmsnorm, attention = ch02_softmax, ch01_add, ch03_rmsnorm, ch07_attention
    cases: tuple[tuple[str, Any, Any, Any, float], ...] = (
        ("softmax 4096 x 4096", softmax.softmax, softmax.reference, (x,), 1.1),
        ("add 4096 x 4096", add.add, add.reference, (x, y), 2.0),
        ("rmsnorm 4096 x 2048", rmsnorm.rmsnorm, rmsnorm.reference, (rows, gain), 1.4),
        ("attention 1024 x 128", attention.attention, attention.reference, queries, 2.2),
    )
    for name, kernel, reference, given, limit in cases:
        np.testing.assert_allclose(kernel(*given), reference(*given), rtol=1e-3, atol=1e-5)
        found = least(lambda: kernel(*given), lambda: reference(*given), rounds=15)  # noqa: B023
        yield timed(f"{name} float32", found, limit)


def record_lines(rng: np.random.Generator) -> Iterator[Line]:
    """Yield the lines that compare runs of kernels with many instructions with the same runs
    without a record."""
    x = rng.standard_normal((512, 1024), np.float32)
    a_t, b = (rng.standard_normal((1024, 1024), np.float32) for _ in range(2))
    cases: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
        ("softmax 512 x 1024", ch02_softmax.softmax, (x,)),
        ("attention 1024 x 128", ch07_attention.attention, ch07_attention.inputs(rng)),
        ("matmul 1024 x 1024 x 1024", matmul, (a_t, b)),
    )
    for name, kernel, given in cases:

        def unrecorded() -> None:
            with settings(options=Options(record=False)):
                kernel(*given)  # noqa: B023

        kept, without = least(lambda: kernel(*given), unrecorded, rounds=31)  # noqa: B023
        remark = f"{kept * 1e3:.1f} ms; without {without * 1e3:.1f} ms"
        yield f"recorded {name} float32", kept / without, 1.1, remark


def timed(name: str, found: tuple[float, ...], limit: float) -> Line:
    ours, theirs = found
    return name, ours / theirs, limit, f"{ours * 1e3:.1f} ms; numpy {theirs * 1e3:.1f} ms"


def memory_lines() -> Iterator[Line]:
    """Yield the line about the peak memory of the matmul in a separate process. The operands, the
    result, and the memory that the process had after a matmul of 512 x 128 x 512 are subtracted."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True
    )
    held, peak, arrays = map(int, done.stdout.split())
    extra = peak - held - arrays
    remark = f"held {held >> 20} MiB, peak {peak >> 20} MiB, operands and result {arrays >> 20} MiB"
    yield "matmul's memory, of the 100 MiB allowed", extra / MEMORY_ALLOWANCE, 1.0, remark


def measure_memory() -> None:
    rng = np.random.default_rng(0)
    small = [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((128, 512), (128, 512))]
    matmul(*small)
    held = status("VmRSS")
    a_t, b = (np.full((2048, 2048), 1, ml_dtypes.bfloat16) for _ in range(2))
    c = matmul(a_t, b)
    print(held, status("VmHWM"), a_t.nbytes + b.nbytes + c.nbytes)


def main() -> int:
    if "--memory" in sys.argv:
        measure_memory()
        return 0
    print(describe())
    rng = np.random.default_rng(0)
    parts: dict[str, Callable[[], Iterator[Line]]] = {
        "issuing": issuing_lines,
        "starting": starting_lines,
        "running": running_lines,
        "clauses": clause_lines,
        "chain": lambda: chain_lines(rng),
        "matmul": lambda: matmul_lines(rng),
        "numpy": lambda: numpy_lines(rng),
        "recorded": lambda: record_lines(rng),
        "memory": memory_lines,
        "scheduling": scheduling_lines,
    }
    chosen = sys.argv[1:] or list(parts)
    if unknown := set(chosen) - parts.keys():
        raise SystemExit(f"no groups of lines: {', '.join(sorted(unknown))}; {__doc__}")
    failed = 0
    for name in chosen:
        for what, measured, limit, remark in parts[name]():
            held = measured <= limit
            failed += not held
            verdict = "ok  " if held else "MISS"
            print(f"{verdict} {what:52s} {measured:8.2f}  limit {limit:7.2f}   {remark}")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
