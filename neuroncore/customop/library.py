"""Load libraries of operators, call them with numpy arrays, and report actions of an operator that
the device would refuse, or that are undefined there.

Each call runs in a separate process, so a crash, a hang or a lack of memory does no harm.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from neuroncore.base import processes
from neuroncore.base.errors import NeuronError, UsageError
from neuroncore.base.units import plural
from neuroncore.customop.build import Sources, absolute, build, limits, time


class Reason(NamedTuple):
    """The explanation of a kind of finding, and a hint."""

    because: str
    hint: str


# By the codes in headers/neuroncore/*.h. The rules are from the SDK's custom-ops-ref-guide.rst.
REASONS = {
    "COHERENCE": Reason(
        "streams keep data in TCM and are not coherent with other accessors of the tensor",
        "close the write stream first, or call set_accessor_coherence_policy() of the tensor",
    ),
    "CRASH": Reason("the process of the operator ended", "read its output"),
    "DTYPE_RULE": Reason(
        "data of one format are meaningless in another format",
        "use the format of the tensor",
    ),
    "MULTICORE": Reason(
        "element accessors, streams and returned tensors belong to one core",
        "use tcm_accessor() and write to get_dst_tensor(), or build with multicore=False",
    ),
    "OUTPUT_NOT_WRITTEN": Reason(
        "elements that no core writes keep the previous contents of memory",
        "write all elements, or begin with torch::zeros",
    ),
    "OUT_OF_BOUNDS": Reason(
        "the device does not check: it reads or overwrites adjacent memory",
        "stay within the tensor and the buffer; the last block of a tensor is often smaller",
    ),
    "RACE": Reason(
        "cores are not synchronized, so the order of their writes is undefined",
        "give each core a separate part of the result",
    ),
    "SHAPE_FUNCTION": Reason(
        "a shape function runs on the host before the data exist",
        "use only sizes(), dim() and numel() of tensors",
    ),
    "SHAPE_MISMATCH": Reason(
        "the compiler allocates the result according to the shape function, and nothing is "
        "broadcast",
        "give the result the sizes and the format that the shape function returns",
    ),
    "STREAM": Reason(
        "a stream ends after the last element of its tensor, and nothing can be read or written "
        "after close()",
        "read or write each element of the tensor at most once, before close()",
    ),
    "TCM_FREE": Reason(
        "the state of the device's allocator becomes invalid",
        "pass each pointer from tcm_malloc to tcm_free only once",
    ),
    "TCM_LEAK": Reason(
        "TCM has 16 KiB for buffers and streams, and each stream takes 4 KiB",
        "free each buffer with tcm_free",
    ),
    "TIME_LIMIT": Reason("the operator did not end", "look for an endless loop"),
}


class LibraryFinding(NamedTuple):
    """A fault of an operator, or an action that is likely to be one: its code (a key of REASONS),
    the core, the file and line of C++ (`line` is 0 if it is unknown), and a sentence."""

    code: str
    core: int
    file: str
    line: int
    statement: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else ""
        reason = REASONS[self.code]
        return "\n".join(
            [
                f"{where}[{self.code}] {self.statement} (core {self.core})",
                f"  because   {reason.because}",
                f"  hint      {reason.hint}",
            ]
        )


class CustomOpFault(NeuronError, ValueError):
    """An operator was stopped, because the device would refuse its action, or because it failed.
    `finding` describes the action or the failure, and `printed` is the output of the operator."""

    def __init__(self, finding: LibraryFinding, printed: str = "") -> None:
        super().__init__(finding, printed)
        self.finding, self.printed = finding, printed

    def __str__(self) -> str:
        tail = f"\n  printed   {self.printed[-500:].rstrip()}" if self.printed.strip() else ""
        return f"{self.finding}{tail}"


class CustomOpWarning(UserWarning):
    """A warning that an action of an operator is probably a fault, although it may be intended."""


Array = npt.NDArray[Any]
Paths = Sequence[str | os.PathLike[str]]

# In the order of c10::ScalarType in headers/neuroncore/formats.h.
FORMATS = [np.dtype(name) for name in ("uint8", "int8", "int16", "int32", "float16", "float32")] + [
    np.dtype(ml_dtypes.bfloat16)
]
KINDS = {"T": "Tensor", "S": "Scalar", "D": "double", "I": "int64_t"}
ORDERS = ("forward", "reverse", "random")
MEMORY_BYTES = 8 << 30


class Counts(NamedTuple):
    """The work of a core: accesses to HBM, elements copied to or from TCM (a memory of each
    processor of GpSimd), and elements of streams."""

    touches: int
    tcm_elements: int
    stream_elements: int


@dataclass(frozen=True)
class LibraryOperator:
    """An operator of a library. `parameters` has one letter for each parameter, a key of KINDS."""

    library: str
    name: str
    parameters: str


@dataclass(frozen=True)
class LibraryCall:
    """A call: its result, its output, the work of each core, and its findings."""

    result: Array
    printed: str
    counts: tuple[Counts, ...]
    findings: tuple[LibraryFinding, ...]

    @property
    def microseconds(self) -> float:
        """The time of HBM and TCM accesses on the slowest core, in microseconds. The launch,
        arithmetic and streams are not included, because no measurements exist."""
        known = time()
        return max(
            (each.touches * known.touch_ns + each.tcm_elements / 2 * known.tcm_element_ns) / 1e3
            for each in self.counts
        )


class Library:
    """A library whose operators are attributes: `library.relu(x)` is the result of
    `library.run("relu", x)`."""

    def __init__(self, program: Path, cores: int, operators: dict[str, LibraryOperator]) -> None:
        self.program, self.cores, self.operators = program, cores, operators

    def __getattr__(self, name: str) -> Callable[..., Array]:
        if name.startswith("_") or name not in self.operators:
            known = ", ".join(self.operators)
            raise AttributeError(f"the library has no operator {name!r}; it has {known}")
        return lambda *arguments: self._call(name, *arguments)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.operators]

    def _call(self, name: str, *arguments: Any) -> Array:
        """Call an operator and return its result. Print its output to stdout, and warn of its
        findings."""
        call = self.run(name, *arguments)
        sys.stdout.write(call.printed)
        for finding in call.findings:
            warnings.warn(str(finding), CustomOpWarning, stacklevel=3)
        return call.result

    def run(
        self, name: str, *arguments: Any, order: str = "forward", seconds: float = 60
    ) -> LibraryCall:
        """Call an operator on arrays and numbers.

        The cores of a multicore library run one after another in this `order`. The order is
        undefined on a device, so a result that depends on it is an error. Raises UsageError for
        wrong arguments. Raises CustomOpFault for a crash, for a run longer than `seconds`, and for
        actions that the device would refuse."""
        operator = self.operators.get(name)
        if operator is None:
            raise UsageError(f"no operator {name!r}; operators are {', '.join(self.operators)}")
        request = _request(operator, arguments)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, part) for part in ("request", "response")]
            paths[0].write_bytes(request)
            cores = "".join(map(str, _order(order, self.cores)))
            words = [str(self.program), "run", name, *map(str, paths), cores]
            done = _run(words, seconds)
            printed = _buffered(done.stdout)
            if not paths[1].is_file():
                why = done.stderr.decode(errors="replace").strip() or "without output"
                statement = f"{name} ended by {_ending(done.returncode)}: {why}"
                raise CustomOpFault(LibraryFinding("CRASH", 0, "", 0, statement), printed)
            return _response(paths[1].read_bytes(), printed)


def load(
    sources: Paths,
    shape_sources: Paths,
    *,
    name: str = "ops",
    multicore: bool = False,
    build_directory: str | os.PathLike[str] | None = None,
    extra_cflags: Sequence[str] = (),
    compiler: str | None = None,
    verbose: bool = False,
) -> Library:
    """Compile kernel functions and the shape functions that register them, and load the library.

    With `build_directory` the library is also written there, as lib<name>.so. Raises UsageError if
    there is no compiler, if sources do not compile, or if the device would refuse the library.
    """
    if name == "builtin":
        raise UsageError("a library cannot be named 'builtin': the runtime uses this name")
    _check_stack(extra_cflags)
    cores = limits().cores if multicore else 1
    parts = Sources(absolute(sources), absolute(shape_sources), cores, tuple(extra_cflags))
    program = build(parts, compiler, verbose)
    library = load_library(program)
    if build_directory is not None:
        shutil.copy(program, Path(build_directory, f"lib{name}.so"))
    return library


def load_library(path: str | os.PathLike[str]) -> Library:
    """Open a library that `load` wrote.

    Raises UsageError if the file is not such a library, or if the device would refuse the library.
    """
    program = Path(path).resolve()
    if not program.is_file():
        raise UsageError(f"there is no library {program}")
    try:
        listed = subprocess.run([str(program), "list"], capture_output=True, text=True, timeout=60)
    except (OSError, UnicodeDecodeError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{program} is not a library of custom operators: {error}") from None
    head, *rows = listed.stdout.splitlines() or [""]
    if listed.returncode or not head.startswith("neuroncore "):
        raise UsageError(f"{program} is not a library of custom operators built by load()")
    operators = dict(_operator(row) for row in rows)
    if len(operators) > limits().functions:
        raise UsageError(
            f"{program.name} registers {len(operators)} functions; a library has at most "
            f"{limits().functions}"
        )
    return Library(program, int(head.split()[1]), operators)


def _operator(row: str) -> tuple[str, LibraryOperator]:
    library, name, kernel, taken, shape = row.split()
    if taken != shape:
        raise UsageError(
            f"{name}: the kernel {kernel} takes ({_words(taken)}), and its shape function "
            f"takes ({_words(shape)}); both must take the same parameters"
        )
    return name, LibraryOperator(library, name, taken.rstrip("."))


def _words(kinds: str) -> str:
    return ", ".join(KINDS[kind] for kind in kinds.rstrip("."))


def _check_stack(flags: Sequence[str]) -> None:
    for flag in flags:
        head, _, size = flag.partition("=")
        if head == "-DSTACK_SIZE" and size.isdigit() and int(size) > limits().stack_bytes:
            raise UsageError(f"{flag}: a stack has at most {limits().stack_bytes:,} bytes")


def _order(order: str, cores: int) -> list[int]:
    """Return the numbers of the cores in the order (one of ORDERS) in which they run."""
    if order not in ORDERS:
        raise UsageError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    every = list(range(cores))
    if order == "reverse":
        every.reverse()
    elif order == "random":
        random.shuffle(every)
    return every


def _request(operator: LibraryOperator, arguments: tuple[Any, ...]) -> bytes:
    taken = operator.parameters
    if len(arguments) != len(taken):
        raise UsageError(
            f"{operator.name} takes ({_words(taken)}), but got "
            + plural(len(arguments), "argument")
        )
    head, data = [f"memory {MEMORY_BYTES}"], []
    for place, (kind, argument) in enumerate(zip(taken, arguments, strict=True)):
        if kind == "T":
            array = _array(operator, place, argument)
            sizes = " ".join(map(str, (FORMATS.index(array.dtype), array.ndim, *array.shape)))
            head.append(f"T {sizes}")
            data.append(array.tobytes())
        else:
            head.append(_number(operator, place, kind, argument))
    return "\n".join([*head, "data\n"]).encode() + b"".join(data)


def _array(operator: LibraryOperator, place: int, argument: Any) -> Array:
    array = np.ascontiguousarray(argument)
    if not isinstance(argument, np.ndarray) or array.dtype not in FORMATS:
        known = " or ".join(map(str, FORMATS))
        got = argument.dtype if isinstance(argument, np.ndarray) else type(argument).__name__
        raise UsageError(
            f"{operator.name}: argument {place} must be an array of {known}, not {got}"
        )
    if not limits().allow(argument.shape):
        most = limits()
        raise UsageError(
            f"{operator.name}: argument {place} has the shape {argument.shape}; a tensor can have "
            f"at most {most.axes} axes of at most {most.axis_elements:,} elements, or at most "
            f"{most.long_axes} axes of at most {most.long_axis_elements:,} elements"
        )
    return array.reshape(argument.shape)


def _number(operator: LibraryOperator, place: int, kind: str, argument: Any) -> str:
    if isinstance(argument, bool) or not isinstance(argument, int | float | np.number):
        raise UsageError(
            f"{operator.name}: argument {place} must be of type {KINDS[kind]}, not "
            f"{type(argument).__name__}"
        )
    if kind == "I":
        if argument != int(argument):
            raise UsageError(
                f"{operator.name}: argument {place} must be of type int64_t, but it is {argument}"
            )
        return f"I {int(argument)}"
    return f"D {float(argument)!r}"


def _run(words: list[str], seconds: float) -> subprocess.CompletedProcess[bytes]:
    try:
        return processes.run(words, seconds)
    except subprocess.TimeoutExpired as late:
        statement = f"{words[2]} ran for more than {seconds:g} s"
        finding = LibraryFinding("TIME_LIMIT", 0, "", 0, statement)
        raise CustomOpFault(finding, _buffered(late.stdout or b"")) from None


def _buffered(printed: bytes) -> str:
    """Return the end of an operator's output, as much as fits into the device's buffer."""
    return printed[-limits().printed_bytes :].decode(errors="replace")


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _response(data: bytes, printed: str) -> LibraryCall:
    """Return the LibraryCall that a program's response describes. The response has lines of text,
    and then the bytes of the result. Raise CustomOpFault if the response has a fault. `printed` is
    the operator's output."""
    head, _, body = data.partition(b"\ndata\n")
    counts, findings, unwritten, result = [], [], 0, np.empty(0)
    for line in head.decode().splitlines():
        word, _, rest = line.partition(" ")
        if word == "counts":
            counts.append(Counts(*map(int, rest.split()[1:])))
        elif word == "finding":
            findings.append(_finding(rest))
        elif word == "fault":
            raise CustomOpFault(_finding(rest), printed)
        elif word == "unwritten":
            unwritten = int(rest)
        else:
            form, _, *sizes = map(int, rest.split())
            result = np.frombuffer(body, FORMATS[form]).reshape(sizes).copy()
    if unwritten:
        report = f"{unwritten:,} of {result.size:,} elements of the result were never written"
        findings.append(LibraryFinding("OUTPUT_NOT_WRITTEN", 0, "", 0, report))
    return LibraryCall(result, printed, tuple(counts), tuple(findings))


def _finding(text: str) -> LibraryFinding:
    place, _, statement = text.partition("\t")
    code, core, line, *file = place.split(" ", 3)
    return LibraryFinding(code, int(core), "".join(file), int(line), statement)
