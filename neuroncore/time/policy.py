"""How each API's compiler changes the order of a kernel's instructions: `isa/compilers.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from neuroncore.base.options import PATHS
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM
from neuroncore.machine import FactReader, Machine
from neuroncore.record.program import Order, Program

NUMBERS = "window", "reach", "transfers", "stores_in_flight", "rewrites", "by_first_use"


@dataclass(frozen=True)
class Policy:
    """The changes that a compiler makes to the order of a program.

    `description`: these changes in words
    `window`: a queue issues the instruction that can begin first, among its next `window`
        instructions
    `transfers`: the same number for the DMA rings
    `reach`: an instruction that reads nothing, such as a memset, may begin early if it is among the
        next `reach` instructions of its queue
    `stores_in_flight`: how many transfers of DMA ring 2 may be incomplete at one time; 0 means any
        number
    `by_first_use`: whether loads are sorted by the first use of their data
    `rewrites`: whether the compiler also changes instructions, as described below
    `dge`: if `rewrites` is True too, the device writes descriptors while the kernel runs
        (`generates`)
    `software`: GpSimd writes the descriptors of transfers that name no mode, and loads may overtake
        stores that wait in the queue of GpSimd
    `slow_strides`: a rule of `Options.assume`

    A compiler that rewrites lets an instruction for which the kernel names no engine run on Vector
    or Scalar, wherever it expects the instruction to end earlier (`expected_ns`). It leaves out
    repeated loads while the tiles fit (`residency`), and leaves out or merges copies (`copies`).
    Descriptors that hardware could write are written before the kernel runs."""

    description: str
    window: int
    reach: int
    transfers: int
    stores_in_flight: int
    rewrites: bool
    by_first_use: bool
    dge: bool = False
    software: bool = False
    slow_strides: bool = False

    def on(self, machine: Machine) -> Machine:
        """Return the machine with the descriptor writer of this compiler. The older API's compiler
        may write descriptors before the kernel runs, or let GpSimd write them. Today's may leave
        them to software."""
        machine = self.with_strides(machine)
        if self.software:
            return machine.descriptors_by_software
        if self.generates(machine):
            return machine.descriptors_by_gpsimd
        return machine.descriptors_ahead if self.rewrites else machine

    def with_strides(self, machine: Machine) -> Machine:
        """Return the machine. With `slow_strides`, it has less DMA bandwidth for rows that begin a
        power of two bytes apart."""
        return machine.with_slow_strides if self.slow_strides else machine

    def writer(self, machine: Machine) -> str:
        """Return who writes the descriptors of a transfer for which the kernel chooses no mode.

        Older API: `compiler` (before the kernel runs) or `device`. Today's API: `hardware` or
        `software`."""
        if self.rewrites:
            return "device" if self.generates(machine) else "compiler"
        return "software" if self.software else "hardware"

    def generates(self, machine: Machine) -> bool:
        """Return whether the device writes descriptors while a kernel of the older API runs.

        This needs `dge` and a machine with hardware for descriptors. The hardware then writes those
        of tensors that the kernel both writes and reads; GpSimd writes all others."""
        return self.rewrites and self.dge and machine.has("hardware_dge")


DESCRIPTIONS: dict[Order, str] = {
    "in-order": "every engine runs its instructions in program order",
    "scheduled": "instructions are reordered as the NKI compiler would do it",
    "standalone": "program order on every engine, but loads in the order of first use "
    "(launched without a framework)",
    "compiled": "instructions are reordered as the older neuronxcc compiler would do it",
}


def _read() -> tuple[dict[Order, Policy], dict[str, int], dict[str, str]]:
    """Return the Policy of each order, the expected cycles of each engine (`expected_ns`), and the
    effect of each compiler flag in words (`isa/compilers.toml`). Raise DefinitionError if the file
    is wrong."""
    reader = FactReader.of("compilers.toml")
    raw = reader.raw
    reader.exactly(raw, ("sources", "orders", "expected_cycles", "flags"), "")
    reader.exactly(raw["expected_cycles"], ("vector", "scalar"), "expected_cycles")
    reader.exactly(raw["orders"], [*DESCRIPTIONS], "orders")
    policies: dict[Order, Policy] = {}
    for order, description in DESCRIPTIONS.items():
        reader.exactly(raw["orders"][order], NUMBERS, f"orders.{order}")
        policies[order] = Policy(
            description, **reader.numbers(f"orders.{order}", raw["orders"][order])
        )
    expected = reader.numbers("expected_cycles", raw["expected_cycles"])
    return policies, expected, reader.numbers("flags", raw["flags"])


POLICIES, EXPECTED_CYCLES, FLAGS = _read()


def policy_of(program: Program, order: Order) -> Policy:
    """Return the policy of an order, with the program's options `software`, `dge` and `assume`."""
    policy = POLICIES[order]
    if "slow-strides" in program.assume:
        policy = replace(policy, slow_strides=True)
    if program.software and order in PATHS.values():
        return replace(policy, software=True)
    return replace(policy, dge=True) if policy.rewrites and program.dge else policy


def effects(flags: Sequence[str]) -> list[str]:
    """Return the effect of each compiler flag on an estimate, in words."""
    return [f"{flag}: {FLAGS.get(flag.partition('=')[0]) or 'no effect known'}" for flag in flags]


def launch_fields(program: Program, order: Order, writer: str) -> dict[str, str]:
    """Return the assumptions of an estimate about the launch, as fields:

    * `order`: the order;
    * `launch`: how today's API launches the kernel ("framework" or "standalone"), if the order
      belongs to one of these two ways;
    * `descriptors`: the `writer` of descriptors (`Policy.writer`);
    * `loads`: `Options.loads`, if loads do not run ahead;
    * `assume`: the rules of `Options.assume`, if there are any."""
    fields: dict[str, str] = {"order": order, "descriptors": writer}
    for path, path_order in PATHS.items():
        if path_order == order:
            fields["launch"] = path
    if program.loads != "ahead":
        fields["loads"] = program.loads
    if program.assume:
        fields["assume"] = ",".join(program.assume)
    return fields


def requests(program: Program, order: Order) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each rule that the estimate uses only at the request of an
    option."""
    if program.software and order in PATHS.values():
        yield "DMA", "software on GpSimd writes the descriptors (--descriptors software)"
    if (loads := program.loads) != "ahead":
        effect = "the same bytes are loaded once" if loads == "once" else "loads wait for products"
        yield "loads", f"{effect} (--loads {loads}), which only one source reports"
    if program.assume:
        yield "assumes", f"{', '.join(program.assume)} (--assume), which only one source reports"


def variants(call: Call, machine: Machine, policy: Policy) -> Sequence[Call]:
    """Return the call on each engine that the compiler may choose; without a choice, only the
    call."""
    if not policy.rewrites or call.instruction.older_compiler.engines is None:
        return [call]
    units = call.instruction.older_compiler.engines(call, machine)
    return [replace(call, engine=unit) for unit in units]


def expected_ns(call: Call, machine: Machine) -> float | None:
    """Return how long the older API's compiler expects a call on Vector or Scalar to keep its
    engine busy. Return None for a call with data in PSUM: what the compiler expects of such calls
    is not known.

    The compiler expects one element per cycle. It does not expect that Vector copies several
    elements per cycle, as the device does."""
    views = call.views()
    if any(view.region is PSUM for view in views):
        return None
    name = call.engine.name
    cycles = max(view.free_size for view in views) + EXPECTED_CYCLES[name]
    return cycles / machine.engines[name].clock_ghz
