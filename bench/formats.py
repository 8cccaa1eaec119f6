"""Compare the speed of rounding with that of ml_dtypes and numpy: python bench/formats.py

Each line has neuroncore's throughput relative to the throughput of `astype` from float32 (numpy's
for float16, ml_dtypes' for other formats), and the required limit. The two are measured alternately
on one thread, for a tile of 128 x 512 and for 32 Mi numbers. Times are the CPU time of the thread,
because other programs would interrupt work on large arrays. The speed for large arrays is limited
by the bandwidth of memory, so these lines also have the throughput of a copy. The exit code is 0 if
all limits are met.

`--every` instead compares the results for all 2^32 float32 numbers with `astype`, one format after
the other. This takes minutes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measure import alone, describe

if __name__ == "__main__":
    alone()

import numpy as np

from neuroncore.numerics import codec, stochastic
from neuroncore.numerics.formats import FLOATS, Format

NARROW = [f for f in FLOATS if f.bits <= 16]
SIZES = {"tile": (128, 512), "32 Mi": (32, 1 << 20)}
NEAREST = {"bfloat16": 5.0, "float16": 10.0}  # limits; 40 for other formats
STOCHASTIC = {"bfloat16": 1.0, "float16": 0.0}  # limits; 5 for others, none for float16
SAMPLE = 3e-3  # least seconds of a sample, so that caches and clocks settle
Line = tuple[str, float, float, str]


def seconds(work: Callable[[], Any], times: int) -> float:
    begun = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - begun) / times


def lines(label: str, shape: tuple[int, int]) -> Iterator[Line]:
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    large = values.size > 1 << 20
    for form in NARROW:
        found = measured(form, values, large)
        nearest, random, theirs, copy = (found[:, i] for i in range(4))
        limits = NEAREST.get(form, 40.0), STOCHASTIC.get(form, 5.0)
        for mode, ours, limit in zip(("nearest", "stochastic"), (nearest, random), limits):
            speed, other = (values.nbytes / np.median(t) / 1e9 for t in (ours, theirs))
            remark = f"{speed:5.1f} GB/s of float32; astype {other:.2f}"
            if large:
                remark += f"; a copy is x{np.median(theirs / copy):.1f}"
            yield f"{form} {mode}, {label}", statistics.median(theirs / ours), limit, remark


def measured(form: Format, values: Any, large: bool) -> Any:
    """Return seconds, [rounds, 4], for four kinds of work: rounding to nearest, stochastic
    rounding, `astype`, and a copy."""
    out, stream = np.zeros(values.shape, form.storage), stochastic.Stream(1)
    place = values.copy()
    work = (
        lambda: codec.encode(form, values, out),
        lambda: stochastic.encode(form, values, stream, out),
        lambda: values.astype(form.numpy),
        lambda: np.copyto(place, values),
    )
    for each in work:
        each()
    times = [int(SAMPLE / seconds(each, 1)) + 1 for each in work]
    rounds = 5 if large else 41
    return np.array([[seconds(*each) for each in zip(work, times)] for _ in range(rounds)])


def every(form: Format, step: int = 1 << 24) -> int:
    """Return how many of all float32 numbers are not rounded as by `astype`. A NaN must become the
    canonical NaN of the format, with its sign."""
    wrong = 0
    for start in range(0, 1 << 32, step):
        values = np.arange(start, start + step, dtype=np.int64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            want = values.astype(form.numpy).view(form.code_type)
        sign = np.signbit(values).astype(form.code_type) << (form.bits - 1)
        want = np.where(np.isnan(values), sign | form.code_type.type(form.nan_code), want)
        wrong += int((codec.encode(form, values).view(form.code_type) != want).sum())
    return wrong


def main() -> int:
    if "--every" in sys.argv:
        counts = {}
        for form in NARROW:
            counts[form] = every(form)
            print(f"{form}: {counts[form]} of 2^32 differ", flush=True)
        return int(any(counts.values()))
    print(describe())
    failed = 0
    for label, shape in SIZES.items():
        for name, found, limit, remark in lines(label, shape):
            failed += found < limit
            verdict = "ok  " if found >= limit else "MISS"
            print(f"{verdict} {name:34s} x{found:5.1f}  limit {limit:4.1f}  {remark}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
