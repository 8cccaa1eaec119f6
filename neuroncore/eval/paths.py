"""The paths of a program whose loops depend on hidden inputs.

A decision is a value that the device computes, and on which a loop or a condition depends. The
decisions of a run determine its path: the sequence of instructions that it executes.

On a device, Python runs once and makes one program for all inputs. So the records of different
paths may differ only in the numbers of iterations. A kernel with other differences is refused: its
Python code may have counted iterations to find out a hidden value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuroncore.memory.register import VirtualRegister
from neuroncore.record.call_json import plain
from neuroncore.record.program import Program, Record


def taken(record: Record) -> dict[str, Any]:
    """Return the path of a record of one core, as a dict with two entries.

    `decisions`: the values that determine the path, in order
    `chosen`: a hash of each distinct instruction, and of each constant that the host adds. The hash
        of an instruction covers its arguments and numbers, but not registers."""
    (program,) = record.programs
    values = np.array(program.data.branches, np.int64).reshape(-1, 4)[:, 2]
    return {"decisions": values.tolist(), "chosen": sorted(_chosen(program))}


def _chosen(program: Program) -> set[str]:
    calls = [repr((c.name, {n: plain(v) for n, v in c.arguments.items()})) for c in program.calls]
    keys = [
        repr([(value, kind) for value, kind in _pairs(key) if kind is not VirtualRegister])
        for key in program.data.values
    ]
    rows, begins = program.raw()
    with_values = np.array([call.has_values for call in program.calls], np.bool_)
    call = rows[begins[:-1]]
    number = np.where(with_values[call], rows[begins[1:] - 1], -1)
    pairs = set(zip(call.tolist(), number.tolist(), strict=True))
    texts = [calls[call] + (keys[number] if number >= 0 else "") for call, number in pairs]
    return {_hash(text.encode()) for text in texts} | {*map(_hash, program.data.constants.values())}


def _pairs(key: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return list(zip(key[::2], key[1::2], strict=True))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def every_loop(paths: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    """Return decisions that give every loop at least one iteration. They are the decisions of the
    path with the most distinct instructions, with 1 in place of 0."""
    longest = max(paths, key=lambda path: (len(path["chosen"]), len(path["decisions"])))
    return tuple(value or 1 for value in longest["decisions"])


def differs(paths: Sequence[dict[str, Any]], whole: dict[str, Any]) -> bool:
    """Return whether one of the `paths` has an instruction or a constant that `whole` lacks.
    `whole` is the path in which every loop has at least one iteration."""
    return bool(set().union(*(path["chosen"] for path in paths)) - set(whole["chosen"]))
