"""Graphs of chips: neighbors, and the distance between two chips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from neuroncore.base.errors import UsageError

KINDS = ("chain", "torus", "switched")

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Topology:
    """Chips at the points of a grid. They are numbered so that the last coordinate changes fastest.

    * chain: chips are linked to their neighbors along each axis;
    * torus: like a chain, and each axis is closed to a ring;
    * switched: switches connect the chips. Chips that differ only along one of the `straight` axes
      also have a direct link. Sources disagree on the number of switches between two chips, so
      `hops` has several profiles, by name. A profile has a number for each axis: the number of
      switches if this axis is the first along which the two chips differ."""

    kind: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    straight: tuple[str, ...]
    hops: Mapping[str, tuple[int, ...]]

    @property
    def chips(self) -> int:
        return prod(self.shape)

    def coordinates(self, chip: int) -> Coordinates:
        """Return the position of a chip in the grid. Raises UsageError if there is no such chip."""
        if not 0 <= chip < self.chips:
            raise UsageError(f"there is no chip {chip}: the chips are 0 to {self.chips - 1}")
        places = []
        for size in reversed(self.shape):
            chip, place = divmod(chip, size)
            places.append(place)
        return tuple(reversed(places))

    def chip_at(self, coordinates: Coordinates) -> int:
        chip = 0
        for place, size in zip(coordinates, self.shape, strict=True):
            chip = chip * size + place
        return chip

    def neighbors(self, chip: int) -> list[int]:
        """Return the chips at the other ends of a chip's links, sorted, without chips behind a
        switch."""
        at = self.coordinates(chip)
        return sorted({self.chip_at(other) for other in self._linked(at)} - {chip})

    def _linked(self, at: Coordinates) -> Iterator[Coordinates]:
        """Yield the positions of the chips that are linked to the chip at `at`."""
        for axis, (name, size) in enumerate(zip(self.axes, self.shape, strict=True)):
            for place in (at[axis] - 1, at[axis] + 1):
                inside = 0 <= place < size
                if name in self.straight and (inside or self.kind != "chain"):
                    yield (*at[:axis], place % size, *at[axis + 1 :])

    def links(self) -> set[tuple[int, int]]:
        """Return every pair of neighbors once, with the lower number first."""
        pairs = ((chip, other) for chip in range(self.chips) for other in self.neighbors(chip))
        return {(low, high) for low, high in pairs if low < high}

    def distance(self, chip: int, other: int, profile: str = "") -> int:
        """Return the number of links on the shortest path. If switches connect the chips, return
        the number of switches, in a profile of `hops` (by default the first)."""
        ends = list(zip(self.coordinates(chip), self.coordinates(other), strict=True))
        if self.kind == "switched":
            hops = self.hops[profile or next(iter(self.hops))]
            return next((hops[axis] for axis, (a, b) in enumerate(ends) if a != b), 0)
        apart = (abs(a - b) for a, b in ends)
        if self.kind == "chain":
            return sum(apart)
        return sum(min(d, size - d) for d, size in zip(apart, self.shape, strict=True))

    def distances(self, profile: str = "") -> list[int]:
        """Return the `distance` of every pair of chips, in the order (0, 1), (0, 2), ..."""
        return [
            self.distance(a, b, profile)
            for a in range(self.chips)
            for b in range(a + 1, self.chips)
        ]
