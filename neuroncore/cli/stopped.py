"""The page of a session that an error ended: all instructions up to the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuroncore.base import source
from neuroncore.base.errors import KernelError
from neuroncore.core.core import Core
from neuroncore.record.program import Program
from neuroncore.time.schedule import schedule_cores
from neuroncore.view import outcome as outcomes
from neuroncore.view import page as pages
from neuroncore.view import window as windows

if TYPE_CHECKING:
    from neuroncore.view.document import Shown


def shown(kernel: str, core: Core | None, error: BaseException, text: str) -> Shown:
    """Return what a page shows of a launch that an error ended on a core, or of a session that an
    error ended outside of a launch. Without instructions the page has only the error and its
    source. A launch on several cores has no timeline: its cores stop at different places."""
    outcome = outcomes.Outcome("failed", text, _place(error))
    program = _program(core)
    if core is None or program is None:
        return pages.Shown(kernel, (), (), outcome=outcome)
    count = len(program)
    return pages.Shown(
        kernel,
        schedule_cores([program], core.machine),
        core.findings,
        answers=False,  # the bottleneck of a part says little of the whole
        window=windows.PageWindow(max(0, count - windows.MOST), count),
        outcome=outcome,
    )


def _program(core: Core | None) -> Program | None:
    """Return the record of a core that runs alone, if it has instructions."""
    if core is None or not core.program or core.world.ranks * core.world.cores > 1:
        return None
    return core.program


def _place(error: BaseException) -> source.Place | None:
    """Return the innermost line of the user's code."""
    if isinstance(error, KernelError) and error.place is not None:
        return error.place
    return source.innermost_place(error.__traceback__)
