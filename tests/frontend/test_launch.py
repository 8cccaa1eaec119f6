"""Launches: arguments, results, failures and settings."""

import threading
from collections import namedtuple
from dataclasses import dataclass

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from every import for_all
from launched import copied, increased

import neuroncore
from neuroncore.base.errors import (
    DtypeError,
    KernelError,
    ShapeError,
    SignatureError,
    UsageError,
)
from neuroncore.base.options import Options
from neuroncore.core.core import running
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import TARGET_VARIABLE, settings, target_machine

DTYPES = (
    *(np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2),
    *(np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.bool_),
)


def values(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- arrays ---------------------------------------------------------------------------------------


@for_all("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 7), (5,), (2, 3, 4), (1, 1)])
def test_arguments_and_results_keep_all_bits(dtype, shape):
    given = np.frombuffer(np.random.default_rng(0).bytes(4 * 64), np.uint8) % 2
    given = given[: np.prod(shape) * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    got = copied(given)
    assert isinstance(got, np.ndarray) and got.dtype == dtype and got.shape == shape
    assert got.tobytes() == given.tobytes()
    assert not np.shares_memory(got, given)


def test_writes_to_an_input_are_visible_in_the_array_of_the_caller():
    x = values(3, 7)
    before = x.copy()
    assert increased(x) is x
    np.testing.assert_array_equal(x, before + 1)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2],
        lambda x: x.T,
        lambda x: x[::-1],
        np.asfortranarray,
        lambda x: x[1],
        lambda x: x[1:2, 3].reshape(()),
        lambda x: x.astype(x.dtype.newbyteorder()),
    ],
    ids=["columns", "transposed", "reversed", "fortran", "row", "scalar", "byteswapped"],
)
def test_arrays_with_other_strides_are_updated_too(view):
    base = values(4, 6)
    x = view(base)
    before = x.copy()
    assert increased(x) is x
    np.testing.assert_array_equal(x, before + 1)


@pytest.mark.parametrize(
    "view, expected",
    [
        (lambda a: a, lambda x: x),
        (lambda a: a.reshape((5, 1, 5)).reshape((5, 5)), lambda x: x),
        (lambda a: a.permute((1, 0)), lambda x: x.T),
        (lambda a: a.view(nl.int32), lambda x: x.view(np.int32)),
    ],
    ids=["whole", "reshaped", "transposed", "another format"],
)
def test_a_view_of_an_argument_is_returned_as_a_view(view, expected):
    """This includes a view with the argument's shape and all of its bytes."""

    def kernel(a):
        nl.store(a, nl.add(nl.load(a), 1.0))
        return view(a)

    x = values(5, 5)
    run = neuroncore.run(nki.jit(kernel), x, target="trn2")
    for got in (run.results, run.replay()):
        assert got.dtype == expected(x).dtype
        np.testing.assert_array_equal(got, expected(values(5, 5) + 1))


def test_a_view_that_is_only_read_does_not_overwrite_results():
    x = values(3, 7)
    nki.jit(lambda a, backwards: nl.store(a, nl.add(nl.load(a), 1.0)))(x, x[:, ::-1])
    np.testing.assert_array_equal(x, values(3, 7) + 1)


def test_a_read_only_array_is_copied_and_unchanged():
    x = values(3, 7)
    x.flags.writeable = False
    got = increased(x)
    np.testing.assert_array_equal(x, values(3, 7))
    np.testing.assert_array_equal(got, x + 1)


def test_one_array_given_twice_is_one_tensor():
    for x in (values(4, 6), values(4, 6)[:, ::2]):

        def kernel(a, b):
            increased(a)
            return copied(b)

        before = x.copy()
        np.testing.assert_array_equal(nki.jit(kernel)(x, x), before + 1)
        np.testing.assert_array_equal(x, before + 1)


@for_all("dtype", ["=f4", ">f4"])
@for_all("order", ["C", "F"])
def test_arrays_that_overlap_are_separate_tensors(order, dtype):
    """Contiguous arrays once shared memory in the kernel, but not in a replay."""

    def kernel(a, b):
        nl.store(b, nl.add(nl.load(a), 100.0))
        return copied(a)

    both = np.array(values(7, 8), dtype, order=order)
    before = both.copy()
    run = neuroncore.run(nki.jit(kernel), both[:5], both[2:], target="trn2")
    for got in (run.results, run.replay()):
        np.testing.assert_array_equal(got, before[:5])
    np.testing.assert_array_equal(both, [*before[:2], *(before[:5] + 100)])
    assert run.verify().difference is None


def test_objects_with_an_array_interface_are_accepted():
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return values(3, 7)

    np.testing.assert_array_equal(copied(Wrapped()), values(3, 7))
    np.testing.assert_array_equal(increased(Wrapped()), values(3, 7) + 1)


@for_all("dtype", [np.float64, np.int64, np.complex64, object, "U3", "datetime64[s]"])
def test_formats_without_an_engine_are_refused_by_name(dtype):
    bad = np.zeros((2, 2), dtype)
    for call in (lambda: copied(bad), lambda: copied(x=bad)):
        with pytest.raises(DtypeError, match="argument x has dtype") as caught:
            call()
        assert ".astype(np.float32)" in caught.value.hint


def test_an_unnamed_argument_is_refused_too():
    with pytest.raises(DtypeError, match="argument of the kernel has dtype float64"):
        nki.jit(lambda *arrays: None)(np.zeros(3))


# --- other arguments and results ------------------------------------------------------------------

Pair = namedtuple("Pair", "first second")


@dataclass
class Config(nl.NKIObject):
    scale: float = 2.0


def test_other_arguments_are_passed_unchanged():
    seen = []
    config = Config()
    plain = (3, 2.5, None, True, "text", nl.float32, np.float32(4), config, nl.sbuf, range(3))

    @nki.jit
    def kernel(*args, **kwargs):
        seen.extend([args, kwargs])
        nl.zeros((1, 1), nl.float32)

    kernel(*plain, last=None)
    assert all(a is b for a, b in zip(seen[0], plain, strict=True))
    assert seen[1] == {"last": None}


def test_arrays_inside_lists_tuples_and_dicts_become_tensors():
    seen = []
    x = values(2, 3)

    @nki.jit
    def kernel(listed, pair, named, *rest, key):
        seen.extend([listed[0], listed[1][0], pair.first, named["x"], rest[0], key])
        assert type(pair) is Pair and pair.second == 5
        return key

    kernel([x, (x,)], Pair(values(2, 3), 5), {"x": x}, x, key=x)
    assert all(isinstance(tensor, NkiTensor) for tensor in seen)
    assert [seen[i].name for i in (0, 2)] == ["listed", "pair"]


def test_an_array_in_an_attribute_of_an_argument_stays_an_array():
    @nki.jit
    def kernel(config):
        nl.load(config.scale)

    with pytest.raises(SignatureError, match="arrays in attributes of other objects are not"):
        kernel(Config(values(2, 3)))


def test_results_have_the_structure_of_the_returned_value():
    x = values(2, 3)

    @nki.jit
    def kernel(x):
        new = copied(x)
        return Pair([new, x], {"x": x, "new": (new, 7)})

    got = kernel(x)
    assert type(got) is Pair and type(got.first) is list
    assert got.first[1] is x and got.second["x"] is x and got.second["new"][1] == 7
    np.testing.assert_array_equal(got.first[0], x)
    assert nki.jit(lambda x: (x, None, 5))(x)[1:] == (None, 5)


def test_a_part_of_an_input_or_an_output_may_be_returned():
    x = values(4, 6)
    got = nki.jit(lambda x: (x[1:3, ::2], copied(x)[2], x.reshape((6, 4))))(x)
    for part, want in zip(got, (x[1:3, ::2], x[2], x.reshape(6, 4)), strict=True):
        np.testing.assert_array_equal(part, want)


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
def test_memory_of_the_chip_cannot_be_returned(buffer):
    with pytest.raises(SignatureError, match="the kernel returns") as caught:
        nki.jit(lambda: nl.zeros((2, 2), nl.float32, buffer=buffer))()
    assert "shared_hbm" in caught.value.hint


# --- failures, threads, settings ------------------------------------------------------------------


@pytest.mark.parametrize("error", [ZeroDivisionError, KernelError, KeyboardInterrupt])
def test_a_failed_launch_leaves_nothing_behind(error):
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        if error is KernelError:
            nisa.tensor_tensor(tile, tile, tile[:, 0:2], nl.add)
        raise error

    with np.errstate(divide="raise"):
        with pytest.raises(error):
            kernel(values(3, 7))
        assert running() is None
        assert np.geterr()["divide"] == "raise"
    np.testing.assert_array_equal(copied(values(3, 7)), values(3, 7))


def test_an_error_inside_a_nested_kernel_names_both_lines():
    @nki.jit
    def inner(tile):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile[:, 0:2], op=nl.add)

    @nki.jit
    def outer(x):
        inner(nl.load(x))

    with pytest.raises(ShapeError) as caught:
        outer(values(3, 7))
    assert [place.function for place, _ in caught.value.stack][:1] == ["inner"]
    assert caught.value.place.file == __file__


def test_kernels_in_two_threads_have_separate_cores():
    rounds, cores, wrong = 20, set(), []
    together = threading.Barrier(2)

    @nki.jit
    def kernel(x):
        cores.add(id(running()))
        for _ in range(rounds):
            together.wait(timeout=60)
            increased(x)
        return x

    def work(start):
        got = kernel(np.full((3, 7), start, np.float32))
        if not np.array_equal(got, np.full((3, 7), start + rounds, np.float32)):
            wrong.append(start)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0.0, 1000.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cores) == 2 and not wrong


def target_seen(**options):
    return launch(lambda x: x, [values(1, 1)], tensor=NkiTensor, **options).machine.name


def test_the_target_comes_from_the_launch_then_settings_then_environment(monkeypatch):
    monkeypatch.delenv(TARGET_VARIABLE, raising=False)
    assert target_seen() == "trn2"
    for name, target in (("trn1", "trn1"), ("inf2", "trn1"), ("gen3", "trn2"), ("gen4", "trn3")):
        monkeypatch.setenv(TARGET_VARIABLE, name)
        assert target_seen() == target
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")
    with settings(target="trn3"):
        assert target_seen() == target_machine().name == "trn3"
        assert target_seen(target="trn2") == "trn2"
        with settings():
            assert target_seen() == "trn1"
    assert target_seen() == "trn1"


@pytest.mark.parametrize("name", ["trn0", "gen1", "TRN2x"])
def test_an_unknown_target_is_refused_with_the_list_of_targets(monkeypatch, name):
    monkeypatch.setenv(TARGET_VARIABLE, name)
    with pytest.raises(UsageError, match=f"no machine is called '{name}'"):
        copied(values(1, 1))


# --- findings -------------------------------------------------------------------------------------


def test_findings_are_warnings_at_the_line_of_the_call():
    @nki.jit
    def kernel():
        nl.zeros((2, 3), nl.float32)
        return nl.ndarray((2, 3), nl.float32, buffer=nl.shared_hbm)

    with pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN.*6 of the 6 elements") as caught:
        got = kernel()
    assert np.isnan(got).all()
    assert [w.filename for w in caught] == [__file__]


def test_an_uninitialized_read_is_reported_or_refused():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype)
        nl.store(x, nl.add(tile, 1.0))
        return x

    with pytest.warns(NeuronWarning, match="UNINIT_READ"):
        assert np.isnan(kernel(values(3, 7))).all()
    with (
        settings(options=Options(uninitialized="zeros")),
        pytest.warns(match="UNINIT_READ.* they read as 0"),
    ):
        assert (kernel(values(3, 7)) == 1).all()
    with settings(options=Options(uninitialized="raise")), pytest.raises(KernelError):
        kernel(values(3, 7))


@pytest.mark.parametrize(
    ("dtype", "poison"), [("float32", np.nan), ("bfloat16", np.nan), ("int32", 4), ("uint8", 4)]
)
def test_results_that_were_never_written_are_findings(dtype, poison):
    @nki.jit
    def kernel(x):
        nl.load(x)
        return nl.ndarray(x.shape, dtype, buffer=nl.shared_hbm)

    for uninitialized, there in (("report", poison), ("zeros", 0)):
        chosen = settings(options=Options(uninitialized=uninitialized))
        with chosen, pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN"):
            found = kernel(values(3, 7)).astype(np.float32)
        assert np.array_equal(found, np.full((3, 7), there, np.float32), equal_nan=True)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_arguments_and_results_may_have_no_elements(shape):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out, out[:, 0:0], x

    with pytest.warns(NeuronWarning, match="NO_ELEMENTS"):
        out, part, given = kernel(np.zeros(shape, np.float32))
    assert (out.shape, part.shape, given.shape) == (shape, (shape[0], 0), shape)


def test_a_result_may_be_a_view_at_a_register_offset():
    @nki.jit
    def kernel(x):
        return x[nl.ds(nisa.register_alloc(3), 5)]

    x = values(9, 7)
    np.testing.assert_array_equal(kernel(x), x[3:8])


def test_an_observer_gets_findings_instead_of_warnings():
    class Observer:
        def __init__(self):
            self.told = []

        def begun(self, core):
            self.told.append(core)

        def done(self, run):
            self.told.append(run)

    @nki.jit
    def kernel():
        nl.zeros((2, 3), nl.float32)
        return nl.ndarray((2, 3), nl.float32, buffer=nl.shared_hbm)

    observer = Observer()
    with settings(observer=observer):
        kernel()
    core, run = observer.told
    assert run.core is core and [f.code for f in run.findings] == ["OUTPUT_NOT_WRITTEN"]


def test_an_enumeration_member_may_be_passed_as_its_number():
    @nki.jit
    def numbered(x):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x, dge_mode=3)
        nisa.tensor_copy(tile, tile, engine=5)
        nl.store(x, tile)
        return x

    np.testing.assert_array_equal(numbered(values(3, 7)), values(3, 7))


def test_a_number_without_a_member_is_refused():
    @nki.jit
    def wrong(x):
        nisa.dma_copy(nl.ndarray(x.shape, x.dtype), x, dge_mode=17)

    with pytest.raises(SignatureError, match="dge_mode must be a"):
        wrong(values(3, 7))


@pytest.mark.parametrize(
    ("dtype", "advice"), [("float4_e2m1fn", "float4_e2m1fn_x4"), ("int4", "astype")]
)
def test_an_array_of_4_bits_is_refused_with_advice(dtype, advice):
    with pytest.raises(DtypeError, match=f"has dtype {dtype}") as refusal:
        neuroncore.run(nki.jit(lambda x: x), np.ones((4, 8)).astype(dtype), target="trn3")
    assert advice in refusal.value.hint
