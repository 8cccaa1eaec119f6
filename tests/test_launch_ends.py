"""What ends with a launch, and what never begins."""

import gc

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neuroncore.errors import OutsideKernelError, SignatureError
from neuroncore.memory.storage import Storage


def values(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_tensor_ends_with_its_launch():
    kept = []

    @nki.jit
    def keep(x):
        kept.append(nl.load(x))
        return x

    @nki.jit
    def use(x):
        nisa.tensor_copy(nl.ndarray(x.shape, x.dtype), kept[0])
        return x

    keep(values(3, 7))
    with pytest.raises(OutsideKernelError, match="an earlier launch"):
        use(values(3, 7))


def test_a_kernel_is_not_a_generator():
    @nki.jit
    def lazy(x):
        yield x

    with pytest.raises(SignatureError, match="lazy is a generator"):
        lazy(values(3, 7))


@pytest.mark.parametrize(
    "compute,hint",
    [
        (lambda x: x + 1, "nl.add"),
        (lambda x: 2 * x, "nl.multiply"),
        (lambda x: x @ x, "nl.matmul"),
        (np.exp, "nl.exp"),
        (lambda x: np.float32(3) * x, "nl.multiply"),
    ],
)
def test_tensors_compute_by_functions_only(compute, hint):
    with pytest.raises(SignatureError, match=hint):
        nki.jit(lambda x: compute(x))(values(3, 7))


def test_arguments_are_in_shared_hbm_if_cores_share_them():
    seen = []
    kernel = nki.jit(lambda x: seen.append(x.buffer) or x)
    kernel(values(3, 7))
    kernel[2](values(3, 7))
    assert seen == [nl.hbm, nl.shared_hbm, nl.shared_hbm]


@pytest.mark.parametrize("grid", [1, 2])
def test_a_launch_keeps_nothing_alive_in_circles(grid):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    def storages():
        return sum(isinstance(found, Storage) for found in gc.get_objects())

    kernel[grid](np.ones((4, 4), np.float32))
    gc.collect()
    gc.disable()
    try:
        before = storages()
        kernel[grid](np.ones((4, 4), np.float32))
        assert storages() == before
    finally:
        gc.enable()
