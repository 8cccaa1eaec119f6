"""Checks of a run for numbers that the kernel's author does not expect, such as integers that
float32 rounds when they are read or written.

A call is the use of an instruction with certain formats, shapes and operators, but without data.
The formats and operators determine which checks a call needs. This is decided once for each call,
and a call that needs no checks is executed as fast as without a Watch. Only instructions with a
suspicious integer are evaluated in float64, with a `StandIn` in place of their core."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.base.lazy import Lazy
from neuroncore.base.units import plural
from neuroncore.clause.alu import Function, Operator
from neuroncore.clause.instruction import Call, Run
from neuroncore.clause.operand import spread
from neuroncore.core.binding import perform
from neuroncore.core.core import Core
from neuroncore.core.precision.findings import (
    OVERFLOW,
    ROUNDED,
    SATURATED,
    Float64Tile,
    Precision,
    all_finite,
    chip_float64,
    is_float,
    new_tile,
    on,
)
from neuroncore.memory.geometry import View
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.codec import decode, encode
from neuroncore.numerics.formats import Format, bool_, float32, int32, uint32
from neuroncore.numerics.loops import precision as native

if TYPE_CHECKING:
    from neuroncore.core.precision import around as evaluations
else:
    evaluations = Lazy("neuroncore.core.precision.around")

# operands that choose elements; no result is computed from them
CHOOSERS = {"predicate", "index", "indices"}
WIDE_INTEGERS = (int32, uint32)


@dataclass(frozen=True)
class Evaluation:
    """How to evaluate a call in float64, and which checks the call needs."""

    floats: tuple[str, ...]
    """Operands that are written as floats."""
    moves: bool
    """True if nothing is computed or rounded."""
    partial: frozenset[str]
    """Operands that may be read or written only in part."""
    accumulates: bool
    """True if the result may be added to the destination."""
    registers: bool
    """True if the call uses accumulator registers."""
    integers: tuple[str, ...]
    """Operands of 32-bit integers that are read as numbers."""
    read_as: Format
    """The format to which the `integers` are rounded: the result's format if the call only copies,
    otherwise float32."""
    casts: bool
    """True if integer results may be rounded or saturated."""
    numbers: tuple[str, ...]
    """Arguments that are numbers, or may be numbers or registers."""
    bounded: bool
    """True if all operands are 32-bit integers, and each element of a result is a sum, a product or
    a similar function of one element of each input. Then no result is larger than the product of
    all inputs after each is increased by 1."""


def evaluation(call: Call) -> Evaluation:
    """Return the Evaluation of a call, computed once for all its copies."""
    facts: Evaluation = call.derived(__name__, lambda: _evaluation(call))
    return facts


def _evaluation(call: Call) -> Evaluation:
    traits = call.instruction.traits
    operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
    taken = {n: operands[n.partition("[")[0]] for n in (*call.reads, *call.writes)}
    forms = {n: call.view(n).dtype for n in taken}
    names = {p.name for p in call.instruction.parameters}
    turns = call.transposes
    data = [forms[n] for n in call.reads if not (turns and n == traits.streams)]
    moved = bool(data) and all(operand and operand.moved for operand in taken.values())
    moves = turns or moved or traits.moves_bits
    floats = tuple(n for n in call.writes if forms[n].is_float)
    if turns and call.machine.has("native_transpose"):  # may put bits into a wider format
        floats = tuple(n for n in floats if forms[n].itemsize == data[0].itemsize)
    wide = (n for n in call.reads if forms[n] in WIDE_INTEGERS and n not in CHOOSERS)
    copies = traits.copies and len(set(forms.values())) == 1
    operators = [v for v in call.arguments.values() if isinstance(v, Operator)]
    bits = bool(operators) and all(op.kind == "bitvec" for op in operators)
    return Evaluation(
        floats=floats,
        moves=moves and all(forms[n].holds(form) for n in call.writes for form in data),
        partial=frozenset(n for n, operand in taken.items() if operand and operand.partial),
        accumulates=traits.adds in names,
        registers=traits.accumulates,
        integers=() if moved and not floats else tuple(wide),
        read_as=forms[floats[0]] if moved and floats else float32,
        casts=traits.casts and not (copies or bits),
        numbers=tuple(n for n in call.instruction.values if not isinstance(call[n], View)),
        bounded=_bounded(call, forms.values()),
    )


def _bounded(call: Call, forms: Iterable[Format]) -> bool:
    operations = [v for v in call.arguments.values() if isinstance(v, Operator | Function)]
    traits = call.instruction.traits
    if call.dynamic or traits.scans or traits.accumulates or not {*forms} <= {*WIDE_INTEGERS}:
        return False
    read, written = (
        max((call.view(n).size for n in names), default=0) for names in (call.reads, call.writes)
    )
    products = all(isinstance(op, Operator) and op.integer is not None for op in operations)
    return products and read <= written


SUSPICIOUS = (1 << 24) - 1  # 2^24 may be a rounded 2^24 + 1; -2^24 counts as 2^24 - 1


def check_read(core: Core, arguments: Mapping[str, Any], facts: Evaluation) -> None:
    """Report integers that an engine rounds when it reads or copies them (`Evaluation.read_as`).

    Operands with an index are not checked: the index is not known yet."""
    form = facts.read_as
    for name in facts.integers:
        if not arguments[name].dynamic and _greatest(arguments[name]) >= _exact(form) - 1:
            codes = arguments[name].codes()
            rounded = decode(form, encode(form, codes.astype(np.float32))).astype(np.float64)
            inexact = (rounded != codes) & np.isfinite(rounded)
            _report(core, name, arguments[name], codes, rounded, inexact, form)


def _exact(form: Format) -> int:
    """Return the largest n for which a float format represents all integers up to n."""
    return 1 << (form.mantissa + 1)


def check_written(
    core: Core,
    shared_state: Callable[[], evaluations.SharedState],
    call: Call,
    arguments: dict[str, Any],
    facts: Evaluation,
    narrow: bool,
    run: Callable[[], None],
) -> None:
    """Execute a call with `run`, and report integers that were rounded to float32 or saturated.

    Results of less than 32 bits are checked only if `narrow` is true. Suspicious results are
    computed again in float64."""
    if facts.bounded and _runs_small(call, arguments, facts, run):
        return
    tiles = {n: arguments[n] for n in (*call.reads, *call.writes)}
    results = [n for n in call.writes if _counts(tiles[n].dtype, narrow)]
    if not facts.casts or not results or any(tile.dynamic for tile in tiles.values()):
        run()
        return
    written = [tiles[n].storage for n in call.writes]
    overwritten = {n: _copy(tiles[n]) for n in call.reads if _shares(tiles[n], written)}
    before = {n: chip_float64(tiles[n]) for n in call.writes if n in facts.partial}
    read = [_greatest(tiles[n]) for n in call.reads if tiles[n].dtype in WIDE_INTEGERS]
    run()
    if max([0, *read, *(_reaches(tiles[n]) for n in results)]) < SUSPICIOUS:
        return
    operands_before = {**tiles, **overwritten}
    inputs = {n: _in_float64(operands_before[n]) for n in call.reads}
    contents = {n: before[n] if n in before else np.zeros(tiles[n].shape) for n in call.writes}
    exact = {n: new_tile(values, tiles[n]) for n, values in contents.items()}
    registers = {unit: a.astype(np.float64) for unit, a in core.accumulators.items()}
    perform(call, {**arguments, **inputs, **exact}, shared_state().stand_in(registers))
    for name in results:
        _check_result(core, name, tiles[name], exact[name].codes())


def _check_result(core: Core, name: str, tile: Tile, exact: Array) -> None:
    low, high = tile.dtype.range
    outside = int(((exact > high + 0.5) | (exact < low - 0.5)).sum())
    if outside:
        core.report(
            SATURATED,
            f"{outside} of {tile.size} results for {name} ({tile}) exceed the range {low} to "
            f"{high}, and became {low} or {high}",
            tile.storage.id,
        )
    elif tile.dtype in WIDE_INTEGERS:
        got = tile.codes()
        _report(core, name, tile, exact, got, np.abs(exact - got) >= 1)


def _report(
    core: Core,
    name: str,
    tile: Tile,
    exact: Array,
    got: Array,
    inexact: Array,
    form: Format = float32,
) -> None:
    if not inexact.any():
        return
    first = inexact.reshape(-1).argmax()
    was, becomes = (int(values.reshape(-1)[first]) for values in (exact, got))
    use = "computes in" if form is float32 else "converts them to"
    core.report(
        ROUNDED,
        f"{name} ({tile}) has {plural(int(inexact.sum()), 'integer')} beyond "
        f"2^{form.mantissa + 1} that {form} can't represent, and the engine {use} {form}: for "
        f"example, {was} becomes {becomes}",
        tile.storage.id,
    )


def _counts(form: Format, narrow: bool) -> bool:
    return form in WIDE_INTEGERS or (narrow and form.is_integer and form is not bool_)


def _greatest(tile: Tile) -> int:
    """Return a bound on the magnitude of the tile's 32-bit integers, n - 1 for -n. It is cached for
    a whole storage until the next write."""
    storage = tile.storage
    known = storage.greatest
    if known is not None and known[0] == storage.version and known[1] < SUSPICIOUS:
        return known[1]
    bound = _measured(tile)
    if tile.geometry.fills and storage.image is None:
        storage.greatest = storage.version, bound
    return bound


def _measured(tile: Tile) -> int:
    codes = tile.codes()
    if not codes.flags.c_contiguous:
        codes = np.ascontiguousarray(codes)
    return int(native.greatest(codes.reshape(-1)))


def _remember(tile: Tile, whole: bool, bound: int) -> None:
    """Remember a bound on the integers that the current instruction has written to a tile.

    `whole`: whether it has written the whole tile

    The version increases when the instruction ends, so the bound is stored for the next version."""
    storage = tile.storage
    if storage.image is not None:
        return
    known = storage.greatest
    if whole and tile.geometry.fills:
        storage.greatest = storage.version + 1, bound
    elif known is not None and known[0] == storage.version:
        storage.greatest = storage.version + 1, max(known[1], bound)


def _runs_small(
    call: Call, arguments: dict[str, Any], facts: Evaluation, run: Callable[[], None]
) -> bool:
    """Run a call (`Evaluation.bounded`) if its integers are too small for a result of SUSPICIOUS.
    Return whether it ran."""
    optional = (arguments[name] for name in facts.numbers)
    numbers = [0 if number is None else number for number in optional]
    if not all(isinstance(number, int | float | np.number) for number in numbers):
        return False  # a register
    bound = 1.0
    for number in (*map(abs, numbers), *(_greatest(arguments[name]) for name in call.reads)):
        bound *= 1 + number
    if not bound < SUSPICIOUS:
        return False
    run()
    for name in call.writes:
        _remember(arguments[name], name not in facts.partial, int(bound))
    return True


def _reaches(tile: Tile) -> int:
    """Return a bound on the magnitude of integers that were just written.

    In a narrow format, an integer at an end of the range may be saturated. Then the bound is
    SUSPICIOUS; for all other integers of narrow formats it is 0."""
    if tile.dtype in WIDE_INTEGERS:
        bound = _measured(tile)
        _remember(tile, True, bound)
        return bound
    codes, (low, high) = tile.codes(), tile.dtype.range
    cut_off = codes.size and (int(codes.max()) == high or int(codes.min()) == low)
    return SUSPICIOUS if cut_off else 0


def _shares(tile: Tile, written: list[Storage]) -> bool:
    """Return whether a result may overwrite the input `tile`."""
    return any(storage.data is tile.storage.data for storage in written)


def _copy(tile: Tile) -> Tile:
    return new_tile(np.array(tile.codes(), order="C"), tile, tile.held)


def _in_float64(tile: Tile) -> Float64Tile:
    """Return a float64 copy of a tile of floats, or a Float64Tile on the storage of any other
    tile."""
    return new_tile(chip_float64(tile), tile) if is_float(tile) else on(tile.storage, tile)


UNWATCHED = f"{__name__}.unwatched"  # in `Call.results`: the call needs no checks
Arguments = dict[str, Any]
Check = Callable[[Arguments], None]
RunWatched = Callable[[Arguments, Callable[[], None]], None]


class Watch:
    """The observer of one core (`Core.watch`), which it refers to weakly. Its functions are kept
    with calls, which outlive the core."""

    def __init__(self, core: Core) -> None:
        self._core = weakref.ref(core)

    @property
    def core(self) -> Core:
        core = self._core()
        assert core is not None
        return core

    def over(self, call: Call, arguments: Mapping[str, Any], run: Run) -> Run:
        """Return a function that checks a call before and after `run`, or `run` if no check is
        needed.

        `arguments`: those of the first instruction with this call"""
        if UNWATCHED in call.results:
            return run
        facts = evaluation(call)
        checks = list(self._before(call, facts))
        run_watched = self._around_run(call, facts)
        if not (checks or run_watched):
            call.results[UNWATCHED] = True
            return run
        names = [p.name for p in call.instruction.varying]
        skipped = int(call.instruction.wants_core)
        others = (p.name for p in call.instruction.parameters if not p.varies)
        fixed = {name: arguments[name] for name in others}

        def watched(*values: Any) -> None:
            now = {**fixed, **dict(zip(names, values[skipped:], strict=True))}
            for name in call.instruction.lists:
                now |= spread(name, now[name])
            for check in checks:
                check(now)
            if run_watched is None:
                run(*values)
            else:
                run_watched(now, lambda: run(*values))

        return watched

    def _before(self, call: Call, facts: Evaluation) -> list[Check]:
        """Return the checks before a call reads its operands."""
        checks: list[Check] = []
        if facts.integers and facts.floats:
            checks.append(lambda now: check_read(self.core, now, facts))
        if self._multiplies_to_transpose(call):
            checks.append(self._check_transposed)
        if _drops_bias(call):
            checks.append(self._check_bias)
        return checks

    def _around_run(self, call: Call, facts: Evaluation) -> RunWatched | None:
        """Return the function that runs a call and checks its results, or None if no check
        applies."""
        narrow = [n for n in facts.floats if _is_narrow(call.view(n).dtype)]
        if narrow and call.reads and not facts.moves:
            return lambda now, run: self._check_overflow(call, narrow, now, run)
        if not facts.floats and facts.casts and any(_wide(call, n) for n in call.writes):
            return lambda now, run: check_written(
                self.core,
                lambda: evaluations.SharedState(self.core, Precision()),
                call,
                now,
                facts,
                False,
                run,
            )
        return None

    # --- infinities ------------------------------------------------------------------------------

    def _check_overflow(
        self, call: Call, narrow: list[str], now: Arguments, run: Callable[[], None]
    ) -> None:
        """Run a call, and report infinities (or NaN instead) that finite operands produced."""
        results, read = [now[n] for n in narrow if not now[n].dynamic], [now[n] for n in call.reads]
        written = [tile.storage.data for tile in results]
        overwritten = [tile for tile in read if any(tile.storage.data is data for data in written)]
        finite = all(map(_is_finite, overwritten))
        run()
        beyond = [tile for tile in results if not all_finite(tile)]
        if not (finite and beyond):
            return
        numbers = [v for v in now.values() if isinstance(v, float | np.floating)]
        others = (tile for tile in read if not any(tile is other for other in overwritten))
        if all(map(np.isfinite, numbers)) and all(map(_is_finite, others)):
            for tile in beyond:
                self._report_overflow(tile)

    def _report_overflow(self, tile: Tile) -> None:
        values, form = tile.values(), tile.dtype
        lost = np.isinf(values) if form.infinite else np.isnan(values)
        if lost.any():
            self.core.report(
                OVERFLOW,
                f"{int(lost.sum())} of {tile.size} results ({tile}) exceed {form.max:.4g}, the "
                f"largest {form}, and became {'infinite' if form.infinite else 'NaN'}",
                tile.storage.id,
            )

    # --- transposes ------------------------------------------------------------------------------

    def _multiplies_to_transpose(self, call: Call) -> bool:
        """Return whether a call transposes by a product with an identity matrix, where NaN spreads
        (ISA, nc_transpose on v2)."""
        turns = call.instruction.traits.transposes and call.engine is engine.tensor
        return turns and not call.machine.has("native_transpose")

    def _check_transposed(self, now: Arguments) -> None:
        data = now["data"]
        if not data.dtype.is_float or data.dynamic or all_finite(data):
            return
        lost = ~np.isfinite(data.values())
        undefined = self.core.undefined_in(data)
        count = int((lost if undefined is None else lost & ~undefined).sum())
        if count:
            self.core.report(
                "TRANSPOSED_NAN",
                f"data ({data}) has {plural(count, 'NaN or infinite element')}, and NaN spreads "
                f"along the rows of dst: {self.core.machine.name} transposes by a product with an "
                "identity matrix",
                data.storage.id,
            )

    # --- a bias that the device leaves out -------------------------------------------------------

    def _check_bias(self, now: Arguments) -> None:
        bias = now["bias"]
        if isinstance(bias, Tile) and not bias.dynamic and bias.codes().any():
            self.core.report(
                "BIAS_DROPPED",
                f"bias ({bias}) is not 0, but the function is nl.copy: a device was seen to ignore "
                "the bias of nl.copy",
                bias.storage.id,
            )


def _wide(call: Call, name: str) -> bool:
    return call.view(name).dtype in WIDE_INTEGERS


def _is_narrow(form: Format) -> bool:
    """Return whether a format is a float with a smaller range than float32."""
    return form.is_float and form.exponent < float32.exponent


def _drops_bias(call: Call) -> bool:
    functions = (v for v in call.arguments.values() if isinstance(v, Function))
    return "bias" in call.reads and any(not function.adds_bias for function in functions)


def _is_finite(tile: Tile) -> bool:
    """Return whether an operand is known to have no infinity or NaN."""
    return not tile.dynamic and (not tile.dtype.is_float or all_finite(tile))
