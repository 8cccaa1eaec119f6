"""Calls that the hardware refuses are refused with a message that names the fault, its place, the
reason and the remedy."""

import json
import pickle

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all
from marked import X, refused

from neuroncore.base import errors, source
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor
from neuroncore.frontend.settings import settings

FIELDS = ("expected", "got", "because", "hint", "also")


# code, built-in that it also is, kernel, and words of its fields
ILLEGAL = {
    "too many partitions": (
        *("PARTITION_LIMIT", ValueError),
        "def kernel(x):\n    t = nl.ndarray(«(256, 1)», nl.float32, name='a')\n",
        {"statement": "'a' (256 x 1) has 256 partitions", "hint": "128", "because": "partition"},
    ),
    "past the end": (
        *("OUT_OF_BOUNDS", IndexError),
        "def kernel(x):\n    for i in range(4):\n        y = «x[:, i * 4:i * 4 + 4]»\n",
        {"statement": "index range [4, 7] exceeds axis 1 of size 6", "hint": "min("},
    ),
    "one piece too many": (
        *("OUT_OF_BOUNDS", IndexError),
        "def kernel(x):\n    for i in range(4):\n        y = «x[:, i * 2:i * 2 + 2]»\n",
        {"got": "[6, 7]", "hint": "end the loop earlier: axis 1 has 3 pieces of 2"},
    ),
    "swapped": (
        *("OUT_OF_BOUNDS", IndexError),
        "def kernel(x):\n    for i in range(3):\n        y = «x[i * 2:i * 2 + 2, 0:2]»\n",
        {"got": "[4, 5]", "hint": "indices are swapped: axis 0 has 2 pieces of 2"},
    ),
    "start partition": (
        *("START_PARTITION", ValueError),
        "def kernel(x):\n    t = tile(16, 4)\n    nisa.memset(«t[7:9]», 0.0)\n",
        {
            "statement": "dst starts at partition 7, but 2 partitions must",
            "expected": "0, 32, 64 or 96",
            "also": "TEN404",
        },
    ),
    "too large for sbuf": (
        *("CAPACITY", ValueError),
        "def kernel(x):\n    return nl.ndarray(«(128, 60000)», nl.float32)\n",
        {"statement": "needs 240,000 bytes", "expected": "229,376", "also": "GCA035"},
    ),
    "too large for psum": (
        *("CAPACITY", ValueError),
        "def kernel(x):\n    nl.ndarray(dtype=nl.float32, buffer=nl.psum, shape=«(1, 4097)»)\n",
        {"statement": "needs 16,388 bytes", "expected": "16,384", "also": "NLA001"},
    ),
    "two banks": (
        *("PSUM_BANK", ValueError),
        "def kernel(x):\n"
        "    d = nl.ndarray((4, 640), nl.float32, buffer=nl.psum, address=(0, 2048))\n"
        "    nisa.nc_matmul(«d[:, 384:640]», tile(4, 4), tile(4, 256))\n",
        {"statement": "crosses a PSUM bank", "because": "8 banks of 2,048 bytes", "also": "NLA001"},
    ),
    "too many columns": (
        *("FREE_SIZE", ValueError),
        "def kernel(x):\n    d = tile(4, 1024, buffer=nl.psum)\n"
        "    nisa.nc_matmul(d, tile(4, 4), «tile(4, 1024)»)\n",
        {
            "statement": "moving has 1,024 columns; trn2 takes at most 512",
            "hint": "loop over pieces of 512",
        },
    ),
    "contraction": (
        *("SHAPE_MISMATCH", ValueError),
        "def kernel(x):\n    d = tile(64, 512, buffer=nl.psum)\n"
        "    nisa.nc_matmul(dst=d, stationary=tile(128, 64), moving=«tile(64, 512)»)\n",
        {"statement": "K is 128 in stationary and 64 in moving", "because": "K is the"},
    ),
    "result of a matmul": (
        *("SHAPE_MISMATCH", ValueError),
        "def kernel(x):\n    d = tile(8, 6, buffer=nl.psum)\n"
        "    nisa.nc_matmul(«d», tile(4, 4), tile(4, 6))\n",
        {"expected": "(4, 6)", "got": "8 x 6 float32 in psum", "because": "partition axis of dst"},
    ),
    "matmul into sbuf": (
        *("BUFFER_KIND", ValueError),
        "def kernel(x):\n    nisa.nc_matmul(«tile(4, 6)», tile(4, 4), tile(4, 6))\n",
        {"expected": "psum", "got": "4 x 6 float32 in sbuf", "hint": "buffer=nl.psum"},
    ),
    "dma from psum": (
        *("BUFFER_KIND", ValueError),
        "def kernel(x):\n    nisa.dma_copy(x, «tile(4, 6, buffer=nl.psum)»)\n",
        {"statement": "src must be in sbuf or hbm, not in psum", "also": "err_unsupported_memory"},
    ),
    "compute on hbm": (
        *("BUFFER_KIND", ValueError),
        "def kernel(x):\n    nisa.tensor_copy(tile(4, 6), src=«x»)\n",
        {"statement": "not in hbm", "hint": "nisa.dma_copy"},
    ),
    "both in psum": (
        *("BUFFER_KIND", ValueError),
        "def kernel(x):\n    p = tile(4, 6, buffer=nl.psum)\n"
        "    nisa.tensor_tensor(tile(4, 6), p, «p», op=nl.add)\n",
        {"statement": "data1 and data2 are in psum", "because": "only one operand from PSUM"},
    ),
    "gpsimd and psum": (
        *("BUFFER_KIND", ValueError),
        "def kernel(x):\n    p = tile(4, 6, buffer=nl.psum)\n"
        "    nisa.tensor_copy(tile(4, 6), «p», engine=nisa.gpsimd_engine)\n",
        {"statement": "src is in psum, which the GpSimd engine can't access", "hint": "in SBUF"},
    ),
    "elements per partition": (
        *("SHAPE_MISMATCH", ValueError),
        "def kernel(x):\n    nisa.tensor_copy(tile(4, 6), «tile(4, 5)»)\n",
        {"expected": "6 elements per partition", "got": "4 x 5"},
    ),
    "partitions differ": (
        *("SHAPE_MISMATCH", ValueError),
        "def kernel(x):\n    nisa.tensor_copy(tile(4, 6), «tile(3, 6)»)\n",
        {"statement": "src has 3 partitions, but dst has 4", "because": "the same partition"},
    ),
    "elements of a transfer": (
        *("SHAPE_MISMATCH", ValueError),
        "def kernel(x):\n    nisa.dma_copy(tile(4, 5), «x»)\n",
        {"expected": "20 elements", "got": "24 elements"},
    ),
    "no constant of the format": (
        *("DTYPE_RULE", TypeError),
        "def kernel(x):\n    nisa.memset(tile(4, 6, nl.int32), «0.5»)\n",
        {
            "statement": "value is 0.5, but int32 holds only integers",
            "because": "without a conversion",
        },
    ),
    "formats of a matmul": (
        *("DTYPE_RULE", TypeError),
        "def kernel(x):\n    d = tile(4, 6, buffer=nl.psum)\n"
        "    nisa.nc_matmul(d, tile(4, 4), «tile(4, 6, nl.bfloat16)»)\n",
        {"got": "float32 and bfloat16"},
    ),
    "missing on this machine": (
        *("TARGET", ValueError),
        "def kernel(x):\n    nisa.dma_copy(tile(4, 6), x, priority=«1»)\n",
        {"statement": "trn2 has no DMA priorities", "got": "trn2 (NeuronCore-v3)"},
    ),
    "reshape across partitions": (
        *("RESHAPE_VIEW", ValueError),
        "def kernel(x):\n    t = tile(4, 6)\n    u = «t.reshape((2, 12))»\n",
        {"statement": "reshape can't change axis 0", "hint": "nisa.nc_transpose"},
    ),
    "assignment": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    t = tile(4, 6)\n    «t[0]» = x\n",
        {"statement": "can't be assigned to", "hint": "nisa.dma_copy"},
    ),
    "misspelled keyword": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    nisa.tensor_copy(dst=x, scr=«x»)\n",
        {"statement": "no parameter 'scr'", "hint": "did you mean 'src'", "expected": "(dst, src,"},
    ),
    "argument left out": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «nisa.tensor_copy(x)»\n",
        {
            "statement": "tensor_copy lacks the argument src",
            "expected": "nisa.tensor_copy(dst, src,",
        },
    ),
    "too many arguments": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    «nisa.tensor_copy(x, x, nisa.vector_engine, 'n', 5)»\n",
        {
            "statement": "takes at most 4 positional arguments",
            "expected": "nisa.tensor_copy(dst, src,",
        },
    ),
    "numpy in a kernel": (
        *("SIGNATURE", TypeError),
        "def kernel(x):\n    nisa.tensor_copy(tile(4, 6), «np.ones((4, 6))»)\n",
        {"statement": "src must be a tensor", "got": "ndarray", "hint": "arguments"},
    ),
    "a register where a constant is needed": (
        *("DYNAMIC_CTRL", TypeError),
        "def kernel(x):\n    r = nisa.register_alloc(2)\n    y = «x[:, 0:r]»\n",
        {"statement": "bounds the slice of axis 1", "hint": "nl.ds(register, size)"},
    ),
    "never written": (
        *("UNINIT_READ", ValueError),
        "def kernel(x):\n    t = nl.ndarray((4, 6), nl.float32)\n"
        "    nisa.tensor_copy(tile(4, 6), «t»)\n",
        {"statement": "all elements of src", "hint": "write the tile"},
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_messages_have_the_fault_the_place_the_reason_and_the_remedy(tmp_path, name):
    code, builtin, body, words = ILLEGAL[name]
    with settings(options=Device(uninitialized="raise").core.options):
        error, path, line, column, source, carets = refused(tmp_path, body)
    assert error.code == code and isinstance(error, builtin)
    assert isinstance(error, ValueError) and isinstance(error, AssertionError)
    for field, part in words.items():
        assert part in getattr(error, field), field
    margin = " " * len(str(line))
    ((innermost, numbers),) = error.stack
    variables = ", ".join(f"{k}={v}" for k, v in numbers.items())
    assert str(error).split("\n") == [
        f"{path}:{line}:{column}: error[{code}] {error.statement}",
        f"  {line} | {source}",
        f"  {margin} | {' ' * (column - 1)}{'^' * carets}",
        *(f"  {w:<9} {getattr(error, f)}" for f, w in errors.LABELS.items() if getattr(error, f)),
        *(f"  also      {more}" for more in error.more),
        f"  in        kernel at {path}:{innermost.line}" + (f"  ({variables})" if numbers else ""),
    ]
    fields = json.loads(json.dumps(error.to_dict()))
    assert (fields["file"], fields["line"], fields["column"]) == (str(path), line, column)
    assert (fields["code"], fields["statement"]) == (code, error.statement)
    assert [fields[f] for f in FIELDS] == [getattr(error, f) for f in FIELDS]
    assert fields["besides"] == error.more
    frame = {"function": "kernel", "place": f"{path}:{innermost.line}", **numbers}
    assert fields["stack"] == [frame]


def test_loop_variables_are_those_of_the_failing_iteration(tmp_path):
    body = """\
def inner(x, j):
    return x[«j * 2» - 0]

def kernel(x):
    for i in nl.affine_range(2):
        for j in nl.sequential_range(3):
            inner(x, j)
"""
    error, path, line, *_ = refused(tmp_path, body)
    assert str(error).splitlines()[-2:] == [
        f"  in        inner at {path}:{line}  (j=2)",
        f"  in        kernel at {path}:{line + 5}  (i=0, j=2)",
    ]
    assert error.to_dict()["stack"][1] == {
        "function": "kernel", "place": f"{path}:{line + 5}", "i": 0, "j": 2
    }  # fmt: skip


def test_the_place_of_an_error_is_where_it_was_created_and_is_found_on_demand(monkeypatch):
    made = []
    with monkeypatch.context() as patch:
        patch.setattr(source, "place", None)
        for i in range(3):
            made.append(errors.KernelError(f"number {i}"))
    i = 7
    assert [error.stack[0][1]["i"] for error in made] == [0, 1, 2] and i == 7
    assert all("made.append(errors" in error.place.text for error in made)


def test_an_error_is_pickled_with_its_place(tmp_path):
    error, *_ = refused(
        tmp_path, "def kernel(x):\n    nisa.tensor_copy(tile(4, 6), «tile(4, 5)»)\n"
    )
    text, other = str(error), pickle.loads(pickle.dumps(error))
    assert type(other) is type(error) and str(other) == text and "mine.py:" in text
    assert other.to_dict() == error.to_dict()


def test_all_faults_of_a_call_are_listed(tmp_path):
    body = "def kernel(x):\n    nisa.nc_matmul(«x», x, tile(4, 6, nl.int32))\n"
    error, *_ = refused(tmp_path, body)
    assert error.statement.startswith("dst ")
    assert [s.split()[0] for s in error.more] == ["stationary", "moving"]
    assert str(error).count("\n  also      ") == 2


@pytest.mark.parametrize(
    "body",
    [
        "def kernel(x):\n    nisa.tensor_copy(\n        tile(4, 6),\n        «tile(4, 5)»)\n",
        "def kernel(x):\n    nisa.tensor_copy(\n        dst=tile(4, 6), src=«tile(4, 5)»)\n",
        "def kernel(x):\n    nisa.tensor_copy(tile(4, 6), «tile(4,\n        5)»)\n",
        "def kernel(x):\n    é = '→'; nisa.tensor_copy(tile(4, 6), «tile(4, 5)», name='ü')\n",
        "def kernel(x):\n\tif True:\n\t\tnisa.tensor_copy(tile(4, 6), «tile(4, 5)»)\n",
        "def kernel(x):\n    both = (tile(4, 6), tile(4, 5))\n    «nisa.tensor_copy(*both)»\n",
        "def kernel(x):\n    d = {'src': tile(4, 5)}\n    «nisa.tensor_copy(tile(4, 6), **d)»\n",
    ],
)
def test_carets_find_the_argument(tmp_path, body):
    error, path, line, column, source, carets = refused(tmp_path, body)
    assert str(error).startswith(f"{path}:{line}:{column}: ")
    shown, underline = str(error).splitlines()[1:3]
    assert shown == f"  {line} | {source}"
    start = len(f"  {line} | ") + column - 1
    assert underline[start:] == "^" * carets
    assert underline[:start].replace(" ", "").replace("\t", "") == "|"
    assert [c == "\t" for c in underline[:start]] == [c == "\t" for c in shown[:start]]


def test_kernels_without_source_still_have_a_line():
    scope = {"nl": nl, "__name__": "typed"}
    exec(
        compile("def kernel(x):\n    nl.ndarray((200, 1), nl.float32)\n", "<typed>", "exec"), scope
    )
    with pytest.raises(errors.PartitionLimitError) as caught:
        launch(scope["kernel"], (X,), tensor=NkiTensor, target="trn2")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("<typed>:2:5: error[PARTITION_LIMIT] ")
    assert lines[1].startswith("  expected ") and lines[-1] == "  in        kernel at <typed>:2"


def test_a_fault_of_a_result_points_at_the_line_that_created_it():
    def kernel(x):
        tile = nl.load(x)
        nl.load(x)
        return tile

    with pytest.raises(errors.SignatureError) as caught:
        launch(kernel, (X,), tensor=NkiTensor)
    error = caught.value
    assert error.statement.startswith("the kernel returns NkiTensor(4 x 6")
    assert "nl.shared_hbm" in error.hint
    assert error.place.file == __file__ and error.place.text.strip() == "tile = nl.load(x)"


def test_a_result_that_was_never_written_points_at_the_line_that_created_it():
    def kernel(x):
        out = nl.ndarray((4, 6), nl.float32, buffer=nl.shared_hbm)
        nl.load(x)
        return out

    (finding,) = launch(kernel, (X,), tensor=NkiTensor).findings
    assert finding.code == "OUTPUT_NOT_WRITTEN"
    assert finding.place.text.strip().startswith("out = nl.ndarray")


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_arguments_must_have_a_format_of_the_device(dtype):
    with pytest.raises(errors.DtypeError, match=dtype) as caught:
        launch(lambda x: x, (np.ones((4, 6), dtype),), tensor=NkiTensor)
    assert "astype" in caught.value.hint


# --- classes --------------------------------------------------------------------------------------


def kinds(cls=errors.KernelError):
    return [k for sub in cls.__subclasses__() for k in (sub, *kinds(sub))]


def test_every_class_of_error_has_a_separate_code_and_is_in_the_list():
    codes = [kind.code for kind in kinds()]
    assert len(set(codes)) == len(codes) >= 16
    for kind in kinds():
        assert f"{kind.__name__} " in errors.__doc__ and kind.code in errors.__doc__


@for_all(
    ("kind", "builtin"),
    [
        *(("OutOfBoundsError", IndexError), ("SignatureError", TypeError)),
        *(("DtypeError", TypeError), ("DynamicControlError", TypeError)),
        *(("OutsideKernelError", RuntimeError), ("NotEmulated", NotImplementedError)),
        ("UsageError", ValueError),
    ],
)
def test_errors_are_instances_of_the_exceptions_that_python_would_raise(kind, builtin):
    assert issubclass(getattr(errors, kind), (builtin, errors.NeuronError))
    assert issubclass(getattr(errors, kind), builtin)


def test_the_three_kinds_of_failure_are_disjoint():
    illegal, missing, wrong = errors.KernelError, errors.NotEmulated, errors.DefinitionError
    for one in (illegal, missing, wrong):
        assert [one for other in (illegal, missing, wrong) if issubclass(one, other)] == [one]


# --- outside a kernel, and names that don't exist -------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda: nl.ndarray((2, 2), nl.float32),
        lambda: nisa.memset(None, 0.0),
        lambda: nisa.register_alloc(0),
    ],
)
def test_outside_a_kernel_there_is_no_core(use):
    with pytest.raises(errors.OutsideKernelError) as caught:
        use()
    assert "@nki.jit" in caught.value.hint
    assert caught.value.also == "err_nki_api_outside_of_nki_kernel"


def test_after_an_error_the_next_kernel_runs():
    def bad(x):
        nl.ndarray((200, 2), nl.float32)

    x = np.ones((4, 6), np.float32)
    with pytest.raises(errors.PartitionLimitError):
        launch(bad, (x,), tensor=NkiTensor)
    with pytest.raises(errors.OutsideKernelError):
        nl.ndarray((2, 2), nl.float32)
    assert launch(lambda x: x, (x,), tensor=NkiTensor).outputs is x


def test_misspelled_instructions_get_a_suggestion():
    with pytest.raises(AttributeError, match="did you mean 'tensor_copy'"):
        nisa.tensr_copy  # noqa: B018
    assert errors.did_you_mean("xyzzy", ["tensor_copy"]) is None


def test_keywords_of_older_releases_are_ignored_with_a_warning():
    device = Device()
    tile = device.empty((4, 6))
    with pytest.warns(UserWarning, match="memset ignores mask="):
        device.issue("memset", tile, 1.0, mask=None)
    assert (tile.numpy() == 1).all()


# --- no trace -------------------------------------------------------------------------------------


def test_an_illegal_instruction_leaves_no_trace():
    device = Device()
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    dst, src, unread = device.tile(values), device.tile(-values[:, :5]), device.empty((4, 5))
    psum = device.empty((4, 6), buffer="psum")
    for _ in range(2):  # also when the call has been seen before
        device.refuses(errors.ShapeError, "tensor_copy", dst, src)
        device.refuses(errors.ShapeError, "tensor_copy", dst, unread)
        device.refuses(errors.BufferKindError, "dma_copy", psum, dst)
        device.refuses(errors.DtypeError, "memset", device.empty((4, 6), "int8"), 0.5)
        device.refuses(errors.SignatureError, "tensor_copy", dst, src, sorce=3)
        device.refuses(errors.SignatureError, "tensor_copy", dst)
    assert np.array_equal(dst.numpy(), values)
    assert len(device.core.program) == 0 and not device.findings
    device.issue("tensor_copy", dst[:, :5], src)
    assert len(device.core.program) == 1 and device.opcodes == ["COPY"]
