"""A finished launch: its results, and the cores that it ran on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from neuroncore.base.findings import Finding
from neuroncore.base.structs import dataclass
from neuroncore.core.core import Core
from neuroncore.frontend.arguments import Arguments, values_in
from neuroncore.frontend.arrays import as_numpy
from neuroncore.machine import Machine
from neuroncore.record.inputs import Input, Setting

Array = npt.NDArray[Any]

if TYPE_CHECKING:
    from neuroncore.precision.findings import Precision


@dataclass(eq=False)
class Launch:
    """A finished launch: its results and the cores that it ran on, with their records."""

    kernel: str
    outputs: Any
    cores: list[Core]
    programs: Sequence[Sequence[int]]  # of the launch grid, by core, in order
    arguments: tuple[Any, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    precision: Precision | None = None  # with Options.precision
    inputs: tuple[tuple[Input, Any], ...] = ()  # with the caller's objects
    named: dict[str, Any] = field(default_factory=dict)
    given: tuple[Array, ...] | None = None  # copies of the inputs before, if kept

    @property
    def core(self) -> Core:
        """The first core, often the only one."""
        return self.cores[0]

    @property
    def machine(self) -> Machine:
        return self.core.machine


def kept(launch: Launch) -> tuple[Arguments, Arguments | None]:
    """Return the arrays of a launch's arguments after it, and before it if there are copies."""
    used: Arguments = tuple(value for _, value in launch.inputs), {}
    return used, None if launch.given is None else (launch.given, {})


def setting(rank: int, launch: Launch, used: Arguments, given: Arguments | None) -> Setting:
    """Return the settings of a launch, with the arrays of its arguments if there are copies."""
    copies: dict[int, Any] = {}
    if given is not None:
        copies = {id(one): was for one, was in zip(values_in(used), values_in(given), strict=True)}
    core, several = launch.core, launch.core.world.ranks > 1
    inputs, arrays = [], {}
    for one, value in launch.inputs:
        of_rank = one.on(rank) if several else one
        inputs.append(of_rank)
        if id(value) in copies:
            arrays[of_rank.name] = as_numpy(copies[id(value)])
    return Setting(core.machine, core.options, core.grid, tuple(inputs), arrays, core.world)


def together(settings: Sequence[Setting]) -> Setting:
    """Combine the settings of all ranks."""
    inputs = tuple(one for each in settings for one in each.inputs)
    arrays = {name: array for each in settings for name, array in each.arrays.items()}
    return replace(settings[0], inputs=inputs, arrays=arrays)
