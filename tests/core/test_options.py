"""Options for unpublished behavior: each choice does what its field documents, in every
instruction."""

from dataclasses import replace

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device, same
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc import nki as older
from neuronxcc.nki import isa as older_isa
from neuronxcc.nki import language as older_nl
from older_kernels import stored

from neuroncore.base.errors import OperatorError, SignatureError, UsageError
from neuroncore.base.options import PROFILES, Options, vendor_sim
from neuroncore.frontend.settings import settings
from neuroncore.record.program import Record
from neuroncore.record.saved import load, save
from neuroncore.time.schedule import schedule

NAN, INF = np.nan, np.inf
SPECIAL = np.array([0, -0.0, 1, -2, NAN, INF, -INF, 3e38], np.float32)
A, B = (np.ascontiguousarray(x) for x in np.broadcast_arrays(SPECIAL[:, None], SPECIAL))


# --- values ---------------------------------------------------------------------------------------


@for_all(
    "field, wrong, said",
    [
        ("matmul", "BLAS", "'chain' or 'blas'"),
        ("storage", "fp32", "'own' or 'float32'"),
        ("order", "none", "'in-order' or 'scheduled' or 'standalone' or 'compiled' or None"),
        ("stochastic", "0", "False or True"),
        ("precision_bound", NAN, "0 or more"),
        ("precision_bound", -1e-3, "0 or more"),
        ("clock_phase", 1.0, "from 0 to less than 1"),
        ("clock_phase", NAN, "from 0 to less than 1"),
    ],
)
def test_values_that_a_field_does_not_have_are_refused(field, wrong, said):
    with pytest.raises(UsageError, match=f"{field} is .*; it must be {said}"):
        Options(**{field: wrong})
    for profile in PROFILES.values():
        with pytest.raises(UsageError, match=field):
            replace(profile, **{field: wrong})


def test_the_smallest_bound_and_no_order_are_accepted():
    assert Options(precision_bound=0, order=None).order is None


# --- fn_overflow ----------------------------------------------------------------------------------

LARGE = np.array([[448, 464, 464.1, 1e30, INF, -465, -INF, NAN, 447, 3]], np.float32)


@for_all(
    "choice, want",
    [
        ("nan", [448, 448, NAN, NAN, NAN, NAN, NAN, NAN, 448, 3]),
        ("saturate", [448, 448, 448, 448, 448, -448, -448, NAN, 448, 3]),
    ],
)
@pytest.mark.parametrize("name", ["tensor_copy", "activation", "dma_copy"])
def test_fn_overflow(choice, want, name):
    device = Device("trn3", fn_overflow=choice)
    dst = device.empty(LARGE.shape, "float8_e4m3fn", "hbm" if name == "dma_copy" else "sbuf")
    more = (nl.copy,) if name == "activation" else ()
    device.issue(name, dst, *more, device.tile(LARGE))
    np.testing.assert_array_equal(dst.numpy().astype(np.float32), [want])


@for_all("form", ["float8_e4m3", "float8_e5m2", "float16", "bfloat16"])
@for_all("stochastic", [False, True])
def test_formats_with_infinities_always_overflow_to_infinity(form, stochastic):
    x, found = np.array([[INF, -INF, 3.4e38, NAN]], np.float32), []
    for choice in ("nan", "saturate"):
        device = Device("trn3", fn_overflow=choice, stochastic=stochastic)
        dst = device.empty(x.shape, form)
        device.issue("tensor_copy", dst, device.tile(x))
        found.append(dst.numpy())
    same(found[0], found[1])
    assert np.isinf(found[1].astype(np.float32)[0, 1])


def test_stochastic_rounding_saturates_too():
    x = np.full((128, 64), 460, np.float32)  # 3/8 of the way from 448 to 480
    for choice in ("nan", "saturate"):
        device = Device("trn3", fn_overflow=choice, stochastic=True)
        dst = device.empty(x.shape, "float8_e4m3fn")
        device.issue("tensor_copy", dst, device.tile(x))
        beyond = np.isnan(dst.numpy().astype(np.float32)).mean()
        assert abs(beyond - 0.375) < 0.03 if choice == "nan" else beyond == 0


# --- nan_minmax -----------------------------------------------------------------------------------


def oracle(name, choice):
    """Return maximum or minimum. For two zeros, the maximum is the positive and the minimum the
    negative one."""

    def one(a, b):
        if np.isnan(a) or np.isnan(b):
            if choice == "propagate":
                return np.float32(NAN)
            return b if np.isnan(a) else a
        if a == b:
            negative = np.signbit(a) or np.signbit(b)
            return a if np.signbit(a) == (negative and name == "minimum") else b
        return max(a, b) if name == "maximum" else min(a, b)

    return np.vectorize(one, otypes=[np.float32])


CHOICES = ("propagate", "number")
choices = pytest.mark.parametrize("choice", CHOICES)
names = pytest.mark.parametrize("name", ["maximum", "minimum"])


@choices
@names
def test_nan_minmax_element_by_element(name, choice):
    device, op, want = Device(nan_minmax=choice), getattr(nl, name), oracle(name, choice)
    a, b = device.tile(A), device.tile(B)
    both, scalar, turned, twice = (device.empty(A.shape) for _ in range(4))
    device.issue("tensor_tensor", both, a, b, op)
    same(both.numpy(), want(A, B))
    device.issue("tensor_scalar", scalar, a, op, device.tile(B[:1].T.copy()))
    same(scalar.numpy(), want(A, B[:1].T))
    device.issue("tensor_scalar", turned, a, nl.multiply, 1.0, op1=op, operand1=1.0, reverse1=True)
    same(turned.numpy(), want(A, np.float32(1)))
    device.issue("scalar_tensor_tensor", twice, a, op, 0.5, op, b)
    same(twice.numpy(), want(want(A, np.float32(0.5)), B))


@choices
@names
@given(
    rows=st.lists(
        st.lists(st.sampled_from(SPECIAL.tolist()), min_size=9, max_size=9), min_size=1, max_size=5
    )
)
def test_nan_minmax_folds(name, choice, rows):
    x = np.array(rows, np.float32)
    device, op, step = Device("trn3", nan_minmax=choice), getattr(nl, name), oracle(name, choice)
    src, total, running = device.tile(x), device.empty((len(x), 1)), device.empty(x.shape)
    want = [x[:, 0]]
    for j in range(1, x.shape[1]):
        want.append(step(want[-1], x[:, j]))
    device.issue("tensor_reduce", total, op, src, 1)
    np.testing.assert_array_equal(total.numpy()[:, 0], want[-1])
    device.issue("tensor_tensor_scan", running, src, src, device.tile(x[:, :1]), op, op)
    np.testing.assert_array_equal(running.numpy(), np.array(want).T)
    device.issue("tensor_scalar_cumulative", running, src, nl.add, op, 0.0)
    edge = np.float32(-INF if name == "maximum" else INF)
    want = np.array([step(edge, column) for column in want]).T
    np.testing.assert_array_equal(running.numpy(), want)
    device.issue("tensor_scalar_reduce", running, src, nl.multiply, 1.0, op, total)
    np.testing.assert_array_equal(total.numpy(), want[:, -1:])


@choices
def test_nan_minmax_of_default_operators_and_across_partitions(choice):
    device, step = Device(nan_minmax=choice), oracle("maximum", choice)
    x = np.array([[NAN, 1, 2], [3, NAN, NAN]], np.float32)
    total, dst = device.empty((2, 1)), device.empty(x.shape)
    chosen = device.tile(np.ones(x.shape, np.uint8))
    reset = nisa.reduce_cmd.reset_reduce
    device.issue("select_reduce", dst, chosen, device.tile(x), 0.0, total, reset)
    want = {"propagate": [[NAN], [NAN]], "number": [[2], [3]]}[choice]
    np.testing.assert_array_equal(total.numpy(), want)
    row = device.empty((1, 3))
    device.issue("tensor_partition_reduce", row, nl.maximum, device.tile(x))
    np.testing.assert_array_equal(row.numpy(), step(x[:1], x[1:]))


def test_nan_minmax_does_not_affect_integers_or_other_operators():
    results = []
    for choice in CHOICES:
        device = Device(nan_minmax=choice)
        a = device.tile(np.arange(-8, 8, dtype=np.int32).reshape(2, 8))
        b, dst, total = (
            device.tile(np.zeros((2, 8), np.int32)),
            device.empty((2, 8), "int32"),
            device.empty((8, 8)),
        )
        device.issue("tensor_tensor", dst, a, b, nl.maximum)
        device.issue("tensor_tensor", total, device.tile(A), device.tile(B), nl.add)
        results.append((dst.numpy(), total.numpy()))
    assert np.array_equal(*(r[0] for r in results))
    same(*(r[1] for r in results))


@pytest.mark.parametrize(
    "choice, order",
    [
        ("propagate", [NAN, NAN, INF, 3, 2, 1, 0, -0.0]),
        ("number", [INF, 3, 2, 1, 0, -0.0, -1, -INF]),
    ],
)
def test_nan_minmax_of_max8(choice, order):
    device = Device(nan_minmax=choice)
    x = np.array([[1, NAN, 0, -0.0, -INF, 3, -NAN, 2, -1, INF]], np.float32)
    dst = device.empty((1, 8))
    device.issue("max8", dst, device.tile(x))
    same(dst.numpy(), np.array([order], np.float32))
    few = np.array([[NAN] * 7 + [5]], np.float32)
    device.issue("max8", dst, device.tile(few))
    same(dst.numpy(), few if choice == "propagate" else few[:, ::-1])


# --- simulator_operators --------------------------------------------------------------------------

X = np.array([[7, -7, 7, -7, 1.5, 0, 5, -3]], np.float32)
Y = np.array([[3, 3, -3, -3, 0.4, 2, 0, INF]], np.float32)
SIMULATED = {"divide": np.divide, "mod": np.mod, "fmod": np.fmod}


def simulated(function, *values):
    with np.errstate(all="ignore"):
        return function(*values)


@pytest.mark.parametrize("name", SIMULATED)
def test_simulator_operators_agree_with_numpy(name):
    """Each operator is used in one of the instructions that have the field."""
    device, op, function = Device(simulator_operators=True), getattr(nl, name), SIMULATED[name]
    dst, x = device.empty(X.shape), device.tile(X)
    device.issue("tensor_tensor", dst, x, device.tile(Y), op)
    same(dst.numpy(), simulated(function, X, Y))
    device.issue("tensor_scalar", dst, x, op, 3.0)
    same(dst.numpy(), simulated(function, X, np.float32(3)))
    device.issue("tensor_scalar", dst, x, op, 3.0, reverse0=True)
    same(dst.numpy(), simulated(function, np.float32(3), X))
    device.issue("scalar_tensor_tensor", dst, x, nl.add, 1.0, op, device.tile(Y))
    same(dst.numpy(), simulated(function, X + 1, Y))
    assert device.opcodes[0] == "TENSOR_TENSOR" and device.timeline().total_ns > 0


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_functions_of_the_simulator_are_one_instruction(name):
    device = Device(simulator_operators=True)
    got = device.call(getattr(nl, name), device.tile(X), device.tile(Y)).numpy()
    same(got, simulated(SIMULATED[name], X, Y))
    assert device.opcodes == ["TENSOR_TENSOR"]


@pytest.mark.parametrize("name", SIMULATED)
def test_V18_simulator_operators_are_refused_without_the_option(name):
    device = Device()
    dst, x = device.zeros(X.shape), device.tile(X)
    device.refuses(SignatureError, "tensor_tensor", dst, x, x, getattr(nl, name), words=["op"])
    device.refuses(SignatureError, "tensor_scalar", dst, x, getattr(nl, name), 2.0, words=["op0"])
    assert not hasattr(getattr(nl, name), "operator")  # outside a kernel
    if name != "divide":
        with pytest.raises(OperatorError, match="no hardware instruction"):
            device.call(getattr(nl, name), x, 2.0)


@nki.jit
def remainders(x, y):
    a, b = nl.load(x), nl.load(y)
    nisa.tensor_tensor(a, a, b, nl.mod)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, a)
    return out


def test_V18_simulator_operators_are_accepted_with_the_option():
    with settings(options=vendor_sim):
        same(remainders(X, Y), simulated(np.mod, X, Y))
    with pytest.raises(SignatureError, match="op must be an operator"):
        remainders(X, Y)


@pytest.mark.parametrize("op", [np.divide, np.mod, np.fmod, older_nl.divide])
def test_V18_simulator_operators_of_the_older_api(op):
    @older.jit
    def kernel(x, y):
        return stored(older_isa.tensor_tensor(older_nl.load(x), older_nl.load(y), op))

    with settings(options=vendor_sim):
        function = op if isinstance(op, np.ufunc) else np.divide
        same(kernel(X, Y), simulated(function, X, Y))
    with pytest.raises(OperatorError, match="only of AWS's simulator") as caught:
        kernel(X, Y)
    name = "mod" if op is np.mod else op.__name__
    assert f"call nl.{name}(x, y)" in caught.value.hint


@pytest.mark.parametrize("name", SIMULATED)
def test_records_with_simulator_operators_can_be_read(name, tmp_path):
    device = Device(simulator_operators=True)
    device.issue(
        "tensor_tensor", device.empty(X.shape), device.tile(X), device.tile(Y), getattr(nl, name)
    )
    save(Record([device.core.program]), tmp_path / "one.record")
    (read,) = load(tmp_path / "one.record").programs
    assert schedule(read, device.core.machine).total_ns == device.timeline().total_ns
