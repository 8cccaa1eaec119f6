"""Saved records: the programs of a run's cores in a file, to be timed again without the kernel.

What the package defines by name (instructions, operators, activation functions, machines) is saved
as its name and is what it is when the file is read, so that a record is timed by the costs and the
machine files of that day. A record says how instructions were called, not what they compute: it
has to be made anew when a clause's parameters change, or what an API's function issues.

They are pickles, and a pickle may name anything that Python can call. What is read here calls only
what a record is made of (`TRUSTED`), and a file that names something else is refused.
"""

from __future__ import annotations

import gc
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any

from neuroncore import enums, machine
from neuroncore.clause.alu import FUNCTIONS, OPERATORS, SIMULATED, Function, Operator
from neuroncore.clause.instruction import INSTRUCTIONS, Call, Instruction
from neuroncore.errors import UsageError
from neuroncore.machine import Machine
from neuroncore.memory.geometry import view
from neuroncore.numerics.formats import lookup
from neuroncore.record.boxes import Area
from neuroncore.record.program import Program
from neuroncore.source import Place

FORMAT = 4  # of the files: older ones are refused
LEVEL = 1  # of compression, which makes them about eight times smaller
MARK = b"neuroncore.record.saved/"

FIND: dict[type, Callable[[str], Any]] = {
    Instruction: INSTRUCTIONS.__getitem__,
    Operator: lambda name: OPERATORS.get(name) or SIMULATED[name],
    Function: FUNCTIONS.__getitem__,
    Machine: machine.load,
}
KINDS = {kind.__name__: find for kind, find in FIND.items()}

ENUMS = [kind for kind in vars(enums).values() if isinstance(kind, type) and issubclass(kind, Enum)]


@dataclass(frozen=True, eq=False)
class Record:
    """The programs of one launch, one for each core, and `about` it what its maker noted."""

    programs: Sequence[Program]
    about: Mapping[str, Any] = field(default_factory=dict)


MADE_OF: list[Any] = [Record, Program, Area, Call, view, Place, lookup, *ENUMS]
TRUSTED = {(one.__module__, one.__qualname__): one for one in MADE_OF}
ARRAYS = {  # of numpy's, by which arrays, their formats and single numbers are read
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
}


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        return (type(value).__name__, value.name) if type(value) in FIND else None


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in TRUSTED:
            return TRUSTED[module, name]
        if (module, name) in ARRAYS:
            return super().find_class(module, name)
        raise UsageError(f"is no record: it names {module}.{name}")

    def persistent_load(self, key: tuple[str, str]) -> Any:
        kind, name = key
        return KINDS[kind](name)


def save(record: Record, path: Path) -> None:
    """Write a record; its folder is made. Raises UsageError if it can't be written."""
    content = BytesIO()
    _Pickler(content, protocol=5).dump(record)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(MARK + b"%d\n" % FORMAT + zlib.compress(content.getbuffer(), LEVEL))
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None


def load(path: Path) -> Record:
    """What `save` wrote. Raises UsageError if there is no such file, it is something else, or its
    format is another version's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    head, _, packed = content.partition(b"\n")
    if not head.startswith(MARK):
        raise UsageError(f"{path} is not a record of neuroncore")
    if head != MARK + b"%d" % FORMAT:
        raise UsageError(f"{path} has format {head.decode()}, not {FORMAT}: record it again")
    try:
        unpacked = zlib.decompress(packed)
    except zlib.error:
        raise UsageError(f"{path} is damaged: record it again") from None
    with _uncollected():
        try:
            record = _Unpickler(BytesIO(unpacked)).load()
        except UsageError as error:
            raise UsageError(f"{path} {error}") from None
        except Exception as error:  # a damaged pickle raises whatever its pieces lead to
            raise UsageError(f"{path} is damaged ({error}): record it again") from None
    if not isinstance(record, Record):
        raise UsageError(f"{path} is not a record of neuroncore")
    return record


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which would walk millions of new tuples over and over, and
    find nothing: reading takes a third of the time."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()
