"""The choices of the model and the rules of compilers, with the sources that support them, for
docs/calibration.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docs.generate.compiler_rules import RULED, RULES
from docs.generate.tables import Json, table

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

In cross-validation, each source is left out once, and its kernels are estimated with the values
that fit the other sources. The value of a number or rule is the default, unless another value gives
a smaller error for the kernels of the other sources. This page calls it the value that the other
sources *choose*.

Some rules are always in use, also in cross-validation, whether or not the latencies support them.
There is other evidence for these rules: public compiled programs, traces, profiles or compilers'
logs of two authors show the rule. The column "supported by" names the authors' repositories after
the word "programs".

In the table, names of numbers are in code font. The numbers of machines (trn1, trn2) are in
`isa/machines/`. The numbers that say how a compiler orders instructions (scheduled, compiled) are
in `isa/compilers.toml`:

* `window`: an engine starts the first of its next `window` instructions that is ready.
* `transfers`: a queue of DMAs starts the first of its next `transfers` transfers that is ready.
* `stores_in_flight`: at most this many stores are in flight; 0 means any number.
* `by_first_use`: if "yes", loads are in the order in which the kernel uses their data.

The column "others choose" lists the values that cross-validation used. The number in brackets says
for how many of the left-out sources it used this value, so these numbers add up to the number of
sources.
"""

WEAK = """\

The rules below have little support: each rule improves the estimates of at most one source, and
compiled programs of two authors do not show it. The table above names the other evidence for each
rule. All of these rules are in use, and without them some estimates would change.

"""


def evidence(choices: Sequence[Json], shown: float) -> str:
    """Return the section about choices and rules. A source supports a choice if the default value
    makes its mean error larger by at least `shown`."""
    return "".join(
        (
            CHOICES.format(shown=shown),
            "\n",
            chosen(choices),
            RULED,
            "\n",
            table("rule | order | supported by", RULES),
            WEAK,
            weak(choices),
        )
    )


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
