"""Instructions and new tiles of an iteration, which later iterations can repeat
(`known_iterations`).

The function of an instruction (`issue`) binds and checks its arguments. A repetition does neither,
because its tiles have equal Views (shape, strides, format and memory), and its other arguments are
equal. So the Call is the same, and the record differs only in storages and offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import unpack_from
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import KernelError, NeuronError
from neuroncore.clause.instruction import Call
from neuroncore.core.arguments import plan
from neuroncore.core.binding import NOT_OURS, unexpected
from neuroncore.core.core import Core
from neuroncore.frontend.neuronxcc.nki.results import explain, new
from neuroncore.frontend.neuronxcc.nki.scopes import Running, Sources, sources_of
from neuroncore.frontend.neuronxcc.nki.tracing import NewBlock, NewTile, StorageKind
from neuroncore.memory.storage import Born, Storage
from neuroncore.memory.tile import Tile
from neuroncore.record.columns import birth
from neuroncore.record.inputs import RegisterId, values_of
from neuroncore.record.program import Program

Numbers = npt.NDArray[np.int64]
# kinds of storages: MADE by the iteration; BLOCK, of a block that exists before the iteration;
# FIXED, any other
MADE, BLOCK, FIXED = range(3)
WORD = 8  # bytes of a number in a record


# facts about an instruction: the arguments that are not tiles, whether it accumulates, whether it
# continues a sum, and its place in the source
More = tuple[tuple[tuple[str, Any], ...], bool, bool | None, Born]


class IssuedStep:
    """An instruction of an iteration. For each tile, `operands` has a tuple of:

    `name`: the name of the argument
    `kind`: the kind of the tile's storage (MADE, BLOCK or FIXED)
    `place`: the position among the new storages (MADE), the position among the blocks that exist
        before the iteration (BLOCK), or the storage itself (FIXED)
    `geometry`: the shape, strides and format
    `position`: the position of the offset among the iteration's numbers"""

    def __init__(self, name: str, operands: Sequence[Any], more: More, row: bytes) -> None:
        self.name, self.operands, self.more, self._row = name, operands, more, row
        others, self.accumulates, _, self.site = more
        # the sources (`sources_of`) that are the same in each iteration; None if they are unknown
        self._same = sources_of(None, dict(others))
        self.dst = next((i for i, operand in enumerate(operands) if operand[0] == "dst"), -1)

    def again(self, program: Program) -> Again | None:
        """Return how to repeat the instruction, or None if it can't be repeated."""
        names = [operand[0] for operand in self.operands]
        return _again(program, self._row, names) if self._row and self.dst >= 0 else None

    def sources(self, tiles: Sequence[Tile]) -> Sources:
        """Return the result of `sources_of` for the instruction with these tiles as operands."""
        if self._same is None:
            return None
        sources, written = self._same.copy(), tiles[self.dst].storage
        for (name, *_), tile in zip(self.operands, tiles, strict=True):
            storage, version = tile.storage, 0
            if name != "dst":
                if storage is written:
                    return None
                version = storage.version
            sources[name] = (storage.id, version, tile.offset, tile.geometry)
        return sources


class Again(NamedTuple):
    """How to execute and record an instruction again with other tiles.

    `arguments`: the argument of each parameter
    `slots`: the position of each tile in `arguments`
    `row`: the numbers of the recorded instruction
    `windows`: for each tile in the instruction, the pair (first position in `row`, position of the
        tile among the instruction's operands)"""

    call: Call
    execute: Callable[..., Any]
    arguments: list[Any]
    slots: list[int]
    row: list[int]
    windows: list[tuple[int, int]]


def _again(program: Program, written: bytes, names: list[str]) -> Again | None:
    """Return how to repeat the instruction that is recorded as `written`, whose arguments `names`
    are tiles.

    Return None if the record lacks one of them, or if one is known only at run time."""
    line, index = unpack_from("<ii", written)
    call = program.calls[~index]
    execution, windows = plan(call), [*call.reads, *call.writes]
    if call.dynamic or execution.loads >= 0 or {*names} != {*windows} or call.pack is None:
        return None
    if len(written) != WORD * (1 + 3 * len(windows) + call.has_values):  # several instructions
        return None
    row = [line, index, *unpack_from(f"<{len(written) // WORD - 1}q", written, WORD)]
    arguments = execution.constants.copy()
    if execution.values:
        values = values_of([*program.data.values][row[-1]])
        if any(type(value) is RegisterId for value in values):
            return None
        for slot, number in execution.values:
            arguments[slot] = values[number]
    slots = {call.instruction.parameters[slot].name: slot for slot, _ in execution.tiles}
    places = [(2 + 3 * at, names.index(name)) for at, name in enumerate(windows)]
    return Again(call, execution.run, arguments, [slots[n] for n in names], row, places)


def fault(core: Core, call: Call, error: Exception) -> Exception:
    """Return the error of an instruction in the form that the instruction's function would
    raise."""
    if isinstance(error, NeuronError) and core.undefined is not None:
        core.undefined.refused()
    if isinstance(error, KernelError):
        explain(call.name, error)
    if isinstance(error, NOT_OURS):
        return error
    ours = unexpected(call.instruction, core, error, {})
    ours.__cause__ = error
    return ours


class NewStorage:
    """A tile that each iteration makes: a separate tile, or the tile of a block (`blocks`)."""

    def __init__(self, program: Program, event: Sequence[Any], kind: StorageKind) -> None:
        self._is_block = event[0] is NewBlock
        if self._is_block:
            *self._fields, self._site, self._at = event[1:]
        else:
            *self._fields, self._site = event[1:]
        self.kind = kind
        self._line = -1 if self._site is None else program.line(*self._site)

    def ends_at(self, depth: int) -> bool:
        """Return whether no line can name the tile after an iteration of the loop at `depth` (0:
        outermost)."""
        return not self._is_block or (self._fields[1] is not None and self._fields[1] >= depth)

    def renew(self, core: Core, program: Program, storage: Storage) -> None:
        """Make the tile in a storage that no earlier tile uses any more, without most of the work
        of an allocation. Only the iteration can name the tile."""
        _, _, name, born = self.kind
        if core.undefined is not None:
            core.undefined.forget(storage)
        core.memory.renew(storage, name)
        storage.born = born
        program.births.extend(birth(storage.id, self._line))
        if name:
            program.names[storage.id] = name

    def traced(self, numbers: Sequence[int], number: int) -> NewTile | NewBlock:
        """Return the event that makes this tile in an iteration with these `numbers`. `number` is
        the id of the tile's storage."""
        if not self._is_block:
            region, shape, dtype, name, filled = self._fields
            return NewTile(region, shape, dtype, name, filled, self._site, self.kind, number)
        tensor, depth = self._fields
        return NewBlock(tensor, self._block_of(numbers), depth, self._site, self.kind, number)

    def _block_of(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers[self._at : self._at + self._fields[0].axes])

    def made(self, core: Core, state: Running, numbers: Sequence[int]) -> Storage:
        """Make the tile in the same way as if the kernel made it, and return its storage."""
        core.site = self._site
        return self._block(state, numbers) if self._is_block else self._tile(state)

    def _tile(self, state: Running) -> Storage:
        region, shape, dtype, name, filled = self._fields
        storage = new(shape, dtype, region, name).storage
        if filled is not None:
            state.fills[storage.id] = filled
        return storage

    def _block(self, state: Running, numbers: Sequence[int]) -> Storage:
        tensor, depth = self._fields
        ending = None if depth is None else state.loops[depth]
        storage: Storage = tensor.new_tile(self._block_of(numbers), ending).storage
        return storage


class Limits:
    """The least and the largest value of some numbers of an iteration:

    * the numbers of the guards
    * offsets on the chip, which must stay equivalent to the template's
    * indices of new blocks, which must be in bounds

    `numbers` are the template's. For the first of them, `guards` lists (least, largest). `chip` and
    `blocks` are members of the template's layout."""

    def __init__(
        self,
        numbers: Numbers,
        guards: Sequence[tuple[int, int]],
        chip: Sequence[tuple[int, int]],
        blocks: Sequence[tuple[Any, int, int]],
    ) -> None:
        bounds = [*guards]
        for at, apart in chip:
            first = int(numbers[at]) // apart * apart
            bounds.append((first, first + apart - 1))
        bounds += [(0, size - 1) for tensor, _, _ in blocks for size in tensor.sizes]
        indices = [n for _, begin, end in blocks for n in range(begin, end)]
        self._at = np.array([*range(len(guards)), *(at for at, _ in chip), *indices], np.intp)
        self._low, self._high = np.array(bounds, np.int64).reshape(-1, 2).T

    def hold(self, numbers: Numbers) -> int:
        """Return how many of the first iterations are within the limits. `numbers`: one row per
        iteration."""
        limited = numbers[:, self._at]
        outside = (limited < self._low) | (limited > self._high)
        beyond = np.flatnonzero(outside.any(axis=1))
        return int(beyond[0]) if len(beyond) else len(numbers)
