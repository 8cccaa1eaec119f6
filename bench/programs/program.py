"""A program: the statements of a kernel, and what it is launched with."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bench.programs.draws import NUMBERS
from bench.programs.views import Array, View

IMPORTS = {
    "today": "import nki, nki.isa as nisa, nki.language as nl, nki.collectives as ncc, numpy as np",
    "older": "import neuronxcc.nki as nki, neuronxcc.nki.isa as nisa, neuronxcc.nki.language as nl"
    ", numpy as np",
}
FIRST = "from bench.programs.checks import main"
KNOWN = ("known", "distinct")
ALWAYS = "known always"  # of which the numbers are the same each time
TIES = "ties"  # of which many have the same magnitude
APART = "iterations in any order"  # a kind of loops that give the same result in each order
AROUND = " around"  # the end of a kind, of which some numbers are below 0
MAGNITUDES = np.float32([0, 1, 1, 3, 5, 5, 0.25, 1e4, np.inf, np.nan])
ODD = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-40])
SCALES = np.float32([0.25, 1, 1, 1, 4])
STEPS = np.float32([0.25, 1, 1 + 2.0**-8, 33])  # between neighbours, where there are few numbers
STRIDED = 0.15  # of the arrays that a kernel is given
NESTED = 10  # of so many programs two return more than a tuple
VIEWED = 7  # of so many programs one returns an input too
UNUSUAL = 0.4  # of the inputs of floats
CONSTANTS = {"True": True, "False": False, **{text: eval(text) for text in NUMBERS}}
"""Arguments that instructions of the record must have as the kernel says them."""
Views = Mapping[str, "View | str"]


class Input(NamedTuple):
    """An array that the kernel is given: its name, its shape, its format and which numbers."""

    name: str
    shape: tuple[int, ...]
    form: str
    kind: str = "any"
    seed: int = 0
    high: int = 0


@dataclass(frozen=True)
class Launch:
    """What a kernel is launched on; with several `programs`, one after the other on each core."""

    target: str
    cores: int = 1
    ranks: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    programs: int = 1

    def __str__(self) -> str:
        given = {"cores": self.cores, "ranks": self.ranks, "programs": self.programs}
        more = [f"{name}={count}" for name, count in given.items() if count > 1]
        more += [f"{name}={value!r}" for name, value in self.options.items()]
        return ", ".join([repr(self.target), *more])


@dataclass(frozen=True, eq=False)
class Statement:
    """Lines of a kernel. `views` has for a line, counted in the statement, the operands and the
    CONSTANTS of its instruction by name, one after the other for each time that it is executed.
    `makes` is the name of what it makes, and `kinds` are what kinds of thing it does."""

    text: str
    views: Mapping[int, Sequence[Views]] = field(default_factory=dict)
    makes: str | None = None
    kinds: frozenset[str] = frozenset()

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


@dataclass(frozen=True, eq=False)
class Program:
    """What a seed makes."""

    seed: int
    launch: Launch
    inputs: Sequence[Input]
    statements: Sequence[Statement]
    results: Sequence[str]
    dialect: str = "today"

    @property
    def kinds(self) -> set[str]:
        """The kinds of thing that it does."""
        launch = self.launch
        found = {f"{self.dialect} API", launch.target, *(f"Options.{o}" for o in launch.options)}
        found |= {"two cores"} if launch.cores > 1 else set()
        found |= {"ranks"} if launch.ranks > 1 else set()
        found |= {"several programs"} if launch.programs > 1 else set()
        return found.union(*(one.kinds for one in self.statements))

    @property
    def reorders(self) -> bool:
        """Whether it has parallel loops, and all of them give the same result in each order."""
        loops = [one.kinds for one in self.statements if "affine_range" in one.text]
        return bool(loops) and all(APART in kinds for kinds in loops)

    def of(self, statements: Sequence[Statement]) -> Program:
        """The same with other statements, of which what is returned has to be made."""
        made = {one.makes for one in statements}
        words = set(re.findall(r"\w+", " ".join(one.text for one in statements)))
        used = [one for one in self.inputs if one.name in words]
        left = [one for one in self.results if one in made]
        return replace(self, statements=statements, results=left, inputs=used)

    def _head(self) -> list[str]:
        names = ", ".join(one.name for one in self.inputs)
        return [FIRST, IMPORTS[self.dialect], "@nki.jit", f"def kernel({names}):"]

    def _body(self) -> Iterator[str]:
        for one in self.statements:
            yield from one.lines
        yield f"return {self._returned()}"

    def _returned(self) -> str:
        """The results as a tuple, now and then in a dictionary and a list, with the first one
        twice, or with a view of an input."""
        names = ", ".join([*self.results, *self._viewed_inputs()])
        if not self.results or self.seed % NESTED > 1:
            return names or "None"
        first = self.results[0]
        return f"{{'a': {first}, 'b': [{names}]}}" if self.seed % NESTED else f"{first}, ({names},)"

    def _viewed_inputs(self) -> list[str]:
        """In a part of the programs of today's API the first input: whole, with its axes in
        reverse order, or with its bits as integers."""
        if self.dialect != "today" or self.seed % VIEWED or not self.inputs:
            return []
        name, shape, form = self.inputs[0][:3]
        views = [name, f"{name}.permute({(*reversed(range(len(shape))),)})"]
        views += [f"{name}.view(nl.int32)"] * (form == "float32")
        return [views[self.seed // VIEWED % len(views)]]

    def kernel_source(self) -> str:
        """The file up to the end of the kernel."""
        return "\n".join([*self._head(), *(f"    {line}" for line in self._body())]) + "\n"

    def source(self) -> str:
        """A file that runs the program and checks it."""
        given = ", ".join(repr(tuple(one)) for one in self.inputs)
        more = ", reorders=True" * self.reorders
        return f"{self.kernel_source()}main(kernel, {self.seed}, [{given}], {self.launch}{more})\n"

    def by_line(self) -> dict[int, Sequence[Views]]:
        """The operands of the instruction of each line of the source that has one."""
        found, line = {}, len(self._head()) + 1
        for one in self.statements:
            for number, _ in enumerate(one.lines):
                if number in one.views:
                    found[line] = one.views[number]
                line += 1
        return found

    @property
    def file(self) -> str:
        """What the kernel's source is called."""
        return f"<program {self.seed}>"

    def kernel(self) -> Any:
        """The kernel, made from its source."""
        text, name = self.kernel_source(), self.file
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        names: dict[str, Any] = {}
        exec(compile(text, name, "exec"), names)
        return names["kernel"]


def arrays(inputs: Sequence[Input], seed: int, rank: int = 0, first: bool = True) -> list[Array]:
    """Numbers for the inputs of a rank. Those that the generator knows are as it knows them the
    first time, and others later, unless the kernel decides by them."""
    found = []
    for one in inputs:
        own = [seed, rank, int(first), int(one.name[1:])]
        known = one.kind == ALWAYS or (first and one.kind in KNOWN)
        key = one.seed if known else own
        made = numbers(one, np.random.default_rng(key))
        found.append(_laid_out(made, np.random.default_rng([seed, int(one.name[1:])])))
    return found


def _laid_out(array: Array, rng: np.random.Generator) -> Array:
    """The same numbers, now and then in memory in another order, or with gaps."""
    if rng.random() > STRIDED:
        return array
    way = rng.integers(3)
    if way == 0:
        return np.asfortranarray(array)
    wide = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)
    found = wide[::2] if way == 1 else wide[-1::-2]
    found[...] = array
    return found


def numbers(one: Input, rng: np.random.Generator) -> Array:
    """Numbers of an input: ties; or mostly small ones, with zeros of both signs, infinities and NaN
    or limits of integers among them now and then; or integers up to a number, any or `distinct`,
    some of them below 0."""
    form = np.dtype(one.form.rstrip("_"))
    low = -(one.high // 3) if one.kind.endswith(AROUND) else 0
    if one.kind.startswith("known"):
        return rng.integers(low, one.high + 1, one.shape).astype(form)
    if one.kind.startswith("distinct"):
        found = low + rng.permutation(one.high + 1)[: np.prod(one.shape)]
        return found.reshape(one.shape).astype(form)
    if one.kind == "identity":
        return np.eye(*one.shape).astype(form)
    if one.kind == TIES:
        return _ties(rng.standard_normal(one.shape, np.float32), rng).astype(form)
    odd = one.kind == "any" and rng.random() < 0.2
    if form.kind in "iub":
        return _whole(one, form, rng, odd)
    found = rng.standard_normal(one.shape, np.float32) * rng.choice(SCALES)
    if one.kind == "any" and rng.random() < UNUSUAL:
        found = _unusual(found, form, rng)
    if odd:
        _spread(found, rng.choice(ODD), rng)
    with np.errstate(all="ignore"):
        return found.astype(form)


def _unusual(found: Array, form: Any, rng: np.random.Generator) -> Array:
    """Two magnitudes of both signs; few different numbers, of which many are equal or halfway
    between two of a narrower format; numbers of many magnitudes; any bits; or half of the rows
    zeros."""
    draw, shape = rng.random(), found.shape
    if draw < 0.3:
        return _ties(found, rng)
    if draw < 0.5:
        return (rng.integers(-8, 9, shape) * rng.choice(STEPS)).astype(np.float32)
    if draw < 0.65:
        return np.ldexp(found, rng.integers(-40, 40, shape))
    if draw < 0.8:
        count = found.size * form.itemsize
        return rng.integers(0, 256, count, np.uint8).view(form).reshape(shape)
    found[: shape[0] // 2] = 0
    return found


def _ties(found: Array, rng: np.random.Generator) -> Array:
    """Numbers of two magnitudes, with the signs of others."""
    chosen: Array = rng.choice(rng.choice(MAGNITUDES, 2), found.shape)
    return np.copysign(chosen, found)


def _whole(one: Input, form: Any, rng: np.random.Generator, odd: bool) -> Array:
    if form.kind == "b":
        return rng.random(one.shape) < 0.6
    low, high = (0, 9) if form.kind == "u" else (-9, 9)
    found = rng.integers(low, high + 1, one.shape).astype(form)
    if odd:
        limits = np.iinfo(form)
        _spread(found, rng.choice(np.array([limits.min, limits.max], form)), rng)
    return found


def _spread(found: Array, value: Any, rng: np.random.Generator) -> None:
    """Put a value at a few places."""
    flat = found.reshape(-1)
    flat[rng.integers(0, flat.size, 1 + flat.size // 50)] = value
