"""Verification of launches: their records are executed again in the emulator and in the plain
reading, and the results are compared. The plain reading is a second implementation of all
instructions, in plain numpy."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuroncore.base.errors import EmulatorError, UsageError
from neuroncore.base.lazy import Lazy
from neuroncore.base.progress import progress
from neuroncore.frontend import outcome
from neuroncore.frontend.arguments import arrays_in
from neuroncore.frontend.outcome import Launch
from neuroncore.frontend.settings import VERIFY_VARIABLE
from neuroncore.record.program import Record

if TYPE_CHECKING:
    from neuroncore.replay import verification
    from neuroncore.replay.verification import Verdict
else:
    verification = Lazy("neuroncore.replay.verification")


def verify(launches: Sequence[Launch]) -> None:
    """Compare the launches of all ranks with the plain reading, and report the verdict. Raises
    EmulatorError if the results differ."""
    kernel = launches[0].kernel
    try:
        verdict = verdict_of(record_of(launches), [launch.outputs for launch in launches])
    except UsageError as error:  # there is no record, or it is incomplete
        _tell({"kernel": kernel, "not_verified": str(error)}, f"{kernel} is not verified: {error}")
        return
    _tell({"kernel": kernel, **verdict.to_dict()}, f"{kernel} {verdict}")
    if verdict.difference is not None:
        raise EmulatorError(
            f"{kernel}: the emulator {verdict}", hint="run the kernel without --verify to continue"
        )


def verdict_of(record: Record, results: Any) -> Verdict:
    """Return the verdict on a record, which is executed in the emulator and in the plain reading.
    The results of each instruction are compared. The emulator's final results are also compared
    with `results`, the results of the launch itself."""
    comparison = verification.Verification(record)
    with progress(
        lambda: f"verified {comparison.replay.step} of {comparison.instructions:,} instructions"
    ):
        verdict = comparison.run()
        if verdict.difference is None and (arrays := arrays_in(results)):
            verdict = comparison.with_results(
                verdict, arrays, arrays_in(comparison.replay.results())
            )
    return verdict


def record_of(launches: Sequence[Launch]) -> Record:
    """Return the record of all ranks' launches, with their inputs. Raises UsageError if a launch
    has no record."""
    cores = [core for launch in launches for core in launch.cores]
    programs = [core.program for core in cores if core.program is not None]
    if len(programs) < len(cores):
        raise UsageError("a launch without a record (Options.record) can't be verified")
    settings = [
        outcome.setting(rank, launch, *outcome.arrays_of(launch))
        for rank, launch in enumerate(launches)
    ]
    return Record(programs, {"kernel": launches[0].kernel}, outcome.together(settings))


def _tell(line: dict[str, Any], text: str) -> None:
    """Write `text` to standard error. If the variable NEURONCORE_VERIFY names a file, append `line`
    to this file as JSON instead."""
    file = os.environ.get(VERIFY_VARIABLE, "1")
    if file in ("", "0", "1"):
        print(f"neuroncore: {text}", file=sys.stderr)
        return
    with Path(file).open("a") as log:
        log.write(json.dumps(line) + "\n")
