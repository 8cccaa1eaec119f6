"""The output of the analysis (errors by line, the kernel's results, and warnings), and the float64
copies of tiles on which instructions are evaluated.

A storage is the memory of one tensor. If the floats of a storage differ from the float64
computation, the storage has a `Float64Copy`: the same elements in float64. A storage without a
float64 copy is exact: its float64 values are the chip's values. The inputs of a kernel have no
float64 copy. An `Energy` maps source lines to the sum of the squared errors that each line
caused."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from neuroncore.base import buffers, source
from neuroncore.base.errors import KernelError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.source import Sites
from neuroncore.core.indirection import Picked
from neuroncore.memory.geometry import Geometry, Layout, unplaced
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Dynamic, Tile
from neuroncore.numerics import codec, convert
from neuroncore.numerics.formats import Format, float32, float64, tfloat32
from neuroncore.numerics.loops import precision as native

if TYPE_CHECKING:
    from neuroncore.base import display
else:
    display = Lazy("neuroncore.base.display")

ROWS = 20  # the largest number of source lines in a notebook's table
OVERFLOW, SATURATED, ROUNDED, CANCELLATION = WARNINGS = (
    "OVERFLOW",
    "SATURATED",
    "INT32_ROUNDED",
    "CANCELLATION",
)


@dataclass(eq=False)
class LineError:
    """The error that the instructions of one source line have introduced."""

    place: source.Place
    instructions: set[str] = field(default_factory=set)
    formats: set[Format] = field(default_factory=set)
    count: float = 0.0  # elements written
    squares: float = 0.0  # the sum of their squared errors, in ulps
    max_ulps: float = 0.0
    share: float = 0.0  # the estimated share of the results' error

    @property
    def rms_ulps(self) -> float:
        return sqrt(self.squares / self.count) if self.count else 0.0


@dataclass(frozen=True)
class Beyond:
    """The first result beyond `bound`, and its instruction. `rel_l2` is its relative L2 error."""

    line: LineError
    instruction: str
    rel_l2: float
    bound: float


@dataclass(eq=False)
class Result:
    """A tensor that a launch returns, compared with float64.

    `exact`: the elements of the tensor in the float64 computation
    `rel_l2`: the relative L2 distance between the chip's elements and `exact`"""

    name: str
    exact: Array
    rel_l2: float  # over elements that are finite in both
    lost: int = 0  # elements that are finite in float64 only


class Precision:
    """The analysis of one launch, on all its cores. `bound` is the largest relative L2 error of a
    result without a report. If it is None, each format has its own bound (`check`)."""

    def __init__(self, bound: float | None = None) -> None:
        self.asked = bound
        self.lines: list[LineError] = []
        self.beyond: Beyond | None = None
        self.results: list[Result] = []
        self.warnings: list[Finding] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._sites: Sites[int] = Sites(sys.maxsize)

    def __repr__(self) -> str:
        worst = max((result.rel_l2 for result in self.results), default=0.0)
        return f"<Precision of {len(self.lines)} lines, results within {worst:.3g} of float64>"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: a table of the errors of results, and a table of the lines
        with the largest shares of the error."""
        results = [(r.name, f"{r.rel_l2:.3g}") for r in self.results]
        lines = [
            (line.place.short, f"{line.share:.1%}", f"{line.max_ulps:.3g}", line.place.text.strip())
            for line in sorted(self.lines, key=lambda line: -line.share)
            if line.share or line.max_ulps
        ]
        return display.block(
            "errors in comparison with float64",
            display.table(results, ("result", "relative L2")),
            display.table(lines[:ROWS], ("line", "share", "ulps at most", "")),
        )

    def line(self) -> int:
        """Return the number of the current line of the user's code."""
        frame = source.user_frame()
        assert frame is not None
        instruction = source.instruction_of(frame)
        known = self._sites.at(frame.f_code, instruction)
        if known is not None:
            return known
        place = source.place(frame.f_code, instruction)
        number = self._numbers.setdefault((place.file, place.line), len(self.lines))
        if number == len(self.lines):
            self.lines.append(LineError(place))
        return self._sites.keep(frame.f_code, instruction, number)

    def introduced(
        self, line: int, instruction: str, form: Format, ulps: tuple[int, float, float, float]
    ) -> None:
        """Add errors that an instruction introduced.

        `ulps`: the number of elements, the sum of their squared errors, the sum of their squared
            errors in ulps, and their largest error in ulps (`numerics.loops.precision.ulps`)"""
        count, _, squares, greatest = ulps
        line_error = self.lines[line]
        line_error.instructions.add(instruction)
        line_error.formats.add(form)
        line_error.count += count
        line_error.squares += squares
        line_error.max_ulps = max(line_error.max_ulps, greatest)

    def check(self, line: int, instruction: str, form: Format, error: float, size: float) -> None:
        """Set `beyond` at the first result beyond the bound. `error` is the sum of its squared
        errors, and `size` is the sum of its squared float64 elements."""
        if self.beyond is not None or not error:
            return
        bound = self.asked
        if bound is None:
            bound = 1e-5 if form is float32 else form.eps
        if ratio(error, size) > bound:
            self.beyond = Beyond(self.lines[line], instruction, ratio(error, size), bound)

    def close(self, tensors: Sequence[Tile], findings: Sequence[Finding]) -> None:
        """Compare the returned tensors with float64, and divide their errors among the lines.

        A tensor's weight is its squared relative L2 error, so large elements weigh no more."""
        self.warnings = [finding for finding in findings if finding.code in WARNINGS]
        energy: Energy = {}
        for tile in tensors:
            double = tile.storage.float64 if is_float(tile) else None
            if double is None or double.ended:
                self.results.append(Result(tile.storage.name, _values(tile), 0.0))
                continue
            exact = on(double.storage, tile).codes()
            missing, real = tile.missing(), chip_values(tile)
            there = ... if missing is None else ~missing
            error, size, infinite = distance(real[there], exact[there])
            lost = int((np.isfinite(exact) & ~np.isfinite(real))[there].sum()) if infinite else 0
            self.results.append(Result(tile.storage.name, exact, ratio(error, size), lost))
            add(energy, portions(double.energy, error / size if size else 1.0))
        for line, share in portions(energy, 1.0).items():
            self.lines[line].share = share


def _values(tile: Tile) -> Array:
    return np.array(chip_values(tile) if tile.dtype.is_float else tile.codes(), np.float64)


def portions(energy: Energy, total: float) -> Energy:
    """Return the energies, scaled to the sum `total`. Return {} if a sum is 0."""
    whole = sum(energy.values())
    if not (whole > 0 and total > 0):
        return {}
    return {line: part / whole * total for line, part in energy.items() if part}


def add(energy: Energy, more: Energy) -> None:
    """Add the values of `more` to `energy`, line by line."""
    for line, part in more.items():
        energy[line] = energy.get(line, 0.0) + part


def ratio(error: float, size: float) -> float:
    """Return the relative L2 error sqrt(`error` / `size`). Both are sums of squares."""
    return sqrt(error / size) if size else (inf if error else 0.0)


def distance(real: Array, exact: Array) -> tuple[float, float, bool]:
    """Return (sum of (real - exact)^2, sum of exact^2, whether an element is finite only in
    `exact`). The sums are over the elements that are finite in both arrays."""
    a, b = real.ravel(), exact.ravel()
    error, size = native.distance(a, b)
    if isfinite(error) and isfinite(size):
        return error, size, False
    here, there = np.isfinite(a), np.isfinite(b)
    error, size = native.distance(a[here & there], b[here & there])
    return error, size, bool((there & ~here).any())


def largest_rounding(tile: Tile) -> float:
    """Return the largest sum of squared errors from rounding to the tile's format: half a unit in
    the last place for each element."""
    return float(np.square(convert.step(tile.held, chip_values(tile)) / 2).sum())


Energy = dict[int, float]  # by source line, the sum of the squared errors that it caused
Window = tuple[int, int, int, int, int, Format]
WIDE = (float32, tfloat32)
DOUBLE = np.dtype(np.float64)


class Float64Tile(Tile):
    """A tile of the float64 computation. Integers are the chip's, and only the chip's tile records
    which elements were written."""

    __slots__ = ()

    def __init__(
        self,
        storage: Storage,
        geometry: Geometry,
        offset: int,
        dynamic: tuple[Dynamic, ...] = (),
        fault: KernelError | None = None,
    ) -> None:
        super().__init__(storage, geometry, offset, dynamic, fault)
        if storage.held is float64:
            self.held = float64

    def values(self) -> Array:
        codes = self.codes()
        return codes if self.held is float64 else codes.astype(np.float64)

    def rounded(self, values: Array, out: Array | None = None) -> Array:
        if out is None:
            return np.asarray(values, np.float64)
        np.copyto(out, values)
        return out

    def encoded(self, source: Tile, codes: Array) -> Array:
        return codes if source.held is float64 else codes.astype(np.float64)

    def mark_written(self, chosen: Array | None = None) -> None:
        pass

    def mark_other_engine(self, other_engine: bool) -> None:
        pass

    def is_from_other_engine(self) -> bool:
        return False


def is_float(tile: Tile) -> bool:
    """Return whether a tile contains floats in the format of its storage (float32 equals
    tfloat32)."""
    form, kept = tile.dtype, tile.storage.dtype
    return form.is_float and (form is kept or (form in WIDE and kept in WIDE))


def chip_values(tile: Tile, index: Any = ...) -> Array:
    """Return `tile[index]` on the chip, as float32. The array is a view if memory stores
    float32."""
    codes = tile.codes()[index]
    return codes if tile.held in WIDE else codec.decode(tile.held, codes)


def all_finite(tile: Tile) -> bool:
    """Return whether all numbers of a tile are finite on the chip."""
    form = tile.held
    codes = np.ascontiguousarray(tile.codes()).reshape(-1).view(form.code_type)
    spare = form.bits - 1 - form.exponent - form.mantissa
    mask = codes.dtype.type((1 << form.bits - 1) - 1)
    return int(native.largest(codes, mask)) >> spare <= form.max_code


def chip_float64(tile: Tile, index: Any = ...) -> Array:
    """Return `tile[index]` on the chip, as a new float64 array."""
    return doubled(chip_values(tile, index))


def doubled(values: Array) -> Array:
    """Return a contiguous copy in float64."""
    copy = buffers.array(values.shape, DOUBLE)
    np.copyto(copy, values)
    return copy


def new_tile(array: Array, like: Tile, held: Format = float64) -> Float64Tile:
    """Return a tile on a contiguous array, with region, format and first partition of `like`."""
    place = like.start_partition, 0
    return tile_of_layout(array, unplaced(like.region, array.shape, like.dtype, held, place), held)


def tile_of_layout(array: Array, layout: Layout, held: Format = float64) -> Float64Tile:
    """Return a tile with this layout on a contiguous array."""
    storage = Storage(-1, layout, held)
    storage.data = array.reshape(-1).view(np.uint8)
    tile = Float64Tile.of(storage)
    tile._array = array
    return tile


def on(storage: Storage, tile: Tile) -> Float64Tile:
    """Return a tile of `storage` at the position of `tile`. Both storages must have the same
    layout."""
    return Float64Tile.like(tile, storage)


@dataclass(eq=False)
class Float64Copy:
    """The elements of a storage in float64.

    `energy`: the sum of the squared errors of the chip, by the line that caused them
    `infinite`: whether the chip has an infinity or NaN where float64 has a number
    `ended`: whether a write to another storage at the same address made the float64 copy invalid"""

    storage: Storage
    energy: Energy = field(default_factory=dict)
    infinite: bool = False
    ended: bool = False
    whole: Float64Tile | None = None  # the whole storage as a tile

    def window(self, tile: Tile) -> Float64Tile:
        """Return the float64 tile for a tile of the chip."""
        if tile.geometry is not tile.geometry.layout.whole or tile.dynamic:
            return on(self.storage, tile)
        if self.whole is None or self.whole.shape != tile.shape:  # a window opened again
            self.whole = on(self.storage, tile)
        return self.whole


def float64_copy(storage: Storage) -> Float64Copy:
    """Return a float64 copy for a storage, filled with the chip's values."""
    return adopted_float64_copy(chip_float64(Tile.of(storage)), storage)


def new_float64_copy(storage: Storage, first: Tile) -> Float64Copy:
    """Return a new float64 copy for a storage after the chip has written the tile `first`.

    It is uninitialized if nothing else of the storage was written; otherwise it contains the chip's
    values."""
    if not first.is_only_written:
        return float64_copy(storage)
    count = storage.nbytes // storage.dtype.itemsize
    return adopted_float64_copy(buffers.take(count * DOUBLE.itemsize), storage)


def adopted_float64_copy(array: Array, owner: Storage) -> Float64Copy:
    """Return a float64 copy for `owner` that uses the memory of `array`, contiguous float64 of the
    size of `owner`."""
    place = owner.partition0, 0
    layout = unplaced(owner.region, owner.shape, owner.dtype, float64, place)
    storage = Storage(-1, layout, float64, owner.name)
    storage.data = array.reshape(-1).view(np.uint8)
    return Float64Copy(storage)


def float64_copy_of_tile(shadow: Float64Tile, tile: Tile) -> Float64Copy:
    """Return a float64 copy that uses the memory of `shadow`, for the storage that `tile` covers
    completely."""
    if tile.geometry is not tile.geometry.layout.whole:
        return adopted_float64_copy(shadow.storage.data, tile.storage)
    shadow.storage.name = tile.storage.name
    return Float64Copy(shadow.storage, whole=shadow)


def source_of(tile: Tile) -> Tile:
    """Return the tile from which run-time indices pick, or the tile itself without indices."""
    return tile.source if isinstance(tile, Picked) else tile


class Float64Copies:
    """The float64 copies of one core's memories.

    Storages may overlap at addresses that the kernel chose. A write to one storage ends the float64
    copies of all others with any of its bytes. A new storage at the same place gets the float64
    copy of the old one."""

    def __init__(self) -> None:
        self._placed: dict[Window, Float64Copy] = {}

    def of(self, tile: Tile) -> Float64Copy | None:
        """Return the valid float64 copy of a tile's storage, or None."""
        storage = source_of(tile).storage
        double: Float64Copy | None = storage.float64
        if double is None and storage.image is not None:
            double = storage.float64 = self._placed.get(_window(storage))
        if double is not None and double.ended:
            double = storage.float64 = None
        return double

    def put(self, double: Float64Copy, storage: Storage) -> None:
        """Set the float64 copy of a storage."""
        storage.float64 = double
        if storage.image is not None and self._placed.get(_window(storage)) is not double:
            self.end([storage])
            self._placed[_window(storage)] = double

    def end(self, storages: Iterable[Storage]) -> None:
        """Drop the float64 copies of storages that are exact or have no float64 history."""
        for storage in storages:
            storage.float64 = None
            if storage.image is not None:
                window = _window(storage)
                for other in [w for w in self._placed if _overlap(w, window)]:
                    self._placed.pop(other).ended = True


def _window(storage: Storage) -> Window:
    assert storage.image is not None
    first, byte = storage.partition0, storage.byte0
    last, end = first + storage.partitions, byte + storage.row_bytes
    return storage.image.id, first, last, byte, end, storage.dtype


def _overlap(a: Window, b: Window) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and a[3] < b[4] and b[3] < a[4]
