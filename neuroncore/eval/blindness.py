"""Finds the blind spots of a specification: work that a kernel could leave out and still pass. This
needs a baseline, which is a kernel that passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuroncore.base.errors import NeuronError, UsageError
from neuroncore.base.source import Place
from neuroncore.base.units import plural
from neuroncore.eval import comparison
from neuroncore.eval.examination import examined as check_program
from neuroncore.eval.examination import unpacked
from neuroncore.eval.judge import Case, Hidden
from neuroncore.eval.pool import Pool
from neuroncore.eval.refusals import Refused
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate, Worker
from neuroncore.record.program import Record
from neuroncore.replay.cursor import Replay

TINY = 1e-30  # smaller results are too small for a meaningful comparison


@dataclass(frozen=True)
class Unseen:
    """An instruction of the baseline that has no effect on the verdict: the kernel still passes if
    this instruction writes zeros.

    `instruction`: the name of the instruction
    `place`: its line"""

    instruction: str
    place: Place


@dataclass(frozen=True)
class Blindness:
    """The blind spots of a specification, found with a baseline:

    * `instructions`: the number of instructions of the baseline;
    * `unseen`: the instructions of the baseline that could write zeros without an effect on the
      verdict;
    * `idle_inputs`: the positions of inputs without effect on the reference;
    * `weak_results`: the positions of results of the reference that are constant or tiny.
    """

    instructions: int
    unseen: Sequence[Unseen]
    idle_inputs: Sequence[int]
    weak_results: Sequence[int]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        for blind_spot in self.unseen:
            yield (
                f"line {blind_spot.place.line}: the results pass even if {blind_spot.instruction} "
                "writes zeros: add a family of inputs for which its results matter"
            )
        for number in self.idle_inputs:
            yield f"input {number} has no effect on the reference"
        for number in self.weak_results:
            yield f"result {number} of the reference is constant or tiny"
        yield (
            f"{plural(self.instructions, 'instruction')}, of which {len(self.unseen)} could write "
            f"zeros; {plural(len(self.idle_inputs), 'input')} without effect, "
            f"{plural(len(self.weak_results), 'weak result')}"
        )


def examined(spec: Spec, baseline: Candidate, pool: Pool) -> Blindness:
    """Examine a specification with a baseline, on the first shape. Raise UsageError if the baseline
    does not pass.

    For each instruction, the baseline is replayed, and zeros replace the instruction's results. The
    number of replays is at most the number of instructions times the number of hidden seeds."""
    worker = Worker(spec, pool.level or "process", pool.limits)
    try:
        verdict = worker.verdict(baseline)
        if not verdict["passed"]:
            error = verdict["error"]
            raise UsageError(f"the baseline does not pass: {error['code']}: {error['message']}")
        case = worker.cases[0]
        record = unpacked(worker.records(baseline)[0], spec, len(case.hidden[0].arrays))
        spec_with_secret = worker.spec
    finally:
        worker.close()
    check_program(record, spec)
    unseen = [*_unseen(record, spec, case)]
    instructions = sum(map(len, record.programs))
    return Blindness(instructions, unseen, [*_idle(spec_with_secret, case)], [*_weak(case)])


def _unseen(record: Record, spec: Spec, case: Case) -> Iterator[Unseen]:
    for core, program in enumerate(record.programs):
        lines = program.columns().line
        for row in range(len(program)):
            replays = (_passes_without(record, spec, hidden, core, row) for hidden in case.hidden)
            if all(replays):
                name = program.calls[int(program.columns().call[row])].name
                yield Unseen(name, program.place(int(lines[row])))


def _passes_without(record: Record, spec: Spec, hidden: Hidden, core: int, row: int) -> bool:
    """Return whether the results for one hidden seed are still correct if one instruction writes
    zeros. This is the instruction in row `row` of the record of core `core`."""
    replay = Replay(record, hidden.arrays, snapshots=0)
    try:
        replay.to(row, core)
        execution = replay.executions[core]
        written = [*map(execution.operand, execution.call.writes)]
        if not written:
            return False  # it only waits, or loads a register
        while execution.row == row:
            replay.forward()
        execution.write_zeros(written)
        comparison.errors(replay.results(), spec, hidden.expected)
    except (Refused, NeuronError):
        return False
    return True


def _idle(spec: Spec, case: Case) -> Iterator[int]:
    """Yield the positions of array arguments whose values have no effect on the reference's
    results."""
    seed, family = spec.hidden_seeds(case.shape)[0]
    arguments = spec.arguments(seed, case.shape, family)
    others = spec.arguments(seed + 1, case.shape, family)
    for number, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            continue
        changed = [*_copies(arguments[:number]), others[number], *_copies(arguments[number + 1 :])]
        results = comparison.several(spec.expected(changed))
        pairs = zip(results, case.hidden[0].expected, strict=True)
        if all(np.array_equal(a, b) for a, b in pairs):
            yield number


def _copies(values: Sequence[Any]) -> list[Any]:
    return [value.copy() if isinstance(value, np.ndarray) else value for value in values]


def _weak(case: Case) -> Iterator[int]:
    for number, result in enumerate(case.hidden[0].expected):
        values = result.astype(np.float64)
        if values.size > 1 and (np.ptp(values) == 0 or np.abs(values).max() < TINY):
            yield number
