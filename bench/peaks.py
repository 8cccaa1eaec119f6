"""Peak rates of the Tensor engine, three ways: python bench/peaks.py

* geometric: 128 x 128 multipliers x 2 x clock x rate of the format, from the machine file;
* modelled: a kernel that streams columns past one stationary tile, by our schedule;
* published: what the vendor states for one core.

The exit code says whether modelled is within 2 % of geometric and, rounded, equals published.
"""

from __future__ import annotations

import neuroncore

neuroncore.activate()

import nki
import nki.isa as nisa
import nki.language as nl

from neuroncore import machine
from neuroncore.core import Core, running
from neuroncore.formats import FORMATS
from neuroncore.schedule import schedule

DTYPES = ("bfloat16", "float16", "tfloat32", "float32", "float8_e4m3", "float8_e5m2")
PRODUCTS = 4000
WIDTH = 512
TOLERANCE = 0.02


@nki.jit
def stream(dtype):
    """PRODUCTS matmuls of one stationary tile with one moving tile, into two banks of PSUM."""
    stationary = nl.zeros((128, 128), dtype)
    moving = nl.zeros((128, WIDTH), dtype)
    banks = [nl.ndarray((128, WIDTH), nl.float32, buffer=nl.psum) for _ in range(2)]
    for i in range(PRODUCTS):
        nisa.nc_matmul(dst=banks[i % 2], stationary=stationary, moving=moving, accumulate=False)
    cores.append(running())


cores: list[Core | None] = []  # that `stream` ran on


def rates(dtype: str, targets: list[str]) -> dict[str, tuple[float, float, float | None]]:
    """(geometric, modelled, published) TFLOPS of each machine; one run serves all of them."""
    stream(getattr(nl, dtype))
    core = cores.pop()
    assert core is not None and core.program is not None
    found = {}
    for name in targets:
        target = machine.load(name)
        kind = "float8" if dtype.startswith("float8") else dtype
        unit = target.engines["tensor"]
        geometric = 128 * 128 * 2 * unit.clock_ghz * unit.rate[kind] / 1e3
        spent = schedule(core.program, target).total_ns
        modelled = PRODUCTS * 128 * 128 * WIDTH * 2 / spent / 1e3
        found[name] = geometric, modelled, target.peak_tflops.get(kind)
    return found


def main() -> int:
    targets = list(machine.names())
    print(f"{'':14s}" + "".join(f"{t + ': geometric, modelled, published':>42s}" for t in targets))
    wrong = 0
    for dtype in DTYPES:
        assert dtype in FORMATS
        line = f"{dtype:14s}"
        for geometric, modelled, published in rates(dtype, targets).values():
            good = abs(modelled / geometric - 1) <= TOLERANCE
            if published is not None:
                good &= round(modelled) == round(published)
            wrong += not good
            stated = "none" if published is None else f"{published:g}"
            line += f"{geometric:20.1f} {modelled:8.1f} {stated:>6s} {'ok' if good else 'OFF':5s}"
        print(line)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
