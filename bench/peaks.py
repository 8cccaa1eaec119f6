"""Compute the peak rates of the Tensor engine in three ways: python bench/peaks.py

* geometric: 128 x 128 multipliers x 2 x clock x rate of the format x products per multiplier;
* modeled: the rate of our schedule for a kernel that streams columns past one stationary tile,
  when the clock has its full rate;
* published: the rate that the vendor states for one core.

The exit code is 0 if each modeled rate is within 2 % of the geometric rate, and the published rate
is the geometric rate, rounded. (Before they are compared, rates of modes with several products per
multiplier are divided by this number: 158 for two products is twice the rounded 79 for one, but 2 x
78.6 is 157. Rates of sparse products include the products with the zeros that are left out.)
"""

from __future__ import annotations

from typing import NamedTuple

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl

from neuroncore import machine
from neuroncore.base.options import Options
from neuroncore.core.core import Core, running
from neuroncore.frontend.settings import settings
from neuroncore.time.schedule import schedule

PRODUCTS = 100
WARM = PRODUCTS // 2  # matmuls before the timed ones, so that the clock has its full rate
WIDTH = 512
TOLERANCE = 0.02


class Row(NamedTuple):
    """A way to multiply: the format; its names in the tables `peak_tflops` and `rate` of a machine;
    the feature that the machine must have; and the number of products that a multiplier computes at
    a time."""

    dtype: str
    peak: str
    rate: str
    feature: str | None = None
    products: int = 1


ROWS = (
    *(Row(dtype, dtype, dtype) for dtype in ("bfloat16", "float16", "tfloat32", "float32")),
    *(Row(dtype, "float8", "float8") for dtype in ("float8_e4m3", "float8_e5m2")),
    Row("float8_e4m3", "float8_double_row", "float8", "double_row", 2),
    Row("float8_e5m2", "float8_double_row", "float8", "double_row", 2),
    Row("float8_e4m3fn_x4", "mx", "float8", "mx", 4),
    Row("float8_e5m2_x4", "mx", "float8", "mx", 4),
    Row("float4_e2m1fn_x4", "mx", "float8", "mx", 4),
    *(Row(dtype, "sparse", dtype, "sparse", 4) for dtype in ("bfloat16", "float16", "tfloat32")),
    *(
        Row(dtype, "sparse", "float8", "sparse_float8", 4)
        for dtype in ("float8_e4m3", "float8_e5m2")
    ),
)
PATTERN = (4, 16)  # structured sparsity: a multiplier picks one of four numbers


@nki.jit
def stream(dtype, feature):
    """Issue PRODUCTS matmuls of one stationary tile with one moving tile, into two banks of
    PSUM."""
    halves = (2,) if feature == "double_row" else ()
    stationary = nl.zeros((128, *halves, 128), dtype)
    sparse = feature in ("sparse", "sparse_float8")
    slots = (4,) if sparse else halves
    moving = nl.zeros((128, *slots, WIDTH), dtype)
    tags = nl.zeros((128, 32), nl.uint16)
    banks = [nl.ndarray((128, WIDTH), nl.float32, buffer=nl.psum) for _ in range(2)]
    scales = nl.zeros((128, WIDTH), nl.uint8) if feature == "mx" else None
    for i in range(PRODUCTS):
        dst = banks[i % 2]
        if feature == "mx":
            nisa.nc_matmul_mx(dst, stationary, moving, scales[:, :128], scales, accumulate=False)
        elif sparse:
            nisa.nc_matmul_sparse(dst, stationary, moving, tags, PATTERN, accumulate=False)
        else:
            mode = nisa.matmul_perf_mode[feature or "none"]
            nisa.nc_matmul(dst, stationary, moving, accumulate=False, perf_mode=mode)
    cores.append(running())


cores: list[Core | None] = []  # the cores on which `stream` ran


def rates(row: Row, targets: list[str]) -> dict[str, tuple[float, float, float | None]]:
    """Return (geometric, modeled, published) TFLOPS of each machine with the feature, by name. A
    single run is scheduled on all of them."""
    able = [m for m in map(machine.load, targets) if row.feature is None or m.has(row.feature)]
    with settings(target=able[-1].name, options=Options(experimental=True)):
        stream(getattr(nl, row.dtype), row.feature)
    core = cores.pop()
    assert core is not None and core.program is not None
    found = {}
    for target in able:
        unit = target.engines["tensor"]
        multipliers = 128 * 128 * 2 * row.products
        geometric = multipliers * unit.clock_ghz * unit.rate[row.rate] / 1e3
        timeline = schedule(core.program, target)
        spent = timeline.begin[-1] - timeline.begin[-1 - WARM]
        modeled = WARM * multipliers * WIDTH / spent / 1e3
        found[target.name] = geometric, modeled, target.peak_tflops.get(row.peak)
    return found


def main() -> int:
    targets = list(machine.names())
    print(f"{'':28s}" + "".join(f"{t + ': geometric, modeled, published':>42s}" for t in targets))
    wrong = 0
    for row in ROWS:
        line = f"{row.dtype} {row.feature or ''}".ljust(28)
        found = rates(row, targets)
        for target in targets:
            if target not in found:
                line += " " * 42
                continue
            geometric, modeled, published = found[target]
            good = abs(modeled / geometric - 1) <= TOLERANCE
            if published is not None:
                good &= round(geometric / row.products) == round(published / row.products)
            wrong += not good
            stated = "none" if published is None else f"{published:g}"
            line += f"{geometric:20.1f} {modeled:8.1f} {stated:>6s} {'ok' if good else 'OFF':5s}"
        print(line.rstrip())
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
