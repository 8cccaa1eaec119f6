"""Variants of a call (an instruction with its shapes, formats and operators, but without its data):
the call on another engine, or with 16-bit operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call
from neuroncore.clause.legality import out_of_reach, stays_legal
from neuroncore.clause.operand import PSUM
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import bfloat16, float32


def with_formats(call: Call, marks: Sequence[int]) -> Call | None:
    """Return the call with bfloat16 instead of float32 in some operands. Return None if the machine
    refuses it, or if the call takes a list of tiles.

    `marks`: flags these operands, in the order `reads`, `indices`, `writes` of the call

    A product in PSUM stays float32."""
    key = f"{__name__} {[bool(mark) for mark in marks]}"
    variant: Call | None = call.derived(key, partial(_with_formats, call, marks))
    return variant


def _with_formats(call: Call, marks: Sequence[int]) -> Call | None:
    if call.instruction.lists:
        return None
    names = (*call.reads, *call.indices, *call.writes)
    marked = [name for name, mark in zip(names, marks, strict=False) if mark]
    views = {
        name: replace(call.view(name), dtype=bfloat16) for name in marked if _is_wide(call, name)
    }
    if not views:
        return call
    return _legal(replace(call, arguments={**call.arguments, **views}))


def _is_wide(call: Call, name: str) -> bool:
    view = call.arguments.get(name)
    if not isinstance(view, View) or view.dtype is not float32:
        return False
    return view.region is not PSUM or not call.instruction.traits.multiplies or call.transposes


def engines(calls: Sequence[Call]) -> Iterator[engine]:
    """Yield each engine on which at least one of the calls could run, but does not run now."""
    listed = [
        unit for call in calls for unit in call.instruction.engines if unit is not call.engine
    ]
    yield from dict.fromkeys(listed)


def on(unit: engine, call: Call) -> Call | None:
    """Return the call on another engine, or None if that engine can't run the call."""
    variant: Call | None = call.derived(f"{__name__} {unit.name}", partial(_on, unit, call))
    return variant


def _on(unit: engine, call: Call) -> Call | None:
    if unit is call.engine or unit not in call.instruction.engines or out_of_reach(call, unit):
        return None
    argument = {"engine": unit} if "engine" in call.arguments else {}
    return _legal(replace(call, engine=unit, arguments={**call.arguments, **argument}))


def _legal(call: Call) -> Call | None:
    return call if stays_legal(call) else None
