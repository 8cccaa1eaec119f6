"""Drivers of the candidates of a search for NKIBench's operators. The author verified them on
trn2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from published import loaded

from drivers.driver import DIFFERS, Checkout, Fault, Result, drives

SEARCHES, BENCHMARK = "Jerry2423/kda-for-trainium", "zhang677/AccelOpt"
NOT_KERNELS = ("offline_", "_layout_")
POSITIONAL = Fault(
    "SIGNATURE", "it passes the destination by position, which its next version corrects"
)
REPEATED = Fault("RESHAPE_VIEW", "its author records that the compiler refuses it (NCC_IBCG901)")
LOWERING = Fault("DTYPE_RULE", "its author records that the compiler fails on it (NCC_ISFV902)")
CALIBRATION = Fault(
    DIFFERS, "it only measures the error of bfloat16, which its author's test refuses"
)
FAULTS = {
    "mamba/mamba_v3b": REPEATED,
    "mamba/mamba_v3b_fallback": REPEATED,
    "bmm/bmm_probe_bf16_calib": CALIBRATION,
    "rmsnorm_matmul/rmsnorm_matmul_probe_bf16_calib": CALIBRATION,
    "rmsnorm_matmul/rmsnorm_matmul_probe_dmatranspose": POSITIONAL,
    "rmsnorm_matmul/rmsnorm_matmul_probe_dmatranspose_v2": LOWERING,
    "rmsnorm_matmul/rmsnorm_matmul_probe_nctranspose_vector": POSITIONAL,
}


def candidates(checkout: Checkout) -> tuple[str, ...]:
    """Return the names OPERATOR/CANDIDATE of all candidates. Files that only simulate or check a
    layout are left out."""
    files = sorted((checkout.root / "workspaces").glob("*/runs/*.py"))
    kernels = [file for file in files if not file.stem.startswith(NOT_KERNELS)]
    return tuple(f"{file.parts[-3]}/{file.stem}" for file in kernels)


@drives(SEARCHES, each=candidates, faults=FAULTS)
def candidate(checkout: Checkout, name: str) -> Iterator[Result]:
    operator, _, stem = name.partition("/")
    folder = checkout.root.parent / BENCHMARK.replace("/", "+") / "NKIBench/reference"
    reference = loaded(next(folder.glob(f"{operator}_[A-Z]*.py")))
    np.random.seed(0)  # the random generator of get_inputs
    inputs = reference.get_inputs()
    wanted = reference.forward(*inputs)
    module = checkout.module(f"workspaces/{operator}/runs/{stem}.py")
    kernel = module.kernel if hasattr(module, "kernel") else module.optimized_kernel
    got = kernel(*reference.transform_to_nki_inputs(inputs))
    results = reference.transform_nki_outputs(got, wanted)
    references = wanted if isinstance(wanted, tuple) else (wanted,)
    allowed = 3e-5 if operator == "mamba" else 2e-5  # AccelOpt's tolerances
    for number, (result, want) in enumerate(zip(results, references, strict=True)):
        yield Result(f"result {number}", np.reshape(result, np.shape(want)), want, allowed)
