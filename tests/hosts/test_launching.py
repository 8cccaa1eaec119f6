"""Kernels launched like in programs for torch and jax, through neuroncore's stand-ins."""

import functools

import neuronxcc.nki as older
import neuronxcc.nki.language as older_nl
import nki
import nki.language as nl
import numpy as np
import pytest

from neuroncore.base.errors import DtypeError, ImmutableError, OutputError, ShapeError, UsageError
from neuroncore.frontend.settings import settings
from neuroncore.hosts import devices, jax_neuronx
from neuroncore.hosts.torch_neuronx import nki_hop, utils
from neuroncore.hosts.torch_neuronx.xla_impl.ops import nki_jit


def added(a, b, out):
    nl.store(out, nl.add(nl.load(a), nl.load(b)))


def older_added(a, b, out):
    older_nl.store(out, older_nl.load(a) + older_nl.load(b))


def rows(a, out):
    """Each program has a separate matrix."""
    i = older_nl.program_id(0)
    older_nl.store(out[i], older_nl.load(a[i]) * 2.0)


def scaled(a, out, other, scale):
    older_nl.store(out, older_nl.load(a) * scale)
    older_nl.store(other, older_nl.load(a) - scale)


BOTH = pytest.mark.parametrize("function", [added, older_added])
FORMS = {
    "added": nki.jit(added),
    "older_added": older.jit(older_added),
    "traced": older.jit(older_added, mode="trace"),
}


def ones(shape=(4, 3)):
    return np.ones(shape, np.float32)


# --- torch_neuronx --------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("decorate", [nki_jit, nki_jit(), nki_jit(debug_kernel=True)])
def test_nki_jit_uses_the_api_of_the_kernel(function, decorate):
    out = np.zeros((4, 3), np.float32)
    decorate(function)(ones(), ones(), out)
    assert (out == 2).all()


@pytest.mark.parametrize("form", FORMS)
def test_nki_jit_accepts_decorated_kernels(form):
    out = np.zeros((4, 3), np.float32)
    nki_jit()(FORMS[form])(ones(), ones(), out)
    assert (out == 2).all()


def test_nki_jit_launches_a_grid():
    out = np.zeros((3, 4, 3), np.float32)
    nki_jit()(rows)[3](ones((3, 4, 3)), out)
    assert (out == 2).all()


def test_the_result_of_a_kernel_of_nki_jit_is_returned():
    @nki_jit
    def kernel(a, out):
        older_nl.store(out, older_nl.load(a))
        return out

    out = np.zeros((4, 3), np.float32)
    assert kernel(ones(), out) is out and (out == 1).all()


def test_a_kernel_of_nki_jit_may_return_a_new_tensor():
    """layout-loop.py of the SDK's guides does so."""

    @nki_jit
    def kernel(a):
        out = older_nl.ndarray(a.shape, a.dtype, buffer=older_nl.shared_hbm)
        older_nl.store(out, older_nl.load(a))
        return out

    assert (kernel(ones()) == 1).all()


def test_a_kernel_of_nki_jit_without_a_result_is_refused():
    @nki_jit
    def kernel(a, out):
        older_nl.load(a)

    with pytest.raises(OutputError, match="nothing was written"):
        kernel(ones(), ones())


def test_other_launches_of_the_same_kernel_may_not_write_to_arguments():
    with pytest.raises(ImmutableError):
        older.jit(older_added)(ones(), ones(), ones())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@BOTH
def test_results_in_arguments_are_visible_in_torch_tensors_of_the_caller(function, dtype):
    torch = pytest.importorskip("torch")
    a, out = torch.ones(4, 3, dtype=getattr(torch, dtype)), torch.zeros(3, 4).T
    out = out.to(getattr(torch, dtype))
    nki_jit()(function)(a, a, out)
    assert (out == 2).all() and out.dtype == a.dtype


@BOTH
def test_wrap_nki_launches_with_a_grid(function):
    out = np.zeros((4, 3), np.float32)
    nki_hop.wrap_nki(function)[1](ones(), ones(), out)
    assert (out == 2).all()


@BOTH
@pytest.mark.parametrize("grid", [(), 1, (1,)])
def test_a_kernel_of_the_native_backend_keeps_its_grid(function, grid):
    out = np.zeros((4, 3), np.float32)
    kernel = nki_hop.TorchNeuronNKIKernel(
        func=function, grid=grid, kernel_return=False, return_tensor_overrides=(out,)
    )
    assert kernel(ones(), ones(), out) is None
    assert (out == 2).all()
    by_position = nki_hop.TorchNeuronNKIKernel(function, grid, False, (out,))
    assert by_position(ones(), ones(), out) is None


def test_nki_op_registers_an_operator_of_torch():
    torch = pytest.importorskip("torch")

    @nki.jit
    def kernel(x, y):
        added(x, x, y)
        return y

    def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nki_hop.wrap_nki(kernel)(x, y)

    made = nki_hop.nki_op("neuroncore_tests::twice", mutates_args={"y"})(twice)
    x, y = torch.ones(4, 3), torch.zeros(4, 3)
    assert (made(x, y) == 2).all() and (y == 2).all()
    assert (torch.ops.neuroncore_tests.twice(x, y) == 2).all()


def test_a_refusal_at_a_launch_is_at_the_user_s_line_with_torch_too():
    pytest.importorskip("torch")
    devices.prepare_torch()
    x = np.ones((4, 3))
    with pytest.raises(DtypeError, match=r"^\S*test_launching\.py:\d+.*float64"):
        nki.jit(added)(x, x, x)


def test_an_operator_of_torch_accepts_keywords():
    torch = pytest.importorskip("torch")

    def sum_of(x: torch.Tensor, y: torch.Tensor, *, more: bool = False) -> torch.Tensor:
        out = torch.zeros_like(x)
        nki_hop.wrap_nki(added)(x, y, out)
        return out + 1 if more else out

    made = nki_hop.nki_op("neuroncore_tests::sum_of", sum_of)
    x = torch.ones(4, 3)
    assert (made(x, x) == 2).all()
    assert (torch.compile(lambda x: made(x, x, more=True), backend="eager")(x) == 3).all()


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_platform_variable_sets_the_target(target):
    with settings(target):
        assert utils.get_platform_target() == target


# --- jax_neuronx ----------------------------------------------------------------------------------


def shape_of(*shape, dtype="float32"):
    jax = pytest.importorskip("jax")
    return jax.ShapeDtypeStruct(shape, dtype)


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nki_call_returns_the_tensors_after_the_arguments(function, dtype):
    shape = shape_of(4, 3, dtype=dtype)
    a = ones().astype(shape.dtype)
    jax = pytest.importorskip("jax")
    plain = functools.partial(jax_neuronx.nki_call, function, out_shape=shape)
    for call in (plain, jax.jit(plain)):
        got = call(a, a)
        assert isinstance(got, jax.Array) and got.dtype == shape.dtype and (got == 2).all()


def test_nki_call_binds_numbers_and_returns_several_results():
    shapes = shape_of(4, 3), shape_of(4, 3)
    kernel = functools.partial(scaled, scale=3.0)
    first, second = jax_neuronx.nki_call(kernel, ones(), out_shape=shapes)
    assert (first == 3).all() and (second == -2).all()


@BOTH
def test_nki_call_reports_refusals_like_other_launches(function):
    pytest.importorskip("jax")
    with pytest.raises(ShapeError) as refused:
        jax_neuronx.nki_call(function, ones(), ones((4, 2)), out_shape=shape_of(4, 3))
    assert refused.value.place.file == __file__


def test_nki_call_launches_a_grid():
    got = jax_neuronx.nki_call(rows, ones((3, 4, 3)), out_shape=shape_of(3, 4, 3), grid=(3,))
    assert (got == 2).all()


# --- without torch and jax ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_missing_framework_is_reported_with_the_package_to_install(name, monkeypatch):
    def missing(asked):
        raise ModuleNotFoundError(f"No module named {asked!r}", name=asked)

    monkeypatch.setattr(devices, "import_module", missing)
    with pytest.raises(UsageError, match=rf"a device needs {name}.*neuroncore\[{name}\]"):
        devices.framework(name, "a device")


def test_an_import_error_inside_a_framework_is_not_reported_as_its_absence(monkeypatch):
    def broken(asked):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(devices, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        devices.framework("torch", "a device")
