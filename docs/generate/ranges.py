"""The ranges of estimates, and the share of measurements that they hold, for
docs/calibration.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docs.generate.tables import Json, table
from neuroncore.report import estimate
from neuroncore.report.estimate import Kind, Range, Residual

RANGES = """\

## Ranges

Every estimate has a range, in which 80 % of measurements are expected. The lower end of a range is
the estimate times a lower factor, and the upper end is the estimate times an upper factor. Each
class of kernels has its own two factors. They are computed from the measured kernels of the class:
for each kernel, the measurement is divided by the estimate. Kernels of one class agree in four
properties:

* the certainty of the compiled program, which is the program into which the compiler turns the
  kernel: certain or uncertain, as explained below.
* the case of the compiler (see [Method](#method)): compiled, scheduled or standalone. For today's
  API, kernels launched by a framework are scheduled, and all others are standalone.
* the writer of DMA descriptors, as explained below.
* the limit ([see above](#errors)).

The release and the flags of the compiler determine the writer of DMA descriptors:

* *compiler*: the older API's compiler writes the descriptors before the kernel runs. It does so on
  trn1, and on other machines with `--disable-dge`.
* *device*: for all other kernels of the older API, the device writes the descriptors while the
  kernel runs.
* *software*: software writes the descriptors. It does so for today's API in NKI 0.5 and later.
* *hardware*: hardware writes the descriptors. It does so for today's API in releases before NKI
  0.5.

If the upper end of a range is at least {known:g} times the lower end, reports state that the range
is not known, and how long similar kernels took.

Only the older API has uncertain compiled programs, because for today's API the model only reorders
instructions. If the compiled program is uncertain, reports print "low confidence". It is uncertain
in three cases:

* Tiles are spilled.
* The model leaves out at least {left} of the instructions, because they repeat a load or a
  computation.
* The program has at least {many:,} instructions. The compiler may not have unrolled the loops of
  such a program completely.

The factors of a class are computed from its n sorted ratios. If all ratios have the same weight,
the lower factor is ratio number {tail:g} (n + 1) from the smallest, and the upper factor is ratio
number {tail:g} (n + 1) from the largest. If new kernels are like the measured ones, about a tenth
of their measurements are below their ranges, and about a tenth are above.

A small class has nearly the range of the next wider class, because the other ratios of the
wider class are added to the ratios of the small class. The added ratios have a total weight of at
most {borrowed:.0f} kernels. A kernel from a source with n kernels has the weight 1 / sqrt(n),
because the errors of one source are similar, but not identical.

The errors of uncertain programs are larger than those of certain programs. Therefore ratios of
certain programs are not added to classes of uncertain programs, or the other way around.

{table}

| ranges computed from | covered | median half-width |
| --- | ---: | ---: |
| the kernels themselves | {covered} |
| the other sources (cross-validation) | {left_out} |

For your kernel, expect the figures of the second line. A range does not cover behavior that no
measured kernel has.
"""


def stated(rows: Sequence[Json]) -> str:
    each = residuals(rows)
    found = estimate.fitted(each)
    return RANGES.format(
        left=f"{estimate.LEFT_OUT:.0%}".replace("%", " %"),
        many=estimate.MANY,
        borrowed=estimate.BORROWED,
        known=estimate.NOT_KNOWN,
        tail=estimate.TAIL,
        table=table(
            "class | from | to | kernels | sources",
            (
                (name, f"{r.low:.2f}", f"{r.high:.2f}", r.points, r.sources)
                for name, r in found.items()
            ),
        ).rstrip(),
        covered=cells((r, estimate.chosen(found, r.kind)) for r in each),
        left_out=cells(estimate.left_out(each)),
    )


def residuals(rows: Sequence[Json]) -> list[Residual]:
    kinds = (Kind(r["limit"], r["order"], r["descriptors"], r["doubt"]) for r in rows)
    return [
        Residual(1 / r["ratio"], kind, r["source"]) for r, kind in zip(rows, kinds, strict=True)
    ]


def ranged(rows: Sequence[Json], left_out: bool) -> dict[str, estimate.Coverage]:
    """Return how well ranges hold, for all kernels and for those of each API."""
    each = residuals(rows)
    own = estimate.fitted(each)
    pairs = (
        estimate.left_out(each) if left_out else ((r, estimate.chosen(own, r.kind)) for r in each)
    )
    by_api: dict[str, list[tuple[Residual, Range]]] = {
        "all": [],
        "older API": [],
        "today's API": [],
    }
    for residual, found in pairs:
        api = "older API" if residual.kind.order == "compiled" else "today's API"
        by_api["all"].append((residual, found))
        by_api[api].append((residual, found))
    return {name: estimate.coverage(own) for name, own in by_api.items()}


def cells(pairs: Iterable[tuple[Residual, Range]]) -> str:
    found = estimate.coverage(pairs)
    return f"{found.share:.1%} | {found.half_width:.1%}"
