"""nki.simulator: a function that launches a kernel."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.simulator import simulate_kernel


def rows_of(x, factor=1):
    """Return x times a factor. Each of two programs writes half of the rows."""
    half = x.shape[0] // nl.num_programs(0)
    rows = nl.ds(nl.program_id(0) * half, half)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((half, x.shape[1]), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(t, x[rows, :])
    nisa.tensor_scalar(t, t, nl.multiply, factor)
    nisa.dma_copy(out[rows, :], t)
    return out


@pytest.mark.parametrize("kernel", [rows_of, nki.jit(rows_of)], ids=["function", "kernel"])
@pytest.mark.parametrize("cores", [{}, {"lnc": 1}, {"lnc": 2}, {"_lnc": 2}], ids=str)
def test_arguments_may_have_names_and_both_names_of_the_cores_are_known(kernel, cores):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(simulate_kernel(kernel, (), {"x": x, "factor": 2}, **cores), 2 * x)
    assert np.array_equal(simulate_kernel(kernel, [x], **cores), x)


def test_the_package_has_a_version():
    assert nki.__version__.endswith("+neuroncore")
