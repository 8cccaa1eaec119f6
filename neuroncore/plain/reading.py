"""The plain reading of a record: executes the instructions one by one, in separate memory."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from neuroncore.base.enums import ON_CHIP, engine, reduce_cmd
from neuroncore.plain import collectives, elementwise, move, random, reduction, tensor
from neuroncore.plain.arithmetic import IDENTITY, ULPS, apply
from neuroncore.plain.formats import FLOAT32, FORMATS, Array, Coding, encode, stochastic
from neuroncore.plain.memory import Operand, PlainTensor, positions
from neuroncore.record.inputs import RegisterId, leaves
from neuroncore.record.instructions import Instructions, Recorded, Registers, Window, last_uses

FAMILIES: tuple[Any, ...] = elementwise, tensor, reduction, move, random, collectives
OF_A_RANK = ("sendrecv", "core_barrier")  # instructions that the cores of a rank execute together


def meaning(name: str) -> Any:
    """Return the function that computes an instruction. Raises LookupError for an unknown name."""
    for family in FAMILIES:
        if hasattr(family, name):
            return getattr(family, name)
    raise LookupError(f"no file of neuroncore/plain has a function {name}")


def approximate(i: Any) -> str | None:
    """Return the function whose last bits may differ from the emulator's; None for exact
    instructions."""
    function = "exp" if i.name == "exponential" else getattr(i, "op", None)
    return function if function in ULPS else None


class PlainCore:
    """One core: `rank` is its rank, and `place` its position among the cores of the rank. `chip` is
    the number of ranks per chip. `program` is the current program of the launch grid. `undefined`
    maps names of operands to flags of the elements that depend on uninitialized memory."""

    def __init__(self, setting: Any, number: int, chip: int) -> None:
        self.machine, self.options, self.chip = setting.machine, setting.options, chip
        self.rank, self.place = divmod(number, setting.world.cores)
        self.program = self.place
        self.issued: Counter[tuple[int, int]] = Counter()  # instructions by (program, engine)
        # the engine of the current instruction, and the number of elements that it has rounded
        self.unit = self.written = 0
        lanes, units = self.machine.limits.partitions, (engine.scalar, engine.vector)
        self.accumulators = {unit: np.full(lanes, np.nan, np.float32) for unit in units}
        self.generators: dict[engine, Array] = {}
        self.undefined: Mapping[str, Array] = {}

    def begin(self, unit: int) -> None:
        """Begin the next instruction on the engine `unit`."""
        self.issued[self.program, unit] += 1
        self.unit, self.written = unit, 0

    def round(self, form: Coding, values: Array) -> Array:
        """Return the codes of float32 values. Stochastic rounding takes a random word for each
        written element: a function of program, engine, instruction and element."""
        options, saturate = self.options, self.options.fn_overflow == "saturate"
        if not options.stochastic or form.kind != "float" or form is FLOAT32:
            return encode(form, values, saturate)
        numbers = self.written + np.arange(values.size, dtype=np.uint64)
        self.written += values.size
        instruction = self.issued[self.program, self.unit] - 1
        high = np.full_like(numbers, (instruction | self.unit << 56) << 2)
        key = np.uint64(options.stochastic_seed | self.program << 32)
        words = random.philox(numbers, high, key).reshape(values.shape)
        words |= np.uint32((1 << 32 - options.stochastic_bits) - 1)
        return stochastic(form, values, words, saturate)

    def operator(self, name: str) -> str:
        """Return the name of the operator that `Options.nan_minmax` selects for `name`."""
        numbers = self.options.nan_minmax == "number" and name in ("maximum", "minimum")
        return f"{name}_number" if numbers else name

    def ring(self, group: Sequence[int], channel: int) -> list[int]:
        """Return the ranks of a group in the order of a channel's ring (`Options.rings`)."""
        ranks = list(group)
        if self.options.rings:
            Random(f"{self.options.rings} {channel} {ranks}").shuffle(ranks)
        return ranks

    def reduce(
        self, i: Any, data: Operand, out: Array, op: str | None, command: reduce_cmd,
        start: Any = 0, negate: bool = False, running: bool = False,
    ) -> None:  # fmt: skip
        """dst = out [P, F]; reduce_res[p] = the accumulator register of lane p, for the lanes of
        data.

        `command` sets the registers to the identity of `op` or to `start`, keeps them, or makes
        them NaN (idle). Then register = register <op> element, for each element. If `running`,
        register = element <op> register, and dst gets the register after each element."""
        registers = (every := self.accumulators[i.engine][data.first :])[: data.lanes]
        if op is not None and command in (reduce_cmd.reset_reduce, reduce_cmd.reset):
            registers[:] = IDENTITY[op]
        elif op is not None and command is reduce_cmd.load_reduce:
            registers[:] = start.rows()[:, 0] if isinstance(start, Operand) else start
        elif op is not None and command is reduce_cmd.idle:
            registers[:] = np.nan
        out = out.reshape(data.lanes, -1).copy()
        folds = op is not None and command not in (reduce_cmd.idle, reduce_cmd.reset)
        for j in range(out.shape[1] if folds else 0):
            registers[:] = apply(self.operator(str(op)), registers, out[:, j], running)
            out[:, j] = registers if running else out[:, j]
        i.dst.set(out)
        if getattr(i, "reduce_res", None) is not None:
            i.reduce_res.set(every[: i.reduce_res.lanes] * (-1 if negate else 1))


class Reading:
    """Executes the programs of a record. `contents` maps the ids of storages to the bytes of the
    tensors that exist at the beginning. `chip` is the number of ranks per chip."""

    def __init__(self, record: Any, contents: Mapping[int, Any], chip: int = 1) -> None:
        setting, programs = record.setting, record.programs
        self.per_rank = setting.world.cores
        self.contents = ChainMap(dict(contents), *(program.data.constants for program in programs))
        self.rows = [Instructions(program) for program in programs]
        self.registers = [Registers(program.data) for program in programs]
        self.cores = [PlainCore(setting, number, chip) for number in range(len(programs))]
        self.next = [0] * len(programs)
        # the next instructions of cores for which the step of another core has executed them
        self.met: dict[int, Any] = {}
        self.tensors: dict[int, PlainTensor] = {}
        self.images: dict[Any, PlainTensor] = {}
        self.begins = [dict(zip(*[iter(p.data.programs)] * 2, strict=True)) for p in programs]
        self.ends = [last_uses(program) for program in programs]
        self.kept = {leaf.storage for p in programs for leaf in leaves(p.data.results)}

    def step(self, core: int, undefined: Mapping[str, Array] | None = None) -> Any:
        """Execute the next instruction of a core, and return it with its arguments.

        If several cores execute it together (`members`), the first does so for all. `undefined`:
        flags of the elements that depend on uninitialized memory, by operand."""
        number, state = self.next[core], self.cores[core]
        row = self.rows[core][number]
        state.program = self.begins[core].get(number, state.program)
        state.undefined = undefined or {}
        if core not in self.met:
            with np.errstate(all="ignore"):
                self._carry_out(core, row)
        i = self.met.pop(core)
        self.next[core] += 1
        for window in row.windows.values():
            on_chip = window.geometry.layout.region in ON_CHIP and window.tensor not in self.kept
            if on_chip and self.ends[core][window.tensor] == number:
                self.tensors.pop(window.tensor, None)
        return i

    def _carry_out(self, core: int, row: Recorded) -> None:
        function, name = meaning(row.call.name), row.call.name
        members = self.members(core, row)
        for n in members:
            part = self.rows[n][self.next[n]]
            self.cores[n].begin(part.call.engine.value)
            self.met[n] = self.instruction(n, part)
        if name in OF_A_RANK:
            function([self.met[n] for n in members])
        elif hasattr(collectives, name):
            # one core per rank: the cores with the same position in their rank
            for place in sorted({self.cores[n].place for n in members}):
                function([self.met[n] for n in members if self.cores[n].place == place])
                if row.call.participation.once:
                    break
        elif (loaded := function(self.met[core])) is not None:
            self.registers[core].load(self.next[core], loaded)

    def members(self, core: int, row: Recorded) -> list[int]:
        """Return the cores that execute an instruction together: all cores of a rank, or cores of a
        collective's ranks. The latter are all cores, or one for each rank."""
        state, name, cores = self.cores[core], row.call.name, self.per_rank
        if name in OF_A_RANK:
            return [state.rank * cores + place for place in range(cores)]
        if not hasattr(collectives, name):
            return [core]
        groups = row.call.arguments.get("replica_group")
        if groups is None:
            groups = [sorted({rank for pair in row.call["source_target_pairs"] for rank in pair})]
        group = next((ranks for ranks in groups if state.rank in ranks), (state.rank,))
        places = range(cores) if row.call.participation.waits else [state.place]
        return [rank * cores + place for rank in group for place in places]

    def instruction(self, core: int, row: Recorded) -> Any:
        """Return an instruction with its arguments as attributes: operands at their current
        positions, numbers, and names."""
        call = row.call
        i = {n: v.name if hasattr(v, "apply") else v for n, v in call.arguments.items()}
        number = self.registers[core].value
        i |= {n: number(v.number) if type(v) is RegisterId else v for n, v in row.values.items()}
        i |= {name: self.operand(core, window) for name, window in row.windows.items()}
        indices = iter([self.operand(core, window) for window in row.indices])
        offsets = iter([number(register.number) for register in row.offsets])
        for name in call.dynamic:
            for shift in row.windows[name].moves:
                index = next(offsets if shift.by_register else indices)
                self._move(core, row, name, i[name], shift, index)
        for name in call.instruction.lists:
            i[name] = [i[n] for n in row.windows if n.partition("[")[0] == name]
        i |= {"name": call.name, "engine": call.engine, "core": self.cores[core]}
        return SimpleNamespace(**i)

    def _move(
        self, core: int, row: Recorded, name: str, tile: Operand, shift: Any, index: Any
    ) -> None:
        """Move an operand to its current position. A register, or a number in memory (kind 0),
        moves all elements. An index of rows (kind 1) lists the number of each row, column by
        column. An index of elements (kind 2) lists the position of each element. Each group of its
        partitions lists the positions for the group's elements, column by column."""
        size, limits, lanes = tile.form.size, self.cores[core].machine.limits, tile.lanes
        if shift.kind == 0:
            number = index if shift.by_register else int(index.codes().flat[0])
            tile.positions = tile.positions + number * shift.step * size
        elif shift.kind == 1:
            numbers = index.codes().T.reshape(-1, *[1] * (len(tile.shape) - 1))[:lanes]
            inside = (numbers >= 0) & (numbers <= shift.limit)
            rows = np.where(inside, numbers, 0).astype(np.int64)
            tile.positions = tile.positions[:1] + rows * shift.step * size
            tile.there = None if inside.all() else np.broadcast_to(inside, tile.shape)
        else:
            on_tensor = row.call.engine is engine.tensor
            group = limits.indirect_partitions_tensor if on_tensor else limits.indirect_partitions
            n, first = np.arange(tile.shape[1]), np.arange(lanes)[:, np.newaxis] // group * group
            numbers = index.part((first + n % group, np.broadcast_to(n // group, tile.shape)))
            stride = row.windows[name].geometry.strides[1] * size
            tile.positions = tile.positions[:, :1] + numbers.codes().astype(np.int64) * stride

    def operand(self, core: int, window: Window) -> Operand:
        """Return the operand for a window, before a register or an index moves it."""
        geometry, state = window.geometry, self.cores[core]
        form = FORMATS[geometry.dtype.name]
        begin = window.offset * form.size
        where = positions(geometry.shape, geometry.strides, form.size, begin)
        wide = state.options.storage == "float32" and form.kind == "float"
        first = geometry.layout.partition0 + begin // max(geometry.layout.row_bytes, 1)
        fields = first, state.round, state.options.uninitialized == "zeros"
        return Operand(self.tensor(core, window), where, form, FLOAT32 if wide else form, *fields)

    def tensor(self, core: int, window: Window) -> PlainTensor:
        """Return the tensor of a window. A tensor is made when it is first used."""
        if window.tensor not in self.tensors:
            layout, key = window.geometry.layout, (core, window.geometry.layout.region)
            if layout.placed and key not in self.images:
                size = getattr(self.cores[core].machine, layout.region.value)
                self.images[key] = PlainTensor(layout, size.partitions, size.partition_bytes)
            image = self.images[key] if layout.placed else None
            tensor = PlainTensor(layout, layout.partitions, layout.row_bytes, image)
            if (content := self.contents.get(window.tensor)) is not None:
                tensor.data[:], tensor.written[:] = np.frombuffer(content, np.uint8), 1
            self.tensors[window.tensor] = tensor
        return self.tensors[window.tensor]
