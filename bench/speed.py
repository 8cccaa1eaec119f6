"""How fast the emulator is, beside numpy doing the same: python bench/speed.py

Every line gives what was asked for (`limit`) and what was measured. Kernels are recorded, as they
are by default. The exit code says whether all limits hold.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measure import alone, describe, ratio, seconds

if __name__ == "__main__":
    alone()

import ml_dtypes
import numpy as np

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl
from neuroncore.kernels import ch01_add, ch02_softmax, ch07_attention

from neuroncore.clause import product
from neuroncore.core.core import running
from neuroncore.frontend.settings import settings
from neuroncore.options import Options
from neuroncore.schedule import schedule
from neuroncore.schedule.reordering import POLICIES

MEMORY_ALLOWANCE = 100 << 20
Line = tuple[str, float, float, str]  # what, measured, limit, remark


@nki.jit
def matmul(a_t, b):
    """a_t.T @ b in tiles, four rows of tiles at a time; b stays in SBUF."""
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
    for mode, limit in (("blas", 1.8), ("chain", 2.2)):
        with settings(options=Options(matmul=mode)):
            found = ratio(lambda: matmul(a_t, b), lambda: a @ wide, pairs=15)
        yield timed(f"matmul 2048 x 2048 x 2048 bfloat16, {mode}", found, limit)


def chain_lines(rng: np.random.Generator) -> Iterator[Line]:
    """The Tensor engine's product of one tile by itself, beside BLAS on the same arrays."""
    times = 32  # of one sample
    for k, m, n in ((128, 128, 512), (64, 64, 512), (128, 128, 128)):
        s, x = rng.standard_normal((k, m), np.float32), rng.standard_normal((k, n), np.float32)
        ours, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)

        def chains() -> None:
            for _ in range(times):
                product.chain(s, x, ours, False)  # noqa: B023

        def products() -> None:
            for _ in range(times):
                np.matmul(s.T, x, out=theirs)  # noqa: B023

        median, mine, other = ratio(chains, products, pairs=31)
        remark = f"{mine / times * 1e6:.0f} us; BLAS {other / times * 1e6:.0f} us"
        yield f"chain {k} x {m} x {n} float32, of BLAS", median, 1.25, remark


def numpy_lines(rng: np.random.Generator) -> Iterator[Line]:
    x, y = (rng.standard_normal((4096, 4096), np.float32) for _ in range(2))
    cases = (
        ("softmax 4096 x 4096 float32", ch02_softmax.softmax, ch02_softmax.reference, (x,), 2.0),
        ("add 4096 x 4096 float32", ch01_add.add, ch01_add.reference, (x, y), 3.0),
        (
            "attention 1024 x 128 float32",
            ch07_attention.attention,
            ch07_attention.reference,
            ch07_attention.inputs(rng),
            3.0,
        ),
    )
    for name, kernel, reference, given, limit in cases:
        np.testing.assert_allclose(kernel(*given), reference(*given), rtol=1e-3, atol=1e-5)
        found = ratio(lambda: kernel(*given), lambda: reference(*given))  # noqa: B023
        yield timed(name, found, limit)


def record_lines(rng: np.random.Generator) -> Iterator[Line]:
    """Runs of kernels of many instructions, beside the same that leave no record."""
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

        found = ratio(lambda: kernel(*given), unrecorded, pairs=31)  # noqa: B023
        with_record, without = (s * 1e3 for s in found[1:])
        remark = f"{with_record:.1f} ms; without {without:.1f} ms"
        yield f"recorded {name} float32", found[0], 1.2, remark


def timed(name: str, found: tuple[float, ...], limit: float) -> Line:
    median, ours, theirs = found
    return name, median, limit, f"{ours * 1e3:.1f} ms; numpy {theirs * 1e3:.1f} ms"


def issue_lines() -> Iterator[Line]:
    """One instruction on a [128, 1] tile, in a kernel, recorded."""
    repeats, rounds = 2000, []

    @nki.jit
    def small():
        a, b, c = (nl.zeros((128, 1), nl.float32) for _ in range(3))

        def issues() -> None:
            for _ in range(repeats):
                nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)

        rounds.extend(seconds(issues) for _ in range(7))

    small()
    each = sorted(rounds)[3] / repeats * 1e6
    yield "tensor_tensor [128, 1], microseconds", each, 10.0, f"empty call {empty_call():.3f}"


def empty_call() -> float:
    def nothing() -> None: ...

    def calls() -> None:
        for _ in range(100_000):
            nothing()

    return sorted(seconds(calls) for _ in range(7))[3] * 10


def import_lines() -> Iterator[Line]:
    def start(module: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    _, ours, numpy = ratio(start("neuroncore"), start("numpy"), pairs=7)
    bare, _, _ = sorted(seconds(start("sys")) for _ in range(3))
    remark = f"numpy {numpy:.2f}, Python alone {bare:.2f}"
    yield "import neuroncore, seconds", ours, 0.5, remark


def schedule_lines() -> Iterator[Line]:
    """What the schedule takes of the microsecond and the 200 bytes that an instruction is allowed,
    in each order that a compiler may make of the program."""
    kept: list[Any] = []

    @nki.jit
    def many():
        tiles = [nl.zeros((128, 64), nl.float32) for _ in range(8)]
        for i in range(200_000):
            x, y = tiles[i % 8], tiles[(i + 3) % 8]
            if i % 2:
                nisa.activation(dst=x, op=nl.exp, data=y, scale=0.0)
            else:
                nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        kept.append(running())

    many()
    program, machine = kept[0].program, kept[0].machine
    count = len(program)
    for order in POLICIES:

        def scheduled() -> None:
            schedule(program, machine, order)  # noqa: B023

        scheduled()
        spent = sorted(seconds(scheduled) for _ in range(5))[2]
        remark = f"{count} in {spent:.2f} s: {count / spent:,.0f} a second"
        yield f"schedule, {order}, of the time allowed", spent / (count / 1_000_000), 1.0, remark
        tracemalloc.start()
        scheduled()
        each = tracemalloc.get_traced_memory()[1] / count
        tracemalloc.stop()
        yield f"schedule, {order}, bytes at the most", each, 200.0, "of each instruction"


def memory_lines() -> Iterator[Line]:
    """Peak memory of the matmul in a process of its own, less operands, result, and what the
    process held after the same kernel at 256 x 128 x 512."""
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


def status(field: str) -> int:
    """A field of /proc/self/status in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field + ":"))
    return int(line.split()[1]) << 10


def main() -> int:
    if "--memory" in sys.argv:
        measure_memory()
        return 0
    print(describe())
    rng = np.random.default_rng(0)
    failed = 0
    for lines in (
        chain_lines(rng),
        matmul_lines(rng),
        numpy_lines(rng),
        record_lines(rng),
        issue_lines(),
        import_lines(),
        schedule_lines(),
        memory_lines(),
    ):
        for name, measured, limit, remark in lines:
            held = measured <= limit
            failed += not held
            verdict = "ok  " if held else "MISS"
            print(f"{verdict} {name:45s} {measured:6.2f}  limit {limit:5.2f}   {remark}")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
