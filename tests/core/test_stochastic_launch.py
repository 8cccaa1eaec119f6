"""Stochastic rounding in kernels: where it applies, and which random word each element uses."""

import threading

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from accepted import accepted
from calls import FLOATS, ONE_CORE, Case
from device import TARGETS, Device, bits, same
from every import every, for_all
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc import nki as older
from neuronxcc.nki import language as older_nl
from numbers_of_formats import LAYOUT, overflow_code, thresholds

from neuroncore.base.enums import engine
from neuroncore.base.errors import UsageError
from neuroncore.base.options import Options
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.frontend.settings import settings
from neuroncore.numerics.formats import lookup
from neuroncore.numerics.stochastic import Stream
from neuroncore.numerics.stochastic import words as words_of

NARROW = FLOATS[1:]
SEED = 0xC0FFEE
ONE_IN_FOUR = np.float32(1 + 2.0**-9)  # a quarter of a step above 1 in bfloat16


class Random(Device):
    """A core that rounds stochastically."""

    def __init__(self, target="trn2", seed=SEED, **options):
        super().__init__(target, stochastic=True, stochastic_seed=seed, **options)


def rounded(values, form, stream, first=0):
    """Return codes of float32 values, rounded with the words of a stream in row-major order."""
    words = words_of(stream, values.size, first=first).reshape(values.shape)
    found = [thresholds(form, v) for v in values.flat]
    below, limit = (np.array(n).reshape(values.shape) for n in zip(*found, strict=True))
    exponent, mantissa, *_ = LAYOUT[form]
    codes = np.minimum(below + (words < limit), overflow_code(form))
    codes |= np.where(np.signbit(values), 1 << exponent + mantissa, 0)
    return codes << (13 if form == "tfloat32" else 0)


def stream(unit, instruction=0, seed=SEED, core=0):
    return Stream(seed, core, engine[unit].value, instruction)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


# --- S8: where it applies -------------------------------------------------------------------------


@for_all("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in ONE_CORE if INSTRUCTIONS[name].operands])
def test_S8_each_instruction_has_separate_words(name, target):
    device, forms = Random(target), [form for form in accepted(name, target) if form in NARROW]
    every((Case(device, name, form, turn=turn) for turn, form in enumerate(forms)), Case.issue)
    if forms:
        device.agrees()


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "int32", "uint8"])
def test_S8_float32_and_integers_are_rounded_to_nearest(dtype):
    x = normal(33, 65) * 100
    results = []
    for device in (Device(), Random()):
        src, a, b = device.tile(x), device.empty(x.shape, dtype), device.empty(x.shape, dtype)
        device.issue("tensor_scalar", a, src, nl.multiply, 1.7)
        device.issue("activation", b, nl.tanh, src)
        results.append((a.numpy(), b.numpy()))
    for want, got in zip(*results, strict=True):
        same(got, want)


@for_all("form", NARROW)
def test_S8_copies_of_a_format_and_constants_are_exact(form):
    device, x = Random("trn3"), normal(33, 7)
    src = device.tile(x, None if form == "tfloat32" else form)
    src = src.view("tfloat32") if form == "tfloat32" else src
    for name in ("tensor_copy", "dma_copy"):
        dst = device.empty(x.shape, form)
        device.issue(name, dst, src)
        assert np.array_equal(bits(dst.codes()), bits(src.codes()))
    filled = []
    for core in (device, Device("trn3")):
        filled.append(core.empty((5, 512), form))
        core.issue("memset", filled[-1], 0.3)
    assert np.array_equal(bits(filled[0].codes()), bits(filled[1].codes()))


def test_S8_operands_of_the_array_and_quantize_mx_are_rounded_to_nearest():
    x = normal(32, 8)
    results = []
    for device in (Device("trn3"), Random("trn3")):
        dst = device.empty((32, 8), buffer="psum")
        one = device.tile(np.eye(32, dtype=np.float32)).view("tfloat32")
        device.issue("nc_matmul", dst, one, device.tile(x).view("tfloat32"))
        packed, scale = device.empty((32, 2), "float8_e5m2_x4"), device.empty((32, 2), "uint8")
        device.issue("quantize_mx", packed, device.tile(x, "bfloat16"), scale)
        results.append((dst.numpy(), packed.codes(), scale.codes()[:4]))
    for want, got in zip(*results, strict=True):
        assert np.array_equal(got, want)


# --- S6: which random word ------------------------------------------------------------------------


@for_all("form", NARROW)
@for_all("unit", ["vector", "scalar", "gpsimd"])
def test_S6_an_element_uses_the_word_of_its_place_in_its_instruction(unit, form):
    device, x = Random("trn3"), normal(9, 13)
    src = device.tile(x)
    for number in range(3):
        dst = device.empty(x.shape, form)
        device.issue("tensor_copy", dst, src, engine=engine[unit])
        assert np.array_equal(bits(dst.codes()), rounded(x, form, stream(unit, number)))


def test_S6_each_engine_numbers_its_instructions():
    device, x = Random("trn3"), normal(16, 8)
    src, one = device.tile(x), device.tile(np.eye(16, dtype=np.float32))
    tensor = device.empty(x.shape, "bfloat16", "psum")
    a, b, c, d = (device.empty(x.shape, "bfloat16", m) for m in ("sbuf", "sbuf", "sbuf", "hbm"))
    device.issue("memset", a, 0.0)  # the Vector engine's first
    device.issue("nc_matmul", tensor, one, src)
    device.issue("activation", a, nl.copy, src)
    device.issue("tensor_scalar", b, src, nl.multiply, 1.0)
    device.issue("affine_select", c, [[1, 8]], 0, src, 0.0, cmp_op=nl.greater_equal)
    device.issue("dma_copy", d, src)
    device.issue("dma_copy", d, src)
    for tile, unit, number in (
        *((tensor, "tensor", 0), (a, "scalar", 0), (b, "vector", 1), (c, "gpsimd", 0)),
        (d, "dma", 1),
    ):
        assert np.array_equal(tile.codes(), rounded(x, "bfloat16", stream(unit, number)))


LAYOUTS = {
    "columns": lambda t: t[:, ::3],
    "rows": lambda t: t[:12, 20:31],
    "a part of three axes": lambda t: t[:, :24].reshape((16, 4, 6))[:, ::2, 1:5],
    "a permuted view": lambda t: t[:, :12].reshape((16, 3, 4)).permute((0, 2, 1)),
}


@for_all("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["tensor_copy", "dma_copy", "activation"])
@for_all("where", ["sbuf", "psum", "address"])
def test_S6_the_address_of_an_element_does_not_matter(layout, name, where):
    if (name, where) == ("dma_copy", "psum"):
        where = "hbm"
    device = Random()
    address = {"address": (0, 64)} if where == "address" else {}
    whole = device.zeros((16, 64), "bfloat16", "sbuf" if address else where, **address)
    dst = LAYOUTS[layout](whole)
    x = normal(*dst.shape)
    more = {"activation": (nl.copy,)}.get(name, ())
    device.issue(name, dst, *more, device.tile(x))
    unit = {"tensor_copy": "vector", "dma_copy": "dma", "activation": "scalar"}[name]
    want = rounded(x, "bfloat16", stream(unit))
    assert np.array_equal(dst.codes(), want)
    src = device.tile(np.repeat(x, 2, axis=-1))[..., ::2]
    device.issue(name, dst, *more, src)
    assert np.array_equal(dst.codes(), rounded(x, "bfloat16", stream(unit, 1)))


@given(st.integers(1, 128), st.integers(1, 300), st.sampled_from(["bfloat16", "float8_e4m3"]))
def test_S6_tiles_of_any_size(rows, columns, form):
    device = Random()
    x = np.full((rows, columns), 1 + 0.3 * lookup(form).eps, np.float32)
    dst = device.empty(x.shape, form)
    device.issue("tensor_copy", dst, device.tile(x))
    up = words_of(stream("vector"), x.size) < int(float(x[0, 0] - 1) / lookup(form).eps * 2**32)
    assert np.array_equal(dst.numpy().astype(np.float32) > 1, up.reshape(x.shape))


def test_S6_a_second_result_uses_the_words_after_the_first():
    device, x = Random(), normal(8, 10)
    dst, total = device.empty(x.shape, "bfloat16"), device.empty((8, 1), "bfloat16")
    device.issue("tensor_scalar_reduce", dst, device.tile(x), nl.multiply, 1.0, nl.maximum, total)
    assert np.array_equal(dst.codes(), rounded(x, "bfloat16", stream("vector")))
    largest = x.max(axis=1, keepdims=True)
    want = rounded(largest, "bfloat16", stream("vector"), first=x.size)
    assert np.array_equal(total.codes(), want)


def test_S6_scattered_elements_use_the_words_of_their_places_in_the_tile():
    device, x = Random("trn3"), normal(16, 32)
    places = np.random.default_rng(0).permutation(32).astype(np.uint16)
    index = device.tile(places.reshape(2, 16).T)
    whole = device.zeros((16, 40), "bfloat16")
    device.issue("tensor_copy", whole.indirect(index, 32), device.tile(x))
    want = np.zeros((16, 40), np.int64)
    want[:, places] = rounded(x, "bfloat16", stream("vector"))
    assert np.array_equal(whole.codes(), want)


def test_S6_rows_gathered_and_added_by_dma():
    device, x = Random(), normal(6, 9)
    table, rows = (
        device.tile(normal(10, 9, seed=1), "bfloat16", "hbm"),
        np.array([[7], [1], [2], [9], [0], [3]]),
    )
    index = device.tile(rows.astype(np.int32))
    part = device.empty((6, 9), "float8_e4m3")
    device.issue("dma_copy", part, table.vector_select(0, index))
    values = table.values()[rows[:, 0]]
    assert np.array_equal(part.codes(), rounded(values, "float8_e4m3", stream("dma")))
    picked = table.vector_select(0, index)
    device.issue("dma_compute", picked, [picked, device.tile(x)], nl.add)
    want = rounded(values + x, "bfloat16", stream("dma", 1))
    assert np.array_equal(table.codes()[rows[:, 0]], want)


# --- launches -------------------------------------------------------------------------------------


@nki.jit
def narrowed(x):
    """Return x in bfloat16 after two conversions by the Vector engine, one by the Scalar engine and
    one by DMA."""
    out = nl.ndarray((4, *x.shape), nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    a, b, c = (nl.ndarray(x.shape, nl.bfloat16) for _ in range(3))
    nisa.tensor_scalar(a, tile, nl.multiply, 1.0)
    nisa.activation(b, nl.copy, tile)
    nisa.tensor_scalar(c, tile, nl.multiply, 1.0)
    for i, part in enumerate((a, b, c)):
        nisa.dma_copy(out[i], part)
    nisa.dma_copy(out[3], x)
    return out


def ups(codes):
    """Return for each element whether the quarter above 1 was rounded up, as numbers with mean 0
    and variance 1."""
    up = np.asarray(codes).astype(np.float32) > 1
    return (up - 0.25) / 0.1875**0.5


def unrelated(a, b):
    return abs((ups(a) * ups(b)).mean()) * a.size**0.5 < 4.5


X = np.full((128, 512), ONE_IN_FOUR, np.float32)


def options(seed=0, **more):
    return Options(stochastic=True, stochastic_seed=seed, **more)


def run(kernel, *args, seed=0, **more):
    with settings(options=options(seed, **more)):
        return kernel(*args)


def test_S6_a_seed_repeats_results_and_other_seeds_are_unrelated():
    first, again, other = (run(narrowed, X, seed=seed) for seed in (5, 5, 6))
    assert first.tobytes() == again.tobytes()
    parts = [*first, *other]
    for i, a in enumerate(parts):
        assert abs(ups(a).mean()) * a.size**0.5 < 4.5
        assert all(unrelated(a, b) for b in parts[:i])
    for step in (1, 2, 3, 4, 128, 512):
        assert unrelated(first[0].reshape(-1)[step:], first[0].reshape(-1)[:-step])


def test_S6_threads_do_not_matter():
    seeds = range(4)
    alone, together = [run(narrowed, X, seed=s) for s in seeds], {}

    def one(seed):
        together[seed] = run(narrowed, X, seed=seed)

    threads = [threading.Thread(target=one, args=(s,)) for s in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(together[s].tobytes() == alone[s].tobytes() for s in seeds)


def test_S6_two_cores_have_separate_words():
    @nki.jit
    def both(x):
        rank = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, nl.bfloat16)
        nisa.tensor_copy(tile, nl.load(x))
        nisa.dma_copy(out[rank], tile)
        return out

    got = run(both[2], X)
    assert unrelated(got[0], got[1])
    for rank in (0, 1):
        up = words_of(stream("vector", seed=0, core=rank), X.size) < 2**30
        assert np.array_equal(got[rank].astype(np.float32) > 1, up.reshape(X.shape))


def test_S6_programs_of_an_older_grid_have_separate_words():
    @older.jit
    def programs(x):
        rank = older_nl.program_id(0)
        out = older_nl.ndarray((3, *x.shape), older_nl.bfloat16, buffer=older_nl.shared_hbm)
        tile = older_nl.copy(older_nl.load(x), dtype=older_nl.bfloat16)
        older_nl.store(out[rank], tile)
        return out

    got = run(programs[3], X)
    assert all(unrelated(got[i], got[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert got.tobytes() == run(programs[3], X).tobytes()


@pytest.mark.parametrize("bits_, up", [(1, 0), (2, 1 / 4), (3, 1 / 4), (32, 1 / 4)])
def test_few_random_bits_round_up_too_rarely(bits_, up):
    got = run(narrowed, X, stochastic_bits=bits_)
    mean = (got.astype(np.float32) > 1).mean()
    assert abs(mean - up) <= 4.5 * (up * (1 - up) / got.size) ** 0.5


@pytest.mark.parametrize(
    "wrong", [{"stochastic_bits": 0}, {"stochastic_bits": 33}, {"seed": -1}, {"seed": 2**32}]
)
def test_options_without_meaning_are_refused(wrong):
    with pytest.raises(UsageError, match=r"must be from 0 to|it must be from 1 to 32"):
        run(narrowed, X, **wrong)


# --- S7: sums that do not stagnate ----------------------------------------------------------------

REPLICAS = (128, 64)


@nki.jit
def half_added(x, count):
    """Return x + 0.5 + 0.5 + ..., with each sum in the format of x."""
    total = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(total, x)
    for _ in range(count):
        nisa.tensor_scalar(total, total, nl.add, 0.5)
    nl.store(x, total)
    return x


def older_half_added(x, count):
    total = older_nl.load(x)
    for _ in older_nl.sequential_range(count):
        total[...] = older_nl.add(total, 0.5)
    out = older_nl.ndarray(x.shape, x.dtype, buffer=older_nl.shared_hbm)
    older_nl.store(out, total)
    return out


@pytest.mark.parametrize(
    "kernel", [half_added, older.jit(older_half_added)], ids=["nki", "neuronxcc"]
)
def test_S7_the_vendors_sum(kernel, monkeypatch):
    """1024 + 2048 times 0.5 in float16; the standard deviation of such a sum is 22.96."""
    start = np.full(REPLICAS, 1024, np.float16)
    assert (kernel(start.copy(), 2048) == 1024).all()
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1")
    total = kernel(start.copy(), 2048).astype(np.float64)
    assert abs(total.mean() - 2048) < 4 * 22.96 / total.size**0.5
    assert abs(total.std() - 22.96) < 1
    assert abs(2056 - total.mean()) < 2 * total.std()  # the result on the vendor's page


# --- S9: sums in PSUM -----------------------------------------------------------------------------


def test_S9_the_mean_of_bfloat16_sums_over_seeds_is_the_float32_sum():
    s, x = normal(128, 16), normal(128, 24, seed=1)
    s, x = s.astype("bfloat16"), x.astype("bfloat16")

    def summed(device, form):
        dst = device.empty((16, 24), form, "psum")
        for _ in range(4):
            device.issue("nc_matmul", dst, device.tile(s), device.tile(x))
        return dst.numpy().astype(np.float64)

    exact = summed(Device("trn3"), "float32")
    seeds = 400
    found = np.array(
        [summed(Random("trn3", seed, record=False), "bfloat16") for seed in range(seeds)]
    )
    steps = np.abs(found - exact) / (np.abs(exact) * 2.0**-7 + 1e-3)
    assert 0 < steps.max() < 8  # roundings of four sums
    spread = found.std(axis=0)
    z = (found.mean(axis=0) - exact) / np.maximum(spread / seeds**0.5, 1e-9)
    assert np.abs(z).max() < 4.5 and 0.8 < z.std() < 1.2
    nearest = summed(Device("trn3"), "bfloat16")
    assert np.abs(nearest - exact).mean() > 3 * np.abs(found.mean(axis=0) - exact).mean()
