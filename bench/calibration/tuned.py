"""Matrix products that nki-autotune found or wrote by hand, 2048 x 2048 x 2048 in bfloat16."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

from case import Case, Random, Row, inside, loaded

OPERAND = Random("bfloat16", (2048, 2048))
TUNER = "tune_matmul_lhsT_rhs.py"
# What the script times a kernel with, which needs the device.
MEASURING = (
    "autotune",
    "autotune.runner",
    *(f"autotune.runner.{name}" for name in ("api", "baseline", "output", "types")),
)


def case(row: Row, checkout: Path, path: str) -> Case:
    file = inside(checkout, path)
    if file.name != TUNER:
        found = re.search(r"@nki\.jit\s+def (\w+)\(([^)]*)\)", file.read_text())
        function, operands = found.groups()
        return Case(file, function, (OPERAND,) * len(operands.split(",")))
    steps = int(re.search(r"(\d) atoms", row["kernel"])[1])
    module = partial(generated, steps=steps)
    return Case(file, "nki_f_nkigym", (OPERAND, OPERAND), module=module, settings=(steps,))


def generated(file: Path, steps: int) -> ModuleType:
    """The kernel that the first steps of the script's transformations lead to."""
    sys.path.append(str(file.parents[1] / "nkigym/src"))
    sys.modules.update(dict.fromkeys(MEASURING, Mock()))
    names = vars(loaded(file))
    transforms = ("Split", "Fuse", "Reorder", "ComputeAt", "ReverseComputeAt", "SoftwarePipeline")
    environment = names["KernelMDP"](
        names["f_nkigym"], names["INPUT_SPECS"], transforms=[names[name]() for name in transforms]
    )
    state = environment.reset()
    for action in names["TRACE"][:steps]:
        state = environment.step(state, action)
    kernel = Path("generated.py")  # in the folder of this case
    kernel.write_text(names["render"](state))
    return loaded(kernel)
