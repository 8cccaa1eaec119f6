"""Data that instructions use in addition to tiles, so that a program can be executed again.

A Call is a distinct instruction, which equal instructions share. The values of an instruction are
the numbers and registers that its Call leaves open. A key is the tuple of these values, each
followed by its type. Equal keys are stored once, so different values must have different keys."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neuroncore.base.options import Options
from neuroncore.base.source import Place
from neuroncore.machine import Machine
from neuroncore.machine.world import ALONE, World
from neuroncore.memory.register import OPERATIONS, VirtualRegister
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format
from neuroncore.record.columns import ANYWHERE, Written

Array = npt.NDArray[Any]


NUMBERS = {
    kind.__name__: kind
    for kind in (
        *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64, np.bool_),
    )
}


def is_number(value: Any) -> bool:
    """Return whether a value is a numpy number. JSON contains such a number with its type."""
    return type(value) in NUMBERS.values()


class _NegativeZero:
    """Replaces -0.0 in a key, because in Python -0.0 is equal to 0.0."""

    def __repr__(self) -> str:
        return "-0.0"


NEGATIVE_ZERO = _NegativeZero()


def zero(value: Any) -> Any:
    """Return the part of a key for a zero or False: the value itself, but NEGATIVE_ZERO for
    -0.0."""
    floating = isinstance(value, float | np.floating)
    return NEGATIVE_ZERO if floating and copysign(1, value) < 0 else value


def value_of(part: Any, kind: type[Any]) -> Any:
    """Return the value of type `kind` for a part of a key (the inverse of `zero`)."""
    return kind(-0.0) if part is NEGATIVE_ZERO else part


def _of_plain_types(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key with plain ints and floats for numbers of derived classes (a loop variable, an
    IntEnum). Numpy's numbers stay."""
    pairs: list[Any] = []
    for part, kind in zip(key[::2], key[1::2], strict=True):
        derived = kind not in (int, bool, float, *NUMBERS.values())
        plain = next((base for base in (int, float) if derived and issubclass(kind, base)), kind)
        pairs += [part if plain is kind or part is NEGATIVE_ZERO else plain(part), plain]
    return tuple(pairs)


class RegisterId(NamedTuple):
    """The number of a register in the record, distinguished by its type."""

    number: int


def values_of(key: tuple[Any, ...]) -> list[Any]:
    """Return the values in a key without types. Registers become RegisterIds."""
    return [
        RegisterId(value) if kind is VirtualRegister else value_of(value, kind)
        for value, kind in zip(key[::2], key[1::2], strict=True)
    ]


class Leaf(NamedTuple):
    """A tensor in a kernel's results: its storage, its geometry, and the offset of its first
    element."""

    storage: int
    geometry: int
    offset: int


class Input(NamedTuple):
    """An array argument of a launch: name, storage, shape, format and rank. If there are several
    ranks, the name ends with "@" and the rank."""

    name: str
    storage: int
    shape: tuple[int, ...]
    dtype: Format
    rank: int = 0

    def on(self, rank: int) -> Input:
        """Return this input for a rank, with the rank in its name."""
        return self._replace(name=f"{self.name}@{rank}", rank=rank)

    @property
    def parameter(self) -> str:
        """The name of the kernel's parameter."""
        return self.name.removesuffix(f"@{self.rank}")


@dataclass(frozen=True)
class Setting:
    """The settings of a launch."""

    machine: Machine
    options: Options
    grid: tuple[int, ...]
    inputs: tuple[Input, ...]
    arrays: Mapping[str, Array]
    """The values of inputs, by name, in the caller's format; a record may lack them."""
    world: World = ALONE
    """The ranks and cores of the programs, rank by rank. `grid` is the launch grid of each
    rank."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a launch.

    `results`: the kernel's results, with arrays for tensors
    `findings`: the code, message and place of each finding
    `shares`: for each core, the programs of the grid that it ran
    `changed`: the changed array arguments, by position among all array arguments"""

    results: Any
    findings: Sequence[tuple[str, str, Place | None]]
    shares: Sequence[Sequence[int]]
    changed: Mapping[int, Array]


@dataclass
class Data:
    """The data of a program in addition to its instructions. Instructions, lines, windows and
    geometries are given by their numbers in the Program, and storages by their ids. Tables of
    integers are flat; the list below states how many numbers each entry has.

    * `values`: the numbers and registers that instructions have in addition to tiles. All values of
      an instruction are one tuple, in which each value is followed by its type. An instruction
      refers to its tuple by number.
    * `registers` (3 numbers): an operation of `memory.register.OPERATIONS` and its two operands.
      The operands are registers; for a constant, the first is its value; for a load, the first is
      the instruction that loads the register.
    * `branches` (4): the instruction before which Python branched on a register, the register, its
      value, and the line.
    * `places` (2): for each window whose position is only known at run time, the geometry of the
      tile, and its offset without the part that is added at run time.
    * `moves` (5): the position in `places` of a window; the part that its index moves, as in
      `memory.tile.Dynamic` (0: the window, 1: each row, 2: each element); the step and the limit of
      the index; 1 if the index is a register, 0 if it is a tile.
    * `programs` (2): an instruction, and the program of the grid that begins with this instruction.
    * `iterations` (3, in words of 64 bits; `marks` returns the table). An iteration of a parallel
      loop has the instruction before which it begins, the number n of the loop, and the value of
      the loop's variable. The end of the loop has the instruction before which it ends, ~n, and 0.
    * `loop_ends` (1): the instruction before which an iteration of a loop that the device runs
      ends.
    * `carried`: the storages that iterations of parallel loops may share, for example for sums.
    * `constants`: the bytes, by storage, of arrays of the host that are not arguments of the
      kernel.
    * `copies`: the source, by storage, of each tensor that the host copied from the chip.
    * `results`: the kernel's results as tuples, lists and dicts, in which a tensor is a Leaf.
    """

    values: dict[tuple[Hashable, ...], int] = field(default_factory=dict)
    registers: array[int] = field(default_factory=lambda: array("q"))
    branches: array[int] = field(default_factory=lambda: array("q"))
    places: array[int] = field(default_factory=lambda: array("q"))
    moves: array[int] = field(default_factory=lambda: array("q"))
    programs: array[int] = field(default_factory=lambda: array("q"))
    iterations: Written = field(default_factory=Written)
    loop_ends: array[int] = field(default_factory=lambda: array("q"))
    carried: set[int] = field(default_factory=set)
    constants: dict[int, bytes] = field(default_factory=dict)
    _contents: dict[bytes, bytes] = field(default_factory=dict)  # equal constants share bytes
    copies: dict[int, Leaf] = field(default_factory=dict)
    results: Any = None
    skipped: int = 0  # the accesses that the host skipped or resolved, depending on index values

    def marks(self) -> Array:
        """Return `iterations` as a table in the shape [entries, 3]."""
        return np.frombuffer(self.iterations.since(), np.int64).reshape(-1, 3)

    def value(self, key: tuple[Hashable, ...]) -> int:
        """Return the index of a key in `values`. A new key is added."""
        number = self.values.get(key)
        if number is None:
            number = self.values.setdefault(_of_plain_types(key), len(self.values))
        return number

    def derive(self, operation: str, left: int, right: int) -> int:
        """Add a register that an operation computes from `left` and `right`, and return its number.
        For "constant", `left` is the value. For "load", `left` is the instruction that loads."""
        self.registers.extend((OPERATIONS.index(operation), left, right))
        return len(self.registers) // 3 - 1

    def register(self, register: VirtualRegister) -> int:
        """Return the record's number for the current value of a kernel's register. A value without
        a load becomes a constant."""
        if register.load is None:
            return self.derive("constant", register.value, 0)
        return register.load.number

    def moving(self, tile: Tile, geometry: int) -> int:
        """Record the window of a tile whose start is only known at run time. Return the index of
        the new place in `places`. `geometry` is the index of the tile's geometry in the record."""
        number = len(self.places) // 2
        self.places.extend((geometry, tile.offset))
        for move in tile.dynamic:
            kind = 2 if move.picks else int(move.vector)
            by_register = isinstance(move.index, VirtualRegister)
            self.moves.extend((number, kind, move.step, move.limit, int(by_register)))
        return number

    def offsets(self) -> Array:
        """Return the offsets of the windows in `places`, in elements: ANYWHERE, or the fixed part
        if an index picks single elements."""
        if not self.places:
            return np.empty(0, np.int64)
        moves, places = (np.array(table, np.int64) for table in (self.moves, self.places))
        offset = np.full(len(places) // 2, ANYWHERE)
        number, kind = moves.reshape(-1, 5)[:, :2].T
        picks = number[kind == 2]
        offset[picks] = places.reshape(-1, 2)[picks, 1]
        return offset

    def constant(self, storage: Storage) -> None:
        """Record the contents of a storage, which the host has written, as a constant."""
        content = storage.data.tobytes()
        self.constants[storage.id] = self._contents.setdefault(content, content)


def mapped(value: Any, convert: Callable[[Any], Any], applies: Callable[[Any], bool]) -> Any:
    """Return a kernel's result with `convert(value)` for each value where `applies(value)` is
    true."""
    if applies(value):
        return convert(value)
    if isinstance(value, dict):
        return {key: mapped(item, convert, applies) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return like(value, [mapped(item, convert, applies) for item in value])
    return value


def is_tile(value: Any) -> bool:
    return isinstance(value, Tile)


def is_leaf(value: Any) -> bool:
    return isinstance(value, Leaf)


def like(original: Any, items: list[Any]) -> Any:
    """Return a list or tuple of `items` with the type of `original`, possibly a named tuple."""
    make = getattr(type(original), "_make", type(original))
    return make(items)


def leaves(results: Any) -> list[Leaf]:
    """Return all tensors in a kernel's recorded results."""
    found: list[Leaf] = []
    mapped(results, found.append, is_leaf)
    return found
