"""Run the harnesses of autocomp for both APIs with the published solutions, and compare the kernels
with numpy.

    python bench/conformance/autocomp.py CHECKOUT [-k SUBSTR] [--json]

A harness has a reference kernel, a mark for the place of a solution, and a test that compares the
two kernels on random inputs. A case is a harness with the published solution that has the same
number. It runs on the target that the harness sets. Harnesses of the older API set no target, and
run on trn1, where they were measured. Each harness of the older API has a second case, whose
solution is the harness's own reference. A case passes if the harness's own test does, and if every
launch of both kernels agrees with the reference in TABLES. The second condition is necessary
because two kernels that both return zeros pass the first.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import references as ref
from held import Reference
from outcome import Outcome, judged, options, run, told

HERE = Path(__file__).parent
OLDER = ("trn-tutorial-nki1", "trn-advanced-nki1")
SUITES = ("trn-tutorial-nki2", "trn-advanced-nki2", "trn-internal", *OLDER)
MARK = "# SUBSTITUTE HERE"
BF16 = 2.0**-7  # the sum of several roundings to bfloat16 in a kernel


def any_kernel(function: object, tolerance: float | None = None) -> dict[str, Reference]:
    return {"*": Reference(function, tolerance)}  # type: ignore[arg-type]


TABLES = {
    "trn-tutorial-nki2/0_rmsnorm_test": any_kernel(ref.rms_norm),
    "trn-tutorial-nki2/1_layernorm_test": any_kernel(ref.layer_norm),
    "trn-tutorial-nki2/2_gemm_test": any_kernel(ref.product),
    "trn-tutorial-nki2/3_mamba_test": any_kernel(ref.expanded_mamba),
    "trn-tutorial-nki2/4_attention_test": any_kernel(ref.attention_by_columns),
    "trn-tutorial-nki2/5_sdattention_test": any_kernel(ref.attention_by_rows),
    "trn-advanced-nki2/0_cumsum_test": any_kernel(ref.cumulative_sum),
    "trn-advanced-nki2/1_transpose_test": any_kernel(ref.swapped, 0.0),
    "trn-advanced-nki2/2_maxpool_test": any_kernel(ref.sliding_max, 0.0),
    "trn-advanced-nki2/3_rope_test": any_kernel(ref.rotary),
    "trn-advanced-nki2/4_conv1d_test": any_kernel(ref.depthwise_conv1d),
    "trn-advanced-nki2/5_conv2d_test": any_kernel(ref.conv2d),
    "trn-advanced-nki2/6_csa_2048_test": any_kernel(ref.causal_attention, BF16),
    "trn-advanced-nki2/7_csa_16384": any_kernel(ref.attention_step, BF16),
    "trn-advanced-nki2/8_mha_test": any_kernel(ref.causal_attention, BF16),
    "trn-internal/10_openfold3_trimul_test": any_kernel(ref.product),
    "trn-internal/12_flashvsr_fp32attn_test": any_kernel(ref.untransposed_attention),
    "trn-internal/15_gemm_test": any_kernel(ref.product),
    "trn-internal/3_triattn_test": any_kernel(ref.triangular_attention, BF16),
    "trn-internal/4_trimul_test": any_kernel(ref.triangular_product),
    "trn-internal/5_fft256_test": any_kernel(ref.fourier),
    "trn-internal/6_mamba_scan_test": any_kernel(ref.selective_scan),
    "trn-internal/7_trotter_test": any_kernel(ref.trotter),
    "trn-internal/8_deltanet_recurrent_test": any_kernel(ref.delta_rule),
    "trn-tutorial-nki1/0_rmsnorm_test": any_kernel(ref.rms_norm),
    "trn-tutorial-nki1/1_layernorm_test": any_kernel(ref.layer_norm),
    "trn-tutorial-nki1/2_gemm_test": any_kernel(ref.product),
    "trn-tutorial-nki1/3_mamba_test": any_kernel(ref.mamba),
    "trn-tutorial-nki1/4_attention_test": any_kernel(ref.attention_by_columns),
    "trn-tutorial-nki1/5_sdattention_test": any_kernel(ref.attention_by_rows, BF16),
    "trn-advanced-nki1/0_cumsum_test": any_kernel(ref.cumulative_sum),
    "trn-advanced-nki1/1_transpose_test": any_kernel(ref.swapped, 0.0),
    "trn-advanced-nki1/2_maxpool_test": any_kernel(ref.sliding_max, 0.0),
    "trn-advanced-nki1/3_rope_test": any_kernel(ref.rotary),
    "trn-advanced-nki1/4_conv1d_test": any_kernel(ref.depthwise_conv1d),
    "trn-advanced-nki1/5_conv2d_test": any_kernel(ref.conv2d_by_output),
    "trn-advanced-nki1/6_csa_2048_test": any_kernel(ref.causal_attention_from_first, BF16),
    "trn-advanced-nki1/7_csa_16384": any_kernel(ref.attention_step, BF16),
    "trn-advanced-nki1/8_mha_test": any_kernel(ref.causal_attention_untransposed, BF16),
}
ENDING = """
np.random.seed(0)
if "torch" in globals():
    torch.manual_seed(0)
assert test_nki({reference}, {solution}), "the harness says that the results differ"
"""


def solved(harness: str, solution: str) -> str:
    """Return the source of a harness with a solution at its mark. The harness's main part, which
    also measures time, is replaced by a call of its test."""
    body, _ = parted(harness)
    names = tested(harness)
    assert body.count(MARK) == 1, "the harness does not have exactly one mark for a solution"
    ending = ENDING.format(reference=names[1], solution=names[2])
    return body.replace(MARK, parted(solution)[0]) + ending


def tested(harness: str) -> re.Match[str]:
    """Return the match of the call of test_nki: group 1 is the name of the reference kernel, and
    group 2 the name of the solution."""
    names = re.search(r"test_nki\(\s*(\w+)\s*,\s*(\w+)", parted(harness)[1])
    assert names is not None, "the harness doesn't call test_nki"
    return names


def parted(source: str) -> tuple[str, str]:
    """Return the source of a module without its part under `if __name__ == "__main__":`, and this
    part."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            main = lines[node.lineno - 1 : node.end_lineno]
            rest = lines[: node.lineno - 1] + lines[node.end_lineno :]
            return "\n".join(rest) + "\n", "\n".join(main)
    return source, ""


def target(suite: str, harness: str) -> str:
    found = re.search(r"NEURON_PLATFORM_TARGET_OVERRIDE\W+(trn\d)", harness)
    return found[1] if found else "trn1" if suite in OLDER else "trn2"


def itself(harness: str) -> str:
    """Return the source of a solution that calls the harness's own reference kernel."""
    names = tested(harness)
    return f"def {names[2]}(*args, **kwargs):\n    return {names[1]}(*args, **kwargs)\n"


def case(
    name: str, script: str, table: str, machine: str, seconds: float, gigabytes: float
) -> Outcome:
    """Run a script that launches kernels, and compare its launches with the references of the table
    `table`."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "harness.py")
        file.write_text(script)
        finished = run(
            [sys.executable, str(HERE / "held.py"), str(file), f"autocomp:{table}"],
            seconds=seconds,
            gigabytes=gigabytes,
            env={"NEURON_PLATFORM_TARGET_OVERRIDE": machine},
            cwd=Path(scratch),
        )
    details = [f"{line} ({machine})" for line in finished.stdout.splitlines() if "held " in line]
    return judged(name, finished, details)


def outcomes(checkout: Path, wanted: str, seconds: float, gigabytes: float) -> Iterator[Outcome]:
    for suite in SUITES:
        for harness in sorted((checkout / "harnesses" / suite).glob("*.py")):
            name = f"{suite}/{harness.stem}"
            source, number = harness.read_text(), harness.name.partition("_")[0]
            published = sorted((checkout / "sols" / suite).glob(f"{number}_*.py"))
            solutions = [(name, file.read_text()) for file in published]
            if suite in OLDER:
                solutions.append((f"{name} itself", itself(source)))
            if name not in TABLES or not published:
                missing = "published solution" if name in TABLES else "reference for it here"
                yield Outcome(name, "skipped", f"no {missing}")
                continue
            for case_name, solution in solutions:
                if wanted in case_name:
                    script, machine = solved(source, solution), target(suite, source)
                    yield case(case_name, script, name, machine, seconds, gigabytes)


def main() -> int:
    given = options(__doc__, "checkout").parse_args()
    ran = outcomes(given.checkout, given.k, given.timeout, given.memory)
    return told("autocomp", ran, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
