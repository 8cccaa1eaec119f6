"""Check the answers of `neuroncore why` by runs and schedules.

    python bench/counterfactuals.py [--records FOLDER]

For every machine, the kernels of kernels/ are run again: on copies of the machine that are changed
as `why` describes, and with source lines that name other engines. Each run must take the time that
`why` predicts. For these kernels, and for the records that bench/calibration/record.py made, every
resource is changed in turn. The bottleneck that `why` names must be the resource whose change saves
the most, unless it is a serial chain. The exit code is 0 if all of this is true.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import neuroncore

neuroncore.activate()

from neuroncore.kernels import ch10_rounding, ch11_model

from neuroncore import machine
from neuroncore.base.source import Place
from neuroncore.frontend.nki.kernel import Kernel
from neuroncore.record.saved import load
from neuroncore.time import lines
from neuroncore.time.changes import RESOURCES, as_it_is
from neuroncore.time.edits import placement
from neuroncore.time.schedule import Timeline, schedule_cores
from neuroncore.time.verdict import bound, outcome

KERNELS = Path(__file__).parents[1] / "kernels"
SAME = 1e-9  # a relative difference that another order of a sum can explain
# Arguments for kernels for which the function `inputs` of their file makes no arguments.
ARGUMENTS: dict[str, Callable[[np.random.Generator], Any]] = {
    "narrowed": lambda rng: (rng.standard_normal((128, 512), np.float32),),
    "trained": lambda rng: ch10_rounding.training_inputs(rng, epochs=2),
    "late": lambda rng: ch11_model.inputs(),
    "early": lambda rng: ch11_model.inputs(),
}
LINES = 5  # the number of lines that are moved to other engines


@dataclass(frozen=True)
class Check:
    """The result for one kernel on one machine: the bottleneck that `why` names, the change that
    saves the most, and the share of the time that each of the two saves. `off` is the largest error
    of a predicted time, relative to that time, among runs on changed machines and runs of edited
    kernels."""

    name: str
    named: str
    best: str
    named_gain: float
    best_gain: float
    off: float

    @property
    def holds(self) -> bool:
        verdict = self.named_gain >= self.best_gain - SAME
        return verdict and self.off <= SAME

    def __str__(self) -> str:
        mark = "" if self.holds else "   <--"
        said = f"{self.named} {self.named_gain:.1%}"
        if self.best != self.named:
            said += f", best {self.best} {self.best_gain:.1%}"
        return f"{self.name:<52} {said:<44} off {self.off:.0e}{mark}"


def slowest(timelines: list[Timeline]) -> Timeline:
    return max(timelines, key=lambda timeline: timeline.total_ns)


def check(
    name: str, timeline: Timeline, again: dict[str, float], moved: Sequence[float] = ()
) -> Check:
    """Return the Check of a kernel. `again` has the times in nanoseconds of runs on changed
    machines, by the resource that was changed. `moved` has the relative errors of the predicted
    times of runs with lines on other engines."""
    base = as_it_is(timeline)
    every = {r.name: outcome(r.change(base), timeline) for r in RESOURCES}
    best, named = max(every.values(), key=lambda one: one.gain), bound(timeline)
    runs = (_off(every[what].timeline, ns) for what, ns in again.items())
    return Check(
        name=name,
        named=named.what,
        best=best.change.what,
        # otherwise a serial chain
        named_gain=every[named.what].gain if named.what in every else best.gain,
        best_gain=best.gain,
        off=max((*moved, *runs), default=0.0),
    )


def _off(foretold: Timeline, ns: float) -> float:
    return abs(ns / foretold.total_ns - 1)


def chapters() -> Iterator[Check]:
    """Yield the checks of the kernels of kernels/ on every machine."""
    for path in sorted(KERNELS.glob("ch*.py")):
        module = importlib.import_module(f"neuroncore.kernels.{path.stem}")
        for name, kernel in vars(module).items():
            if isinstance(kernel, Kernel):
                arguments = ARGUMENTS.get(name, module.inputs)
                for target in machine.names():
                    given = arguments(np.random.default_rng(0))
                    moved = list(elsewhere(path, name, given, target))
                    yield chapter(f"{path.stem}::{name} {target}", kernel, given, target, moved)


def elsewhere(path: Path, name: str, arguments: Any, target: str) -> Iterator[float]:
    """Yield the relative error of the predicted time for each edit that moves one of the costliest
    lines of a kernel to another engine."""
    timeline = slowest(neuroncore.run(_edited(path, name), *arguments, target=target).timelines)
    for line in lines.on_the_path(timeline)[:LINES]:
        for edit in placement.elsewhere(as_it_is(timeline), line):
            if edit.action.startswith("run ") and "engine=" not in line.place.text:
                engine = edit.action.rpartition(" ")[2]
                kernel = _edited(path, name, line.place, f", engine=nisa.engine.{engine.lower()}")
                timelines = neuroncore.run(kernel, *arguments, target=target).timelines
                yield _off(edit.change.scheduled(timeline.core), slowest(timelines).total_ns)


def _edited(path: Path, name: str, place: Place | None = None, words: str = "") -> Kernel:
    """Return a kernel of a file, after `words` were inserted at the end of the call at `place`."""
    text = path.read_text().splitlines()
    if place is not None:
        row, column = place.end_line - 1, place.end_column - 1
        text[row] = text[row][:column] + words + text[row][column:]
    module: dict[str, Any] = {"__name__": path.stem}
    exec(compile("\n".join(text), str(path), "exec"), module)
    found: Kernel = module[name]
    return found


def chapter(
    name: str, kernel: Kernel, arguments: Any, target: str, moved: Sequence[float]
) -> Check:
    timeline = slowest(neuroncore.run(kernel, *arguments, target=target).timelines)
    again: dict[str, float] = {}
    for resource in RESOURCES:
        if not resource.renamed:  # no machine makes the change of such a resource
            changed = resource.machine(timeline.machine)
            with patch("neuroncore.machine.load", return_value=changed):
                timelines = neuroncore.run(kernel, *arguments).timelines
            again[resource.name] = slowest(timelines).total_ns
    return check(name, timeline, again, moved)


def records(folder: Path) -> Iterator[Check]:
    """Yield the checks of the records in a folder, each on the machine for which it was made."""
    for path in sorted(folder.glob("*.record")):
        record = load(path)
        timelines = schedule_cores(record.programs, machine.load(record.about["target"]))
        if any(len(timeline.queue) for timeline in timelines):
            name = f"{record.about['kernel']} {record.about['target']} {path.stem[:6]}"
            yield check(name, slowest(timelines), {})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    found = []
    for one in chain(chapters(), records(given.records) if given.records else ()):
        found.append(one)
        print(one, flush=True)
    held = sum(one.holds for one in found)
    wrong = sum(one.named_gain < one.best_gain - SAME for one in found)
    print(f"{held} of {len(found)} are right")
    print(f"{wrong} name a bottleneck whose change does not save the most")
    return int(held < len(found))


if __name__ == "__main__":
    raise SystemExit(main())
