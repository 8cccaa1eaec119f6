"""Square matrix products of Matmul-Inspector. The name of a file gives the sizes of its tiles."""

from __future__ import annotations

import re
from pathlib import Path

from case import Case, Random, Row, dtype, inside


def case(row: Row, checkout: Path, path: str) -> Case:
    file = inside(checkout, path)
    size = int(row["shapes"].rpartition("=")[2])
    operand = Random(dtype(row), (size, size))
    function = re.search(r"@nki\.jit\s+def (\w+)", file.read_text())[1]
    return Case(file, function, (operand, operand))
