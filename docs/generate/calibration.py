"""Write docs/calibration.md, a comparison of estimates with measurements.

    neuroncore score CSV --records FOLDER --by generation --by source --by limit --json > SCORE.json
    python bench/calibration/fit.py CSV --records FOLDER --json FIT.json
    python bench/traces.py CLONES --json TRACES.json
    python docs/generate/calibration.py SCORE.json FIT.json TRACES.json

The tables come from the files, from neuroncore/report/ranges.toml and from
bench/calibration/offsets.toml. The text is in this module.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from neuroncore.report import estimate, measurements
from neuroncore.report.estimate import Kind, Range, Residual

DOCS = Path(__file__).parents[1]
sys.path.append(str(DOCS.parent))

from docs.generate.compiler_rules import RULED, RULES  # noqa: E402
from docs.generate.handouts import handouts  # noqa: E402
from docs.generate.noise import noise  # noqa: E402
from docs.generate.observed import OBSERVED, wrong  # noqa: E402
from docs.generate.traces import traces  # noqa: E402

PAGE = DOCS / "calibration.md"
OFFSETS = DOCS.parent / "bench/calibration/offsets.toml"

Json = dict[str, Any]

HEAD = """\
# Calibration

This page compares the estimates of the cycle model with latencies that other people measured on
Trainium and published. `docs/generate/calibration.py` writes the page.

## Method

The table of measurements has one row for each run of a kernel on one core. The source of each
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

`isa/compilers.toml` has the model of each case, with the reasons.

The file `bench/calibration/offsets.toml` has the known facts about the launches of each harness:
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
  intended share is 80 %.
* *half-width*: half the length of a range, divided by the estimate; the column has the median.
  Smaller is better.

"""

ERRORS = """\

## Errors

The table has the results of `neuroncore score` for all rows, and for groups of rows. The `limit` of
a kernel is the resource that determines most of its estimate:

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
  first number is the number of these pairs in which the estimates have the same order as the
  measurements, and the second number is the number of all these pairs.
"""

RANGES = """\

## Ranges

Every estimate has a range, in which 80 % of measurements are expected. The lower end of a range is
the estimate times a lower factor, and the upper end is the estimate times an upper factor. Each
class of kernels has its own two factors. They are computed from the measured kernels of the class:
for each kernel, the measurement is divided by the estimate. Kernels of one class agree in four
properties:

* the case of the compiler (see [Method](#method)): compiled, scheduled or standalone. For today's
  API, kernels launched by a framework are scheduled, and all others are standalone.
* the certainty of the compiled form: certain or uncertain, as explained below. The compiled form is
  the program into which the compiler turns the kernel.
* the writer of DMA descriptors, as explained below.
* the limit ([see above](#errors)).

The release and the flags of the compiler determine the writer of DMA descriptors:

* *compiler*: the older API's compiler writes the descriptors before the kernel runs. It does so on
  trn1, and on other machines with `--disable-dge`.
* *device*: for all other kernels of the older API, the device writes the descriptors while the
  kernel runs.
* *software*: software writes the descriptors for today's API since NKI 0.5.
* *hardware*: hardware writes the descriptors for today's API before NKI 0.5.

If the upper end of a range is at least {known:g} times the lower end, reports state that the range
is not known, and how long similar kernels took.

Only the older API has uncertain compiled forms, because for today's API the model only reorders
instructions. If the form is uncertain, reports print "low confidence". The form is uncertain in
three cases:

* Tiles are spilled.
* The model leaves out at least {left} of the instructions, because they repeat a load or a
  computation.
* The program has at least {many:,} instructions. The compiler may not have unrolled the loops of
  such a program completely.

The factors of a class are computed from its n sorted ratios. If all ratios have the same weight,
the lower factor is ratio number {tail:g} (n + 1) from the smallest, and the upper factor is ratio
number {tail:g} (n + 1) from the largest. If new kernels are like the measured ones, about a tenth
of their measurements are below their ranges, and about a tenth are above.

A small class has nearly the range of the next wider class, because the ratios of the wider class
are added to the ratios of the small class. The added ratios have a total weight of
{borrowed:.0f} kernels. A kernel from a source with n kernels has the weight 1 / sqrt(n), because
the errors of one source are similar, but not identical.

{table}

| ranges computed from | covered | median half-width |
| --- | ---: | ---: |
| the kernels themselves | {covered} |
| the other sources (cross-validation) | {left_out} |

For your kernel, expect the figures of the second line. A range does not cover behavior that no
measured kernel has.
"""

CHOICES = """\

## Evidence for the model

Most costs in the model come from documentation, or from measurements of single instructions. The
command `neuroncore machines trn2` prints each cost with its source.

The rest of the model was inferred from the latencies of whole kernels. This page calls each
inferred number or rule a *choice*. The choices are listed in `choices.toml` and `choices.py` of
`bench/calibration/`. They are of four kinds:

* numbers of the machines,
* how far compilers reorder instructions,
* which instructions compilers leave out,
* the overhead of harnesses.

`fit.py` changes one choice at a time, from the value in use to the default value. If this makes the
mean error of a source's estimates larger by {shown:.1%} or more, the source supports the choice. If
it makes the mean error smaller by {shown:.1%} or more, the source is against the choice.

In cross-validation, the kernels of a source are estimated with the values that fit all other
sources. This page says that the other sources *choose* these values. They choose the default value
of a number or rule, unless another value gives a smaller error for their kernels.

Some rules are in use whatever the latencies say, and cross-validation always uses them. For these
rules, there is other evidence: public compiled programs, traces, profiles or compilers' logs of two
authors show the rule. The column "supported by" names the authors' repositories after the word
"programs".

In the table, names of numbers are in code font. Numbers of a machine (trn1, trn2) are in
`isa/machines/`, and numbers of a compiler's order (scheduled, compiled) are in
`isa/compilers.toml`. The numbers of an order mean:

* `window`: an engine starts the first of its next `window` instructions that is ready.
* `transfers`: a queue of DMAs starts the first of its next `transfers` transfers that is ready.
* `stores_in_flight`: at most this many stores are in flight; 0 means any number.
* `by_first_use`: if "yes", loads are in the order in which the kernel uses their data.

The column "others choose" is about cross-validation. It has each value that the other sources chose
and, in brackets, how often they chose this value. (Each source is left out once, so the numbers in
brackets add up to the number of sources.)
"""

WEAK = """\

The rules below have little support: each rule improves the estimates of at most one source, and
compiled programs of two authors do not show it. The table above names the other evidence for each
rule. All of these rules are in use, and without them some estimates would change.

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
            noise(score["rows"], table),
            stated(score["rows"]),
            CHOICES.format(shown=fit["shown from"]),
            "\n",
            chosen(fit["choices"]),
            RULED,
            "\n",
            table("rule | order | supported by", RULES),
            WEAK,
            weak(fit["choices"]),
            HARNESSES,
            "\n",
            harnesses(),
            handouts(score["rows"], table),
            traces(traced, table),
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


def chosen(choices: Sequence[Json]) -> str:
    """Return the table of choices: their support, and the choices in cross-validation."""

    def sources(names: Sequence[str]) -> str:
        listed = ", ".join(names)
        return f"{listed} (one source)" if len(names) == 1 else listed or "no source"

    def support(c: Json) -> str:
        shown = f"programs: {', '.join(c['programs'])}" if c["programs"] else ""
        return "; ".join(filter(None, (sources(c["shown by"]), shown)))

    return table(
        "machine or order | choice | in use | default | supported by | against | others choose",
        (
            (
                c["of"],
                f"`{c['name']}`" if c["kind"] in ("number", "policy") else c["name"],
                value(c["in use"]),
                value(c["without"]),
                "" if c["in use"] == c["without"] else support(c),
                ", ".join(c["against"]),
                ", ".join(f"{value(v)} ({count})" for v, count in c["chosen"]),
            )
            for c in choices
        ),
    )


def weak(choices: Sequence[Json]) -> str:
    """Return the list of the rules in use that at most one source supports."""
    return "".join(
        f"* {c['name']}: supported by {', '.join(c['shown by']) or 'no source'}"
        + (f", against: {', '.join(c['against'])}" if c["against"] else "")
        + f". {without_each(c['chosen'])}\n"
        for c in choices
        if c["kind"] == "rule"
        and c["in use"] != c["without"]
        and len(c["shown by"]) < 2
        and not c["programs"]
    )


def without_each(chosen: Sequence[tuple[Any, int]]) -> str:
    """Return what the other sources choose if each source is left out once."""
    count = sum(n for _, n in chosen)
    each = ", ".join(f"{value(v)} ({n} of {count})" for v, n in chosen)
    return f"When each of {count} sources was left out in turn, the other sources chose {each}."


def value(of: Any) -> str:
    return {True: "yes", False: "no"}[of] if isinstance(of, bool) else f"{of:g}"


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; columns after the first are numbers."""
    columns = head.split(" | ")
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


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


def cells(pairs: Iterable[tuple[Residual, Range]]) -> str:
    found = estimate.coverage(pairs)
    return f"{found.share:.1%} | {found.half_width:.1%}"


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
    gone = len(score["missing"])
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
