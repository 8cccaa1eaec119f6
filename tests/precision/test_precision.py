"""The source of the error: float64 results during a run compared with numpy's, and the lines to
which errors are attributed."""

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device, bits
from every import for_all
from precise import RNG, SMALL, WIDE, X, blamed, copied, empty, loaded, run, stored, through

from neuroncore.base.errors import KernelError
from neuroncore.base.options import Options
from neuroncore.core import core
from neuroncore.core.precision.findings import Precision, on
from neuroncore.core.precision.shadow import Shadow
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor

# --- lines that cause the error -------------------------------------------------------------------


@for_all("narrow", [nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2])
@pytest.mark.parametrize("x", [X, WIDE], ids=["small", "sampled"])
def test_the_error_is_attributed_to_the_only_imprecise_line(narrow, x):
    _, found = run(through(narrow), x)
    assert blamed(found, "the rough line") > 0.99


def test_a_narrow_result_of_a_matmul_is_the_rough_line():
    def kernel(x):
        tile = loaded(x)
        total = empty((128, 128), buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=tile[:, :128], moving=tile[:, 128:256])
        rough = empty((128, 128), nl.float8_e5m2)
        nisa.tensor_copy(dst=rough, src=total)  # the rough line
        square = empty((128, 128), buffer=nl.psum)
        nisa.nc_matmul(dst=square, stationary=rough, moving=rough)
        return stored(copied(square))

    _, found = run(kernel, WIDE)
    assert blamed(found, "the rough line") > 0.95


def test_a_sum_continues_in_some_elements_and_begins_in_others():
    def kernel(x):
        tile, total = loaded(x), empty((1, 8), buffer=nl.psum)
        for part in (total[:, :5], total):
            nisa.nc_matmul(dst=part, stationary=tile[:, :1], moving=tile[:, : part.shape[1]])
        return stored(copied(total))

    x = X[:, :8].astype(np.float32)
    launched, found = run(kernel, x)
    wanted = np.float64(x[:, :1]).T @ x * ([2] * 5 + [1] * 3)
    assert np.allclose(launched.outputs, wanted, rtol=1e-5) and found.beyond is None


def test_the_less_precise_of_two_inputs_causes_more_error():
    def kernel(x, y):
        a, b = loaded(x), loaded(y)
        half, eighth = empty(a.shape, nl.bfloat16), empty(a.shape, nl.float8_e4m3)
        nisa.tensor_copy(dst=half, src=a)  # bfloat16
        nisa.tensor_copy(dst=eighth, src=b)  # float8
        out = empty(a.shape)
        nisa.tensor_tensor(dst=out, data1=half, data2=eighth, op=nl.multiply)
        return stored(out)

    _, found = run(kernel, X, X[::-1].copy())
    near = 1 / (1 + 2.0**8)  # squares of 2^-8 and 2^-4
    assert blamed(found, "# bfloat16") == pytest.approx(near, rel=0.2)
    assert blamed(found, "# float8") == pytest.approx(1 - near, rel=0.01)


def test_overwritten_results_cause_no_error():
    def kernel(x):
        tile = loaded(x)
        rough = empty(tile.shape, nl.bfloat16)
        nisa.tensor_scalar(dst=rough, data=tile, op0=nl.multiply, operand0=1.1)
        nisa.tensor_copy(dst=rough, src=rough)
        for half in (slice(0, 100), slice(100, 300)):
            nisa.memset(dst=rough[:, half], value=1.0)
        return stored(rough)

    done, found = run(kernel, X)
    assert found.results[0].rel_l2 == 0 and not any(line.share for line in found.lines)
    assert (done.outputs == 1).all()


def test_overwriting_a_part_removes_its_errors():
    def kernel(x):
        tile = loaded(x)
        out = empty(tile.shape)
        nisa.activation(dst=out, op=nl.exp, data=tile)  # first
        nisa.activation(dst=out[:, 100:], op=nl.exp, data=tile[:, :200])  # then
        return stored(out)

    done, found = run(kernel, SMALL)
    parts = (done.outputs - found.results[0].exact) ** 2
    first = parts[:, :100].sum() / parts.sum()
    assert blamed(found, "# first") == pytest.approx(first, rel=1e-6)


def test_errors_go_through_accumulator_registers():
    def kernel(x):
        tile = loaded(x)
        rough = empty(tile.shape, nl.bfloat16)
        nisa.tensor_copy(dst=rough, src=tile)  # the rough line
        powers, total = empty(tile.shape), empty((x.shape[0], 1))
        for half, command in (
            (slice(0, 150), nisa.reduce_cmd.reset_reduce),
            (slice(150, 300), nisa.reduce_cmd.reduce),
        ):
            nisa.activation(
                dst=powers[:, half], op=nl.exp, data=rough[:, half], reduce_op=nl.add,
                reduce_res=total, reduce_cmd=command,
            )  # fmt: skip
        return stored(total)

    _, found = run(kernel, X)
    exact = np.exp(X.astype(np.float64)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-11)
    assert blamed(found, "the rough line") > 0.99


def test_shares_cover_all_results():
    def kernel(x):
        tile = loaded(x)
        return [stored(copied(tile, form)) for form in (nl.bfloat16, nl.float16)]

    _, found = run(kernel, X)
    assert len(found.results) == 2
    assert sum(line.share for line in found.lines) == pytest.approx(1)
    assert found.results[0].rel_l2 == pytest.approx(2.0**-9 / np.sqrt(3) * 1.2, rel=0.3)


def test_results_that_share_a_tensor():
    def kernel(x):
        tile, out = loaded(x), empty((13, 301))
        nisa.activation_reduce(
            dst=out[:, :300], op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=out[:, 300:]
        )
        nisa.activation_reduce(
            dst=out[:, :300], op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=out[:, 7:8]
        )
        return stored(out)

    _, found = run(kernel, SMALL)
    powers = np.exp(SMALL.astype(np.float64))
    exact = np.hstack([powers, powers.sum(axis=1, keepdims=True)])
    exact[:, 7] = exact[:, 300]
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-10)
    assert blamed(found, "activation_reduce") == pytest.approx(1)


# --- float64 itself -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"matmul": "blas"}, {"fp32_matmul": "four_pass"}, {"subnormals": "flush"}]
)
def test_float64_results_agree_with_numpy(options):
    def kernel(x, y):
        a, b = loaded(x), loaded(y)
        turned = empty((100, 70), buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=a[:, :100])
        left = empty((100, 70), nl.bfloat16)
        nisa.tensor_scalar(dst=left, data=turned, op0=nl.multiply, operand0=0.1, op1=nl.add,
                           operand1=1 / 3)  # fmt: skip
        total, short = empty((70, 40), buffer=nl.psum), copied(copied(b), nl.bfloat16)
        for _ in range(2):
            nisa.nc_matmul(dst=total, stationary=left, moving=short)
        low = empty((70, 1))
        nisa.tensor_reduce(dst=low, op=nl.minimum, data=total, axis=1)
        out = empty((70, 40))
        nisa.tensor_scalar(dst=out, data=total, op0=nl.subtract, operand0=low)
        inverse = empty((70, 1))
        nisa.tensor_reduce(dst=inverse, op=nl.add, data=out, axis=1)
        nisa.reciprocal(dst=inverse, data=inverse)
        nisa.scalar_tensor_tensor(dst=out, data=out, op0=nl.multiply, operand0=inverse,
                                  op1=nl.maximum, operand1=out)  # fmt: skip
        return stored(out)

    y = RNG.standard_normal((100, 40)).astype(np.float32)
    _, found = run(kernel, X, y, **options)
    a, b = X[:, :100].astype(np.float64), y.astype(np.float64)
    total = 2 * (a * 0.1 + 1 / 3) @ b
    out = total - total.min(axis=1, keepdims=True)
    wanted = np.maximum(out / out.sum(axis=1, keepdims=True), out)
    np.testing.assert_allclose(found.results[0].exact, wanted, rtol=1e-12, atol=1e-12)


def test_the_error_introduced_is_that_of_one_rounding():
    def kernel(x):
        return stored(copied(loaded(x), nl.bfloat16))

    _, found = run(kernel, SMALL)
    (line,) = [line for line in found.lines if line.count]
    narrow = SMALL.astype(ml_dtypes.bfloat16).astype(np.float64)
    unit = 2.0 ** (np.floor(np.log2(np.abs(SMALL.astype(np.float64)))) - 7)
    assert line.max_ulps == np.max(np.abs(narrow - SMALL) / unit)
    wanted = np.sqrt(np.mean((narrow - SMALL) ** 2) / np.mean(unit**2))
    assert line.rms_ulps == pytest.approx(wanted, rel=1e-12)
    assert found.results[0].rel_l2 == pytest.approx(
        np.linalg.norm(narrow - SMALL) / np.linalg.norm(SMALL.astype(np.float64)), rel=1e-12
    )
    assert line.formats == {"bfloat16"} and line.instructions == {"tensor_copy"}


def test_an_exact_part_stays_exact_next_to_an_inexact_one():
    def kernel(x):
        tile, both = loaded(x), empty((x.shape[0], 2))
        nisa.memset(dst=both[:, 0:1], value=3.0)
        nisa.reciprocal(dst=both[:, 1:2], data=tile[:, 0:1])
        return stored(both)

    _, found = run(kernel, X)
    assert (found.results[0].exact[:, 0] == 3).all() and 0 < found.results[0].rel_l2 < 1e-7


def test_exact_results_have_no_error():
    def kernel(x):
        tile = loaded(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=4.0, op1=nl.add,
                           operand1=2.0)  # fmt: skip
        total = empty((128, 64), buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=tile, moving=tile[:, :64])
        return stored(copied(total))

    x = RNG.integers(-8, 9, (128, 128)).astype(np.float32)
    _, found = run(kernel, x)
    assert found.results[0].rel_l2 == 0 and found.beyond is None
    assert all(line.max_ulps == 0 and line.share == 0 for line in found.lines)
    assert not found.warnings


# --- the kernel itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_results_of_attention_do_not_change(causal):
    from neuroncore.kernels import ch07_attention as chapter

    kernel = chapter.causal_attention if causal else chapter.attention
    given = [RNG.standard_normal((256, 64)).astype(np.float32) for _ in range(3)]
    done, found = run(kernel, *given)
    plain = launch(kernel.function, given, tensor=NkiTensor, options=Options())
    assert np.array_equal(bits(done.outputs), bits(plain.outputs))
    assert len(done.core.program) == len(plain.core.program)
    assert sum(line.share for line in found.lines) == pytest.approx(1, abs=1e-12)
    q, k, v = (a.astype(np.float64) for a in given)
    scores = q @ k.T / 8
    if causal:
        scores = np.where(np.tri(256, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True) @ v
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-9, atol=1e-11)
    error = np.linalg.norm(done.outputs - exact) / np.linalg.norm(exact)
    assert found.results[0].rel_l2 == pytest.approx(error, rel=1e-3)
    assert not found.warnings


def test_results_written_into_an_argument():
    def kernel(x):
        tile = loaded(x)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=x, src=tile)

    given = X.copy()
    _, found = run(kernel, given)
    (result,) = found.results
    assert result.name == "x" and 0 < result.rel_l2 < 1e-6
    np.testing.assert_allclose(result.exact, np.exp(X.astype(np.float64)), rtol=1e-10)


def test_run_time_addresses():
    def kernel(x, rows):
        root, index = empty(x.shape), loaded(rows)
        nisa.activation(dst=root, op=nl.exp, data=loaded(x))
        table = stored(root)
        found = empty((32, x.shape[1]))
        nisa.dma_copy(
            dst=found,
            src=table.ap(
                pattern=[[300, 32], [1, 300]], offset=0, vector_offset=index, indirect_dim=0
            ),
        )
        out = empty(found.shape)
        nisa.tensor_scalar(dst=out, data=found, op0=nl.multiply, operand0=3.0)
        return stored(out)

    rows = RNG.integers(0, 70, (32, 1)).astype(np.int32)
    _, found = run(kernel, X, rows)
    exact = 3 * np.exp(X.astype(np.float64))[rows[:, 0]]
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-10)
    assert blamed(found, "nl.exp", "operand0=3.0") == pytest.approx(1)


def test_two_cores_pass_errors_on():
    def kernel(x):
        rank, half = nl.program_id(0), x.shape[0] // 2
        out, mine = empty(x.shape, nl.float32, nl.shared_hbm), empty((half, x.shape[1]))
        nisa.activation(dst=mine, op=nl.exp, data=loaded(x[rank * half : (rank + 1) * half]))
        other = empty(mine.shape)
        nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - rank, recv_from_rank=1 - rank,
                      pipe_id=0)  # fmt: skip
        nisa.dma_copy(dst=out[rank * half : (rank + 1) * half], src=other)
        nisa.core_barrier(data=out, cores=[0, 1])
        return out

    x = X[:64]
    done, found = run(kernel, x, grid=(2,))
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found.results[0].exact, exact[np.r_[32:64, :32]], rtol=1e-10)
    error = np.linalg.norm(done.outputs - found.results[0].exact) / np.linalg.norm(exact)
    assert found.results[0].rel_l2 == pytest.approx(error) and error > 0
    assert blamed(found, "nl.exp") == pytest.approx(1)


def test_tensors_at_addresses_overlap():
    """A tensor loses its float64 numbers when another is written at its address."""

    def kernel(x):
        tile = loaded(x)
        first = nl.ndarray((64, 100), nl.float32, buffer=nl.sbuf, address=(0, 0))
        nisa.activation(dst=first, op=nl.exp, data=tile[:64, :100])
        second = nl.ndarray((64, 50), nl.float32, buffer=nl.sbuf, address=(0, 200))
        nisa.tensor_copy(dst=second, src=tile[:64, 100:150])
        return stored(copied(first[:, 50:])), stored(second)

    done, found = run(kernel, X)
    assert [r.rel_l2 for r in found.results] == [0, 0]
    assert np.array_equal(done.outputs[0], X[:64, 100:150])


def test_a_refused_kernel_leaves_no_trace():
    device = Device()
    device.core.shadow = Shadow(device.core, Precision())
    a, out = device.tile(X), device.empty(X.shape)
    device.issue("activation", out, nl.exp, a)
    double = out.storage.float64
    before = double.storage.data.copy(), dict(double.energy)
    with pytest.raises(KernelError), core.on(device.core):
        nisa.affine_select(out, [[1, 3]], 0, out, 0.0)
    assert out.storage.float64 is double and not double.ended
    after = double.storage.data, double.energy
    assert np.array_equal(before[0], after[0]) and before[1] == after[1]


@pytest.mark.parametrize(
    "options", [{"stochastic": True}, {"storage": "float32"}, {"matmul": "blas"}]
)
def test_other_numerics(options):
    done, found = run(through(nl.bfloat16), SMALL, **options)
    plain = launch(through(nl.bfloat16), [SMALL], tensor=NkiTensor, options=Options(**options))
    assert np.array_equal(bits(done.outputs), bits(plain.outputs))
    exact = np.exp(0.3 * SMALL.astype(np.float64)) * 1.7 + SMALL
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-10)
    rough = options.get("storage") != "float32"
    assert (blamed(found, "the rough line") > 0.99) is rough


def test_picked_elements():
    """They come from where float64 has them, and go there."""
    device = Device("trn3")
    device.core.shadow = Shadow(device.core, Precision())
    x = RNG.standard_normal((32, 40)).astype(np.float32)
    index = RNG.permutation(40).astype(np.uint32).reshape(2, 20)
    offsets = np.zeros((32, 20), np.uint32)
    for first, chosen in ((0, index[0]), (16, index[1])):
        for i, place in enumerate(chosen):
            offsets[first + i % 16, i // 16] = place
    roots, out = device.empty((32, 40)), device.empty((32, 20))
    device.issue("activation", roots, nl.exp, device.tile(x))
    picked = roots.indirect(device.tile(offsets, "uint32"), 20)
    device.issue("tensor_scalar", out, picked, nl.multiply, 3.0)
    device.issue("tensor_copy", roots.indirect(device.tile(offsets, "uint32"), 20), out)
    powers = np.exp(x.astype(np.float64))
    rows, places = np.arange(32)[:, np.newaxis], np.repeat(index, 16, axis=0)
    exact = 3 * powers[rows, places]
    np.testing.assert_allclose(on(out.storage.float64.storage, out).codes(), exact, rtol=1e-10)
    powers[rows, places] = exact
    np.testing.assert_allclose(on(roots.storage.float64.storage, roots).codes(), powers, rtol=1e-10)


def test_packed_formats_are_those_of_the_chip():
    device = Device("trn3")
    device.core.shadow = Shadow(device.core, Precision())
    x = RNG.standard_normal((32, 64)).astype(np.float32)
    packed, scale = device.empty((32, 16), "float8_e4m3fn_x4"), device.empty((4, 16), "uint8")
    device.issue("quantize_mx", packed, device.tile(x, "bfloat16"), scale)
    total = device.empty((16, 16), buffer="psum")
    device.issue("nc_matmul_mx", total, packed, packed, scale, scale)
    codes = packed.codes().view(np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(32, 16, 4)
    scales = 2.0 ** (np.repeat(scale.codes(), 8, axis=0).astype(np.float64) - 127)
    values = codes.astype(np.float64) * scales[:, :, np.newaxis]
    exact = np.einsum("kmi,kni->mn", values, values)
    double = total.storage.float64
    found = total.codes() if double is None else on(double.storage, total).codes()
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_a_kernel_refused_midway_leaves_the_next_one_alone():
    def refused(x):
        tile = loaded(x)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=x, src=tile)
        nisa.nc_matmul(dst=tile, stationary=tile, moving=tile)

    given = SMALL.copy()
    with pytest.raises(KernelError):
        run(refused, given)
    _, found = run(through(nl.float32), given)
    exact = np.exp(0.3 * given.astype(np.float64)) * 1.7 + given
    np.testing.assert_allclose(found.results[0].exact, exact, rtol=1e-10)


@pytest.mark.parametrize("name", ["nc_matmul", "dropout", "nc_n_gather"])
def test_bits_viewed_as_another_format_are_numbers_of_that_format(name):
    def kernel(x):
        tile, moved = loaded(x).view(nl.bfloat16), empty((32, 96), nl.bfloat16)
        if name == "nc_matmul":
            total = empty((32, 64), buffer=nl.psum)
            nisa.nc_matmul(dst=total, stationary=tile[:, :32], moving=tile[:, 32:])
            moved = copied(total)
        elif name == "dropout":
            nisa.dropout(dst=moved, data=tile, prob=0.0)
        else:
            places = empty((32, 96), nl.uint32)
            nisa.iota(dst=places, pattern=[[1, 96]], offset=0)
            nisa.nc_n_gather(dst=moved, data=tile, indices=places)
        return stored(moved)

    numbers = np.arange(32 * 96).reshape(32, 96).astype(ml_dtypes.bfloat16)
    if name == "nc_matmul":
        numbers[...] = 1.0
    done, found = run(kernel, numbers.view(np.int32))
    assert (done.outputs == (32 if name == "nc_matmul" else numbers)).all()
    assert found.results[0].rel_l2 == 0


@pytest.mark.parametrize("sizes", [(13, 300), (70, 700)], ids=["whole", "sampled"])
def test_a_call_that_is_repeated_is_evaluated_on_its_own_operands(sizes):
    """The float64 tiles of a call are used again: the first use leaves nothing for the second."""
    first, second = (RNG.standard_normal(sizes).astype(np.float32) for _ in range(2))

    def kernel(x, y):
        return tuple([product(one) for one in (x, y)])

    def product(one):
        tile = loaded(one)
        rough = empty(tile.shape, nl.bfloat16)
        nisa.activation(dst=rough, op=nl.exp, data=tile)
        out = empty(tile.shape)
        nisa.tensor_tensor(dst=out, data1=rough, data2=tile, op=nl.multiply)
        nisa.tensor_tensor(dst=out, data1=out, data2=rough, op=nl.add)
        return stored(out)

    _, both = run(kernel, first, second)
    _, other = run(kernel, second, first)
    for a, b in zip(both.results, reversed(other.results)):
        assert a.rel_l2 == b.rel_l2 > 0
        assert (a.exact == b.exact).all()


def test_a_window_that_is_opened_again_in_another_shape():
    def kernel(x):
        tile = loaded(x)
        found = []
        for shape in ((32, 4, 6), (32, 24), (32, 8, 3)):
            placed = nl.ndarray(shape, nl.float32, buffer=nl.sbuf, address=(0, 4096))
            if not found:
                nisa.activation(dst=placed, op=nl.exp, data=tile)
            out = empty(shape)
            nisa.tensor_scalar(dst=out, data=placed, op0=nl.multiply, operand0=1.3)
            found.append(stored(out))
        return tuple(found)

    _, found = run(kernel, X[:32, :24].reshape(32, 4, 6).copy())
    whole = [result.exact.reshape(32, 24) for result in found.results]
    assert all((one == whole[0]).all() for one in whole)
    assert (np.abs(whole[0] / (np.exp(np.float64(X[:32, :24])) * np.float32(1.3)) - 1) < 1e-6).all()
