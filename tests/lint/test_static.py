"""Findings from the source, and code without a finding: code of the host, names that hide others,
and values whose type the source does not show."""

import importlib
from pathlib import Path

import pytest

import neuroncore
from neuroncore.base.errors import UsageError
from neuroncore.checks.check import check

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
"""
KERNEL = """
@nki.jit
def kernel(x, flag=None):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
{body}
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def found(tmp_path, text, **options):
    """Return (code, line of the file) of all findings except notes."""
    path = tmp_path / "mine.py"
    path.write_text(text, "utf-8")
    lines = text.splitlines()
    checked = neuroncore.check(path, static=True, **options)
    return {(one.code, lines[one.place.line - 1].strip()) for one in _grave(checked)}


def _grave(checked):
    return [one for one in checked.findings if one.severity in ("error", "warning")]


def kernel(*lines):
    return HEAD + KERNEL.format(body="\n".join(f"    {line}" for line in lines))


LEGAL = {
    "an argument": ["if flag:", "    nisa.memset(dst=tile, value=0)"],
    "a shape": ["if tile.shape[0] > 64 and not flag:", "    pass"],
    "None": ["if flag is None or flag is not None:", "    pass"],
    "one of several values": ["other = flag", "other = tile", "if other:", "    pass"],
    "a while of a register": [
        "left = nisa.register_alloc(2)",
        "while left:",
        "    nisa.register_move(left, nisa.register_alloc(0))",
    ],
    "a break of a loop of Python's": [
        "for i in nl.dynamic_range(2):",
        "    for j in range(2):",
        "        break",
    ],
    "a separate list": ["kept = []", "kept.append(tile)"],
    "a tensor in HBM": [
        "there = nl.ndarray((4, 4), nl.float32, buffer=nl.hbm)",
        "if there:",
        "    pass",
    ],
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_code_has_no_finding(name, tmp_path):
    assert not found(tmp_path, kernel(*LEGAL[name]))


def test_code_of_the_host_has_no_finding(tmp_path):
    host = """
class Plain:
    pass


def rounded(values, *, digits=[2]):
    return np.float64(kernel(values))


def kernel_of_nothing(rounded):
    return {n: n for n in (1, 2)} if rounded is True else Plain()
"""
    assert not found(tmp_path, kernel("rounded = 1") + host)


def test_functions_that_a_kernel_calls_are_read_in_their_files_and_not_executed(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/__init__.py").write_text("from .inner import helper\nraise SystemExit\n")
    (tmp_path / "lib/inner.py").write_text("def helper(flag):\n    return flag is True\n")
    text = "from lib import helper\n" + kernel("helper(flag)")
    path = tmp_path / "mine.py"
    path.write_text(text, "utf-8")
    checked = neuroncore.check(path, static=True)
    assert [one.code for one in checked.findings] == ["IDENTITY"]
    assert checked.findings[0].place.file == str(tmp_path / "lib/inner.py")
    assert checked.files == [str(path), str(tmp_path / "lib/inner.py")]


def test_a_helper_s_result_is_known(tmp_path):
    text = (
        kernel("if made():", "    pass")
        + "\ndef made():\n    return nl.full((1, 1), 1, nl.float32)\n"
    )
    assert found(tmp_path, text) == {("TENSOR_TRUTH", "if made():")}


def test_a_release_that_warns_of_a_kernel_fits_better_than_one_that_lacks_its_forms(tmp_path):
    kept = "left = nisa.iota(tile, [[1, 512]])"  # 0.2 has no default of `offset`
    path = tmp_path / "mine.py"
    text = kernel(kept).replace("@nki.jit", '@nki.jit(mode="auto")')
    path.write_text(text, "utf-8")
    checked = neuroncore.check(path, static=True)
    assert checked.api == "0.6"
    assert [one.code for one in _grave(checked)] == ["JIT_MODE"]
    assert ("MISSING_ARGUMENT", kept) in found(tmp_path, text, api="0.2")
    path.write_text(text.replace(kept, "pass"), "utf-8")
    assert neuroncore.check(path, static=True).api == "0.2"


def test_a_kernel_is_compared_with_the_release_that_it_fits(tmp_path):
    older = kernel("nisa.dma_compute(tile, [x, tile], [1.0, 1.0], nl.add)")
    path = tmp_path / "mine.py"
    path.write_text(older, "utf-8")
    checked = neuroncore.check(path, static=True)
    assert checked.api == "0.2"
    assert [(one.code, one.severity) for one in checked.findings] == [
        ("ORDER_OF_ARGUMENTS", "warning")
    ]
    assert not neuroncore.check(path, static=True, api="0.2").findings
    (finding,) = neuroncore.check(path, static=True, api="0.3").findings
    assert finding.severity == "error"


def test_a_rule_applies_in_its_releases(tmp_path):
    text = kernel("if flag is True:", "    pass")
    assert found(tmp_path, text, api="0.3") == {("IDENTITY", "if flag is True:")}
    assert not found(tmp_path, text, api="0.2")


def test_a_function_of_the_older_api_is_compared_with_the_older_api(tmp_path):
    older = """
import neuronxcc.nki as older
import neuronxcc.nki.language as ol


@older.jit
def second(x):
    out = ol.ndarray((4, 4), dtype=x.dtype, buffer=ol.shared_hbm)
    ol.store(out, ol.load(x, mask=None))
    return out
"""
    assert not found(tmp_path, kernel() + older)


def test_known_issues_belong_to_a_release(tmp_path):
    text = kernel("total = nl.copy(nl.matmul(tile, tile, transpose_x=True))")
    assert ("KNOWN_ISSUE", text.splitlines()[9].strip()) in found(tmp_path, text, api="0.4")
    assert not found(tmp_path, text, api="0.6")


def test_a_missing_kernel_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match=r"has no kernal; did you mean 'kernel'\?"):
        found(tmp_path, kernel(), kernel="kernal")
    assert not found(tmp_path, kernel() + "\nother = nki.jit(kernel)\n", kernel="other")


def test_strings_are_reported_through_names_and_numbers_are_not(tmp_path):
    given = "nisa.dma_copy(dst=tile, src=x, dge_mode=NONE)"
    text = "NONE = 3\n" + kernel("where = 'sbuf'", "nl.zeros((1, 2), x.dtype, where)", given)
    expected = {("STRING_BUFFER", "nl.zeros((1, 2), x.dtype, where)")}
    assert found(tmp_path, text, api="0.3") == expected
    assert not found(tmp_path, text.replace("'sbuf'", "nl.sbuf"), api="0.3")


def test_file_access_is_reported_but_not_functions_of_the_same_name(tmp_path):
    text = kernel("held = open(flag)")
    assert [one for one, _ in found(tmp_path, text)] == ["IMPURE_KERNEL"]
    assert not found(tmp_path, "def open(name):\n    return name\n" + text)


@pytest.mark.parametrize("name", ["set", "frozenset", "complex", "bytes", "bytearray"])
def test_values_of_python_are_reported_but_not_functions_of_the_same_name(tmp_path, name):
    path, text = tmp_path / "mine.py", kernel(f"{name}(1)")
    path.write_text(text, "utf-8")
    (finding,) = neuroncore.check(path, static=True).findings
    assert finding.code == ("SET" if "set" in name else "VALUE_TYPE")
    path.write_text(f"def {name}(one):\n    return 1\n{text}", "utf-8")
    assert not neuroncore.check(path, static=True).findings


def test_results_of_nki_language_are_on_the_chip(tmp_path):
    text = kernel("more = nl.exp(tile)").replace("return out", "return out, more")
    text += "\nkernel(np.ones((128, 512), np.float32))\n"
    assert found(tmp_path, text, api="0.6") == {("RESULT_MEMORY", "return out, more")}
    assert not found(tmp_path, text.replace("(tile)", "(tile, buffer=flag)"), api="0.6")


def test_a_slice_of_a_list_is_a_list(tmp_path):
    halves = """
def last(tiles):
    for one in tiles:
        nisa.memset(dst=one, value=0)

"""
    body = ["tiles = []", "for n in range(2):", "    tiles.append(tile)", "last(tiles[0:1])"]
    path = tmp_path / "mine.py"
    path.write_text(HEAD + halves + KERNEL.format(body="\n".join(f"    {one}" for one in body)))
    assert "TENSOR_LOOP" not in {one.code for one in neuroncore.check(path, static=True).findings}


CHAPTERS = sorted((Path(__file__).parents[2] / "kernels").glob("ch*.py"))


@pytest.mark.source
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_chapters_have_no_findings(chapter):
    assert not neuroncore.check(chapter, static=True).findings


MISSPELT = """
import {api} as nki
import {api}.isa as nisa
import {api}.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nisa.ativation(nl.exp, nl.load(x))
    nl.store(out, tile)
    return out
"""


@pytest.mark.parametrize("api", ["nki", "neuronxcc.nki"])
def test_a_misspelled_instruction_is_reported_in_both_apis(tmp_path, api):
    file = tmp_path / "k.py"
    file.write_text(MISSPELT.format(api=api))
    (found,) = check(str(file), None, static=True).findings
    assert found.code == "UNKNOWN_NAME" and found.place.line == 9
    assert "`nisa.ativation`; did you mean `activation`?" in str(found)


@pytest.mark.parametrize("api", ["nki", "neuronxcc.nki"])
def test_no_name_of_neuroncore_is_reported_as_unknown(tmp_path, api):
    names = [f"{home}.{name}" for home in ("isa", "language")
             for name in dir(importlib.import_module(f"{api}.{home}"))
             if not name.startswith("_")]  # fmt: skip
    lines = "".join(f"    nki.{name}\n" for name in names)
    file = tmp_path / "k.py"
    file.write_text(f"import {api} as nki\n\n@nki.jit\ndef kernel(x):\n{lines}    return x\n")
    found = check(str(file), None, static=True).findings
    assert len(names) > 100 and not [str(one) for one in found if one.code == "UNKNOWN_NAME"]


def test_a_kernel_that_a_factory_defines_is_not_inside_a_kernel(tmp_path):
    text = """
import nki, nki.language as nl

def build(scale):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out
    return nki.jit(kernel)
"""
    file = tmp_path / "k.py"
    file.write_text(text)
    assert check(str(file), None, static=True).findings == []


def test_only_the_kernel_of_a_factory_is_checked(tmp_path):
    text = """
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

rng = np.random.default_rng(0)

def build(names):
    if not names:
        raise ValueError("no names")
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        scale = rng.random()
        return out
    return kernel(rng.random((4, 4)))
"""
    file = tmp_path / "k.py"
    file.write_text(text)
    (found,) = check(str(file), None, static=True).findings
    assert found.code == "IMPURE_KERNEL" and found.place.line == 14


FACTORY = """
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

def noise(x):
    return np.random.rand(3)

def other():
    return np.random.rand(3)

def build(noise):
    expected = other()
    def on_host(x):
        return np.random.rand(3)
    def copied(out, x):
        nisa.dma_copy(dst=out, sorce=x)
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        noise(x)
        copied(out, x)
        return out
    @nki.jit
    def only_language(x):
        scale = np.random.rand(3)
        return nl.load(x)
    return kernel
"""


def test_the_functions_and_names_of_a_factory_belong_to_its_kernels(tmp_path):
    """The kernel calls `copied`, and the parameter `noise`, not the function of this name."""
    file = tmp_path / "k.py"
    file.write_text(FACTORY)
    found = check(str(file), None, static=True).findings
    assert sorted((f.code, f.place.line) for f in found) == [
        ("IMPURE_KERNEL", 25),
        ("MISSING_ARGUMENT", 16),
    ]
