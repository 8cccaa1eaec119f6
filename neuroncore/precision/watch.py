"""Checks of a run: numbers that differ from those that the kernel's author expects.

The formats and operators of a call decide once which checks it needs; a call that needs none costs
nothing more. Float64 is used only where an integer looks suspicious.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause.alu import Function
from neuroncore.clause.instruction import Call, Run
from neuroncore.clause.operand import spread
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import Format, float32
from neuroncore.precision import integers
from neuroncore.precision.around import Around
from neuroncore.precision.doubles import all_finite
from neuroncore.precision.evaluation import WIDE_INTEGERS, Evaluation, evaluation
from neuroncore.precision.findings import OVERFLOW, Precision

Arguments = dict[str, Any]
Check = Callable[[Arguments], None]
RunWatched = Callable[[Arguments, Callable[[], None]], None]


class Watch:
    """The observer of one core (`Core.watch`). Functions of calls outlive the core, with their
    record."""

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
        checks = list(self._before(call, known))
        run_watched = self._around_run(call, known)
        if not (checks or run_watched):
            return run
        names = [p.name for p in call.instruction.varying]
        skipped = int(call.instruction.wants_core)
        others = (p.name for p in call.instruction.parameters if not p.varies)
        fixed = {name: arguments[name] for name in others}

        def watched(*given: Any) -> None:
            now = {**fixed, **dict(zip(names, given[skipped:], strict=True))}
            for name in call.instruction.lists:
                now |= spread(name, now[name])
            for check in checks:
                check(now)
            if run_watched is None:
                run(*given)
            else:
                run_watched(now, lambda: run(*given))

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

    def _around_run(self, call: Call, known: Evaluation) -> RunWatched | None:
        """Return the function that runs a call and checks its results, if any check applies."""
        narrow = [n for n in known.floats if _is_narrow(call.view(n).dtype)]
        if narrow and call.reads and not known.moves:
            return lambda now, run: self._check_overflow(call, narrow, now, run)
        if not known.floats and known.casts and any(_wide(call, n) for n in call.writes):
            return lambda now, run: integers.check_written(
                self.core, lambda: Around(self.core, Precision()), call, now, known, False, run
            )
        return None

    # --- infinities ------------------------------------------------------------------------------

    def _check_overflow(
        self, call: Call, narrow: list[str], now: Arguments, run: Callable[[], None]
    ) -> None:
        """Let a call run, and report infinities (NaN in formats without) that come of finite
        operands. Operands that it overwrites are checked before."""
        results, read = [now[n] for n in narrow if not now[n].dynamic], [now[n] for n in call.reads]
        written = [tile.storage.data for tile in results]
        own = [tile for tile in read if any(tile.storage.data is data for data in written)]
        finite = all(map(_is_finite, own))
        run()
        beyond = [tile for tile in results if not all_finite(tile)]
        if not (finite and beyond):
            return
        numbers = [v for v in now.values() if isinstance(v, float | np.floating)]
        others = (tile for tile in read if not any(tile is one for one in own))
        if all(map(np.isfinite, numbers)) and all(map(_is_finite, others)):
            for tile in beyond:
                self._report_overflow(tile)

    def _report_overflow(self, tile: Tile) -> None:
        values, form = tile.values(), tile.dtype
        gone = np.isinf(values) if form.infinite else np.isnan(values)
        if gone.any():
            self.core.report(
                OVERFLOW,
                f"{int(gone.sum())} of {tile.size} results ({tile}) are beyond {form.max:.4g}, the "
                f"largest {form}, and have become {'infinite' if form.infinite else 'NaN'}",
                tile.storage.id,
            )

    # --- transposes ------------------------------------------------------------------------------

    def _multiplies_to_transpose(self, call: Call) -> bool:
        """Return whether a call transposes by a product with an identity matrix (ISA, nc_transpose
        on v2), where NaN times 0 is NaN."""
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
    """Return whether float32 numbers may exceed its range."""
    return form.is_float and form.exponent < float32.exponent


def _drops_bias(call: Call) -> bool:
    functions = (v for v in call.arguments.values() if isinstance(v, Function))
    return "bias" in call.reads and any(not function.adds_bias for function in functions)


def _is_finite(tile: Tile) -> bool:
    """Return whether an operand is known to have no infinity or NaN."""
    return not tile.dynamic and (not tile.dtype.is_float or all_finite(tile))
