"""A cost reads only those figures of a machine that are in the key of its cache
(`Machine.figures_for`)."""

from dataclasses import replace

from accepted import accepted
from calls import ONE_CORE, Case
from device import TARGETS, Device
from every import every

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.machine.machine import OF_SCHEDULES


class Without:
    """An object without some of its attributes."""

    def __init__(self, whole, *names):
        self.whole, self.names = whole, names

    def __getattr__(self, name):
        assert name not in self.names, f"a cost reads {name}"
        return getattr(self.whole, name)


def only(machine, call):
    """Return the machine without the figures that a cost of the call must not read."""
    parts = {"fixed": Without(machine.fixed, *OF_SCHEDULES)}
    if engine.dma not in call.instruction.engines:
        parts |= {"dma": None, "hbm": None}
    name = call.engine.name
    parts["engines"] = {name: machine.engines[name]} if name in machine.engines else {}
    return replace(machine, **parts)


def check(case):
    case.issue()
    calls = [call for call in case.device.core.program.calls if call.name == case.name]
    assert calls
    for call in calls:
        expected = call.instruction.cost(call, case.machine)
        assert call.instruction.cost(call, only(case.machine, call)) == expected
        assert call.cost(case.machine) == expected


def test_a_cost_reads_only_the_figures_in_its_cache_key():
    cases = [
        Case(Device(target), name, lanes=3, free=5)
        for name in ONE_CORE
        for target in TARGETS
        if not INSTRUCTIONS[name].operands or accepted(name, target)
    ]
    every(cases, check)
