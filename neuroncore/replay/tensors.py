"""The tensors of a replay: made when an instruction first uses them, and freed after the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import UsageError
from neuroncore.core.core import Core
from neuroncore.memory.geometry import Layout
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.record.program import Program

Numbers = dict[int, int]


class Tensors:
    """The tensors that cores of a launch have, by the numbers that the record has for storages.

    `inputs` are arrays by such numbers, C-contiguous, of formats as memory holds them; they are
    copied if the programs write to them.
    """

    def __init__(
        self, cores: Sequence[Core], programs: Sequence[Program], inputs: Mapping[int, Array]
    ) -> None:
        self.cores, self.inputs = cores, inputs
        self.constants = {n: c for p in programs for n, c in p.data.constants.items()}
        self.names = {n: name for p in programs for n, name in p.called().items()}
        self.written = {int(n) for p in programs for n in _written(p)}
        self.roots: dict[int, Tile] = {}
        self.owners: dict[int, Core] = {}  # in whose memory they are

    def get(self, core: Core, number: int, layout: Layout) -> Tile:
        """The whole of a storage, on a core; shared storage is in the memory of its rank's first
        core.

        Raises UsageError if memory allocates a tensor of this layout differently.
        """
        root = self.roots.get(number)
        if root is None:
            shared = layout.region is MemoryRegion.shared_hbm
            owner = self.cores[core.world.cores_of(core.rank)[0]] if shared else core
            self.owners[number] = owner
            storage = self._made(owner, number, layout)
            if storage.layout.given != layout.given:
                raise UsageError(
                    f"the record has tensor {number} otherwise than memory lays it out"
                )
            root = self.roots[number] = Tile.of(storage)
        return root

    def _made(self, core: Core, number: int, layout: Layout) -> Storage:
        memory, form = core.memory, layout.dtype
        name, region = self.names.get(number, ""), layout.region
        content = self.inputs.get(number)
        if content is None and number in self.constants:
            content = np.frombuffer(self.constants[number], np.uint8)
        if content is None:
            address = (layout.partition0, layout.byte0) if layout.placed else None
            return memory.allocate(region, layout.shape, form, name, address)
        if content.nbytes != layout.nbytes * layout.spread:
            raise UsageError(f"the record has {content.nbytes} bytes of tensor {number}")
        if number in self.written:
            content = content.copy()
        held = memory.hbm.held(form).storage
        codes = content.reshape(-1).view(np.uint8).view(held).reshape(layout.shape)
        return memory.adopt(region, codes, form, name)


def _written(program: Program) -> Array:
    """The numbers of storages that a program writes to."""
    rows, begins = program.raw()
    call = rows[begins[:-1]]
    found = [np.empty(0, np.int64)]
    of_window = program.windows().storage
    for n, one in enumerate(program.calls):
        begin, first = begins[:-1][call == n], 2 + one.inputs
        found += [of_window[rows[begin + first + i]] for i in range(len(one.writes))]
    return np.unique(np.concatenate(found))


def last_uses(program: Program) -> tuple[Array, Array]:
    """The last row that uses each window, and that of each window's storage; -1 for none."""
    columns, numbers = program.columns(), program.windows().storage
    row = np.repeat(np.arange(len(columns.call)), np.diff(columns.start))
    window = np.full(len(numbers), -1, np.int64)
    np.maximum.at(window, program.operand_windows(), row)
    _, same = np.unique(numbers, return_inverse=True)
    last = np.full(same.max(initial=-1) + 1, -1, np.int64)
    np.maximum.at(last, same, window)
    return window, last[same]
