"""Execute every launch of this process again from its record, and compare the results of launch and
replay.

`install` is for runners of published kernels. After it, a launch raises Unlike if its replay has
other bits. `totals` has the seconds of CPU of launches and of replays, in this thread, and the
number of launches.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from neuroncore.frontend import launch as launching
from neuroncore.frontend import outcome
from neuroncore.frontend.neuronxcc.nki import kernel as older
from neuroncore.frontend.nki import kernel as current
from neuroncore.frontend.outcome import Launch
from neuroncore.numerics.libraries import as_numpy
from neuroncore.record.inputs import Setting
from neuroncore.record.program import Record
from neuroncore.replay.cursor import Replay

totals = {"run": 0.0, "replay": 0.0, "launches": 0}


class Unlike(AssertionError):
    """The results of a replay differ from those of the launch."""


def install() -> None:
    entered: dict[str, Any] = {}
    adopt = outcome.Inputs._adopt

    @functools.wraps(adopt)
    def kept(self: Any, value: Any, name: str) -> Any:
        storage = adopt(self, value, name)
        begun = time.thread_time()
        one, _ = self.entered[-1]
        entered[one.name] = as_numpy(value).copy()
        totals["run"] -= time.thread_time() - begun  # the time of the copy does not count
        return storage

    outcome.Inputs._adopt = kept  # type: ignore[method-assign]
    held = _held(launching.launch, entered)
    for module in (older, current):
        module.launch = held  # type: ignore[attr-defined]


def _held(launch: Callable[..., Launch], entered: dict[str, Any]) -> Callable[..., Launch]:
    @functools.wraps(launch)
    def launched(*args: Any, **kwargs: Any) -> Launch:
        entered.clear()
        begun = time.thread_time()
        run = launch(*args, **kwargs)
        totals["run"] += time.thread_time() - begun
        if all(core.program is not None and not core.program.left_out for core in run.cores):
            check(run, dict(entered))
        return run

    return launched


def check(run: Launch, arrays: dict[str, Any]) -> None:
    """Replay the record of a launch on the arrays `arrays`. Raise Unlike if results or changed
    inputs have other bits than after the launch."""
    programs = [core.program for core in run.cores if core.program is not None]
    inputs = tuple(one for one, _ in run.inputs)
    core = run.core
    setting = Setting(run.machine, core.options, core.grid, inputs, arrays, core.world)
    begun = time.thread_time()
    replay = Replay(Record(programs, {}, setting), snapshots=0)
    results, changed = replay.results(), replay.changed()
    totals["replay"] += time.thread_time() - begun
    totals["launches"] += 1
    for name, value in {one.name: value for one, value in run.inputs}.items():
        wanted = as_numpy(value)
        if not np.array_equal(_bits(changed.get(name, arrays[name])), _bits(wanted)):
            raise Unlike(f"{run.kernel}: after the replay, input {name} differs")
    if leaves(run.outputs):
        for number, (got, wanted) in enumerate(
            zip(leaves(results), leaves(run.outputs), strict=True)
        ):
            if not np.array_equal(_bits(got), _bits(as_numpy(wanted))):
                raise Unlike(f"{run.kernel}: in the replay, result {number} differs")


def leaves(value: Any) -> list[Any]:
    """Return the arrays inside a result, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in leaves(one)]
    return [value] if hasattr(value, "dtype") else []


def _bits(value: Any) -> Any:
    array = np.ascontiguousarray(value)
    return array.reshape(-1).view(np.uint8)
