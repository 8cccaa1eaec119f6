"""Run kernels that were published for both APIs, on equal inputs for the same machine, and compare
them.

    python bench/conformance/pairs.py OLDER_SDK SDK AUTOCOMP [-k SUBSTR] [--json]

OLDER_SDK is a checkout of aws-neuron-sdk with the folder `general/nki`, such as release 2.26. SDK
is a later checkout, with the folder `nki`. AUTOCOMP is a checkout of autocomp, which has harnesses
for kernels: each has a reference kernel and a published solution. A pair is an example that both
SDKs have, or the reference kernel or the solution of a harness that autocomp has for both APIs. If
the newer kernel adds in the same order, the results must have equal bits; otherwise they may differ
by rounding. Inputs are smaller than the inputs of the harnesses.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from autocomp import HERE, solved, tested
from outcome import Outcome, judged, options, run, told

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
BF16, FP32 = 2.0**-7, 1e-5
LOGITS = 0.15  # the older kernel rounds logits near 30 to bfloat16: exp(0.125) = 1.13


@dataclass(frozen=True)
class Pair:
    """`inputs` makes the arguments of the older kernel, and `for_newer` converts them to the
    arguments of the newer kernel. `allowed` is the largest allowed difference, relative to the
    largest magnitude."""

    inputs: Callable[[np.random.Generator], Inputs]
    allowed: float = 0.0
    for_newer: Callable[..., tuple[Any, ...]] = lambda *arguments: arguments
    machine: str = "trn1"


def of(*shapes: tuple[int, ...], dtype: Any = np.float32, **options: Any) -> Any:
    """Return a function that makes arrays of random numbers between 0 and 1, and keywords for the
    kernel."""
    return lambda rng: (tuple(rng.random(s, np.float32).astype(dtype) for s in shapes), options)


def followed(inputs: Any, *more: Any, **options: Any) -> Any:
    """Return a function that makes the arrays of `inputs`, followed by the constants `more`."""
    return lambda rng: ((*inputs(rng)[0], *more), options)


def around_zero(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return lambda rng: (tuple((rng.random(s) - 0.5).astype(dtype) for s in shapes), {})


def layer_norm_inputs(rng: np.random.Generator) -> Inputs:
    x, gamma, beta = of((256, 2048), (2048,), (2048,))(rng)[0]
    return (x, 1e-5, gamma, beta), {}


def mamba_inputs(rng: np.random.Generator) -> Inputs:
    delta, u, a, b, c = of((1, 256, 512), (1, 256, 512), (256, 16), (1, 16, 512), (1, 16, 512))(
        rng
    )[0]
    return (delta, u, -a, b, c), {}


def expanded(delta: Any, u: Any, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """Return the arguments with each row of b and c repeated 128 times."""
    return delta, u, a, np.repeat(b, 128, axis=1), np.repeat(c, 128, axis=1)


def causal(q: Any, k: Any, v: Any, *more: Any) -> tuple[Any, ...]:
    """Return the arguments with the causal mask, which the older kernel makes itself."""
    return q, k, v, np.tri(q.shape[-2], dtype=np.float32), *more


def block_inputs(rng: np.random.Generator) -> Inputs:
    q, k, v, before = of((128, 2048), (128, 2048), (128, 16, 128), (128, 130))(rng)[0]
    mask = np.tri(128, 2048, 5 * 128, dtype=bool)
    sizes = {"Q_TILE_SIZE": 128, "LARGE_KV_TILE_SIZE": 2048}
    return (q, k, v, before, ml_dtypes.bfloat16, np.float32, mask, 5), sizes


def conv2d_inputs(rng: np.random.Generator) -> Inputs:
    arguments = of((2, 128, 16, 16), (128, 128, 3, 3))(rng)[0]
    order = [0, 1, 2, 3]
    perms = {"in_perm": order, "kern_perm": order, "out_perm": order}
    return arguments, {
        "padding": ((1, 1), (1, 1)),
        "stride": (1, 1),
        "rhs_dilation": (1, 1),
        **perms,
    }


def filters_last(image: Any, filters: Any) -> tuple[Any, ...]:
    return image, np.ascontiguousarray(np.transpose(filters, (1, 2, 3, 0)))


ROWS = (128, 512)
PRODUCT = Pair(around_zero((1024, 2048), (1024, 1024), dtype=ml_dtypes.bfloat16))
BFLOAT16 = {"kernel_dtype": ml_dtypes.bfloat16, "acc_type": np.float32, "d_head": 128}
ADDITION = "tensor_addition/{}tensor_addition_nki_kernels.py:nki_tensor_add"
MATMUL = "matrix_multiplication/matrix_multiplication_nki_kernels.py:nki_matmul_{}_"
MAMBA = "fused_mamba/mamba_nki_kernels.py:mamba_v{}"

# FILE:KERNEL of the older SDK -> FILE:KERNEL of the newer SDK, or "" if they are equal
EXAMPLES = {
    ADDITION.format("spmd_"): ADDITION.format(""),
    "average_pool2d/average_pool2d_nki_kernels.py:tensor_avgpool_kernel": "",
    "transpose2d/transpose2d_nki_kernels.py:tensor_transpose2D_kernel_": "",
    **{MATMUL.format(n): "" for n in ("basic", "tiled", "hoist_load", "block_free_dimension")},
    MATMUL.format("fully_optimized"): "",
    **{MAMBA.format(n): "" for n in (1, 2, 3)},
    "getting_started_baremetal.py:nki_tensor_add_kernel": "",
    "layout-pass.py:tensor_exp_kernel_": "",
    "index-case-1.py:tensor_split_kernel_": "",
    "index-case-3.py:tensor_maxpool_kernel_": "",
}
PAIRS = {
    ADDITION.format("spmd_"): Pair(of((256, 1024), (256, 1024), dtype=np.float16)),
    "average_pool2d/average_pool2d_nki_kernels.py:tensor_avgpool_kernel": Pair(
        followed(of((2, 6, 6), dtype=np.float16), 2)
    ),
    "transpose2d/transpose2d_nki_kernels.py:tensor_transpose2D_kernel_": Pair(
        followed(of((5, 12)), (3, 4))
    ),
    MATMUL.format("basic"): Pair(around_zero((128, 64), (128, 512), dtype=ml_dtypes.bfloat16)),
    **{MATMUL.format(n): PRODUCT for n in ("tiled", "hoist_load", "block_free_dimension")},
    MATMUL.format("fully_optimized"): PRODUCT,
    **{MAMBA.format(n): Pair(mamba_inputs) for n in (1, 2, 3)},
    "getting_started_baremetal.py:nki_tensor_add_kernel": Pair(of((4, 3), (4, 3))),
    "layout-pass.py:tensor_exp_kernel_": Pair(of(ROWS)),
    "index-case-1.py:tensor_split_kernel_": Pair(of((4, 5))),
    "index-case-3.py:tensor_maxpool_kernel_": Pair(followed(of((2, 6, 6)), 2)),
    "trn-tutorial/0_rmsnorm_test": Pair(of((256, 2048), (2048,)), FP32),
    "trn-tutorial/1_layernorm_test": Pair(layer_norm_inputs, FP32),
    "trn-tutorial/2_gemm_test": PRODUCT,
    "trn-tutorial/3_mamba_test": Pair(mamba_inputs, for_newer=expanded),
    "trn-tutorial/4_attention_test": Pair(
        around_zero((128, 1024), (128, 1024), (128, 1024), dtype=ml_dtypes.bfloat16)
    ),
    "trn-tutorial/5_sdattention_test": Pair(of((1024, 64), (1024, 64), (1024, 64)), BF16),
    "trn-advanced/0_cumsum_test": Pair(of((256, 1024))),
    "trn-advanced/1_transpose_test": Pair(followed(of((8, 256, 128)), 1)),
    "trn-advanced/2_maxpool_test": Pair(followed(of((256, 300)), 3)),
    "trn-advanced/3_rope_test": Pair(of((128, 1024), (64, 1024), (64, 1024))),
    "trn-advanced/4_conv1d_test": Pair(
        of((1, 256, 1, 128), (256, 1, 1, 3), padding=((0, 0), (1, 1)))
    ),
    "trn-advanced/5_conv2d_test": Pair(conv2d_inputs, FP32, filters_last),
    "trn-advanced/6_csa_2048_test": Pair(
        of((2048, 128), (128, 2048), (2048, 128), seq_len=2048, **BFLOAT16), LOGITS, causal
    ),
    "trn-advanced/7_csa_16384": Pair(block_inputs, BF16),
}
# examples that both SDKs have, but that can't be compared, with the reason
UNPAIRED = {
    "layout-loop.py": "the newer file uses i_f, which it doesn't define",
    "layout-dynamic-loop.py": "the newer file is not Python: a parenthesis is never closed",
    "layout-violation.py": "published to be refused",
    "trn-advanced/8_mha_test": "the older kernel multiplies queries that it hasn't transposed",
    "getting_started_jax.py": "the kernel of getting_started_baremetal.py",
    "getting_started_torch.py": "the kernel of getting_started_baremetal.py",
}


def case(name: str, key: str, older: str, newer: str, seconds: float, gigabytes: float) -> Outcome:
    """Run a pair and return the outcome. `older` and `newer` are FILE:KERNEL."""
    finished = run(
        [sys.executable, str(HERE / "pair.py"), *older.split(":"), *newer.split(":"), key],
        seconds=seconds,
        gigabytes=gigabytes,
        env={"NEURON_PLATFORM_TARGET_OVERRIDE": PAIRS[key].machine},
    )
    return judged(name, finished, [x for x in finished.stdout.splitlines() if "largest" in x])


def examples(older: Path, newer: Path) -> Iterator[tuple[str, str, str, str]]:
    for key, other in EXAMPLES.items():
        yield key, key, f"{older / key}", f"{newer / (other or key)}"


def harnesses(autocomp: Path, scratch: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield the pairs of autocomp's harnesses: a name, a key of PAIRS, and FILE:KERNEL for both
    APIs. In the files, the solution with the harness's number replaces the mark for a solution."""
    for key in (key for key in PAIRS if key.startswith("trn-")):
        suite, _, stem = key.partition("/")
        files, kernels = [], []
        for api in ("nki1", "nki2"):
            source = (autocomp / "harnesses" / f"{suite}-{api}" / f"{stem}.py").read_text()
            number = stem.partition("_")[0]
            (solution,) = (autocomp / "sols" / f"{suite}-{api}").glob(f"{number}_*.py")
            files.append(scratch / f"{suite}_{stem}_{api}.py")
            files[-1].write_text(solved(source, solution.read_text()).rpartition("\nassert")[0])
            kernels.append(tested(source).groups())
        for which, (a, b) in zip(
            ("reference", "solution"), zip(*kernels, strict=True), strict=True
        ):
            yield f"{key} {which}", key, f"{files[0]}:{a}", f"{files[1]}:{b}"


def outcomes(given: Any) -> Iterator[Outcome]:
    older, newer = given.older_sdk / "general/nki/examples", given.sdk / "nki/examples"
    with tempfile.TemporaryDirectory() as scratch:
        for name, key, a, b in (
            *examples(older, newer),
            *harnesses(given.autocomp, Path(scratch)),
        ):
            if given.k in name:
                yield case(name, key, a, b, given.timeout, given.memory)
    for name, reason in UNPAIRED.items():
        if given.k in name:
            yield Outcome(name, "skipped", reason)


def main() -> int:
    given = options(__doc__, "older_sdk", "sdk", "autocomp").parse_args()
    return told("pairs of kernels in both APIs", outcomes(given), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
