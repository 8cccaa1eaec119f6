"""Run nki-library's tests of several ranks: each rank gets its own inputs, and the results of every
rank are compared.

The suite's simulation mode launches a kernel once, with one dict of inputs; its validator can
already compare the files of each rank. For tests with several ranks, `install` replaces that launch
by a launch on all ranks. Some tests have an expected result only for rank 0, and two tests only
have a placeholder. Then the results of all ranks are compared with it.

With NKI_LIBRARY_ORDERS=n the ranks start in n orders, which must give equal bits. With
NKI_LIBRARY_FLOAT64=1 the expected results are compared with values that neuroncore computes in
float64 (neuroncore.core.precision). If a test passes only in this way, the reason for its failure
is that the kernel rounds more often than the expected result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import nki_cpu_simulator
import numpy as np
from test.utils import common_dataclasses as suite
from test.utils.exceptions import InferenceException
from test.utils.test_orchestrator import Orchestrator

from neuroncore.frontend.settings import settings, verifies

ORDERS = int(os.environ.get("NKI_LIBRARY_ORDERS", "1"))
FLOAT64 = os.environ.get("NKI_LIBRARY_FLOAT64") == "1"


class Unlike(AssertionError):
    """The results have other bits if the ranks start in another order."""


def install() -> None:
    usual = Orchestrator._run_simulator_inference

    def inferred(self: Any, test: Any) -> Any:
        if test.inference_args.collective_ranks <= 1:
            return usual(self, test)
        try:
            return _inferred(Path(self.fs_config.artifacts_output_directory_path), test)
        except Exception as error:
            raise InferenceException(str(error)) from error

    Orchestrator._run_simulator_inference = inferred  # type: ignore[method-assign]


def _inferred(folder: Path, test: Any) -> str:
    """Run a test's kernel on all its ranks, and write the results. Return the folder in which the
    validator looks for them."""
    ranks = range(test.inference_args.collective_ranks)
    generation = test.compiler_input.platform_target.get_nc_gen()
    target = nki_cpu_simulator.TARGETS.get(generation, generation)
    results = _results(test, target)
    golden = _of_each_rank(test)
    test.validation_args.golden_output = suite.PerRankLazyGoldenGenerator(golden)
    made = folder / suite.INF_ARTIFACT_DIR_NAME
    for rank, outputs in zip(ranks, results, strict=True):
        own = made / f"output_worker_{rank}"
        own.mkdir(parents=True, exist_ok=True)
        for (name, wanted), output in zip(golden(rank_id=rank).items(), outputs, strict=True):
            np.asarray(output).astype(wanted.dtype).tofile(own / f"{name}.bin")
    return str(made)


def _results(test: Any, target: str) -> list[list[Any]]:
    """Return the results of the kernel, rank by rank. Raise Unlike if they depend on the order in
    which the ranks start."""
    found: list[list[Any]] = []
    for turns in range(ORDERS):
        asked = {"turns": turns, "record": verifies(), "precision": FLOAT64}
        options = replace(nki_cpu_simulator.OPTIONS, **asked)
        kernel = nki_cpu_simulator.Simulation(test.kernel_func).kernel
        cores = test.compiler_input.logical_nc_config
        nki_cpu_simulator.raised = None
        try:
            with settings(target, options):
                launches = kernel[cores].on_ranks([((), one) for one in _inputs(test)])
        except Exception as error:
            nki_cpu_simulator.raised = error
            raise
        outputs = _in_float64(launches) if FLOAT64 else [_listed(one.outputs) for one in launches]
        if found and not _same(found, outputs):
            raise Unlike(f"with turns={turns}, the results have other bits than with turns=0")
        found = outputs
    return found


def _in_float64(launches: list[Any]) -> list[list[Any]]:
    """Return the float64 values of each rank's results, rounded to float32, which numpy can convert
    to any format."""
    found = [result.exact.astype(np.float32) for result in launches[0].precision.results]
    # for each rank: its results, and then the arguments that it wrote
    each = len(found) // len(launches)
    return [found[n * each :][: len(_listed(one.outputs))] for n, one in enumerate(launches)]


def _inputs(test: Any) -> list[dict[str, Any]]:
    """Return copies of the arguments of each rank. The expected results are computed later from the
    original arrays."""
    given, copies = test.kernel_input, {}

    def own(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return copies.setdefault(id(value), (value, value.copy()))[1]

    found = []
    for rank in range(test.inference_args.collective_ranks):
        named = given if isinstance(given, dict) else given.for_rank(rank)
        found.append({n.removesuffix(".must_alias_input"): own(v) for n, v in named.items()})
    return found


def _exchanged(test: Any, rank: int) -> dict[str, Any]:
    """Return the expected result of a rank: piece `rank` of the input from each of the ranks, which
    all have the same input. The suite has an expected result only for rank 0."""
    count = test.inference_args.collective_ranks
    piece = np.split(test.kernel_input["input"], count)[rank]
    return {"out": np.tile(piece, (count, 1))}


# kernels whose results differ by rank, while the suite has one result
DIFFERENT = {"all_to_all_hbm_kernel": _exchanged}


def _of_each_rank(test: Any) -> Callable[..., dict[str, Any]]:
    """Return a function from the number of a rank to its expected results."""
    golden, name = test.validation_args.golden_output, test.kernel_func.__name__
    if name in DIFFERENT:
        return lambda rank_id: DIFFERENT[name](test, rank_id)
    if isinstance(golden, suite.PerRankLazyGoldenGenerator):
        return golden.for_rank
    if isinstance(golden, suite.LazyGoldenGenerator):
        same = golden.golden or golden.output_ndarray
    else:
        same = golden
    return lambda rank_id: same


def _listed(outputs: Any) -> list[Any]:
    if outputs is None:
        return []
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


def _same(one: list[list[Any]], other: list[list[Any]]) -> bool:
    pairs = zip(chain(*one), chain(*other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
