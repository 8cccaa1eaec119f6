"""Run the unmodified custom C++ operators of aws-neuron-samples, and compare them with numpy.

    python bench/conformance/custom_operators.py CHECKOUT

Each of the four libraries is built by each installed compiler: g++, clang++ and zig's wheel. Its
operators are called at several shapes, and on eight cores in three orders of the cores. Files that
are missing in the checkout's work tree are read from its HEAD.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from neuroncore import customop
from neuroncore.base.errors import NeuronError
from neuroncore.customop import CustomOpFault, Library

LIBRARIES = (
    "inference/customop_mlp/neuron",
    "inference/customop_mlp/neuron-tcm",
    "inference/customop_mlp/neuron-multicore",
    "training/customop_mlp/neuron",
)
SHAPES = ((1, 1), (3, 5), (17, 59), (32, 2048))
# The code for a fault of the published operator on eight cores. If the number of elements is not a
# multiple of eight, the last core computes its position from its own, larger share, and copies
# beyond the tensor.
REFUSED = "OUT_OF_BOUNDS"


def source(checkout: Path, path: str, folder: Path) -> Path:
    """Return the path of a file in the checkout. If the work tree lacks the file, write it from
    HEAD to the folder."""
    if (checkout / path).is_file():
        return checkout / path
    shown = subprocess.run(
        ["git", "-C", str(checkout), "show", f"HEAD:{path}"], capture_output=True, check=True
    )
    written = folder / Path(path).name
    written.write_bytes(shown.stdout)
    return written


def compilers() -> list[str]:
    found = [name for name in ("g++", "clang++") if shutil.which(name)]
    if find_spec("ziglang") is not None:
        found.append(f"{sys.executable} -m ziglang c++")
    return found


def judged(library: Library) -> Iterator[str]:
    """Yield the faults of a library's operators."""
    for shape in SHAPES:
        x, grad = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
        for order in ("forward", "reverse", "random") if library.cores > 1 else ("forward",):
            fits = library.cores == 1 or x.size % library.cores == 0
            try:
                found = library.run("relu_forward", x, order=order).result
            except CustomOpFault as fault:
                if fits or fault.finding.code != REFUSED:
                    yield f"relu_forward {shape}: {fault}"
                continue
            if not fits and x.size > library.cores:
                yield f"relu_forward {shape}: a copy beyond the tensor is not refused"
            if not np.array_equal(found, np.maximum(x, 0)):
                yield f"relu_forward {shape}: the result differs from numpy's"
        if "relu_backward" in library.operators:
            back = library.run("relu_backward", grad, x).result
            if not np.array_equal(back, np.where(x > 0, grad, np.float32(0))):
                yield f"relu_backward {shape}: the result differs from numpy's"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout
    failed = 0
    for name in LIBRARIES:
        for compiler in compilers():
            with tempfile.TemporaryDirectory() as folder:
                base = f"torch-neuronx/{name}"
                files = [
                    source(checkout, f"{base}/{f}", Path(folder)) for f in ("relu.cpp", "shape.cpp")
                ]
                try:
                    library = customop.load(
                        files[:1], files[1:], multicore="multicore" in name, compiler=compiler
                    )
                    wrong = list(judged(library))
                except NeuronError as error:
                    wrong = [str(error)]
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'passed'}  {name}  {Path(compiler.split()[0]).name}")
            print("".join(f"    {line}\n" for line in wrong), end="")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
