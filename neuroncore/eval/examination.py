"""Checks the programs of a candidate's record before the record is replayed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore import machine
from neuroncore.base.enums import ON_CHIP
from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.clause.alu import SIMULATED, Operator
from neuroncore.clause.instruction import Call
from neuroncore.eval.refusals import Refused
from neuroncore.eval.spec import Spec
from neuroncore.machine.world import World
from neuroncore.memory.geometry import Geometry
from neuroncore.memory.register import OPERATIONS
from neuroncore.record import saved
from neuroncore.record.inputs import Data, leaves
from neuroncore.record.instructions import Instructions
from neuroncore.record.program import Program, Record
from neuroncore.replay.tensors import written_storages

Array = npt.NDArray[Any]
LARGEST = 256 << 20  # the most bytes that a record may have after decompression


def unpacked(content: bytes, spec: Spec, arrays: int) -> Record:
    """Unpack a record, and return it with the options and the cores of the specification.

    `arrays`: the number of array arguments of the kernel

    Raise Refused if the record is damaged or has illegal calls. Raise Refused also if its machine,
    its number of cores or its number of inputs differs from the specification."""
    try:
        record = saved.unpacked(content, Path("the record"), LARGEST)
    except UsageError as error:
        raise Refused("RECORD_REFUSED", str(error)) from None
    setting = record.setting
    if setting is None:
        raise Refused("RECORD_REFUSED", "the record has no settings")
    if setting.machine is not machine.load(spec.target):
        message = f"the record is for {setting.machine.name}, not for {spec.target}"
        raise Refused("WRONG_TARGET", message)
    world = setting.world
    if (world.ranks, world.cores, len(record.programs)) != (1, spec.cores, spec.cores):
        message = (
            f"the record has {plural(world.ranks, 'rank')} of {plural(world.cores, 'core')}, but "
            f"the specification has 1 rank of {plural(spec.cores, 'core')}"
        )
        raise Refused("WRONG_CORES", message)
    storages = {array.storage for array in setting.inputs}
    if len(setting.inputs) != arrays or len(storages) != arrays:
        given = plural(len(setting.inputs), "input")
        message = f"the record has {given}, but the specification has {arrays}"
        raise Refused("WRONG_INPUTS", message)
    trusted = replace(setting, options=spec.options, arrays={}, world=World(1, spec.cores))
    return Record(record.programs, {}, trusted)


def examined(record: Record, spec: Spec) -> int:
    """Check the programs of a record, and return the number of bytes of its constants. Raise
    Refused for a program that the specification forbids."""
    if not any(map(len, record.programs)):
        raise Refused("NO_INSTRUCTIONS", "the kernel issued no instruction")
    narrow = _formats(record, spec)
    for program in record.programs:
        for refusal in _of_program(program, spec):
            raise refusal
        for call in program.calls:
            for refusal in _of_call(call, spec, narrow):
                raise refusal
    for refusal in _of_data(record, spec):
        raise refusal
    return _constants(record)


def _of_program(program: Program, spec: Spec) -> Iterator[Refused]:
    if program.left_out:
        yield Refused("RECORD_LIMITS", f"the record covers {program.coverage}")
    if program.order != spec.order:
        message = f"the order of instructions is {program.order!r}, not {spec.order!r}"
        yield Refused("WRONG_ORDER", message)
    if program.order == "scheduled" and (program.flags or program.dge):
        yield Refused("WRONG_ORDER", "a kernel of today's API has compiler flags of the older API")
    descriptors = "software" if program.software else "hardware"
    options = {
        "descriptors": descriptors,
        "loads": program.loads,
        "assume": ",".join(program.assume),
    }
    for name, value in {**options, "clock_phase": program.clock_phase}.items():
        required = getattr(spec.options, name)
        if value != required:
            message = f"{name} is {value!r} in the program, {required!r} in the specification"
            yield Refused("WRONG_ORDER", message)
    if len(program.data.branches) and not spec.dynamic:
        line = program.data.branches[3]
        place = program.place(line).line if line >= 0 else None
        message = "a loop or a condition depends on the value of a register"
        yield Refused("DYNAMIC", message, place)
    if program.data.skipped:
        yield Refused("DYNAMIC", "an access depends on the values of an index")
    if not waits_for_registers(program):
        message = "an instruction does not wait for the register that it uses"
        yield Refused("RECORD_REFUSED", message)


def waits_for_registers(program: Program) -> bool:
    """Return whether the record has the waits that its registers require. An instruction must wait
    for the loads of the registers in its offsets. All instructions after a branch must wait for the
    loads that decide the branch."""
    loads = _last_loads(program.data)
    branches = np.array(program.data.branches, np.int64).reshape(-1, 4)
    deciding = np.full(len(program) + 1, -1, np.int64)
    np.maximum.at(deciding, branches[:, 0], loads[branches[:, 1]])
    if (np.maximum.accumulate(deciding)[:-1] > program.decided()).any():
        return False
    dynamic = [n for n, call in enumerate(program.calls) if call.dynamic]
    rows, waits = Instructions(program), {(a, b) for a, b in program.edges().tolist()}
    for number in np.flatnonzero(np.isin(program.columns().call, dynamic)).tolist():
        needed = (int(loads[register.number]) for register in rows[number].offsets)
        if any(load >= 0 and (number, load) not in waits for load in needed):
            return False
    return True


def _last_loads(data: Data) -> Array:
    """Return, for each register, the row of the record with the last load on which the register's
    value depends; -1 if the value depends only on constants."""
    registers = np.array(data.registers, np.int64).reshape(-1, 3)
    last_loads = np.full(len(registers), -1, np.int64)
    for number, (operation, left, right) in enumerate(registers.tolist()):
        name = OPERATIONS[operation]
        if name == "load":
            last_loads[number] = left
        elif name != "constant":
            last_loads[number] = max(last_loads[left], last_loads[right])
    return last_loads


def _formats(record: Record, spec: Spec) -> frozenset[str]:
    """Return the names of the formats that operands of matrix products may have. They are the
    formats in the specification, and the formats of the inputs."""
    assert record.setting is not None  # `unpacked` has seen it
    return frozenset(spec.narrow).union(array.dtype.name for array in record.setting.inputs)


def _of_call(call: Call, spec: Spec, formats: frozenset[str]) -> Iterator[Refused]:
    for value in call.arguments.values():
        simulated = isinstance(value, Operator) and SIMULATED.get(value.name) is value
        if simulated and not spec.options.simulator_operators:
            message = f"{call.name} has the operator {value.name}, which no engine supports"
            yield Refused("NO_SUCH_OPERATOR", message)
    if call.instruction.traits.multiplies:
        used = {call.view(name).dtype.name for name in call.reads}
        if narrow := sorted(used - formats):
            allowed = ", ".join(sorted(formats))
            message = f"{call.name} multiplies {', '.join(narrow)}; allowed are {allowed}"
            yield Refused("NARROW", message)


def _of_data(record: Record, spec: Spec) -> Iterator[Refused]:
    """Yield refusals for the data of a record:

    * inputs that are written or returned although the specification does not allow it,
    * results that no instruction writes,
    * results that are constants,
    * results that are views which repeat elements or swap axes,
    * data in the wrong memory (`_of_places`),
    * too many bytes of constants."""
    setting = record.setting
    assert setting is not None  # `unpacked` has seen it
    inputs = {array.storage for array in setting.inputs}
    for program in record.programs:
        yield from _of_places(program, inputs)
    allowed = {setting.inputs[n].storage for n in spec.in_place}
    written = {int(n) for program in record.programs for n in written_storages(program)}
    names = {array.storage: array.name for array in setting.inputs}
    for storage in sorted((written & inputs) - allowed):
        yield Refused("INPUT_WRITTEN", f"the kernel writes to its input {names[storage]}")
    for program in record.programs:
        for leaf in leaves(program.data.results):
            if leaf.storage in inputs and leaf.storage not in allowed:
                yield Refused("RESULT_IS_INPUT", f"input {names[leaf.storage]} is returned")
            elif leaf.storage not in written:
                yield Refused("RESULT_NOT_WRITTEN", "no instruction writes to a result")
            elif leaf.storage in program.data.constants:
                yield Refused("CONSTANTS", "a result is a constant of the host")
            elif not _in_order(program.geometries[leaf.geometry]):
                message = "a result is a view that repeats the elements of a tensor or swaps axes"
                yield Refused("RESULT_IS_VIEW", message)
    if (size := _constants(record)) > spec.constants:
        message = f"{size:,} bytes of constants come from the host; {spec.constants:,} are allowed"
        yield Refused("CONSTANTS", message)


def _of_places(program: Program, inputs: set[int]) -> Iterator[Refused]:
    """Yield refusals for inputs, constants and results that are in SBUF or PSUM, and for inputs
    that are also constants. Only a forged record contains such data: in a launch, inputs and
    constants are in HBM at the beginning, and results must be stored in HBM."""
    constants, results = set(program.data.constants), leaves(program.data.results)
    if inputs & constants:
        yield Refused("RECORD_REFUSED", "an input is a constant of the host")
    used = program.storages().number.tolist()
    regions = [program.area(number).region for number in used if number in inputs | constants]
    regions += [program.geometries[leaf.geometry].layout.region for leaf in results]
    for region in regions:
        if region in ON_CHIP:
            message = f"an input, a constant or a result is in {region.value}"
            yield Refused("RECORD_REFUSED", message)


def _in_order(geometry: Geometry) -> bool:
    """Return whether a tensor has each element once, in the order of memory. Gaps between rows are
    allowed."""
    axes = [(n, s) for n, s in zip(geometry.shape, geometry.strides, strict=True) if n > 1]
    least_strides = [*(n * s for n, s in axes[1:]), 1]
    return all(s >= least for (_, s), least in zip(axes, least_strides, strict=False))


def _constants(record: Record) -> int:
    """Return how many bytes of constants the host adds to the programs of a record. Equal constants
    count once."""
    contents = {c for program in record.programs for c in program.data.constants.values()}
    return sum(map(len, contents))
