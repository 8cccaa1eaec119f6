"""Run a kernel or a script: its arguments, its reference, and the error that ends it.

An error is reported in one sentence, or with a traceback that shows only the user's code. A page
about an error shows all instructions up to it."""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np

from neuroncore import machine
from neuroncore.base import source
from neuroncore.base.errors import (
    REPORT,
    EmulatorError,
    KernelError,
    NotEmulated,
    UsageError,
    with_notes,
)
from neuroncore.base.lazy import Lazy, modules
from neuroncore.cli import arguments as values
from neuroncore.cli import terminal
from neuroncore.cli.arguments import NotPython
from neuroncore.core.core import Core, running
from neuroncore.frontend.alias import OURS
from neuroncore.frontend.arguments import Arguments, copied, with_rank
from neuroncore.frontend.launch import call_kernel, issued
from neuroncore.frontend.nki.kernel import jit
from neuroncore.frontend.outcome import Launch
from neuroncore.hosts.api import Run, load, of, of_ranks
from neuroncore.record.program import Program
from neuroncore.report import compare
from neuroncore.time.schedule import schedule_cores

if TYPE_CHECKING:
    from neuroncore.frontend import misuse
    from neuroncore.report.compare import Agreement
    from neuroncore.view import document as documents
    from neuroncore.view import page as pages
    from neuroncore.view.document import Shown
else:
    misuse = Lazy("neuroncore.frontend.misuse")
    documents, pages = modules("neuroncore.view", "document page").values()


INTERRUPTED = 130  # the exit code that shells use after Ctrl-C
# exceptions inside a kernel that are not faults of its code: something that neuroncore lacks, and a
# limit on memory
NO_FAULT = (NotEmulated, MemoryError)


def exit_code(failure: dict[str, Any] | None) -> int:
    """Return the exit code for the error that ended a session."""
    if failure is None:
        return 0
    return EmulatorError.exit_code if failure.get("ours") else 1


class KernelFailed(Exception):
    """A kernel whose run a command needs has failed, and the error has been printed."""

    def __init__(self, failure: dict[str, Any]) -> None:
        super().__init__(failure["statement"])
        self.failure = failure


def print_our_fault(error: Exception) -> None:
    """Report an unexpected error: the whole traceback, and how to report it."""
    traceback.print_exception(error)
    print(f"neuroncore: {REPORT}", file=sys.stderr)


@contextlib.contextmanager
def reporting_exits() -> Iterator[None]:
    """A context manager in which os._exit raises SystemExit.

    Otherwise os._exit(0) in a kernel would end the process silently. In forked processes, and in
    threads that are neither the main thread nor run a kernel, os._exit is unchanged."""
    leave, process = os._exit, os.getpid()

    def exit_or_raise(status: int) -> NoReturn:
        in_kernel = running() is not None
        on_main = threading.current_thread() is threading.main_thread()
        if (in_kernel or on_main) and os.getpid() == process:
            raise SystemExit(status)
        leave(status)

    os._exit = exit_or_raise
    try:
        yield
    finally:
        os._exit = leave


def in_a_kernel(error: BaseException) -> bool:
    """Return whether an error, or a request to exit, is from inside a kernel."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_code is call_kernel.__code__ for frame in frames)


def not_python(error: SyntaxError) -> NotPython | None:
    """Return the error for an imported file that is not Python source.

    Return None if the source of the SyntaxError is not a file."""
    file = error.filename
    if file is None or not Path(file).is_file():
        return None
    return NotPython(f"{file}:{error.lineno or 1}: {error.msg}")


def too_deep(error: RecursionError) -> str:
    """Return a sentence with the name of the user's function that recursed endlessly."""
    place = source.innermost_place(error.__traceback__)
    if place is None:
        return f"RecursionError: {error}"
    return (
        f"{place}: RecursionError: {place.function} is called again before it returns, "
        f"{sys.getrecursionlimit()} calls deep"
    )


def interrupted(error: KeyboardInterrupt) -> str:
    """Return a sentence with the line of the user's code that Ctrl-C interrupted."""
    place = source.innermost_place(error.__traceback__)
    where = "" if place is None else f" at {place}"
    return with_notes(f"neuroncore: interrupted{where}", error, "; ")


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error and its causes, without neuroncore's frames
    (`_users_frames`)."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = _users_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    traceback.print_exception(error)


def _users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without neuroncore's frames, or None if no frame is left.

    Frames after the last frame of the user's code are kept: they show where neuroncore failed."""
    links = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    last = max((n for n, link in enumerate(links) if source.is_users(link.tb_frame)), default=-1)
    kept: TracebackType | None = None
    for number, link in reversed([*enumerate(links)]):
        if number > last or source.is_users(link.tb_frame):
            kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept


def shown(kernel: str, core: Core | None, error: BaseException, text: str) -> Shown:
    """Return the contents of a page about an error, which `text` describes.

    If a launch on `core` failed, the page shows its instructions up to the error. Otherwise it
    shows only the error and its source. `core` is None outside of a launch, and on several cores,
    which stopped at different places."""
    outcome = documents.PageOutcome("failed", text, _place(error))
    program = _program(core)
    if core is None or program is None:
        return pages.Shown(kernel, (), (), outcome=outcome)
    count = len(program)
    return pages.Shown(
        kernel,
        schedule_cores([program], core.machine),
        core.findings,
        answers=False,  # the bottleneck of a part is not that of the whole
        window=documents.PageWindow(max(0, count - documents.MOST), count),
        outcome=outcome,
    )


def _program(core: Core | None) -> Program | None:
    """Return the record of a core that runs alone.

    Return None if there are several cores, or if no instruction was recorded."""
    if core is None or not core.program or core.world.ranks * core.world.cores > 1:
        return None
    return core.program


def _place(error: BaseException) -> source.Place | None:
    """Return the innermost line of the user's code that raised an error; None if there is none."""
    if isinstance(error, KernelError) and error.place is not None:
        return error.place
    return source.innermost_place(error.__traceback__)


class Document(Protocol):
    """The receiver of a command's results.

    `header` is called before the first launch, `add` after each launch. `failure` is the error that
    ended the session, or None."""

    failure: dict[str, Any] | None

    def header(self) -> None: ...
    def add(self, run: Run, agreement: Agreement | None) -> None: ...


class Stop(NamedTuple):
    """The error that ended a session, and its message."""

    error: BaseException
    text: str


class Session:
    """Runs the kernels of a command, and passes the launches to a document."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        document: Document,
        compares: bool = False,
        keeps: bool = False,
    ) -> None:
        """With `compares`, results are compared with the reference, if there is one. With `keeps`,
        Runs keep the arguments of kernels."""
        self.arguments, self.compares, self.keeps = arguments, compares, keeps
        self.document = document
        self.core: Core | None = None  # the first core of the current launch
        self.launched = False
        self.is_imported = False  # the file of the kernel that the command names
        self.stop: Stop | None = None
        self.reference: Callable[..., Any] | None = None
        # the kernel's arguments, and a copy of them before the launch
        self.called: tuple[Arguments, Arguments] | None = None
        self.one_by_one = threading.Lock()  # because several threads may launch kernels

    # --- launches, as an observer of the settings ----------------------------------------------

    def begun(self, core: Core) -> None:
        self.core, self.launched = core, True

    def done(self, *ranks: Launch) -> None:
        run, agreement = of(*ranks, arguments=self.called), None
        with self.one_by_one:
            if self.reference is not None:
                agreement = run.compare(self.reference, self.arguments.tol)
            self.document.add(run, agreement)
        self.core = None

    def so_far(self) -> str:
        return issued(self.core)

    # --- a kernel --------------------------------------------------------------------------------

    def run_kernel(self, file: Path, name: str) -> None:
        """Launch a kernel of a file with arguments from the command line or the file."""
        rng = np.random.default_rng(self.arguments.seed)
        with self._output_elsewhere(), self._failures():
            home = values.module(file)
            self.is_imported = True
            kernel = values.member(home, name)
            args, kwargs = self._kernel_arguments(home, rng)
            values.check_call(kernel, name, args, kwargs)
            if self.compares:
                self._refer(home, args, kwargs)
            if getattr(self.arguments, "ranks", None):
                numbers = range(1, self.arguments.ranks)
                others = [self._kernel_arguments(home, rng, rank) for rank in numbers]
                self._run_on_ranks(_jitted(kernel), [(args, kwargs), *others])
                return
            if self.reference is not None:
                self.called = (args, kwargs), copied((args, kwargs))
            self.document.header()
            _jitted(kernel)(*args, **kwargs)

    def _run_on_ranks(self, kernel: Any, per_rank: list[Arguments]) -> None:
        """Launch a kernel on several ranks, with the arguments of each rank.

        Pass the result to the document as one launch."""
        before = [copied(arguments) for arguments in per_rank]
        self.document.header()
        asked = self.arguments
        launches = kernel.on_ranks(per_rank, asked.lnc, instance=asked.instance)
        run = of_ranks(launches, [(rank.arguments, rank.named) for rank in launches], before)
        agreement = run.compare(self.reference, asked.tol) if self.reference is not None else None
        self.document.add(run, agreement)

    def _kernel_arguments(
        self, home: ModuleType, rng: np.random.Generator, rank: int = 0
    ) -> Arguments:
        if self.arguments.args:
            return tuple(values.argument(a, rng) for a in self.arguments.args), {}
        if self.arguments.inputs:
            return values.arguments_from(values.function(self.arguments.inputs, home), rng, rank)
        if hasattr(home, "inputs"):
            return values.arguments_from(values.member(home, "inputs"), rng, rank)
        raise UsageError(
            "the kernel needs arguments: give formats and shapes (--args 'float32[128,512]'), a "
            f"function that returns them (--inputs), or define `inputs` in {home.__file__}"
        )

    def _refer(self, home: ModuleType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Find the reference, if there is one, and check that it accepts the kernel's arguments.
        `home` is the module of the kernel.

        A function `reference` in `home` that is not named by --ref may belong to another kernel of
        the file. If it does not accept the arguments, say so, and compare nothing."""
        name = self.arguments.ref or ("reference" if hasattr(home, "reference") else None)
        if name is None:
            if self.arguments.tol is not None:
                raise UsageError("--tol needs a reference: --ref, or a function `reference`")
            return
        found = values.function(name, home)
        try:
            values.check_call(found, name, *with_rank(found, (args, kwargs), 0))
        except UsageError as error:
            if self.arguments.ref:
                raise
            terminal.complain(f"neuroncore: the results are not compared: {error}")
        else:
            self.reference = found

    # --- a saved run -----------------------------------------------------------------------------

    def look_at(self, file: Path) -> None:
        """Report a saved run as if it had just finished."""
        run, target = load(file), self.arguments.target
        if target and machine.load(target).name != run.machine.name:
            raise UsageError(
                f"{file} is a run on {run.machine.name}: --target can't change the machine"
            )
        self.document.add(run, None)

    # --- a script --------------------------------------------------------------------------------

    def run_script(self, file: Path) -> None:
        """Run a file like Python, and report each launch when it finishes."""
        tree = values.parsed(file)
        kernels = [f"{file}::{name}" for name in _decorated(tree)[:3]] or [f"{file}::KERNEL"]
        named = " or ".join(kernels)
        idle = UsageError(f"{file} does nothing as a script; name a kernel: {named}")
        has_main = _has_main(tree)
        if not has_main and not _has_foreign_decorator(tree):
            raise idle
        self.document.header()
        before = sys.argv, list(sys.path)
        sys.argv = [str(file), *self.arguments.others, *self.arguments.behind]
        sys.path.insert(0, str(file.parent.resolve()))
        try:
            with self._output_elsewhere(), self._failures():
                runpy.run_path(str(file), run_name="__main__")
        finally:
            sys.argv, sys.path[:] = before
        if not has_main and not self.launched and self.stop is None:
            raise idle

    # --- both ------------------------------------------------------------------------------------

    def _output_elsewhere(self) -> contextlib.AbstractContextManager[Any]:
        """With --json, send the output of the user's code to stderr."""
        return contextlib.redirect_stdout(sys.stderr if self.arguments.json else sys.stdout)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """A context manager: an exception of a kernel or a script becomes the failure of the
        session."""
        try:
            yield
        except (KernelError, NotEmulated) as error:
            self._failed(with_notes(str(error), error), error)
        except EmulatorError as error:
            self._our_fault(error)
        except compare.Incomparable as error:
            self._failed(f"neuroncore: {error}", error)
        except (UsageError, BrokenPipeError, terminal.Unwritable):
            raise
        except RecursionError as error:
            self._failed(with_notes(too_deep(error), error), error)
        except SystemExit as leaving:
            if in_a_kernel(leaving):
                statement = f"a kernel ended the process with exit code {leaving.code or 0}"
                text = with_notes(f"neuroncore: {statement}", leaving)
                self._failed(text, leaving, statement)
            elif leaving.code not in (None, 0):
                statement = f"the script exited with {leaving.code}"
                is_message = not isinstance(leaving.code, int)  # the script's text, not a number
                text = str(leaving.code) if is_message else f"neuroncore: {statement}"
                self._failed(text, leaving, statement)
        except SyntaxError as error:
            if (wrong_file := not_python(error)) is not None:
                raise wrong_file from None
            self._raised(error)
        except Exception as error:
            self._raised(error)

    def _failed(self, text: str | None, error: BaseException, statement: str = "") -> None:
        """Store an error as the failure of the session, and print `text` unless it is None.

        `text` goes to standard error. `statement` describes errors other than KernelError in the
        document; by default the message of the error does."""
        if isinstance(error, KernelError):
            self.document.failure = error.to_dict()
        else:
            self.document.failure = {"statement": statement or str(error)}
            place = source.innermost_place(error.__traceback__)
            if place is not None and self._is_of_the_kernel(error):
                self.document.failure |= {"file": place.file, "line": place.line}
        message = str(error) if isinstance(error, KernelError) else statement
        self.stop = Stop(error, (text or message).removeprefix("neuroncore: "))
        if text is not None:
            terminal.complain(text)

    def _is_of_the_kernel(self, error: BaseException) -> bool:
        """Return whether an error is due to the kernel's code, or to the functions that compute its
        arguments and its reference. Exceptions of scripts, and of imports outside of a kernel, may
        be due to a package, a device or a file that this machine lacks."""
        if isinstance(error, NO_FAULT):
            return False
        return in_a_kernel(error) or (self.is_imported and not isinstance(error, ImportError))

    def _our_fault(self, error: EmulatorError) -> None:
        self.document.failure = {"statement": str(error), "ours": True}
        self.stop = Stop(error, str(error))
        print_traceback(error)

    def _raised(self, error: Exception) -> None:
        explained = misuse.explanation(error)
        if isinstance(explained, EmulatorError):
            self._our_fault(explained)
            return
        if explained is not None:
            self._failed(str(explained), explained)
            return
        cause = error.__cause__  # the IndexError that the older API raises with mode="simulation"
        stored = cause if isinstance(cause, KernelError) else error
        self._failed(None, stored, f"{type(error).__name__}: {error}")
        print_traceback(error)


def _jitted(kernel: Any) -> Any:
    """Return a kernel of either API; a plain function becomes a kernel of today's API."""
    return kernel if hasattr(kernel, "on_ranks") else jit(kernel)


def _has_main(tree: ast.Module) -> bool:
    """Return whether a file has a __main__ part, or other code that runs when it is a script."""
    passive = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    docstring = 1 if ast.get_docstring(tree) is not None else 0
    return any(not isinstance(node, passive) for node in tree.body[docstring:]) or any(
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) for node in tree.body
    )


def _decorated(tree: ast.Module) -> list[str]:
    """Return the names of the functions of a file that have a decorator."""
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return [node.name for node in functions if node.decorator_list]


def _has_foreign_decorator(tree: ast.Module) -> bool:
    """Return whether a file has a decorator that is not imported from the API.

    Such a decorator may launch kernels."""
    names = {
        alias.asname or alias.name.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).split(".")[0] in OURS
    }
    decorators = (one for node in tree.body for one in getattr(node, "decorator_list", ()))
    return any(_root(one) not in names for one in decorators)


def _root(expression: ast.expr) -> str | None:
    """Return `a` for the expressions a, a.b, a.b(...) and a(...)(...); None for others."""
    while isinstance(expression, ast.Attribute | ast.Call):
        expression = expression.value if isinstance(expression, ast.Attribute) else expression.func
    return expression.id if isinstance(expression, ast.Name) else None
