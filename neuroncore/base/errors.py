"""
The errors of this package. The class of an error states who is at fault: the kernel, neuroncore, or
the person who calls neuroncore.

NeuronError
├── KernelError                 the kernel is illegal here (also ValueError, AssertionError)
│   ├── BufferKindError         BUFFER_KIND          an operand in a memory its engine can't reach
│   ├── CapacityError           CAPACITY             more SBUF or PSUM than the core has
│   ├── DeadlockError           DEADLOCK             cores that wait for each other forever
│   ├── DtypeError              DTYPE_RULE           a number format the instruction doesn't take
│   ├── DynamicControlError     DYNAMIC_CTRL         a run-time value where a constant is needed
│   ├── FreeSizeError           FREE_SIZE            too many elements per partition
│   ├── ImmutableError          IMMUTABLE            a write to a tensor that is read-only
│   ├── OperatorError           UNSUPPORTED_OP_COMBO an operator the engine doesn't have
│   ├── OutOfBoundsError        OUT_OF_BOUNDS        an index past the end (also IndexError)
│   ├── OutputError             OUTPUT_NOT_WRITTEN   a result that was never written
│   ├── OutsideKernelError      OUTSIDE_KERNEL       an instruction with no core to run on
│   ├── PartitionLimitError     PARTITION_LIMIT      more than 128 partitions
│   ├── PsumBankError           PSUM_BANK            a matmul result that leaves its bank
│   ├── ScopeError              SCOPE                a tensor outside of its loop or its kernel
│   ├── ShapeError              SHAPE_MISMATCH       shapes that don't fit together
│   ├── SignatureError          SIGNATURE            wrong arguments (also TypeError)
│   ├── StartPartitionError     START_PARTITION      a start partition the engine can't address
│   ├── TargetError             TARGET               this generation doesn't have it
│   ├── UninitializedError      UNINIT_READ          a read of uninitialized memory
│   ├── UnknownNameError        UNKNOWN_NAME         no such function (also AttributeError)
│   └── ViewError               RESHAPE_VIEW         a view the memory layout can't express
├── NotEmulated                 legal, but not supported yet (also NotImplementedError)
├── UsageError                  the user called neuroncore wrongly
├── EmulatorError               a fault of neuroncore (also RuntimeError)
└── DefinitionError             a table or data file of neuroncore is wrong

A KernelError finds its line in the user's kernel only when the line is first read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from neuroncore.base import source
from neuroncore.base.lazy import Lazy

if TYPE_CHECKING:
    from neuroncore.base import syntax
else:
    syntax = Lazy("neuroncore.base.syntax")

difflib: Any = Lazy("difflib")
LABELS = {
    "expected": "expected",
    "got": "got",
    "because": "because",
    "hint": "hint",
    "also": "AWS says",  # the message or code of AWS's compiler
}


class NeuronError(Exception):
    """The base class of all errors of this package."""

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython shows in place of a traceback. Tracebacks would only show
        code of neuroncore."""
        return [f"{type(self).__name__}: {self}"]


class KernelError(NeuronError, ValueError, AssertionError):
    """An error for a kernel that the hardware or its compiler would refuse.

    `statement` is one sentence, which uses the names of the user's kernel. `argument` and
    `position` are the name and the position of the wrong argument of the call; the message
    underlines this argument. The other parameters are further lines of the message (`__str__`).
    """

    code: ClassVar[str] = "ILLEGAL_INSTRUCTION"

    def __init__(
        self,
        statement: str,
        *,
        argument: str | None = None,
        position: int | None = None,
        expected: str | None = None,
        got: str | None = None,
        because: str | None = None,
        hint: str | None = None,
        also: str | None = None,
    ) -> None:
        super().__init__(statement)
        self.statement, self.argument = statement, argument
        self.expected, self.got, self.because = expected, got, because
        self.hint, self.also = hint, also
        self.more: list[str] = []  # other faults of the same instruction
        # for an item of a list of tiles, the name of the list
        self._name = (argument or "").partition("[")[0]
        self._position = source.position(self._name) if position is None else position
        self._visits = source.visits()

    @cached_property
    def stack(self) -> list[tuple[source.Place, dict[str, int]]]:
        """The frames of the user's code inside the kernel, innermost first. Each is a pair of its
        place and its integer variables by name."""
        return [(source.place(code, at), numbers) for code, at, numbers in self._visits]

    @cached_property
    def place(self) -> source.Place | None:
        """The place of the wrong argument in the user's kernel, or of the whole call if no single
        argument is wrong. None if no frame runs the user's code."""
        if not self.stack or not self._name:
            return self.stack[0][0] if self.stack else None
        return syntax.argument(self.stack[0][0], self._name, self._position)

    def placed(self, site: source.Site | None) -> Self:
        """Change the place of this error to `site` (None: no place), and return the error."""
        self.stack = [(source.place_of(site), {})] if site else []
        return self

    def coming_through(self, trace: TracebackType | None) -> Self:
        """Change the place of this error to the place where the error with the traceback `trace`
        was raised. Return this error."""
        self._visits = source.visits_of(trace)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error. Places in the source (`source.Place`) replace code objects, which can't
        be pickled."""
        places = {"place": self.place, "stack": self.stack, "_visits": []}
        return type(self), self.args, {**self.__dict__, **places}

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")

    def __str__(self) -> str:
        head = f"error[{self.code}] {self.statement}"
        if self.place is not None:
            head = f"{self.place}:{self.place.column + 1}: {head}"
        return "\n".join([head, *self._underlined(), *self._fields(), *self._calls()])

    def _underlined(self) -> list[str]:
        if self.place is None or not self.place.text.strip():
            return []
        text = self.place.text
        end = self.place.end_column if self.place.end_line == self.place.line else len(text)
        carets = "^" * max(1, end - self.place.column)
        indent = "".join("\t" if c == "\t" else " " for c in text[: self.place.column])
        number = str(self.place.line)
        return [
            f"  {number} | {text}",
            f"  {' ' * len(number)} | {indent}{carets}",
        ]

    def _fields(self) -> list[str]:
        fields = ((label, getattr(self, name)) for name, label in LABELS.items())
        lines = [f"  {label:9} {value}" for label, value in fields if value]
        more = [f"  {'also':9} {line}" for line in self.more]
        end = len(lines) - bool(self.also)  # AWS's message is about the first fault
        return lines[:end] + more + lines[end:]

    def _calls(self) -> list[str]:
        lines = []
        for where, numbers in self.stack:
            values = ", ".join(f"{n}={v}" for n, v in list(numbers.items())[:8])
            lines.append(
                f"  {'in':9} {where.function} at {where}{f'  ({values})' if values else ''}"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the parts of the message as a dict, for `--json`."""
        spot = self.place
        return {
            "code": self.code,
            "statement": self.statement,
            "file": spot.file if spot else None,
            "line": spot.line if spot else None,
            "column": spot.column + 1 if spot else None,
            "expected": self.expected,
            "got": self.got,
            "because": self.because,
            "hint": self.hint,
            "also": self.also,
            "besides": self.more,
            "stack": [{**v, "function": p.function, "place": str(p)} for p, v in self.stack],
        }


class BufferKindError(KernelError):
    code = "BUFFER_KIND"


class CapacityError(KernelError):
    code = "CAPACITY"


class DeadlockError(KernelError, RuntimeError):
    code = "DEADLOCK"


class DtypeError(KernelError, TypeError):
    code = "DTYPE_RULE"


class DynamicControlError(KernelError, TypeError):
    code = "DYNAMIC_CTRL"


class FreeSizeError(KernelError):
    code = "FREE_SIZE"


class ImmutableError(KernelError):
    code = "IMMUTABLE"


class OperatorError(KernelError):
    code = "UNSUPPORTED_OP_COMBO"


class OutOfBoundsError(KernelError, IndexError):
    code = "OUT_OF_BOUNDS"


class OutputError(KernelError):
    code = "OUTPUT_NOT_WRITTEN"


class OutsideKernelError(KernelError, RuntimeError):
    code = "OUTSIDE_KERNEL"


class PartitionLimitError(KernelError):
    code = "PARTITION_LIMIT"


class PsumBankError(KernelError):
    code = "PSUM_BANK"


class ScopeError(KernelError):
    code = "SCOPE"


class ShapeError(KernelError):
    code = "SHAPE_MISMATCH"


class SignatureError(KernelError, TypeError):
    code = "SIGNATURE"


class StartPartitionError(KernelError):
    code = "START_PARTITION"


class TargetError(KernelError):
    code = "TARGET"


class UninitializedError(KernelError):
    code = "UNINIT_READ"


class UnknownNameError(KernelError, AttributeError):
    code = "UNKNOWN_NAME"


class ViewError(KernelError):
    code = "RESHAPE_VIEW"


class NotEmulated(NeuronError, NotImplementedError):
    """The kernel is legal on the device, but the emulator does not support it yet."""


class UsageError(NeuronError, ValueError):
    """The user called neuroncore wrongly. The kernel is not at fault."""


@contextmanager
def reading(file: object, verb: str = "read") -> Iterator[None]:
    """A context manager in which an OSError becomes the UsageError "FILE can't be read"."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{file} can't be {verb}: {error.strerror}") from None


def writing(file: object) -> AbstractContextManager[None]:
    """A context manager in which an OSError becomes the UsageError "FILE can't be written"."""
    return reading(file, "written")


# advice for a user who finds a fault of neuroncore
REPORT = (
    "this is a fault of neuroncore, not of the kernel: please report it in the issues of "
    "neuroncore's repository, with the kernel, the traceback and what `neuroncore --version` prints"
)


class EmulatorError(NeuronError, RuntimeError):
    """A fault of neuroncore, which the user should report. No kernel should cause such an error.
    After such an error, the command line ends with `exit_code`."""

    exit_code: ClassVar[int] = 3

    def __init__(self, statement: str, hint: str = "") -> None:
        super().__init__(statement)
        self.statement, self.hint = statement, hint

    def __str__(self) -> str:
        return "\n  hint: ".join(part for part in (self.statement, self.hint) if part)


class DefinitionError(NeuronError):
    """A table or a data file of neuroncore (in isa/ or base/codes/) is wrong."""


def with_notes(text: str, error: BaseException, separator: str = "\n  ") -> str:
    """Return a text and the notes of an error: the rank on which it was raised, or the line of a
    kernel that runs in another thread."""
    return separator.join([text, *getattr(error, "__notes__", ())])


def unknown(statement: str, name: str, known: Iterable[str]) -> UsageError:
    """Return a UsageError about an unknown name. It suggests the known name that is most
    similar."""
    hint = did_you_mean(name, known)
    return UsageError(f"{statement}; {hint}" if hint else statement)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known name that is most similar to the misspelled `name`, or None if
    none is similar."""
    near: list[str] = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None
