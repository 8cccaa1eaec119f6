"""The contents of a tile: as text, and as a heat map for notebooks."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.units import dimensions

Array = npt.NDArray[Any]
BINS = 24  # bins of a histogram
SIDE = 128  # pixels of a heat map
WIDTH = 384  # most pixels on the screen
# matplotlib's viridis at equal distances: red, green, blue
VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
UNWRITTEN, LOST = (160, 160, 160), (255, 0, 0)  # colors of levels 0 and 255 of a thumbnail


@dataclass(frozen=True, eq=False, repr=False)
class TileContents:
    """The contents of an operand.

    `title`: the name of the operand.
    `elements`: the values.
    `unwritten`: flags of uninitialized elements, or None if all elements were written."""

    title: str
    elements: Array
    unwritten: Array | None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.elements, dtype, copy=copy)

    def __repr__(self) -> str:
        """Return the values at the corners as text. An uninitialized element is shown as --."""
        shown: Any = self.elements
        if shown.dtype.kind == "V":  # formats that numpy does not know print as float32
            shown = shown.astype(np.float32)
        if self.unwritten is not None:
            shown = np.ma.array(shown, mask=self.unwritten)
        with np.printoptions(precision=4, threshold=16, edgeitems=2):
            return f"{self._caption}\n{shown}"

    def _repr_html_(self) -> str:
        rows = self._rows
        lost = None if self.unwritten is None else self.unwritten.reshape(rows.shape)
        statistics = figures(rows, lost)
        pixels = _coloured(levels(rows, lost, SIDE))
        source = f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode('ascii')}"
        counted = ("unwritten", "nan", "infinite")
        captions = [f"{name} {statistics[name]:,}" for name in counted if statistics[name]]
        if statistics["low"] is not None:
            captions.insert(
                0, f"from {statistics['low']:.6g} (dark) to {statistics['high']:.6g} (bright)"
            )
        scale = max(1, WIDTH // pixels.shape[1])
        size = f'width="{pixels.shape[1] * scale}" height="{pixels.shape[0] * scale}"'
        head, caption = html.escape(self._caption), html.escape(", ".join(captions))
        image = f'<img {size} style="image-rendering:pixelated" alt="{caption}" src="{source}">'
        return f"<div><b>{head}</b></div><div>{image}</div><div>{caption}</div>"

    @property
    def _caption(self) -> str:
        shape = dimensions(self.elements.shape)
        return f"{self.title}: {shape} {self.elements.dtype.name}"

    @property
    def _rows(self) -> Array:
        """Return the elements as an array [partitions, elements per partition]."""
        elements = self.elements
        return elements.reshape(len(elements), -1) if elements.ndim else elements.reshape(1, 1)


def _coloured(picture: Array) -> Array:
    """Return the RGB values [height, width, 3] of a picture.

    `picture`: the level of each pixel (see `levels`), shape [height, width]."""
    at = np.linspace(1, 254, len(VIRIDIS))
    ramp = [np.interp(np.arange(256), at, colour) for colour in zip(*VIRIDIS, strict=True)]
    table = np.column_stack(ramp).astype(np.uint8)
    table[0], table[255] = UNWRITTEN, LOST
    return np.asarray(table[picture])


def _png(pixels: Array) -> bytes:
    """Return pixels [height, width, 3] as PNG (ISO/IEC 15948): eight bits per channel."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(lines.tobytes()),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def figures(elements: Array, lost: Array | None) -> dict[str, Any]:
    """Return statistics of a tile [P, F].

    `lost` flags uninitialized elements, and is None if all elements were written. In the result,
    `low` and `high` are the smallest and the largest finite element, or None if no element is
    finite. `bins` is a histogram between them."""
    numbers, unwritten, finite = _sorted_out(elements, lost)
    counts = {
        "unwritten": int(unwritten.sum()),
        "nan": int((np.isnan(numbers) & ~unwritten).sum()),
        "infinite": int((np.isinf(numbers) & ~unwritten).sum()),
    }
    inside = numbers[finite]
    if not len(inside):
        return {"low": None, "high": None, **counts}
    low, high = float(inside.min()), float(inside.max())
    span = high - low
    bins = np.minimum((inside - low) * (BINS / span) if span else 0 * inside, BINS - 1)
    return {
        "low": low,
        "high": high,
        "mean": float(inside.mean()),
        **counts,
        "bins": np.bincount(bins.astype(np.int64), minlength=BINS).tolist(),
    }


def _sorted_out(elements: Array, lost: Array | None) -> tuple[Array, Array, Array]:
    """Return the elements as float64, flags of uninitialized elements, and flags of usable
    elements.

    Usable elements are initialized and finite."""
    numbers = elements.astype(np.float64)
    unwritten = np.zeros(elements.shape, np.bool_) if lost is None else lost.astype(np.bool_)
    return numbers, unwritten, np.isfinite(numbers) & ~unwritten


def levels(elements: Array, lost: Array | None, side: int) -> Array:
    """Return the thumbnail of a tile [P, F]: levels of at most `side` by `side` pixels.

    0 means that an element of the pixel is uninitialized (`lost`), and 255 that one is not finite.
    Otherwise the level is the mean, from 1 for the tile's minimum to 254 for its maximum."""
    numbers, unwritten, finite = _sorted_out(elements, lost)
    edges = [np.arange(0, n, -(-n // side)) for n in numbers.shape]
    inside = numbers[finite]
    low, high = (inside.min(), inside.max()) if len(inside) else (0.0, 0.0)
    scaled = np.where(finite, (numbers - low) / ((high - low) or 1.0), 0.0)
    total, count, lost = (_blocks(each, edges) for each in (scaled, finite, unwritten))
    whole = _blocks(np.ones(numbers.shape), edges)
    level = np.rint(1 + 253 * total / np.maximum(count, 1)).astype(np.uint8)
    return np.where(lost > 0, 0, np.where(count < whole, 255, level)).astype(np.uint8)


def _blocks(values: Array, edges: Sequence[Array]) -> Array:
    """Return the sum of each block of `values`.

    `edges`: the first row of each block, and the first column of each block."""
    rows: Array = np.add.reduceat(values.astype(np.float64), edges[0], axis=0)
    return np.asarray(np.add.reduceat(rows, edges[1], axis=1))
