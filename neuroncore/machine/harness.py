"""Harnesses: the tools that measure kernels, and the time that each tool adds
(`isa/harnesses.toml`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from neuroncore.base.options import HarnessName
from neuroncore.base.units import duration
from neuroncore.machine import Fact, FactReader

NAMES = PROFILE, EXPLORER, BENCHMARK = get_args(HarnessName)


@dataclass(frozen=True)
class HarnessTime:
    """The time of a kernel, and the time that a harness adds, in nanoseconds. `added_ns` is None if
    it is unknown."""

    harness: str
    kernel_ns: float
    added_ns: float | None

    @property
    def total_ns(self) -> float:
        """The time that the harness reports, or the kernel's time if the added time is unknown."""
        return self.kernel_ns + (self.added_ns or 0.0)

    @property
    def parts(self) -> str:
        """The two times as text, such as `13.2 us kernel + 15.1 us of neuron-profile`. If the added
        time is unknown, the text says so."""
        kernel = f"{duration(self.kernel_ns)} kernel"
        if self.added_ns is None:
            return f"{kernel}; the time that {self.harness} adds is unknown"
        return f"{kernel} + {duration(self.added_ns)} of {self.harness}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON. Times are in seconds."""
        added = None if self.added_ns is None else self.added_ns / 1e9
        return {
            "name": self.harness,
            "kernel_time": self.kernel_ns / 1e9,
            "harness_time": added,
            "total_time": self.total_ns / 1e9,
        }

    def __str__(self) -> str:
        return f"{duration(self.total_ns)}: {self.parts}"


def harness_time(harness: str, machine: str, kernel_ns: float) -> HarnessTime:
    """Return the time that a harness would report for a kernel on a machine."""
    fact = overheads(machine).get(harness)
    return HarnessTime(harness, kernel_ns, None if fact is None else 1e3 * fact.value)


def overheads(machine: str) -> dict[str, Fact]:
    """Return the microseconds that each harness adds on a machine, by harness. Raises
    DefinitionError if the file is wrong."""
    facts = _reader().facts
    paths = {name: f"{machine}.{name}" for name in NAMES}
    return {name: facts[path] for name, path in paths.items() if path in facts}


def sources() -> dict[str, str]:
    """Return the sources of the overheads, by the keys that the facts use."""
    sources_by_key: dict[str, str] = _reader().raw["sources"]
    return sources_by_key


@cache
def _reader() -> FactReader:
    reader = FactReader.of("harnesses.toml")
    for name, table in reader.raw.items():
        if name != "sources":
            reader.known(table, NAMES, name)
            reader.numbers(name, table)
    return reader
