"""A measured run, from a device trace or the profiler's JSON.

A measured run has methods and properties of a Run. The times of a Run are estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore import machine as machines
from neuroncore.base.errors import UsageError
from neuroncore.capture import figures, neff, perfetto, printed, trace
from neuroncore.capture.difference import CaptureDifference, CaptureSide, compared
from neuroncore.capture.encoding import decoded
from neuroncore.capture.estimate import estimate
from neuroncore.capture.joining import at_source, matched
from neuroncore.capture.measured import Capture, MeasuredCore, of_trace
from neuroncore.capture.path import place_of
from neuroncore.capture.shown import documents
from neuroncore.capture.why import CaptureWhy, why
from neuroncore.machine import Machine
from neuroncore.machine import instance as instances
from neuroncore.report.arrays import INSTRUCTION
from neuroncore.time.timeline import Timeline

Array = npt.NDArray[Any]

WORKING = "product", "weights", "compute", "table"  # roles of instructions that compute


class Measured:
    """The run of a kernel on a device.

    Its times are measured, while those of a Run are estimates. `summary`, `instructions`, `why`,
    `diff` and `trace` are like a Run's."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture

    @property
    def kernel(self) -> str:
        """The name of the compiled program."""
        return self.capture.program

    @property
    def total_ns(self) -> float:
        """The kernel's time in nanoseconds, without the time that the profiler adds before and
        after it."""
        return self.capture.busiest.window_ns

    @cached_property
    def machine(self) -> Machine | None:
        """The machine of the run; None for an unknown instance."""
        name = self.capture.instance
        if not self.capture.measured:  # an estimate names a machine
            return machines.load(name)
        if not instances.known(name):
            return None
        return machines.load(instances.load(name).chip.machine)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures, with the names and units of the vendor's profiler."""
        return figures.summary(self.capture, self.machine)

    @cached_property
    def instructions(self) -> Array:
        """The kernel's instructions and transfers, core by core, as a structured array.

        The array is like that of `report.arrays.instructions`. The transfers of a core follow its
        instructions."""
        each = [_rows(number, core) for number, core in enumerate(self.capture.cores)]
        return np.concatenate(each) if each else np.zeros(0, INSTRUCTION)

    def why(self, top: int = 5) -> CaptureWhy:
        """Return the busy engines, the statements on the critical path, and the causes of waits."""
        return why(self.capture, top)

    def diff(self, other: Measured | CaptureSide) -> CaptureDifference:
        """Compare this run with another run, or with an estimate (`difference.estimated`)."""
        return compared(self.side, other.side if isinstance(other, Measured) else other)

    @property
    def side(self) -> CaptureSide:
        return CaptureSide.of_capture(self.capture)

    def at_source(self, timeline: Timeline) -> Measured:
        """Return the run with lines of the kernel's source in place of statements.

        `timeline` is the estimate of that kernel."""
        core = self.capture.busiest
        cores = [at_source(core, timeline) if each is core else each for each in self.capture.cores]
        return Measured(replace(self.capture, cores=cores))

    @property
    def matched(self) -> tuple[int, int]:
        """Two counts, only for a run from `at_source`.

        The first one has the computing instructions with a line of the kernel, and the second one
        has all computing instructions."""
        return matched(self.capture.busiest)

    @property
    def is_static(self) -> bool | None:
        """True if all descriptors of the kernel's transfers were written before it ran.

        None for a kernel without transfers."""
        core = self.capture.busiest
        queues = np.unique(core.moves["queue"]).tolist()
        kinds = {figures.kind_of_queue(core, queue) for queue in queues}
        return kinds == {"static"} if kinds else None

    def trace(self, path: Path | str) -> None:
        """Write a timeline of the run for Perfetto. Raises OSError."""
        perfetto.write(self.capture, Path(path))

    def shown(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the cores and the files of the viewer's page (`view.page.of_measured`)."""
        return documents(self.capture, self.summary, self.machine)

    def __repr__(self) -> str:
        return f"<Measured run of {self.kernel} on {self.capture.instance}>"


def load(path: Path | str, program: Path | str | None = None) -> Measured:
    """Read a device trace (.ntff), JSON of `neuron-profile view` (.json), or a compiled program
    (.neff).

    The times of a compiled program are estimated. The names in a trace come from its compiled
    program: `program`, or the file next to the trace with the same name and the suffix .neff. Raise
    UsageError for any other file."""
    path = Path(path)
    if path.suffix == ".json":
        return Measured(printed.load(path))
    if path.suffix == ".neff":
        alone = neff.load(path)
        return Measured(estimate(alone, machines.load(alone.target)))
    recorded = trace.load(path)
    compiled = neff.load(Path(program)) if program is not None else _program_of(path, recorded)
    if compiled is not None and not _belongs(recorded, compiled):
        raise UsageError(f"{program} is not the program of {path}: their instructions differ")
    return Measured(of_trace(recorded, str(path), compiled))


def _program_of(path: Path, recorded: trace.Trace) -> neff.Neff | None:
    """Return the compiled program in the file next to a trace.

    Return None if it can't be read or does not belong to the trace."""
    program = path.with_suffix(".neff")
    try:
        compiled = neff.load(program) if program.is_file() else None
    except UsageError:
        return None
    return compiled if compiled is not None and _belongs(recorded, compiled) else None


def _belongs(recorded: trace.Trace, compiled: neff.Neff) -> bool:
    """Return whether a trace is of this program.

    The program must have every instruction that occurs in the trace, and equal bytes for those that
    compute. The runtime changes other instructions, such as the start of transfers. It also adds
    instructions without a position, which are ignored."""
    programs = {graph.name: graph for graph in compiled.graphs}
    for graph in recorded.graphs:
        program = programs.get(graph.name)
        for engine, stream in graph.streams.items():
            code = program.code.get(engine) if program is not None else None
            own = stream.place >= 0
            places = stream.place[own]
            if code is None or (len(places) and int(places.max()) >= len(code.words)):
                return False
            words, loaded = code.words[places], stream.code[own]
            changed = (words != loaded).any(axis=1)
            different = (*words[changed], *loaded[changed])
            if any(decoded(word.tobytes()).role in WORKING for word in different):
                return False
    return True


def _rows(number: int, core: MeasuredCore) -> Array:
    """Return the rows of a core: its instructions, and then its transfers."""
    kernel, moves = core.kernel, core.moves
    rows = np.zeros(len(kernel) + len(moves), INSTRUCTION)
    rows["core"] = number
    kinds = [core.kind(row) for row in kernel.tolist()]
    starts: Sequence[int] = moves["trigger"].tolist()
    rows["opcode"] = [kind.opcode for kind in kinds] + ["DMA"] * len(moves)
    rows["name"] = [core.names[row] for row in [*kernel.tolist(), *starts]]
    queues = [core.queues[q] if q >= 0 else "" for q in moves["queue"].tolist()]
    rows["queue"] = [core.engine(row) for row in kernel.tolist()] + queues
    rows["place"] = [place_of(core, row) for row in [*kernel.tolist(), *starts]]
    kernel_rows = core.instructions[kernel]
    rows["begin_ns"] = np.concatenate([kernel_rows["begin_ns"], moves["begin_ns"]])
    rows["end_ns"] = np.concatenate([kernel_rows["end_ns"], moves["end_ns"]])
    rows["done_ns"] = rows["end_ns"]
    rows["busy_ns"] = np.concatenate([core.busy_ns[kernel], moves["end_ns"] - moves["begin_ns"]])
    places = np.full(len(core.instructions) + len(moves), -1)
    places[kernel] = np.arange(len(kernel))
    places[len(core.instructions) :] = len(kernel) + np.arange(len(moves))
    events = np.concatenate([kernel, len(core.instructions) + np.arange(len(moves))])
    cause = core.causes.cause[events.astype(np.int64)]
    rows["waited_for"] = np.where(cause >= 0, places[cause], -1)
    rows["critical"][places[core.causes.path]] = True
    return rows
