"""Calls of the older API that Python refuses are reported like other errors, and run-time errors
have the iteration."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from neuroncore.base.errors import KernelError, OutOfBoundsError, SignatureError, UnknownNameError

X = np.ones((256, 512), np.float32)


def refused(kernel, kind):
    with pytest.raises(kind) as caught:
        nki.jit(kernel)(X)
    error = caught.value
    assert error.place.file == __file__ and "neuroncore.frontend" not in str(error)
    return error


def tile(x):
    return nl.load(x[0:128, 0:64])


def test_a_misspelled_instruction_of_the_older_api():
    error = refused(lambda x: nisa.tensor_scaler(tile(x), np.add, 1.0), UnknownNameError)
    assert error.statement == "neuronxcc.nki.isa has no 'tensor_scaler'"
    assert error.hint == "did you mean 'tensor_scalar'?"
    assert error.expected.startswith("nisa.tensor_scalar(data, op0, operand0, ")
    assert "nisa.tensor_scaler" in error.place.text


def test_a_misspelled_function_and_method():
    assert "'maximum'" in refused(lambda x: nl.maximun(tile(x), 0), UnknownNameError).hint
    error = refused(lambda x: tile(x).reshpae((64, 128)), UnknownNameError)
    assert "'reshape'" in error.hint and error.statement.startswith("Tensor(128 x 64")


def test_a_misspelled_keyword():
    error = refused(lambda x: nisa.tensor_scalar(tile(x), np.add, operandO=2.0), SignatureError)
    assert error.statement == "nisa.tensor_scalar has no parameter 'operandO'"
    assert error.hint == "did you mean 'operand0'?"
    assert error.expected.startswith("nisa.tensor_scalar(data, op0, operand0, ")
    error = refused(lambda x: nl.affine_range(0, 4, step=2), SignatureError)
    assert error.expected == "affine_range(*args)"


def test_too_few_arguments():
    error = refused(lambda x: nisa.tensor_scalar(tile(x), np.add), SignatureError)
    assert error.statement == "nisa.tensor_scalar lacks the argument operand0"


@pytest.mark.parametrize(
    ("compute", "name", "hint"),
    [
        (lambda x: np.maximum(x, 0), "maximum", "use nl.maximum"),
        (lambda x: np.exp(x), "exp", "use nl.exp"),
        (lambda x: np.prod(x, axis=1), "prod", "use nl.prod"),
        (lambda x: np.hypot(x, x), "hypot", None),
    ],
)
def test_functions_of_numpy(compute, name, hint):
    error = refused(lambda x: compute(tile(x)), SignatureError)
    assert error.statement == f"numpy's {name} can't compute with a tensor"
    assert error.hint == hint and "np." in error.place.text


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda: nl.arange(4)["x"], SignatureError, "'str' object cannot be interpreted"),
        (lambda: nl.arange(4)[7], OutOfBoundsError, "out of range"),
        (lambda: nl.mgrid[0:"x"], SignatureError, "'str' object cannot be interpreted"),
    ],
)
def test_values_without_operators_are_refused(ask, kind, words):
    error = refused(lambda x: ask(), kind)
    assert words in error.statement and error.__cause__ is not None


def test_numbers_of_numpy_leave_arithmetic_to_the_tile():
    def kernel(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, np.float32(2) * tile(x))
        return out

    assert (nki.jit(kernel)(X) == 2).all()


def test_a_result_on_the_chip_is_refused_where_it_was_made():
    def kernel(x):
        made = nl.load(x[0:128, 0:64])
        nl.load(x[0:128, 64:128])
        return made

    assert refused(kernel, SignatureError).place.text.strip().startswith("made = nl.load")


# --- loops ----------------------------------------------------------------------------------------


def copied(place):
    """A kernel that copies (256, 512) in tiles of 128 x 128 to the index `place`."""

    def kernel(x):
        out = nl.ndarray((256, 512), x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:128, 0:128]
        for i in nl.affine_range(2):
            for j in nl.affine_range(4):
                nl.store(place(out, i, j, p, f), nl.load(x[i * 128 + p, j * 128 + f]))
        return out

    return kernel


@pytest.mark.parametrize(
    "place",
    [
        lambda out, i, j, p, f: out[j * 128 + p, i * 128 + f],
        lambda out, i, j, p, f: out[j * 128 : j * 128 + 128, i * 128 : i * 128 + 128],
    ],
)
def test_swapped_indices_are_suggested(place):
    error = refused(copied(place), OutOfBoundsError)
    assert error.hint == "check whether the indices are swapped: axis 0 has 2 pieces of 128"


def test_a_shorter_last_piece_needs_a_mask():
    def ragged(x):
        p, f = nl.mgrid[0:128, 0:100]
        for j in nl.affine_range(6):
            nl.load(x[p, j * 100 + f])

    assert "mask the last piece" in refused(ragged, OutOfBoundsError).hint


def test_run_time_errors_have_the_iteration():
    error = refused(copied(lambda out, i, j, p, f: out[p, j * 256 + f]), KernelError)
    assert {**error.stack[1][1]} == {"i": 0, "j": 2}
    assert "(i=0, j=2)" in str(error)


def test_run_time_errors_of_instructions_have_the_iteration():
    def kernel(x):
        made = tile(x)
        for i in nl.affine_range(3):
            nisa.tensor_copy(made[0:64, 0 : 32 + i], mask=made)

    assert refused(kernel, KernelError).stack[0][1] == {"i": 0}


def test_a_function_of_the_language_that_is_no_operator_is_named():
    def kernel(x):
        nisa.tensor_scalar(tile(x), nl.softmax, 2.0)

    error = refused(kernel, KernelError)
    assert "nl.softmax is not an operator of an engine, but a function" in str(error)
