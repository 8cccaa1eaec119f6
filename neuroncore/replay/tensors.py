"""The tensors of a replay.

A tensor is made at its first use, and freed after its last use. Snapshots contain copies of
contents. The inputs must have the shapes and formats of the run's inputs. A storage is the memory
of one tensor, and has a number in the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from neuroncore.base.enums import MemoryRegion, engine
from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.core.core import Core
from neuroncore.memory.access import Flags, Gaps
from neuroncore.memory.geometry import Layout
from neuroncore.memory.storage import Memory, Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format, lookup
from neuroncore.record.inputs import Input, Setting
from neuroncore.record.program import Program

InputArrays = Mapping[str, Any] | Sequence[Any] | None


def inputs_in_memory(setting: Setting, arrays: InputArrays, memory: Memory) -> dict[int, Array]:
    """Return the inputs as memory stores them, by number of the storage.

    `arrays`: arrays by name, in the order of the inputs, or separately for each rank; None means
        the inputs in the record

    Raise UsageError if names, shapes or formats differ from the inputs of the run."""
    named = _named(setting, arrays)
    return {item.storage: _stored(item, named[item.name], memory) for item in setting.inputs}


def narrow_inputs(setting: Setting, arrays: InputArrays, memory: Memory) -> dict[int, Array]:
    """Return copies of the inputs that memory stores in a wider format, by number of the storage.
    The copies have the caller's format. `arrays` is as in `inputs_in_memory`."""
    widened = [item for item in setting.inputs if memory.hbm.held(item.dtype) is not item.dtype]
    if not widened:
        return {}
    named = _named(setting, arrays)
    given = {item: np.asarray(named[item.name]).reshape(item.shape) for item in widened}
    return {item.storage: np.array(a, a.dtype.newbyteorder("=")) for item, a in given.items()}


def _named(setting: Setting, arrays: InputArrays) -> Mapping[str, Any]:
    if arrays is None:
        names = [item.name for item in setting.inputs]
        if missing := [name for name in names if name not in setting.arrays]:
            raise UsageError(
                f"the record does not have the values of {missing[0]}: pass the inputs"
            )
        return setting.arrays
    if _is_by_rank(setting, arrays):
        return _named_by_rank(setting, [*arrays])
    return _matched([item.name for item in setting.inputs], arrays, "the record")


def _is_by_rank(setting: Setting, arrays: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Return whether `arrays` consists of inputs for each of several ranks (`per_rank` of
    `neuroncore.run`)."""
    if setting.world.ranks == 1 or isinstance(arrays, Mapping):
        return False
    return all(isinstance(of_rank, list | tuple | Mapping) for of_rank in arrays)


def _named_by_rank(setting: Setting, arrays: Sequence[Any]) -> dict[str, Any]:
    if len(arrays) != setting.world.ranks:
        raise UsageError(
            f"the inputs are for {plural(len(arrays), 'rank')}, but the record has "
            + plural(setting.world.ranks, "rank")
        )
    by_name: dict[str, Any] = {}
    for rank, of_rank in enumerate(arrays):
        inputs = [item for item in setting.inputs if item.rank == rank]
        named = _matched([item.parameter for item in inputs], of_rank, f"rank {rank}")
        by_name |= {item.name: named[item.parameter] for item in inputs}
    return by_name


def _matched(
    names: Sequence[str], arrays: Mapping[str, Any] | Sequence[Any], who: str
) -> Mapping[str, Any]:
    """Return inputs by name, from a dict with the keys `names` or from a sequence.

    Raises UsageError for any other `arrays`. `who`: the owner in messages, such as "rank 0"."""
    if not isinstance(arrays, Mapping):
        if len(arrays) != len(names):
            given = plural(len(arrays), "input")
            raise UsageError(f"got {given}, but {who} has the inputs {', '.join(names)}")
        return dict(zip(names, arrays, strict=True))
    if missing := [name for name in names if name not in arrays]:
        raise UsageError(f"the input {missing[0]} is missing; {who} has {', '.join(names)}")
    if more := [name for name in arrays if name not in names]:
        raise UsageError(f"{more[0]} is not an input of {who}, which has {', '.join(names)}")
    return arrays


def _stored(item: Input, value: Any, memory: Memory) -> Array:
    """Return an array as memory stores the input `item`. Raise UsageError for another shape or
    format."""
    array = np.asarray(value)
    form = lookup(array.dtype)
    if (array.shape or (1,), form) != (item.shape, item.dtype):
        raise UsageError(
            f"the input {item.name} is {array.shape} {form}, but it was {item.shape} {item.dtype} "
            "in the run"
        )
    order = array.dtype.newbyteorder("=")
    return memory.widened(np.ascontiguousarray(array, order).reshape(item.shape), form)


Numbers = dict[int, int]


class Tensors:
    """The tensors of a launch's cores, by the numbers of their storages.

    `inputs`: C-contiguous arrays as memory stores them. Inputs that programs write are copied."""

    def __init__(
        self, cores: Sequence[Core], programs: Sequence[Program], inputs: Mapping[int, Array]
    ) -> None:
        self.cores, self.inputs = cores, inputs
        self.constants = {n: c for p in programs for n, c in p.data.constants.items()}
        self._areas = [program.areas for program in programs]
        self.written = {n for p in programs for n in written_storages(p).tolist()}
        self.roots: dict[int, Tile] = {}  # each existing storage as one tile
        self.kept: set[int] = set()  # the storages of results
        self.owners: dict[int, Core] = {}  # the core whose memory has the tensor
        # the layouts on chip that memory has allocated, and the format in which memory has each
        self._held: dict[Layout, Format] = {}

    def get(self, core: Core, number: int, layout: Layout) -> Tile:
        """Return the storage with this number as one tile.

        New storage is allocated on `core`, or on the rank's first core if its cores share the
        storage. Raise UsageError if memory allocates it with another layout."""
        root = self.roots.get(number)
        if root is None:
            shared = layout.region is MemoryRegion.shared_hbm
            owner = self.cores[core.world.cores_of(core.rank)[0]] if shared else core
            self.owners[number] = owner
            storage = self._create(owner, number, layout)
            if storage.layout is not layout and storage.layout.arguments != layout.arguments:
                raise UsageError(
                    f"the layout of tensor {number} in the record differs from the layout that "
                    "the memory allocates for it"
                )
            root = self.roots[number] = Tile.of(storage)
        return root

    def free(self, number: int) -> None:
        """Free a tensor after its last use, unless it is a result."""
        if number not in self.kept:
            self.roots.pop(number, None)

    def changed(self, number: int) -> Array:
        """Return a flag for each element of an input: whether its bits in memory have changed."""
        return self.roots[number].storage.changed_since(self.inputs[number])

    def _create(self, core: Core, number: int, layout: Layout) -> Storage:
        memory, form = core.memory, layout.dtype
        name, region = self._name(number), layout.region
        content = self.inputs.get(number)
        if content is None and number in self.constants:
            content = np.frombuffer(self.constants[number], np.uint8)
        if content is None:
            return self._allocate(memory, layout, name)
        if content.nbytes != layout.nbytes * layout.spread:
            raise UsageError(
                f"the record has {content.nbytes} bytes of tensor {number}, whose size is "
                f"{layout.nbytes * layout.spread} bytes"
            )
        if number in self.written:
            content = content.copy()
        held = memory.hbm.held(form).storage
        codes = content.reshape(-1).view(np.uint8).view(held).reshape(layout.shape)
        return memory.adopt(region, codes, form, name)

    def _name(self, number: int) -> str:
        """Return the name of a tensor; "" for a tensor whose address the kernel chose."""
        for areas in self._areas:
            if (area := areas.get(number)) is not None and not area.placed:
                return area.name
        return ""

    def _allocate(self, memory: Memory, layout: Layout, name: str) -> Storage:
        held = self._held.get(layout)
        if held is not None:  # a tensor with this layout has been allocated, so it fits
            return memory.new(layout, held, name)
        address = (layout.partition0, layout.byte0) if layout.placed else None
        storage = memory.allocate(layout.region, layout.shape, layout.dtype, name, address)
        if layout.on_chip and not layout.placed and storage.layout is layout:
            self._held[layout] = storage.held
        return storage


def written_storages(program: Program) -> Array:
    """Return the numbers of the storages that a program writes to."""

    def found() -> Array:
        numbers = program.windows().storage
        written = np.zeros(len(numbers), np.bool_)
        written[program.operand_windows()[~program.is_read()]] = True
        return np.unique(numbers[written])

    return cast(Array, program.derived(__name__, found))


def last_uses(program: Program) -> tuple[Array, Array]:
    """Return the last instruction that uses each window, and the last that uses its storage; -1 for
    none."""
    row, storages = program.users(), program.storages()
    window = np.full(len(storages.of_window), -1, np.int64)
    np.maximum.at(window, program.operand_windows(), row)
    last = np.full(len(storages.number), -1, np.int64)
    np.maximum.at(last, storages.of_window, window)
    return window, last[storages.of_window]


@dataclass(frozen=True, eq=False)
class Content:
    """The contents of a storage before a step, in the memory of `core`.

    `data` is empty if the kernel chose the address: `CoreState` then has the whole memory."""

    core: Core
    layout: Layout
    version: int
    data: Array
    gaps: Gaps | None
    other_engine: Flags | None

    def restore(self, storage: Storage) -> None:
        if storage.image is None:
            storage.settled[: len(self.data)] = self.data
        storage.version, storage.greatest = self.version, None
        storage.gaps, storage.other_engine = deepcopy(self.gaps), deepcopy(self.other_engine)


def content(core: Core, storage: Storage) -> Content:
    """Return the current contents of a storage."""
    data = storage.settled.copy() if storage.image is None else np.empty(0, np.uint8)
    gaps, other_engine = deepcopy(storage.gaps), deepcopy(storage.other_engine)
    return Content(core, storage.layout, storage.version, data, gaps, other_engine)


@dataclass(frozen=True, eq=False)
class CoreState:
    """The state of one core before an instruction, without the contents of tensors.

    `images`: the memories in which the kernel chose addresses
    `loaded`: the register values that instructions have loaded, by instruction"""

    row: int
    program_id: int
    loaded: Mapping[int, int]
    accumulators: Mapping[engine, Array]
    generators: Mapping[engine, Array]
    images: Mapping[MemoryRegion, tuple[Array, Gaps]]
    undefined: Any
    findings: int

    @property
    def nbytes(self) -> int:
        return sum(data.nbytes for data, _ in self.images.values())

    def restore(self, core: Core, storages: list[Storage]) -> None:
        """Restore the state of the core. `storages` are the storages to which programs write."""
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
        if self.undefined is None:
            core.undefined = None
        elif core.undefined is not None:
            core.undefined.restore(storages, self.undefined)


def state(core: Core, row: int, loaded: Mapping[int, int], storages: list[Storage]) -> CoreState:
    """Return the state of a core before an instruction. `CoreState` explains `loaded`."""
    images = core.memory.images.items()
    return CoreState(
        row=row,
        program_id=core.program_id,
        loaded=dict(loaded),
        accumulators={unit: registers.copy() for unit, registers in core.accumulators.items()},
        generators={unit: states.copy() for unit, states in core.generators.items()},
        images={region: (image.data.copy(), deepcopy(image.gaps)) for region, image in images},
        undefined=core.undefined.copies(storages) if core.undefined is not None else None,
        findings=len(core.findings),
    )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The complete state before one step. `nbytes`: the bytes that earlier snapshots do not
    share."""

    step: int
    last: int  # the core that was tried last
    contents: Mapping[int, Content]  # by the numbers of storages
    cores: tuple[CoreState, ...]
    issued: Any  # the counters of stochastic rounding, rank by rank
    syncs: Any
    nbytes: int
