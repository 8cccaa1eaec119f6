"""Compare two runs: what became faster or slower, on which lines, and how certain that is."""

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
    """One of two runs: its slowest core, that core's figures, and the results."""

    kernel: str
    timeline: Timeline
    figures: Mapping[str, Any]
    results: Sequence[Array]


@dataclass(frozen=True)
class Moved:
    """A source line, and its share of the old and of the new run's critical path; None for a run
    whose path does not have the line."""

    text: str
    place: str
    old: float | None
    new: float | None


@dataclass(frozen=True, repr=False)
class Difference:
    """The comparison of an old run and a new one. `faster` is the probability that the new one is
    faster, or None if the machines differ. `unlike` is the fraction of the work that only one of
    the runs does (`pairs.unlike`). `results` says in words how the results differ. `figures` has
    the figures that differ, as pairs (old, new), and `lines` the shares of the critical paths."""

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
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "kernels": list(self.names),
            "targets": list(self.targets),
            "total_time": [self.old.seconds, self.new.seconds],
            "new_is_faster": self.faster,
            "told_apart": self.told_apart,
            "work_that_differs": self.unlike,
            "results": self.results,
            "figures": {name: list(both) for name, both in self.figures.items()},
            "lines": [vars(line) for line in self.lines],
        }
        if self.answers:
            found["bound_by"] = [self.old.bound.what, self.new.bound.what]
        return found

    @property
    def told_apart(self) -> bool:
        """Return whether the order of the runs is certain enough to be reported
        (`pairs.UNCERTAIN`)."""
        return self.faster is not None and max(self.faster, 1 - self.faster) >= pairs.UNCERTAIN

    def __repr__(self) -> str:
        """Return the text for `print`."""
        return "\n".join(_text(self))

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        return display.block(_head(self), *_html(self))


def difference(old: Side, new: Side, answers: bool = True) -> Difference:
    """Compare two runs. With `answers`, the comparison shows their bottlenecks."""
    before, after = estimate(old.timeline), estimate(new.timeline)
    machines = old.timeline.machine.name, new.timeline.machine.name
    works = pairs.work(old.timeline), pairs.work(new.timeline)
    alike = machines[0] == machines[1]
    return Difference(
        old=before,
        new=after,
        names=(old.kernel, new.kernel),
        targets=machines,
        faster=pairs.faster_core(old.timeline, new.timeline) if alike else None,
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
    kinds = [[(array.dtype, array.shape) for array in each] for each in (old, new)]
    both = list(zip(old, new, strict=True))
    if kinds[0] == kinds[1] and all(a.tobytes() == b.tobytes() for a, b in both):
        return "equal, bit by bit"
    try:
        apart = max(compare(b, a).rel_l2 for a, b in both)
    except Incomparable as reason:
        return f"not comparable: {reason}"
    return f"differ: relative L2 {apart:.3g}"


def _figures(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the names of the figures that differ noticeably, each with the pair (old, new). A
    figure that one run lacks is 0."""
    for name in dict.fromkeys((*old, *new)):
        both = old.get(name, 0), new.get(name, 0)
        numbers = all(type(value) in (int, float) for value in both)
        if numbers and abs(both[1] - both[0]) > CHANGED * max(map(abs, both)):
            yield name, both


def _lines(old: Timeline, new: Timeline) -> Iterator[Moved]:
    """Yield the lines that are on at least one of the critical paths. Lines of the two runs are the
    same line if their texts are equal."""
    found = [_shares(timeline) for timeline in (old, new)]
    for text in dict.fromkeys((*found[0], *found[1])):
        old_share, new_share = (shares.get(text, ("", None))[1] for shares in found)
        place = (found[1].get(text) or found[0][text])[0]
        yield Moved(text, place, old_share, new_share)


def _shares(timeline: Timeline) -> dict[str, tuple[str, float]]:
    """Return the source lines on the critical path by their text: the place of the first line with
    this text, and the share of the path of all such lines together."""
    shares: dict[str, tuple[str, float]] = {}
    for line in lines.on_the_path(timeline):
        text = line.place.text.strip() or str(line.place)
        place, share = shares.get(text, (line.name, 0.0))
        shares[text] = place, share + line.ns / timeline.total_ns
    return shares


def _how_much(line: Moved) -> float:
    return abs((line.new or 0.0) - (line.old or 0.0))


# --- output ---------------------------------------------------------------------------------------


def _text(found: Difference) -> Iterator[str]:
    yield _head(found)
    for name, said in _said(found):
        yield f"{name:<11}{said}"
    shown = _shown(found)
    if shown:
        yield ""
        yield f"{'figures that differ':<34}{'old':>12}{'new':>12}"
    for name, both in shown.items():
        yield f"  {name:<32}" + "".join(f"{_figure(name, value):>12}" for value in both)
    moved = _moved(found)
    if moved:
        yield ""
        yield "share of the critical path, old and new"
    for line in moved:
        yield f"  {_share(line.old)} {_share(line.new)}   {line.place:<24}{line.text:.60}"


def _head(found: Difference) -> str:
    (old, new), (before, after) = found.names, found.targets
    return f"{old} -> {new} on {before if before == after else f'{before} -> {after}'}"


def _said(found: Difference) -> Iterator[tuple[str, str]]:
    seconds = found.old.seconds, found.new.seconds
    change = f"{seconds[1] / seconds[0] - 1:+.1%}" if seconds[0] else ""
    yield "estimate", f"{' -> '.join(duration(s * 1e9) for s in seconds)}   {change}"
    yield "verdict", _sureness(found)
    if found.answers:
        yield "bound by", f"{found.old.bound} -> {found.new.bound}"
    yield "results", found.results


def _shown(found: Difference) -> dict[str, tuple[float, float]]:
    return {name: found.figures[name] for name in SHOWN if name in found.figures}


def _moved(found: Difference) -> list[Moved]:
    return [line for line in found.lines if _how_much(line) >= 0.01]


def _html(found: Difference) -> Iterator[str]:
    yield display.table(_said(found))
    shown = _shown(found).items()
    figures = [(name, *(_figure(name, value) for value in both)) for name, both in shown]
    yield display.table(figures, ("figures that differ", "old", "new"))
    lines = [(m.place, _share(m.old), _share(m.new), m.text[:60]) for m in _moved(found)]
    yield display.table(lines, ("share of the critical path", "old", "new", ""))


def _sureness(found: Difference) -> str:
    if found.faster is None:
        return "none: the runs are on different machines"
    if found.old.seconds == found.new.seconds:
        return "inside the noise: the estimates are equal"
    verb, sure = ("faster", found.faster) if found.faster >= 0.5 else ("slower", 1 - found.faster)
    result = f"{verb} with probability {sure:.0%}, {found.unlike:.0%} of the work differs"
    return result if found.told_apart else f"inside the noise: {result}"


def _figure(name: str, value: float) -> str:
    if name.endswith("_time"):
        return duration(value * 1e9)
    if "bytes" in name:
        return size(value)
    return f"{value:,.0f}"


def _share(share: float | None) -> str:
    return "   - " if share is None else f"{share:5.0%}"
