"""The function that a call runs, made by its clause from all that uses of the call share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuroncore.clause.instruction import Call, Run
from neuroncore.clause.operand import Op, spread


def stage(call: Call, arguments: Mapping[str, Any], core: Any) -> Run:
    """Return the function that executes a call on a core, for arguments like these, with operands
    at known places."""
    instruction, given = call.instruction, _given(call, arguments)
    for parameter in instruction.parameters:
        if isinstance(parameter.declared, Op) and (op := given[parameter.name]) is not None:
            given[parameter.name] = core.operators.get(op.name, op)
    if not instruction.staged:
        return _unstaged(call, given)
    extra = {"core": core} if instruction.wants_core else {}
    run: Run = instruction.meaning(**given, **extra)
    return run


def staged(call: Call, arguments: Mapping[str, Any], core: Any) -> Run:
    """Return that function with the checks of an observer, if there is one (`Core.watch`)."""
    run = stage(call, arguments, core)
    return run if core.watch is None else core.watch.over(call, arguments, run)


def _unstaged(call: Call, given: dict[str, Any]) -> Run:
    """A meaning that is a function of all arguments, as one of those that vary."""
    meaning, parameters = call.instruction.meaning, call.instruction.parameters
    first = [given[p.name] for p in parameters]
    places = [i for i, p in enumerate(parameters) if p.varies]

    def arguments(varying: tuple[Any, ...]) -> list[Any]:
        now = first.copy()
        for place, argument in zip(places, varying, strict=True):
            now[place] = argument
        return now

    if call.instruction.wants_core:
        return lambda core, *varying: meaning(*arguments(varying), core=core)
    return lambda *varying: meaning(*arguments(varying))


def perform(call: Call, arguments: Mapping[str, Any], core: Any) -> None:
    """Do what a call means once, with all its arguments, of which tiles may be others than it was
    found legal for; `core` is what it does that on."""
    given = _given(call, arguments)
    varying = [given[p.name] for p in call.instruction.varying]
    stage(call, arguments, core)(*[core] * call.instruction.wants_core, *varying)


def _given(call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a meaning. Tiles in lists have separate names."""
    given = {p.name: arguments[p.name] for p in call.instruction.parameters}
    for name in call.instruction.lists:
        given[name] = [arguments[n] for n in spread(name, given[name])]
    if "engine" in given:
        given["engine"] = call.engine
    return given
