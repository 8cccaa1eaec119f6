"""The program after the device's compiler: the instructions that remain, their engines, and the
tiles that SBUF can't hold. The schedule, the counters and the reports all use it.

A call is an instruction with its shapes, formats and operators, but without its data. Many
instructions of a program may make the same call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.enums import ON_CHIP
from neuroncore.base.lazy import Lazy
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import PSUM
from neuroncore.machine import Machine
from neuroncore.record.boxes import Areas
from neuroncore.record.loops import distinct
from neuroncore.record.program import Order, Program
from neuroncore.time.costs import CallTable, spread
from neuroncore.time.loops import dependencies
from neuroncore.time.loops.work import NO_MOVES, Moves
from neuroncore.time.policy import Policy, policy_of
from neuroncore.time.queues import QUEUES

if TYPE_CHECKING:  # loaded when needed: rules of the older API's compiler, or of one source only
    from neuroncore.time import copies, forwarding, hoisting, reported, residency, vectorized
else:
    copies = Lazy("neuroncore.time.copies")
    forwarding = Lazy("neuroncore.time.forwarding")
    hoisting = Lazy("neuroncore.time.hoisting")
    reported = Lazy("neuroncore.time.reported")
    residency = Lazy("neuroncore.time.residency")
    vectorized = Lazy("neuroncore.time.vectorized")

Array = npt.NDArray[Any]
NO_INSTRUCTION = np.int32(-1)
NO_WAITS = np.zeros((0, 2), np.int64)
ISSUED, REPEATED, BYPASSED, ACCUMULATED, FORWARDED = range(5)  # values of `Compiled.fate`
FOUND = "accesses", "areas", "flow"  # what `compiled` finds in the tables of a program
WAITING = "single", "limited"  # values of `Options.loads` with which loads may wait (`reported`)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program as the machine executes it.

    `written`: the program as the kernel issued it
    `program`: the same instructions in the order of the compiler
    `row`: row[i] is the row of `table` with the costs of instruction i of `program`
    `heads`: heads[i] is the first of the instructions that are merged with instruction i; -1 if i
        is not merged, and for the first instruction itself
    `moves`: the transfers of spilled tiles
    `held`: pairs of a load or copy that must wait (`reported`), and the instruction that it waits
        for
    `fate`: fate[i] is ISSUED if instruction i runs. Otherwise the compiler leaves instruction i
        out, and instruction instead[i] replaces it.

    The fates of instructions that are left out:

    * REPEATED: instead[i] has already loaded or computed the same result.
    * BYPASSED: instruction i copies a product out of PSUM. The readers of the copy read the product
      of instead[i] in PSUM.
    * ACCUMULATED: instruction i adds a product to a tile, or prepares this addition. The product
      instead[i] accumulates in PSUM, so the addition is not necessary.
    * FORWARDED: instruction i copies a tile within SBUF. The readers of the copy read the source,
      which instead[i] wrote."""

    written: Program
    program: Program
    order: Order
    policy: Policy
    table: CallTable
    row: Array
    fate: Array
    instead: Array
    heads: Array
    moves: Moves
    held: Array

    @cached_property
    def accesses(self) -> dependencies.Accesses:
        """The operands after the changes of the compiler."""
        columns, reads = self.program.columns(), self.table.reads.take(self.row)
        near = self.program.boxes().near
        return dependencies.Accesses(columns.start, columns.operands, reads, *near)

    @cached_property
    def areas(self) -> Areas:
        """The areas of all boxes (`Boxes.areas`)."""
        return self.program.boxes().areas

    @cached_property
    def flow(self) -> dependencies.Flow:
        """The dependencies after the changes of the compiler."""
        weights = self.table.weights.take(self.row)
        return _flow(self.program, self.policy, self.queue, self.accesses, weights)

    def free_tables(self) -> None:
        """If the program is long, free its tables (`Program.free_tables`), and what was found in
        them if it can be made again: if the compiler only reorders."""
        self.written.free_tables()
        self.program.free_tables()
        if self.program.is_long and not self.policy.rewrites:
            for name in FOUND:
                vars(self).pop(name, None)

    def changed(self, **fields: Any) -> Compiled:
        """Return this form with other `fields`, and with the same operands and dependencies."""
        form = replace(self, **fields)
        vars(form).update({name: getattr(self, name) for name in FOUND})
        return form

    @property
    def read_in_psum(self) -> Array:
        """Return a flag for each operand: whether a copy to SBUF was left out, so that the operand
        is read in PSUM."""
        operands, boxes = self.accesses.operands, self.program.boxes()
        written = self.program.columns().operands
        if operands is written:  # the compiler has changed no operand
            return np.zeros(len(operands), np.bool_)
        differs: Array = operands != written
        in_psum = boxes.areas.each_box((k.region is PSUM for k in boxes.areas.kinds), np.bool_)
        return differs & in_psum[operands]

    @property
    def leaves_out(self) -> bool:
        """Return whether the compiler may leave instructions out."""
        return self.policy.rewrites or self.program.loads == "once"

    @cached_property
    def queue(self) -> Array:
        """The queue of each instruction, as an index of `QUEUES`."""
        return spread(self.table.queue, self.row)


def compiled(
    program: Program,
    machine: Machine,
    order: Order | None = None,
    like: Compiled | None = None,
    costs: CallTable | None = None,
) -> Compiled:
    """Return a program as the compiler changes it for a machine.

    `like`: the compiled program for another machine; its order and merged instructions are reused
    `costs`: known costs of the first calls; the compiler must only reorder"""
    order, no_instruction = order or program.order, buffers.repeated(NO_INSTRUCTION, len(program))
    policy, written = policy_of(program, order), program
    program, heads = _merged(written, machine, policy, like, no_instruction)
    table = CallTable(program.calls, machine, policy, costs)
    row = spread(table.first, program.columns().call)
    reads, weights = spread(table.reads, row), spread(table.weights, row)
    accesses, areas = _accesses(program, policy, reads)
    sources = sums = no_instruction
    if policy.rewrites and (table.are_open or copies.any_left_out(program.calls)):
        flow = dependencies.dependencies(np.zeros_like(no_instruction), 1, accesses, weights, True)
        sums = copies.accumulated(program, accesses, flow)
        sources, operands = forwarding.forwarded(program, accesses, flow)
        accesses = accesses._replace(operands=operands)
        call, semaphore_ns = program.columns().call, machine.fixed.semaphore_ns
        row = table.rows_for(heads, sources < 0, flow, call, semaphore_ns)
    if policy.generates(machine):
        row = np.where(_between_phases(program, accesses), table.between[row], row)
    queue = spread(table.queue, row)
    flow = _flow(program, policy, queue, accesses, weights)
    turns = _turns(program, accesses, flow, machine)
    rules, moves = _loaded_once(program, reads, machine, policy), NO_MOVES
    if policy.rewrites:
        loaded, moves = residency.loads_and_spills(program, reads, machine.sbuf.usable_bytes)
        loaded[turns] = -1
        products, operands = no_instruction, accesses.operands
        if machine.has("psum_read_in_place"):
            products, operands = copies.bypassed(program, accesses, flow)
        if (products >= 0).any():  # readers now wait for the product, not for its copy
            accesses = accesses._replace(operands=operands)
            flow = _flow(program, policy, queue, accesses, weights)
        earlier = _computed_earlier(program, accesses, flow)
        repeated = np.where(loaded < 0, earlier, loaded)
        rules = {FORWARDED: sources, BYPASSED: products, REPEATED: repeated, ACCUMULATED: sums}
    fate, instead = _fates(no_instruction, rules)
    form = Compiled(
        written=written,
        program=program,
        order=order,
        policy=policy,
        table=table,
        row=row,
        fate=fate,
        instead=instead,
        heads=heads,
        moves=moves,
        held=_held(program, policy, accesses, flow, turns, queue, (fate == ISSUED) & (heads < 0)),
    )
    vars(form).update(accesses=accesses, areas=areas, flow=flow)
    return form


def _accesses(
    program: Program, policy: Policy, reads: Array
) -> tuple[dependencies.Accesses, Areas]:
    """Return the operands of instructions, and the areas of their boxes. Free the tables of a long
    program if the schedule needs nothing else of them."""
    columns, boxes = program.columns(), program.boxes()
    start, operands = columns.start, columns.operands
    placed = any(kind.placed for kind in boxes.areas.kinds)
    if not (policy.rewrites or placed or program.assume) and program.loads == "ahead":
        del columns
        program.free_tables()
    return dependencies.Accesses(start, operands, reads, *boxes.near), boxes.areas


def _flow(
    program: Program,
    policy: Policy,
    queue: Array,
    accesses: dependencies.Accesses,
    weights: Array,
) -> dependencies.Flow:
    """Return the dependencies of instructions on their queues.

    `weights`: weights[i] is the index of the stationary operand of instruction i; -1 for none"""
    defines = policy.rewrites or program.loads in WAITING
    return dependencies.dependencies(queue, len(QUEUES), accesses, weights, defines)


def _merged(
    program: Program, machine: Machine, policy: Policy, like: Compiled | None, no_heads: Array
) -> tuple[Program, Array]:
    """Return the program in the order of its compiler, and `Compiled.heads` for that order.
    `no_heads` is -1 for each instruction."""
    if like is not None:
        return like.program, like.heads
    if not policy.rewrites:
        return program, no_heads
    ordered, heads = vectorized.vectorized(program, machine, policy.reach)
    copies_heads = copies.merged(ordered, machine.psum.bank_bytes)
    return ordered, np.where(copies_heads < 0, heads, copies_heads)


def _turns(
    program: Program, accesses: dependencies.Accesses, flow: dependencies.Flow, machine: Machine
) -> Array:
    """Return which instructions are loads that wait until the tile of an earlier load has been read
    (`Options.loads`)."""
    if program.loads not in WAITING:
        return np.zeros(len(program), np.bool_)
    return reported.in_turn(program, accesses, flow, machine.dma.ahead_bytes)


def _held(
    program: Program,
    policy: Policy,
    accesses: dependencies.Accesses,
    flow: dependencies.Flow,
    turns: Array,
    queue: Array,
    issued: Array,
) -> Array:
    """Return the pairs of `Compiled.held`.

    `turns`: flags the loads that wait for their turn
    `queue`: queue[i] is the queue of instruction i
    `issued`: issued[i] is True if the compiler keeps instruction i"""
    held = reported.waits(program, accesses, flow, turns) if turns.any() else NO_WAITS
    if policy.rewrites and "copies-in-turn" in program.assume:
        held = np.concatenate((held, reported.copies_in_turn(program, queue, issued)))
    return held


def _loaded_once(
    program: Program, reads: Array, machine: Machine, policy: Policy
) -> dict[int, Array]:
    """Return the rules of `_fates` for a compiler that only reorders: it leaves out repeated loads
    if `Options.loads` is "once".

    `reads`: how many operands each instruction reads"""
    if policy.rewrites or program.loads != "once":
        return {}
    loaded, _ = residency.loads_and_spills(program, reads, machine.sbuf.usable_bytes)
    return {REPEATED: loaded}


def _computed_earlier(
    program: Program, accesses: dependencies.Accesses, flow: dependencies.Flow
) -> Array:
    """Return, for each instruction, an earlier one with the same call, inputs and numbers, whose
    result the compiler reuses; -1 for none."""
    columns = program.columns()
    first, work = distinct(np.column_stack((columns.call, columns.values)))
    compared = _compared(program.calls).take(columns.call[first])
    return hoisting.hoisted(program, dependencies.recomputed(work, accesses, compared, flow))


def _fates(no_instruction: Array, rules: Mapping[int, Array]) -> tuple[Array, Array]:
    """Return `Compiled.fate` and `Compiled.instead`.

    `no_instruction`: -1 for each instruction
    `rules`: rules[f][i] replaces instruction i if its fate is f; -1 if fate f is not possible. The
        last possible fate is used."""
    fate = np.zeros(len(no_instruction), np.int8)
    instead = no_instruction.copy() if rules else no_instruction
    for value, replacements in rules.items():
        fate[replacements >= 0], instead[replacements >= 0] = value, replacements[replacements >= 0]
    return fate, instead


def recosted(form: Compiled, program: Program, machine: Machine) -> Compiled | None:
    """Return `form` with the costs of another program. Return None if the programs differ in more
    than costs, or if the compiler does more than reorder."""
    if form.leaves_out or not program.same_operands(form.program):
        return None
    table = CallTable(program.calls, machine, form.policy, form.table)
    row = table.first[program.columns().call]
    columns = (
        (getattr(table, name).take(row), getattr(form.table, name).take(form.row))
        for name in ("queue", "reads", "weights", "meets", "stays")
    )
    if not all((new == old).all() for new, old in columns):
        return None
    return form.changed(written=program, program=program, table=table, row=row)


def _between_phases(program: Program, accesses: dependencies.Accesses) -> Array:
    """Return which instructions use a tensor in HBM that the kernel both writes and reads."""
    storages, is_read = program.storages(), accesses.is_read
    used = storages.of_window[program.operand_windows()]
    in_hbm = [kind.region not in ON_CHIP for kind in storages.kinds]
    between = np.array(in_hbm, np.bool_)[storages.kind]  # a program may have no storages
    for uses in (is_read, ~is_read):
        between &= np.bincount(used[uses], minlength=len(between)) > 0
    flags: Array = np.bincount(accesses.user, between[used], len(program)) > 0
    return flags


def _compared(calls: Sequence[Call]) -> Array:
    """Return, for each call, how many inputs must be equal to reuse an earlier result; 0 for a call
    that is always executed.

    Two observations show this reuse. Published times of mamba (the SDK's on trn1,
    kda-for-trainium's on trn2) are so short that equal sums run only once on the Vector engine.
    Autocomp's attention on trn1 negates the maximum of a row once for all tiles of the row."""

    def once(call: Call) -> bool:
        return call.instruction.older_compiler.once and not call.dynamic

    return np.array([len(call.reads) if once(call) else 0 for call in calls], np.int32)
