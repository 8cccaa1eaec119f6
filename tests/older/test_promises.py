"""Rules of the older API: which tensors a kernel may write, where its tensors end, and which
keywords it may pass."""

import numpy as np
import pytest
from every import for_all
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from neuronxcc.nki import typing as nt

import neuroncore
from neuroncore.base import errors
from neuroncore.frontend.launch import NeuronWarning

X = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)


def fresh():
    return np.zeros((128, 4), np.float32)


# --- parameters -----------------------------------------------------------------------------------


def adds_one(x, out):
    nl.store(out, nl.load(x) + 1)


def adds_one_and_returns(x, out):
    nl.store(out, nl.load(x) + 1)
    return out


@for_all(
    "run",
    [
        nki.trace(adds_one),
        nki.jit(adds_one, mode="trace"),
        nki.jit(kernel_return=False)(adds_one),
        nki.baremetal(adds_one),
        nki.benchmark(adds_one),
        lambda x, out: nki.simulate_kernel(adds_one, x, out),
        lambda x, out: nki.simulate_kernel(nki.trace(adds_one), x, out),
    ],
)
def test_kernels_that_return_nothing_write_their_parameters(run):
    out = fresh()
    run(X, out)
    np.testing.assert_array_equal(out, X + 1)


@for_all(
    "run",
    [
        nki.jit(adds_one),
        nki.jit(adds_one_and_returns),
        nki.jit(adds_one_and_returns, mode="simulation"),
        nki.baremetal(adds_one_and_returns),
        nki.jit(adds_one_and_returns)[1],
        nki.baremetal(nki.jit(adds_one)),
        lambda x, out: nki.simulate_kernel(adds_one_and_returns, x, out),
    ],
)
def test_kernels_that_return_their_results_do_not_write_their_parameters(run):
    out = fresh()
    with pytest.raises(errors.ImmutableError, match="'out'") as caught:
        run(X, out)
    assert "out: nt.mutable_tensor" in caught.value.hint
    assert not out.any()


@pytest.mark.parametrize(
    "annotation",
    [nt.mutable_tensor, nt.tensor[nt.mutable], "nt.mutable_tensor"],
    ids=["type", "in brackets", "text"],
)
def test_parameters_annotated_as_mutable_are_written(annotation):
    def kernel(x, out):
        nl.store(out, nl.load(x) + 1)
        return out

    kernel.__annotations__["out"] = annotation
    np.testing.assert_array_equal(nki.jit(kernel)(X, fresh()), X + 1)


@nki.jit
def writes_both(x: nt.mutable_tensor):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    nl.store(x, nl.load(x) + 1)
    return out


def test_a_mutable_parameter_that_was_written_is_returned():
    with pytest.raises(errors.SignatureError, match="parameter x and doesn't return it") as caught:
        writes_both(X.copy())
    assert caught.value.place.text.strip() == "return out"


def test_a_flag_of_the_compiler_permits_writes_that_are_not_returned():
    flags = "enable-mutable-parameter, skip-mutable-return-check"
    given = X.copy()
    np.testing.assert_array_equal(nki.jit(writes_both, experimental_flags=flags)(given), X)
    np.testing.assert_array_equal(given, X + 1)


def test_a_mutable_parameter_that_is_only_read_need_not_be_returned():
    @nki.jit
    def kernel(x: nt.mutable_tensor):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    np.testing.assert_array_equal(kernel(X), X)


# --- outputs --------------------------------------------------------------------------------------


def never(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for _ in nl.affine_range(x.shape[1] // 8):
        nl.store(out, nl.load(x))
    return out


def test_an_output_that_was_never_written_is_refused():
    with pytest.raises(errors.OutputError, match="nothing was written") as caught:
        nki.jit(never)(X)
    assert caught.value.statement.endswith("float32 in shared_hbm)")
    assert caught.value.also == "err_tensor_output_not_written_to"
    assert caught.value.place.text.strip() == "return out"


def test_unwritten_parameters_of_a_kernel_that_returns_nothing_are_refused():
    def kernel(x, out):
        for _ in nl.affine_range(x.shape[1] // 8):
            nl.store(out, nl.load(x))

    with pytest.raises(errors.OutputError):
        nki.simulate_kernel(kernel, X, fresh())


def test_the_programs_of_a_grid_write_an_output_together():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 1:
            nl.store(out, nl.load(x))
        return out

    np.testing.assert_array_equal(kernel[2](X), X)
    with pytest.raises(errors.OutputError):
        kernel[1](X)


# --- scopes ---------------------------------------------------------------------------------------


def run(body, *arrays):
    """Return the result of a kernel whose body gets the loaded arrays and returns a tile."""

    def kernel(*given):
        tile = body(*[nl.load(x) for x in given])
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return nki.jit(kernel)(*arrays)


@pytest.mark.parametrize("loop", [nl.affine_range, nl.sequential_range])
def test_a_tile_ends_with_its_iteration(loop):
    def body(x):
        for n in loop(3):
            last = x + float(n)
        return last

    with pytest.raises(errors.ScopeError, match="passed as value was made at") as caught:
        run(body, X)
    assert caught.value.also == "err_local_variable_used_out_of_scope"


@pytest.mark.parametrize("loop", [nl.static_range, range])
def test_unrolled_loops_have_no_scope(loop):
    def body(x):
        for n in loop(3):
            last = x + float(n)
        return last

    np.testing.assert_array_equal(run(body, X), X + 2)


def test_a_loop_that_is_left_has_ended():
    def body(x):
        for n in nl.sequential_range(3):
            last = x + float(n)
            break
        return last

    with pytest.raises(errors.ScopeError):
        run(body, X)


def test_blocks_belong_to_the_scope_of_their_allocation():
    def body(x):
        blocks = nl.ndarray((2, nl.par_dim(128), 4), x.dtype)
        for n in nl.affine_range(2):
            blocks[n] = x + float(n)
        return blocks[1]

    np.testing.assert_array_equal(run(body, X), X + 1)


def test_a_loop_reduction_outlives_its_loop():
    def body(x):
        for n in nl.affine_range(3):
            total = nl.loop_reduce(x + float(n), np.add, loop_indices=[n])
        return total

    np.testing.assert_array_equal(run(body, X), 3 * X + 3)


# --- iterations that may run at the same time -----------------------------------------------------


def test_separate_pieces_in_nested_loops_have_no_finding():
    def body(x):
        made = nl.ndarray((128, 4), x.dtype)
        for n in nl.affine_range(2):
            for m in nl.affine_range(2):
                made[:, nl.ds(2 * n + m, 1)] = x[:, nl.ds(2 * n + m, 1)] * 2.0
        return made

    np.testing.assert_array_equal(run(body, X), 2 * X)


def test_the_outer_loop_s_iterations_are_compared_too():
    def body(x):
        made = nl.ndarray((128, 2), x.dtype)
        for n in nl.affine_range(2):
            for m in nl.affine_range(2):
                made[:, nl.ds(m, 1)] = x[:, nl.ds(2 * n + m, 1)]
        return made

    with pytest.raises(NeuronWarning, match="iterations 0 and 1"):
        run(body, X)


def carried(kernel):
    found = neuroncore.run(nki.jit(kernel), X).findings
    return [one.severity for one in found if one.code == "LOOP_CARRIED"]


def test_equal_values_written_by_iterations_are_a_note():
    def copies(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, given = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), nl.load(x)
        for _ in nl.affine_range(3):
            tile[...] = nl.copy(given)
        nl.store(out, tile)
        return out

    def sums(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, given = nl.load(x), nl.load(x)
        for _ in nl.affine_range(3):
            tile[...] = nl.add(tile, given)
        nl.store(out, tile)
        return out

    def numbers(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile, given = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), nl.load(x)
        for n in nl.affine_range(3):
            tile[...] = nl.multiply(given, n)
        nl.store(out, tile)
        return out

    assert carried(copies) == ["note"]
    assert carried(sums) == ["warning"] and carried(numbers) == ["warning"]


def test_a_tile_of_the_outer_iteration_is_not_shared():
    def body(x):
        made = nl.ndarray((128, 4), x.dtype)
        for n in nl.affine_range(2):
            half = nl.ndarray((128, 2), x.dtype)
            for m in nl.affine_range(2):
                half[:, nl.ds(m, 1)] = x[:, nl.ds(2 * n + m, 1)]
            made[:, nl.ds(2 * n, 2)] = half
        return made

    np.testing.assert_array_equal(run(body, X), X)


def test_two_writes_of_one_iteration_are_in_order():
    def body(x):
        made = nl.ndarray((2, nl.par_dim(128), 4), x.dtype)
        for n in nl.affine_range(2):
            made[n] = x
            made[n] = made[n] + 1.0
        return made[1]

    np.testing.assert_array_equal(run(body, X), X + 1)


def test_an_accumulator_register_is_not_a_write():
    def body(x):
        total = nl.zeros((128, 4), x.dtype)
        for _ in nl.affine_range(3):
            total += x
        return total

    np.testing.assert_array_equal(run(body, X), 3 * X)


def test_one_loop_object_may_be_run_twice():
    def body(x):
        made, twice = nl.ndarray((128, 4), x.dtype), nl.affine_range(4)
        for n in twice:
            made[:, nl.ds(n, 1)] = x[:, nl.ds(n, 1)]
        for n in twice:
            made[:, nl.ds(3 - n, 1)] = x[:, nl.ds(n, 1)]
        return made

    np.testing.assert_array_equal(run(body, X), X[:, ::-1])


# --- shared memory, grids -------------------------------------------------------------------------


def helper(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def test_a_helper_must_not_create_shared_memory():
    def kernel(x):
        return helper(x)

    with pytest.raises(errors.ScopeError, match="a function that the kernel calls"):
        nki.jit(kernel)(X)
    flags = "skip-non-top-level-shared-hbm-check"
    np.testing.assert_array_equal(nki.jit(kernel, experimental_flags=flags)(X), X)


def test_a_kernel_inside_a_kernel_may_create_shared_memory():
    def kernel(x):
        return nki.jit(helper)(x)

    np.testing.assert_array_equal(nki.jit(kernel)(X), X)


def test_shared_memory_in_a_condition_belongs_to_the_kernel():
    @nki.jit
    def kernel(x, wanted=True):
        if wanted:
            outs = [nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2)]
            for out in outs:
                nl.store(out, nl.load(x))
        return outs

    np.testing.assert_array_equal(kernel(X)[1], X)


# --- keywords -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name", "keyword"),
    [
        (lambda x: nl.sum(x, axis=1, keepdim=True), "sum", "keepdim"),
        (lambda x: nl.ndarray((128, 4), np.float32, bufer=nl.psum), "ndarray", "bufer"),
        (lambda x: nl.zeros((128, 4), np.float32, bufer=nl.psum), "zeros", "bufer"),
        (lambda x: nl.add(x, x, maks=True), "add", "maks"),
        (lambda x: nl.copy(x, dtpe=np.float32), "copy", "dtpe"),
        (lambda x: nisa.tensor_copy(x, maks=True), "tensor_copy", "maks"),
        (lambda x: nisa.iota(nl.arange(4)[None, :], nl.int32, mas=True), "iota", "mas"),
    ],
)
def test_a_misspelled_keyword_is_refused(call, name, keyword):
    with pytest.raises(errors.SignatureError, match=f"{name} has no parameter {keyword!r}") as got:
        run(call, X)
    assert "did you mean" in got.value.hint


def test_hints_to_the_compiler_are_accepted():
    def body(x):
        made = nl.zeros((128, 4), x.dtype, lazy_initialization=True)
        for n in nl.affine_range(4, precise_schedule=True):
            made[:, nl.ds(n, 1)] = nisa.tensor_copy(x[:, nl.ds(n, 1)], name="column")
        return made

    np.testing.assert_array_equal(run(body, X), X)


def test_keywords_without_effect_are_reported():
    with pytest.warns(UserWarning, match="multiply ignores max_free_vec_size="):
        got = run(lambda x: nl.multiply(x, 2.0, max_free_vec_size=4), X)
    np.testing.assert_array_equal(got, 2 * X)


def test_a_mask_that_is_true_everywhere_needs_no_shape():
    def copied(x, bound):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rows = nl.arange(x.shape[0])[None, None, :, None]
        tile = nl.zeros(x.shape, x.dtype)
        tile[...] = nl.load(x, mask=rows < bound)
        nl.store(out, tile)
        return out

    assert np.array_equal(neuroncore.run(nki.jit(copied), X, 128).results, X)
    assert np.array_equal(neuroncore.run(nki.jit(copied), X, 0).results, np.zeros_like(X))
    with pytest.raises(errors.ShapeError, match="the index expression has the shape"):
        neuroncore.run(nki.jit(copied), X, 64)


def test_a_whole_number_as_a_float_is_a_size_of_a_view():
    def copied(x, columns):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x).reshape((128, columns / 2, 2)).reshape(x.shape))
        return out

    assert np.array_equal(neuroncore.run(nki.jit(copied), X, 4).results, X)
    with pytest.raises((errors.SignatureError, TypeError)):
        neuroncore.run(nki.jit(copied), X, 5)
