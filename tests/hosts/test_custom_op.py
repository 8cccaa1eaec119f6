"""torch_neuronx.xla_impl.custom_op: C++ operators as operators of torch."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.customop.build import COMPILERS
from neuroncore.hosts.torch_neuronx.xla_impl import custom_op

SOURCES = Path(__file__).parents[1] / "customop"

pytestmark = [
    pytest.mark.source,
    pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler"),
]


def build(folder):
    return custom_op.load(
        name="cores",
        compute_srcs=[str(SOURCES / "several_cores.cpp")],
        shape_srcs=[str(SOURCES / "several_cores_shapes.cpp")],
        build_directory=str(folder),
        multicore=True,
    )


def test_operators_are_registered_with_torch(tmp_path):
    torch = pytest.importorskip("torch")
    with neuroncore.activated():
        from torch_neuronx.xla_impl import custom_op as imported
    assert imported is custom_op
    path = build(tmp_path)
    assert path == str(tmp_path / "libcores.so")
    custom_op.load_library(path)  # again, like in a program that did not build it
    x = torch.randn(1003)
    assert torch.equal(torch.ops.eight.shared(x, 0), 2 * x)
    library = SOURCES / "operators.cpp", SOURCES / "shapes.cpp"
    custom_op.load("ours", [library[0]], [library[1]], build_directory=str(tmp_path))
    a = torch.randn(3, 5, dtype=torch.bfloat16)
    assert torch.equal(torch.ops.ours.sums(a, a), (a + a).reshape(-1))
    b = torch.randn(5, 3).t()
    assert np.allclose(torch.ops.ours.scaled(b, 0.5).numpy(), b.numpy() / 2)


def test_without_torch_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="needs torch"):
        build(tmp_path)
