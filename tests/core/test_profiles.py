"""Narrow formats that are stored as float32 (Options.storage): nothing is rounded more than
float32."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from accepted import accepted
from calls import FLOATS, ONE_CORE, Case, values
from device import TARGETS, Device, bits, converted, same
from every import every, for_all
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl

from neuroncore.base.errors import UsageError, ViewError
from neuroncore.base.options import PROFILES, documented, ideal, profile, vendor_sim
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings
from neuroncore.numerics.formats import lookup

NARROW = FLOATS[1:]
HOST = tuple(name for name in NARROW if name != "tfloat32")  # numpy has no TF32


class Wide(Device):
    """A core with the ideal storage. A tile of floats can hold any float32 numbers."""

    def __init__(self, target="trn2", **options):
        super().__init__(target, storage="float32", **options)

    def tile(self, values, dtype=None, buffer="sbuf", address=None):
        values = np.asarray(values)
        form = lookup(dtype or values.dtype)
        if not form.is_float:
            return super().tile(values, dtype, buffer, address)
        tile = self.empty(values.shape, form, buffer, address)
        tile.codes()[...] = values
        return self.enter(tile)


# --- every instruction with every format ----------------------------------------------------------


@for_all("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in ONE_CORE if INSTRUCTIONS[name].operands])
def test_results_equal_those_of_float32(name, target):
    device, forms = Wide(target), [form for form in accepted(name, target) if form in NARROW]
    made = [Case(device, name, form, turn=turn) for turn, form in enumerate(forms)]
    every(made, Case.issue)
    if made:
        device.agrees()
        floats = (tile for case in made for tile in case.tiles if tile.dtype.is_float)
        assert all(tile.held == "float32" for tile in floats) and not device.findings


# --- programs -------------------------------------------------------------------------------------

THIRD = np.float32(1 / 3)  # between two numbers of every narrow format


def thirds(*shape, seed=0):
    """Return numbers that every narrow format would round."""
    return np.random.default_rng([seed, *shape]).uniform(1, 2, shape).astype(np.float32) * THIRD


@for_all("form", NARROW)
def test_conversions_to_a_format_and_back_change_nothing(form):
    device, x = Wide("trn3"), thirds(33, 5)
    src, dst = device.tile(x), device.empty(x.shape)
    middle = [device.empty(x.shape, form, b) for b in ("sbuf", "psum", "hbm", "sbuf")]
    for name, a, b in zip(
        ("tensor_copy", "tensor_copy", "tensor_copy", "dma_copy", "dma_copy"),
        (src, middle[0], middle[1], middle[3], middle[2]),
        (middle[0], middle[1], middle[3], middle[2], dst),
        strict=True,
    ):
        device.issue(name, b, a)
    assert np.array_equal(dst.numpy(), x)


@pytest.mark.parametrize("form", ["bfloat16", "float32"])
def test_sums_in_psum_are_float32_in_any_format(form):
    device = Wide("trn3")
    s, x = thirds(64, 5), thirds(64, 7, seed=1)
    dst = device.empty((5, 7), form, "psum")
    stationary, moving = device.tile(s, "bfloat16"), device.tile(x, "float16")
    for _ in range(3):
        device.issue("nc_matmul", dst, stationary, moving)
    want = 3 * (s.astype(np.float64).T @ x)
    np.testing.assert_allclose(dst.numpy(), want, rtol=1e-6)
    assert (
        not np.array_equal(dst.numpy(), want.astype(form).astype(np.float32)) or form == "float32"
    )


def test_tf32_is_not_rounded_when_the_array_reads_it():
    device, x = Wide(), thirds(32, 4)
    one, dst = np.eye(32, dtype=np.float32), device.empty((32, 4), buffer="psum")
    device.issue("nc_matmul", dst, device.tile(one, "tfloat32"), device.tile(x, "tfloat32"))
    assert np.array_equal(dst.numpy(), x)
    same_bits = device.tile(x).view("tfloat32")
    device.issue("nc_matmul", dst, device.tile(one), same_bits, accumulate=False)
    assert np.array_equal(dst.numpy(), x)


@for_all("form", NARROW)
def test_rows_are_gathered_and_scattered_unchanged(form):
    device, x = Wide("trn3"), thirds(10, 6)
    rows = np.array([[7], [0], [9]], np.int32)
    table, part = device.tile(x, form, "hbm"), device.empty((3, 6), form)
    device.issue("dma_copy", part, table.vector_select(0, device.tile(rows)))
    assert np.array_equal(part.numpy(), x[rows[:, 0]])
    wide = device.empty((3, 6))
    device.issue("dma_copy", wide, table.vector_select(0, device.tile(rows)))
    assert np.array_equal(wide.numpy(), x[rows[:, 0]])
    other = device.tile(np.zeros_like(x), form, "hbm")
    device.issue("dma_copy", other.vector_select(0, device.tile(rows)), part)
    want = np.zeros_like(x)
    want[rows[:, 0]] = x[rows[:, 0]]
    assert np.array_equal(other.numpy(), want)
    added = other.vector_select(0, device.tile(rows))
    device.issue("dma_compute", added, [added, part], nl.add)
    assert np.array_equal(other.numpy(), want + want)


@given(st.data())
def test_windows_of_a_tile_are_windows_of_its_numbers(data):
    x = thirds(8, 4, 6)
    begin, step = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 3))
    rows = data.draw(st.integers(1, 8))
    device = Wide("trn3")
    tile = device.tile(x, data.draw(st.sampled_from(NARROW)))
    part = tile[:rows, 1:3, begin::step]
    assert np.array_equal(part.numpy(), x[:rows, 1:3, begin::step])
    device.issue("tensor_scalar", part, part, nl.multiply, 3.0)
    x[:rows, 1:3, begin::step] *= np.float32(3)
    assert np.array_equal(tile.numpy(), x)
    assert np.array_equal(tile.reshape((8, 24)).numpy(), x.reshape(8, 24))


PLACES = ("sbuf", 64), ("psum", 0), ("psum", 2048)


@pytest.mark.parametrize("form, place", [(f, PLACES[i % 3]) for i, f in enumerate(NARROW)])
def test_tensors_at_addresses_overlap_like_on_the_chip(form, place):
    buffer, byte = place
    device, size = Wide("trn3"), lookup(form).itemsize
    columns = (byte + 64) // size
    whole = device.tile(thirds(4, columns), form, buffer, address=(0, 0))
    assert np.array_equal(whole.numpy(), thirds(4, columns))
    x = thirds(4, 16, seed=1)
    part = device.tile(x, form, buffer, address=(0, byte))
    want = thirds(4, columns)
    want[:, byte // size : byte // size + 16] = x
    assert np.array_equal(whole.numpy(), want) and np.array_equal(part.numpy(), x)
    device.issue("tensor_copy", whole[:, :16], part)
    assert np.array_equal(whole.numpy()[:, :16], part.numpy())
    beyond = device.tile(x, form, buffer, address=(0, 4096))
    assert np.array_equal(beyond.numpy(), x)
    assert not device.findings


def test_products_go_to_psum_at_an_address():
    device, x = Wide(), thirds(32, 8)
    one = device.tile(np.eye(32, dtype=np.float32), "bfloat16", address=(0, 64))
    dst = device.empty((32, 8), buffer="psum", address=(0, 2048))
    for twice in (1, 2):
        device.issue("nc_matmul", dst, one, device.tile(x, "bfloat16"))
        assert np.array_equal(dst.numpy(), twice * x)


def test_data_of_another_format_at_an_address_is_not_visible():
    device = Wide()
    device.tile(thirds(4, 16), "bfloat16", address=(0, 0))
    device.issue(
        "tensor_copy", device.empty((4, 16)), device.empty((4, 16), "uint8", address=(0, 0))
    )
    assert device.findings == ["UNINIT_READ"]


def test_uninitialized_memory_is_nan():
    device = Wide()
    src, dst = device.empty((4, 5), "bfloat16"), device.empty((4, 5), "float8_e4m3")
    device.issue("tensor_copy", src[:, :2], device.tile(thirds(4, 2)))
    device.issue("tensor_copy", dst, src)
    assert np.array_equal(np.isnan(dst.numpy()), np.broadcast_to(np.arange(5) > 1, (4, 5)))
    assert device.findings == ["UNINIT_READ"]


# --- unaffected behavior --------------------------------------------------------------------------


@for_all(
    "form, other",
    [
        *(("bfloat16", "uint16"), ("float16", "bfloat16"), ("float8_e4m3", "uint8")),
        *(("uint16", "bfloat16"), ("float32", "bfloat16"), ("float8_e5m2", "float32")),
        *(("tfloat32", "bfloat16"), ("int32", "float8_e4m3"), ("bfloat16", "int8")),
    ],
)
def test_bits_of_narrow_formats_cannot_be_viewed(form, other):
    Device("trn3").zeros((4, 8), form).view(lookup(other))
    device = Wide("trn3")
    tile = device.zeros((4, 8), form)
    with pytest.raises(
        ViewError, match=r"NKI_PRECISE_FP=0.*the bits of the narrow format do not exist"
    ) as refused:
        tile.view(lookup(other))
    assert other in str(refused.value)


@pytest.mark.parametrize(
    "form, other",
    [("float32", "int32"), ("int32", "uint8"), ("tfloat32", "uint32"), ("float32", "tfloat32")],
)
def test_bits_of_other_formats_can_be_viewed(form, other):
    device, x = Wide(), values(form, (4, 8))
    got = device.tile(x, form).view(lookup(other)).numpy()
    assert np.array_equal(bits(got), bits(x.astype(lookup(form).numpy).view(lookup(other).numpy)))


def test_bytes_at_an_address_differ_from_the_chip():
    device = Wide()
    placed = device.zeros((4, 8), "int32", address=(0, 0))
    assert np.array_equal(placed.view("uint32").numpy(), np.zeros((4, 8)))
    with pytest.raises(ViewError, match="an explicit address"):
        placed.view("uint8")


def test_packed_formats_are_still_rounded():
    results = []
    for device in (Device("trn3"), Wide("trn3")):
        x = (thirds(32, 16) * 8).astype("bfloat16")
        dst, scale = device.empty((32, 4), "float8_e4m3fn_x4"), device.empty((32, 4), "uint8")
        device.issue("quantize_mx", dst, device.tile(x), scale)
        results.append((dst.codes().tobytes(), scale.codes()[[0, 1, 2, 3]].tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("form", ["int8", "uint16", "int32", "uint8"])
def test_integers_are_still_rounded_and_saturate(form):
    x = np.array([[0.5, 1.5, 2.5, -0.5, 1e9, -1e9, 127.5, np.nan]], np.float32)
    device = Wide()
    dst = device.empty(x.shape, form)
    device.issue("tensor_copy", dst, device.tile(x, "bfloat16"))
    same(dst.numpy(), converted(x, form))


# --- launches -------------------------------------------------------------------------------------


@nki.jit
def averaged(x, y):
    """Return (x + y) / 3, with every step in the format of x."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(x), nl.load(y))
    nl.store(out, nl.multiply(total, 1 / 3))
    return out


def older_averaged(x, y):
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    older_nl.store(out, older_nl.multiply(older_nl.load(x) + older_nl.load(y), 1 / 3))
    return out


DIALECTS = {"nki": averaged, "neuronxcc": older.jit(older_averaged)}


def pair(form):
    return (thirds(33, 7, seed=seed).astype(form) for seed in (0, 1))


def want(x, y):
    return (x.astype(np.float32) + y.astype(np.float32)) * np.float32(1 / 3)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", HOST)
def test_the_environment_variable_makes_results_float32(dialect, form, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    x, y = pair(form)
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    got = DIALECTS[dialect](x, y)
    same(got, want(x, y))
    for value in ("1", ""):
        monkeypatch.setenv("NKI_PRECISE_FP", value)
        assert DIALECTS[dialect](x, y).dtype == x.dtype


def test_options_of_a_launch_and_of_the_process_take_precedence_over_the_variable(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x, y = pair("bfloat16")
    with settings(options=documented):
        assert averaged(x, y).dtype == "bfloat16"
        run = launch(averaged.function, (x, y), tensor=NkiTensor, options=ideal)
    same(run.outputs, want(x, y))
    assert averaged(x, y).dtype == "float32"


def test_a_torch_tensor_is_returned_as_float32(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x, y = (torch.tensor(a.astype(np.float32)).bfloat16() for a in pair("bfloat16"))
    got = averaged(x, y)
    assert got.dtype == torch.float32
    same(got.numpy(), want(x.float().numpy(), y.float().numpy()))


@nki.jit
def stepped(x, y):
    """Set x to x + y / 3 in place, and return the new x and three times the new x."""
    new = nl.add(nl.load(x), nl.multiply(nl.load(y), 1 / 3))
    nl.store(x, new)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 3.0))
    return out


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[:, ::-1], lambda a: a.T.copy().T])
@pytest.mark.parametrize("form", HOST)
def test_arguments_updated_in_place_are_rounded_once_at_the_end(form, view, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x, y = pair(form)
    x = view(x)
    new = x.astype(np.float32) + y.astype(np.float32) * np.float32(1 / 3)
    got = stepped(x, y)
    same(got, new * np.float32(3))
    assert x.dtype == form
    same(np.ascontiguousarray(x), new.astype(form))


def test_an_argument_that_is_only_read_keeps_its_bits(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x = np.arange(65536, dtype=np.uint16).view("bfloat16").reshape(128, 512)
    before = x.tobytes()
    nki.jit(lambda a: averaged.function(a, a))(x)
    assert x.tobytes() == before


def test_two_cores_exchange_float32_numbers(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    @nki.jit
    def swapped(x):
        rank = nl.program_id(0)
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        mine, other = (nl.ndarray((32, 3), nl.bfloat16) for _ in range(2))
        nisa.dma_copy(mine, x[32 * rank : 32 * rank + 32])
        nisa.sendrecv(mine, other, 1 - rank, 1 - rank, pipe_id=0)
        nisa.dma_copy(out[32 * rank : 32 * rank + 32], other)
        return out

    x = thirds(64, 3)
    assert np.array_equal(swapped[2](x), np.concatenate([x[32:], x[:32]]))


@pytest.mark.parametrize("form", HOST)
def test_constants_of_a_program_are_not_rounded(form, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x = thirds(8, 6).astype(form)
    zeros = np.zeros_like(x)

    @nki.jit
    def constant(like):
        out = nl.ndarray(x.shape, like.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.shared_constant(x))
        return out

    @older.jit
    def older_constant(like):
        out = older_nl.ndarray(x.shape, like.dtype, buffer=older_nl.shared_hbm)
        tile = older_nl.load(older_nl.shared_constant(x))
        tile[5:6] = 1 / 3  # a partition where no engine can start: a constant, and DMA
        older_nl.store(out, tile)
        return out

    want = x.astype(np.float32)
    same(constant(zeros), want)
    want[5] = THIRD
    same(older_constant(zeros), want)


def test_a_result_that_was_not_written_is_nan(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    @nki.jit
    def half(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[:2], x[:2])
        return out

    x = thirds(4, 6).astype("float16")
    with pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN"):
        got = half(x)
    assert np.array_equal(got[:2], x[:2].astype(np.float32)) and np.isnan(got[2:]).all()


# --- their names ----------------------------------------------------------------------------------


def test_profiles_have_names():
    assert [profile(name) for name in PROFILES] == [documented, ideal, vendor_sim]
    assert list(PROFILES) == ["documented", "ideal", "vendor-sim"]
    assert profile("ideal").storage == "float32" and profile("documented").storage == "own"
    with pytest.raises(UsageError, match="ideal"):
        profile("idael")


def test_estimates_do_not_depend_on_the_profile():
    """Data that the emulator stores as float32 is still narrow on the chip."""
    times = []
    for device in (Device(), Wide()):
        x = device.tile(thirds(128, 64).astype("bfloat16"), "bfloat16", "hbm")
        one, two = (device.empty((128, 64), "bfloat16", address=(0, b)) for b in (0, 128))
        total = device.empty((64, 64), "float32", "psum")
        device.issue("dma_copy", one, x)
        device.issue("tensor_scalar", two, one, nl.multiply, 2.0)
        device.issue("nc_matmul", total, one, two)
        device.issue("activation", one[:64], nl.exp, total)
        device.issue("dma_copy", x, one)
        times.append((device.timeline().total_ns, device.opcodes))
    assert times[0] == times[1]
