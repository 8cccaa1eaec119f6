"""A verification that checks more than results: the operands, the constants and the source lines of
instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.programs.hazards import Uses
from bench.programs.program import CONSTANTS, Views
from bench.programs.undefined import Origins
from bench.programs.walks import Shown
from neuroncore.base import source
from neuroncore.plain.memory import Operand
from neuroncore.replay.verification import Verification

FLOAT = float | np.floating
FILE = "<program"  # the beginning of the names of files (`Program.file`)


class Failure(Exception):
    """A failure of a check. A program that is shrunk must still fail with the same `kind`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


def exact(value: Any) -> bytes | str:
    """Return a value that differs for different numbers: zeros with different signs differ, and so
    do NaNs with different bits."""
    return np.float64(value).tobytes() if isinstance(value, FLOAT) else repr(value)


class Watched(Verification):
    """A verification that also compares the operands of instructions with the operands that the
    generator expects. `expected` has these operands by the line of the kernel, for each time that
    the line is executed. `uses`, if given, collects the bytes of all operands. `origins` determines
    whether reads of uninitialized memory must be reported."""

    def __init__(
        self, record: Any, expected: Mapping[int, Sequence[Views]], uses: Uses | None = None
    ) -> None:
        super().__init__(record)
        self.expected, self.uses, self.origins = expected, uses, Origins()
        self.shown = Shown(self.instructions)
        self.missing = {*expected}  # lines without an instruction so far
        self.rows: dict[int, int] = {}  # the last instruction of each line, on the last core
        self.file = ""  # the file that has the kernel's source
        self._times: Counter[tuple[int, int]] = Counter()

    def _compared(self, core: int, number: int, row: Any, i: Any, storages: Any) -> Any:
        line = self._line(core, row)
        if line in self.expected:
            times = self._times[core, line]
            self._times[core, line] += 1
            views = self.expected[line]
            self._hold(views[times % len(views)], i, row.call.name)  # a grid has several programs
        self.missing.discard(line)
        if core == len(self.replay.cores) - 1:
            self.rows[line] = number
        self.origins.note(row, vars(i))
        if self.uses is not None:
            indices = [self.reading.operand(core, window) for window in row.indices]
            self.uses.note(core, number, row, vars(i), indices)
        found = super()._compared(core, number, row, i, storages)
        # after a comparison, results have the emulator's bits
        self.shown.note(core, number, row, vars(i))
        return found

    def _line(self, core: int, row: Any) -> int:
        """Return the line of an instruction in the kernel's source; 0 if the instruction is not in
        this file."""
        code, at = self.replay.record.programs[core].lines[row.line]
        if not code.co_filename.startswith(FILE):
            return 0
        self.file = self.file or code.co_filename
        return source.span(code, at)[0] or 0

    def _hold(self, views: Views, i: Any, name: str) -> None:
        for key, view in views.items():
            operand = getattr(i, key, None)
            if isinstance(view, str):
                wanted = CONSTANTS[view]
                if isinstance(operand, FLOAT | int) and exact(operand) != exact(wanted):
                    said = f"{key} of {name} is {operand}, not {view}"
                    raise Failure(f"verify: {key} of {name}", said)
                continue
            if not isinstance(operand, Operand):
                continue
            if operand.form.name.rstrip("_") != view.form.rstrip("_"):
                said = f"{key} of {name}, {view.text}, is {operand.form.name}, not {view.form}"
                raise Failure(f"verify: format of {key} of {name}", said)
            if (shape := operand.positions.shape) != view.shape:
                said = f"{key} of {name}, {view.text}, is {shape}, not {view.shape}"
                raise Failure(f"verify: shape of {key} of {name}", said)
            at, wanted = operand.positions.reshape(-1), view.at.reshape(-1)
            wanted = wanted + view.apart * i.core.place
            if not np.array_equal(at, wanted):
                where = f"at bytes {at[:9].tolist()}, not {wanted[:9].tolist()}"
                said = f"{key} of {name}, {view.text}, is {where}"
                raise Failure(f"verify: place of {key} of {name}", said)
