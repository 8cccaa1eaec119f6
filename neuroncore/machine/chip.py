"""Chips as data: `isa/chips/<name>.toml`.

Every number has a source, and a grade: documented, measured or assumed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from neuroncore import machine
from neuroncore.base.errors import UsageError
from neuroncore.machine import Fact, FactReader, Machine

NUMBERS = (
    "cores", "dies", "hbm_banks", "hbm_bank_bytes", "hbm_gigabytes_per_s", "dma_engines",
    "host_dma_engines", "cc_cores", "cc_streams", "logical_core_sizes", "inline_compression",
)  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """One package: physical cores, and banks of HBM. Several cores share a bank.

    `host_dma_engines` come in addition to `dma_engines`. `cc_cores` are processors that wait and
    signal for collectives; at most `cc_streams` collectives run at the same time.
    `logical_core_sizes` are the possible numbers of physical cores in a logical core, the default
    first. `inline_compression` is the vendor's text about the compression of data in transfers."""

    name: str
    machine: str
    description: str
    cores: int
    dies: int
    hbm_banks: int
    hbm_bank_bytes: int
    hbm_gigabytes_per_s: float
    dma_engines: int
    host_dma_engines: int
    cc_cores: int
    cc_streams: int
    logical_core_sizes: tuple[int, ...]
    inline_compression: str
    facts: Mapping[str, Fact]
    sources: Mapping[str, str]

    @property
    def core(self) -> Machine:
        """The machine file's description of the chip's cores."""
        return machine.load(self.machine)

    def logical_cores(self, size: int) -> int:
        """Return how many logical cores of `size` physical cores the chip has. Raises UsageError if
        the chip doesn't support this size."""
        if size not in self.logical_core_sizes:
            sizes = " or ".join(map(str, self.logical_core_sizes))
            raise UsageError(
                f"a logical core of {self.description.partition(',')[0]} has {sizes} physical "
                f"cores, not {size}"
            )
        return self.cores // size


@cache
def load(name: str) -> Chip:
    """Return the chip with this name. Raises DefinitionError if its file is wrong."""
    where = f"isa/chips/{name}.toml"
    return parse((machine.isa() / "chips" / f"{name}.toml").read_text("utf-8"), where)


def parse(text: str, where: str) -> Chip:
    """Read a chip from the text of its file; `where` names the file in errors."""
    reader = FactReader(tomllib.loads(text), where)
    reader.exactly(reader.raw, ("name", "machine", "description", "sources", "chip"), "")
    reader.exactly(reader.raw["chip"], NUMBERS, "chip")
    numbers = reader.numbers("chip", reader.raw["chip"])
    numbers["logical_core_sizes"] = tuple(numbers["logical_core_sizes"])
    return Chip(
        name=reader.raw["name"],
        machine=reader.raw["machine"],
        description=reader.raw["description"],
        facts=reader.facts,
        sources=reader.raw["sources"],
        **numbers,
    )
