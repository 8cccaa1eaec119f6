"""Other calls that a source line might make instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call, out_of_reach
from neuroncore.clause.legality import stays_legal
from neuroncore.clause.operand import PSUM
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import Format, bfloat16, float8_e4m3, float16, float32
from neuroncore.record.program import Program

NARROWER: dict[Format, Format] = {
    float32: bfloat16, bfloat16: float8_e4m3, float16: float8_e4m3
}  # fmt: skip
Other = Callable[[Call], Call | None]


def instead(program: Program, line: int, other: Other) -> dict[tuple[int, int], Call]:
    """The results of `other` for the calls of a line, without those for which it has none."""
    columns = program.columns()
    calls = np.unique(columns.call[columns.line == line]).tolist()
    made = ((call, other(program.calls[call])) for call in calls)
    return {(line, call): found for call, found in made if found is not None}


def narrower(call: Call) -> Call | None:
    """The call with all its widest floats, but those in PSUM, of the next narrower format: None if
    there is none, the machine would refuse that, or an operand is a list."""
    if call.instruction.lists:
        return None
    tiles = {n: v for n, v in call.arguments.items() if _may_be_narrower(v)}
    widest = max((v.dtype.itemsize for v in tiles.values()), default=0)
    made = {
        name: replace(view, dtype=NARROWER[view.dtype])
        for name, view in tiles.items()
        if view.dtype.itemsize == widest
    }
    return _legal(replace(call, arguments={**call.arguments, **made})) if made else None


def _may_be_narrower(given: object) -> bool:
    return isinstance(given, View) and given.region is not PSUM and given.dtype in NARROWER


def engines(calls: Sequence[Call]) -> Iterator[engine]:
    """Those that some of the calls might run on and don't."""
    listed = [
        unit for call in calls for unit in call.instruction.engines if unit is not call.engine
    ]
    yield from dict.fromkeys(listed)


def on(unit: engine, call: Call) -> Call | None:
    """The call on another engine; None if that can't run it."""
    if unit is call.engine or unit not in call.instruction.engines or out_of_reach(call, unit):
        return None
    named = {"engine": unit} if "engine" in call.arguments else {}
    return _legal(replace(call, engine=unit, arguments={**call.arguments, **named}))


def _legal(call: Call) -> Call | None:
    return call if stays_legal(call) else None
