"""Writes docs/calibration.md: how estimates compare with measurements.

    neuroncore score CSV --records FOLDER --by generation --by source --by limit --json > SCORE.json
    python bench/calibration/fit.py CSV --records FOLDER --json FIT.json
    python docs/generate/calibration.py SCORE.json FIT.json

The tables are those of the files, of neuroncore/report/ranges.toml and of
bench/calibration/offsets.toml; the text is here.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from neuroncore.report import ranges
from neuroncore.report.ranges import Kind, Range, Residual

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "calibration.md"
OFFSETS = DOCS.parent / "bench/calibration/offsets.toml"

Json = dict[str, Any]

HEAD = """\
# Calibration

How the estimates of the cycle model compare with latencies that others have measured on Trainium
and published. This page is written by `docs/generate/calibration.py`.

## What is predicted, and how

A row of the table of measurements is a kernel with published source, its shapes and formats, the
machine, the way it was measured, and the time of one run on one core. Two qualities of rows take
part: direct measurements, and direct ones with a known caveat. `bench/calibration/record.py` runs
each kernel here, unchanged, and keeps its record: the instructions that it issued, with no data.
`neuroncore score` schedules the record on the machine of the row, takes the span from the begin
of the first DMA to the end of the last one on the slowest core, and adds what the harness is known
to add. The error of an estimate is |estimate / measurement - 1|.

Nothing in the model knows which kernel it times. What kernels of the older API become is modelled
as a compiler's reordering and more ("compiled"), what those of today's API become as reordering
("scheduled"); `isa/compilers.toml` says why.

Variants of one kernel that one harness measured are a chain. Latencies that nki-library asserts in
its tests are constants, and their unit is inferred: they have a line of their own and take no part
in any other figure, any fit or any range.
"""

SUMMARY = """\

## In short

What a new kernel has to expect is the first line: every source of kernels is left out in turn, and
estimated with what the kernels of the other sources show ([below](#what-estimates-rest-on)).

"""

ERRORS = """\

## Errors

What `neuroncore score` says of the table. `limit` is what the estimate is mostly spent on: an
engine or DMA that is busy for three quarters of the time, else what has most of the critical path.
The last two columns are of the ranges that estimates are reported with, see below.

"""

ORDER = """\

## Order of variants

Within each chain, the rank correlation of estimates and measurements (Spearman, from three variants
on), and how many of the pairs that differ by more than 10 % are in the right order.
"""

RANGES = """\

## Ranges

Every estimate is reported with a range that 80 % of measurements are expected in. It is the
estimate times two factors, from the ratios of measurement to estimate of kernels whose *estimate*
is of the same kind: of the same compiler's order, with a compiled form that is in doubt or not,
mostly spent on the same, on the same machine.

The form is in doubt, and the report says so, where the older API's compiler is taken to leave out
{left} of the instructions or more (what is loaded or made again, copies), to spill tiles, or where
there are more than {many:,} instructions: it need not have unrolled loops as far as that.

The factors are order statistics: of n ratios that count the same, number {tail:g} (n + 1) from
below and from above, which leaves about a tenth of further kernels out on either side if these are
like the ones at hand. A class borrows from the next wider one, which counts as much as
{borrowed:.0f} kernels: a class of few has nearly the range of the wider one. A kernel of a source
of n counts 1 / sqrt(n), for kernels of one source err alike, but not as one.

{table}

| ranges made of | covered | median half-width |
| --- | ---: | ---: |
| the kernels themselves | {covered} |
| the other sources, for each source | {left_out} |

The half-width is half the length of a range, as a part of the estimate. For a kernel of yours
expect the second line. A range says nothing of what no measured kernel does.
"""

CHOICES = """\

## What estimates rest on

Most costs are documented, or were measured on single instructions; `neuroncore machines trn2`
prints each with its source. What whole kernels have shown instead is in `bench/calibration/`, in
`choices.toml` and `choices.py`: numbers of the machines, how far compilers reorder, what they leave
out, what harnesses add. `fit.py` there changes one choice at a time. A source shows it if its
estimates are better by {shown:.1%} with the value in use than with the one that stands without
evidence, and is against it if they are as much worse. Then every source is estimated with what the
others choose: what needs no evidence, unless another value is better.
"""

# What the compilers are taken to do, for which order, and who shows it.
RULES = (
    ("engines take the first that is ready among 32 instructions, transfers in order, loads in the "
     "order of their use", "scheduled", "nki-autotune, nki-moe-megakernel"),
    ("among 128 instructions and 32 transfers", "compiled",
     "autocomp, robertpare17/asst4-trainium; transfers: trainium-kernel-fusion, "
     "xaviergonzalez/asst4-trainium2 too"),
    ("what is loaded again and fits is loaded once", "compiled", "AccelOpt (counters), autocomp"),
    ("sums of the same tiles are made once", "compiled", "aws-neuron-sdk, kda-for-trainium; "
     "against it AccelOpt's M0203"),
    ("copies that name no engine go to Scalar out of PSUM, others to Vector or Scalar, whichever "
     "has less to do", "compiled", "AccelOpt (counters), trainium-kernel-fusion (profiles)"),
    ("so do multiplications and additions of constants", "compiled",
     "AccelOpt (counters of silu, adamw), autocomp (layernorm)"),
    ("a copy out of PSUM is left out on trn2 and trn3 if its readers may read PSUM in no more time",
     "compiled", "trainium-kernel-fusion (profiles), AccelOpt; not on trn1: AccelOpt (counters of "
     "swiglu)"),
    ("copies of transposes that share a bank are one", "compiled",
     "trainium-kernel-fusion (profiles), autocomp"),
    ("32-bit DMA transposes are loads and products", "compiled", "kda-for-trainium (one source)"),
    ("with `--disable-dge` descriptors are written before the kernel runs", "compiled", "AccelOpt, "
     "kda-for-trainium, rishic3/asst4-trainium2"),
    ("without it hardware writes them, of loads and stores one after the other", "compiled",
     "xaviergonzalez/asst4-trainium2, voyager-compiler, trainium-kernel-fusion"),
    ("what has not been used for longest is spilled, with nothing beside it", "compiled",
     "AccelOpt (counters), aws-neuron-sdk"),
)  # fmt: skip
RULED = """\

## What compilers are taken to do

The rules of `neuroncore/compiler/`, and the sources that show them. Where one source does, nothing
else is known. What one row alone shows is no rule: the copies to bfloat16 of autocomp's
sd_attention#3 seem to be written by what makes their source (it takes as long as the variant
without them; its estimate, which has them, is 27 % more), and no other kernel says so.
"""

WEAK = """\

Estimates of one source or of none are better by these rules. What else shows them is above. They
are on: to switch one off changes estimates.

"""

HARNESSES = """\

## What harnesses add

One number for each machine and way to measure, added for all of its rows. `fitted` ones follow from
rows of that harness; what is not listed is not known, and nothing is added for it.
"""

# What is wrong, why, and the rows that show it.
WRONG = (
    (
        "Matrix products of the SDK's tutorial on trn1, but for the last step. They were published "
        "with an older compiler.",
        ("M0337", "M0339", "M0341"),
    ),
    (
        "Transfers of 4 bytes, and of a few: the vector additions of CS149's first steps. What a "
        "DMA queue does with tens of thousands of them is not known; ours overlap too well.",
        ("M0290", "M0291", "M0320"),
    ),
    (
        "Batched products in float32 with K = 64 of the published baseline: the Tensor engine "
        "seems to run at half clock for longer than our warm-up says.",
        ("M0953", "M0989"),
    ),
    (
        "The table doubles every latency of kda-for-trainium, since its profiles show about half "
        "of what one core can need. Two variants of silu and one of a transposed product would fit "
        "as they were reported: their counters of busy engines, too. Counters of two more, of lora "
        "and swiglu, agree with half of what the table has rather than with all of it (0.73 and "
        "0.68 then).",
        ("M1085", "M1087", "M1103", "M1032", "M1094"),
    ),
    (
        "Products of rows that were normalised before take trn2 three to four times as long, while "
        "variants with the same products and buffers of their own are estimated well: 3.7 us for "
        "each product, as if its load began when the one before it had ended.",
        ("M0952", "N0004", "N0005"),
    ),
    (
        "Mamba whose compiler loaded and multiplied again what it could have kept; another release "
        "kept the same (awsdoc/mamba).",
        ("M0203", "M1037"),
    ),
    (
        "Tiles that don't fit into SBUF: the compiler spills. What it spills is estimated, and so "
        "is when.",
        ("M0363", "M0365", "M0367"),
    ),
    (
        "A depthwise convolution of autocomp's: variants with 131,072 instructions on three "
        "elements each. The compiler must have made fewer of them: the fastest takes 3.5 ns for "
        "each, which no engine can.",
        ("M0271", "M0272", "M0273"),
    ),
    (
        "Attention of nki-moe-megakernel on trn3: chains of short Vector instructions, which seem "
        "to take less there.",
        ("M1485", "M1486"),
    ),
    (
        "The baseline of rope on trn1, which the Vector engine bounds: its copies of half of the "
        "partitions, which are shared out here, seem to be its own there. On trn2 they fit.",
        ("M0090",),
    ),
    (
        "Unfused attention on short sequences: a small kernel with a store and a load between its "
        "parts.",
        ("M1138", "M1140", "M1148"),
    ),
)

REPEAT = """\

## Again

The table of measurements and the kernels are other people's, and not part of this repository; with
checkouts of them

```
python bench/calibration/record.py CSV FOLDER --sources [NAME=]PATH ...    # an hour
neuroncore score CSV --records FOLDER --by generation --by limit           # two minutes
python bench/calibration/ranges.py CSV --records FOLDER                    # writes ranges.toml
python bench/calibration/pairs.py CSV --records FOLDER                     # writes pairs.toml
python bench/calibration/fit.py CSV --records FOLDER --json FIT.json       # ten minutes
```
"""


def page(score: Json, fit: Json) -> str:
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
            table("rule | order | shown by", RULES),
            WEAK,
            weak(fit["choices"]),
            HARNESSES,
            "\n",
            harnesses(),
            "\n## Where the model is known to be wrong\n\n",
            wrong(score["rows"]),
            "\n## Every kernel\n\n",
            kernels(score),
            REPEAT,
        )
    )


def summary(rows: Sequence[Json], fit: Json) -> str:
    """The errors of sources that are left out, and of the model as it is, with its ranges."""
    each = residuals(rows)
    own = ranges.fitted(each)
    ranged = {
        "left out": ranges.coverage(ranges.left_out(each)),
        "in use": ranges.coverage((r, ranges.chosen(own, r.kind)) for r in each),
    }
    names = {"left out": "each source, with what the others show", "in use": "all, as the model is"}
    return table(
        "estimates of | kernels | median error | within 20 % | pairs in order | median Spearman | "
        "in their range | half-width",
        (
            (
                name,
                fit[which]["errors"]["count"],
                *(f"{fit[which]['errors'][k]:.1%}" for k in ("median", "close")),
                f"{fit[which]['order']['accuracy']:.1%}",
                f"{fit[which]['order']['spearman']:.2f}",
                f"{ranged[which].share:.1%}",
                f"{ranged[which].half_width:.1%}",
            )
            for which, name in names.items()
        ),
    )


def chosen(choices: Sequence[Json]) -> str:
    """What each choice rests on, and what the others choose where a source is left out."""

    def sources(names: Sequence[str]) -> str:
        told = ", ".join(names)
        return f"{told} (one source)" if len(names) == 1 else told or "nobody"

    return table(
        "of | choice | in use | without | shown by | against | others choose",
        (
            (
                c["of"],
                f"`{c['name']}`" if c["kind"] in ("number", "policy") else c["name"],
                value(c["in use"]),
                value(c["without"]),
                "" if c["in use"] == c["without"] else sources(c["shown by"]),
                ", ".join(c["against"]),
                ", ".join(f"{value(v)} ({count})" for v, count in c["chosen"]),
            )
            for c in choices
        ),
    )


def weak(choices: Sequence[Json]) -> str:
    """The rules in use that at most one source's estimates show."""
    return "".join(
        f"* {c['name']}: {', '.join(c['shown by']) or 'nobody'}"
        + (f"; against it {', '.join(c['against'])}" if c["against"] else "")
        + f"; of {sum(n for _, n in c['chosen'])} sources left out in turn, the others choose "
        + f"{', '.join(f'{value(v)} for {n}' for v, n in c['chosen'])}.\n"
        for c in choices
        if c["kind"] == "rule" and c["in use"] != c["without"] and len(c["shown by"]) < 2
    )


def value(of: Any) -> str:
    return {True: "yes", False: "no"}[of] if isinstance(of, bool) else f"{of:g}"


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Markdown; columns after the first one are numbers."""
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
    found = ranges.fitted(each)
    return RANGES.format(
        left=f"{ranges.LEFT_OUT:.0%}".replace("%", " %"),
        many=ranges.MANY,
        borrowed=ranges.BORROWED,
        tail=ranges.TAIL,
        table=table(
            "class | from | to | kernels | sources",
            (
                (name, f"{r.low:.2f}", f"{r.high:.2f}", r.points, r.sources)
                for name, r in found.items()
            ),
        ).rstrip(),
        covered=cells((r, ranges.chosen(found, r.kind)) for r in each),
        left_out=cells(ranges.left_out(each)),
    )


def residuals(rows: Sequence[Json]) -> list[Residual]:
    kinds = (Kind(r["limit"], r["order"], r["generation"], r["doubt"]) for r in rows)
    return [
        Residual(1 / r["ratio"], kind, r["source"]) for r, kind in zip(rows, kinds, strict=True)
    ]


def cells(pairs: Iterable[tuple[Residual, Range]]) -> str:
    found = ranges.coverage(pairs)
    return f"{found.share:.1%} | {found.half_width:.1%}"


def harnesses() -> str:
    return table(
        "machine, measured by | us | grade",
        (
            (f"{h['generation']}, {h['measured_by']}", f"{h['offset_us']:g}", h["grade"])
            for h in tomllib.loads(OFFSETS.read_text("utf-8"))["harness"]
        ),
    )


def wrong(rows: Sequence[Json]) -> str:
    by_id = {r["id"]: r for r in rows}

    def told(ids: Sequence[str]) -> str:
        return ", ".join(f"{i} {by_id[i]['ratio']:.2f}" for i in ids if i in by_id)

    lines = (f"* {text} Estimate over measurement: {told(ids)}.\n" for text, ids in WRONG)
    listed = {i for _, ids in WRONG for i in ids}
    rest = [r for r in rows if r["id"] not in listed and not 0.75 <= r["ratio"] <= 4 / 3]
    others = ", ".join(f"{r['id']} {r['ratio']:.2f}" for r in rest) or "none"
    return f"{''.join(lines)}* Not explained, and outside 0.75 to 1.33: {others}.\n"


def kernels(score: Json) -> str:
    def row(r: Json) -> tuple[object, ...]:
        held = r["low"] <= 1 / r["ratio"] <= r["high"]
        name = f"{r['id']} {r['kernel']}" + (" (spilled)" if r["spilled"] else "")
        return (
            name, r["generation"], f"{r['estimated_us']:.1f}", f"{r['measured_us']:.1f}",
            f"{r['ratio']:.2f}", r["limit"], "" if held else "outside",
        )  # fmt: skip

    head = (
        "kernel | machine | estimate, us | measured, us | ratio | estimate mostly spent on | range"
    )
    gone = len(score["missing"])
    missing = f" {gone} further rows have no record: their kernels do not run here." if gone else ""
    return (
        f"Estimates are with what the harness adds, and are no measurements.{missing}\n\n"
        "<details><summary>All rows</summary>\n\n"
        f"{table(head, map(row, score['rows']))}\n</details>\n"
    )


def main() -> None:
    score, fit = (json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:3])
    PAGE.write_text(page(score, fit), "utf-8")


if __name__ == "__main__":
    main()
