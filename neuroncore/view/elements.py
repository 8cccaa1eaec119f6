"""The contents of tiles, as all elements or as thumbnails. The record is executed again to compute
them. A call represents all instructions with the same function and equal arguments."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neuroncore.base.options import Options
from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.numerics.formats import Format
from neuroncore.record.inputs import Setting
from neuroncore.record.program import Program
from neuroncore.report.heat_maps import figures, levels
from neuroncore.report.summary import product
from neuroncore.view.columns import packed, text

Array = npt.NDArray[Any]
# The most that a page stores. Unless the user names steps, values take at most 3 MB of a page: full
# contents in base64, a third more than their bytes, and about 700 bytes for the statistics and the
# thumbnail of each tile.
ROOM = 3 << 19  # bytes of full contents
TILES = 1200  # different tiles
MOST = 6000  # operands
SIDE = 16  # pixels of a thumbnail


class HeldElements(Protocol):
    """The elements of a tile. `unwritten` flags the uninitialized elements, or is None if all
    elements were written."""

    @property
    def elements(self) -> Array: ...
    @property
    def unwritten(self) -> Array | None: ...


class Steps(Protocol):
    """A record that is executed again step by step (`neuroncore.replay`)."""

    @property
    def setting(self) -> Setting: ...

    def tile(
        self, instruction: int, name: str, core: int = 0, *, after: bool = False
    ) -> HeldElements: ...


def values(
    program: Program, steps: Steps, core: int, shown: range, wanted: range | None
) -> dict[str, Any]:
    """Return the contents of the operands of the instructions `shown`: inputs before the
    instruction, outputs after it.

    `tiles`: the different contents
    `of_operand`: for each operand, the number of its contents in `tiles`, from 1; 0 if the operand
        is missing, or if its contents do not fit on the page (MOST, TILES)

    All elements are returned for the instructions `wanted`, and thumbnails for the others. If
    `wanted` is None, all elements are returned for the first instruction of each line, and for as
    many others as fit."""
    start, held = program.columns().start[shown.start : shown.stop + 1], TileTable()
    full = in_full(program, shown) if wanted is None else set(wanted) & set(shown)
    numbers = np.zeros(start[-1] - start[0], np.int64)
    few = int(np.searchsorted(start - start[0], MOST, side="right")) - 1
    for i in sorted(full | set(shown[:few])):
        if i not in full and len(held.tiles) >= TILES:
            continue
        operands = slice(*(start[i - shown.start : i - shown.start + 2] - start[0]))
        numbers[operands] = held.of(program, steps, core, i, i in full)
    return {"of_operand": packed(numbers), **held.document(steps.setting.options)}


def step(program: Program, steps: Steps, core: int, instruction: int) -> dict[str, Any]:
    """Return the contents of the operands of one instruction, with all elements. The fields are
    those of `values`, but `of_operand` is a list."""
    held = TileTable()
    numbers = held.of(program, steps, core, instruction, full=True)
    return {"of_operand": numbers, **held.document(steps.setting.options)}


def in_full(program: Program, shown: range) -> set[int]:
    """Return the instructions whose operands are shown with all elements on a page. They are the
    first instruction of each line, followed by the others in program order, as long as the bytes
    fit in ROOM."""
    columns, part = program.columns(), slice(shown.start, shown.stop)
    size = np.array([_size(call) for call in program.calls], np.int64)[columns.call[part]]
    _, first = np.unique(columns.line[part], return_index=True)
    rest = np.setdiff1d(np.arange(len(shown)), first)
    order = np.concatenate([np.sort(first), rest])
    return set((order[np.cumsum(size[order]) <= ROOM] + shown.start).tolist())


def _size(call: Call) -> int:
    return sum(view.nbytes for view in call.views(*call.reads, *call.writes))


class TileTable:
    """The contents of tiles. Equal contents are stored once. The numbers of the contents begin at
    1."""

    def __init__(self) -> None:
        self.tiles: list[dict[str, Any]] = []
        self.formats: dict[str, dict[str, Any]] = {}
        self._known: dict[tuple[str, bytes], int] = {}

    def of(
        self, program: Program, steps: Steps, core: int, instruction: int, full: bool
    ) -> list[int]:
        """Store the contents of the operands of an instruction. Return the number of each tile in
        the table, or 0 for an operand that the call does not have. With `full`, all elements are
        stored (`add`)."""
        call = program.calls[program.columns().call[instruction]]
        names = [*call.reads, *call.indices, *call.writes]
        first_write = len(names) - len(call.writes)
        numbers = [0] * len(names)
        for n, name in enumerate(names):
            if name in call.arguments:
                tile = steps.tile(instruction, name, core, after=n >= first_write)
                numbers[n] = self.add(tile, call.arguments[name].dtype, full)
        return numbers

    def document(self, options: Options) -> dict[str, Any]:
        return {
            "tiles": self.tiles,
            "formats": self.formats,
            "four_passes": options.fp32_matmul == "four_pass",
            "chain": options.matmul == "chain",
        }

    def add(self, held: HeldElements, form: Format, full: bool) -> int:
        """Store the contents of a tile, unless they are stored already, and return their number.
        With `full`, all elements are stored in addition to statistics and a thumbnail."""
        elements = np.ascontiguousarray(held.elements)
        elements = elements.reshape(len(elements), -1) if elements.ndim else elements.reshape(1, 1)
        lost = None if held.unwritten is None else held.unwritten.reshape(elements.shape)
        bits = elements.view(np.uint8).tobytes()
        key = f"{form} {elements.shape}", _digest(bits, lost)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.tiles) + 1
            shape = list(elements.shape)
            self.tiles.append({"format": form.name, "shape": shape, **picture(elements, lost)})
            self.formats[form.name] = layout(form, elements.dtype.itemsize)
        if full and "data" not in self.tiles[number - 1]:
            self.tiles[number - 1]["data"] = text(bits)
            if lost is not None:
                self.tiles[number - 1]["lost"] = text(
                    np.packbits(lost, bitorder="little").tobytes()
                )
        return number


def _digest(bits: bytes, lost: Array | None) -> bytes:
    digest = hashlib.blake2b(bits, digest_size=16)
    digest.update(b"" if lost is None else lost.tobytes())
    return digest.digest()


def layout(form: Format, itemsize: int) -> dict[str, Any]:
    """Return the properties of a format from which the page decodes the bits of an element."""
    fields = {"bytes": itemsize, "kind": form.kind, "exponent": form.exponent}
    more = {"mantissa": form.mantissa, "bias": form.bias, "infinite": form.infinite}
    return {**fields, **more, "nan": form.nan}


def picture(elements: Array, lost: Array | None) -> dict[str, Any]:
    """Return statistics of a tile [P, F], and its thumbnail (`levels`) in base64."""
    statistics = figures(elements, lost)
    if statistics["low"] is None:
        return statistics
    return {**statistics, "small": text(levels(elements, lost, SIDE).tobytes())}


def array(call: Call, machine: Machine) -> dict[str, Any] | None:
    """Return how a call uses the array of the Tensor engine. Return None for calls that do not use
    the array, and for packed formats.

    `stationary`, `moving`: the names of these operands
    `rows`, `columns`, `at`: the size and place of the stationary operand in the array
    `count`: the number of columns of the moving operand
    `group`: the number of rows that are multiplied in each partition
    `float32`: whether an operand is float32
    `cycles`: the cycles of the call"""
    if product(call, machine) is None:
        return None
    traits = call.instruction.traits
    weights = call.view(traits.weights)
    if weights.dtype.element is not None:
        return None
    cost = call.instruction.cost(call, machine)
    streams = None if traits.streams is None else call.view(traits.streams)
    group = weights.free_size // call.view("dst").shape[0]
    return {
        "stationary": traits.weights,
        "moving": traits.streams,
        "rows": weights.partitions,
        "columns": weights.free_size // group,
        "group": group,
        "count": weights.partitions if streams is None else streams.free_size // group,
        "float32": streams is not None and "float32" in {weights.dtype, streams.dtype},
        "at": call.arguments.get("tile_position") or [0, 0],
        "cycles": round(cost.busy_ns * machine.engines["tensor"].clock_ghz, 3),
    }
