"""Compiles the loops of all packages with numba. Loops have strict IEEE arithmetic. Their machine
code is cached on disk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from neuroncore.base.lazy import Lazy

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(__file__).parents[1]
# The modules with compiled loops, and the two modules of this folder that they import.
LOOPS = ("base/jit.py", "base/buffers.py", "*/loops.py", "*/loops/*.py")
STAMP = "neuroncore.sources"  # a file next to the machine code: the hash of its sources


def is_there(dispatcher: Any) -> bool:
    """Return whether machine code for a function exists on disk or in memory."""
    folder, function = dispatcher.stats.cache_path, dispatcher.py_func
    if dispatcher.signatures or folder is None:
        return bool(dispatcher.signatures)
    module = Path(function.__code__.co_filename).stem
    return any(Path(folder).glob(f"{module}.{function.__qualname__}-*.nbi"))


@cache
def renew(folder: str) -> None:
    """Remove the machine code in a folder if a source of any loop has changed. numba itself only
    checks the file of the loop, not the files that this file imports."""
    stamp, sources = Path(folder, STAMP), digest(PACKAGE)
    with suppress(OSError):  # if files can't be removed, numba can't write them either
        if not stamp.is_file() or stamp.read_text() != sources:
            for index in Path(folder).glob("*.nbi"):
                index.unlink(missing_ok=True)
            stamp.write_text(sources)


def digest(package: Path) -> str:
    """Return a hash of all modules with compiled loops, and of the modules that they import."""
    combined = sha256()
    for file in sorted(file for kind in LOOPS for file in package.glob(kind)):
        combined.update(
            file.relative_to(package).as_posix().encode()
            + b"\0"
            + sha256(file.read_bytes()).digest()
        )
    return combined.hexdigest()


F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

numba: Any = Lazy("numba")
extending: Any = Lazy("numba.extending")
events: Any = Lazy("numba.core.event")

# boundscheck is off because callers check indices. With error_model numpy, 1/0 is inf, not an
# exception.
STRICT: dict[str, Any] = {
    "nogil": True,
    "fastmath": False,
    "boundscheck": False,
    "error_model": "numpy",
}
# For functions that only compiled functions call. numba then compiles no wrappers for Python and C,
# which would double the compilation time.
UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# A loop runs as plain Python for this many iterations before machine code is used: WARM if the
# machine code is on disk and numba is imported, otherwise COLD. An iteration takes 1 to 35 us in
# Python. Importing numba takes 0.5 s, reading machine code 4 to 20 ms, and compiling a loop up to
# 3 s.
WARM, COLD = 1_000, 20_000
LONGEST_WAIT = 30.0  # seconds that a process waits while another process compiles the same function
# an environment variable: with the value 0, nothing is printed about the progress of long work
QUIET = "NEURONCORE_PROGRESS"
# an environment variable: with the value 1, the types of all arguments of machine code are asserted
ASSERTS = "NEURONCORE_ASSERTS"

# the start times of running compilations; each is nested in the compilation before it in the list
_under_way: list[float] = []
_past: list[float] = []  # the durations of finished compilations, in seconds


class CompiledLoop(Generic[P, R]):
    """A function that numba compiles at the first call, which also imports numba. Compiled
    functions may call it too."""

    def __init__(self, plain: Callable[P, R], **options: Any) -> None:
        self.plain, self.iterations = plain, 0  # the iterations of all calls so far
        self._options = options
        update_wrapper(self, plain)

    @cached_property
    def dispatcher(self) -> Any:
        return numba.njit(**STRICT, **self._options)(self.plain)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.dispatcher(*args, **kwargs)  # type: ignore[no-any-return]

    def over(self, iterations: int) -> Callable[P, R]:
        """Return the function to call for a loop of this many iterations. It is the plain Python
        function until the iterations of all calls together are worth a compilation. Then it is the
        compiled function."""
        self.iterations += iterations
        if self.iterations <= WARM or (self.iterations <= COLD and not self.is_at_hand):
            return self._on_views
        return self

    @property
    def is_at_hand(self) -> bool:
        """True if the machine code is available without importing numba or compiling."""
        return "numba" in sys.modules and self._is_compiled

    @cached_property
    def _is_compiled(self) -> bool:
        return is_there(self.dispatcher)

    def _on_views(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain Python function with memoryviews in place of arrays, because their
        elements are Python numbers."""
        viewed: Any = map(_viewed, args)
        return self.plain(*viewed, **kwargs)

    # numba reads these attributes when it compiles a function that calls this function.

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    @property
    def targetoptions(self) -> Any:
        return self.dispatcher.targetoptions

    @property
    def py_func(self) -> Any:
        return self.plain


def _viewed(argument: Any) -> Any:
    """Return the memoryview of an array, or a named tuple with memoryviews in place of arrays.
    Return any other argument unchanged."""
    if isinstance(argument, tuple):
        return type(argument)(*map(_viewed, argument))
    return argument.data if isinstance(argument, np.ndarray) else argument


class LoopPart(CompiledLoop[P, R]):
    """A helper function of compiled functions. In plain Python it runs as plain Python."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.plain(*args, **kwargs)


class KeptCode(CompiledLoop[P, R]):
    """A compiled function whose machine code is stored in a file.

    The file is next to the source, or in the user's cache if that folder can't be written. If the
    cache can't be written either, the machine code is not stored."""

    @cached_property
    def dispatcher(self) -> Any:
        watch_compilation()
        try:
            dispatcher = numba.njit(cache=True, **STRICT)(self.plain)
        except RuntimeError:  # numba: "cannot cache function: no locator available"
            return numba.njit(**STRICT)(self.plain)
        folder, files = dispatcher.stats.cache_path, dispatcher._cache
        renew(folder)
        lock = CompilationLock(Path(folder, f"{self.plain.__name__}.lock"))
        files.load_overload = lock.before(_where_allowed(files.load_overload))
        files.save_overload = lock.after(_where_allowed(files.save_overload))
        return dispatcher


class CompilationLock:
    """A lock on the compilation of one function.

    The process that has the lock compiles; other processes wait, and then load the machine code.
    Without the lock, processes that start together, such as the workers of a test runner, would
    each compile every loop."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: int | None = None

    def before(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `load`. If there is no machine code yet, it takes the lock
        and calls `load` again."""

        def load_or_lock(*arguments: Any) -> Any:
            machine_code = load(*arguments)
            if machine_code is None and self._held is None:
                self._held = locked(self._file)
                machine_code = load(*arguments)
                if machine_code is not None:
                    self._end()
            return machine_code

        return load_or_lock

    def after(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `save`, and then releases the lock."""

        def save_and_unlock(*arguments: Any) -> None:
            save(*arguments)
            self._end()

        return save_and_unlock

    def _end(self) -> None:
        if self._held is not None:
            os.close(self._held)
        self._held = None


def locked(file: Path) -> int | None:
    """Wait until this process has the lock on a file, and return the file's descriptor. Return None
    if the file can't be locked, or if another process has the lock for more than LONGEST_WAIT
    seconds."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT, 0o666)
    except OSError:
        return None
    until = time.monotonic() + LONGEST_WAIT
    while fcntl and time.monotonic() < until:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            break
        else:
            return opened
    os.close(opened)
    return None


def _where_allowed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of numba's cache so that errors of files are ignored. A process may be
    forbidden to open files, such as the sandboxed process that runs a candidate of
    `neuroncore.eval`."""

    def unless_forbidden(*arguments: Any) -> Any:
        with suppress(OSError):
            return function(*arguments)

    return unless_forbidden


@cache
def watch_compilation() -> None:
    """Measure the time of all compilations of loops in this process. At the first compilation,
    print a line to standard error."""

    class CompilationListener(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__.startswith(__package__):
                _under_way.append(time.monotonic())
                say_that_it_compiles()

        def on_end(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__.startswith(__package__):
                start = _under_way.pop()
                if not _under_way:
                    _past.append(time.monotonic() - start)

    events.register("numba:compile", CompilationListener())


def compiling() -> bool:
    """Return whether this process is compiling a loop now."""
    return bool(_under_way)


def seconds_compiling() -> float:
    """Return how many seconds this process has spent on compiling loops."""
    now = time.monotonic()
    return sum(_past) + sum(now - begun for begun in _under_way[:1])


def tells() -> bool:
    """Return whether lines about the progress of long work are printed to standard error. There is
    no standard error if it was closed when Python started."""
    return sys.stderr is not None and os.environ.get(QUIET) != "0"


def no_progress() -> None:
    """Print no lines about the progress of long work, in this process and in processes that it
    starts."""
    os.environ[QUIET] = "0"


@cache
def say_that_it_compiles() -> None:
    if tells():
        print("neuroncore: compiling loops (once per install)", file=sys.stderr)


def compiled(function: Callable[P, R]) -> CompiledLoop[P, R]:
    """Return a function that is compiled at its first call. Its machine code is stored on disk."""
    return KeptCode(function)


def compiled_once(*types: Any) -> Callable[[F], Callable[[], F]]:
    """Return a decorator that compiles a function for these argument types only.

    The decorated function takes no arguments. It returns the machine code, which is compiled at the
    first call. Calling the machine code takes half the time of a call through numba, because only
    the number of axes and the element size of arrays are checked. An array of another layout does
    not cause a new compilation. If the environment variable NEURONCORE_ASSERTS is 1, as in tests,
    each call asserts the format, the axes and the order of every array."""

    def decorate(function: F) -> Callable[[], F]:
        @cache
        def compile_at_first_call() -> F:
            dispatcher = compiled(function).dispatcher
            dispatcher.compile(types)
            machine_code: F = dispatcher.get_overload(types)
            asserts = os.environ.get(ASSERTS) == "1"
            return _asserting(machine_code, types) if asserts else machine_code

        return compile_at_first_call

    return decorate


def _asserting(function: F, types: Sequence[Any]) -> F:
    """Return a function that asserts the types of its arrays, and then calls `function`."""
    legal: dict[Any, bool] = {}  # by the argument's number, format, axes and order

    def asserting(*arguments: Any) -> Any:
        for number, (passed, expected) in enumerate(zip(arguments, types, strict=True)):
            if isinstance(passed, np.ndarray):
                flags = passed.flags
                key = number, passed.dtype, passed.ndim, flags.c_contiguous, flags.f_contiguous
                if key not in legal:
                    actual = numba.typeof(passed)
                    same = (actual.dtype, actual.ndim) == (expected.dtype, expected.ndim)
                    legal[key] = same and expected.layout in ("A", actual.layout)
                subject = f"argument {number} of {function.__name__} is"
                assert legal[key], f"{subject} {numba.typeof(passed)}, not {expected}"
        return function(*arguments)

    return asserting  # type: ignore[return-value]


def inlined(function: Callable[P, R]) -> CompiledLoop[P, R]:
    """Return a helper function that is inlined into compiled functions."""
    return LoopPart(function, inline="always")


def borrowing(function: Callable[P, R]) -> CompiledLoop[P, R]:
    """Return a helper function for compiled loops that takes tuples of arrays. The helper does not
    count references, because counting would take more time than its work. So it must not create an
    array; numba refuses to compile a helper that does."""
    return LoopPart(function, forceinline=True, _nrt=False, **UNWRAPPED)


def generated(generator: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation for compiled functions. The function `generator` generates its machine
    code."""
    return extending.intrinsic(generator)  # type: ignore[no-any-return]
