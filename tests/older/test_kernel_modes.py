"""Ways to run a kernel of the older API: their results, output and files."""

import functools
import re

import ml_dtypes
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
import pytest
from every import for_all

from neuroncore.base.errors import DtypeError, SignatureError
from neuroncore.core.core import current
from neuroncore.frontend.settings import last_launch, settings

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 33)).astype(np.float32)
Y = RNG.standard_normal((7, 33)).astype(np.float32)


def add(x, y):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y))
    return out


def sum_and_difference(x, y):
    total = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rest = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    nl.store(total, a + b)
    nl.store(rest, a - b)
    return total, rest


def programs(x):
    """Each program writes its number into its row."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rank = nl.program_id(0) * nl.num_programs(1) + nl.program_id(1)
    nl.store(out[rank : rank + 1], nl.load(x[rank : rank + 1]) + float(rank))
    return out


def each_way():
    return {
        "jit": nki.jit(add),
        "jit()": nki.jit()(add),
        "mode": nki.jit(add, mode="simulation"),
        "mode of a decorator": nki.jit(mode="baremetal")(add),
        "options": nki.jit(add, additional_compile_opt="-O1", platform_target="trn1"),
        "jit of jit": nki.jit(nki.jit(add)),
        "baremetal": nki.baremetal(add),
        "baremetal of jit": nki.baremetal(nki.jit(add), artifacts_dir="debug"),
        "baremetal()": nki.baremetal(additional_compile_opt="-O1")(nki.jit(add)),
        "benchmark": nki.benchmark(add),
        "benchmark of jit": nki.benchmark(warmup=5, iters=10)(nki.jit(add)),
        "mode benchmark": nki.jit(add, mode="benchmark"),
        "skipping": nki.compiler.skip_middle_end_transformations(nki.jit(add)),
        "jit of skipping": nki.jit(nki.compiler.skip_middle_end_transformations(add)),
        "stack": nki.compiler.enable_stack_allocator(nki.jit(add), log_level=20),
        "simulate": lambda *args: nki.simulate_kernel(add, *args),
        "simulate jit": lambda *args: nki.simulate_kernel(nki.jit(add), *args),
        "simulate baremetal": lambda *args: nki.simulate_kernel(nki.baremetal(add), *args),
    }


@for_all("way", each_way())
def test_every_way_of_running_returns_the_same(way):
    assert (each_way()[way](X, Y) == X + Y).all()


def test_an_unknown_mode_is_refused():
    with pytest.raises(SignatureError, match="jit has no mode 'fast'"):
        nki.jit(add, mode="fast")


def test_keywords_and_defaults_of_the_function_are_kept():
    @nki.jit
    def scaled(x, *, factor=2.0):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * factor)
        return out

    assert (scaled(x=X) == X * 2).all()
    assert (nki.simulate_kernel(scaled, X, factor=0.5) == X / 2).all()


def test_results_have_the_structure_of_the_returned_value_in_the_older_api():
    total, rest = nki.jit(sum_and_difference)(X, Y)
    assert (total == X + Y).all() and (rest == X - Y).all()
    assert isinstance(nki.simulate_kernel(sum_and_difference, X, Y), tuple)


def test_a_kernel_that_a_kernel_calls_is_part_of_it():
    @nki.jit
    def doubled(tile):
        return nl.add(tile, tile)

    @nki.baremetal
    def twice(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, doubled.func(doubled(nl.load(x))))
        return out

    assert (twice(X) == X * 4).all()


def test_a_kernel_that_a_kernel_launches_with_a_grid_is_refused():
    inner = nki.jit(add)

    @nki.jit
    def outer(x, y):
        return inner[nl.nc(2), nl.nc(2) * 3, 3 * nl.nc(2), 4](x, y)

    grid = "(nl.spmd_dim(nl.nc(2), 1), nl.spmd_dim(nl.nc(2), 3), nl.spmd_dim(3, nl.nc(2)), 4)"
    with pytest.raises(SignatureError, match=re.escape(f"launched with a grid of {grid}")):
        outer(X, Y)


# --- launch grids ---------------------------------------------------------------------------------

RANKS = np.arange(6, dtype=np.float32)[:, None]


@for_all(
    "grid",
    [
        (2, 3),
        (1, 6),
        (6, 1),
        (nl.nc(2), 3),
        (nl.spmd_dim(nl.nc(2), 1), 3),
        (nl.spmd_dim(1, nl.nc(2)), 3),
        (nl.nc(2) * 3, 1),
        (nl.spmd_dim(3, nl.nc(2)), 1),
        (1, nl.spmd_dim(nl.nc(2), 3)),
        (np.int64(2), 3),
        (nl.nc(3), 2),
        (nl.nc(True), 6),
        (nl.spmd_dim(2, nl.nc(3)), 1),
        (nl.nc(2), nl.nc(3)),
    ],
)
@for_all("run", [nki.jit, nki.baremetal])
def test_every_program_of_a_grid_runs_once(grid, run):
    x = np.zeros((6, 5), np.float32)
    assert (run(programs)[grid](x) == RANKS).all()
    assert (nki.simulate_kernel(nki.jit(programs)[grid], x) == RANKS).all()


def test_a_grid_of_one_axis_needs_no_tuple():
    @nki.jit
    def numbers(x):
        assert nl.program_ndim() == 1 and nl.num_programs() == 4
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rank = nl.program_id(axis=0)
        nl.store(out[rank : rank + 1], nl.load(x[rank : rank + 1]) + float(rank))
        return out

    assert (numbers[4](np.zeros((4, 3), np.float32)) == RANKS[:4]).all()
    assert (numbers[nl.nc(2) * 2](np.zeros((4, 3), np.float32)) == RANKS[:4]).all()


def test_a_grid_of_zero_is_one_program():
    @nki.jit
    def numbered(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) + float(10 * nl.num_programs(0) + nl.program_id(0)))
        return out

    assert (numbered[0](np.zeros((4, 3), np.float32)) == 10.0).all()


@pytest.mark.parametrize("grid", [-1, "2", 1.5, (2, None), (), (2, (3,)), [2]], ids=repr)
def test_invalid_grids_are_refused(grid):
    with pytest.raises(SignatureError, match="launch grid"):
        nki.jit(programs)[grid]


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_cores_and_programs_are_counted(count):
    with pytest.raises(SignatureError, match="is not a number of cores"):
        nl.nc(count)
    if count != 0:
        with pytest.raises(SignatureError, match="is not a number of programs"):
            nl.spmd_dim(count, nl.nc(2))


def shared():
    """Launch grids, and the programs that each core runs."""
    return {
        "one axis in turn": (nl.spmd_dim(2, nl.nc(3)), [[0, 3], [1, 4], [2, 5]]),
        "one axis in blocks": (nl.nc(3) * 2, [[0, 1], [2, 3], [4, 5]]),
        "the second axis": ((2, nl.nc(3)), [[0, 3], [1, 4], [2, 5]]),
        "both axes": ((nl.nc(2), nl.nc(3)), [[0], [1], [2], [3], [4], [5]]),
        "no axis": ((2, 3), [[0, 1, 2, 3, 4, 5]]),
        "no programs": ((nl.spmd_dim(0, nl.nc(2)), 1), [[0]]),
    }


@pytest.mark.parametrize("name", shared())
def test_each_core_runs_its_programs_one_after_the_other(name):
    grid, shares = shared()[name]
    seen, runs = [], []

    @nki.jit
    def noted(x):
        rank = current().program_id
        seen.append(rank)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out[rank : rank + 1], nl.load(x[rank : rank + 1]) + float(rank))
        return out

    class Observer:
        def begun(self, core): ...

        def done(self, run):
            runs.append(run)

    count = sum(map(len, shares))
    with settings(observer=Observer()):
        got = noted[grid](np.zeros((count, 5), np.float32))
    assert (got == RANKS[:count]).all()
    assert seen == [rank for share in shares for rank in share]
    assert runs[0].programs == shares and len(runs[0].cores) == len(shares)


# --- arguments that a kernel writes ---------------------------------------------------------------


def test_a_parameter_marked_mutable_is_written_in_place():
    @nki.jit
    def negate(x: nt.mutable_tensor):
        nl.store(x, nl.load(x) * -1.0)
        return x

    mine = X.copy()
    assert negate(mine) is mine and (mine == -X).all()


def test_a_traced_kernel_writes_to_its_arguments():
    def add_into(x, y, out):
        nl.store(out, nl.load(x) + nl.load(y))

    for kernel in (
        nki.trace(add_into),
        nki.jit(add_into, mode="trace"),
        nki.jit(kernel_return=False)(add_into),
        nki.baremetal(add_into),
    ):
        out = np.zeros_like(X)
        kernel(X, Y, out)
        assert (out == X + Y).all()


# --- torch ----------------------------------------------------------------------------------------


def test_torch_tensors_give_torch_tensors():
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(X), torch.from_numpy(Y)
    result = nki.jit(add)(a, b)
    assert isinstance(result, torch.Tensor) and torch.equal(result, a + b)
    half = nki.jit(add)(a.bfloat16(), b.bfloat16())
    assert half.dtype == torch.bfloat16
    want = X.astype(ml_dtypes.bfloat16).astype(np.float32)
    want = (want + Y.astype(ml_dtypes.bfloat16).astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert (half.float().numpy() == want.astype(np.float32)).all()


# --- loops that the compiler traces once ----------------------------------------------------------


def test_addresses_that_a_loop_increments_keep_their_first_value():
    @nki.jit
    def counting(x):
        out = nl.ndarray((20, *x.shape), x.dtype, buffer=nl.shared_hbm)
        address = 0
        for i in nl.affine_range(20):
            buffer = nki.compiler.sbuf.mod_alloc(base_addr=address)
            tile = nl.ndarray(x.shape, x.dtype, buffer=buffer)
            address += 40_000  # more than SBUF has, if it were added 20 times
            for j in nl.static_range(2):
                buffer = nki.compiler.sbuf.mod_alloc(base_addr=address)
                other = nl.ndarray(x.shape, x.dtype, buffer=buffer)
                address += 40_000
                other[...] = nl.load(x) + float(j)
                if j == 0:
                    first = other
            tile[...] = nisa.tensor_tensor(first, other, op=nl.add)
            nl.store(out[i], tile)
        return out

    assert (counting(X) == (X + (X + 1.0))[None]).all()


def test_a_kernels_own_function_of_addresses_is_called_by_name():
    def bank(banks, idx, pdim_size, fdim_size):
        return banks[idx], 0, 0

    def by_position(block, lanes, size):
        return block[0] + 4, 0, 0

    @nki.jit
    def transposed(x, eye):
        out = nl.ndarray((2, 2, 33, 7), x.dtype, buffer=nl.shared_hbm)
        place = nki.compiler.sbuf.mod_alloc
        tile = nl.ndarray(x.shape, x.dtype, buffer=place(base_addr=0))
        identity = nl.ndarray(eye.shape, x.dtype, buffer=place(base_addr=256))
        result = nl.ndarray((33, 7), x.dtype, buffer=place(base_addr=512))
        tile[...], identity[...] = nl.load(x), nl.load(eye)
        bound = functools.partial(bank, banks={(0,): 1, (1,): 5})
        for n, function in enumerate((bound, by_position)):
            buffer = nki.compiler.psum.alloc(function)
            psum = nl.ndarray((2, nl.par_dim(33), 7), np.float32, buffer=buffer)
            for i in nl.static_range(2):
                psum[i] = nisa.nc_matmul(tile, identity)
                result[...] = nisa.tensor_copy(psum[i])
                nl.store(out[n, i], result)
        return out

    assert (transposed(X, np.eye(7, dtype=np.float32)) == X.T).all()


@pytest.mark.parametrize(
    ("variable", "option", "dge"),
    [
        (None, None, True),
        ("--disable-dge --lnc=1", None, False),
        ("--lnc=1", "--disable-dge", False),
        ("--lnc=1", "--disable-dge-not", True),
    ],
)
def test_descriptors_are_left_to_hardware_unless_a_flag_says_otherwise(
    monkeypatch, variable, option, dge
):
    monkeypatch.delenv("NEURON_CC_FLAGS", raising=False)
    if variable is not None:
        monkeypatch.setenv("NEURON_CC_FLAGS", variable)

    @nki.jit
    def own(x, y):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(y)))
        return out

    kernel = nki.benchmark(own, additional_compile_opt=option)
    program = last_launch(kernel, (X, Y), {}).core.program
    assert program.dge is dge
    assert program.flags == (*(variable or "").split(), *(option or "").split())
    skipping = nki.benchmark(nki.compiler.skip_middle_end_transformations(own))
    more = last_launch(skipping, (X, Y), {}).core.program
    assert more.flags == (*(variable or "").split(), "skip_middle_end_transformations")


class Model:
    """Kernels in a class, written without and with an object."""

    factor = 3.0

    @nki.jit
    def doubled(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 2.0))
        return out

    @nki.jit
    def scaled(self, x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), self.factor))
        return out


def test_a_kernel_in_a_class_gets_the_object_only_as_self():
    x = np.ones((4, 3), np.float32)
    assert np.array_equal(Model().doubled(x), 2 * x)
    assert np.array_equal(Model().scaled(x), 3 * x)


def decorated(function):
    @functools.wraps(function)
    def same(*args, **kwargs):
        return function(*args, **kwargs)

    return same


def with_three(function):
    @functools.wraps(function)
    def fewer(x):
        return function(x, 3)

    return fewer


def with_more(function):
    @functools.wraps(function)
    def more(x, factor, *_):
        return function(x, factor)

    return more


@pytest.mark.parametrize(
    ("decorator", "args"), [(decorated, (3,)), (with_three, ()), (with_more, (3, "unused", 4))]
)
def test_a_decorator_of_a_kernel_may_change_its_parameters(decorator, args):
    def times(x, factor):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * factor)
        return out

    x = X
    np.testing.assert_array_equal(nki.jit(decorator(decorated(times)))(x, *args), x * np.float32(3))
    np.testing.assert_array_equal(
        nki.simulate_kernel(decorator(times), x, *args), x * np.float32(3)
    )


def test_a_call_with_wrong_arguments_fails_like_a_call_of_the_function():
    @nki.jit
    def scaled(x, factor):
        return x

    with pytest.raises(TypeError, match=r"scaled\(\) missing 1 required positional argument"):
        scaled(X)


@pytest.mark.parametrize("value", [np.array(["a"]), np.zeros(3, np.complex64), np.array([None])])
def test_arrays_of_other_things_than_numbers_are_refused_for_what_they_are(value):
    with pytest.raises(DtypeError, match="has dtype") as refusal:
        nki.simulate_kernel(lambda x: x, value)
    assert refusal.value.because == "the engines have no such values"
