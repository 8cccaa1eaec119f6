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

from docs.generate.handouts import handouts  # noqa: E402
from docs.generate.observed import OBSERVED, wrong  # noqa: E402
from docs.generate.traces import traces  # noqa: E402

PAGE = DOCS / "calibration.md"
OFFSETS = DOCS.parent / "bench/calibration/offsets.toml"

Json = dict[str, Any]

HEAD = """\
# Calibration

This page compares the estimates of the cycle model with published latencies that others have
measured on Trainium. `docs/generate/calibration.py` writes it.

## Method

A row of the table of measurements has a kernel with published source, its shapes and formats, the
machine, the way it was measured, and the time of one run on one core. Two grades of rows are
used: direct measurements, and direct measurements with a known caveat.
`bench/calibration/record.py` runs each kernel here, unchanged, and saves its record, which is the
list of its instructions without data. `neuroncore score` schedules the record on the machine of
the row. It takes the time from the begin of the first DMA to the end of the last one on the
slowest core, and adds the known overhead of the harness. The error of an estimate is |estimate /
measurement - 1|.

The model does not know which kernel it times. For the older API it models a compiler that reorders
and changes instructions ("compiled"); for today's API it models reordering only ("scheduled"), or
the order of the source for kernels that were compiled without optimizations of the backend
("standalone"). `isa/compilers.toml` has the reasons.

A chain is a set of variants of one kernel that one harness measured.

The tests of nki-library contain expected latencies. Their unit is not stated, only inferred, so no
figure, fit or range uses them.
"""

SUMMARY = """\

## Summary

For a new kernel, expect the first line. It is the result of leave-one-source-out
cross-validation: each source of kernels is left out in turn, and estimated with a model that was
fitted to the other sources ([below](#evidence-for-the-model)). The same follows for the kernels of
each API alone.

"""

ERRORS = """\

## Errors

These are the results of `neuroncore score` for the table. `limit` is the resource on which most
of the estimate is spent: an engine or DMA that is busy for three quarters of the time, or else
the largest part of the critical path. The last two columns are about the ranges of estimates,
which are described below.

"""

ORDER = """\

## Order of variants

For each chain, the table has the rank correlation of estimates and measurements (Spearman, for
three variants or more), and the number of pairs in the right order among those that differ by
more than 10 %.
"""

RANGES = """\

## Ranges

Every estimate has a range that is expected to hold for 80 % of measurements. The range is the
estimate times two factors. They come from the ratios of measurement to estimate for kernels of
the same class: the same compiler's order, which for today's API is the launch path, a certain or
uncertain compiled form, the same writer of descriptors, and the same limit. The writer depends on
the release and the flags of the compiler: with `--disable-dge`, and on trn1, the older API's
compiler writes descriptors before the kernel runs, and otherwise the device writes them; for
today's API it is hardware, or software since NKI 0.5.

If the ends of a range differ by a factor of {known:g} or more, reports say that the range is not
known, and how long similar kernels took.

The form is uncertain (the report says "low confidence") if the model assumes that the older API's
compiler leaves out {left} of the instructions or more (repeated loads, repeated work, copies) or
spills tiles, or if there are more than {many:,} instructions, because the compiler may not have
unrolled the loops that far.

The factors are order statistics: if n ratios with equal weights are sorted, the lower factor is
number {tail:g} (n + 1) from the smallest, and the upper factor is number {tail:g} (n + 1) from the
largest. If new kernels are like these, about a tenth of them are below the range and about a tenth
above it. The ratios of the next wider class are added to those of each class, with the weight of
{borrowed:.0f} kernels in total, so a small class has nearly the range of the wider one. A kernel
from a source with n kernels has the weight 1 / sqrt(n), because the errors of one source are
similar, but not identical.

{table}

| ranges computed from | covered | median half-width |
| --- | ---: | ---: |
| the kernels themselves | {covered} |
| the other sources (cross-validation) | {left_out} |

The half-width is half the length of a range, relative to the estimate. For your kernel, expect the
second line. A range does not cover behavior that no measured kernel has.
"""

CHOICES = """\

## Evidence for the model

Most costs are documented, or were measured on single instructions; `neuroncore machines trn2`
prints each with its source. The others were inferred from whole kernels. They are in
`bench/calibration/`, in `choices.toml` and `choices.py`: numbers of the machines, how far
compilers reorder, what they leave out, and the overhead of harnesses. `fit.py` changes one choice
at a time. A source supports a choice if its estimates are better by {shown:.1%} with the value in
use than with the default value, and is against it if they are worse by as much. For
cross-validation, every source is estimated with the choices of the others: the default value,
unless another value is better. Latencies do not decide about a rule that public compiled programs,
traces, profiles or logs of compilers of two other authors show ("programs"): it is in use.
"""

# Assumed compiler behavior, the order it applies to, and its evidence.
RULES = (
    ("engines and queues of DMAs take the first ready instruction among 32, loads come in the "
     "order of their use", "scheduled", "nki-autotune, nki-moe-megakernel"),
    ("every engine keeps the order of the source; loads come in the order of their use, and "
     "instructions that read nothing run ahead", "standalone",
     "public compile options of nki-library; nki-autotune (one kernel without scheduling)"),
    ("among 128 instructions and 32 transfers", "compiled",
     "autocomp, robertpare17/asst4-trainium; transfers: trainium-kernel-fusion, "
     "also xaviergonzalez/asst4-trainium2"),
    ("repeated loads happen once if the data fit", "compiled", "AccelOpt (counters), autocomp"),
    ("repeated sums of the same tiles, operations with constants and reciprocals are computed "
     "once, in loops that do not change their operands", "compiled",
     "logs of compilers with the passes LICM and ValueNumbering (NeuronMM, "
     "trainium-model-translation, xanderdunn); aws-neuron-sdk, kda-for-trainium, autocomp; "
     "against: AccelOpt's M0203"),
    ("copies without an engine go to Vector or Scalar, the one that ends them first if "
     "instructions begin in the order of the program; on trn1, copies out of PSUM go to Scalar",
     "compiled",
     "AccelOpt (counters); in PSUM: trainium-kernel-fusion, cs149stanfordasst4 (traces on trn2), "
     "kda-for-trainium (counters of bmm on trn2), waahm7/asst4-trainium, Ericcsr/asst4-trainium, "
     "sahiljain01/asst4-trainium (compiled programs on trn1)"),
    ("multiplications and additions with constants go to the one of the two that ends them first "
     "as well",
     "compiled",
     "AccelOpt (counters of silu, adamw), autocomp (layernorm)"),
    ("on trn2 and trn3 a copy out of PSUM is omitted if its readers can read PSUM in no more time",
     "compiled", "trainium-kernel-fusion (profiles; a copy to the rest of a tile stays in its "
     "compiled programs), AccelOpt; not on trn1: AccelOpt (counters of swiglu)"),
    ("small instructions of all iterations of a parallel loop are merged, and the rest of the "
     "loop comes before or after them", "compiled",
     "trainium-kernel-fusion (profiles), autocomp (conv1d), sahiljain01/asst4-trainium (compiled "
     "program); not with "
     "`skip_middle_end_transformations`"),
    ("loads and stores of neighboring iterations of a parallel loop are merged on trn2, up to "
     "512 KiB",
     "compiled", "trainium-kernel-fusion (compiled programs), logs of compilers with the pass "
     "VectorizeDMA (NeuronMM, trainium-model-translation), kda-for-trainium; not with "
     "`skip_middle_end_transformations`: cs149stanfordasst4 (compiled programs)"),
    ("products that are added to a tile in PSUM, and that nothing else reads, accumulate there",
     "compiled", "sahiljain01/asst4-trainium (compiled program, by name), Ericcsr/asst4-trainium, "
     "waahm7/asst4-trainium (compiled programs: results of nl.matmul)"),
    ("a copy within SBUF, between equal formats and of bytes that are next to each other, is "
     "omitted if its readers can read the source",
     "compiled", "cs149stanfordasst4 (traces), Ericcsr/asst4-trainium, sahiljain01/asst4-trainium "
     "(compiled programs)"),
    ("copies of transposes in the same bank are merged, up to 512 columns", "compiled",
     "trainium-kernel-fusion, Ericcsr/asst4-trainium, sahiljain01/asst4-trainium, "
     "waahm7/asst4-trainium (compiled programs)"),
    ("32-bit DMA transposes are loads and products", "compiled", "kda-for-trainium (one source)"),
    ("with `--disable-dge`, descriptors are written before the kernel runs", "compiled",
     "AccelOpt, "
     "kda-for-trainium, rishic3/asst4-trainium2"),
    ("without it GpSimd writes them on trn2, for one load or store at a time; hardware does for "
     "Sync's loads and Scalar's stores of tensors that the kernel writes and reads", "compiled",
     "trainium-kernel-fusion (traces), xaviergonzalez/asst4-trainium2"),
    ("the least recently used tile is spilled, and nothing overlaps with the spill", "compiled",
     "AccelOpt (counters), aws-neuron-sdk"),
)  # fmt: skip
RULED = """\

## Assumed compiler behavior

The table has the rules of `neuroncore/time/`, and the sources that support them. If there is
only one source, there is no other evidence. A single row is not enough for a rule. For example,
in autocomp's sd_attention#3 the compiler seems to fuse the copies to bfloat16 with the
instructions before them (the variant takes as long as the one without copies, and its estimate,
which has them, is 27 % more), but no other kernel shows this.
"""

WEAK = """\

The estimates of at most one source support these rules, and no programs of two authors show them;
the table above has other evidence. The rules are in use, and turning one off changes estimates.

"""

HARNESSES = """\

## Overhead of harnesses

Each machine and way to measure has one number, which is added for all of its rows. A `fitted`
number follows from rows of that harness. The overhead of other harnesses is unknown, and nothing
is added.
"""

REPEAT = """\

## Reproduce it

The table of measurements and the kernels belong to others, and are not part of this repository.
With checkouts of them, run

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
        "of | choice | in use | default | supported by | against | others choose",
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
        + f". In cross-validation over {sum(n for _, n in c['chosen'])} sources, the others choose "
        + f"{', '.join(f'{value(v)} for {n}' for v, n in c['chosen'])}.\n"
        for c in choices
        if c["kind"] == "rule"
        and c["in use"] != c["without"]
        and len(c["shown by"]) < 2
        and not c["programs"]
    )


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
        f"Estimates include the overhead of the harness.{missing}\n\n"
        "<details><summary>All rows</summary>\n\n"
        f"{table(head, map(row, score['rows']))}\n</details>\n"
    )


def main() -> None:
    score, fit, traced = (json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:4])
    PAGE.write_text(page(score, fit, traced), "utf-8")


if __name__ == "__main__":
    main()
