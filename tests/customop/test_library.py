"""Custom C++ operators agree with numpy, and each of their rules refuses a call that breaks it."""

import os
import shutil
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from every import for_all

from neuroncore import customop
from neuroncore.base.errors import UsageError
from neuroncore.customop import CustomOpFault, CustomOpWarning, build
from neuroncore.customop.build import limits

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.source,
    pytest.mark.skipif(
        not any(map(shutil.which, build.COMPILERS)), reason="no C++ compiler is installed"
    ),
]


@cache
def library():
    return customop.load([HERE / "operators.cpp"], [HERE / "shapes.cpp"])


@cache
def eight():
    sources = [HERE / "several_cores.cpp"], [HERE / "several_cores_shapes.cpp"]
    return customop.load(*sources, multicore=True)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def refused(code, call):
    with pytest.raises(CustomOpFault) as error:
        call()
    assert error.value.finding.code == code, error.value
    return error.value


# --- results of operators -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 130)])
def test_access_by_elements(shape):
    x = random(*shape)
    call = library().run("scaled", x, 0.3)
    assert np.array_equal(call.result, (0.3 * x.astype(np.float64)).astype(np.float32))
    assert call.counts == ((2 * x.size, 0, 0),) and call.findings == ()


@pytest.mark.parametrize("elements", [1, 37, 3000])
def test_access_by_streams(elements):
    a, b = (random(elements, seed=s).astype(ml_dtypes.bfloat16) for s in (1, 2))
    call = library().run("sums", a, b)
    assert call.result.dtype == a.dtype
    want = (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
    assert np.array_equal(call.result, want)
    assert call.counts == ((0, 0, 3 * elements),) and call.printed == f"{elements} elements\n"


def test_access_through_tcm():
    x = random(1001)
    call = library().run("through_tcm", x, 0)
    assert np.array_equal(call.result, x) and call.counts == ((0, 2002, 0),)


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("elements", [1, 9, 1003, 4096])
def test_eight_cores_in_any_order(order, elements):
    x = random(elements)
    if elements == 1003 or elements == 4096:
        call = eight().run("shared", x, 0, order=order)
        assert np.array_equal(call.result, 2 * x)
        assert len(call.counts) == 8 and call.printed == "core 0 of 8\n"
    else:  # the shares of the last cores begin beyond the end
        refused("OUT_OF_BOUNDS", lambda: eight().run("shared", x, 0, order=order))


@pytest.mark.skipif(not shutil.which("clang++"), reason="clang is not installed")
def test_clang_compiles_it_too():
    sources = [HERE / "several_cores.cpp"], [HERE / "several_cores_shapes.cpp"]
    found = customop.load(*sources, multicore=True, compiler="clang++")
    assert found.program != eight().program
    assert np.array_equal(found.run("shared", random(1003), 0).result, 2 * random(1003))
    error = refused("OUT_OF_BOUNDS", lambda: found.run("shared", random(1003), 5))
    assert (
        error.finding
        == refused("OUT_OF_BOUNDS", lambda: eight().run("shared", random(1003), 5)).finding
    )


INTEGERS = ("uint8", "int8", "int16", "int32")
FLOATS = ("float32", "float16", "bfloat16")
UNARY = {
    0: np.abs, 1: np.ceil, 2: np.floor, 3: np.sin, 4: np.cos, 5: np.tan, 9: np.exp,
    13: lambda a: np.clip(a, -0.5, 0.75), 12: lambda a: 2.0**a, 15: lambda a: a - 6,
}  # fmt: skip
BINARY = {
    10: lambda a, b: b**a, 14: lambda a, b: a + 2 * b,
    16: lambda a, b: a * b, 17: lambda a, b: a / b,
    6: lambda a, b: np.log(b), 7: lambda a, b: np.log2(b), 8: lambda a, b: np.log10(b),
    11: lambda a, b: b**1.5,
}  # fmt: skip


@pytest.mark.parametrize("form", FLOATS)
def test_operators_of_tensors(form):
    form = np.dtype(form if form != "bfloat16" else ml_dtypes.bfloat16)
    a, b = random(3, 7).astype(form), (np.abs(random(3, 7, seed=1)) + 0.1).astype(form)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    step = float(ml_dtypes.finfo(form).eps)
    for which, want in {
        **{which: f(wide_a) for which, f in UNARY.items()},
        **{which: f(wide_a, wide_b) for which, f in BINARY.items()},
    }.items():
        got = library().calculated(a, b, which)
        assert got.dtype == form and got.shape == a.shape
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=2 * step, atol=1e-7)


@pytest.mark.parametrize("form", INTEGERS)
def test_operators_of_integers(form):
    a = np.arange(24, dtype=form).reshape(4, 6)
    b = np.full((4, 6), 5, form)
    for which, want in {14: a + 2 * b, 16: a * b, 18: a & b, 19: 3 | a, 20: ~a}.items():
        assert np.array_equal(library().calculated(a, b, which), want.astype(form)), which
    assert np.array_equal(library().calculated(a, b, 21), np.eye(4, 6, dtype=form))


def test_16_bit_floats_agree_with_numpy():
    """Every code is an operand once; some results fall between two codes or exceed the largest."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    for form in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        a = codes.view(form)
        b = np.full_like(a, 1.37)
        with np.errstate(all="ignore"):
            want = (a.astype(np.float64) * b.astype(np.float64)).astype(np.float32).astype(form)
            got = library().calculated(a, b, 16)
        both_nan = np.isnan(want.astype(np.float32)) & np.isnan(got.astype(np.float32))
        assert np.array_equal(got.view(np.uint16)[~both_nan], want.view(np.uint16)[~both_nan])


# --- refusals -------------------------------------------------------------------------------------


@for_all(
    "operator, how, code, statement, line",
    [
        ("through_tcm", 1, "DTYPE_RULE", "tcm_to_tensor of float32 on a tensor of int32", True),
        ("through_tcm", 2, "OUT_OF_BOUNDS", "a copy of 40 bytes", True),
        ("through_tcm", 3, "OUT_OF_BOUNDS", "elements 1 to 11 of a tensor of 10", True),
        ("through_tcm", 4, "OUT_OF_BOUNDS", "a TCM buffer of 40 bytes was written beyond", True),
        ("through_tcm", 5, "CRASH", "through_tcm ended by signal 6", False),
        ("through_tcm", 8, "TCM_FREE", "tcm_free of a pointer that is not from tcm_malloc", True),
        ("by_element", 1, "DTYPE_RULE", "an accessor of float32 on a tensor of int32", True),
        ("by_element", 2, "SHAPE_MISMATCH", "an accessor of 2 axes on a tensor of 1", True),
        ("by_element", 3, "OUT_OF_BOUNDS", "index 10 of an axis of 10 elements", True),
        ("by_element", 4, "OUT_OF_BOUNDS", "index -1 of an axis of 10 elements", True),
        ("by_stream", 1, "COHERENCE", "a read stream on a tensor that has a write stream", True),
        ("by_stream", 2, "COHERENCE", "a write stream on a tensor that has another", True),
        ("by_stream", 3, "COHERENCE", "accessed while its tensor has an open write stream", True),
        ("by_stream", 6, "STREAM", "read from a stream past its 10 elements", True),
        ("by_stream", 7, "STREAM", "write to a stream past its 10 elements", True),
        ("by_stream", 8, "STREAM", "read from a stream that is closed", True),
    ],
)
def test_a_call_that_breaks_a_rule_is_refused(operator, how, code, statement, line):
    error = refused(code, lambda: library().run(operator, random(10), how))
    assert statement in str(error) and "because" in str(error) and "hint" in str(error)
    if line:
        assert f"operators.cpp:{error.finding.line}: [{code}]" in str(error)
        assert operator_at(error.finding.line) == operator


def operator_at(line):
    """The function of operators.cpp that a line is in."""
    lines = (HERE / "operators.cpp").read_text().splitlines()[:line]
    (*_, last) = (text for text in lines if text.startswith("torch::Tensor "))
    return last.removeprefix("torch::Tensor ").partition("(")[0]


@pytest.mark.parametrize("operator", ["through_tcm", "by_element", "by_stream"])
def test_the_corrected_operators_are_not_refused(operator):
    x = random(10)
    assert np.array_equal(library().run(operator, x, 0).result, x)


@pytest.mark.parametrize(
    ("how", "code", "statement"),
    [
        (1, "RACE", "cores 4 and 5 both write element"),
        (3, "MULTICORE", "an element accessor in a library of several cores"),
        (4, "MULTICORE", "a stream in a library of several cores"),
        (5, "OUT_OF_BOUNDS", "tensor_to_tcm of elements 882 to 1008 of a tensor of 1003 elements"),
    ],
)
def test_operators_on_several_cores_must_not_write_the_same_data(how, code, statement):
    assert statement in str(refused(code, lambda: eight().run("shared", random(1003), how)))


def test_several_cores_may_not_return_a_new_tensor():
    error = refused("MULTICORE", lambda: eight().run("returned", random(8)))
    assert "it must write to get_dst_tensor()" in str(error)


def test_an_endless_loop_is_ended():
    refused("TIME_LIMIT", lambda: library().run("through_tcm", random(10), 6, seconds=0.2))


def test_a_kernel_must_return_the_shape_of_its_shape_function():
    assert "another shape" in str(
        refused("SHAPE_MISMATCH", lambda: library().other_shape(random(3)))
    )


def test_a_shape_function_cannot_read_data():
    error = refused("SHAPE_FUNCTION", lambda: library().reads_data(random(3)))
    assert "shapes.cpp:11" in str(error)


def test_shapes_are_not_broadcast_and_bit_operators_need_integers():
    a = random(3, 7)
    refused("SHAPE_MISMATCH", lambda: library().calculated(a, a, 22))
    refused("DTYPE_RULE", lambda: library().calculated(a, a, 23))
    for which in (18, 19, 20):
        refused("DTYPE_RULE", lambda which=which: library().calculated(a, a, which))


# --- findings that do not end the operator --------------------------------------------------------


def test_uninitialized_results_are_reported():
    call = library().run("through_tcm", random(10), 7)
    assert [told.code for told in call.findings] == ["OUTPUT_NOT_WRITTEN"]
    assert "2 of 10 elements" in str(call.findings[0])
    assert call.result.view(np.uint32)[-1] == 0xA5A5A5A5
    (told,) = eight().run("shared", random(1003), 2).findings
    assert "121 of 1,003 elements" in str(told)
    with pytest.warns(CustomOpWarning, match="OUTPUT_NOT_WRITTEN"):
        library().through_tcm(random(10), 7)


def test_a_buffer_that_is_not_freed_is_reported():
    (told,) = library().run("through_tcm", random(10), 9).findings
    assert told.code == "TCM_LEAK" and "40 bytes of TCM in 1 buffers" in str(told)


def test_a_policy_makes_incoherent_caches_a_warning_or_ignores_them():
    (told,) = library().run("by_stream", random(10), 4).findings
    assert told.code == "COHERENCE" and told.line
    assert library().run("by_stream", random(10), 5).findings == ()


def test_streams_and_buffers_share_16_kib():
    call = library().run("room", random(4))
    assert call.result.tolist() == [1, 0]
    assert call.counts[0].touches == 1 + 1  # the accessor's, and of a stream that found no room


# --- time -----------------------------------------------------------------------------------------


def test_the_published_model_of_three_forms():
    """3.59 ms of other work, and 196,608 elements accessed by elements, through TCM and on eight
    cores."""
    elements = 196608
    touched = customop.LibraryCall(
        None, "", (customop.library.Counts(int(2.5 * elements), 0, 0),), ()
    )
    copied = customop.LibraryCall(None, "", (customop.library.Counts(0, 2 * elements, 0),), ())
    eighth = customop.LibraryCall(None, "", (customop.library.Counts(0, elements // 4, 0),) * 8, ())
    passes = [1e6 / (3590 + call.microseconds) for call in (touched, copied, eighth)]
    assert passes == pytest.approx([8.10, 220.7, 269.9], rel=0.02)


# --- arguments, sources, libraries ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"scaled takes \(Tensor, double\), but got 0 arguments"),
        ((np.zeros((2, 2)), 1.0), "argument 0 must be an array of uint8 or .* not float64"),
        (([[1.0]], 1.0), "argument 0 must be an array of .* not list"),
        ((np.zeros((2, 2), np.float32), "x"), "argument 1 must be of type double, not str"),
        (
            (np.zeros((1,) * 9, np.float32), 1.0),
            "at most 8 axes of at most 65,535 elements, or at most 4 axes of at most 4,294,967,295",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        library().run("scaled", *arguments)


def test_an_operator_that_does_not_exist_is_refused():
    with pytest.raises(AttributeError, match="no operator 'none'; it has scaled, sums"):
        _ = library().none
    with pytest.raises(UsageError, match="no operator 'none'"):
        library().run("none")
    with pytest.raises(UsageError, match="order must be one of forward"):
        eight().run("shared", random(8), 0, order="sideways")


def test_limits_of_tensor_sizes():
    assert limits().allow((65535,) * 8) and limits().allow((1 << 31, 1, 1, 1))
    assert not limits().allow((65536, 1, 1, 1, 1)) and not limits().allow((1,) * 9)
    assert not limits().allow((1 << 32,))


def test_a_library_is_written_and_loaded_again(tmp_path):
    sources = [HERE / "several_cores.cpp"], [HERE / "several_cores_shapes.cpp"]
    customop.load(*sources, multicore=True, name="two", build_directory=tmp_path)
    again = customop.load_library(tmp_path / "libtwo.so")
    assert again.cores == 8 and list(again.operators) == ["shared", "returned"]
    assert np.array_equal(again.run("shared", random(64), 0).result, 2 * random(64))


def test_files_that_are_not_libraries_are_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no library"):
        customop.load_library(tmp_path / "libnone.so")
    (tmp_path / "libtext.so").write_text("#!/bin/sh\necho no\n")
    with pytest.raises(UsageError, match="not a library of custom operators"):
        customop.load_library(tmp_path / "libtext.so")
    os.chmod(tmp_path / "libtext.so", 0o755)
    with pytest.raises(UsageError, match="not a library of custom operators built by load"):
        customop.load_library(tmp_path / "libtext.so")


@pytest.fixture
def written(tmp_path):
    def write(kernel, registration, shape="torch::Tensor s(torch::Tensor x) { return x; }"):
        head = "#include <torch/torch.h>\n#include <torchneuron/register.h>\n"
        (tmp_path / "k.cpp").write_text("#include <torch/torch.h>\n" + kernel)
        (tmp_path / "s.cpp").write_text(f"{head}{shape}\n{registration}\n")
        flags = ["-O0"]  # optimization would only take time
        return customop.load([tmp_path / "k.cpp"], [tmp_path / "s.cpp"], extra_cflags=flags)

    return write


KERNEL = "torch::Tensor k(const torch::Tensor& x) { return x; }"


def test_invalid_libraries_are_refused(written):
    registered = 'NEURON_LIBRARY(l, m) { m.def("o", &s, "k"); }'
    with pytest.raises(UsageError, match=r"'o' is 'k', which k\.cpp does not define"):
        written("", registered)
    with pytest.raises(UsageError, match=r"s\.cpp registers no operator"):
        written(KERNEL, "")
    with pytest.raises(UsageError, match=r"(?s)do not compile.*no_such_name"):
        written("torch::Tensor k(const torch::Tensor& x) { return no_such_name; }", registered)
    with pytest.raises(
        UsageError, match=r"takes \(double\), and its shape function takes \(Tensor\)"
    ):
        written("torch::Tensor k(double x) { return torch::ones({1}, torch::kInt); }", registered)
    many = "".join(f'm.def("o{i}", &s, "k");' for i in range(11))
    with pytest.raises(UsageError, match="registers 11 functions; a library has at most 10"):
        written(KERNEL, f"NEURON_LIBRARY(l, m) {{ {many} }}")


def test_invalid_names_stack_sizes_and_sources_are_refused(tmp_path):
    none = [tmp_path / "none.cpp"]
    with pytest.raises(UsageError, match="cannot be named 'builtin'"):
        customop.load(none, none, name="builtin")
    with pytest.raises(UsageError, match="a stack has at most 400,000 bytes"):
        customop.load(none, none, extra_cflags=["-DSTACK_SIZE=400001"])
    with pytest.raises(UsageError, match=r"there is no source .*none\.cpp"):
        customop.load(none, none)


def test_without_a_compiler_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UsageError, match=r"install g\+\+ or clang .*neuroncore\[customop\]"):
        build.compiler(None)
    with pytest.raises(UsageError, match="no C\\+\\+ compiler called 'icc'"):
        build.compiler("icc")
    monkeypatch.setattr(build, "find_spec", lambda name: name)
    assert build.compiler(None)[1:] == ["-m", "ziglang", "c++"]
