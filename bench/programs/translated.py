"""Statements of today's API in programs of the older API. The instructions have the same names and
arguments in both, but most functions of the older API return their result, and its tensors have
fewer views."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any

import neuroncore

neuroncore.activate()

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

from bench.programs import choices, elementwise, folds, functions, masks, products, transfers
from bench.programs.draws import FLOATS
from bench.programs.maker import Maker
from bench.programs.older import COLUMNS, FORMS, ROWS, Tiles, grid
from bench.programs.program import Views
from bench.programs.views import Tensor, View
from bench.programs.windows import How, Windows
from neuroncore.clause.instruction import INSTRUCTIONS

FAMILIES = (elementwise, folds, choices, functions)
MODULES = {"nisa": nisa, "nl": nl}
BIASES = ("float32", "bfloat16", "float16")
TWO_AXES = {"flat": True, "moves": False}  # like every result of the older API
NAMES = re.compile(r"\b(nisa|nl)\.(\w+)")
FUNCTIONS = 1.5  # factor of the probability, because programs of today's API have more steps
LOOPS = 0.1  # share of the instructions that a loop repeats
MASKS = 0.15  # share of masked instructions among those that may have a mask


class Missing(Exception):
    """The older API lacks a name, or an argument, of a statement."""


class OlderMaker(Maker):
    """Draws statements as its base does, and writes them in the older API."""

    dialect = "older"
    masks, loops = MASKS, LOOPS
    STYLES = Windows._in_a_row, Windows._in_a_row, Windows._stepped, Windows._block

    @property
    def biases(self) -> tuple[str, ...]:
        return BIASES

    @property
    def floats(self) -> tuple[str, ...]:
        return FLOATS

    def to_read(self, *given: Any, **how: Any) -> View:
        return super().to_read(*given, **how | TWO_AXES)

    def to_write(self, *given: Any, **how: Any) -> View:
        return super().to_write(*given, **how | TWO_AXES)

    def given(self, *given: Any) -> View:
        """Return an input, which kernels of the older API must not change."""
        made = super().given(*given)
        made.tensor.constant = True
        return made

    def window(self, base: View, lanes: int, free: int, how: How = How()) -> View:  # noqa: B008
        return super().window(base, lanes, free, how._replace(**TWO_AXES))

    def _reshaped(self, view: View) -> View:
        return view

    def _flat(self, base: View) -> View:
        return base if len(base.shape) == 2 else base.reshape(base.lanes, base.free)

    def say(self, text: str, *more: Any, **given: Any) -> None:
        if ".permute(" in text:
            raise Missing("permute")
        for module, word in NAMES.findall(text):
            if not hasattr(MODULES[module], word):
                raise Missing(f"{module}.{word}")
        super().say(text, *more, **given)

    def written_as(
        self, name: str, given: dict[str, Any], views: Views
    ) -> tuple[str, Sequence[Views]]:
        """Return the text and the operands, as the base does. Some instructions get a mask, and are
        issued for each rectangle of elements that it selects. Some are repeated by a loop."""
        text, views = self.call(name, given), _with_equal_words(name, views)
        held = [views]
        if _may_have_a_mask(name, views) and self.chance(self.masks):
            lanes, free = views["dst"].shape
            chosen = masks.mask(self, lanes, free, moved=False)
            text = f"{grid(self, lanes, free)}\n{self.call(name, given | {'mask': chosen.text})}"
            held = [_parts(views, rows, wide) for rows, wide in chosen.boxes()]
        if self.chance(self.loops):
            loop = self.choose(("sequential_range", "sequential_range", "static_range"))
            turns = f"for k in nl.{loop}({self.between(2, 3)}):"
            text = "\n".join([turns, *(f"    {line}" for line in text.split("\n"))])
        return text, held

    def call(self, name: str, given: dict[str, Any]) -> str:
        """Return the text of a call of the older API. If `dst` is not an argument of the function,
        the result of the call is assigned to `dst`. Raises Missing."""
        module, _, function = name.partition(".")
        if function not in MODULES[module].__all__:
            raise Missing(name)
        takes = _parameters(module, function)
        dst = given.get("dst")
        if dst is None or "dst" in takes:
            _hold(name, takes, given)
            return super().call(name, given)
        made = {"shape": str(dst.shape), "dtype": f"nl.{dst.form}"}
        defaults = {p.name: p.default for p in INSTRUCTIONS[function].parameters}
        given = {
            key: one for key, one in (given | made).items()
            if key in takes or (key not in made and not _names(one, defaults.get(key)))
        }  # fmt: skip
        del given["dst"]
        _hold(name, takes, given)
        return f"{indexed(dst)} = {super().call(name, given)}"


def _may_have_a_mask(name: str, views: Views) -> bool:
    """Return whether each element of the result depends on one element of each operand, and the
    result was written before."""
    instruction, dst = INSTRUCTIONS.get(name.partition(".")[2]), views.get("dst")
    traits = instruction and instruction.traits
    if not (traits and traits.lanewise and isinstance(dst, View) and dst.is_written()):
        return False
    shapes = {one.shape for one in views.values() if isinstance(one, View)}
    alike = len(dst.shape) == 2 and shapes <= {dst.shape, (dst.lanes, 1)}
    return alike and not (traits.scans or traits.accumulates)


def _parts(views: Views, rows: slice, wide: slice) -> Views:
    """Return the operands of an instruction for some rows and columns of its result."""
    found: dict[str, View | str] = {}
    for key, one in views.items():
        columns = wide if isinstance(one, View) and one.free > 1 else slice(None)
        found[key] = one if isinstance(one, str) else replace(one, at=one.at[rows, columns])
    return found


@cache
def _parameters(module: str, function: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(getattr(MODULES[module], function)).parameters


def _hold(name: str, takes: Mapping[str, inspect.Parameter], given: Mapping[str, Any]) -> None:
    """Raise Missing unless a function accepts the arguments that are given."""
    needed = {key for key, one in takes.items() if one.default is one.empty} - {"kwargs"}
    if wrong := ({*given} - {*takes}) | (needed - {*given}):
        raise Missing(f"{min(wrong)} of {name}")


def _names(text: Any, value: Any) -> bool:
    """Return whether a text of an argument names a member of an enumeration."""
    return isinstance(value, Enum) and text == f"nisa.{type(value).__name__}.{value.name}"


def indexed(view: View) -> str:
    """Return the text of a view to assign to."""
    return view.text if view.text.endswith("]") else f"{view.text}[...]"


def _steps() -> list[tuple[Any, float]]:
    """Return the steps of the FAMILIES, without those of instructions that the older API lacks."""
    steps = [each for family in FAMILIES for each in family.STEPS]
    steps += [(products.nc_transpose, 0.6), (transfers.dma_transpose, 0.6), (transfers.dma_copy, 1)]
    lacks = {*INSTRUCTIONS} - {*nisa.__all__}
    more = dict.fromkeys(functions.STEPS, FUNCTIONS)
    return [
        (step, weight * more.get((step, weight), 1))
        for step, weight in steps
        if step.__name__ not in lacks
    ]


def of_both(tiles: Tiles) -> None:
    """Add a statement of today's API. It may use the tiles, and they may be used later."""
    maker = tiles.maker
    for one in tiles.made:
        if one not in maker.tensors:
            one.written[:] = True
            maker.tensors.append(one)
    (step,) = maker.random.choices(*zip(*_STEPS))
    are_held = step.__module__ == functions.__name__
    maker.masks, maker.loops = (0, 0) if are_held else (MASKS, LOOPS)
    with suppress(Missing):
        step(maker)
    tiles.made += [one for one in maker.tensors if one not in tiles.made and _is_tile(one)]


def _is_tile(one: Tensor) -> bool:
    """Return whether other statements of the older API may use a tensor."""
    if one.region != "sbuf" or len(one.shape) != 2 or one.form not in FORMS or one.constant:
        return False
    return one.shape[0] <= ROWS and one.shape[1] <= COLUMNS and one.whole().is_written()


_STEPS = _steps()
STEPS = ((of_both, 8),)


def _with_equal_words(name: str, views: Views) -> Views:
    """Return the operands as the instruction reads them. A dma_copy of the older API between int32
    and uint32 moves bits: one operand is read in the format of the other (`integer_transfers`)."""
    src, dst = views.get("src"), views.get("dst")
    if name != "nisa.dma_copy" or not isinstance(src, View) or not isinstance(dst, View):
        return views
    if {src.form, dst.form} != {"int32", "uint32"}:
        return views
    if src.picked:
        return {**views, "dst": replace(dst, form=src.form)}
    return {**views, "src": replace(src, form=dst.form)}
