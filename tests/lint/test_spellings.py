"""A mistake is reported in every form: through another name, a helper, a list, an attribute, a
default. `#!` marks the lines at which it may be reported."""

import pytest
from every import every, for_all

import neuroncore
from neuroncore.cli.explain import pages
from neuroncore.lint import static

HEAD = """import math
import operator
from decimal import Decimal
from functools import partial

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

jit = nki.jit
"""
KERNEL = """
@jit
def kernel(x, flag=True):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    {body}
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
MAIN = '\nif __name__ == "__main__":\n    {main}\n'
REGISTER = "r = nisa.register_alloc(2)"
CLEARING = "nisa.memset(dst=tile, value=0)"
HELD = "class Held(nl.NKIObject):\n    it: int = 0\n"
TILE = "nl.ndarray((128, 4), nl.float32, nl.sbuf)"

# (code, lines before the kernel, the kernel's lines, statements that the file runs)
MISTAKES = {
    "a set that a call makes": ("SET", "", "n = set((1, 2))  #!"),
    "truth of an element of a list": (
        "TENSOR_TRUTH",
        "",
        "tiles = [tile]\nif tiles[0]:  #!\n    pass",
    ),
    "truth of what is appended": (
        "TENSOR_TRUTH",
        "",
        "tiles = []\ntiles.append(tile)\nfor one in tiles:\n    if one:  #!\n        pass",
    ),
    "truth of an attribute": (
        "TENSOR_TRUTH",
        HELD,
        "held = Held()\nheld.it = tile\nif held.it:  #!\n    pass",
    ),
    "truth of an argument": (
        "TENSOR_TRUTH",
        "def chosen(one):\n    if one:  #!\n        pass\n",
        "chosen(tile)\nchosen(one=tile[:, 0:4])",
    ),
    "truth of a comparison": (
        *("DYNAMIC_CTRL", ""),
        "some = nl.less(tile, 0.0)\nif some[0:1, 0:1]:  #!\n    pass",
    ),
    "truth of a helper's comparison": (
        *("DYNAMIC_CTRL", "def some(one):\n    return nl.greater(one, 1.0)\n"),
        "if some(tile):  #!\n    pass",
    ),
    "a tensor that is negated": ("DYNAMIC_CTRL", "", "if not tile:  #!\n    pass"),
    "a while of a tensor": ("DYNAMIC_CTRL", "", "while tile:  #!\n    pass"),
    "truth in a chain": ("DYNAMIC_CTRL", "", "good = 0 < tile < 1  #!"),
    "the least of registers": ("DYNAMIC_CTRL", "", f"{REGISTER}\nless = min(r, 4)  #!"),
    "a range of a register": (
        "DYNAMIC_CTRL",
        "",
        f"{REGISTER}\nfor i in nl.affine_range(r):  #!\n    pass",
    ),
    "math of a tensor": ("DYNAMIC_CTRL", "", "root = math.sqrt(tile)  #!"),
    "a list by a register": ("DYNAMIC_CTRL", "", f"{REGISTER}\none = [tile, x][r]  #!"),
    "a list by an index": (
        "DYNAMIC_CTRL",
        "",
        "tiles = [tile, x]\nfor i in nl.dynamic_range(2):\n    one = tiles[i]  #!",
    ),
    "going through a tensor": ("TENSOR_LOOP", "", "for n, row in enumerate(tile):  #!\n    pass"),
    "a list of a tensor": ("TENSOR_LOOP", "", "rows = list(tile)  #!"),
    "identity by a function": ("IDENTITY", "", "same = operator.is_(flag, True)  #!"),
    "identity of names": ("IDENTITY_OF_OBJECTS", "", "same = x is tile  #!"),
    "a set of the file": ("SET", "SIZES = {64, 128}\n", "good = x.shape[0] in SIZES  #!"),
    "a wide integer of the file": ("VALUE_TYPE", "WIDE = 10**12\n", "less = WIDE // 10  #!"),
    "a decimal": ("VALUE_TYPE", "", 'half = Decimal("0.5")  #!'),
    "keys of a dictionary of the file": (
        "DICT_KEY",
        "SIZES = {128: 64}\n",
        "size = SIZES[128]  #!",
    ),
    "keys that are formats": ("DICT_KEY", "", "size = {nl.float32: 4}[x.dtype]  #!"),
    "unpacking into attributes": (
        "UNPACKING",
        HELD,
        "held = Held()\nheld.it, wide = x.shape  #!",
    ),
    "a class in a kernel": ("NOT_NKI_OBJECT", "", "class Inner:  #!\n    pass"),
    "a prefix by a name": ("PRINT_PREFIX", "", 'name = "a" + "b"\nnl.device_print(name, tile)  #!'),
    "a prefix by its parameter": (
        "PRINT_PREFIX",
        "",
        "nl.device_print(print_prefix='t%d' % 3, tensor=tile)  #!",
    ),
    "an attribute of a class": (
        "IMPURE_KERNEL",
        "class State(nl.NKIObject):\n    n: int = 0\n",
        "State.n = 1  #!",
    ),
    "an iterator of the file": (
        "IMPURE_KERNEL",
        "NUMBERS = iter((1, 2))\n",
        "n = next(NUMBERS)  #!",
    ),
    "a default that is changed": (
        "IMPURE_KERNEL",
        "def noted(one, seen=[]):\n    seen.append(one)  #!\n",
        "noted(1)",
    ),
    "what the file changes": (
        "IMPURE_KERNEL",
        'SCALE = {"it": 1.0}\n',
        'by = SCALE["it"]  #!',
        'SCALE["it"] = 2.0',
    ),
    "a loop in a helper in order": (
        "LOOP_IN_NO_REORDER",
        f"def looped(tile):\n    for i in nl.dynamic_range(2):\n        {CLEARING}\n",
        "with nl.no_reorder():\n    looped(tile)  #!",
    ),
    "a block by a name": (
        "LOOP_IN_NO_REORDER",
        "",
        "block = nl.no_reorder()\nwith block:\n    for i in nl.dynamic_range(2):  #!\n"
        f"        {CLEARING}",
    ),
    "a body next to the kernel": (
        "LOOP_BODY_RESULT",
        "def body(i):\n    return i  #!\n",
        "nl.fori_loop(0, 2, body)  #!",
    ),
    "a tensor as the condition": (
        "LOOP_BODY_RESULT",
        "",
        f"{REGISTER}\ndef body(r):\n    return tile  #!\nnl.while_loop(r, body)  #!",
    ),
    "a tensor kept in an attribute": (
        "LOOP_TENSOR_KEPT",
        HELD,
        f"held = Held()\ndef body(i):\n    held.it = {TILE}  #!\n"
        "nl.fori_loop(0, 2, body)\nlast = held.it",
    ),
    "a tensor kept in an argument": (
        "LOOP_TENSOR_KEPT",
        "def looped(kept):\n    def body(i):\n"
        f"        kept.append({TILE})  #!\n    nl.fori_loop(0, 2, body)\n",
        "kept = []\nlooped(kept)\nlast = kept[0]",
    ),
    "a tensor kept for a function": (
        "LOOP_TENSOR_KEPT",
        "",
        f"kept = []\ndef last():\n    return kept[0]\ndef body(i):\n    kept.append({TILE})  #!\n"
        "nl.fori_loop(0, 2, body)\nlast()",
    ),
    "a tensor kept for the next iteration of Python": (
        "LOOP_TENSOR_KEPT",
        "",
        "kept = []\nfor n in range(2):\n    first = kept[:1]\n    def body(i):\n"
        f"        kept.append({TILE})  #!\n    nl.fori_loop(0, 2, body)",
    ),
    "a tensor kept of a helper": (
        "LOOP_TENSOR_KEPT",
        f"def made():\n    return {TILE}\n",
        "kept = []\ndef body(i):\n    kept.append(made())  #!\n"
        "nl.fori_loop(0, 2, body)\nlast = kept[0]",
    ),
    "the index of a body": (
        "INDUCTION_WRITE",
        "",
        "def body(i):\n    i += 1  #!\nnl.fori_loop(0, 2, body)",
    ),
    "a step by a name": (
        "LOOP_STEP",
        "",
        f"down = -1\ndef body(i):\n    {CLEARING}\nnl.fori_loop(4, 0, body, down)  #!",
    ),
    "an order into a body": (
        "ORDER_INTO_A_LOOP",
        "",
        f"first = {CLEARING}\ndef body(i):\n    one = {CLEARING}\n    one.depends_on(first)  #!\n"
        "nl.fori_loop(0, 2, body)",
    ),
    "a while of a register": ("DEPRECATED", "", f"{REGISTER}\nwhile r:  #!\n    {CLEARING}"),
    "a constant that is deprecated": (
        "DEPRECATED",
        "",
        "size = nl.tile_size.total_available_sbuf_size  #!",
    ),
    "a list that is made": ("LIST_ARGUMENT", "", "pass", "kernel(1, list(range(2)))  #!"),
    "a list in a tuple": ("LIST_ARGUMENT", "", "pass", "kernel(1, ([1], 2))  #!"),
    "a list among options": (
        "LIST_ARGUMENT",
        "",
        "pass",
        'options = {"flag": [1]}; kernel(1, **options)  #!',
    ),
    "a mode of a call": (
        "JIT_MODE",
        "def plain(x):\n    pass\nother = nki.jit(plain, mode='jax')  #!\n",
        "pass",
    ),
    "a decorator by a name": (
        "KERNEL_IN_KERNEL",
        f"@jit  #!\ndef cleared(tile):\n    {CLEARING}\n",
        "cleared(tile)",
    ),
    "what is given to a partial": (
        "COMPREHENSION",
        "def made(n):\n    return [i for i in range(n)]  #!\nshort = partial(made, 2)\n",
        "short()",
    ),
    "a string of a call": (
        "STRING_BUFFER",
        "def made(where):\n    return nl.zeros((1, 2), nl.float32, where)  #!\n",
        "made('sbuf')",
    ),
    "a string of a branch": (
        "STRING_BUFFER",
        "",
        "nl.zeros((1, 2), nl.float32, 'psum' if flag else nl.sbuf)  #!",
    ),
    "a number by a name": (
        "ENUM_BY_A_NAME",
        "",
        "mode = 3\nnisa.dma_copy(dst=tile, src=x, dge_mode=mode)  #!",
    ),
    "an order by a name": (
        "ORDER_OF_ARGUMENTS",
        "",
        "by = [1.0, 1.0]\nnisa.dma_compute(tile, [x, tile], by, nl.add)  #!",
    ),
    "a memory by a name": (
        "RESULT_MEMORY",
        "",
        "where = nl.hbm\nmore = nl.ndarray((4, 4), nl.float32, where)  #!\nreturn more  #!",
        "kernel(1)",
    ),
    "truth of elements that are asked for": ("TENSOR_TRUTH", "", "good = all([tile, x])  #!"),
    "a tensor that is taken apart": ("TENSOR_LOOP", "", "one, two = tile  #!"),
    "a tensor as arguments": ("TENSOR_LOOP", "def many(*given):\n    pass\n", "many(*tile)  #!"),
    "what a dictionary is asked for": ("DICT_KEY", "", 'sizes = {"a": 1}\none = sizes.get(0)  #!'),
    "a wide number of numpy's": ("VALUE_TYPE", "", "one = np.int64(1)  #!"),
    "a wide product": ("VALUE_TYPE", "", "one = 65536 * 65536 * 2  #!"),
    "an attribute of a module": ("IMPURE_KERNEL", "", "math.scale = 2.0  #!"),
    "a class made of names": (
        "NOT_NKI_OBJECT",
        "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\n",
        "pair = Pair(1, 2)  #!",
    ),
    "a class of an object of the file": (
        "NOT_NKI_OBJECT",
        "class Plain:  #!\n    n = 1\nPLAIN = Plain()\n",
        "size = PLAIN.n",
    ),
    "a class of what a function makes": (
        "NOT_NKI_OBJECT",
        "class Plain:  #!\n    n = 1\ndef plain():\n    return Plain()\n",
        "pass",
        "kernel(1, (plain(), 2))",
    ),
    "an order by another name": (
        "ORDER_ACROSS_LOOPS",
        "",
        f"for i in nl.dynamic_range(2):\n    one = {CLEARING}\nother = one\n"
        f"{CLEARING}.depends_on(other)  #!",
    ),
    "results in a dictionary": ("RESULT_MEMORY", "", 'return {"one": tile}  #!', "kernel(1)"),
    "results in a list": (
        "RESULT_MEMORY",
        "",
        "results = [tile]\nreturn tuple(results)  #!",
        "kernel(1)",
    ),
    "a mask in a dictionary": (
        "PARAMETER_OF_RELEASE",
        "",
        'options = {"mask": None}  #!\nnisa.dma_copy(dst=tile, src=x, **options)',
    ),
    "a number of a branch": (
        "ENUM_BY_NUMBER",
        "",
        "nisa.dma_copy(dst=tile, src=x, dge_mode=2 if flag else nisa.dge_mode.none)  #!",
    ),
    "a name of all names": (
        "NAME_OF_RELEASE",
        "from nki.language import *\n",
        "size = par_dim(128)  #!",
    ),
    "a view of six axes": (
        "MANY_AXES",
        "",
        "nisa.memset(dst=tile.reshape((128, 2, 2, 2, 2, 32)), value=0)  #!",
    ),
    "a result of an instruction": (
        "MISSING_ARGUMENT",
        "",
        "sums = nl.zeros((128, 512), nl.float32, nl.psum)\nsums += nisa.nc_matmul(x, tile)  #!",
    ),
    "an argument of another name": (
        "MISSING_ARGUMENT",
        "apply = nisa.activation\n",
        "apply(dst=tile, data=tile)  #!",
    ),
    "an issue of another name": ("KNOWN_ISSUE", "div = nl.divide\n", "one = div(tile, tile)  #!"),
    "an issue of a helper": (
        "KNOWN_ISSUE",
        "def squared(one):\n    return nl.power(one, 2)  #!\n",
        "squared(tile)",
    ),
    "an issue of a part": ("KNOWN_ISSUE", "", "one = nl.add(tile, tile[:, 0:1])  #!"),
}
LEGAL = {
    "a list of several kinds": ("", "tiles = [tile, None]\nif tiles[1]:\n    pass"),
    "a list that is given away": ("", "tiles = [1]\ntiles.extend([tile])\nif tiles[0]:\n    pass"),
    "an attribute of a parameter": (HELD, "flag.it = tile\nif flag.it:\n    pass"),
    "an argument of several kinds": (
        "def chosen(one):\n    if one:\n        pass\n",
        "chosen(tile)\nchosen(None)",
    ),
    "an argument with a default": (
        "def chosen(one=None):\n    if one:\n        pass\n",
        "chosen(tile)\nchosen()",
    ),
    "a function that is handed on": (
        "def chosen(one):\n    if one:\n        pass\ndef by(what):\n    what(None)\n",
        "chosen(tile)\nby(chosen)",
    ),
    "a function of which arguments are given": (
        "def chosen(one, other):\n    if one:\n        pass\nfirst = partial(chosen, None)\n",
        "first(tile)",
    ),
    "ranges and lists of numbers": ("", "for n in range(min(flag, 4)):\n    one = [1, 2][n]"),
    "a name of a function": ("", "def less(it):\n    return 1\nfor n in range(less(1)):\n    pass"),
    "a tensor that only the body uses": (
        "",
        f"own = {{}}\ndef body(i):\n    own['it'] = {TILE}\n"
        "    nisa.memset(dst=own['it'], value=0)\nnl.fori_loop(0, 2, body)",
    ),
    "a body without a result": ("def body(i):\n    pass\n", "nl.fori_loop(0, 2, body, 2)"),
    "a register as the condition": (
        "",
        f"{REGISTER}\ndef of(r):\n    return r\nnl.while_loop(r, of)",
    ),
    "a constant of the file": ("SIZES = (64, 128)\n", "good = x.shape[0] in SIZES and SIZES[0]"),
    "a tile of the same size": ("", "one = nl.add(tile, tile[:, 0:512])"),
    "names of the API that are verbs": ("", "one = nl.add(tile, tile)"),
    "a dictionary that is asked": ("", 'sizes = {"a": 1}\none = sizes.get("b", 0)'),
    "arguments of a list": ("", "given = [tile, tile, tile]\nnisa.tensor_tensor(*given, nl.add)"),
    "arguments of a dictionary": (
        "",
        'given = {"dst": tile}\ngiven["data"] = tile\nnisa.activation(op=nl.exp, **given)',
    ),
    "arguments that are given before": (
        "cleared = partial(nisa.memset, value=0)\nagain = cleared\n",
        "cleared(tile)\nagain(tile)\nmine = partial(nisa.memset, value=0)\nmine(tile)",
    ),
    "a range with one number": ("", "for i in nl.sequential_range(2):\n    pass"),
    "five axes": ("", "nisa.memset(dst=tile.reshape((128, 2, 2, 2, 64)), value=0)"),
    "a default that is read": ("def noted(one, seen=[]):\n    return one in seen\n", "noted(1)"),
    "a default that is replaced": (
        "def noted(one, seen=[]):\n    seen = []\n    seen.append(one)\n",
        "noted(1)",
    ),
}


def findings_of(tmp_path, before, body, main="pass"):
    path = tmp_path / "mine.py"
    lines = body.replace("\n", "\n    ")
    path.write_text(HEAD + before + KERNEL.format(body=lines) + MAIN.format(main=main), "utf-8")
    return neuroncore.check(path, static=True, api="0.6").findings, path.read_text("utf-8")


@pytest.fixture
def fired(monkeypatch):
    """The rules that have reported a finding."""
    found = set()

    def noted(rule):
        def tell(spot):
            reported = list(rule(spot))
            if reported:
                found.add(rule)
            return reported

        return tell

    rules = {kind: [noted(rule) for rule in some] for kind, some in static.RULES.items()}
    monkeypatch.setattr(static, "RULES", rules)
    return found


def test_every_mistake_is_reported_and_every_rule_reports_one(fired, tmp_path):
    def is_reported(name):
        code, *parts = MISTAKES[name]
        findings, text = findings_of(tmp_path, *parts)
        marked = {number for number, line in enumerate(text.splitlines(), 1) if line[-2:] == "#!"}
        assert marked & {one.place.line for one in findings if one.code == code}

    every(MISTAKES, is_reported)
    path = tmp_path / "example.py"
    for page in pages().values():
        path.write_text(page.bad, "utf-8")
        neuroncore.check(path, static=True)
    rules = {rule for room in static.KINDS for some in room.of.values() for rule in some}
    silent = sorted(rule.__name__ for rule in rules - fired)
    assert not silent, f"no example of codes/source.toml and none of MISTAKES breaks {silent}"


@for_all("name", LEGAL)
def test_legal_kernels_have_no_finding(name, tmp_path):
    findings, _ = findings_of(tmp_path, *LEGAL[name])
    reported = [one for one in findings if one.severity != "advice"]
    # one of the legal kernels defines a function, which is a note
    assert not [str(one) for one in reported if one.code != "INNER_FUNCTION"]


def test_a_form_of_an_older_release_identifies_the_release_of_a_file(tmp_path):
    text = HEAD + KERNEL.format(body="nisa.dma_copy(dst=tile, src=x, dge_mode=2)")
    path = tmp_path / "mine.py"
    path.write_text(text, "utf-8")
    checked = neuroncore.check(path, static=True)
    assert checked.api == "0.2"
    assert [(one.code, one.severity) for one in checked.findings] == [("ENUM_BY_NUMBER", "warning")]
    path.write_text(text.replace("out =", "nl.fori_loop(0, 2, np.abs)\n    out ="), "utf-8")
    checked = neuroncore.check(path, static=True)
    assert checked.api == "0.6"
    assert [(one.code, one.severity) for one in checked.findings] == [("ENUM_BY_NUMBER", "error")]
