"""A finished launch: what it returned, and the cores it ran on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from neuroncore.core.core import Core
from neuroncore.findings import Finding
from neuroncore.machine import Machine
from neuroncore.record.data import Input

Array = npt.NDArray[Any]

if TYPE_CHECKING:
    from neuroncore.precision.findings import Precision


@dataclass(eq=False)
class Launch:
    """One finished launch: what it returned and the cores it ran on, with their records."""

    kernel: str
    outputs: Any
    cores: list[Core]
    programs: Sequence[Sequence[int]]  # those of the launch grid that each core ran, in order
    arguments: tuple[Any, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    precision: Precision | None = None  # with Options.precision
    inputs: tuple[tuple[Input, Any], ...] = ()  # and the caller's objects that they were
    named: dict[str, Any] = field(default_factory=dict)
    given: tuple[Array, ...] | None = None  # copies of the inputs as they were, if they were kept

    @property
    def core(self) -> Core:
        """The first core, often the only one."""
        return self.cores[0]

    @property
    def machine(self) -> Machine:
        return self.core.machine
