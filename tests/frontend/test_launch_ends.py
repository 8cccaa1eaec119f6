"""The end of a launch: its tensors become invalid, and a kernel must have computed its results."""

import copy
import gc
import itertools
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


REGIONS = {
    "sbuf": nl.sbuf,
    "psum": nl.psum,
    "private": nl.private_hbm,
    "shared": nl.shared_hbm,
}
COPIES = [*itertools.permutations([*REGIONS, "argument", "unwritten"], 2), ("sbuf", "sbuf")]


def tensors_of_each_memory(x):
    made = {"argument": x, "unwritten": nl.ndarray(x.shape, x.dtype)}
    for name, region in REGIONS.items():
        made[name] = nl.ndarray(x.shape, x.dtype, buffer=region, name=name)
        if region in (nl.sbuf, nl.psum):
            nisa.memset(made[name], 7)
        else:
            nisa.dma_copy(made[name], x)
    return made


def copied(dst, src):
    hbm = nl.private_hbm, nl.shared_hbm, nl.hbm
    (nisa.dma_copy if {dst.buffer, src.buffer} & {*hbm} else nisa.tensor_copy)(dst, src)


@for_all("earlier", [0, 2])  # the copy whose tensor is of an earlier launch
@for_all("record", [True, False])
@pytest.mark.parametrize("grid", [1, 2])
@pytest.mark.parametrize("stale", ["source", "destination"])
def test_a_tensor_is_refused_after_its_launch(stale, grid, earlier, record):
    """Also if the launch has issued the same instruction with its own tensors."""
    kept = []

    @nki.jit
    def keep(x):
        kept.append(tensors_of_each_memory(x))
        return x

    @nki.jit
    def use(x, source, destination):
        made = tensors_of_each_memory(x)
        made["unwritten"] = made["sbuf"]
        for number in range(earlier + 1):
            old = kept[-1] if number == earlier else made
            src, dst = (old, made) if stale == "source" else (made, old)
            copied(dst[destination], src[source])
        return x

    before = values(5, 7)
    keep[grid](before)
    for source, destination in COPIES:
        if "psum" in (source, destination) and {source, destination} - {"psum", "sbuf"}:
            continue
        with (
            settings(options=Options(record=record)),
            pytest.raises(OutsideKernelError, match="an earlier launch"),
        ):
            use[grid](np.zeros((5, 7), np.float32), source, destination)
    assert (before == values(5, 7)).all()


@for_all("ranks", [1, 3])
def test_an_index_of_an_earlier_launch_is_refused(ranks):
    kept = []

    def number(shape):
        index = nl.ndarray(shape, nl.int32)
        nisa.memset(index, 1)
        return index

    @nki.jit
    def use(x, stale):
        scalar, rows = number((1, 1)), number((5, 1))
        kept.append({"scalar": scalar, "rows": rows})
        tile, element = nl.ndarray((5, 7), x.dtype), nl.ndarray((5, 1), x.dtype)
        nisa.memset(tile, 1)
        for old in [{}, {}, {stale: kept[0].get(stale)}]:
            at = dict(scalar_offset=old.get("scalar", scalar), indirect_dim=1)
            nisa.tensor_copy(element, tile.ap([[7, 5], [1, 1]], **at))
            at = dict(vector_offset=old.get("rows", rows), indirect_dim=0)
            nisa.dma_copy(tile, x.ap([[7, 5], [1, 7]], **at))
        return x

    def launched(stale):
        use.on_ranks([((values(5, 7), stale), {}) for _ in range(ranks)])

    launched("neither")
    for stale in ("scalar", "rows"):
        with pytest.raises(OutsideKernelError, match="an earlier launch"):
            launched(stale)


@for_all("earlier", [0, 3])
@for_all("loop", [range, older_nl.affine_range, older_nl.sequential_range])
@for_all("memory", ["sbuf", "psum", "argument", "result"])
def test_the_older_api_refuses_a_tensor_of_an_earlier_launch(memory, loop, earlier):
    kept = []

    @older.jit
    def kernel(x, at):
        result = older_nl.ndarray((5, *x.shape), x.dtype, buffer=older_nl.shared_hbm)
        tile = older_nl.load(x)
        psum = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.psum)
        psum[...] = older_nl.copy(tile)
        kept.append({"sbuf": tile, "psum": psum, "argument": x, "result": result})
        for number in loop(5):
            made = dict(kept[-1])
            if int(number) == at:
                made[memory] = kept[0][memory]
            total = older_nl.add(made["sbuf"], made["psum"])
            total = older_nl.add(total, older_nl.load(made["argument"]))
            older_nl.store(made["result"][number], total)
        return result

    kernel(values(5, 7), -1)
    with pytest.raises(OutsideKernelError, match="an earlier launch"):
        kernel(values(5, 7), earlier)


def test_a_tensor_that_python_copied_is_refused():
    @nki.jit
    def kernel(x):
        tile, result = nl.load(x), nl.ndarray(x.shape, x.dtype)
        for source in (tile, tile, copy.deepcopy(tile)):
            nisa.tensor_copy(result, source)
        return x

    with pytest.raises(OutsideKernelError, match="a copy that Python made"):
        kernel(values(3, 7))


@pytest.mark.parametrize("grid", [1, 2])
def test_a_result_of_an_earlier_launch_is_refused(grid):
    kept = []

    @nki.jit
    def kernel(x):
        result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(result, x)
        kept.append(result)
        return kept[0]

    kernel[grid](values(3, 7))
    with pytest.raises(OutsideKernelError, match="an earlier launch"):
        kernel[grid](values(3, 7))


def test_a_failed_launch_ends_too_and_its_tensors_can_be_shown():
    kept = []

    @nki.jit
    def kernel(x, fails):
        tile = nl.load(x)
        kept.append(tile)
        nisa.tensor_copy(tile, kept[0])
        if fails:
            raise ValueError

    with pytest.raises(ValueError):
        kernel(values(3, 7), True)
    assert "[[0 .. 6] .. [14 .. 20]]" in repr(kept[0])
    with pytest.raises(OutsideKernelError, match="an earlier launch"):
        kernel(values(3, 7), False)


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


@pytest.mark.parametrize("grid", [1, 2])
def test_a_kernel_is_not_an_async_function(grid):
    @nki.jit
    async def awaited(x):
        return x

    with warnings.catch_warnings(action="error"):
        with pytest.raises(SignatureError, match="awaited is an async function") as caught:
            awaited[grid](values(3, 7))
        gc.collect()
    assert caught.value.place.function == "awaited"


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
