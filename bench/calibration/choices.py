"""The choices of the model that estimates times: numbers (choices.toml) and rules that were
inferred from measurements of whole kernels. With `applied`, estimates use other values of these
choices."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from neuroncore import machine
from neuroncore.machine import Machine
from neuroncore.record.program import Order, Program
from neuroncore.report.measurements import Harness
from neuroncore.time.loops.work import NO_MOVES
from neuroncore.time.policy import POLICIES

FILE = Path(__file__).with_suffix(".toml")
FITTED = "fitted"  # a grade of harnesses
DGE = "without --disable-dge, the device writes descriptors"


def _nobody(program: Program, *_: Any) -> Any:
    return np.full(len(program), -1, np.int32)


# For each rule: the function that applies it, and the substitute for this function that switches
# the rule off. The substitute returns what the function returns if the rule applies nowhere.
OFF: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "repeated loads happen once": (
        "neuroncore.time.compiled.residency.loads_and_spills",
        lambda program, *_: (_nobody(program), NO_MOVES),
    ),
    "repeated sums of the same tiles are computed once": (
        "neuroncore.time.compiled._compared",
        lambda calls: np.zeros(len(calls), np.int32),
    ),
    "copies out of PSUM are omitted if their readers can read PSUM": (
        "neuroncore.time.compiled.copies.bypassed",
        lambda program, accesses, _: (_nobody(program), accesses.operands),
    ),
    "copies within SBUF are omitted if their readers can read the source": (
        "neuroncore.time.compiled.forwarding.forwarded",
        lambda program, accesses, _: (_nobody(program), accesses.operands),
    ),
    "small instructions of all iterations of a parallel loop are merged": (
        "neuroncore.time.compiled.vectorized.vectorized",
        lambda program, *_: (program, np.full(len(program), -1, np.int32)),
    ),
    "loads and stores of neighboring iterations are merged": (
        "neuroncore.time.vectorized._merged_transfers",
        lambda *_: 1,
    ),
    "products that are added to a tile in PSUM accumulate": (
        "neuroncore.time.compiled.copies.accumulated",
        _nobody,
    ),
    "copies of transposes in the same bank are merged": (
        "neuroncore.time.compiled.copies.merged",
        _nobody,
    ),
    "work without an engine is distributed among engines": (
        "neuroncore.time.costs.variants",
        lambda call, *_: [call],
    ),
    "engines are chosen by the costs that the compiler expects": (
        "neuroncore.time.costs.expected_ns",
        lambda call, _: None,
    ),
    "programs end with waits for their stores": (
        "neuroncore.time.prepare.semaphores.final_stores",
        lambda *_: np.zeros(0, np.int64),
    ),
    "tiles that do not fit are spilled, and nothing overlaps with the spill": (
        "neuroncore.time.prepare.spill_ns",
        lambda *_: 0.0,
    ),
}


@dataclass(frozen=True)
class Choice:
    """One choice of the model. It is a number of a machine, a number of the policy of an order, a
    rule of a compiler, or the time that a fitted harness adds on a machine. `of` is the name of the
    machine or the order. `in_use` is the value that the model uses, `without` the value that needs
    no evidence, and `also` has other values to try. `shown_by` names the authors of programs,
    traces or logs that show a rule."""

    kind: str
    of: str
    name: str
    without: Any
    in_use: Any
    also: tuple[Any, ...] = ()
    shown_by: tuple[str, ...] = ()

    def is_shown_without(self, source: str) -> bool:
        """Return whether programs, traces or logs of at least two authors show the rule, not
        counting the author of `source`."""
        return len({_author(name) for name in self.shown_by} - {_author(source)}) > 1

    @property
    def values(self) -> list[Any]:
        """All values to try, first the value that needs no evidence."""
        return list(dict.fromkeys((self.without, *self.also, self.in_use)))

    def concerns(self, generation: str, order: Order) -> bool:
        """Return whether an estimate for this machine and order can depend on the choice."""
        return self.of in (generation, order)

    def __str__(self) -> str:
        return f"{self.of}: {self.name}"


Setting = Mapping[Choice, Any]  # values that differ from the values in use


def _author(name: str) -> str:
    return name.partition("/")[0]


def choices(harnesses: Sequence[Harness]) -> list[Choice]:
    """Return all choices: those of choices.toml, and one for each rule of the compilers, which
    states whether the compilers follow the rule."""
    tables = tomllib.loads(FILE.read_text("utf-8"))
    shown = {t["rule"]: tuple(t["by"]) for t in tables["shown"]}
    return [
        *(_choice("number", t["machine"], t, _at(machine.load(t["machine"]), t["name"].split(".")))
          for t in tables["number"]),
        *(_choice("policy", t["order"], t, getattr(POLICIES[t["order"]], t["name"]))
          for t in tables["policy"]),
        *(Choice("rule", "compiled", name, without=False, in_use=True, shown_by=shown.get(name, ()))
          for name in (*OFF, DGE)),
        *(_choice("offset", t["machine"], t, _fitted(harnesses, t["machine"]))
          for t in tables["offset"]),
    ]  # fmt: skip


def _choice(kind: str, of: str, table: Mapping[str, Any], in_use: Any) -> Choice:
    return Choice(kind, of, table["name"], table["without"], in_use, tuple(table.get("also", ())))


def _fitted(harnesses: Sequence[Harness], generation: str) -> float:
    return next(h.offset_us for h in harnesses if h.grade == FITTED and h.generation == generation)


@contextmanager
def applied(setting: Setting, target: Machine) -> Iterator[Machine]:
    """A context manager in which compilers follow `setting`. It returns the machine `target` with
    the numbers of the setting."""
    with ExitStack() as stack:
        for choice, value in setting.items():
            if choice.kind == "number" and choice.of == target.name:
                target = _with(target, choice.name.split("."), value)
            elif choice.kind == "policy":
                before = POLICIES[choice.of]
                after = replace(before, **{choice.name: value})
                after = replace(after, reach=max(after.reach, after.window))
                stack.enter_context(patch.dict(POLICIES, {choice.of: after}))
            elif choice.kind == "rule" and choice.name in OFF and not value:
                stack.enter_context(patch(*OFF[choice.name]))
        yield target


def _at(thing: Any, path: Sequence[str]) -> Any:
    for name in path:
        thing = thing[name] if isinstance(thing, Mapping) else getattr(thing, name)
    return thing


def _with(thing: Any, path: Sequence[str], value: Any) -> Any:
    """Return a copy of `thing`, in which the attribute or item at `path` has another value."""
    name, *rest = path
    if rest:
        value = _with(_at(thing, [name]), rest, value)
    if isinstance(thing, Mapping):
        return {**thing, name: value}
    return replace(thing, **{name: value})
