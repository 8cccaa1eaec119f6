"""Integers beyond what float32 has: rounded when they are read, or when they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neuroncore.clause.instruction import Call
from neuroncore.core.core import Core
from neuroncore.core.staging import perform
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.native.lazy import Lazy
from neuroncore.numerics.formats import Format, bool_
from neuroncore.precision.around import Around, Stand
from neuroncore.precision.doubles import Beside, chip_doubles, is_float, made, on
from neuroncore.precision.evaluation import WIDE_INTEGERS, Evaluation
from neuroncore.precision.findings import ROUNDED, SATURATED

native: Any = Lazy("neuroncore.native.precision")

EXACT_INTEGER = 1 << 24  # float32 has all integers up to here


def check_read(core: Core, arguments: Mapping[str, Any], known: Evaluation) -> None:
    """Report integers that an engine rounds before it computes with them."""
    for name in known.integers:
        codes = arguments[name].codes()
        if _beyond(codes):
            rounded = codes.astype(np.float32).astype(np.float64)
            _report(core, name, arguments[name], codes, rounded, rounded != codes)


def check_written(
    core: Core,
    around: Callable[[], Around],
    call: Call,
    arguments: dict[str, Any],
    known: Evaluation,
    narrow: bool,
    run: Callable[[], None],
) -> None:
    """Let a call `run`, and report what it has written as integers other than they are: rounded to
    what float32 has, or cut off; as integers of less than 32 bits only if those are meant too. What
    looks suspicious is then evaluated in float64, `around` what that needs."""
    tiles = {n: arguments[n] for n in (*call.reads, *call.writes)}
    results = [n for n in call.writes if _counts(tiles[n].dtype, narrow)]
    if not known.casts or not results or any(tile.dynamic for tile in tiles.values()):
        run()
        return
    written = [tiles[n].storage for n in call.writes]
    overwritten = {n: _copy(tiles[n]) for n in call.reads if _shares(tiles[n], written)}
    before = {n: chip_doubles(tiles[n]) for n in call.writes if n in known.partial}
    run()
    if not any(_suspect(tile, n in results) for n, tile in tiles.items()):
        return
    before_it = {**tiles, **overwritten}
    given = {n: _in_float64(before_it[n]) for n in call.reads}
    found = {n: before[n] if n in before else np.zeros(tiles[n].shape) for n in call.writes}
    exact = {n: made(values, tiles[n]) for n, values in found.items()}
    registers = {unit: a.astype(np.float64) for unit, a in core.accumulators.items()}
    perform(call, {**arguments, **given, **exact}, Stand(around(), registers))
    for name in results:
        _check_result(core, name, tiles[name], exact[name].codes())


def _check_result(core: Core, name: str, tile: Tile, exact: Array) -> None:
    low, high = tile.dtype.range
    outside = int(((exact > high + 0.5) | (exact < low - 0.5)).sum())
    if outside:
        core.report(
            SATURATED,
            f"{outside} of {tile.size} results for {name} ({tile}) are outside {low} to "
            f"{high}, and have become the nearest of these",
            tile.storage.id,
        )
    elif tile.dtype in WIDE_INTEGERS:
        got = tile.codes()
        _report(core, name, tile, exact, got, np.abs(exact - got) >= 1)


def _report(core: Core, name: str, tile: Tile, exact: Array, got: Array, inexact: Array) -> None:
    if not inexact.any():
        return
    first = inexact.reshape(-1).argmax()
    was, becomes = (int(values.reshape(-1)[first]) for values in (exact, got))
    core.report(
        ROUNDED,
        f"{name} ({tile}) has {int(inexact.sum())} integers beyond 2^24 that float32, in which the "
        f"engine computes, does not have: {was} becomes {becomes}",
        tile.storage.id,
    )


def _counts(form: Format, narrow: bool) -> bool:
    return form in WIDE_INTEGERS or (narrow and form.is_integer and form is not bool_)


def _beyond(codes: Array) -> bool:
    """Whether 32-bit integers are as large as float32 has no longer all, or by one less."""
    if not codes.flags.c_contiguous:
        codes = np.ascontiguousarray(codes)
    return int(native.greatest(codes.reshape(-1))) >= EXACT_INTEGER - 1


def _suspect(tile: Tile, written: bool) -> bool:
    """Whether a tile has integers that may be cut off or rounded."""
    if not (tile.dtype.is_integer and tile.dtype is not bool_) or not tile.size:
        return False
    codes = tile.codes()
    if tile.dtype in WIDE_INTEGERS:
        return _beyond(codes)
    low, high = tile.dtype.range
    return written and (int(codes.max()) == high or int(codes.min()) == low)


def _shares(tile: Tile, written: list[Storage]) -> bool:
    """Whether the chip's results may overwrite an input."""
    return any(storage.data is tile.storage.data for storage in written)


def _copy(tile: Tile) -> Tile:
    return made(np.array(tile.codes(), order="C"), tile, tile.held)


def _in_float64(tile: Tile) -> Beside:
    """An input as float64 computes with it."""
    return made(chip_doubles(tile), tile) if is_float(tile) else on(tile.storage, tile)
