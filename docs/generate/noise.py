"""The noise of measurements, and the kernels in pairs in wrong order, for docs/calibration.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median

from docs.generate.tables import Json, table
from neuroncore.report.score import DIFFERENT, SHORTEST, spearman

Pair = tuple[Json, Json]
ALIKE = 0.01, 0.02, 0.05  # relative differences of measurements that may be noise
MANY = 4  # pairs in wrong order with which a kernel is listed
# rows of kda-for-trainium whose counters contradict the doubled latency (`observed.WRONG`)
DOUBTFUL = "M1032", "M1085", "M1087", "M1094", "M1103"
NOISE = """\

The noise of the measurements does not explain pairs in wrong order. In the chains, {repeated}
kernels were measured more than once with one harness. The measurements of such a kernel differ by
{typical} in the median, and by at most {most}. For {close} of the kernels, they differ by less than
2 %. A pair counts only if its measurements differ by more than {different}.

Noise does affect Spearman, which also depends on the order of variants whose measurements are
nearly equal. The next table shows how much. In this table, variants count as equally fast if their
measurements are within 1 %, 2 % or 5 % of the fastest of them. Any order of the estimates of such
variants counts as right. In the first line of the table, no variants count as equally fast.

{spearman}
Of all pairs, {wrong} are in wrong order, and a few kernels are in most of these pairs. The next
table lists these kernels. If both kernels of a pair are in the table, the pair is counted only for
the kernel that is in more pairs in wrong order. The [known errors](#known-errors-of-the-model) have
the reasons, as far as they are known.

{kernels}
The table of measurements doubles the latencies of Jerry2423/kda-for-trainium, and the counters of
five of these rows contradict the doubled latency (see the
[known errors](#known-errors-of-the-model)).
Without these five rows, {right} of {pairs} pairs are in order: {share}.
"""


def noise(rows: Sequence[Json]) -> str:
    """Return the paragraphs about noise, and about kernels in pairs in wrong order."""
    spreads = sorted(repeated(rows))
    wrong = [pair for pair, right in pairs(rows) if not right]
    kept = [right for _, right in pairs([r for r in rows if r["id"] not in DOUBTFUL])]
    loose = [(f"{alike:.0%}", f"{loosely(rows, alike):.2f}") for alike in (0.0, *ALIKE)]
    return NOISE.format(
        repeated=len(spreads),
        typical=f"{median(spreads):.1%}",
        most=f"{spreads[-1]:.1%}",
        close=sum(spread < 0.02 for spread in spreads),
        different=f"{DIFFERENT:.0%}",
        spearman=table("equally fast within | median Spearman", loose),
        wrong=len(wrong),
        kernels=table("kernel | pairs in wrong order", often(wrong)),
        right=sum(kept),
        pairs=len(kept),
        share=f"{sum(kept) / len(kept):.1%}",
    )


def chains(rows: Sequence[Json]) -> list[list[Json]]:
    """Return the rows of each chain."""
    each = defaultdict(list)
    for row in rows:
        if row["chain"]:
            each[row["chain"]].append(row)
    return list(each.values())


def repeated(rows: Sequence[Json]) -> Iterator[float]:
    """Yield, for each kernel that one harness measured more than once, by which part its largest
    measurement exceeds its smallest one. Rows with equal estimates have equal shapes."""
    for chain in chains(rows):
        groups = defaultdict(list)
        for row in chain:
            groups[row["kernel"], row["estimated_us"]].append(row["measured_us"])
        yield from (max(each) / min(each) - 1 for each in groups.values() if len(each) > 1)


def pairs(rows: Sequence[Json]) -> Iterator[tuple[Pair, bool]]:
    """Yield the pairs of `score.Chain`, and whether each is in order."""
    for chain in chains(rows):
        for a, b in combinations(chain, 2):
            low, high = sorted((a["measured_us"], b["measured_us"]))
            if high > low * (1 + DIFFERENT):
                measured, estimated = (a[k] - b[k] for k in ("measured_us", "estimated_us"))
                yield (a, b), measured * estimated > 0


def loosely(rows: Sequence[Json], alike: float) -> float:
    """Return the median Spearman over the chains, if measurements that differ by little have the
    order of their estimates: measurements that exceed the smallest of a group by at most the part
    `alike`, such as 0.02."""
    found = []
    for chain in chains(rows):
        least, group, keys = 0.0, 0, []
        for row in sorted(chain, key=lambda row: row["measured_us"]):
            if row["measured_us"] > least * (1 + alike):
                least, group = row["measured_us"], group + 1
            keys.append((group, row["estimated_us"] if alike else 0.0, row["estimated_us"]))
        places = {key: k for k, key in enumerate(sorted({key[:2] for key in keys}))}
        measured = [places[key[:2]] for key in keys]
        found.append(
            spearman(measured, [key[2] for key in keys]) if len(chain) >= SHORTEST else None
        )
    return median(value for value in found if value is not None)


def often(wrong: Sequence[Pair]) -> Iterator[tuple[str, int]]:
    """Yield the kernels that are in many of the pairs in wrong order, each with its number of such
    pairs, most pairs first. A pair that was counted for an earlier kernel is not counted again."""
    left = list(wrong)
    while left:
        counts = Counter(f"{row['id']} {row['kernel']}" for pair in left for row in pair)
        name, count = counts.most_common(1)[0]
        if count < MANY:
            break
        yield name, count
        left = [pair for pair in left if name not in (f"{r['id']} {r['kernel']}" for r in pair)]
