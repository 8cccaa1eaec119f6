"""The end of a launch: its tensors become invalid, and a kernel must have computed its results."""

import gc
import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl

from neuroncore.base.errors import OutputError, OutsideKernelError, SignatureError
from neuroncore.base.options import Options
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings
from neuroncore.memory.storage import Storage


def values(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_a_tensor_is_invalid_after_its_launch():
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

    @nki.jit
    async def lazy_and_async(x):
        yield x

    with pytest.raises(SignatureError, match="lazy_and_async is a generator"):
        lazy_and_async(values(3, 7))


def test_a_kernel_is_not_an_async_function():
    @nki.jit
    async def awaited(x):
        return x

    with pytest.raises(SignatureError, match="awaited is an async function"):
        awaited(values(3, 7))


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
def test_tensors_have_no_arithmetic_operators(compute, hint):
    with pytest.raises(SignatureError, match=hint):
        nki.jit(lambda x: compute(x))(values(3, 7))


def test_arguments_are_in_shared_hbm_if_cores_share_them():
    seen = []
    kernel = nki.jit(lambda x: seen.append(x.buffer) or x)
    kernel(values(3, 7))
    kernel[2](values(3, 7))
    assert seen == [nl.hbm, nl.shared_hbm, nl.shared_hbm]


@pytest.mark.parametrize("grid", [1, 2])
def test_a_launch_leaves_no_reference_cycles(grid):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    def storages():
        # isinstance asks a dead weak proxy for its class, of which Python 3.14 has some
        return sum(issubclass(type(found), Storage) for found in gc.get_objects())

    kernel[grid](np.ones((4, 4), np.float32))
    gc.collect()
    gc.disable()
    try:
        before = storages()
        kernel[grid](np.ones((4, 4), np.float32))
        assert storages() == before
    finally:
        gc.enable()


# --- results must be computed on the device -------------------------------------------------------


def computed_by_the_host(a, b):
    return a.numpy() + b.numpy()


def nothing_at_all(a, b):
    for _ in range(a.shape[0] // 128):
        nl.load(a)


def a_number(a, b):
    return 5


def never_written(a, b):
    return nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)


BAD = [
    (computed_by_the_host, SignatureError, r"returns an array of the host, ndarray \(3, 7\)"),
    (lambda a, b: {"sum": [a, np.zeros(3)]}, SignatureError, "array of the host"),
]


@pytest.mark.parametrize(("kernel", "kind", "says"), BAD)
@pytest.mark.parametrize("grid", [(), (2,)])
def test_results_that_were_not_computed_on_the_device_are_refused(kernel, kind, says, grid):
    launched = nki.jit(kernel)
    launched = launched[grid] if grid else launched
    with pytest.raises(kind, match=says) as caught:
        launched(values(3, 7), values(3, 7))
    place = caught.value.place
    assert place.file == __file__ and place.function in (kernel.__name__, "<lambda>")
    if kernel is computed_by_the_host:
        assert place.text.strip() == "return a.numpy() + b.numpy()"


@for_all("kernel", [nothing_at_all, a_number, never_written])
@for_all("grid", [(), (2,)])
def test_a_launch_without_an_instruction_is_reported(kernel, grid):
    """It is not refused, because guides of the SDK show views and sizes in such kernels."""
    run = launch(kernel, [values(3, 7), values(3, 7)], tensor=NkiTensor, grid=grid)
    first = run.findings[0]
    assert first.code == "NO_INSTRUCTIONS" and first.place.function == kernel.__name__


def test_one_instruction_is_enough_and_arguments_may_be_returned_unchanged():
    """Results without elements, and results that the other core computes, are accepted too."""
    x = values(3, 7)
    assert nki.jit(lambda x: x)(x) is x
    assert nki.jit(lambda x: [x, {"x": x[0:1]}])(x)[0] is x
    assert nki.jit(lambda: nl.ndarray((0, 4), nl.float32, buffer=nl.shared_hbm))().shape == (0, 4)

    @nki.jit
    def first_core_only(x):
        if nl.program_id(0) == 0:
            nl.store(x, nl.load(x))

    with warnings.catch_warnings(action="error"):
        first_core_only[2](x)
    with settings(options=Options(record=False)):
        first_core_only[1](x)


@for_all("library", [older_nl, nl])
@for_all("grid", [(), (2,)])
def test_a_forgotten_return_is_reported(library, grid):
    def forgets(x, out=None):
        made = library.ndarray(x.shape, x.dtype, buffer=library.shared_hbm)
        library.store(made, value=library.load(x))
        if out is not None:
            library.store(out, value=library.load(x))

    def unwritten(x):
        library.ndarray(x.shape, x.dtype, buffer=library.shared_hbm)
        library.load(x)

    wrap = (older if library is older_nl else nki).jit
    x = values(3, 7)
    kernel = wrap(forgets)[grid] if grid else wrap(forgets)
    with pytest.warns(NeuronWarning, match="NOT_RETURNED.* forgets writes"):
        assert kernel(x) is None
    with warnings.catch_warnings(action="error"):
        wrap(unwritten)(x)
        if library is nl:
            wrap(forgets)(x, np.zeros_like(x))


@pytest.mark.parametrize("way", [older.jit, older.baremetal, older.benchmark])
def test_the_older_api_refuses_results_of_the_host_too(way):
    def kernel(x):
        older_nl.load(x)
        return np.zeros(3)

    with pytest.raises(SignatureError, match="array of the host"):
        way(kernel)(values(3, 7))
    with pytest.raises(SignatureError, match="array of the host"):
        older.simulate_kernel(kernel, values(3, 7))


def test_a_kernel_of_the_older_api_without_instructions_is_reported_or_refused():
    with pytest.warns(NeuronWarning, match="NO_INSTRUCTIONS"):
        older.jit(lambda x: None)(values(3, 7))
    with pytest.raises(OutputError, match="nothing was written"):
        older.baremetal(lambda x: None)(values(3, 7))
    x = values(3, 7)
    assert older.jit(lambda x: x)(x) is x
