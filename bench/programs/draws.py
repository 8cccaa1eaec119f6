"""Random sizes, formats and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
TARGETS = ("trn1", "trn2", "trn3")
ON_CHIP = ("sbuf", "psum")
PARTITIONS = 128
OLDER = 0.25  # share of programs of the older API
MOST_FREE = 1100  # elements per partition
FLOATS = ("float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3")
INTEGERS = ("int32", "int16", "int8", "uint32", "uint16", "uint8")
USUAL = ("0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "-0.25", "3.0", "1.5", "+2", "-(3)")
OF_NUMPY = ("np.float32(0.0)", "np.float32(-0.0)", "np.float16(-0.0)", "np.float32(0.75)")
NANS = ("np.nan", "-np.nan", "np.uint32(0xFFC12345).view(np.float32)")
NANS += ("np.uint64(0x7FF8A00000000000).view(np.float64).item()",)
NUMBERS = (*USUAL, *OF_NUMPY, *NANS)
"""Constants as text. None can be mistaken for a count or an index: integers have a sign. NaNs have
either sign, and unusual bits."""
LANES = (1, 16, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 128)
WIDE = (5, 96, 127, 128, 129, 200, 255, 256, 511, 512, 513, 515, 1025)


class Draws:
    """The random draws of a seed, for a program of one API (`dialect`). The first two draws are the
    machine `target`, and whether `generate` writes the program in the older API."""

    dialect = "today"

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)
        self.target = self.choose(TARGETS)
        self.is_older = self.chance(OLDER)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choose(self, among: Sequence[T]) -> T:
        return among[int(self.random.random() * len(among))]

    def between(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, both included."""
        return low + int(self.random.random() * (high - low + 1))

    def lanes(self) -> int:
        """Return a random number of partitions."""
        return self.between(1, 40) if self.chance(0.6) else self.choose(LANES)

    def columns(self, most: int = MOST_FREE) -> int:
        """Return a random number of elements per partition, at most `most`. It is usually small,
        and sometimes a large size or one close to it."""
        draw = self.random.random()
        if draw < 0.6:
            return min(most, self.between(1, 17))
        return min(most, self.between(18, 70) if draw < 0.92 else self.choose(WIDE))

    def parts(self, count: int) -> tuple[int, int]:
        """Return two sizes whose product is `count`."""
        first = self.choose([n for n in range(1, count + 1) if count % n == 0])
        return first, count // first

    @property
    def floats(self) -> tuple[str, ...]:
        """The float formats with which engines compute."""
        return FLOATS + ("float8_e4m3fn",) * (self.target == "trn3")

    @property
    def forms(self) -> tuple[str, ...]:
        return (*self.floats, *INTEGERS, "bool_")

    @property
    def biases(self) -> tuple[str, ...]:
        """The formats of the bias of an activation."""
        return self.forms

    @property
    def narrow(self) -> tuple[str, ...]:
        """The formats that arithmetic accepts in indirect views."""
        return tuple(form for form in self.forms if form not in ("int32", "uint32"))

    def form(self) -> str:
        """Return a random format. float32 and bfloat16 have the highest probabilities."""
        return self.choose(("float32", "bfloat16")) if self.chance(0.5) else self.choose(self.forms)

    def number(self) -> str:
        """Return the text of a random constant for an instruction."""
        draw = self.random.random()
        return self.choose(USUAL if draw < 0.86 else OF_NUMPY if draw < 0.95 else NANS)

    def value(self, form: str) -> str:
        """Return the text of a random constant that a format has."""
        if form == "bool_":
            return str(self.between(0, 1))
        return str(self.between(0, 9)) if form in INTEGERS else self.number()

    def regions(self) -> tuple[str, ...]:
        """Return the memories from which an operand is drawn, for instructions of which not all
        operands may be in PSUM. Usually this is only SBUF."""
        return ("sbuf",) if self.chance(0.8) else ON_CHIP
