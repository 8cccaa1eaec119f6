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
from neuroncore.numerics.formats import Format, bool_
from neuroncore.numerics.loops import precision as native
from neuroncore.precision.around import Around, Stand
from neuroncore.precision.doubles import Beside, chip_doubles, is_float, made, on
from neuroncore.precision.evaluation import WIDE_INTEGERS, Evaluation
from neuroncore.precision.findings import ROUNDED, SATURATED

EXACT_INTEGER = 1 << 24  # float32 has all integers up to here
SUSPICIOUS = EXACT_INTEGER - 1  # and the next may have been rounded to it


def check_read(core: Core, arguments: Mapping[str, Any], known: Evaluation) -> None:
    """Report integers that an engine rounds before it computes with them. Which rows an index picks
    is not known yet, so what those hold is not looked at."""
    for name in known.integers:
        if not arguments[name].dynamic and _greatest(arguments[name]) >= SUSPICIOUS:
            codes = arguments[name].codes()
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
    if known.bounded and _runs_small(call, arguments, known, run):
        return
    tiles = {n: arguments[n] for n in (*call.reads, *call.writes)}
    results = [n for n in call.writes if _counts(tiles[n].dtype, narrow)]
    if not known.casts or not results or any(tile.dynamic for tile in tiles.values()):
        run()
        return
    written = [tiles[n].storage for n in call.writes]
    overwritten = {n: _copy(tiles[n]) for n in call.reads if _shares(tiles[n], written)}
    before = {n: chip_doubles(tiles[n]) for n in call.writes if n in known.partial}
    read = [_greatest(tiles[n]) for n in call.reads if tiles[n].dtype in WIDE_INTEGERS]
    run()
    if max([0, *read, *(_reaches(tiles[n]) for n in results)]) < SUSPICIOUS:
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


def _greatest(tile: Tile) -> int:
    """A bound on the magnitude of 32-bit integers, where -n counts as n - 1; for a whole storage it
    is known until the next instruction that writes there."""
    storage = tile.storage
    known = storage.greatest
    if known is not None and known[0] == storage.version and known[1] < SUSPICIOUS:
        return known[1]
    found = _measured(tile)
    if tile.geometry.fills and storage.image is None:
        storage.greatest = storage.version, found
    return found


def _measured(tile: Tile) -> int:
    codes = tile.codes()
    if not codes.flags.c_contiguous:
        codes = np.ascontiguousarray(codes)
    return int(native.greatest(codes.reshape(-1)))


def _remember(tile: Tile, whole: bool, bound: int) -> None:
    """Integers that an instruction under way has written, the `whole` tile or a part of it, are not
    beyond a bound. At its end the storage's version is one more."""
    storage = tile.storage
    if storage.image is not None:
        return
    known = storage.greatest
    if whole and tile.geometry.fills:
        storage.greatest = storage.version + 1, bound
    elif known is not None and known[0] == storage.version:
        storage.greatest = storage.version + 1, max(known[1], bound)


def _runs_small(
    call: Call, arguments: dict[str, Any], known: Evaluation, run: Callable[[], None]
) -> bool:
    """Let a call run if none of its results, nor anything on the way to them, can be as large as
    that: a few sums and products of small integers. Return whether it ran."""
    numbers = [arguments[name] or 0 for name in known.numbers]
    if not all(isinstance(number, int | float | np.number) for number in numbers):
        return False  # a register
    bound = 1.0
    for number in (*map(abs, numbers), *(_greatest(arguments[name]) for name in call.reads)):
        bound *= 1 + number
    if not bound < SUSPICIOUS:
        return False
    run()
    for name in call.writes:
        _remember(arguments[name], name not in known.partial, int(bound))
    return True


def _reaches(tile: Tile) -> int:
    """How far results reach: those of narrow integers that may be cut off count as suspicious."""
    if tile.dtype in WIDE_INTEGERS:
        found = _measured(tile)
        _remember(tile, True, found)
        return found
    codes, (low, high) = tile.codes(), tile.dtype.range
    cut_off = codes.size and (int(codes.max()) == high or int(codes.min()) == low)
    return SUSPICIOUS if cut_off else 0


def _shares(tile: Tile, written: list[Storage]) -> bool:
    """Return whether the chip's results may overwrite an input."""
    return any(storage.data is tile.storage.data for storage in written)


def _copy(tile: Tile) -> Tile:
    return made(np.array(tile.codes(), order="C"), tile, tile.held)


def _in_float64(tile: Tile) -> Beside:
    """An input as float64 computes with it."""
    return made(chip_doubles(tile), tile) if is_float(tile) else on(tile.storage, tile)
