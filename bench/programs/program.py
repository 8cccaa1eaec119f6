"""A program: the statements of a kernel, and its launch."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
TURNS = "known turns"  # a kind of input with numbers of iterations, which differ in a replay
KNOWN = ("known", "distinct", TURNS)
ALWAYS = "known always"  # a kind of input whose numbers are the same in each launch
EDGES = "edges"  # a kind of input whose numbers are EDGE_CODES
TIES = "ties"  # a kind of input whose numbers have few magnitudes
APART = "iterations in any order"  # a kind of loop with the same result in each order
AROUND = " around"  # a kind of input that ends with this word also has negative numbers
MAGNITUDES = np.float32([0, 1, 1, 3, 5, 5, 0.25, 1e4, np.inf, np.nan])
ODD = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-40])
# the two smallest scales, 1, the largest scale, and NaN
EDGE_CODES = np.uint8([0, 1, 127, 254, 255])
SCALES = np.float32([0.25, 1, 1, 1, 4])
# between numbers, for inputs with few different numbers
STEPS = np.float32([0.25, 1, 1 + 2.0**-8, 33])
STRIDED = 0.15  # share of input arrays that are not C-contiguous
NESTED = 10  # two of 10 programs return more than a tuple
VIEWED = 7  # one of 7 programs also returns an input
UNUSUAL = 0.4  # share of float inputs with unusual numbers
CONSTANTS = {"True": True, "False": False, **{text: eval(text) for text in NUMBERS}}
"""Arguments that the record must have exactly as the kernel writes them."""
Views = Mapping[str, "View | str"]


class Input(NamedTuple):
    """An array argument of the kernel: its name, shape and format, the `kind` of its numbers (see
    `numbers`), their `seed`, and their greatest value (`high`)."""

    name: str
    shape: tuple[int, ...]
    form: str
    kind: str = "any"
    seed: int = 0
    high: int = 0


@dataclass(frozen=True)
class Launch:
    """The launch of a kernel: the machine, the cores of a rank, the ranks, and the options. If
    there are several `programs` of a grid, each core runs them one after the other."""

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
    """Lines of a kernel. views[n] belongs to the instruction of line n of the statement: it has the
    operands by name, and the arguments that are CONSTANTS, for each time that the line is executed.
    `makes` is the variable that the statement defines. `kinds` are names of what it does, for
    counts. `equal` are the names of results that must be equal."""

    text: str
    views: Mapping[int, Sequence[Views]] = field(default_factory=dict)
    makes: str | None = None
    kinds: frozenset[str] = frozenset()
    equal: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


@dataclass(frozen=True, eq=False)
class Program:
    """The program of a seed. `results` are the variables that the kernel returns."""

    seed: int
    launch: Launch
    inputs: Sequence[Input]
    statements: Sequence[Statement]
    results: Sequence[str]
    dialect: str = "today"

    @property
    def kinds(self) -> set[str]:
        """The names of what the program does, for counts."""
        launch = self.launch
        found = {f"{self.dialect} API", launch.target, *(f"Options.{o}" for o in launch.options)}
        found |= {"two cores"} if launch.cores > 1 else set()
        found |= {"ranks"} if launch.ranks > 1 else set()
        found |= {"several programs"} if launch.programs > 1 else set()
        return found.union(*(one.kinds for one in self.statements))

    @property
    def reorders(self) -> bool:
        """Return whether the program has parallel loops, and every one of them has the same results
        in all orders of its iterations."""
        loops = [one.kinds for one in self.statements if "affine_range" in one.text]
        return bool(loops) and all(APART in kinds for kinds in loops)

    @property
    def equal(self) -> list[tuple[int, ...]]:
        """Groups of results that must be equal, as positions among the returned arrays. There are
        no groups if instructions round at random."""
        if self.launch.options.get("stochastic"):
            return []
        first = int(bool(self.results) and self.seed % NESTED <= 1)
        names = [one.equal for one in self.statements]
        there = [each for each in names if each and {*each} <= {*self.results}]
        return [tuple(first + self.results.index(name) for name in each) for each in there]

    def of(self, statements: Sequence[Statement]) -> Program:
        """Return the program with other statements. Inputs that they do not use, and results that
        they do not make, are left out."""
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
        """Return the text of the results: a tuple, or in some programs a dict with a list in it, or
        a tuple with the first result twice. Views of an input may follow."""
        names = ", ".join([*self.results, *self._viewed_inputs()])
        if not self.results or self.seed % NESTED > 1:
            return names or "None"
        first = self.results[0]
        return f"{{'a': {first}, 'b': [{names}]}}" if self.seed % NESTED else f"{first}, ({names},)"

    def _viewed_inputs(self) -> list[str]:
        """Return the text of a view of the first input, in some programs of today's API: the whole
        input, its axes in reverse order, or its bits as integers. Return [] in other programs."""
        if self.dialect != "today" or self.seed % VIEWED or not self.inputs:
            return []
        name, shape, form = self.inputs[0][:3]
        views = [name, f"{name}.permute({(*reversed(range(len(shape))),)})"]
        views += [f"{name}.view(nl.int32)"] * (form == "float32")
        return [views[self.seed // VIEWED % len(views)]]

    def kernel_source(self) -> str:
        """Return the source of the file up to the end of the kernel."""
        return "\n".join([*self._head(), *(f"    {line}" for line in self._body())]) + "\n"

    def source(self) -> str:
        """Return the source of a file that runs the program and checks it."""
        given = ", ".join(repr(tuple(one)) for one in self.inputs)
        more = ", reorders=True" * self.reorders
        more += f", equal={self.equal}" if self.equal else ""
        return f"{self.kernel_source()}main(kernel, {self.seed}, [{given}], {self.launch}{more})\n"

    def by_line(self) -> dict[int, Sequence[Views]]:
        """Return the operands of instructions (`Statement.views`), by the line of the instruction
        in the source."""
        found, line = {}, len(self._head()) + 1
        for one in self.statements:
            for number, _ in enumerate(one.lines):
                if number in one.views:
                    found[line] = one.views[number]
                line += 1
        return found

    @property
    def file(self) -> str:
        """The name of the file that the kernel's source seems to have."""
        return f"<program {self.seed}>"

    def kernel(self) -> Any:
        """Return the kernel, compiled from its source."""
        text, name = self.kernel_source(), self.file
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        names: dict[str, Any] = {}
        exec(compile(text, name, "exec"), names)
        return names["kernel"]


def arrays(inputs: Sequence[Input], seed: int, rank: int = 0, first: bool = True) -> list[Array]:
    """Return the inputs of a rank. If the generator knows the numbers of an input, they are used in
    the first launch only, or always for the kind ALWAYS."""
    found = []
    for one in inputs:
        own = seed, rank, int(first), int(one.name[1:])
        known = one.kind == ALWAYS or (first and one.kind in KNOWN)
        way = _layout(seed, int(one.name[1:]))
        found.append(_laid_out(_numbers(one, one.seed if known else own), way))
    return found


@lru_cache(maxsize=64)  # two launches and a replay have the same inputs
def _numbers(one: Input, key: int | tuple[int, ...]) -> Array:
    return numbers(one, np.random.default_rng(key))


@lru_cache(maxsize=64)
def _layout(seed: int, number: int) -> int | None:
    """Return a number for the memory order of an input, in some programs None."""
    rng = np.random.default_rng((seed, number))
    return int(rng.integers(3)) if rng.random() <= STRIDED else None


def _laid_out(array: Array, way: int | None) -> Array:
    """Return a new array with the same numbers: C-contiguous for None, otherwise in another memory
    order or with gaps."""
    if way is None:
        return array.copy()
    if way == 0:
        return np.asfortranarray(array.copy())
    wide = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)
    found = wide[::2] if way == 1 else wide[-1::-2]
    found[...] = array
    return found


def numbers(one: Input, rng: np.random.Generator) -> Array:
    """Return random numbers for an input of this `kind`. "known": integers up to `high`.
    "distinct": the same without repetitions. Kinds that end with AROUND have negative integers too.
    "identity": an identity matrix. EDGES: EDGE_CODES. TIES: few magnitudes. "any": usually small
    numbers, sometimes with zeros of both signs, infinities, NaN or the limits of integers."""
    form = np.dtype(one.form.rstrip("_"))
    low = -(one.high // 3) if one.kind.endswith(AROUND) else 0
    if one.kind.startswith("known"):
        return rng.integers(low, one.high + 1, one.shape).astype(form)
    if one.kind.startswith("distinct"):
        found = low + rng.permutation(one.high + 1)[: np.prod(one.shape)]
        return found.reshape(one.shape).astype(form)
    if one.kind == EDGES:
        return rng.choice(EDGE_CODES, one.shape).astype(form)
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
    """Return unusual numbers in the shape of `found`: two magnitudes with both signs; few different
    numbers, many of them equal or halfway between two numbers of a narrower format; numbers of many
    magnitudes; random bits; or zeros in half of the rows."""
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
    """Return numbers with two magnitudes and the signs of `found`."""
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
    """Put a value in a few random places of `found`."""
    flat = found.reshape(-1)
    flat[rng.integers(0, flat.size, 1 + flat.size // 50)] = value
