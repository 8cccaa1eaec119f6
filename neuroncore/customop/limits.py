"""Limits of libraries of operators, and the costs of their time: `isa/customop.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from neuroncore.machine import FactReader


@dataclass(frozen=True)
class OperatorLimits:
    """Sizes in bytes; tensors have at most `axes` of `axis_elements`, or `long_axes` of more."""

    cores: int
    functions: int
    tcm_bytes: int
    stream_bytes: int
    stack_bytes: int
    printed_bytes: int
    axes: int
    axis_elements: int
    long_axes: int
    long_axis_elements: int

    def allow(self, shape: tuple[int, ...]) -> bool:
        """Return whether a tensor of a shape may be passed or returned."""
        largest = max(shape, default=0)
        return (len(shape) <= self.axes and largest <= self.axis_elements) or (
            len(shape) <= self.long_axes and largest <= self.long_axis_elements
        )


@dataclass(frozen=True)
class Time:
    """The time of one access to HBM, and of one element copied to TCM, used and copied back."""

    touch_ns: float
    tcm_element_ns: float


@cache
def _reader() -> FactReader:
    reader = FactReader.of("customop.toml")
    reader.exactly(reader.raw, ("sources", "limits", "time"), "")
    return reader


@cache
def limits() -> OperatorLimits:
    """Raises DefinitionError if the file is wrong."""
    return _reader().section(OperatorLimits, "limits", _reader().raw["limits"])


@cache
def time() -> Time:
    """Raises DefinitionError if the file is wrong."""
    return _reader().section(Time, "time", _reader().raw["time"])
