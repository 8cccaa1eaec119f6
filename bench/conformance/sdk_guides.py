"""Run the kernels in the code blocks of the aws-neuron-sdk guides, on our inputs, and compare them
with numpy.

    python bench/conformance/sdk_guides.py CHECKOUT [--nkilib CHECKOUT] [-k SUBSTR] [--json]

The unmodified code blocks are read from nki/**/*.rst. If an earlier block of a page has imports,
they are executed first. CASES has, for each kernel, its inputs and the reference; or the error that
the kernel raises, on purpose or because of a mistake on the page; or the reason why the kernel
can't be run. A kernel that is not in CASES fails, so that new kernels of a newer checkout are
noticed. Kernels on the pages about nki-library import it, and need a checkout of it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import references as ref
from guide_blocks import Kernel, kernels
from kernel_run import kernel_case
from outcome import Outcome, Task, options, together, told

HERE = Path(__file__).parent
PRELUDE = (
    "import nki, nki.isa as nisa, nki.language as nl, numpy as np; "
    "from nki.language import NKIObject"
)


@dataclass(frozen=True)
class Case:
    """How to run a kernel. `before` is source that defines names which its block uses. `refused` is
    the code or the class of the error that the kernel must raise. `fragment` is the reason why the
    kernel is not run."""

    inputs: str = ""
    reference: str = ""
    target: str = "trn2"
    tolerance: float | None = None
    before: str = ""
    says: tuple[str, ...] = ()
    refused: str = ""
    fragment: str = ""
    nkilib: bool = False


def fragment(reason: str) -> Case:
    return Case(fragment=reason)


GUIDE, START, SCHEDULE = "get-started/nki-language-guide", "get-started/about", "guides/how-to-"
QUICK = "get-started/quickstart-implement-run-kernel"
MATMUL = "guides/tutorials/kernel-optimization:matrix_multiply_kernel"
VIEW, MIGRATION = "library/kernel-utils/tensor-view", "migration/index"
LNC = ("Running on one core - no LNC", "Running on multiple cores", "Running on multiple cores")
# As the page has them in comments. The tensor at the end of SBUF it has at 262144 - 512, where a
# kernel is left less than that.
ADDRESSES = (
    "buf1.address = (0, 0)",
    "buf2.address = (0, 1024)",
    "buf3.address = (0, 1536)",
    "buf4.address = (0, 1024)",
)
CASES = {
    f"{START}/index:my_kernel": fragment("pseudo code of a custom operator: no body"),
    f"{START}/index:my_function": fragment("its output is never allocated"),
    f"{START}/lnc:lnc_test": Case("one", says=LNC),
    f"{START}/nki-dma-overview:tensor_exp_kernel_isa": Case("four_rows", "exponential"),
    f"{START}/nki-dma-overview:tensor_exp_kernel_isa#2": Case("a_square", "exponential"),
    f"{START}/tiling-overview:tensor_exp_kernel_": Case("tall", "one_over"),
    f"{START}/tiling-overview:tensor_exp_kernel_#2": Case("tall", "one_over"),
    f"{GUIDE}:nki_tensor_add_kernel": Case("two", "add"),
    f"{GUIDE}:example_kernel": Case("four_tiles"),
    f"{GUIDE}:kernel": Case("one"),
    f"{GUIDE}:relu_kernel": Case("in_and_out", "relu"),
    f"{GUIDE}:scale_kernel": Case("in_and_out", "half"),
    f"{GUIDE}:kernel#2": fragment("calls my_relu, which nothing defines"),
    f"{QUICK}:nki_tensor_add_kernel": Case("two"),
    f"{QUICK}:nki_tensor_add_kernel#2": Case("two", "add"),
    f"{SCHEDULE}scheduling-apis:kernel": Case("positive", "sum_of_reciprocal_and_next"),
    f"{SCHEDULE}scheduling-apis:kernel#2": Case("three", "exponentials"),
    f"{SCHEDULE}scheduling-apis:loop": Case("three", "exponentials"),
    f"{SCHEDULE}scheduling-apis:loop#2": Case("three", "exponentials"),
    "guides/nki_simulator:my_kernel": Case(  # calls nl.store without a destination
        "one", before="data = np.ones((128, 512), np.float32)", refused="SIGNATURE"
    ),
    "guides/nki_simulator:my_kernel#2": Case("ones", says=("my tile [[1. 1.]",)),
    "guides/nki_simulator:bad_kernel": Case(
        "one", before="data = np.ones((128, 512), np.float32)", refused="PARTITION_LIMIT"
    ),
    MATMUL: Case("one_tile", "product"),
    f"{MATMUL}#2": Case("tiles", "product"),
    f"{MATMUL}#3": Case("tiles_of_bfloat16", "product"),
    f"{MATMUL}#4": Case("blocks", "product"),
    f"{MATMUL}#5": Case("large_blocks", "product"),
    "library/kernel-utils/allocator:kernel_without_sbm": Case("two", target="trn3", says=ADDRESSES),
    "library/kernel-utils/allocator:kernel_with_sbm": Case(
        "two", target="trn3", says=ADDRESSES, nkilib=True
    ),
    "library/kernel-utils/allocator:kernel_multibuffer": Case("two_and_four", nkilib=True),
    f"{VIEW}:kernel_reshape_permute": Case("heads", nkilib=True),
    f"{VIEW}:kernel_strided_slice": Case("a_row_of_256", nkilib=True),
    f"{VIEW}:kernel_broadcast": Case(  # multiplies two tensors by *, which no release supports
        "to_broadcast", refused="SIGNATURE", nkilib=True
    ),
    f"{VIEW}:kernel_rearrange": Case("pixels", nkilib=True),
    f"{VIEW}:attention_reshape": Case("projections", nkilib=True),
    f"{MIGRATION}:my_kernel": Case("two"),
    f"{MIGRATION}:my_kernel#2": Case("two"),
    f"{MIGRATION}:my_kernel#3": Case("one"),
    f"{MIGRATION}:my_kernel#4": Case("one"),
    f"{MIGRATION}:my_kernel#5": Case("image", before="img = np.ones((1, 3, 8, 8), np.float32)"),
    f"{MIGRATION}:my_kernel#6": Case("image", before="img = np.ones((1, 3, 8, 8), np.float32)"),
    f"{MIGRATION}:kernel": Case("three"),
    # the page's old forms, with block dimensions before the partition axis
    f"{MIGRATION}:exp_func": Case("blocks_of_blocks", refused="SIGNATURE"),
    f"{MIGRATION}:sb_blocks": Case("eight_tiles", refused="SIGNATURE"),
    f"{MIGRATION}:sb_blocks#2": Case("eight_tiles", refused="SIGNATURE"),
    f"{MIGRATION}:sb_blocks_migrated": Case("eight_tiles", "unchanged"),
    f"{MIGRATION}:sb_blocks_migrated#2": Case("eight_tiles", "unchanged"),
    # "incorrect" is about speed: each iteration waits for the one before
    f"{MIGRATION}:sb_blocks_migrated_incorrect": Case("eight_tiles", "unchanged"),
}


# --- inputs --------------------------------------------------------------------------------------

Rng = np.random.Generator
BF16 = ml_dtypes.bfloat16


def _normal(rng: Rng, *shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def one(rng: Rng) -> Any:
    return (_normal(rng, 128, 512),)


def two(rng: Rng) -> Any:
    return _normal(rng, 128, 512), _normal(rng, 128, 512)


def three(rng: Rng) -> Any:
    return tuple(_normal(rng, 64, 96) for _ in range(3))


def ones() -> Any:
    return (np.ones((2, 2), np.float32),)


def four_rows(rng: Rng) -> Any:
    return (_normal(rng, 4, 4096, dtype=BF16),)


def a_square(rng: Rng) -> Any:
    return (_normal(rng, 128, 128, dtype=BF16),)


def tall(rng: Rng) -> Any:
    return (rng.uniform(0.5, 2, (256, 512)).astype(np.float32),)


def positive(rng: Rng) -> Any:
    return (rng.uniform(0.5, 2, (77, 33)).astype(np.float32),)


def four_tiles(rng: Rng) -> Any:
    return (_normal(rng, 512, 512, dtype=np.float16),)


def eight_tiles(rng: Rng) -> Any:
    return (_normal(rng, 8, 128, 512),)


def blocks_of_blocks(rng: Rng) -> Any:
    return (_normal(rng, 4, 8, 128, 2, 512),)


def in_and_out(rng: Rng) -> Any:
    return _normal(rng, 256, 512), np.full((256, 512), np.nan, np.float32)


def two_and_four(rng: Rng) -> Any:
    return *two(rng), 4


def image(rng: Rng) -> Any:
    return _normal(rng, 1, 3, 8, 8), (0, 3, 1, 2)


def one_tile(rng: Rng) -> Any:
    return _normal(rng, 96, 80), _normal(rng, 96, 320)


def tiles(rng: Rng) -> Any:
    return _normal(rng, 256, 256), _normal(rng, 256, 1024)


def tiles_of_bfloat16(rng: Rng) -> Any:
    return _normal(rng, 256, 256, dtype=BF16), _normal(rng, 256, 1024, dtype=BF16)


def blocks(rng: Rng) -> Any:
    return _normal(rng, 384, 512, dtype=BF16), _normal(rng, 384, 2048, dtype=BF16)


def large_blocks(rng: Rng) -> Any:
    return (*(_normal(rng, 1024, n) for n in (1024, 2048)), 4, 2, 4)


def heads(rng: Rng) -> Any:
    return (_normal(rng, 128, 24, 64),)


def a_row_of_256(rng: Rng) -> Any:
    return (_normal(rng, 128, 256),)


def to_broadcast(rng: Rng) -> Any:
    return _normal(rng, 128, 1, 64), _normal(rng, 128, 32, 64)


def pixels(rng: Rng) -> Any:
    return (_normal(rng, 128, 512, 64),)


def projections(rng: Rng) -> Any:
    return _normal(rng, 128, 16, 3 * 4 * 32), 4, 32


# --- references ----------------------------------------------------------------------------------

add, product, exponential = ref.add, ref.product, ref.exponential


def one_over(x: Any) -> Any:
    return 1 / x.astype(np.float64)


def relu(x: Any, _: Any) -> Any:
    return np.maximum(x, 0)


def half(x: Any, _: Any) -> Any:
    return x / 2


def unchanged(x: Any) -> Any:
    return x


def sum_of_reciprocal_and_next(x: Any) -> Any:
    return one_over(x) + (x + 1)


def exponentials(*tiles: Any) -> Any:
    return tuple(map(exponential, tiles))


# --- running them --------------------------------------------------------------------------------


def outcome(kernel: Kernel, case: Case, given: argparse.Namespace) -> Outcome:
    if case.nkilib and given.nkilib is None:
        return Outcome(kernel.key, "skipped", "needs --nkilib")
    paths = [str(given.nkilib / "src" / "nkilib_src")] if case.nkilib else []
    extra = ["--target", case.target]
    extra += ["--tol", str(case.tolerance)] if case.tolerance is not None else []
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "block.py")
        file.write_text(f"{'; '.join(filter(None, (PRELUDE, case.before)))}\n{kernel.source}")
        ran = kernel_case(
            kernel.key,
            f"{file}::{kernel.name}",
            inputs=f"{__file__}:{case.inputs}",
            reference=case.reference and f"{__file__}:{case.reference}",
            options=tuple(extra),
            says=case.says,
            seconds=given.timeout,
            gigabytes=given.memory,
            env={"PYTHONPATH": os.pathsep.join(paths), "PYTHONBREAKPOINT": "0"},
        )
    return _expected(ran, case)


def _expected(ran: Outcome, case: Case) -> Outcome:
    if not case.refused:
        return ran
    if ran.verdict in ("refused", "failed") and ran.cause.startswith(f"{case.refused}: "):
        return replace(ran, verdict="passed", cause="", details=(f"refused, {ran.cause}",))
    instead = ran.cause or "none"
    return replace(ran, verdict="failed", cause=f"expected the error {case.refused}, got {instead}")


def known(kernel: Kernel, given: argparse.Namespace) -> Outcome:
    """Return the outcome of a kernel, as its entry in CASES describes."""
    case = CASES.get(kernel.key)
    if not kernel.parses:
        return Outcome(kernel.key, "skipped", kernel.source)
    if case is None:
        return Outcome(kernel.key, "failed", "this kernel has no entry in CASES")
    if case.fragment:
        return Outcome(kernel.key, "skipped", case.fragment)
    return outcome(kernel, case, given)


def tasks(given: argparse.Namespace) -> Iterator[Task]:
    for kernel in kernels(given.checkout):
        if given.k in kernel.key:
            yield Task(kernel.key, partial(known, kernel, given))


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.add_argument("--nkilib", type=Path, help="a checkout of nki-library")
    given = parser.parse_args()
    return told("sdk_guides", together(tasks(given)), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
