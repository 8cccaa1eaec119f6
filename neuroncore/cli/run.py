"""neuroncore run: a kernel or a script on the emulated core, and what there is to say about it."""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import inspect
import json
import platform
import re
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

import numpy as np

from neuroncore import machine, source
from neuroncore.cli import tools, values
from neuroncore.core.core import Core
from neuroncore.errors import KernelError, NotEmulated, UsageError
from neuroncore.frontend.alias import activated
from neuroncore.frontend.launch import Run
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as OlderKernel
from neuroncore.frontend.nki.kernel import Kernel, jit
from neuroncore.frontend.settings import environment_options, settings, target_machine
from neuroncore.numerics.formats import FORMATS, float32, lookup
from neuroncore.options import Options, Order, profile
from neuroncore.report import perfetto, precision, text
from neuroncore.report.compare import Comparison, Incomparable, compare
from neuroncore.report.summary import overcommitted, summary
from neuroncore.schedule import Timeline, schedule_cores

SCHEMA = "neuroncore.run/1"
QUIET_SECONDS = 2.0
PACKAGES = ("numpy", "numba", "ml_dtypes")

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Pairs = tuple[list[Any], list[Any]]  # arrays as they are, and as they should be


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run a kernel, or a script that launches kernels",
        description="Run FILE.py::KERNEL on given arguments, or FILE.py as a script, which sees "
        "what isn't an option of these, and all that follows --.",
        usage="neuroncore run FILE.py[::KERNEL] [options] [[--] SCRIPT_ARGUMENT ...]",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE.py[::KERNEL]")
    parser.add_argument(
        "--target", metavar="MACHINE", help="trn1, trn2 or trn3; beats the environment"
    )
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        "--args", nargs="+", metavar="ARG", help="float32[128,512] (random), or Python literals"
    )
    given.add_argument(
        "--inputs", metavar="FUNC", help="NAME or FILE.py:NAME, a function that makes the arguments"
    )
    parser.add_argument(
        "--ref", metavar="FUNC", help="a function of the same arguments that gives the right result"
    )
    parser.add_argument(
        "--tol", type=float, help="relative L2 error allowed; by default set by the formats"
    )
    parser.add_argument("--seed", type=_natural, default=0)
    parser.add_argument(
        "--numerics",
        metavar="PROFILE",
        help="documented, ideal or vendor-sim; beats the environment",
    )
    parser.add_argument(
        "--stochastic-rounding",
        type=_natural,
        metavar="SEED",
        help="round casts to narrow floats at random",
    )
    parser.add_argument("--matmul", choices=("chain", "blas"))
    parser.add_argument(
        "--order",
        choices=get_args(Order),
        help="what the estimate takes a compiler to make of the order of instructions; by default "
        "what the compiler of the kernel's API does",
    )
    parser.add_argument(
        "--precision",
        action="store_true",
        help="tell which lines the error comes from, against float64 beside the kernel",
    )
    parser.add_argument(
        "--precision-bound",
        type=float,
        metavar="REL",
        help="relative error of a result to be told of; by default set by its format",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--trace", type=Path, metavar="OUT.json", help="a timeline for Perfetto")
    options = re.findall(r"--[\w-]+", parser.format_help())
    parser.set_defaults(command=run, options=options)


def _options(arguments: argparse.Namespace) -> Options:
    """What the environment asks for, but for what the command says."""
    chosen = profile(arguments.numerics) if arguments.numerics else environment_options()
    if arguments.stochastic_rounding is not None:
        seed = arguments.stochastic_rounding
        chosen = replace(chosen, stochastic=True, stochastic_seed=seed)
    if arguments.precision or arguments.precision_bound is not None:
        chosen = replace(chosen, precision=True, precision_bound=arguments.precision_bound)
    given = {name: getattr(arguments, name) for name in ("matmul", "order")}
    return replace(chosen, **{name: value for name, value in given.items() if value})


def is_script(arguments: argparse.Namespace) -> bool:
    """Whether a file is to run by itself, with arguments of its own."""
    return arguments.command is run and "::" not in arguments.file


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a natural number")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    if arguments.target:
        machine.load(arguments.target)  # refuses unknown names before anything runs
    trace: Path | None = arguments.trace
    if trace and (trace.is_dir() or not trace.parent.is_dir()):
        raise UsageError(f"--trace {trace} is not a file that can be written")
    for word in arguments.others:
        if near := difflib.get_close_matches(word, arguments.options, 1, cutoff=0.8):
            raise UsageError(
                f"{word} is not {near[0]}; if it is meant for the script, put it after --"
            )
    file, _, kernel = arguments.file.partition("::")
    session = Session(arguments)
    options = _options(arguments)
    chosen = settings(arguments.target, options, session, in_every_thread=True)
    with activated(), tools.on_the_path(), chosen, session.progress():
        if kernel:
            session.run_kernel(Path(file), kernel)
        else:
            session.run_script(Path(file))
    return session.close()


class Session:
    """Collects what a command's launches leave behind, and prints it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.timelines: list[Timeline] = []
        self.reports: list[dict[str, Any]] = []
        self.failure: dict[str, Any] | None = None
        self.differs = False
        self.core: Core | None = None
        self.reference: Callable[[Run], Pairs | None] = lambda _: None
        self.one_by_one = threading.Lock()  # launches of several threads

    # --- what is run -----------------------------------------------------------------------------

    def run_kernel(self, file: Path, name: str) -> None:
        """Launch one kernel of a file on arguments from the command line or the file."""
        rng = np.random.default_rng(self.arguments.seed)
        with self._output_elsewhere(), self._failures():
            home = values.module(file)
            kernel = values.member(home, name)
            args, kwargs = self._kernel_arguments(home, rng)
            _check_call(kernel, name, args, kwargs)
            given = copy.deepcopy((args, kwargs))  # a kernel may write into its inputs
            self.reference = lambda run: self._reference(home, run, (args, kwargs), given)
            self.header()
            launched = kernel if isinstance(kernel, Kernel | OlderKernel) else jit(kernel)
            launched(*args, **kwargs)

    def _kernel_arguments(self, home: Any, rng: np.random.Generator) -> Any:
        if self.arguments.args:
            return tuple(values.argument(a, rng) for a in self.arguments.args), {}
        if self.arguments.inputs:
            return values.arguments_from(values.function(self.arguments.inputs, home), rng)
        if hasattr(home, "inputs"):
            return values.arguments_from(home.inputs, rng)
        raise UsageError(
            "give the kernel's arguments with --args or --inputs "
            f"(or define a function `inputs` in {home.__file__})"
        )

    def _reference(self, home: Any, run: Run, used: Arguments, given: Arguments) -> Pairs | None:
        """The arrays that the kernel gave and those that it should have. What a kernel that returns
        none gave are the arguments that it changed; its reference may work in place as well."""
        name = self.arguments.ref or ("reference" if hasattr(home, "reference") else None)
        if name is None:
            return None
        got = _arrays(run.outputs)
        in_place = not got
        if in_place:
            pairs = list(zip(_arrays(used), _arrays(given), strict=True))
            got = [a for a, b in pairs if np.asarray(a).tobytes() != np.asarray(b).tobytes()]
            if not got:
                raise Incomparable("the kernel returns nothing and changes none of its arguments")
        wanted = _arrays(values.function(name, home)(*given[0], **given[1]))
        if in_place and not wanted:
            got, wanted = _arrays(used), _arrays(given)
        if len(got) != len(wanted):
            verb = "changes" if in_place else "returns"
            raise Incomparable(f"the kernel {verb} {len(got)} arrays, the reference {len(wanted)}")
        return got, wanted

    def run_script(self, file: Path) -> None:
        """Run a file as Python would; its launches are reported as they finish."""
        if not file.is_file():
            raise UsageError(f"there is no file {file}")
        with self._failures():
            if not _has_main(file):
                raise UsageError(f"{file} has no __main__ part; name a kernel: {file}::KERNEL")
        if self.failure is not None:
            return
        self.header()
        before = sys.argv, list(sys.path)
        sys.argv = [str(file), *self.arguments.others, *self.arguments.behind]
        sys.path.insert(0, str(file.parent.resolve()))
        try:
            with self._output_elsewhere(), self._failures():
                runpy.run_path(str(file), run_name="__main__")
        finally:
            sys.argv, sys.path[:] = before

    def _output_elsewhere(self) -> contextlib.AbstractContextManager[Any]:
        """With --json, what the user's code prints goes to stderr."""
        return contextlib.redirect_stdout(sys.stderr if self.arguments.json else sys.stdout)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn what a kernel or a script raises into a failed session."""
        try:
            yield
        except (KernelError, NotEmulated) as error:
            detail = (
                error.to_dict() if isinstance(error, KernelError) else {"statement": str(error)}
            )
            self.failure = detail
            print(error, file=sys.stderr)
        except Incomparable as error:
            self.failure = {"statement": str(error)}
            print(f"neuroncore: {error}", file=sys.stderr)
        except (UsageError, BrokenPipeError):
            raise
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                self.failure = {"statement": f"the script exited with {leaving.code}"}
        except Exception as error:
            cause = error.__cause__  # of the older API's IndexError in mode="simulation"
            plain = {"statement": f"{type(error).__name__}: {error}"}
            self.failure = cause.to_dict() if isinstance(cause, KernelError) else plain
            traceback.print_exception(error.with_traceback(_of_the_user(error.__traceback__)))

    # --- what is said ----------------------------------------------------------------------------

    def begun(self, core: Core) -> None:
        self.core = core

    def done(self, run: Run) -> None:
        with self.one_by_one:
            self.report(run, self.reference(run))

    def header(self) -> None:
        chosen = target_machine(self.arguments.target)
        packages = "  ".join(f"{name} {version(name)}" for name in PACKAGES)
        self.say(
            f"neuroncore {version('neuroncore')}  target {chosen.name} ({chosen.generation})  "
            f"seed {self.arguments.seed}  python {platform.python_version()}  {packages}"
        )

    def report(self, run: Run, pairs: Pairs | None) -> None:
        """Time a finished launch, compare its results, and print or keep what came out."""
        programs = [core.program for core in run.cores if core.program is not None]
        timelines = schedule_cores(programs, run.machine)
        self.timelines += timelines
        got, wanted = pairs or ([], [])
        comparisons: list[Comparison] = [compare(a, b) for a, b in zip(got, wanted, strict=True)]
        tolerances = [self._tolerance(a, b) for a, b in zip(got, wanted, strict=True)]
        wrong = [not c.rel_l2 <= t for c, t in zip(comparisons, tolerances, strict=True)]
        self.differs |= any(wrong)
        self.say(f"{run.kernel} on {run.machine.name}")
        for line in text.compared(comparisons):
            self.say(f"  {line}")
        if pairs is not None:
            limits = ", ".join(f"{t:.3g}" for t in tolerances)
            self.say(f"  {'DIFFERS' if any(wrong) else 'agrees'}   (relative L2 at most {limits})")
        for number, timeline in enumerate(timelines):
            if len(timelines) > 1:
                self.say(f"  core {number}")
            for line in text.estimated(timeline):
                self.say(f"  {line}")
        for line in precision.text(run.precision) if run.precision else ():
            self.say(f"  {line}")
        findings = [str(f) for f in run.findings]
        findings += dict.fromkeys(w for timeline in timelines for w in overcommitted(timeline))
        for finding in findings:
            self.say(f"  {finding}")
        self.reports.append(
            {
                "kernel": run.kernel,
                "target": run.machine.name,
                "results": [c.to_dict() for c in comparisons],
                "agrees": None if pairs is None else not any(wrong),
                "estimate": summary(max(timelines, key=lambda t: t.total_ns)),
                "cores": [summary(timeline) for timeline in timelines],
                "findings": findings,
                **({"precision": precision.document(run.precision)} if run.precision else {}),
            }
        )

    def _tolerance(self, output: Any, reference: Any) -> float:
        """By the format of the result, or of a reference that has a coarser one: 1e-5 for float32,
        the gap between 1 and the next number for narrower floats, none for integers."""
        if self.arguments.tol is not None:
            return float(self.arguments.tol)
        form = lookup(np.asarray(output).dtype)
        if form.is_integer:
            return 0.0
        forms = form, FORMATS.get(np.asarray(reference).dtype.name, float32)
        return max(1e-5 if f is float32 or f.is_integer else f.eps for f in forms)

    def say(self, line: str) -> None:
        if not self.arguments.json:
            print(line, flush=True)

    def close(self) -> int:
        """Write what was asked for; the exit code."""
        if self.arguments.trace and self.timelines:
            perfetto.write(self.timelines, self.arguments.trace)
            self.say(f"trace      {self.arguments.trace} (open it at ui.perfetto.dev)")
        if not self.reports and self.failure is None:
            self.failure = {"statement": "no kernel was launched"}
            print("neuroncore: no kernel was launched", file=sys.stderr)
        failed = self.failure is not None or self.differs
        if self.arguments.json:
            chosen = target_machine(self.arguments.target)
            print(json.dumps(self._document(chosen.name, failed), indent=2, allow_nan=False))
        return int(failed)

    def _document(self, target: str, failed: bool) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "passed": not failed,
            "target": target,
            "seed": self.arguments.seed,
            "versions": {n: version(n) for n in ("neuroncore", *PACKAGES)},
            "launches": self.reports,
            "error": self.failure,
        }

    @contextlib.contextmanager
    def progress(self) -> Iterator[None]:
        """A line on the terminal about work that takes longer than two seconds."""
        if not sys.stderr.isatty():
            yield
            return
        finished = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(finished,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()

    def _watch(self, finished: threading.Event) -> None:
        begun = time.monotonic()
        shown = False
        while not finished.wait(0.5):
            elapsed = time.monotonic() - begun
            if elapsed > QUIET_SECONDS:
                shown = True
                program = self.core.program if self.core else None
                count = program.issued if program is not None else 0
                print(
                    f"\r{elapsed:.0f} s, {count} instructions", end="", file=sys.stderr, flush=True
                )
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _check_call(kernel: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Raise UsageError if a kernel doesn't take such arguments."""
    signature = inspect.signature(kernel)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args) + len(kwargs)} arguments were given"
        raise UsageError(f"{name}{signature}: {error}; {given}") from None


def _arrays(value: Any) -> list[Any]:
    """The arrays in a result or in arguments, in order."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
    return [value] if hasattr(value, "dtype") else []


def _of_the_user(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without what led to the user's code."""
    first = trace
    while first is not None and source.is_ours(first.tb_frame):
        first = first.tb_next
    return first or trace


def _has_main(file: Path) -> bool:
    """Whether a file asks if it is being run, or has anything at all to run by itself."""
    tree = ast.parse(file.read_bytes(), str(file))
    passive = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    docstring = 1 if ast.get_docstring(tree) is not None else 0
    return any(not isinstance(node, passive) for node in tree.body[docstring:]) or any(
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) for node in tree.body
    )
