"""Results of the analysis: lines, results, and their findings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import field
from math import inf, isfinite, sqrt

import numpy as np

from neuroncore.base import source
from neuroncore.base.findings import Finding
from neuroncore.base.sites import Sites
from neuroncore.base.structs import dataclass
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format, float32
from neuroncore.numerics.loops import precision as native
from neuroncore.precision.doubles import Energy, chip_values, is_float, on

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
    squares: float = 0.0  # of their errors in ulps
    max_ulps: float = 0.0
    share: float = 0.0  # of the results' error, estimated

    @property
    def rms_ulps(self) -> float:
        return sqrt(self.squares / self.count) if self.count else 0.0


@dataclass(frozen=True)
class Beyond:
    """The first result of an instruction that is further from float64 than it may be."""

    line: LineError
    instruction: str
    rel_l2: float
    bound: float


@dataclass(eq=False)
class Result:
    """A tensor that a launch leaves: its name, what float64 has there, how far it is from that."""

    name: str
    exact: Array
    rel_l2: float  # of what is finite
    lost: int = 0  # elements that are finite in float64 only


class Precision:
    """The results for one launch, on all its cores."""

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

    def line(self) -> int:
        """The number of the line of the user's code that we are at."""
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
        """Add the result of `numerics.loops.precision.ulps` for elements of a format."""
        count, _, squares, greatest = ulps
        found = self.lines[line]
        found.instructions.add(instruction)
        found.formats.add(form)
        found.count += count
        found.squares += squares
        found.max_ulps = max(found.max_ulps, greatest)

    def check(self, line: int, instruction: str, form: Format, error: float, size: float) -> None:
        """Remember the first result that is too far from float64."""
        if self.beyond is not None or not error:
            return
        bound = self.asked
        if bound is None:
            bound = 1e-5 if form is float32 else form.eps
        if ratio(error, size) > bound:
            self.beyond = Beyond(self.lines[line], instruction, ratio(error, size), bound)

    def close(self, tensors: Sequence[Tile], findings: Sequence[Finding]) -> None:
        """The launch has ended and leaves these tensors: compare them, and divide their errors
        among the lines. Each tensor counts by its relative error, whatever its scale."""
        self.warnings = [finding for finding in findings if finding.code in WARNINGS]
        energy: Energy = {}
        for tile in tensors:
            double = tile.storage.double if is_float(tile) else None
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
    """The same proportions of another sum; nothing of nothing."""
    whole = sum(energy.values())
    if not (whole > 0 and total > 0):
        return {}
    return {line: part / whole * total for line, part in energy.items() if part}


def add(energy: Energy, more: Energy) -> None:
    for line, part in more.items():
        energy[line] = energy.get(line, 0.0) + part


def ratio(error: float, size: float) -> float:
    """The relative L2 error of two sums of squares."""
    return sqrt(error / size) if size else (inf if error else 0.0)


def distance(real: Array, exact: Array) -> tuple[float, float, bool]:
    """Return the sums of (real - exact)^2 and of exact^2 over the elements that are finite in both
    arrays, and whether any element is finite only in `exact`."""
    a, b = flat(real), flat(exact)
    error, size = native.distance(a, b)
    if isfinite(error) and isfinite(size):
        return error, size, False
    here, there = np.isfinite(a), np.isfinite(b)
    error, size = native.distance(a[here & there], b[here & there])
    return error, size, bool((there & ~here).any())


def flat(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1)
