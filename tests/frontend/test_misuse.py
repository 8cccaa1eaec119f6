"""Calls of neuroncore's functions that Python refuses are reported like other errors; other errors
of Python are unchanged."""

import nki.isa as nisa
import nki.language as nl
import pytest
from every import for_all
from marked import X, refused

from neuroncore.base import errors
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor

ILLEGAL = {
    "misspelled instruction": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «nisa.tensor_scaler»(dst=x, data=x)\n",
        {
            "statement": "nki.isa has no 'tensor_scaler'",
            "expected": "nisa.tensor_scalar(dst, data, op0, operand0, ",
            "hint": "did you mean 'tensor_scalar'?",
        },
    ),
    "misspelled function": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «nl.maximun»(tile(4, 4), 0)\n",
        {"expected": "nl.maximum(x, y, dtype=None)", "hint": "did you mean 'maximum'?"},
    ),
    "misspelled method": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «x.reshpae»((6, 4))\n",
        {"statement": "NkiTensor 'x'(4 x 6", "expected": "reshape(shape)", "hint": "'reshape'"},
    ),
    "function of the older API": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «nl.arange»(128)\n",
        {"statement": "nki.language has no 'arange'", "hint": "use slices like x[0:128"},
    ),
    "launch grid of the older API": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «nl.spmd_dim»(2, 2)\n",
        {"statement": "nki.language has no 'spmd_dim'", "hint": "kernel[n] runs a program"},
    ),
    "parameter of the older API": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    nl.load(x, mask=«x»)\n",
        {"statement": "nl.load has no parameter 'mask'", "hint": "use slices"},
    ),
    "a function as a method": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «tile(4, 4).broadcast_to»((8, 4))\n",
        {"expected": "nl.broadcast_to(x, shape", "hint": "nl.broadcast_to is a function of tiles"},
    ),
    "numpy's transpose": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «tile(4, 4).T»\n",
        {"statement": "has no 'T'", "hint": "nl.transpose is a function of tiles"},
    ),
    "misspelled keyword": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    nl.maximum(tile(4, 4), 0, dtyp=«nl.float32»)\n",
        {
            "statement": "nl.maximum has no parameter 'dtyp'",
            "expected": "nl.maximum(x, y, dtype=None)",
            "hint": "did you mean 'dtype'?",
        },
    ),
    "a misspelled keyword of an instruction means one that isn't given": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    nisa.tensor_scalar(x, x, nl.add, operandO=«2.0»)\n",
        {"hint": "did you mean 'operand0'?"},
    ),
    "too few": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «nl.maximum(tile(4, 4))»\n",
        {
            "statement": "nl.maximum lacks the argument y",
            "expected": "nl.maximum(x, y, dtype=None)",
        },
    ),
    "too many": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «nl.exp(tile(4, 4), 1, 2, 3)»\n",
        {"statement": "nl.exp doesn't take 4 positional arguments"},
    ),
    "twice": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «nl.exp(tile(4, 4), x=1)»\n",
        {"statement": "nl.exp got the argument x twice"},
    ),
    "what a function can't be given": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    t = nl.load(x)\n    «nl.broadcast_to(t, 3)»\n",
        {
            "statement": "nl.broadcast_to failed with these arguments: 'int' object",
            "expected": "nl.broadcast_to(x, shape, dtype=None)",
        },
    ),
    "a kernel that another calls": (
        *("SIGNATURE", TypeError),
        "import nki\n@nki.jit\ndef inner(x, y): pass\ndef kernel(x):\n    «inner(x)»\n",
        {"statement": "inner lacks the argument y", "expected": "inner(x, y)"},
    ),
    "numpy": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «np.maximum(tile(4, 4), 0)»\n",
        {"statement": "numpy's maximum can't compute with NkiTensor", "hint": "use nl.maximum"},
    ),
    "a class of numpy": (  # it has shape and dtype, like an array
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    nisa.tensor_copy(tile(4, 4), «np.float32»)\n",
        {"statement": "tensor_copy: src must be a tensor", "got": "class 'numpy.float32'"},
    ),
    "what isn't there, set": (
        *("UNKNOWN_NAME", AttributeError),
        "def kernel(x):\n    «x.scale» = 2\n",
        {"statement": "a tensor has no 'scale'", "hint": "use a variable, or an object"},
    ),
    "elements deleted": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    del «x[0]»\n",
        {"statement": "elements of NkiTensor 'x'(4 x 6", "hint": "the elements to keep"},
    ),
    "len": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «len(x)»\n",
        {"statement": "NkiTensor 'x'(4 x 6", "hint": "tensor.shape[0]"},
    ),
    "numpy by way of itself": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «np.sum(tile(4, 4), axis=1)»\n",
        {"statement": "numpy's sum can't compute with NkiTensor", "hint": "use nl.sum"},
    ),
    "numpy where the device has nothing": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «np.hypot(tile(4, 4), 0)»\n",
        {"statement": "numpy's hypot"},
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_messages_name_the_argument_and_a_suggestion(tmp_path, name):
    code, builtin, body, words = ILLEGAL[name]
    error, path, line, column, _, _ = refused(tmp_path, body)
    assert error.code == code and isinstance(error, builtin)
    for field, part in words.items():
        assert part in getattr(error, field), field
    assert (error.place.file, error.place.line) == (str(path), line)
    assert error.place.column == column - 1
    assert "neuroncore." not in str(error)


# --- errors outside neuroncore --------------------------------------------------------------------


@for_all(
    "body",
    [
        "def helper(a): pass\ndef kernel(x):\n    helper(1, 2)\n",
        "def kernel(x):\n    'text'.nothing\n",
        "def kernel(x):\n    'text'.nothing = 1\n",
        "def kernel(x):\n    del 'text'[0]\n",
        "def kernel(x):\n    len(3)\n",
        "def kernel(x):\n    range(*['a'])\n",
        "def kernel(x):\n    raise ValueError('mine')\n",
        "def kernel(x):\n    x(3)\n",
        "def kernel(x):\n    nl(3)\n",
        "class A:\n    b = property(lambda self: 1 + '')\na = A()\ndef kernel(x):\n    a.b()\n",
        "import nki\n@nki.jit\ndef inner(x): raise TypeError\ndef kernel(x): inner(x)\n",
    ],
)
def test_errors_of_python_are_unchanged(body):
    scope = {"nl": nl, "__name__": "mine"}
    exec(body, scope)
    with pytest.raises((TypeError, AttributeError, ValueError)) as caught:
        launch(scope["kernel"], (X,), tensor=NkiTensor)
    assert not isinstance(caught.value, errors.NeuronError)


def test_the_traceback_into_neuroncore_is_kept_as_the_cause(tmp_path):
    error, *_ = refused(
        tmp_path, "def kernel(x):\n    t = nl.load(x)\n    «nl.broadcast_to(t, 3)»\n"
    )
    assert type(error.__cause__) is TypeError and error.__cause__.__traceback__ is not None


def test_a_kernel_may_test_whether_a_name_exists():
    def kernel(x):
        assert not hasattr(nisa, "tensor_scaler") and getattr(nl, "nothing", 1) == 1
        return x

    launch(kernel, (X,), tensor=NkiTensor)
