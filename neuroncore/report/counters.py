"""The counters of the vendor's profiler: instructions, bytes and flops.

The definitions are inferred from published counters of kernels on trn1 and trn2, and reproduce
them (docs/counters.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.base.structs import dataclass
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import HBM
from neuroncore.machine import Machine
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import PACK, float32
from neuroncore.time.compiled import ISSUED, Compiled
from neuroncore.time.loops.spills import RELOADED, REREAD, SAVED
from neuroncore.time.queues import QUEUES, TENSOR, is_transfer
from neuroncore.time.residency import Moves
from neuroncore.time.schedule import Timeline

BYTES = tuple(f"{m}_{verb}_bytes" for m in ("hbm", "sbuf", "psum") for verb in ("read", "write"))
FLOPS = tuple(f"{adjusted}{kind}_flops" for adjusted in ("", "adjusted_")
              for kind in ("hardware", "transpose"))  # fmt: skip
SPILLS = ("spill_save_bytes", "spill_reload_bytes")


@dataclass(frozen=True)
class Product:
    """The work of a call in the array: `count` pairs of LDWEIGHTS and MATMUL of `flops` each, and
    the bytes per partition that a pair reads."""

    count: int
    flops: int
    transposes: bool
    weights_bytes: int
    moving_bytes: int


@dataclass
class Counters:
    """Bytes, including spills, and flops, with the profiler's names; instructions by queue and
    opcode; DMA transfers of the program."""

    bytes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(BYTES + SPILLS, 0)))
    flops: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys(("model_flops", *FLOPS), 0))
    )
    opcodes: Counter[tuple[int, str]] = field(default_factory=Counter)
    transfers: int = 0
    transfer_bytes: int = 0

    def of_queue(self, queue: int) -> int:
        """Return the number of instructions of a queue."""
        return sum(count for (q, _), count in self.opcodes.items() if q == queue)


def counted(timeline: Timeline) -> Counters:
    """Return the counters of a record. For the older API they describe the compiled program:
    repeated loads are omitted, tiles that do not fit are spilled (`spills`), and identity matrices
    of transposes are loaded."""
    found, machine = Counters(), timeline.machine
    program, call, queue = timeline.program, timeline.columns.call, timeline.queue
    form = timeline.compiled
    call, queue = call[form.fate == ISSUED], queue[form.fate == ISSUED]
    _spill(found.bytes, form.moves)
    _read_in_psum(found.bytes, form)
    counts = np.bincount(call.astype(np.int64) * len(QUEUES) + queue)
    pairs = np.flatnonzero(counts)
    matrices: dict[str, int] = {}
    for pair, count in zip(pairs.tolist(), counts[pairs].tolist(), strict=True):
        index, q = divmod(pair, len(QUEUES))
        used = program.calls[index]
        _count(found, used, q, count, machine)
        if used.instruction.traits.transposes and q == TENSOR:
            data = used.view("data").dtype
            matrices[data.name] = machine.limits.partitions**2 * data.itemsize
    if form.policy.rewrites:
        found.bytes["hbm_read_bytes"] += sum(matrices.values())
        found.bytes["sbuf_write_bytes"] += sum(matrices.values())
    return found


def _spill(counts: Counter[str], moves: Moves) -> None:
    saved, reloaded, reread = map(moves.bytes_of, (SAVED, RELOADED, REREAD))
    for name, count in (
        ("spill_save_bytes", saved),
        ("sbuf_read_bytes", saved),
        ("hbm_write_bytes", saved),
        ("spill_reload_bytes", reloaded),
        ("hbm_read_bytes", reloaded + reread),
        ("sbuf_write_bytes", reloaded + reread),
    ):
        counts[name] += count


def _read_in_psum(counts: Counter[str], form: Compiled) -> None:
    """Count reads from PSUM that the program makes from SBUF."""
    columns, places = form.program.columns(), np.flatnonzero(form.read_in_psum)
    if not len(places):
        return
    reader = form.accesses.user[places]
    kinds, times = np.unique(
        np.column_stack((columns.call[reader], places - columns.start[reader])),
        axis=0,
        return_counts=True,
    )
    for (index, place), count in zip(kinds.tolist(), times.tolist(), strict=True):
        call = form.program.calls[index]
        if call.reads[place] in _streams(call):
            size = _in_a_partition(call.view(call.reads[place])) * count
            counts["sbuf_read_bytes"] -= size
            counts["psum_read_bytes"] += size


def _count(found: Counters, call: Call, queue: int, times: int, machine: Machine) -> None:
    """Add a call that was made `times` times."""
    done = product(call, machine)
    for memory, size in accesses(call, machine):
        found.bytes[memory] += size * times
    if done is None:
        turned = call.instruction.traits.transposes  # on an engine that does not multiply
        found.opcodes[queue, "TRANSPOSE" if turned else call.instruction.opcode] += times
    else:
        found.opcodes[queue, "LDWEIGHTS"] += done.count * times
        found.opcodes[queue, "MATMUL"] += done.count * times
        wide = any(call.view(name).dtype is float32 for name in call.reads)
        passes = round(1 / machine.engines["tensor"].rate["float32"]) if wide else 1
        for kind in ("hardware", "transpose")[: 1 + done.transposes]:
            found.flops[f"{kind}_flops"] += done.flops * done.count * times
            found.flops[f"adjusted_{kind}_flops"] += done.flops * passes * times
        found.flops["model_flops"] += done.flops * times * (not done.transposes)
    if is_transfer(call, queue):
        found.transfers += times
        found.transfer_bytes += call.written_bytes * times


def accesses(call: Call, machine: Machine) -> Iterator[tuple[str, int]]:
    """Yield the byte counters of a call, with their bytes.

    All bytes of a DMA are counted, but only one partition of an engine's bytes, and neither the
    operands of a tensor_tensor nor columns of scalars.
    """
    done = product(call, machine)
    if done is not None:
        yield "sbuf_read_bytes", (done.weights_bytes + done.moving_bytes) * done.count
        yield "psum_write_bytes", _in_a_partition(call.view("dst")) * done.count
        return
    if not call.instruction.traits.bytes_counted:
        return
    streams = _streams(call)
    size = _of_all_partitions if call.engine is engine.dma else _in_a_partition
    for names, verb in ((streams, "read"), (call.writes, "write")):
        for view in map(call.view, names):
            yield f"{_memory(view)}_{verb}_bytes", size(view)


def _streams(call: Call) -> list[str]:
    """Return the reads that are counted."""
    if not call.instruction.traits.bytes_counted:
        return []
    columns = {p.name for p in call.instruction.operands if p.operand and p.operand.column}
    return [name for name in call.reads if name not in columns]


def product(call: Call, machine: Machine) -> Product | None:
    """Return the work of a call in the array, or None if it does not use the array.

    A product with float32 weights takes two instructions, for their upper and lower bits, unless
    the weights are zeros and ones. A transpose takes one if the engine has a mode for it.
    """
    said = call.instruction.traits
    if call.engine is not engine.tensor or not (said.multiplies or said.transposes):
        return None
    weights = call.view(said.weights)
    transposes = call.transposes
    if said.streams is None:
        moving = weights.partitions * weights.dtype.itemsize
    else:
        moving = _in_a_partition(call.view(said.streams))
    one = call.arguments.get(said.onezero) or (transposes and machine.has("native_transpose"))
    elements = weights.size * (PACK if weights.dtype.element else 1)
    return Product(
        1 if one or weights.dtype is not float32 else machine.fixed.float32_passes,
        2 * elements * call.view("dst").free_size,
        transposes,
        _in_a_partition(weights),
        moving,
    )


def _in_a_partition(view: View) -> int:
    return view.free_size * view.dtype.itemsize


def _of_all_partitions(view: View) -> int:
    return view.nbytes


def _memory(view: View) -> str:
    return "hbm" if view.region in HBM else view.region.value
