"""nki.language: loops, registers, the launch grid, sizes of the machine, printing."""

import os
import subprocess
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from nki import collectives
from published_machines import PUBLISHED

import neuroncore
from neuroncore.base.errors import (
    DynamicControlError,
    NeuronError,
    OutOfBoundsError,
    ShapeError,
)
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings

ROW = np.arange(12, dtype=np.float32).reshape(1, 12)


def doubled(visit):
    """A kernel that doubles the columns of its argument that `visit(double)` names."""

    @nki.jit
    def kernel(x):
        tile = nl.load(x)

        def double(column):
            one = tile[:, nl.ds(column, 1)]
            nisa.tensor_scalar(one, one, nl.multiply, 2.0)

        visit(double)
        nl.store(x, tile)
        return x

    return kernel(ROW.copy())[0]


def expected(columns):
    want = ROW[0].copy()
    want[list(columns)] *= 2
    return want


# --- loops ----------------------------------------------------------------------------------------


@for_all("loop", ["affine_range", "sequential_range", "static_range", "range"])
@for_all("bounds", [(5,), (0,), (2, 9), (2, 9, 3), (9, 2, -2), (4, 4)])
def test_unrolled_loops_are_ranges(loop, bounds):
    unrolled = getattr(nl, loop)(*bounds)
    assert unrolled == range(*bounds)
    np.testing.assert_array_equal(
        doubled(lambda double: [double(i) for i in unrolled]), expected(range(*bounds))
    )


@pytest.mark.parametrize("loop", ["affine_range", "sequential_range", "static_range", "range"])
def test_an_unrolled_loop_refuses_a_register_for_a_bound(loop):
    register = Device().call(nisa.register_alloc, 3)
    for bounds in ((register,), (0, register), (0, 9, register)):
        with pytest.raises(DynamicControlError, match="unrolled") as caught:
            getattr(nl, loop)(*bounds)
        assert "nl.fori_loop" in caught.value.hint


@for_all("bounds", [(5,), (0,), (2, 9), (2, 9, 3), (4, 4), (6, 2)])
@for_all("in_registers", [False, True])
def test_a_dynamic_range_counts_in_a_register(bounds, in_registers):
    def visit(double):
        ends = [nisa.register_alloc(b) if in_registers else b for b in bounds[:2]]
        for i in nl.dynamic_range(*ends, *bounds[2:]):
            assert isinstance(i, nisa.VirtualRegister)
            double(i)

    np.testing.assert_array_equal(doubled(visit), expected(range(*bounds)))


@pytest.mark.parametrize("step", [0, -1])
def test_a_dynamic_loop_steps_by_a_positive_constant(step):
    with pytest.raises(DynamicControlError, match="positive constant"):
        list(nl.dynamic_range(0, 4, step))
    with pytest.raises(DynamicControlError, match="positive constant"):
        nl.fori_loop(0, 4, print, step)


def test_the_step_of_a_dynamic_loop_is_not_a_register():
    register = Device().call(nisa.register_alloc, 2)
    with pytest.raises(DynamicControlError, match="positive constant"):
        list(nl.dynamic_range(0, 4, register))


@for_all("bounds", [(0, 5), (2, 9), (4, 4), (6, 2)])
@for_all("step", [1, 3])
def test_a_fori_loop_calls_its_body_for_each_index(bounds, step):
    def literal(double):
        nl.fori_loop(*bounds, double, step)

    def in_registers(double):
        nl.fori_loop(*map(nisa.register_alloc, bounds), body_fun=double, step=step)

    for visit in (literal, in_registers):
        np.testing.assert_array_equal(doubled(visit), expected(range(*bounds, step)))


@pytest.mark.parametrize("start", [0, 1, 5])
def test_a_while_loop_runs_until_its_register_is_zero(start):
    def visit(double):
        def body(register):
            double(register)
            return register - 1

        nl.while_loop(nisa.register_alloc(start), body)

    np.testing.assert_array_equal(doubled(visit), expected(range(start, 0, -1)))


def test_the_body_of_a_while_loop_returns_a_register():
    device = Device()
    with pytest.raises(DynamicControlError, match="must return the next condition"):
        device.call(nl.while_loop, device.call(nisa.register_alloc, 1), lambda register: 0)


def test_a_loop_variable_cannot_be_written():
    def body(i):
        nisa.register_move(i, 0)

    def count(_):
        for i in nl.dynamic_range(3):
            body(i)

    for visit in (count, lambda _: nl.fori_loop(0, 3, body)):
        with pytest.raises(DynamicControlError, match="variable of a dynamic loop"):
            doubled(visit)


def test_a_loaded_register_controls_a_while_statement():
    @nki.jit
    def kernel(count):
        left, total = nl.load(count), nl.zeros((1, 1), nl.int32)
        register = nisa.register_alloc()
        nisa.register_load(register, left)
        while register:
            nisa.tensor_tensor(total, total, left, nl.add)
            nisa.tensor_scalar(left, left, nl.subtract, 1.0)
            nisa.register_load(register, left)
        nl.store(count, total)
        return count

    assert kernel(np.array([[6]], np.int32)).item() == 6 + 5 + 4 + 3 + 2 + 1


def test_registers_wrap_at_32_bits_and_can_be_stored():
    @nki.jit
    def kernel(out):
        tile, register = nl.zeros((1, 1), nl.int32), nisa.register_alloc(2**31 - 1)
        nisa.register_store(tile, register + 2)
        nl.store(out, tile)
        return out

    assert kernel(np.zeros((1, 1), np.int32)).item() == -(2**31) + 1


def test_a_register_is_refused_for_a_constant():
    register = Device().call(nisa.register_alloc, 3)
    for use in (int, range, [0, 1, 2, 3].__getitem__):
        with pytest.raises(DynamicControlError, match="where a constant is needed"):
            use(register)
    with pytest.raises(DynamicControlError, match="bounds the slice"):
        Device().tile(ROW)[:, 0:register]


def test_an_unset_register_has_no_value():
    register = Device().call(nisa.register_alloc)
    with pytest.raises(DynamicControlError, match="no value yet"):
        while register:
            pass


@for_all(
    "asks",
    [
        *(lambda r: 1 if r else 2, lambda r: not r, lambda r: r and 1, lambda r: r in (0, 3)),
        *(lambda r: 1 if r == 0 else 2, bool, lambda r: max(r, 2), lambda r: 0 < r < 4),
    ],
)
def test_a_register_is_refused_as_a_condition_in_python(asks):
    """ "Using a register in Python control flow raises TypeError" (nki.isa.VirtualRegister)."""
    register = Device().call(nisa.register_alloc, 3)
    with pytest.raises(DynamicControlError, match="Python condition") as caught:
        asks(register)
    assert isinstance(caught.value, TypeError)


def test_ranks_cannot_branch_differently():
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        rank = collectives.rank_id()
        if rank == 0:
            nisa.memset(dst=tile, value=0.0)
        nl.store(x, tile)
        return x

    with pytest.raises(DynamicControlError, match="Python condition") as caught:
        neuroncore.run(kernel, per_rank=[(ROW,), (ROW,)])
    assert "if rank == 0:" in caught.value.place.text


def test_a_run_time_index_past_the_end_stops_the_kernel():
    with pytest.raises(OutOfBoundsError, match="run-time index of dst is 12"):
        doubled(lambda double: nl.fori_loop(10, 13, double))


def test_a_window_has_a_start_and_a_constant_size():
    device, tile = Device(), Device().tile(ROW)
    np.testing.assert_array_equal(tile[:, nl.ds(3, 4)].numpy(), ROW[:, 3:7])
    register = device.call(nisa.register_alloc, 5)
    np.testing.assert_array_equal(tile[:, nl.ds(register, 4)].resolved().numpy(), ROW[:, 5:9])
    for window in (nl.ds(9, 4), nl.ds(-1, 4), nl.ds(0, 13), nl.ds(0, -1)):
        with pytest.raises((OutOfBoundsError, ShapeError)):
            tile[:, window]


def test_no_reorder_changes_nothing():
    def visit(double):
        with nl.no_reorder():
            double(3)

    np.testing.assert_array_equal(doubled(visit), expected([3]))


# --- the launch grid ------------------------------------------------------------------------------


def grid_seen(grid):
    seen = []

    def kernel():
        numbers = nl.num_programs(), nl.num_programs(axes=None), nl.num_programs(axes=(0,))
        seen.append((nl.program_ndim(), nl.program_id(0), nl.program_id(), *numbers))
        nl.zeros((1, 1), nl.float32)

    launch(kernel, tensor=NkiTensor, grid=grid)
    return seen[0]


def test_one_program_is_program_zero_of_one():
    assert grid_seen(()) == (0, 0, 0, 1, 1, 1)
    assert grid_seen((1,)) == (1, 0, 0, 1, 1, 1)
    assert grid_seen((1, 1)) == (2, 0, 0, 1, 1, 1)


@pytest.mark.parametrize("question", [nl.program_id, nl.num_programs, nl.program_ndim])
def test_there_is_no_program_outside_a_kernel(question):
    assert question() is None


# --- sizes of the machine -------------------------------------------------------------------------

KIB = 1024
SBUF_KIB = {name: row.sbuf for name, row in PUBLISHED.items()}
BANKS = {name: row.psum // 2 for name, row in PUBLISHED.items()}


@pytest.mark.parametrize("target", TARGETS)
def test_tile_sizes_come_from_the_machine(target):
    size = nl.tile_size
    with settings(target=target):
        assert (size.pmax, size.gemm_stationary_fmax, size.gemm_moving_fmax) == (128, 128, 512)
        assert (size.bn_stats_fmax, size.psum_fmax, size.psum_bank_fmax) == (512, 512, 512)
        assert (size.psum_bank_fmax_bytes, size.psum_num_banks) == (2 * KIB, BANKS[target])
        assert size.sbuf_size_bytes == 128 * SBUF_KIB[target] * KIB
        assert size.sbuf_fmax_bytes <= SBUF_KIB[target] * KIB
        assert size.sbuf_fmax_bytes > 0.9 * SBUF_KIB[target] * KIB
        assert size.total_available_sbuf_size == size.sbuf_fmax_bytes == 4 * size.sbuf_fmax
        assert nisa.get_nc_version().name == f"gen{PUBLISHED[target].generation}"


def test_inside_a_kernel_sizes_belong_to_its_target():
    sizes = []
    for target in TARGETS:
        device = Device(target)
        sizes.append(device.call(lambda: nl.tile_size.sbuf_size_bytes))
    assert sizes == [128 * SBUF_KIB[target] * KIB for target in TARGETS]


# --- the rest -------------------------------------------------------------------------------------


def test_device_print_shows_prefix_and_values(capsys):
    @nki.jit
    def kernel(x):
        nl.device_print("x is", x)
        nl.device_print("tile", nl.load(x)[:, 1:3])

    kernel(np.array([[1.5, 2, 3]], np.float32))
    assert capsys.readouterr().out == "x is [[1.5 2.  3. ]]\ntile [[2. 3.]]\n"


def test_a_format_is_a_string_that_numpy_understands():
    assert nl.float32 == "float32" and str(nl.bfloat16) == "bfloat16"
    assert {nl.float16: 1}["float16"] == 1
    assert np.zeros(2, nl.bfloat16).dtype == nl.bfloat16
    assert isinstance(nl.int8, nl.DType)


def test_comparing_a_tensor_with_none_gives_a_bool():
    tile = Device().tile(ROW)
    assert (tile == None) is False  # noqa: E711  kernels must write it so
    assert (tile != None) is True  # noqa: E711


def test_names_that_do_not_exist_are_attribute_errors():
    for module in (nl, nisa):
        with pytest.raises(AttributeError):
            module.no_such_name  # noqa: B018
    assert issubclass(nisa.NkiValidationError, NeuronError)


def test_a_misspelled_instruction_gets_a_suggestion():
    with pytest.raises(AttributeError, match="tensor_copy"):
        nisa.tensor_cpy  # noqa: B018


def test_the_target_in_the_environment_is_read_on_each_use():
    code = "import neuroncore; neuroncore.activate(); import nki.language as nl; import os\n"
    code += "os.environ['NEURON_PLATFORM_TARGET_OVERRIDE'] = 'gen2'\n"
    code += "print(nl.tile_size.sbuf_size_bytes)"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NEURON_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert int(done.stdout) == 128 * 192 * KIB
