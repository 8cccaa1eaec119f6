"""A finished launch: its results and the cores that it ran on, and warnings about its findings:
each code once per process and line of the user's kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from neuroncore.base import source
from neuroncore.base.findings import Finding
from neuroncore.base.structs import dataclass
from neuroncore.core.core import Core
from neuroncore.frontend.arguments import Arguments, as_numpy, leaves
from neuroncore.machine import Machine
from neuroncore.record.inputs import Input, Setting

if TYPE_CHECKING:
    from neuroncore.precision.findings import Precision


Array = npt.NDArray[Any]


@dataclass(eq=False)
class Launch:
    """A finished launch: its results and the cores that it ran on, with their records."""

    kernel: str
    outputs: Any
    cores: list[Core]
    programs: Sequence[Sequence[int]]  # of the launch grid, by core, in order
    arguments: tuple[Any, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    precision: Precision | None = None  # with Options.precision
    inputs: tuple[tuple[Input, Any], ...] = ()  # with the caller's objects
    named: dict[str, Any] = field(default_factory=dict)
    given: tuple[Array, ...] | None = None  # copies of the inputs before, if kept

    @property
    def core(self) -> Core:
        """The first core, often the only one."""
        return self.cores[0]

    @property
    def machine(self) -> Machine:
        return self.core.machine


def kept(launch: Launch) -> tuple[Arguments, Arguments | None]:
    """Return the arrays of a launch's arguments after it, and before it if there are copies."""
    used: Arguments = tuple(value for _, value in launch.inputs), {}
    return used, None if launch.given is None else (launch.given, {})


def setting(rank: int, launch: Launch, used: Arguments, given: Arguments | None) -> Setting:
    """Return the settings of a launch, with the arrays of its arguments if there are copies."""
    copies: dict[int, Any] = {}
    if given is not None:
        copies = {id(one): was for one, was in zip(leaves(used), leaves(given), strict=True)}
    core, several = launch.core, launch.core.world.ranks > 1
    inputs, arrays = [], {}
    for one, value in launch.inputs:
        of_rank = one.on(rank) if several else one
        inputs.append(of_rank)
        if id(value) in copies:
            arrays[of_rank.name] = as_numpy(copies[id(value)])
    return Setting(core.machine, core.options, core.grid, tuple(inputs), arrays, core.world)


def together(settings: Sequence[Setting]) -> Setting:
    """Combine the settings of all ranks."""
    inputs = tuple(one for each in settings for one in each.inputs)
    arrays = {name: array for each in settings for name, array in each.arrays.items()}
    return replace(settings[0], inputs=inputs, arrays=arrays)


class WarnedLine(NamedTuple):
    """The key of a finding that is reported once."""

    code: str
    file: str
    number: int


_told: set[WarnedLine] = set()


class NeuronWarning(UserWarning):
    """A finding of a run that has no other report.

    Python's warning filters apply. With the default filter, or "once", it is shown once per process
    for each code and line of the kernel: Python would forget it in between, and show it again for
    tiles of another size.
    """


def by_line(findings: Iterable[Finding]) -> dict[WarnedLine, list[Finding]]:
    """Group findings by code and line of a kernel, in their original order. A finding without a
    line is grouped by its message."""
    groups: dict[WarnedLine, list[Finding]] = {}
    for finding in findings:
        place = finding.place
        spot = (place.file, place.line) if place else (finding.message, 0)
        groups.setdefault(WarnedLine(finding.code, *spot), []).append(finding)
    return groups


def likely_wrong(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the findings without notes and advice, which a correct kernel may have."""
    return (one for one in findings if one.severity in ("error", "warning"))


def counted(findings: list[Finding]) -> str:
    """Return the text of the first of several findings, with their number."""
    more = f" (and {len(findings) - 1} more of this line)" if len(findings) > 1 else ""
    return f"{findings[0]}{more}"


def warn(findings: Iterable[Finding]) -> None:
    """Warn of likely errors that were not shown yet, at the user's line that launched the kernel.
    Notes and advice are left out."""
    for line, same in by_line(likely_wrong(findings)).items():
        text = counted(same)
        if line not in _told or _is_told_each_time(text):
            _told.add(line)
            warnings.warn(text, NeuronWarning, stacklevel=source.user_level())


def _is_told_each_time(text: str) -> bool:
    """Return whether the first filter that matches a warning, from any module, shows all or
    raises."""
    for action, message, category, module, _ in warnings.filters:
        about = message is None or message.match(text)
        if about and module is None and issubclass(NeuronWarning, category):
            return action in ("always", "all", "error")
    return False
