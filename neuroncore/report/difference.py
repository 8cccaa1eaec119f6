"""The comparison of two runs: their times, the figures and source lines that changed, and the
probability that the new run is faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from neuroncore.base import display
from neuroncore.base.units import duration, size
from neuroncore.report import pairs
from neuroncore.report.compare import Incomparable, compare
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.time import lines
from neuroncore.time.schedule import Timeline

Array = npt.NDArray[Any]
SCHEMA = "neuroncore.diff/1"
CHANGED = 0.005  # relative difference below which figures count as equal
# The figures that are printed; JSON has all that differ.
SHOWN = (
    *("instruction_count", "matmul_instruction_count", "model_flops"),
    *("dma_transfer_count", "dma_transfer_average_bytes", "hbm_read_bytes", "hbm_write_bytes"),
    *("spill_save_bytes", "spill_reload_bytes"),
    *(f"{name}_engine_active_time" for name in ("tensor", "vector", "scalar", "gpsimd")),
    *("dma_active_time", "sbuf_peak_bytes_per_partition", "psum_peak_bytes_per_partition"),
)


@dataclass(frozen=True)
class Side:
    """One of two runs: the timeline of its slowest core, this core's figures, and the results."""

    kernel: str
    timeline: Timeline
    figures: Mapping[str, Any]
    results: Sequence[Array]


@dataclass(frozen=True)
class Moved:
    """A source line, and its shares of the critical paths of the old and the new run.

    A share is None if the line is not on the path."""

    text: str
    place: str
    old: float | None
    new: float | None


@dataclass(frozen=True, repr=False)
class Difference:
    """The comparison of an old run and a new run.

    `faster`: the probability that the new run is faster, or None if the machines differ.
    `unlike`: the fraction of the work that only one of the runs does (`pairs.unlike`).
    `results`: how the results differ, in words.
    `figures`: the figures that differ, as pairs (old, new).
    `lines`: the shares of the critical paths.
    `answers`: whether the bottlenecks are shown."""

    old: Estimate
    new: Estimate
    names: tuple[str, str]
    targets: tuple[str, str]
    faster: float | None
    unlike: float
    results: str
    figures: Mapping[str, tuple[float, float]]
    lines: Sequence[Moved]
    answers: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return fields for JSON: times in seconds, shares as fractions."""
        fields: dict[str, Any] = {
            "schema": SCHEMA,
            "kernels": list(self.names),
            "targets": list(self.targets),
            "total_time": [self.old.seconds, self.new.seconds],
            "new_is_faster": self.faster,
            "told_apart": self.told_apart,
            "work_that_differs": self.unlike,
            "results": self.results,
            "figures": {name: list(pair) for name, pair in self.figures.items()},
            "lines": [vars(line) for line in self.lines],
        }
        if self.answers:
            fields["bound_by"] = [self.old.bound.what, self.new.bound.what]
        return fields

    @property
    def told_apart(self) -> bool:
        """Return whether it is certain enough which of the two runs is faster
        (`pairs.UNCERTAIN`)."""
        return self.faster is not None and max(self.faster, 1 - self.faster) >= pairs.UNCERTAIN

    def __repr__(self) -> str:
        """Return the text for `print`."""
        return "\n".join(_text(self))

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return display.block(_head(self), *_html(self))


def difference(old: Side, new: Side, answers: bool = True) -> Difference:
    """Compare two runs. If `answers` is True, the comparison shows their bottlenecks."""
    before, after = estimate(old.timeline), estimate(new.timeline)
    machines = old.timeline.machine.name, new.timeline.machine.name
    works = pairs.work(old.timeline), pairs.work(new.timeline)
    same_machine = machines[0] == machines[1]
    return Difference(
        old=before,
        new=after,
        names=(old.kernel, new.kernel),
        targets=machines,
        faster=pairs.faster_core(old.timeline, new.timeline) if same_machine else None,
        unlike=pairs.unlike(*works),
        results=_results(old.results, new.results),
        figures=dict(_figures(old.figures, new.figures)),
        lines=sorted(_lines(old.timeline, new.timeline), key=_how_much, reverse=True),
        answers=answers,
    )


def _results(old: Sequence[Array], new: Sequence[Array]) -> str:
    if not old or not new:
        return "none to compare"
    if len(old) != len(new):
        return f"{len(old)} and {len(new)} arrays"
    kinds = [[(array.dtype, array.shape) for array in results] for results in (old, new)]
    result_pairs = list(zip(old, new, strict=True))
    if kinds[0] == kinds[1] and all(a.tobytes() == b.tobytes() for a, b in result_pairs):
        return "equal bit for bit"
    try:
        largest = max(compare(b, a).rel_l2 for a, b in result_pairs)
    except Incomparable as reason:
        return f"not comparable: {reason}"
    return f"differ: relative L2 error {largest:.3g}"


def _figures(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the names of the figures that differ noticeably, each with (old, new).

    A figure that one run lacks is 0."""
    for name in dict.fromkeys((*old, *new)):
        pair = old.get(name, 0), new.get(name, 0)
        numbers = all(type(value) in (int, float) for value in pair)
        if numbers and abs(pair[1] - pair[0]) > CHANGED * max(map(abs, pair)):
            yield name, pair


def _lines(old: Timeline, new: Timeline) -> Iterator[Moved]:
    """Yield the lines that are on at least one of the critical paths.

    Lines of the two runs count as the same line if their texts are equal."""
    sides = [_shares(timeline) for timeline in (old, new)]
    for text in dict.fromkeys((*sides[0], *sides[1])):
        old_share, new_share = (shares.get(text, ("", None))[1] for shares in sides)
        place = (sides[1].get(text) or sides[0][text])[0]
        yield Moved(text, place, old_share, new_share)


def _shares(timeline: Timeline) -> dict[str, tuple[str, float]]:
    """Return the place and the share of each source line on the critical path, by the line's text.

    Lines with the same text are one entry: the place of the first, and the sum of the shares."""
    shares: dict[str, tuple[str, float]] = {}
    for line in lines.on_the_path(timeline):
        text = line.place.text.strip() or str(line.place)
        place, share = shares.get(text, (line.name, 0.0))
        shares[text] = place, share + line.ns / timeline.total_ns
    return shares


def _how_much(line: Moved) -> float:
    return abs((line.new or 0.0) - (line.old or 0.0))


# --- output ---------------------------------------------------------------------------------------


def _text(comparison: Difference) -> Iterator[str]:
    yield _head(comparison)
    for name, text in _rows(comparison):
        yield f"{name:<11}{text}"
    shown = _shown(comparison)
    if shown:
        yield ""
        yield f"{'figures that differ':<34}{'old':>12}{'new':>12}"
    for name, pair in shown.items():
        yield f"  {name:<32}" + "".join(f"{_figure(name, value):>12}" for value in pair)
    moved = _moved(comparison)
    if moved:
        yield ""
        yield "share of the critical path, old and new"
    for line in moved:
        yield f"  {_share(line.old)} {_share(line.new)}   {line.place:<24}{line.text:.60}"


def _head(comparison: Difference) -> str:
    (old, new), (before, after) = comparison.names, comparison.targets
    return f"{old} -> {new} on {before if before == after else f'{before} -> {after}'}"


def _rows(comparison: Difference) -> Iterator[tuple[str, str]]:
    seconds = comparison.old.seconds, comparison.new.seconds
    change = f"{seconds[1] / seconds[0] - 1:+.1%}" if seconds[0] else ""
    yield "estimate", f"{' -> '.join(duration(s * 1e9) for s in seconds)}   {change}"
    yield "verdict", _verdict(comparison)
    if comparison.answers:
        yield "bound by", f"{comparison.old.bound} -> {comparison.new.bound}"
    yield "results", comparison.results


def _shown(comparison: Difference) -> dict[str, tuple[float, float]]:
    return {name: comparison.figures[name] for name in SHOWN if name in comparison.figures}


def _moved(comparison: Difference) -> list[Moved]:
    return [line for line in comparison.lines if _how_much(line) >= 0.01]


def _html(comparison: Difference) -> Iterator[str]:
    yield display.table(_rows(comparison))
    shown = _shown(comparison).items()
    figures = [(name, *(_figure(name, value) for value in pair)) for name, pair in shown]
    yield display.table(figures, ("figures that differ", "old", "new"))
    lines = [(m.place, _share(m.old), _share(m.new), m.text[:60]) for m in _moved(comparison)]
    yield display.table(lines, ("share of the critical path", "old", "new", ""))


def _verdict(comparison: Difference) -> str:
    if comparison.faster is None:
        return "none: the runs are on different machines"
    if comparison.old.seconds == comparison.new.seconds:
        return "inside the noise: the estimates are equal"
    verb, probability = (
        ("faster", comparison.faster)
        if comparison.faster >= 0.5
        else ("slower", 1 - comparison.faster)
    )
    text = (
        f"new is {verb} with probability {probability:.0%}; {comparison.unlike:.0%} of the work "
        "differs"
    )
    return text if comparison.told_apart else f"inside the noise: {text}"


def _figure(name: str, value: float) -> str:
    if name.endswith("_time"):
        return duration(value * 1e9)
    if "bytes" in name:
        return size(value)
    return f"{value:,.0f}"


def _share(share: float | None) -> str:
    return "   - " if share is None else f"{share:5.0%}"
