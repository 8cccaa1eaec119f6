"""How far each API's compiler departs from the order that a kernel issues instructions in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from neuroncore.clause.instruction import Call
from neuroncore.machine import Machine
from neuroncore.record.program import Order, Program

DISABLE_DGE = "--disable-dge"  # the older API's compiler: descriptors are written ahead


@dataclass(frozen=True)
class Policy:
    """How far a compiler departs from the order of a program.

    Among the first `window` instructions that an engine has not begun (`transfers` for DMA), the
    one that can begin first does; what reads nothing, like memset, may be moved up from further
    behind, among the first `reach`. With `horizon_ns`, what the kernel names no engine for goes to
    Vector or Scalar, whichever has less to do and is not behind by more than that; what is loaded
    again is there already, while it fits (`residency`); what was made only to be copied is made in
    the copy's place (`copy_propagation`), copies out of PSUM are left out where PSUM can be read,
    or merged (`psum_copies`); and descriptors that hardware could write are
    written before the kernel runs, but for `dge`: hardware writes them then, of loads and stores in
    one ring. With `by_first_use`, loads come in the order in which their data are used.
    """

    said: str
    window: int
    reach: int
    transfers: int
    horizon_ns: float = 0.0
    by_first_use: bool = False
    dge: bool = False

    @property
    def rewrites(self) -> bool:
        """Whether the compiler does more to a program than reorder it."""
        return self.horizon_ns > 0

    def on(self, machine: Machine) -> Machine:
        """The machine as such a compiler uses it: the older one may write descriptors ahead."""
        if not self.rewrites or self.dge:
            return machine
        return replace(machine, dma=replace(machine.dma, hardware_issue_ns=machine.dma.issue_ns))

    def has_one_ring(self, machine: Machine) -> bool:
        """Whether stores take turns with loads: one generator writes the descriptors of both."""
        return self.rewrites and self.dge and machine.has("hardware_dge")


POLICIES: dict[Order, Policy] = {
    "in-order": Policy("every engine in the order of the program", 1, 1, 1),
    # Kernels of today's API: published attention and matrix products fit this window best (one
    # that takes turns between two PSUM tiles waits for them: nki-autotune, from_manual_ir), and
    # their transfers take as long as hardware needs to write the descriptors of each. Loads come in
    # the order of use: attention whose late weights are loaded first of all is no slower for it
    # (kev/attn_tkg, plan A), nor does a product wait for 256 tiles before it begins (nki-autotune,
    # #31). One that waits for a store holds up those behind it (kev/attn_tkg, v0 to v3).
    "scheduled": Policy("reordered as today's compiler does", 32, 128, 1, by_first_use=True),
    # The older API's compiler orders, and shares copies out between Vector and Scalar: GpSimd has
    # none in 17 profiles of kernels that name no engine. Published stable-diffusion attention needs
    # a window of 128; a wider one changes nothing.
    "compiled": Policy("reordered as the older API's compiler does", 128, 128, 128, 10_000.0),
}


def policy_of(program: Program, order: Order) -> Policy:
    """What the compiler that a program was given to does in that order.

    Without --disable-dge each transfer of the older API takes trn2's generator 0.55 us: kernels of
    CS149 take 15 us and 0.57 for each transfer (xaviergonzalez, timed without the flag), and half
    of that with it (rishic3, profiled). Published attention (trainium-kernel-fusion) and probes
    (voyager-compiler) fit better so, too.
    """
    policy = POLICIES[order]
    return replace(policy, dge=True) if policy.rewrites and program.dge else policy


def variants(call: Call, policy: Policy) -> list[Call]:
    """A call on each engine that may run it."""
    if not policy.rewrites or call.instruction.older_compiler.engines is None:
        return [call]
    return [replace(call, engine=unit) for unit in call.instruction.older_compiler.engines(call)]
