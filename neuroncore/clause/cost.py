"""The time that an instruction occupies its engine: functions for the instruction definitions in
isa/.

A cost depends on a Call (an instruction without its data) and a machine, never on data. So a record
can be timed again for another machine. Times are in nanoseconds. `neuroncore isa NAME` prints the
docstring of a clause's cost. ARCH1 to ARCH3 and ISA226 are keys of the sources in
isa/machines/*.toml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from math import ceil

from neuroncore.base.enums import dge_mode, engine
from neuroncore.clause.instruction import Call
from neuroncore.clause.instruction import Cost as CostFunction
from neuroncore.clause.operand import PSUM, SBUF
from neuroncore.machine import Dma, Machine
from neuroncore.machine.machine import SLOW_STRIDES, SOFTWARE_DGE
from neuroncore.memory import access
from neuroncore.memory.geometry import View
from neuroncore.numerics.formats import bfloat16, float16, float32

SIXTEEN_BIT = (bfloat16, float16)


@dataclass(frozen=True)
class Transfer:
    """The DMA engines that a transfer keeps busy: `first` to `last`, for `ns` nanoseconds each.

    There is a ring (queue) for loads and one for stores. With `software`, GpSimd writes the
    descriptors and issues the transfer, without a ring."""

    first: int
    last: int
    ns: float
    store: bool  # uses the store ring, because its destination is HBM
    software: bool = False


@dataclass(frozen=True)
class Collective:
    """The communication of a collective: its pattern (`neuroncore.machine.collective_time`), its
    bytes, and the groups of ranks, which communicate separately."""

    pattern: str
    size_bytes: int
    groups: tuple[tuple[int, ...], ...]

    def group(self, rank: int) -> tuple[int, ...]:
        """Return the ranks of the group to which a rank belongs."""
        return next((ranks for ranks in self.groups if rank in ranks), (rank,))


@dataclass(frozen=True)
class Cost:
    """The time and the resources that an instruction takes. Times are in nanoseconds.

    `busy_ns` is the time until the engine takes its next instruction; the first element moves after
    `set_up_ns` of this time. `latency_ns` is the further time until the result can be read.
    `weights_ns` is the time for which loading the weights blocks the input of the array, unless the
    weights are in the array already. `weights_latency_ns` is the time from the start of this load
    until a column can stream through the array: bench/instructions.py compares it with published
    times, and the schedule does not use it.

    `table` names the activation table that must be loaded. `shares_sbuf` is true if the instruction
    uses the SBUF port that Vector and GpSimd share. The latency of a `collective` depends on the
    places of its ranks. `rows` is the number of cycles of the Tensor engine's clock for which
    moving data streams through its array. `fills_half` is true if the weights fill at most half of
    the array."""

    busy_ns: float
    latency_ns: float
    weights_ns: float = 0.0
    table: str | None = None
    transfer: Transfer | None = None
    weights_latency_ns: float = 0.0
    shares_sbuf: bool = False
    set_up_ns: float = 0.0
    collective: Collective | None = None
    rows: float = 0.0
    fills_half: bool = False


def stream(
    call: Call, machine: Machine, cycles: float, extra: float = 0, column: bool = False
) -> Cost:
    """Return the cost of streaming elements through the call's engine for `cycles`, or longer if
    the ports of the tiles take more.

    `extra`: further cycles, in addition to the fixed cost
    `column`: whether a [P, 1] column of scalars is fetched that is not an operand"""
    unit = machine.engines[call.engine.name]
    sectors: float = max((strided_cycles(v, machine) for v in call.views()), default=0)
    if "strided" in unit.rate:
        sectors /= machine.fixed.sector_cycles * unit.rate["strided"]
    work = max(cycles, sectors)
    set_up = unit.overhead_cycles
    set_up += unit.sbuf_access_cycles * any(v.region is SBUF for v in _streams(call, *call.reads))
    set_up += unit.column_cycles * (column or _takes_columns(call))
    busy = max(unit.min_interval_cycles, set_up + work + extra)
    shares = _shares_sbuf(call, machine, work)
    return Cost(
        busy / unit.clock_ghz,
        unit.latency_ns,
        shares_sbuf=shares,
        set_up_ns=max(set_up, busy - work - extra) / unit.clock_ghz,
    )


def _shares_sbuf(call: Call, machine: Machine, cycles: float) -> bool:
    """Return whether the call uses the SBUF port that Vector and GpSimd share.

    On v2 both engines have only this port (ARCH1). From v3 on, Vector has another port too, and
    uses the shared port only for fast modes (ARCH2). A mode is assumed to be fast if its inputs in
    SBUF together, or its results, move more than one element per cycle."""
    if call.engine not in (engine.vector, engine.gpsimd):
        return False
    sizes = [
        [v.free_size for v in _streams(call, *names) if v.region is SBUF] if names else []
        for names in (call.reads, call.writes)
    ]
    if call.engine is engine.gpsimd or not machine.has("vector_sbuf_port"):
        return any(sizes)
    # only the longest streams count: a few values that are read too do not make a mode fast
    return any(
        cycles < sum(size for size in stream_sizes if size == max(stream_sizes))
        for stream_sizes in sizes
    )


def _takes_columns(call: Call) -> bool:
    """Return whether an operand has one scalar per partition (a column). Two columns are assumed to
    be fetched together."""
    operands = ((p.operand, call.arguments.get(p.name)) for p in call.instruction.operands)
    return any(o and o.column and o.reads and isinstance(v, View) for o, v in operands)


def sector_cycles(view: View, machine: Machine) -> int:
    """Return the cycles that a port takes for the elements of one partition. Each sector with an
    element takes `Fixed.sector_cycles`.

    Published figures show that a sector has 16 bytes and takes two cycles. A stride of 16 bytes
    halves the bandwidth (ARCH1). At most four 16-bit or two 32-bit elements move per cycle (ARCH2).
    Weights load up to four times as fast as columns stream."""
    rows, span = _rows(view, machine.fixed.sector_bytes)
    return rows * ceil(span / machine.fixed.sector_bytes) * machine.fixed.sector_cycles


def strided_cycles(view: View, machine: Machine) -> int:
    """Return the cycles for the elements of one partition if they are strided, otherwise 0.

    Strided elements, or runs that fit into a sector, begin at least one sector apart. Other tiles
    are read at the engine's rate (ARCH1). Fits of trn2 show that steps of 12 bytes are slow
    already, which is ignored."""
    rows, span = _rows(view, machine.fixed.sector_bytes)
    apart = view.on_chip and rows > 1 and span <= machine.fixed.sector_bytes
    return sector_cycles(view, machine) if apart else 0


def _rows(view: View, sector: int) -> tuple[int, int]:
    """Return (number of rows, bytes that a row spans) of a partition. Steps inside a row are
    smaller than a sector."""
    span, rows = view.dtype.itemsize, 1
    for size, stride in zip(reversed(view.shape[1:]), reversed(view.strides[1:]), strict=True):
        step = abs(stride) * view.dtype.itemsize
        if rows == 1 and step <= max(span, sector - 1):
            span += (size - 1) * step
        else:
            rows *= size
    return rows, span


def dynamic(cost: CostFunction) -> CostFunction:
    """Return `cost`, at least `dynamic_address_cycles` for an instruction with a run-time address
    on the chip.

    An index that chooses elements is assumed to count too: nothing is published about it."""

    @wraps(cost)
    def with_address(call: Call, machine: Machine) -> Cost:
        usual: Cost = cost(call, machine)
        if not any(v.dynamic and v.on_chip for v in call.views()):
            return usual
        unit = machine.engines[call.engine.name]
        least = machine.fixed.dynamic_address_cycles / unit.clock_ghz
        return replace(usual, busy_ns=max(usual.busy_ns, least))

    return with_address


def elements(call: Call) -> int:
    """Return the number of elements per partition of the largest operand."""
    return max(view.free_size for view in call.views())


def rate(machine: Machine, unit: engine, kind: str) -> float:
    rates = machine.engines[unit.name].rate
    return rates.get(kind, rates["default"])


def streaming(kind: str = "default", extra: str | None = None) -> CostFunction:
    """Return the cost function of one pass over the largest operand, at the engine's rate for this
    kind of work. `extra` names a fixed cost of the machine that is added."""

    def cost(call: Call, machine: Machine) -> Cost:
        extra_cycles = getattr(machine.fixed, extra) if extra else 0
        return stream(
            call, machine, elements(call) / rate(machine, call.engine, kind), extra_cycles
        )

    start = f", after {extra.replace('_', ' ')}" if extra else ""
    cost.__doc__ = f"One pass over the largest operand, at the engine's rate {kind!r}{start}."
    return dynamic(cost)


def is_fast(machine: Machine, view: View) -> bool:
    """Return whether the format of a tile can use the Vector engine's wide path (ARCH2, ARCH3)."""
    narrow = view.dtype.is_float and view.dtype.itemsize == 1
    return view.dtype in SIXTEEN_BIT or (narrow and machine.has("float8_fast_vector"))


def filling(call: Call, machine: Machine) -> Cost:
    """The time of filling a tile with a number (memset). 16-bit formats have the published rate of
    16-bit zeros, twice that of other formats (ISA226)."""
    kind = "memset_zero_16bit" if call.view("dst").dtype in SIXTEEN_BIT else "default"
    return stream(call, machine, elements(call) / rate(machine, call.engine, kind))


def copying(call: Call, machine: Machine) -> Cost:
    """The time of a tensor_copy or a tensor_scalar. A fast mode depends on formats, memories and
    contiguity (ARCH2)."""
    return stream(
        call, machine, elements(call) / rate(machine, call.engine, _copy_kind(call, machine))
    )


def _copy_kind(call: Call, machine: Machine) -> str:
    if call.engine is engine.gpsimd:
        ops = [call.arguments.get(name) for name in ("op0", "op1")]
        return "rsqrt" if any(op and op.name == "rsqrt" for op in ops) else "default"
    streams = _streams(call)
    in_psum = sum(v.region is PSUM for v in streams)
    contiguous = all(_runs_on(v) for v in streams)
    if all(is_fast(machine, v) for v in streams):
        if in_psum == 0:
            return "copy_16bit" if contiguous else "copy_16bit_half"
        return "copy_16bit_half" if in_psum == 1 and contiguous else "default"
    if in_psum:
        return "default"
    src, dst = call.view("data" if "data" in call.reads else "src"), call.view("dst")
    widens = src.dtype in SIXTEEN_BIT and dst.dtype.itemsize == 4
    return "copy_widening" if widens else "copy_32bit"


def _streams(call: Call, *names: str) -> list[View]:
    """Return the tiles that are read or written element by element: no [P, 1] columns, unless all
    are."""
    views = call.views(*names)
    return [v for v in views if v.free_size > 1] or views


def _runs_on(view: View) -> bool:
    """Return whether the innermost free axis is contiguous (ARCH2). Elements that an index chooses
    are assumed not to be contiguous."""
    if view.picked_by is not None:
        return False
    axes = zip(view.shape[1:], view.strides[1:], strict=True)
    return [stride for size, stride in axes if size > 1][-1:] in ([], [1])


def two_inputs(call: Call, machine: Machine) -> Cost:
    """The time of a tensor_tensor or a similar instruction, which reads two streams (ISA226,
    ARCH2)."""
    inputs = _streams(call, *call.reads)
    kind = "two_streams"
    if all(v.region is SBUF for v in inputs) and _pairs_fast(call, machine):
        kind = "two_streams_16bit"
    elif {v.region for v in inputs} == {SBUF, PSUM}:
        kind = "two_streams_mixed"
    if call.engine is engine.gpsimd:
        kind = "power" if call["op"].name == "power" else "two_streams"
    return stream(call, machine, elements(call) / rate(machine, call.engine, kind))


FAST_PAIRS = {"op": ("add", "multiply", "subtract"), "op0": ("subtract",), "op1": ("multiply",)}


def _pairs_fast(call: Call, machine: Machine) -> bool:
    """Return whether an instruction with two inputs runs at the rate of 16-bit formats.

    On trn1 all tiles must be bfloat16 and contiguous along the last axis, and operators in
    FAST_PAIRS (ISA226 of isa/machines/trn1.toml). On trn2 and trn3 only formats matter."""
    everything = _streams(call)
    if machine.has("any_pair_fast"):
        return all(is_fast(machine, v) for v in everything)
    operators = ((call.arguments.get(name), names) for name, names in FAST_PAIRS.items())
    return all(op is None or op.name in names for op, names in operators) and all(
        v.dtype is bfloat16 and _runs_on(v) for v in everything
    )


def dma(call: Call, machine: Machine) -> Cost:
    """The time of a DMA: the time of its bytes and packets on the DMA engines that serve the
    partitions, and the time of its issue."""
    return move(call.view("dst"), call.view("src"), machine, call.arguments.get("dge_mode"))


def move(dst: View, src: View, machine: Machine, mode: dge_mode | None = None) -> Cost:
    """Return the cost of a DMA. Its packets are distributed over the DMA engines; each engine
    serves eight partitions."""
    dma_engines = machine.dma
    bandwidth = dma_engines.gigabytes_per_s_per_engine
    if not (dst.on_chip and src.on_chip):
        bandwidth = min(bandwidth, machine.hbm.stack_gigabytes_per_s / dma_engines.engines)
    if machine.has(SLOW_STRIDES) and _by_powers(dst, src):
        bandwidth *= dma_engines.slow_strides
    moved = max(dst.nbytes, src.nbytes)
    first, last = _engines(dst if dst.on_chip else src, machine)
    engines = last - first + 1
    each = (
        moved / bandwidth + _packets_ns(dst, src, dma_engines)
    ) / engines + dma_engines.transfer_ns
    store = not dst.on_chip
    latency = dma_engines.store_latency_ns if store else dma_engines.load_latency_ns
    needs_software = any(_needs_software(view, mode) for view in (dst, src))
    software = needs_software or _unasked(mode, machine)
    issue = _issue_ns(dst, src, machine, mode, needs_software)
    return Cost(issue, latency, transfer=Transfer(first, last, each, store, software))


def _by_powers(dst: View, src: View) -> bool:
    """Return whether a load or store has one row in HBM for each partition, and these rows begin a
    power of two bytes apart. Return False if the rows are adjacent."""
    view = src if dst.on_chip else dst
    if dst.on_chip == src.on_chip or view.shape[0] == 1:
        return False
    apart = abs(view.strides[0]) * view.dtype.itemsize
    return apart > view.nbytes // view.shape[0] and apart & (apart - 1) == 0


def _packets_ns(dst: View, src: View, dma_engines: Dma) -> float:
    """Return the time of the packets in ns, without the time of their bytes."""
    runs = ceil(dst.size / min(contiguous(dst), contiguous(src)))
    again = src.size if _repeats_elements(src) else 0
    return max(
        _rows_of(dst, src) * dma_engines.packet_ns,
        runs * dma_engines.run_ns,
        again * dma_engines.repeated_read_ns,
    )


def _issue_ns(dst: View, src: View, machine: Machine, mode: dge_mode | None, needed: bool) -> float:
    """Return the time in ns for which the issue of a transfer occupies its queue.

    It depends on who writes the descriptors. `needed` is true if only software can write them, or
    if the kernel requests software.

    * If software is needed, it writes one descriptor for each row of elements, contiguous or not.
      This explains how long GpSimd is busy on trn3 in a published mixture of experts that requests
      software.
    * If software writes the descriptors without a request, GpSimd takes the times that are known
      from traces and measured latencies of kernels of the older API. DMAs for matmuls on trn1 with
      NKI 0.6 (Matmul-Inspector) take as long.
    * Hardware takes about as long for a transfer of a single row (486 ns each for 76,800 rows,
      asst4-trainium2) as for a whole tile (550 ns). If the kernel requests hardware, all of the
      hardware's generators write descriptors for the queue.
    * If no mode is requested and hardware can't write the descriptors, they are prepared before the
      run."""
    it = machine.dma
    if needed:
        return it.issue_ns + _rows_of(dst, src) * it.software_descriptor_ns
    if _unasked(mode, machine):
        return it.gpsimd_issue_ns + _rows_of(dst, src) * it.gpsimd_descriptor_ns
    by_hardware = machine.has("hardware_dge") and mode in (dge_mode.unknown, dge_mode.hwdge)
    if not by_hardware or dst.dtype is not src.dtype:
        return it.issue_ns
    share = 1 / it.hardware_generators if mode is dge_mode.hwdge else 1
    return it.issue_ns + (it.hardware_issue_ns - it.issue_ns) * share


def _needs_software(view: View, mode: dge_mode | None) -> bool:
    """Return whether software has to write the descriptors of a transfer: for gathers and scatters,
    at the kernel's request, and for offsets in memory unless the kernel requests hardware."""
    in_memory = view.indices > 0 and mode is not dge_mode.hwdge
    return view.dynamic == 2 or in_memory or mode is dge_mode.swdge


def _unasked(mode: dge_mode | None, machine: Machine) -> bool:
    """Return whether software writes the descriptors without a request, as after some releases of
    the compiler (the machine's feature SOFTWARE_DGE)."""
    return mode is dge_mode.unknown and machine.has(SOFTWARE_DGE)


def _axes(view: View) -> slice:
    """Return the axes of a tile along which its elements are in one memory: not the partition axis,
    and not axis 0 if an index chooses its rows."""
    return slice(1 if view.on_chip or view.dynamic == 2 else 0, None)


def contiguous(view: View) -> int:
    """Return the number of elements in a contiguous run of a tile."""
    return access.contiguous_run(view.shape[_axes(view)], view.strides[_axes(view)])


def _repeats_elements(src: View) -> bool:
    """Return whether the DMA reads an element of HBM several times in a row: the innermost step is
    0."""
    axes = [axis for axis in zip(src.shape, src.strides, strict=True) if axis[0] > 1]
    return not src.on_chip and src.dynamic != 2 and bool(axes) and axes[-1][1] == 0


def _rows_of(dst: View, src: View) -> int:
    """Return the number of rows of elements that a DMA moves."""
    return ceil(dst.size / min(_row(dst), _row(src)))


def _row(view: View) -> int:
    """Return the number of elements in a row: a contiguous run, or the innermost axis if it is
    longer."""
    sizes = [size for size in view.shape[_axes(view)] if size > 1]
    return max(contiguous(view), sizes[-1] if sizes else 1)


def _engines(view: View, machine: Machine) -> tuple[int, int]:
    """Return the first and the last DMA engine for the partitions of an on-chip tile; of all
    engines for HBM."""
    if not view.on_chip:
        return 0, machine.dma.engines - 1
    each = machine.dma.partitions_per_engine
    return view.partition // each, (view.partition + view.partitions - 1) // each


def transpose_kind(data: View) -> str:
    return "transpose_float32" if data.dtype.itemsize == 4 else "transpose"


def systolic(call: Call, machine: Machine, kind: str, columns: int, weights: int) -> Cost:
    """Return the cost of an instruction of the Tensor engine: `columns` columns of moving data pass
    `weights` columns of weights.

    A transpose as two products, of upper and lower bits, loads weights for each."""
    unit, fixed = machine.engines["tensor"], machine.fixed
    weights_view = call.view(call.instruction.traits.weights)
    rate, least = unit.rate[kind], unit.min_interval_cycles
    passes = fixed.float32_passes if rate == unit.rate["float32"] else 1
    busy = max(least / min(rate, 1), unit.overhead_cycles * passes + columns / rate)
    ports = sector_cycles(weights_view, machine) if fixed.weights_by_sectors else 0
    halves = kind == "transpose_float32" and not machine.has("native_transpose")
    loads = fixed.float32_passes if halves else passes
    cycles = fixed.float32_weights_cycles if weights_view.dtype is float32 else 1
    load = loads * max(cycles * max(least, weights / fixed.weights_columns_per_cycle), ports)
    filling = max(least, weights * weights_view.dtype.itemsize / fixed.weights_bytes_per_cycle)
    latency = unit.latency_ns
    if kind.startswith("transpose") and machine.has("background_transpose"):
        # two transposes overlap: each of them takes half of the rate
        latency += busy / unit.clock_ghz
    return Cost(
        busy / unit.clock_ghz,
        latency,
        weights_ns=load / unit.clock_ghz,
        weights_latency_ns=filling / unit.clock_ghz + fixed.weights_latency_ns,
        rows=columns / rate,
        fills_half=2 * weights_view.partitions <= machine.limits.partitions,
    )
