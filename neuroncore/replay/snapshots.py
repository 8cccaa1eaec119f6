"""The state of a replay before one of its steps, to come back to."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.structs import dataclass
from neuroncore.core.core import Core
from neuroncore.memory.gaps import Flags, Gaps
from neuroncore.memory.geometry import Layout
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array


@dataclass(frozen=True, eq=False)
class Content:
    """The contents of a storage, and the core whose memory it is in. A storage at an address has
    the bytes of its memory."""

    core: Core
    layout: Layout
    version: int
    data: Array
    gaps: Gaps | None
    foreign: Flags | None

    def put_back(self, storage: Storage) -> None:
        if storage.image is None:
            storage.data[: len(self.data)] = self.data
        storage.version, storage.greatest = self.version, None
        storage.gaps, storage.foreign = deepcopy(self.gaps), deepcopy(self.foreign)


def content(core: Core, storage: Storage) -> Content:
    """The current contents of a storage."""
    data = storage.data.copy() if storage.image is None else np.empty(0, np.uint8)
    gaps, foreign = deepcopy(storage.gaps), deepcopy(storage.foreign)
    return Content(core, storage.layout, storage.version, data, gaps, foreign)


@dataclass(frozen=True, eq=False)
class CoreState:
    """The state of one core other than its tensors."""

    row: int
    program_id: int
    loaded: Mapping[int, int]
    accumulators: Mapping[engine, Array]
    generators: Mapping[engine, Array]
    images: Mapping[MemoryRegion, tuple[Array, Gaps]]
    leftovers: Any
    findings: int

    @property
    def nbytes(self) -> int:
        return sum(data.nbytes for data, _ in self.images.values())

    def put_back(self, core: Core, storages: list[Storage]) -> None:
        """Restore a core but for its tensors, which are `storages`."""
        core.program_id = self.program_id
        core.packs.clear()
        for unit, registers in self.accumulators.items():
            core.accumulators[unit][:] = registers
        core.generators = {unit: states.copy() for unit, states in self.generators.items()}
        for region, image in core.memory.images.items():
            if region in self.images:
                image.data[:], image.gaps = self.images[region][0], deepcopy(self.images[region][1])
            else:
                image.gaps = Gaps(image.data.nbytes)
        del core.findings[self.findings :]
        if self.leftovers is None:
            core.leftovers = None
        elif core.leftovers is not None:
            core.leftovers.put_back(storages, self.leftovers)


def state(core: Core, row: int, loaded: Mapping[int, int], storages: list[Storage]) -> CoreState:
    """The state of a core before a row."""
    images = core.memory.images.items()
    return CoreState(
        row=row,
        program_id=core.program_id,
        loaded=dict(loaded),
        accumulators={unit: registers.copy() for unit, registers in core.accumulators.items()},
        generators={unit: states.copy() for unit, states in core.generators.items()},
        images={region: (image.data.copy(), deepcopy(image.gaps)) for region, image in images},
        leftovers=core.leftovers.kept(storages) if core.leftovers is not None else None,
        findings=len(core.findings),
    )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything there is before one step. `nbytes` are those of which no snapshot before it has a
    copy."""

    step: int
    turn: int  # which core goes on
    contents: Mapping[int, Content]  # by the numbers of storages
    cores: tuple[CoreState, ...]
    issued: Any  # of stochastic rounding, rank by rank
    meetings: Any
    nbytes: int
