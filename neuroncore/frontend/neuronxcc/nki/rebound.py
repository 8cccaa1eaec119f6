"""Names of a kernel that the body of a loop rebinds.

The device's compiler runs the body of an affine_range or a sequential_range once, for all its
iterations: a new value of a number of Python (`w = w // 2`) holds for the instructions after it,
and each iteration begins with the value before the loop. After the loop `n += 1` has added 1 (SDK
NKI migration guide, 0.1 to 0.2, Consistent control flow behavior; the pages of nl.affine_range and
nl.static_range, SDK 2.21 to 2.26).
"""

from __future__ import annotations

import ctypes
import dis
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import numpy as np

from neuroncore.base import source
from neuroncore.base.findings import Severity
from neuroncore.core.core import current
from neuroncore.frontend.neuronxcc.nki.expressions import Index
from neuroncore.frontend.neuronxcc.nki.tensor import Awaited
from neuroncore.memory.tile import Tile

PLAIN = (int, float, str, bytes, type(None), np.generic)
# methods of a list
CHANGING = {"append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort"}
METHODS = ("LOAD_METHOD", "LOAD_ATTR")
READS, WRITES = ("LOAD_FAST", "LOAD_DEREF"), ("STORE_FAST", "STORE_DEREF")


class ReboundName:
    """The values, when a loop begins, of the names that Python would carry from iteration to
    iteration."""

    def __init__(self, frame: FrameType, carried: Mapping[str, int]) -> None:
        self._frame, self._carried = frame, carried
        held = frame.f_locals
        values = {name: held[name] for name in carried if name in held}
        self._before = {name: (value, _kept(value)) for name, value in values.items()}

    def again(self, severity: Severity) -> None:
        """Bind the names to these values again, for the next iteration, and report those that have
        changed. Tiles that the iteration made stay: a later read is reported
        (`scopes.check_read`)."""
        held, changed = self._frame.f_locals, False
        for name, (value, kept) in [*self._before.items()]:
            now = held.get(name, value)
            if _is_of_the_iteration(now):
                del self._before[name]
            elif not _same(now, value) or not _same(kept, value):
                self._report(name, kept, now, severity)
                if type(value) is list:
                    value[:] = kept
                held[name], changed = value, True
        if changed:
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self._frame), ctypes.c_int(0))

    def _report(self, name: str, before: Any, after: Any, severity: Severity) -> None:
        site = self._frame.f_code, self._carried[name]
        current().report(
            "LOOP_REBOUND",
            lambda: (
                f"{name} is {_said(before)} when the body of the loop begins and "
                f"{_said(after)} when it ends; each iteration begins with {_said(before)}"
            ),
            name,
            site=site,
            severity=severity,
        )


def bound(frame: FrameType | None) -> ReboundName | None:
    """Return the names that a loop which begins in the frame would carry; None if there are
    none."""
    if frame is None or source.is_ours(frame):
        return None
    carried = _carried(frame)
    return ReboundName(frame, carried) if carried else None


@source.by_site
def _carried(frame: FrameType) -> dict[str, int]:
    return dict(_carried_by(frame.f_code, frame.f_lasti))


def _carried_by(code: CodeType, start: int) -> Iterator[tuple[str, int]]:
    """Return the names that the body of a loop reads before it binds or changes them, each with the
    instruction that binds it; `start` is the instruction that begins an iteration, or its cache."""
    listed = [*dis.get_instructions(code)]
    head = [one for one in listed if one.offset <= start][-1]
    if head.opname != "FOR_ITER":
        return
    body = [one for one in listed if head.offset <= one.offset < head.argval]
    read: set[str] = set()
    written: dict[str, int] = {}
    for before, one in zip([body[0], *body], body, strict=False):
        reads, writes = _names(one)
        read |= {name for name in reads if name not in written}
        for name in writes:
            written.setdefault(name, one.offset)
        names, _ = _names(before)
        if one.opname in METHODS and one.argval in CHANGING and names and names[-1] in read:
            written.setdefault(names[-1], one.offset)
    yield from ((name, at) for name, at in written.items() if name in read)


def _names(one: dis.Instruction) -> tuple[list[str], list[str]]:
    """Return the variables that an instruction reads, and those that it binds; since Python 3.13 an
    instruction may combine two."""
    kinds = [kind for kind in (*READS, *WRITES) if kind in one.opname]
    if not kinds or "CLEAR" in one.opname:
        return [], []
    names = [*one.argval] if isinstance(one.argval, tuple) else [one.argval]
    stores = one.opname.startswith("STORE")
    first = names[: 1 if "LOAD" in one.opname else None] if stores else []
    return names[len(first) :], first


def _kept(value: Any) -> Any:
    return value.copy() if type(value) is list else value


def _same(one: Any, other: Any) -> bool:
    """Return whether two values of Python are equal; tiles are equal if they are the same
    object."""
    if one is other:
        return True
    if isinstance(one, PLAIN) and isinstance(other, PLAIN):
        return bool(one == other)
    if isinstance(one, Index) and isinstance(other, Index):
        return (one.shape, one.steps, one.start) == (other.shape, other.steps, other.start)
    if type(one) is not type(other) or not isinstance(one, tuple | list):
        return False
    return len(one) == len(other) and all(map(_same, one, other))


def _is_of_the_iteration(value: Any) -> bool:
    """Return whether a value is, or contains, a tile that the last iteration made."""
    if isinstance(value, tuple):
        return any(map(_is_of_the_iteration, value))
    if not isinstance(value, Tile) or type(value) is Awaited:
        return type(value) is Awaited
    scope = value.storage.scope
    return scope is not None and bool(scope.over)


def _said(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)} elements"
    return f"{value!s:.60}" if isinstance(value, Tile) else f"{value!r:.60}"
