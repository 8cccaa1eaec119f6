"""neuroncore machines --check: compare derived peaks with every published number."""

from __future__ import annotations

import ast
import operator
import tomllib
from collections.abc import Iterator, Mapping
from math import floor
from typing import Any

from neuroncore import machine
from neuroncore.base.errors import DefinitionError
from neuroncore.base.structs import dataclass
from neuroncore.machine import Machine
from neuroncore.machine import instance as instances

UNITS = {"TFLOPS": 1.0, "TOPS": 1.0, "PFLOPS": 1e-3}  # per TFLOPS
BINARY = {
    "GiB": ("GB", 2**30 / 1e9),
    "GiB/s": ("GB/s", 2**30 / 1e9),
}  # units that are compared in decimal
LANES, GPSIMD_LANES = 128, 8 * 16
ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A published number. `rate` is the Tensor engine's rate relative to bfloat16, for claims about
    it. `formula` gives the number, if any formula does, rounded to `to` or truncated by `cut`, from
    values of the core and the `instance`. Claims with the same `quantity` are about one thing."""

    of: str
    machine: str
    cores: int
    what: str
    printed: str
    source: str
    instance: str = ""
    quantity: str = ""
    unit: str = "TFLOPS"
    name: str = ""
    rate: float | None = None
    formula: str = ""
    to: float = 0.0
    cut: bool = False
    note: str = ""

    @property
    def step(self) -> float:
        """Return the rounding of the claim; the default is its last digit."""
        return self.to or 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def decimal(self) -> tuple[float, str]:
        """Return the number and its unit in powers of ten."""
        unit, factor = BINARY.get(self.unit, (self.unit, 1.0))
        return float(self.printed) * factor, unit

    def is_met_by(self, value: float) -> bool:
        steps = value / self.step
        return (floor(steps) if self.cut else round(steps)) == round(
            float(self.printed) / self.step
        )


def claims(text: str) -> list[Claim]:
    """Return the claims of published.toml, in order."""
    groups = tomllib.loads(text)["claim"]
    found = []
    for group in groups:
        rows = group.pop("rows")
        found += [Claim(**{**group, **row}) for row in rows]
    return found


def published() -> list[Claim]:
    return claims((machine.isa() / "published.toml").read_text("utf-8"))


def tensor_tflops(core: Machine, rate: float = 1.0) -> float:
    """Return geometry times clock, with two operations per cell of the array."""
    return 2 * core.pe_cells * core.engines["tensor"].clock_ghz * rate / 1e3


def quantities(core: Machine) -> dict[str, float]:
    """Return the names in formulas for a core: TFLOPS of its engines, GB/s of HBM."""
    clocks = {name: unit.clock_ghz / 1e3 for name, unit in core.engines.items()}
    return {
        "T": tensor_tflops(core),
        "P": core.peak_tflops["bfloat16"],
        "V": LANES * 8 * clocks["vector"],
        "S": LANES * 8 * clocks["scalar"],
        "G": GPSIMD_LANES * 4 * clocks["gpsimd"],
        "H": core.hbm.gigabytes_per_s,
    }


def of_instance(name: str) -> dict[str, float]:
    """Return the names in formulas for an instance: GiB of HBM, GB/s of links, Gb/s of EFA."""
    if not name:
        return {}
    one = instances.load(name)
    links = {f"L_{group.name}": 2 * group.each_way for group in one.links}
    return {
        "M": one.hbm_bytes / 2**30,
        "C": one.chip.cc_cores,
        "L": 2 * one.links_each_way,
        "E": one.host.efa_interfaces * one.host.efa_gigabits_per_s,
        **links,
    }


def evaluated(formula: str, names: Mapping[str, float]) -> float:
    """Return the value of sums and products of numbers and names.

    Raises DefinitionError for unknown names and other expressions.
    """

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                result: float = ARITHMETIC[type(op)](value(left), value(right))
                return result
        raise DefinitionError(f"{formula!r}: no meaning is known for {ast.unparse(node)!r}")

    return value(ast.parse(formula, mode="eval").body)


@dataclass(frozen=True)
class PublishedLine:
    """A claim, the value for the Tensor engine alone, and the value of the formula."""

    claim: Claim
    alone: float | None
    derived: float | None

    @property
    def holds(self) -> bool:
        return self.derived is None or self.claim.is_met_by(self.derived)


def compared(every: list[Claim], cores: Mapping[str, Machine]) -> Iterator[PublishedLine]:
    printed = {claim.name: float(claim.printed) for claim in every if claim.name}
    for claim in every:
        core = cores[claim.machine]
        alone = derived = None
        if claim.rate is not None:
            alone = claim.cores * tensor_tflops(core, claim.rate) * UNITS[claim.unit]
        if claim.formula:
            names = {**printed, **quantities(core), **of_instance(claim.instance)}
            derived = evaluated(claim.formula, names)
        yield PublishedLine(claim, alone, derived)


def contradictions(every: list[Claim]) -> dict[str, list[Claim]]:
    """Return the quantities with different published numbers."""
    found: dict[str, list[Claim]] = {}
    for claim in every:
        if claim.quantity:
            found.setdefault(claim.quantity, []).append(claim)
    return {
        quantity: claims
        for quantity, claims in found.items()
        if len({claim.decimal for claim in claims}) > 1
    }


def check() -> int:
    """Print every claim; return 1 if a formula no longer gives its number."""
    cores = {name: machine.load(name) for name in machine.names()}
    lines = list(compared(published(), cores))
    for core in cores.values():
        parts = ", ".join(f"{name} {value:.4g}" for name, value in quantities(core).items())
        print(f"{core.name}: {core.generation}, per core {parts}")
    print("T Tensor, P Tensor as published, V Vector, S Scalar, G GpSimd (TFLOPS), H HBM (GB/s)")
    head = None
    for line in lines:
        if line.claim.of != head:
            head = line.claim.of
            print(f"\n{head:26} {'Tensor alone':>12} {'derived':>10} {'published':>10}")
        print(_row(line))
    print()
    print("\n".join(_contradictions(contradictions([line.claim for line in lines]))))
    wrong = sum(not line.holds for line in lines)
    print(f"\n{len(lines)} published numbers, {wrong} that do not follow from the machine files")
    return int(wrong > 0)


def _contradictions(found: Mapping[str, list[Claim]]) -> Iterator[str]:
    yield f"{len(found)} contradictions: quantities with different published numbers"
    yield "(the files have the first one, if a formula gives it)"
    for quantity, every in found.items():
        printed = (f"{c.printed} {c.unit}".rstrip() + f" ({c.source}: {c.what})" for c in every)
        yield f"  {quantity}: " + "; ".join(printed)


def _row(line: PublishedLine) -> str:
    claim = line.claim
    verdict = "OFF" if not line.holds else claim.formula or "-"
    words = [f"  {claim.what:24}", _number(line.alone), _number(line.derived)]
    words += [f"{claim.printed:>10}", f"{claim.unit:6}", f"{claim.source:5}", verdict]
    return " ".join(words) + (f"  ({claim.note})" if claim.note else "")


def _number(value: Any) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.6g}"
