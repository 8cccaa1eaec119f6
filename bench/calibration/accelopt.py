"""The kernels of NKIBench, which AccelOpt published, and their variants from kda-for-trainium, at
the sizes of the benchmark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from case import Case, Hole, Random, Row, inside, loaded

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

EPSILON = 1e-5
# as the benchmark's transform_to_nki_inputs returns them
SHAPES: dict[str, tuple[tuple[int, ...] | float, ...]] = {
    "adamw": ((10944, 2048),) * 4,
    "add_rmsnorm_matmul": ((4096, 1024), (1024, 2048), EPSILON, (4096, 1024), (1024,)),
    "bmm": ((16, 4096, 64), (16, 64, 4096)),
    "bmm_softmax": ((16, 4096, 64), (16, 64, 4096)),
    "lora": ((8, 4, 128, 40, 128), (40, 128, 12288), (40, 128, 128), (128, 12288)),
    "mamba": ((256, 7168), (256, 7168), (256, 16), (16, 7168), (16, 7168)),
    "matmul_add_rmsnorm": ((4096, 2048), (2048, 2048), EPSILON, (4096, 2048), (2048,)),
    "rope": ((128, 262144), (64, 262144), (64, 262144)),
    "silu": ((128, 32, 7168),),
    "swiglu": ((8, 4, 128, 8, 128), (8, 128, 3072), (24, 128, 1024), (8, 128, 3072)),
    "transpose_matmul": ((128, 16, 4096), (128, 16, 10944)),
}


def case(row: Row, checkout: Path, path: str) -> Case:
    family = row["family"].removeprefix("nkibench/")
    if family not in SHAPES:
        raise Hole(f"the arguments of {family} are not known")
    arguments = tuple(
        Random("float32", value) if isinstance(value, tuple) else value for value in SHAPES[family]
    )
    return Case(inside(checkout, path), "kernel", arguments, module=module)


def module(file: Path) -> ModuleType:
    """Return the module of a kernel, executed after the imports that the benchmark puts before the
    kernel."""
    from baseline import NAMES  # here, because it imports the API

    return loaded(file, **NAMES)
