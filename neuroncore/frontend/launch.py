"""Runs a kernel: converts its arguments, runs it on one or several cores, and converts its results.
This also works inside functions that jax traces, such as functions under jax.jit."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuroncore.base.errors import NeuronError, SignatureError, UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.options import DISABLE_DGE, Options, assumptions, order_of
from neuroncore.base.progress import progress
from neuroncore.base.units import either, plural
from neuroncore.core import undefined
from neuroncore.core.core import Core, launch_memory, on
from neuroncore.core.system import System, cores_together
from neuroncore.frontend import outcome
from neuroncore.frontend.arguments import Arguments, separated
from neuroncore.frontend.outcome import Inputs, warn
from neuroncore.frontend.outcome import Launch as Launch
from neuroncore.frontend.outcome import NeuronWarning as NeuronWarning
from neuroncore.frontend.settings import (
    current_settings,
    environment_options,
    notify,
    target_machine,
    unobserved,
    verifies,
)
from neuroncore.machine import Machine, runtime
from neuroncore.machine import instance as instances
from neuroncore.machine.world import World, check_size
from neuroncore.memory.tile import Tile
from neuroncore.record.program import Order

if TYPE_CHECKING:
    from neuroncore.core.precision import findings
    from neuroncore.core.precision import shadow as shadows
    from neuroncore.core.precision import watch as watches
    from neuroncore.core.precision.findings import Precision
    from neuroncore.frontend import misuse, verifying
else:
    misuse = Lazy("neuroncore.frontend.misuse")
    verifying = Lazy("neuroncore.frontend.verifying")
    findings = Lazy("neuroncore.core.precision.findings")
    shadows = Lazy("neuroncore.core.precision.shadow")
    watches = Lazy("neuroncore.core.precision.watch")


def launch(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    tensor: type[Tile],
    order: Order = "scheduled",
    flags: Sequence[str] | None = None,
    grid: tuple[int, ...] = (),
    target: str | None = None,
    options: Options | None = None,
    programs: Sequence[Sequence[int]] | None = None,
    finished: Callable[[], Any] | None = None,
) -> Launch:
    """Run a kernel function on one core, or the programs of a grid on one or several cores.

    `programs` lists, for each core, the programs of the grid that the core runs in sequence. By
    default each program has a separate core (nki/get-started/about/lnc.rst). On machines with
    logical cores, two cores form a logical core and can synchronize. More than two cores run one
    after the other.

    `finished` is called at the end of each program. `order` names the way in which the dialect's
    compiler orders instructions, for the estimate of time. `Options.order` overrides `order`.
    `flags` are the compiler's flags, or None for a dialect without flags.

    Arrays become tensors of type `tensor` in HBM; contiguous arrays are not copied. After the run
    the caller's arrays contain what the kernel wrote. Returned tensors become arrays of numpy, or
    of torch or jax if an argument was an array of that library."""
    current = current_settings()
    shares = [[rank] for rank in range(prod(grid))] if programs is None else programs
    options = options or current.options or environment_options()
    machine = target_machine(target)
    cores = _cores(machine, options, grid, World(cores=len(shares)))
    _set_order(cores, order, flags, options)
    if programs is None:
        _check_cores(cores)
    precision = _precision(cores)
    if current.observer is not None:
        current.observer.begun(cores[0])
    rank = _Rank(cores, function, (tuple(args), kwargs or {}), Way(tensor, shares, finished))
    with _ending(cores):
        with progress(lambda: issued(cores[0])):
            rank.ends(_on_all(cores, rank.program, options.turns))
        if precision is not None:
            precision.close(rank.outputs(), _findings(cores))
        return _closed([rank], precision)[0]


@contextmanager
def _ending(cores: Sequence[Core]) -> Iterator[None]:
    """A context manager for the run of a launch: after it, instructions refuse its tensors."""
    try:
        yield
    finally:
        for core in cores:
            core.hbm.end()


def issued(core: Core | None) -> str:
    """Return the number of instructions that the launch on a core has issued, as text: "2
    instructions"."""
    program = core.program if core is not None else None
    return plural(program.issued if program is not None else 0, "instruction")


def launch_ranks(
    function: Callable[..., Any],
    per_rank: Sequence[Arguments],
    way: Way,
    *,
    order: Order = "scheduled",
    flags: Sequence[str] | None = None,
    grid: tuple[int, ...] = (),
    target: str | None = None,
    options: Options | None = None,
    instance: str | None = None,
) -> list[Launch]:
    """Run a kernel function on several ranks together, and return the launches, rank by rank. Each
    rank has its own arguments and HBM, and one core for each entry of `way.shares`.

    If several ranks are passed the same array, each gets a copy. `instance` is by default the
    largest one with chips of the target. Raises UsageError if the machine or the instance is too
    small."""
    current = current_settings()
    options = options or current.options or environment_options()
    where = None if instance is None else instances.find(instance)
    target = target or current.target or (where.chip.machine if where else None)
    machine = target_machine(target)
    world = World(len(per_rank), len(way.shares), where.name if where else None)
    _check_world(world, machine, where)
    cores = _cores(machine, options, grid, world)
    _check_ranks(cores[0], where)
    _set_order(cores, order, flags, options)
    precision = _precision(cores)
    if current.observer is not None:
        current.observer.begun(cores[0])
    ranks = [
        _Rank([cores[n] for n in world.cores_of(rank)], function, arguments, way)
        for rank, arguments in enumerate(separated(per_rank))
    ]
    with _ending(cores):
        with progress(lambda: issued(cores[0])):
            system = System(cores, world, options.turns)
            returned = system.run(lambda core: ranks[core.rank].program(core))
        for number, rank in enumerate(ranks):
            rank.ends([returned[n] for n in world.cores_of(number)])
        if precision is not None:
            precision.close([tile for rank in ranks for tile in rank.outputs()], _findings(cores))
        return _closed(ranks, precision)


def _closed(ranks: Sequence[_Rank], precision: Precision | None) -> list[Launch]:
    """Return the finished launches of all ranks. If the settings require it, compare them with the
    plain reading, a second implementation of all instructions."""
    launches = [rank.close(precision) for rank in ranks]
    if verifies():
        verifying.verify(launches)
    return launches


def _check_world(world: World, machine: Machine, where: instances.Instance | None) -> None:
    """Raise UsageError if `world` can't run on the machine or on the instance `where`:

    * the instance has cores of another machine, or too few ranks
    * `world` has no rank, or too many cores (`check_size`)
    * the machine has too few cores per rank"""
    if where is not None and where.chip.machine != machine.name:
        raise UsageError(f"{where.name} has cores of {where.chip.machine}, not {machine.name}")
    if where is not None and world.ranks > (room := where.ranks(world.cores)):
        there = f"{plural(room, 'rank')} of {plural(world.cores, 'core')}"
        raise UsageError(f"{where.name} has {there}, not {world.ranks}")
    if world.ranks < 1:
        raise UsageError(f"a kernel runs on at least one rank, not on {world.ranks}")
    if world.cores > cores_together(machine):
        most = plural(cores_together(machine), "core")
        raise UsageError(f"a rank of {machine.name} has at most {most}, not {world.cores}")
    check_size(world.ranks, world.cores)


class Way(NamedTuple):
    """How the kernels of a dialect run. `tensor` is the type of their tensors. `shares` lists, for
    each core of a rank, the programs of the grid that the core runs in sequence. `finished` is
    called at the end of each program."""

    tensor: type[Tile]
    shares: Sequence[Sequence[int]]
    finished: Callable[[], Any] | None = None


class _Rank:
    """A kernel on the cores of one rank, with its arguments and its result."""

    def __init__(
        self, cores: list[Core], function: Callable[..., Any], arguments: Arguments, way: Way
    ) -> None:
        self.cores, self.function, self.way = cores, function, way
        self.args, self.kwargs = arguments
        current = current_settings()
        keeps = current.keeps or verifies()
        self.inputs = Inputs(cores, way.tensor, keeps, current.originals)
        self.names = _names(function, self.args)
        self.result: Any = None

    def program(self, core: Core) -> Any:
        """Run the kernel's programs on one core. Return the result of the first program."""
        share = self.way.shares[self.cores.index(core)]
        first, *_ = [self._one_program(core, program) for program in share]
        core.packs.clear()
        return core.returns(first)

    def _one_program(self, core: Core, program: int) -> Any:
        core.begin(program)
        enter = self.inputs.enter
        tensors = [enter(v, n) for v, n in zip(self.args, self.names, strict=True)]
        named = {name: enter(value, name) for name, value in self.kwargs.items()}
        result = call_kernel(self.function, tensors, named)
        _refuse_lazy(self.function, result)
        if self.way.finished is not None:
            self.way.finished()
        return result

    def ends(self, returned: Sequence[Any]) -> None:
        """Combine and check the results of all cores, after the kernel has returned on each core.
        The rank's result is the result of the first core, plus the elements that other cores
        wrote."""
        self.result, *others = returned
        for other in others:
            _complete(self.result, other)
        outcome.check(self.function, self.result, self.cores, self.inputs)
        outcome.check_iterations(self.cores)
        outcome.check_constants(self.cores)

    def outputs(self) -> list[Tile]:
        """Return the tensors that the kernel returns, followed by the arguments that it changed."""
        return self.inputs.outputs(self.result)

    def close(self, precision: Precision | None) -> Launch:
        """Copy changes to the caller's arrays, and return the finished launch."""
        return Launch(
            kernel=getattr(self.function, "__name__", "kernel"),
            outputs=self.inputs.close(self.result),
            cores=self.cores,
            programs=self.way.shares,
            arguments=tuple(self.args),
            findings=_findings(self.cores),
            precision=precision,
            inputs=tuple(self.inputs.entered),
            named=dict(self.kwargs),
            given=self.inputs.kept,
        )


def _set_order(
    cores: list[Core], order: Order, flags: Sequence[str] | None, options: Options
) -> None:
    """Store in each core's record how its program is scheduled: the order of instructions, the
    compiler's flags, and the options `clock_phase`, `loads`, `assume` and `descriptors`.

    Without the flag DISABLE_DGE the older API's compiler leaves DMA descriptors to the device."""
    for core in cores:
        if core.program is not None:
            core.program.order = options.order or order_of(order, options.launch)
            core.program.flags = tuple(flags or ())
            core.program.dge = flags is not None and DISABLE_DGE not in flags
            core.program.software = options.descriptors == "software"
            core.program.loads = options.loads
            core.program.assume = assumptions(options.assume)
            core.program.clock_phase = options.clock_phase


def _check_ranks(core: Core, where: instances.Instance | None) -> None:
    """Report a launch if the runtime may refuse its number of ranks. The runtime accepts documented
    numbers, and all ranks of an instance."""
    world, limits = core.world, runtime.world_limits()
    whole = where is not None and world.ranks == where.ranks(world.cores)
    if not limits.allow(world.ranks) and not whole:
        core.report(
            "WORLD_SIZE",
            f"the launch has {world.ranks} ranks, but the runtime is known to accept only "
            f"{either(limits.ranks)} ranks, a multiple of {limits.multiple}, or all ranks of an "
            "instance",
        )


def _check_cores(cores: list[Core]) -> None:
    """Report a launch on more cores than a logical core has. The device refuses such a launch
    (nki/get-started/about/lnc.rst)."""
    machine, most = cores[0].machine, cores_together(cores[0].machine)
    if len(cores) > most:
        cores[0].report(
            "GRID_SIZE",
            f"a launch grid of {cores[0].grid} needs {len(cores)} cores; {machine.name} runs a "
            f"kernel on at most {most}. neuroncore runs the programs of the grid one after "
            "another, each on a separate core; the device refuses the launch",
        )


def _on_all(cores: list[Core], program: Callable[[Core], Any], turns: int) -> list[Any]:
    """Run a program on each core, and return the results. The cores of a logical core run together,
    in an order with the seed `turns`. If there are more cores, all run one after another."""
    if 1 < len(cores) <= cores_together(cores[0].machine):
        return System(cores, cores[0].world, turns).run(program)
    return [_on_one(core, program) for core in cores]


def _on_one(core: Core, program: Callable[[Core], Any]) -> Any:
    with on(core):
        return program(core)


def call_kernel(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a kernel function, and return its result. A Python error about the use of neuroncore
    becomes a NeuronError."""
    try:
        return function(*args, **kwargs)
    except misuse.WRONG as error:
        if (
            not isinstance(error, NeuronError)
            and (explained := misuse.explanation(error)) is not None
        ):
            raise explained from explained.__cause__
        raise


def _refuse_lazy(function: Callable[..., Any], result: Any) -> None:
    """Raise SignatureError if a kernel is a generator or an async function."""
    because = hint = kind = ""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        kind, hint = "a generator", "return the results instead of yielding them"
        because = "the device runs a kernel from its first line to its last"
    elif inspect.iscoroutine(result):
        result.close()  # otherwise Python warns that nothing awaits it
        kind, hint = "an async function", "remove the word async from the definition"
        because = "a kernel has nothing to await"
    if kind:
        error = SignatureError(f"{outcome.name_of(function)} is {kind}", because=because, hint=hint)
        raise outcome.at_return(function, error)


def _findings(cores: list[Core]) -> list[Finding]:
    return [finding for core in cores for finding in core.findings]


def _cores(machine: Machine, options: Options, grid: tuple[int, ...], world: World) -> list[Core]:
    """Return the cores of a launch, rank by rank; the cores of a rank share HBM."""
    cores = []
    for rank in range(world.ranks):
        shared = launch_memory(options, rank)
        for number in world.cores_of(rank):
            program = world.core(number)
            core = Core(machine, options, program, grid, shared, number=number, world=world)
            cores.append(core)
    for core in cores:
        core.defers_undefined = True
        core.watch = watches.Watch(core) if not options.precision else None
    return cores


def _precision(cores: list[Core]) -> Precision | None:
    """If Options.precision is set, let the cores compute in float64 too, and return the object that
    collects numeric errors. Otherwise return None."""
    options = cores[0].options
    if not options.precision:
        return None
    precision = findings.Precision(options.precision_bound)
    for core in cores:
        core.shadow = shadows.Shadow(core, precision)
    return precision


def finish(run: Launch) -> Any:
    """Report a run to its observer. If there is no observer, warn about the findings of the run.
    Return the outputs."""
    if not notify(run):
        warn(run.findings)
    return run.outputs


def _names(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """Return the parameter name of each positional argument: "" for arguments after the last
    parameter."""
    if isinstance(function, FunctionType) and not function.__dict__:  # it wraps no other function
        code = function.__code__
        names = list(code.co_varnames[: code.co_argcount])
    else:
        parameters = inspect.signature(function).parameters.values()
        positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [p.name for p in parameters if p.kind in positional]
    return [*names, *[""] * len(args)][: len(args)]


def _complete(result: Any, other: Any) -> None:
    """Copy the elements that another core wrote from that core's result, `other`, to `result`. With
    Options.precision also copy their float64 values."""
    for mine, theirs, copied in undefined.complete(result, other):
        mine_exact, double = mine.storage.float64, theirs.storage.float64
        if mine_exact is not None and double is not None:
            exact = findings.on(double.storage, theirs).codes()
            findings.on(mine_exact.storage, mine).codes()[copied] = exact[copied]
            findings.add(mine_exact.energy, double.energy)


def is_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an argument is a value of a graph that jax is building."""
    jax = sys.modules.get("jax")
    return jax is not None and any(_is_tracer(x) for x in jax.tree.leaves((args, kwargs)))


def in_graph(kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the results of a kernel as values of jax's graph, which launches it whenever it runs.

    The kernel is first launched on zeros to find the shapes of the results. This launch is not
    reported."""
    jax: Any = sys.modules["jax"]
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if _is_tracer(leaf)]

    def launched(*values: Any) -> Any:
        known = dict(zip(places, map(np.asarray, values), strict=True))
        positional, named = jax.tree.unflatten(
            tree, [known.get(i, x) for i, x in enumerate(leaves)]
        )
        return kernel(*positional, **named)

    tracers = [leaves[i] for i in places]
    with unobserved():
        results = launched(*(np.zeros(tracer.shape, tracer.dtype) for tracer in tracers))
    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), results)
    return jax.pure_callback(launched, shapes, *tracers)


def _is_tracer(value: Any) -> bool:
    return isinstance(value, sys.modules["jax"].core.Tracer)
