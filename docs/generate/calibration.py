"""Write docs/calibration.md, a comparison of estimates with measurements.

    neuroncore score CSV --records FOLDER --by generation --by source --by limit --json > SCORE.json
    python bench/calibration/fit.py CSV --records FOLDER --json FIT.json
    python bench/traces.py CLONES --json TRACES.json
    python docs/generate/calibration.py SCORE.json FIT.json TRACES.json

The tables come from the files, from neuroncore/report/ranges.toml and from
bench/calibration/offsets.toml. The text is in this module, and in a module for each long section.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from neuroncore.report import measurements

DOCS = Path(__file__).parents[1]
sys.path.append(str(DOCS.parent))

from docs.generate.evidence import evidence  # noqa: E402
from docs.generate.handouts import handouts  # noqa: E402
from docs.generate.noise import noise  # noqa: E402
from docs.generate.observed import OBSERVED, wrong  # noqa: E402
from docs.generate.ranges import ranged, stated  # noqa: E402
from docs.generate.tables import Json, table  # noqa: E402
from docs.generate.traces import traces  # noqa: E402

PAGE = DOCS / "calibration.md"
OFFSETS = DOCS.parent / "bench/calibration/offsets.toml"

HEAD = """\
# Calibration

This page compares the estimates of the cycle model with latencies that other people measured on
Trainium and published. `docs/generate/calibration.py` writes the page.

## Method

The table of measurements contains one row for each run of a kernel on one core. The source of each
kernel is published. A row has:

* the kernel, and the shapes and formats of its arguments,
* the machine,
* the tool and the way of measuring,
* the measured time.

Each row has a grade. This page uses rows of two grades: direct measurements, and direct
measurements with a known caveat.

The estimate of a row is computed in three steps:

1. `bench/calibration/record.py` runs the unchanged kernel on a CPU and saves its record. A record
   is the list of the kernel's instructions, without data.
2. `neuroncore score` schedules the record on the machine of the row. The result is the time from
   the beginning of the first DMA to the end of the last DMA, on the slowest core.
3. `neuroncore score` adds the known overhead of the harness. A harness is the tool that measured
   the kernel.

The error of an estimate is |estimate / measurement - 1|.

The model does not know which kernel it times. It knows only how the kernel was compiled, and
distinguishes three cases:

* *compiled*: a kernel of the older API. Its compiler reorders and changes instructions.
* *scheduled*: a kernel of today's API. Its compiler only reorders instructions.
* *standalone*: a kernel of today's API that was compiled without optimizations of the backend. Its
  instructions keep the order of the source.

`isa/compilers.toml` defines the model of each case, with the reasons.

The file `bench/calibration/offsets.toml` states the known facts about the launches of each harness:
the flags of the compiler, the launch path, and the overhead. For Lonny154/Matmul-Inspector (NKI 0.6
on trn1) this file has two more facts, which the model uses for the seven rows of this source:

* GpSimd writes the descriptors of DMAs, as other authors report for this release.
* If a kernel loads the same bytes repeatedly, the device loads them once. In profiles of
  Matmul-Inspector, the device reads only a quarter of the bytes that the kernel loads. The model
  does not assume this for other kernels of today's API, because no other source shows it. Kernels
  of earlier releases contradict it (KevGomes1403/nki-moe-megakernel and the SDK). The option
  `--loads once` assumes it for other kernels.

Without these two facts, the estimates of the seven rows would be 1.01 to 1.48 times the
measurements, and five of them would be within 20 %. The shares of kernels within 20 % in the
[summary](#summary) would be 0.7 points lower for all kernels, and 3.3 points lower for today's API.

A *chain* is a set of variants of one kernel that one harness measured.

The tests of nki-library contain expected latencies. No figure, fit or range on this page uses
these latencies, because their unit is only inferred, not stated.
"""

SUMMARY = """\

## Summary

For a new kernel, expect the figures of the first line of the table. They result from
cross-validation: each source of kernels is left out in turn, and its kernels are estimated with a
model that was fitted to all other sources ([below](#evidence-for-the-model)). The second line has
the figures of the model in use, which was fitted to all sources. The other lines have the figures
of cross-validation and of the model in use for the kernels of each API alone.

The columns have these figures:

* *median error*: smaller is better.
* *within 20 %*: the share of kernels with an error of at most 20 %. Larger is better.
* *pairs in order* and *median Spearman*: how well estimates order the variants of a kernel
  ([below](#order-of-variants)). Larger is better.
* *in their range*: the share of measurements inside the [range](#ranges) of their estimate. The
  intended share is 80 %. In cross-validation, the ranges are computed from the other sources, but
  the estimates are those of the model in use.
* *half-width*: half the length of a range, divided by the estimate; the column has the median.
  Smaller is better.

"""

ERRORS = """\

## Errors

The table shows the results of `neuroncore score` for all rows, and for groups of rows. The `limit`
of a kernel is the resource that determines most of its estimate:

* If an engine or DMA is busy for at least three quarters of the time, the limit is the resource
  that is busy longest.
* Otherwise the limit is the largest part of the critical path. This part may be latency.

"""

ORDER = """\

## Order of variants

The table has two figures for each chain:

* *Spearman* is the rank correlation of estimates and measurements, for chains of at least three
  variants. The best value is 1.
* *Pairs in order* counts the pairs of variants whose measurements differ by more than 10 %. The
  second number is the number of these pairs. The first number says in how many of them the
  estimates have the same order as the measurements.

The name of a chain begins with a short name of its source: allenkchau is
allenkchau/trainium-kernel-fusion, awsdoc is aws-neuron-sdk, inspector is Lonny154/Matmul-Inspector,
kda is Jerry2423/kda-for-trainium, kev is KevGomes1403/nki-moe-megakernel, nkibench is AccelOpt, and
voyager is Joejoedesu/voyager-compiler. Chains of cs149 are from the repositories of several
students. The [table of all kernels](#all-kernels) uses the same short names.
"""

HARNESSES = """\

## Overhead of harnesses

A harness adds an overhead to the time of the kernel. The table has this overhead for each machine
and harness. All rows of a harness on one machine have the same overhead. The grade `fitted` means
that the overhead was derived from rows of the harness itself. For harnesses that are not in the
table, the overhead is unknown, and nothing is added to the estimate.
"""

REPEAT = """\

## Reproduce it

The table of measurements and the kernels belong to other people, and are not part of this
repository. Check out the kernels, and run

```
python bench/calibration/record.py CSV FOLDER --sources [NAME=]PATH ...    # an hour
neuroncore score CSV --records FOLDER --by generation --by limit           # two minutes
python bench/calibration/ranges.py CSV --records FOLDER                    # writes ranges.toml
python bench/calibration/pairs.py CSV --records FOLDER                     # writes pairs.toml
python bench/calibration/fit.py CSV --records FOLDER --json FIT.json       # ten minutes
```
"""


def page(score: Json, fit: Json, traced: Json) -> str:
    return "".join(
        (
            HEAD,
            SUMMARY,
            summary(score["rows"], fit),
            ERRORS,
            errors(score["errors"]),
            ORDER,
            "\n",
            order(score),
            noise(score["rows"]),
            stated(score["rows"]),
            evidence(fit["choices"], fit["shown from"]),
            HARNESSES,
            "\n",
            harnesses(),
            handouts(score["rows"]),
            traces(traced),
            "\n## Known errors of the model\n\n",
            wrong(score["rows"]),
            OBSERVED,
            "\n## All kernels\n\n",
            kernels(score),
            REPEAT,
        )
    )


def summary(rows: Sequence[Json], fit: Json) -> str:
    """Return the table of errors in cross-validation and with the model in use."""
    names = {
        "left out": "cross-validation: each source, with the model from the others",
        "in use": "all, with the model in use",
    }
    covered = {which: ranged(rows, which == "left out") for which in names}
    lines = [(name, fit[which], covered[which]["all"]) for which, name in names.items()]
    lines += [
        (f"{api}, {'cross-validation' if which == 'left out' else 'with the model in use'}",
         found, covered[which][api])
        for api in ("older API", "today's API")
        for which, found in ((which, fit[which]["by API"][api]) for which in names)
    ]  # fmt: skip
    return table(
        "estimates of | kernels | median error | within 20 % | pairs in order | median Spearman | "
        "in their range | half-width",
        (
            (
                name,
                found["errors"]["count"],
                *(f"{found['errors'][k]:.1%}" for k in ("median", "close")),
                f"{found['order']['accuracy']:.1%}",
                f"{found['order']['spearman']:.2f}",
                f"{hold.share:.1%}",
                f"{hold.half_width:.1%}",
            )
            for name, found, hold in lines
        ),
    )


def errors(groups: Json) -> str:
    return table(
        "kernels | number | median error | within 20 % | in their range | half-width",
        (
            (
                name,
                e["count"],
                *(f"{e[k]:.1%}" for k in ("median", "close", "covered", "half_width")),
            )
            for name, e in groups.items()
        ),
    )


def order(score: Json) -> str:
    rows = [
        (c["name"], c["count"], "-" if c["spearman"] is None else f"{c['spearman']:.2f}",
         f"{c['right']} of {c['pairs']}")
        for c in score["chains"]
    ]  # fmt: skip
    total = score["order"]
    rows.append(
        (f"**all {total['chains']}**", sum(c["count"] for c in score["chains"]),
         f"{total['spearman']:.2f} (median)",
         f"{total['right']} of {total['pairs']}: {total['accuracy']:.1%}")
    )  # fmt: skip
    return table("chain | variants | Spearman | pairs in order", rows)


def harnesses() -> str:
    rows = (
        (f"{one.generation}, {one.measured_by}", f"{one.offset_us:g}", one.grade)
        for one in measurements.harnesses(OFFSETS)
    )
    return table("machine, measured by | us | grade", rows)


def kernels(score: Json) -> str:
    def row(r: Json) -> tuple[object, ...]:
        held = r["low"] <= 1 / r["ratio"] <= r["high"]
        name = f"{r['id']} {r['kernel']}" + (" (spilled)" if r["spilled"] else "")
        return (
            name, r["generation"], f"{r['estimated_us']:.1f}", f"{r['measured_us']:.1f}",
            f"{r['ratio']:.2f}", r["limit"], "" if held else "outside",
        )  # fmt: skip

    head = "kernel | machine | estimate, us | measured, us | ratio | limit | range"
    gone = sum(row["why"] != measurements.UNTRIED for row in score["missing"])
    missing = (
        f" {gone} further rows have no record, because their kernels do not run here."
        if gone
        else ""
    )
    return (
        "Estimates include the overhead of the harness. The ratio is the estimate divided by the\n"
        "measurement. If the measurement is not in the range of its estimate, the last column has\n"
        f'"outside".{missing}\n\n'
        "<details><summary>All rows</summary>\n\n"
        f"{table(head, map(row, score['rows']))}\n</details>\n"
    )


def main() -> None:
    score, fit, traced = (json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:4])
    PAGE.write_text(page(score, fit, traced), "utf-8")


if __name__ == "__main__":
    main()
