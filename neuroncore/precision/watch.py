"""What a run is watched for: numbers that the device has otherwise than the kernel's author thinks.

Which checks a call needs is decided once, by its formats and operators; a call that needs none
costs nothing more. Float64 is used only where an integer looks suspicious.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neuroncore.clause.alu import Function
from neuroncore.clause.instruction import Call, Run
from neuroncore.clause.operand import spread
from neuroncore.core.core import Core
from neuroncore.enums import engine
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, float32
from neuroncore.precision import integers
from neuroncore.precision.around import Around
from neuroncore.precision.doubles import all_finite
from neuroncore.precision.evaluation import WIDE_INTEGERS, Evaluation, evaluation
from neuroncore.precision.findings import OVERFLOW, Precision

Arguments = dict[str, Any]
Check = Callable[[Arguments], None]


class Watch:
    """What watches one core (`Core.watch`). What calls run outlives the core, with their record."""

    def __init__(self, core: Core) -> None:
        self._core = weakref.ref(core)

    @property
    def core(self) -> Core:
        core = self._core()
        assert core is not None
        return core

    def over(self, call: Call, arguments: Mapping[str, Any], run: Run) -> Run:
        """`run`, with the checks that a call needs before and after it; `arguments` are the first
        that it is found with."""
        known = evaluation(call)
        before, after = list(self._before(call, known)), list(self._after(call, known))
        whole = not known.floats and any(_wide(call, n) for n in call.writes) and known.casts
        if not (before or after or whole):
            return run
        names = [p.name for p in call.instruction.varying]
        skipped = int(call.instruction.wants_core)
        others = (p.name for p in call.instruction.parameters if not p.varies)
        fixed = {name: arguments[name] for name in others}

        def watched(*given: Any) -> None:
            now = {**fixed, **dict(zip(names, given[skipped:], strict=True))}
            for name in call.instruction.lists:
                now |= spread(name, now[name])
            for check in before:
                check(now)
            if whole:
                around = Around(self.core, Precision())
                integers.check_written(around, call, now, known, False, lambda: run(*given))
            else:
                run(*given)
            for check in after:
                check(now)

        return watched

    def _before(self, call: Call, known: Evaluation) -> list[Check]:
        """Checks of what a call is about to read."""
        found: list[Check] = []
        if known.integers and known.floats:
            found.append(lambda now: integers.check_read(self.core, now, known))
        if self._multiplies_to_transpose(call):
            found.append(self._check_transposed)
        if _drops_bias(call):
            found.append(self._check_bias)
        return found

    def _after(self, call: Call, known: Evaluation) -> list[Check]:
        """Checks of what it has written."""
        narrow = [n for n in known.floats if _is_narrow(call.view(n).dtype)]
        if not (narrow and call.reads) or known.moves:
            return []
        return [lambda now: self._check_overflow(call, narrow, now)]

    # --- infinities ------------------------------------------------------------------------------

    def _check_overflow(self, call: Call, narrow: list[str], now: Arguments) -> None:
        """Report infinities (NaN in formats without) that come of finite operands."""
        for name in narrow:
            tile = now[name]
            if tile.dynamic or all_finite(tile) or not _all_finite_among(call.reads, now):
                continue
            values = tile.values()
            gone = np.isinf(values) if tile.dtype.infinite else np.isnan(values)
            if gone.any():
                self.core.report(
                    OVERFLOW,
                    f"{int(gone.sum())} of {tile.size} results for {name} ({tile}) are beyond "
                    f"{tile.dtype.max:.4g}, the largest {tile.dtype}, and have become "
                    + ("infinite" if tile.dtype.infinite else "NaN"),
                    tile.storage.id,
                )

    # --- transposes ------------------------------------------------------------------------------

    def _multiplies_to_transpose(self, call: Call) -> bool:
        """Whether a call transposes by a product with an identity matrix (ISA, nc_transpose on
        v2), where NaN times 0 is NaN."""
        turns = call.instruction.traits.transposes and call.engine is engine.tensor
        return turns and not call.machine.has("native_transpose")

    def _check_transposed(self, now: Arguments) -> None:
        data = now["data"]
        if not data.dtype.is_float or data.dynamic or all_finite(data):
            return
        lost = ~np.isfinite(data.values())
        leftovers = self.core.leftovers_in(data)
        count = int((lost if leftovers is None else lost & ~leftovers).sum())
        if count:
            self.core.report(
                "TRANSPOSED_NAN",
                f"data ({data}) has {count} elements that are NaN or infinite, which spread along "
                f"their rows of dst: {self.core.machine.name} transposes by a product with an "
                "identity matrix",
                data.storage.id,
            )

    # --- a bias that gets lost -------------------------------------------------------------------

    def _check_bias(self, now: Arguments) -> None:
        bias = now["bias"]
        if isinstance(bias, Tile) and not bias.dynamic and bias.codes().any():
            self.core.report(
                "BIAS_DROPPED",
                f"bias ({bias}) is not 0, and the function copies: the device has been seen to "
                "leave the bias out",
                bias.storage.id,
            )


def _wide(call: Call, name: str) -> bool:
    return call.view(name).dtype in WIDE_INTEGERS


def _is_narrow(form: Format) -> bool:
    """Whether numbers of float32 may be beyond it."""
    return form.is_float and form.exponent < float32.exponent


def _drops_bias(call: Call) -> bool:
    functions = (v for v in call.arguments.values() if isinstance(v, Function))
    return "bias" in call.reads and any(not function.adds_bias for function in functions)


def _all_finite_among(names: tuple[str, ...], now: Arguments) -> bool:
    """Whether all operands that are floats, and all numbers, are finite."""
    tiles = [now[n] for n in names]
    numbers = [v for v in now.values() if isinstance(v, float | np.floating)]
    if not all(np.isfinite(number) for number in numbers):
        return False
    floats = [t for t in tiles if t.dtype.is_float]
    return not any(t.dynamic for t in tiles) and all(all_finite(t) for t in floats)
