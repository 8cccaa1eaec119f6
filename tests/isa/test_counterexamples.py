"""The calls in isa/counterexamples are issued: each is refused with its code, and each rule of a
clause has a call that breaks it."""

import re
import tomllib
from functools import partial

import pytest
from device import REGIONS, Device
from every import every, for_all

from neuroncore import machine
from neuroncore.base.errors import KernelError
from neuroncore.clause import counterexample, example
from neuroncore.clause.counterexample import LEGAL
from neuroncore.clause.immediate import Register
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.legality import of_argument, whole_call
from neuroncore.memory.geometry import View
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Dynamic

# a statement with a number that may be correct elsewhere, without the number that is required here
VAGUE = re.compile(r"\S+(: \S+)? (has \d+ \w+( per \w+)?|starts at partition \d+)")
BUFFERS = {region: name for name, region in REGIONS.items()}


def tile(device, view):
    """Return a tile with the layout of a view of an example, inside a larger tile if it has an
    offset."""
    buffer = BUFFERS.get(view.region, "hbm")
    if view.partition or view.byte or view.stepped:
        step, begin = 1 + view.stepped, view.byte // view.dtype.itemsize
        pitch, rows = begin + view.free_size, view.partition + step * view.partitions
        made = device.zeros((rows, pitch), view.dtype, buffer)
        strides, offset = (step * pitch, *view.strides[1:]), view.partition * pitch + begin
        made = made.window(view.shape, strides, offset)
    else:
        made = device.zeros(view.shape, view.dtype, buffer)
    if view.picked_by:
        return made.indirect(tile(device, view.picked_by), view.free_size)
    if view.dynamic == 2:
        rows = device.zeros((view.partitions, 1), "uint32")
        index = Dynamic(rows, view.strides[0], view.partitions - 1, vector=True)
    elif view.dynamic == 1:
        index = Dynamic(VirtualRegister(0), view.strides[0], view.partitions - 1)
    else:
        return made
    return made.window(made.shape, made.strides, made.offset, dynamic=(index,))


def arguments(device, call, changes):
    """Return the arguments that a kernel would pass for a call."""
    written = example.parsed(changes)
    for p in call.instruction.parameters:
        value = call.arguments[p.name]
        if isinstance(value, tuple) and p.name in call.instruction.lists:
            value = [tile(device, view) for view in value]
        elif isinstance(value, View):
            value = tile(device, value)
        elif isinstance(p.declared, Register):
            value = VirtualRegister(0)
        elif value == "number":
            value = example.literal(written.get(p.name, ["1.0"])[-1])
        yield p.name, value


def judge(row, target):
    """Check a row on one of its machines."""
    call = row.call(target)
    if call.instruction.module != "nki.isa":
        check_by_itself(call, row)
        return
    device = Device(target, experimental=True)
    given = dict(arguments(device, call, row.changes))
    if row.code == LEGAL:
        device.issue(call.name, **given)
        return
    error = device.refuses(KernelError, call.name, **given)
    assert error.code == row.code, error
    assert row.words in str(error)
    assert not VAGUE.fullmatch(error.statement), "the statement does not say what is wrong"


def check_by_itself(call, row):
    """Check a call of ranks that a single core cannot issue."""
    errors = [e for p in call.instruction.parameters for e in of_argument(call, p, call.machine)]
    errors += whole_call(call, call.machine)
    assert (errors[0].code if errors else LEGAL) == row.code, errors
    assert row.code == LEGAL or row.words in str(errors[0])


def test_each_table_has_instructions_of_its_family():
    known = {(one.family, name) for name, one in INSTRUCTIONS.items()}
    for path in (machine.isa() / "counterexamples").iterdir():
        for header in tomllib.loads(path.read_text("utf-8")):
            for word in header.partition(":")[0].split():
                assert word in machine.names() or (path.stem, word) in known, f"{path.name}: {word}"


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_each_row_is_refused_with_its_code(name):
    for row in counterexample.rows(INSTRUCTIONS[name]):
        every(row.machines, partial(judge, row))


@for_all("name", [name for name, one in INSTRUCTIONS.items() if one.rules])
def test_each_rule_has_a_row_that_breaks_it(name):
    one = INSTRUCTIONS[name]
    broken = counterexample.breaking(one)
    lacks = [rule.sentence for rule in one.rules if rule not in broken]
    assert not lacks, f"isa/counterexamples/{one.family}.toml has no row of {name} for {lacks}"
