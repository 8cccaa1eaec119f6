"""Draws of sizes, formats and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
TARGETS = ("trn1", "trn2", "trn3")
ON_CHIP = ("sbuf", "psum")
PARTITIONS = 128
MOST_FREE = 1100  # elements of a partition
FLOATS = ("float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3")
INTEGERS = ("int32", "int16", "int8", "uint32", "uint16", "uint8")
USUAL = ("0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "-0.25", "3.0", "1.5", "+2", "-(3)")
OF_NUMPY = ("np.float32(0.0)", "np.float32(-0.0)", "np.float16(-0.0)", "np.float32(0.75)")
NANS = ("np.nan", "-np.nan", "np.uint32(0xFFC12345).view(np.float32)")
NANS += ("np.uint64(0x7FF8A00000000000).view(np.float64).item()",)
NUMBERS = (*USUAL, *OF_NUMPY, *NANS)
"""As text, of which none is also a count or an index: those of whole numbers have a sign. NaNs have
either sign, and other bits than usual."""
LANES = (1, 16, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 128)
WIDE = (5, 96, 127, 128, 129, 200, 255, 256, 511, 512, 513, 515, 1025)


class Draws:
    """What a seed draws for a machine."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)
        self.target = self.choose(TARGETS)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choose(self, among: Sequence[T]) -> T:
        return among[int(self.random.random() * len(among))]

    def between(self, low: int, high: int) -> int:
        """One of low...high."""
        return low + int(self.random.random() * (high - low + 1))

    def lanes(self) -> int:
        """How many partitions."""
        return self.between(1, 40) if self.chance(0.6) else self.choose(LANES)

    def columns(self, most: int = MOST_FREE) -> int:
        """How many elements of a partition: few, wide, or the ragged rest of wide ones."""
        draw = self.random.random()
        if draw < 0.6:
            return min(most, self.between(1, 17))
        return min(most, self.between(18, 70) if draw < 0.92 else self.choose(WIDE))

    def parts(self, count: int) -> tuple[int, int]:
        """Two sizes that multiply to one."""
        first = self.choose([n for n in range(1, count + 1) if count % n == 0])
        return first, count // first

    @property
    def floats(self) -> tuple[str, ...]:
        """The floats that engines compute with."""
        return FLOATS + ("float8_e4m3fn",) * (self.target == "trn3")

    @property
    def forms(self) -> tuple[str, ...]:
        return (*self.floats, *INTEGERS)

    @property
    def narrow(self) -> tuple[str, ...]:
        """Those that arithmetic of indirect views takes."""
        return tuple(form for form in self.forms if form not in ("int32", "uint32"))

    def form(self) -> str:
        """A format; the usual ones are more usual."""
        return self.choose(("float32", "bfloat16")) if self.chance(0.5) else self.choose(self.forms)

    def number(self) -> str:
        """A number that an instruction holds."""
        draw = self.random.random()
        return self.choose(USUAL if draw < 0.86 else OF_NUMPY if draw < 0.95 else NANS)

    def regions(self) -> tuple[str, ...]:
        """Where an operand of an instruction of which not all may be in PSUM is."""
        return ("sbuf",) if self.chance(0.8) else ON_CHIP
