"""Run the unmodified scripts of aws-neuron-sdk, nki-samples, nki-moe and CS149, and compare every
launch with numpy.

    python bench/conformance/scripts.py CHECKOUTS [-k SUBSTR] [--json]

CHECKOUTS is a folder with the checkouts `aws-neuron-sdk`, `nki-samples`, `nki-samples-legacy` (an
older commit, with tutorials that were removed later) and `nki-moe`. `asst4-trainium` and
`asst4-trainium2` are the fourth assignment of CS149, whose vectors are shorter here. A script runs
in a copy of its folder, because some scripts write files next to themselves. It must end with exit
code 0 and must not print that something differs. Every kernel that it launches must agree with its
reference in TABLES, because several scripts print numbers and assert nothing. One script was
published to show an error, and must be refused. Scripts that use torch need it; neuroncore's
stand-in replaces torch_xla.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import references as ref
from held import Reference
from outcome import Outcome, Task, judged, options, run, together, told

HERE = Path(__file__).parent
DISAGREES = re.compile(
    r"\bdiffer\b|\bFAIL(?:ED|URE)?\b|(?:pass|passed|matches|close)[?:] +False|mismatch"
)


@dataclass(frozen=True)
class Script:
    """A script. `refused` is the code of the error that the script shows. `driver` is a file of
    this folder that is run in place of the script."""

    name: str
    file: str
    table: str = ""
    arguments: tuple[str, ...] = ()
    target: str = "trn2"
    refused: str = ""
    driver: str = ""


SDK, MX = "aws-neuron-sdk/nki/examples/", "aws-neuron-sdk/nki/deep-dives/src/mxfp-matmul/"
MAMBA = ("--version", "v1", "v2", "v3")
ACCURATE = ("--mode", "accuracy", *MAMBA)
TUTORIALS = "src/nki_samples/tutorials/"
NOW, THEN = "nki-samples/" + TUTORIALS, "nki-samples-legacy/" + TUTORIALS
CONTRIBUTED, ADD, POOL = (
    "nki-samples/contributed/",
    NOW + "tensor_addition/",
    NOW + "average_pool2d/",
)
SEVERAL, SD = "spmd_multiple_nc_tensor_addition_", "sd_attention/"
LAYERNORM, MATMUL_TORCH = "layernorm/layernorm_torch.py", "matrix_multiplication_torch.py"
ATTENTION = NOW + "attention_fwd_performance/test_attention.py"
VERSIONS = ("v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v8a", "v9", "v10", "v11")
FIRST = "asst4-trainium/part1/vec_add.py"
SECOND = "asst4-trainium2/part1/run_benchmark.py"
BF16 = 2.0**-7  # tolerance for kernels that round intermediate values
SCRIPTS = [
    Script("sdk/simulate_example", SDK + "simulate/nki_simulate_example.py", "simulate"),
    Script("sdk/getting_started_baremetal", SDK + "getting_started_baremetal.py", "add"),
    Script("sdk/getting_started_torch", SDK + "getting_started_torch.py", "add"),
    Script("sdk/index-case-1", SDK + "index-case-1.py", "split"),
    Script("sdk/index-case-3", SDK + "index-case-3.py", "maxpool"),
    Script("sdk/layout-pass", SDK + "layout-pass.py", "exp"),
    Script("sdk/layout-violation", SDK + "layout-violation.py", "exp", refused="PARTITION_LIMIT"),
    Script("sdk/average_pool2d_nki", SDK + "average_pool2d/average_pool2d_nki_kernels.py", "mean"),
    Script("sdk/average_pool2d_torch", SDK + "average_pool2d/average_pool2d_torch.py", "mean"),
    Script("sdk/transpose2d_nki", SDK + "transpose2d/transpose2d_nki_kernels.py", "transpose"),
    Script("sdk/transpose2d_torch", SDK + "transpose2d/transpose2d_torch.py", "transpose"),
    Script("sdk/mamba_nki", SDK + "fused_mamba/mamba_nki_kernels.py", "mamba", MAMBA),
    Script("sdk/mamba_torch", SDK + "fused_mamba/mamba_torch.py", "mamba v1"),
    Script("sdk/matmul_torch", SDK + "matrix_multiplication/matrix_multiplication_torch.py", "mm"),
    Script("sdk/mxfp-matmul", MX + "mx_toplevel.py", "mxfp", target="trn3"),
    Script("samples/tensor_addition_nki", ADD + "tensor_addition_nki_kernels.py", "add_"),
    Script("samples/tensor_addition_torch", ADD + "tensor_addition_torch.py", "add_"),
    Script("samples/spmd_nki", ADD + "spmd_tensor_addition_nki_kernels.py", "add_"),
    Script("samples/spmd_torch", ADD + "spmd_tensor_addition_torch.py", "add_"),
    Script("samples/spmd_multiple_nc_nki", ADD + SEVERAL + "nki_kernels.py", "add_"),
    Script("samples/spmd_multiple_nc_torch", ADD + SEVERAL + "torch.py", "add_"),
    Script("samples/transpose2d_nki", NOW + "transpose2d/transpose2d_nki_kernels.py", "transpose"),
    Script("samples/transpose2d_torch", NOW + "transpose2d/transpose2d_torch.py", "transpose"),
    Script("samples/average_pool2d_nki", POOL + "average_pool2d_nki_kernels.py", "mean"),
    Script("samples/average_pool2d_torch", POOL + "average_pool2d_torch.py", "mean"),
    Script("samples/mamba_nki", NOW + "fused_mamba/mamba_nki_kernels.py", "mamba", ACCURATE),
    Script("samples/mamba_torch", NOW + "fused_mamba/mamba_torch.py", "mamba v1", ACCURATE[:2]),
    Script("samples/matmul_torch", NOW + "matrix_multiplication/" + MATMUL_TORCH, "mm"),
    Script("samples/mxfp-matmul", NOW + "mxfp-matmul/mx_toplevel.py", "mx", target="trn3"),
    *(
        Script(f"samples/attention_{v}", ATTENTION, v, (v,), driver="attention_tutorial.py")
        for v in VERSIONS
    ),
    Script("samples/contributed/matmul", CONTRIBUTED + "matmul.py", "matmul"),
    Script("samples/contributed/maxpooling", CONTRIBUTED + "maxpooling.py", "sliding"),
    Script("samples/contributed/bilinear", CONTRIBUTED + "interpolate_bilinear_fwd.py", "bilinear"),
    Script("samples/contributed/trilinear", CONTRIBUTED + "interpolate_trilinear_fwd.py", "tri"),
    Script("samples/contributed/attention", CONTRIBUTED + "pipelined_attention.py", "pipelined"),
    Script("samples-old/layernorm_v1", THEN + LAYERNORM, "layernorm v1", ("--version", "v1")),
    Script("samples-old/layernorm_v2", THEN + LAYERNORM, "layernorm v2", ("--version", "v2")),
    Script("samples-old/rmsnorm_torch", THEN + "rmsnorm/rmsnorm_torch.py", "rmsnorm"),
    Script("samples-old/rmsnorm_nki", THEN + "rmsnorm/rmsnorm_nki_kernels.py", "rmsnorm"),
    Script("samples-old/sd_attention_nki", THEN + SD + "sd_attention_nki_kernels.py", "sd"),
    Script("samples-old/sd_attention_torch", THEN + SD + "sd_attention_torch.py", "sd"),
    Script("samples-old/matmul_torch", THEN + "matrix_multiplication/" + MATMUL_TORCH, "mm"),
    Script("samples-old/softmax_torch", THEN + "softmax/softmax_torch.py", "softmax"),
    Script("nki-moe/rmsnorm", "nki-moe/nki_custom_rmsnorm.py", "rmsnorm"),
    Script("nki-moe/tensor_add", "nki-moe/nki_tensor_add_example.py", "add"),
    Script("cs149-2024/naive", FIRST, "naive", ("--kernel", "naive", "--size", "128")),
    Script("cs149-2024/tiled", FIRST, "tiled", ("--kernel", "tiled", "--size", "640")),
    Script("cs149-2024/stream", FIRST, "stream", ("--kernel", "stream", "--size", "6400")),
    Script("cs149-2024/alloc", FIRST, "alloc", ("--kernel", "alloc", "--size", "640000")),
    Script("cs149-2025/naive", SECOND, "naive", ("--kernel", "naive", "-n", "128")),
    Script("cs149-2025/tiled", SECOND, "tiled", ("--kernel", "tiled", "-n", "640")),
    Script("cs149-2025/stream", SECOND, "stream", ("--kernel", "stream", "-n", "6400")),
]
MATMULS = ("basic", "tiled", "hoist_load", "block_free_dimension", "fully_optimized")
TABLES = {
    "simulate": {"add_kernel": Reference(ref.add)},
    "add": {"nki_tensor_add_kernel": Reference(ref.add)},
    "split": {"tensor_split_kernel_": Reference(ref.even_and_odd_columns, 0.0)},
    "maxpool": {"tensor_maxpool_kernel_": Reference(ref.pooled_max, 0.0)},
    "exp": {"tensor_exp_kernel_": Reference(ref.exponential)},
    "mean": {"tensor_avgpool_kernel": Reference(ref.pooled_mean)},
    "transpose": {"tensor_transpose2D_kernel_": Reference(ref.rows_transposed, 0.0)},
    "mamba": {f"mamba_{version}": Reference(ref.mamba) for version in MAMBA[1:]},
    "mamba v1": {"mamba_v1": Reference(ref.mamba)},
    "mm": {f"nki_matmul_{name}_": Reference(ref.product) for name in MATMULS},
    "mxfp": {
        "kernel_offline_quantized_mx_matmul": Reference(ref.scaled_product),
        "kernel_on_device_quantize_matmul_mx": Reference(ref.half_scaled_product),
        "kernel_copy_strided_quantize_matmul_mx": Reference(ref.strided_product),
        "kernel_copy_strided_quantize_matmul_mx_packed_scale": Reference(ref.strided_product),
    },
    "mx": {
        "kernel_offline_quantized_mx_matmul": Reference(ref.scaled_product),
        "kernel_on_device_quantize_matmul_mx": Reference(ref.half_scaled_product),
        "kernel_copy_strided_quantize_matmul_mx": Reference(ref.strided_product),
    },
    "rmsnorm": {"nki_rmsnorm_kernel": Reference(ref.rms_norm)},
    "add_": {"nki_tensor_add_kernel_": Reference(ref.add)},
    **{
        version: {
            f"attn_fwd_{name}": Reference(ref.attention_by_columns, BF16)
            for name in dict.fromkeys(("v1", version))  # the module runs v1 when it is imported
        }
        for version in VERSIONS
    },
    "matmul": {"matmul": Reference(ref.product, 2.0**-8)},  # the kernel adds blocks in float16
    "sliding": {"max_pooling_2d_stride_1": Reference(ref.sliding_max, 0.0)},
    "bilinear": {"interpolate_bilinear_2x_fwd": Reference(ref.bilinear, part=4)},
    "tri": {"interpolate_trilinear_2x_fwd": Reference(ref.trilinear, part=2)},
    "pipelined": {"flash_fwd": Reference(ref.attention_by_pieces)},
    "layernorm v1": {"nki_layernorm_kernel_v1": Reference(ref.layer_norm)},
    "layernorm v2": {"nki_layernorm_kernel_v2": Reference(ref.layer_norm)},
    "sd": {"fused_self_attn_for_SD_small_head_size": Reference(ref.attention_by_rows, BF16)},
    "softmax": {"nki_softmax_kernel": Reference(ref.softmax)},
    **{name: {f"vector_add_{name}": Reference(ref.add)} for name in ("naive", "tiled", "stream")},
    "alloc": {"vector_add_direct_allocation": Reference(ref.add_in_a_column)},
}


def case(checkouts: Path, script: Script, seconds: float, gigabytes: float) -> Outcome:
    """Run a script in a copy of the Python files of its folder."""
    published = checkouts / script.file
    if not published.is_file():
        return Outcome(script.name, "skipped", "not in the checkout")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch, "copy")
        home.mkdir()
        for file in published.parent.glob("*.py"):
            shutil.copy(file, home)
        if script.driver:
            shutil.copy(HERE / script.driver, home)
        command = [sys.executable, str(HERE / "held.py")]
        command += [str(home / (script.driver or published.name))]
        command += [f"scripts:{script.table}", *script.arguments]
        finished = run(
            command,
            seconds=seconds,
            gigabytes=gigabytes,
            env={
                "NEURON_PLATFORM_TARGET_OVERRIDE": script.target,
                "NKI_SIMULATOR": "1",
            },
            cwd=home,
        )
    details = [line for line in finished.stdout.splitlines() if line.startswith("held ")]
    outcome = judged(script.name, finished, details)
    if script.refused:
        return expected_refusal(outcome, script.refused)
    if outcome.verdict == "passed" and (found := DISAGREES.search(finished.stdout)):
        return Outcome(script.name, "failed", f"the script says {found[0]!r}", finished.seconds)
    return outcome


def expected_refusal(outcome: Outcome, code: str) -> Outcome:
    """Return the outcome `passed` if the case was refused with the code `code`, otherwise
    `failed`."""
    if outcome.verdict == "refused" and outcome.cause.startswith(f"{code}: "):
        return Outcome(outcome.name, "passed", "", outcome.seconds, (f"refused, {outcome.cause}",))
    cause = f"expected the error {code}, got {outcome.cause or 'none'}"
    return Outcome(outcome.name, "failed", cause, outcome.seconds)


def tasks(checkouts: Path, wanted: str, seconds: float, gigabytes: float) -> Iterator[Task]:
    for script in SCRIPTS:
        if wanted in script.name:
            yield Task(script.name, partial(case, checkouts, script, seconds, gigabytes))


def main() -> int:
    given = options(__doc__, "checkouts").parse_args()
    ran = tasks(given.checkouts, given.k, given.timeout, given.memory)
    return told("scripts", together(ran), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
