"""The kernels of the SDK's tutorials and guides, at the sizes for which the text gives times."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import guide_blocks
from case import Case, Hole, Random, Row, dtype, executed, inside, sizes

# K x M and K x N, in all versions of the kernel
MATMUL = {"lhsT": (8192, 4096), "rhs": (8192, 8192)}
OPTIMIZATION = "guides/tutorials/kernel-optimization"
STATES = 16
EXP = "general/nki/examples/prof-kernel-benchmark.py"  # the kernel of the guide's first profile


def case(row: Row, checkout: Path, path: str) -> Case:
    if row["family"] == "gemm":
        operands = tuple(Random(dtype(row), shape) for shape in MATMUL.values())
        if OPTIMIZATION in path:
            return guide(row, checkout, path, operands)
        name = row["kernel"].rpartition("/")[2].removeprefix("nki_matmul_")
        return Case(inside(checkout, path), f"nki_matmul_{name.removeprefix('nki_')}_", operands)
    if row["family"] == "mamba":
        return Case(inside(checkout, path), row["kernel"], mamba(row))
    if row["kernel"].startswith("exp kernel"):
        file = inside(checkout, EXP)
        return Case(file, "tensor_exp_kernel_", (Random("float32", (250, 512)),))
    raise Hole(f"the arguments of {row['kernel']} are not known")


def mamba(row: Row) -> tuple[Random, ...]:
    """Return the arguments delta, u, A, B and C for one sequence."""
    size = sizes(row)
    channels, length = size["C"], size["L"]
    states = size.get("S", STATES)
    shapes = ((1, channels, length),) * 2 + ((channels, states),) + ((1, states, length),) * 2
    return tuple(Random(dtype(row), shape) for shape in shapes)


def guide(row: Row, checkout: Path, path: str, operands: tuple[Random, ...]) -> Case:
    """Return the launch of the kernel in a code block of a page. The number at the end of the
    kernel's name is the number of the block: matmul_opt_v3 is in the third block."""
    number = int(row["kernel"].rpartition("_v")[2])

    def module(file: Path) -> ModuleType:
        blocks = [k for k in guide_blocks.kernels(checkout) if k.page == OPTIMIZATION]
        return executed(blocks[number - 1].source, file)

    file = inside(checkout, path)
    return Case(file, "matrix_multiply_kernel", operands, module=module, settings=(number,))
