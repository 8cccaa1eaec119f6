"""Traces of devices next to our estimates, for docs/calibration.md: tables from the JSON of
`bench/traces.py`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from docs.generate.tables import Json, table

NEAR, CLOSE = 0.1, 0.2  # relative errors
FEW = 3  # instructions: the largest difference that counts as close in any case
ESTIMATES = (
    ("own", "of the compiled program's own instructions"),
    ("ours", "of the kernel's source"),
)

TEXT = """
## Traces of devices

`bench/traces.py` compares {count} published traces of {repositories} repositories with two
estimates. Traces and estimates are compared by the time from the beginning of the kernel's first
instruction to the end of its last instruction. The first estimate uses the instructions and the
semaphores of the compiled program (`neuroncore why FILE.neff`). The second estimate uses the source
of the kernel.

{estimates}
For the {attention} traces of attention, the second estimate divided by the measured time is
{share:.3f} in the median. The best value is 1.

The numbers of instructions of Vector, Scalar and GpSimd also agree: in {compute} of {count} traces,
the model's number is within 10 % of the device's number, or differs by at most {few}. These numbers
do not include loads of activation tables and instructions that only wait.

The clock of the Tensor engine can change from one window of time to the next
([estimates.md](estimates.md), *Clock*). The rule of the model for this clock needs the products of
the trace and the beginning of one window. From these two inputs, the rule predicts the measured
clock in {right} of {windows} windows.

In the table of all traces, the name of a trace begins with the account of its repository;
`bench/traces.csv` contains the full names of the repositories. The columns "own instructions" and
"source" contain the two estimates, each divided by the measured time. The columns "products",
"transfers" and "compute" have numbers of instructions: first the device's, then the model's.

<details><summary>All traces</summary>

{rows}
</details>
"""


def traces(found: Json) -> str:
    """Return the section: figures about all traces, and a row for each."""
    each = found["traces"]
    attention = [one for one in each if "fusion" in one["repository"]]
    right, windows = (sum(one["clock"][i] for one in each) for i in (0, 1))
    return TEXT.format(
        count=len(each),
        repositories=len({one["repository"] for one in each}),
        estimates=table(
            "estimate | median error | worst | within 10 % | within 20 %",
            (_errors(text, [one[name] / one["window"] for one in each])
             for name, text in ESTIMATES),
        ),
        attention=len(attention),
        share=median(one["ours"] / one["window"] for one in attention),
        few=FEW,
        compute=sum(_is_close(*one["counts"]["compute"]) for one in each),
        right=right,
        windows=windows,
        rows=table(
            "trace | machine | measured, us | own instructions | source | products | transfers | "
            "compute | windows of the clock",
            map(_row, each),
        ),
    )  # fmt: skip


def _errors(text: str, ratios: Sequence[float]) -> Sequence[object]:
    off = [abs(ratio - 1) for ratio in ratios]
    shares = (f"{sum(e <= limit for e in off)} of {len(off)}" for limit in (NEAR, CLOSE))
    return text, f"{median(off):.1%}", f"{max(off):.1%}", *shares


def _is_close(chip: int, ours: int) -> bool:
    return abs(ours - chip) <= max(FEW, NEAR * chip)


def _row(one: Json) -> Sequence[object]:
    """Return the row of a trace. Counts of instructions are the device's, then the model's."""
    owner, file = one["repository"].split("/")[0], "/".join(one["trace"].split("/")[-2:])
    counts = one["counts"]
    products, transfers = (
        "{}/{}".format(*(sum(counts[kind][side] for kind in kinds) for side in (0, 1)))
        for kinds in (("product", "transpose"), ("load", "store", "DMA"))
    )
    right, windows = one["clock"]
    return (
        f"{owner} {file.removesuffix('.ntff')}", one["machine"], f"{one['window'] / 1e3:.1f}",
        *(f"{one[name] / one['window']:.2f}" for name, _ in ESTIMATES),
        products, transfers, "{}/{}".format(*counts["compute"]),
        f"{right} of {windows}" if windows else "",
    )  # fmt: skip
