"""Kernels of the older API: jit and its modes, simulate_kernel, baremetal, benchmark, profile."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import NotEmulated, OutOfBoundsError, SignatureError, UsageError
from neuroncore.base.units import plural
from neuroncore.core.core import current, running
from neuroncore.frontend import limits
from neuroncore.frontend.arguments import Annotation, Arguments
from neuroncore.frontend.dialects import PickledByName, takes_self
from neuroncore.frontend.launch import (
    Launch,
    Way,
    finish,
    in_graph,
    is_traced,
    launch,
    launch_ranks,
)
from neuroncore.frontend.neuronxcc.nki import contract
from neuroncore.frontend.neuronxcc.nki.language.loops import nc, spmd_dim
from neuroncore.frontend.neuronxcc.nki.results import flush, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.operators import format_of
from neuroncore.frontend.settings import compiler_flags
from neuroncore.frontend.vendor import Absent
from neuroncore.report import saved

SIZES = "a positive int, nl.nc(n) or nl.spmd_dim(...), or a tuple of these"
MODES = ("auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace")
BANNER = "neuroncore: latencies are estimates of an emulator, not measurements of a device"
NEFF = "file.neff"  # the file in which the vendor's tools keep a compiled kernel by default
PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)


class Kernel(PickledByName):
    """A kernel function, its launch grid, and its mode.

    A call from the host launches the kernel on an emulated device. A call from another kernel
    executes the function as a part of that kernel."""

    def __init__(
        self,
        function: Callable[..., Any],
        mode: str = "auto",
        grid: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
        jitted: bool = False,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.mode, self.grid = function, mode, grid
        self.options, self.jitted = options or {}, jitted
        self.func = function  # the vendor's name of the attribute

    def __getitem__(self, grid: Any) -> Kernel:
        """Return the kernel with a launch grid, whose axes are ints, nl.nc(n) or nl.spmd_dim."""
        return self._like(type(self), grid=tuple(map(_axis, limits.grid_axes(grid, SIZES))))

    def _like(self, kind: type[Kernel], **changes: Any) -> Kernel:
        """Return a copy of the kernel that belongs to another class of kernels, such as
        Benchmarked. `changes` are new values of attributes."""
        fields: dict[str, Any] = {"function": self.function, "mode": self.mode, "grid": self.grid}
        fields |= {"options": self.options, "jitted": self.jitted}
        return kind(**{**fields, **changes})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running() is not None:
            if self.grid:
                raise _nested(self)
            return self.function(*args, **kwargs)
        if is_traced(args, kwargs):
            return in_graph(self, args, kwargs)
        try:
            run = self._run(args, kwargs)
        except OutOfBoundsError as error:
            if self.mode == "simulation" and (error.also or "").startswith("index "):
                # the class that callers expect (SDK's nki/test)
                raise IndexError(error.also) from error
            raise
        self._ran(run)
        return finish(run)

    def __get__(self, instance: Any, owner: type | None = None) -> Kernel:
        if instance is None or not takes_self(self.function):
            return self
        return self._like(type(self), function=MethodType(self.function, instance))

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Launch:
        target = self.options.get("platform_target")
        checked = contract.with_checks(self.function, self.returns, str(self.options))
        return launch(
            _inspected(checked) if self.mode == "simulation" else checked,
            [_array(value) for value in args],
            {name: _array(value) for name, value in kwargs.items()},
            tensor=Tensor,
            order="compiled",
            flags=self._flags,
            grid=tuple(len(n) if isinstance(n, spmd_dim) else n for n in self.grid),
            target=target,
            programs=_distributed(self.grid),
            finished=flush,
        )

    def on_ranks(
        self, per_rank: Sequence[Arguments], lnc: int | None = None, **options: Any
    ) -> list[Launch]:
        """Launch the kernel on several ranks together, and return the launches.

        `per_rank` lists the (args, kwargs) of each rank. A rank has as many cores as the grid
        requires. UsageError is raised if `lnc` is given and is another number. `options` are the
        arguments `target`, `options` and `instance` of `launch_ranks`. Raises the errors of
        `launch_ranks`."""
        shares = _distributed(self.grid)
        if lnc not in (None, len(shares)):
            cores = plural(len(shares), "core")
            raise UsageError(
                f"the kernel's grid needs {cores}, but with lnc={lnc} a rank has "
                + plural(lnc or 0, "core")
            )
        arguments = [
            (tuple(map(_array, args)), {name: _array(value) for name, value in named.items()})
            for args, named in per_rank
        ]
        checked = contract.with_checks(self.function, self.returns, str(self.options))
        way = Way(Tensor, shares, flush)
        grid = tuple(len(n) if isinstance(n, spmd_dim) else n for n in self.grid)
        compiler: dict[str, Any] = {"order": "compiled", "flags": self._flags}
        return launch_ranks(checked, arguments, way, grid=grid, **compiler, **options)

    @property
    def _flags(self) -> list[str]:
        """Return the flags of the device's compiler: from NEURON_CC_FLAGS, from the option
        additional_compile_opt, and from the decorators of nki.compiler."""
        words = compiler_flags(self.options.get("additional_compile_opt"))
        skips = getattr(self.function, "skips_middle_end", False)
        decorated = ["skip_middle_end_transformations"] if skips else []
        return [*(word for word in words if word.startswith("-")), *decorated]

    @property
    def returns(self) -> bool:
        """Return whether the kernel returns its results. In SDK 2.20, kernels wrote their results
        to their arguments."""
        if self.mode == "trace" or not self.options.get("kernel_return", True):
            return False
        return self.jitted or contract.returns_something(self.function)

    def _ran(self, run: Launch) -> None:
        """Process a launch that has ended. Subclasses save its record here, for example."""


def _array(value: Any) -> Any:
    """Return an argument of a kernel. If it only describes a tensor, such as nt.tensor[[128, 512],
    nl.bfloat16], return zeros of that shape. Published benchmarks pass such descriptions."""
    if not isinstance(value, Annotation) or value.dtype is None:
        return value
    return np.zeros(value.shape, format_of(value.dtype, position=1).numpy)


def _nested(kernel: Kernel) -> SignatureError:
    """Return the error for a kernel that launches a kernel with a grid."""
    name = getattr(kernel.function, "__name__", "the kernel")
    return SignatureError(
        f"{name} is launched with a grid of {kernel.grid} by another kernel",
        because="only the host can launch a grid: a kernel calls a kernel as a function",
        hint=f"call {name}(...) without a grid, in a loop over the grid",
        also="err_nested_kernel_with_spmd_grid",
    )


def _inspected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function`, and copies results on the chip to HBM. Published
    kernels return tiles on the chip in mode="simulation", where any memory can be read
    afterwards."""

    @functools.wraps(function)
    def simulated(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        flush()
        return _readable(result)

    return simulated


def _readable(value: Any) -> Any:
    """Return a result with tiles on the chip copied to HBM, also in nested lists and tuples. Report
    each such tile, because a device would lose its contents."""
    if isinstance(value, tuple | list):
        make = getattr(type(value), "_make", type(value))
        return make(map(_readable, value))
    if not isinstance(value, Tensor) or not value.storage.on_chip:
        return value
    core = current()
    core.check_written("the result", tile(value))
    core.report(
        "RESULT_ON_CHIP",
        f"the kernel returns {value}: a simulation can read it, but on a device it is lost",
        value.storage.id,
    )
    copied = core.memory.adopt(MemoryRegion.shared_hbm, value.codes().copy(), value.dtype)
    if core.program is not None:
        core.program.stands_for(copied, value)
    return Tensor.of(copied)


def _axis(size: Any) -> int | spmd_dim:
    """Return an axis of a launch grid as an int or an spmd_dim. Raises SignatureError for a value
    that is not an axis."""
    if isinstance(size, nc):
        return spmd_dim(size, 1)
    if isinstance(size, spmd_dim):
        return size
    count = limits.grid_size(size, "the size of a launch grid's axis", 0, SIZES)
    return count or 1  # nki-samples launches pipelined_attention as kernel[0]


def _distributed(grid: tuple[Any, ...]) -> list[list[int]]:
    """Return, for each core, the row-major numbers of the grid's programs that the core runs in
    sequence. An spmd_dim axis spreads its programs over several cores. The programs along any other
    axis are on one core (SDK 2.26, nki/programming_model.rst, SPMD)."""
    dims = [size if isinstance(size, spmd_dim) else spmd_dim(nc(1), size) for size in grid]
    cores = [size.cores for size in dims]
    shares: list[list[int]] = [[] for _ in range(prod(cores))]
    for rank, place in enumerate(product(*(range(len(size)) for size in dims))):
        core = [size.core_of(index) for size, index in zip(dims, place, strict=True)]
        shares[np.ravel_multi_index(core, cores) if cores else 0].append(rank)
    return shares


# --- kinds of kernels -----------------------------------------------------------------------------


class Saved(Kernel):
    """A kernel whose record is saved after each launch, if the option save_neff_name or
    save_trace_name is given. The options are names of files."""

    def _ran(self, run: Launch) -> None:
        neff, trace = self.options.get("save_neff_name"), self.options.get("save_trace_name")
        if neff or trace:
            saved.save(run, Path(neff or NEFF), Path(trace) if trace else None)


class Profiled(Kernel):
    """A kernel whose record, profiles and summaries are saved in a folder after each launch."""

    def _ran(self, run: Launch) -> None:
        option_of = self.options.get
        folder = Path(option_of("working_directory", ""))
        neff, trace = (
            folder / (option_of(option) or name)
            for option, name in (("save_neff_name", NEFF), ("save_trace_name", "profile.ntff"))
        )
        if neff.exists() and not option_of("overwrite"):
            raise UsageError(f"{neff} exists already; profile with overwrite=True to replace it")
        saved.save(run, neff, None)
        for captured in saved.capture(
            neff, trace, option_of("num_execs", 1), option_of("profile_nth", 1)
        ):
            saved.report(captured, folder / "json_reports")


class Latency:
    """Estimated latencies in microseconds. `microseconds` includes the time that the vendor's
    benchmark adds to the kernel. `kernel_microseconds` does not."""

    def __init__(self, microseconds: float, kernel_microseconds: float) -> None:
        self.microseconds, self.kernel_microseconds = microseconds, kernel_microseconds

    def get_latency_percentile(self, percentile: int) -> float:
        """Return the estimate in microseconds. The estimate is the same for all PERCENTILES,
        because it does not vary. Raises SignatureError for another percentile."""
        if percentile not in PERCENTILES:
            raise SignatureError(
                f"there is no percentile {percentile}", expected=", ".join(map(str, PERCENTILES))
            )
        return self.microseconds


class BenchmarkResult:
    def __init__(self, latency: Latency) -> None:
        self.nc_latency = latency


class Benchmarked(Saved):
    """A kernel whose estimated latency can be read after a call."""

    benchmark_result: BenchmarkResult

    def _ran(self, run: Launch) -> None:
        super()._ran(run)
        estimate = saved.benchmarked(run)
        latency = Latency(estimate.total_ns / 1e3, estimate.kernel_ns / 1e3)
        self.benchmark_result = BenchmarkResult(latency)
        print(BANNER, file=sys.stderr)
        coverage = {core.program.coverage for core in run.cores if core.program} - {""}
        kind = "; ".join([f"estimated: {estimate.parts}", *sorted(coverage)])
        for percentile in PERCENTILES:
            print(f"Latency P{percentile:<3} {latency.microseconds:12.3f} us ({kind})")


def _decorated(kind: type[Kernel], kernel: Any, options: dict[str, Any]) -> Any:
    """Return a kernel of class `kind` with these options, from a function or a kernel. If `kernel`
    is None, return a decorator."""
    if kernel is None:
        return lambda function: _decorated(kind, function, options)
    if isinstance(kernel, Absent):
        return kernel
    if isinstance(kernel, Kernel):
        return kernel._like(kind, options={**kernel.options, **options})
    return kind(kernel, options=options)


def jit(func: Callable[..., Any] | None = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Make a kernel from a function: `@nki.jit`, `@nki.jit(mode=...)` or nki.jit(function, ...).

    `platform_target` names the machine. `additional_compile_opt` contains flags of the device's
    compiler, some of which have an effect. Other options of the compiler are ignored."""
    if mode not in MODES:
        raise SignatureError(f"jit has no mode {mode!r}", argument="mode", expected=repr(MODES))
    if func is None:
        return lambda function: jit(function, mode, **kwargs)
    if isinstance(func, Absent):
        return func
    kind = {"baremetal": Saved, "benchmark": Benchmarked}.get(mode, Kernel)
    function = func.function if isinstance(func, Kernel) else func
    before = func.options if isinstance(func, Kernel) else {}
    return kind(function, mode, options={**before, **kwargs}, jitted=True)


def trace(func: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """Return a kernel that writes its results to its arguments, as kernels of SDK 2.20 did."""
    return jit(func, "trace", **kwargs)


def baremetal(kernel: Any = None, **kwargs: Any) -> Any:
    """Return a kernel that is called with numpy arrays. Its record is written to the files that the
    options save_neff_name and save_trace_name name."""
    return _decorated(Saved, kernel, kwargs)


def benchmark(kernel: Any = None, **kwargs: Any) -> Any:
    """Return a kernel whose latency can be read after a call:
    `kernel.benchmark_result.nc_latency.get_latency_percentile(p)`.

    The latency, in microseconds, is neuroncore's estimate of the latency that the vendor's
    benchmark would report. The estimate includes the time that the benchmark adds
    (isa/harnesses.toml)."""
    return _decorated(Benchmarked, kernel, kwargs)


def profile(func: Any = None, **kwargs: Any) -> Any:
    """Return a kernel whose record is saved in the folder working_directory, for `neuroncore
    profile view`.

    The record is in the file save_neff_name. Executions profile_nth, 2 * profile_nth, ... up to
    num_execs are profiled. Each profiled execution gets a profile, whose name comes from
    save_trace_name, and a summary in json_reports. Raises SignatureError unless working_directory
    is an absolute path. A call raises UsageError if the record exists, unless overwrite=True."""
    if not Path(kwargs.get("working_directory") or "").is_absolute():
        raise SignatureError(
            "profile has no folder to write its results to",
            argument="working_directory",
            expected="an absolute path",
            got=repr(kwargs.get("working_directory")),
        )
    return _decorated(Profiled, func, kwargs)


class FrameworkKernel:
    """The base class through which frameworks compile kernels into their graphs. neuroncore
    contains only the name of this class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotEmulated("FrameworkKernel can't be used: neuroncore compiles no graphs")

    # nothing can call the following methods; they are names that the vendor documents

    def dump_config(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def is_framework_tensor(self, t: Any) -> bool:
        raise NotImplementedError

    def map_framework_tensor(self, t: Any) -> Any:
        raise NotImplementedError

    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        raise NotImplementedError


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, or a plain function, on numpy arrays, and return its results."""
    simulated = kernel if isinstance(kernel, Kernel | Absent) else Kernel(kernel, "simulation")
    return simulated(*args, **kwargs)
