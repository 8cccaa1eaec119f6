"""The phase of the Tensor engine's clock, and the times of a run over all phases.

Time is divided into windows of fixed length, and the clock changes its rate only at the ends of
windows. The phase is the fraction of a window that has passed when the first product begins. The
program does not determine the phase, so an estimate assumes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neuroncore.base.units import duration
from neuroncore.time.queues import TENSOR
from neuroncore.time.schedule import Timeline, over_phases

PHASES = 8  # how many phases are tried, at equal distances
ROOM = 20_000  # a launch with more instructions is not scheduled again for each phase


@dataclass(frozen=True)
class ClockPhase:
    """The phase that an estimate uses.

    `assumed`: true if the phase comes from the machine's file, because the program names none.
    `over_all`: the shortest and the longest time of the run in nanoseconds, over several evenly
        spaced phases. It is None for a long program, whose time depends little on the phase."""

    phase: float
    assumed: bool
    over_all: tuple[float, float] | None

    def __str__(self) -> str:
        phase = f"--clock-phase {self.phase:g}{' is assumed' if self.assumed else ''}"
        if self.over_all is None:
            return f"the time depends on when the Tensor engine speeds up ({phase})"
        low, high = map(duration, self.over_all)
        if low == high:
            return f"{low}, whenever the Tensor engine speeds up ({phase})"
        return f"{low} to {high}, depending on when the Tensor engine speeds up ({phase})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the phase for JSON: the phase as a fraction, times in seconds."""
        fields: dict[str, Any] = {"clock_phase": self.phase, "clock_phase_assumed": self.assumed}
        if self.over_all is not None:
            fields["total_time_over_phases"] = [ns / 1e9 for ns in self.over_all]
        return fields


def clock_phase(timeline: Timeline) -> ClockPhase | None:
    """Return the phase that the estimate of a core uses.

    Return None if the machine's clock has no windows, or if the Tensor engine has no work."""
    fixed, named_phase = timeline.machine.fixed, timeline.program.clock_phase
    if not fixed.clock_window_ns or not (timeline.queue == TENSOR).any():
        return None
    phase = fixed.clock_phase if named_phase is None else named_phase
    if sum(map(len, timeline.launch)) > ROOM:
        return ClockPhase(phase, named_phase is None, None)
    times = over_phases(timeline, [(n + 0.5) / PHASES for n in range(PHASES)])
    times.append(timeline.total_ns)
    return ClockPhase(phase, named_phase is None, (min(times), max(times)))


def fields(timeline: Timeline) -> dict[str, Any]:
    """Return the fields of a core's clock phase for JSON; an empty dict if the core has none."""
    phase = clock_phase(timeline)
    return phase.to_dict() if phase is not None else {}
