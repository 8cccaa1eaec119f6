"""Execution of compiled programs: the outputs agree with numpy, and a program with something
unknown is refused."""

import random
from collections import Counter

import captures
import ml_dtypes
import numpy as np
import pytest
from captures import Compiled, archive, move, word

from neuroncore.base.errors import UsageError
from neuroncore.capture import encoding, execution, neff
from neuroncore.clause import product

FP32, BF16 = 10, 6
LINE = 1 << 18  # bytes from a partition of SBUF to the next, for DMA
X, W, Y = 0x0, 0x4000, 0x8000  # addresses of inputs and output in SBUF
PSUM = 0x2000000


def lines(address, columns, reverse=False):
    """An operand of three axes: adjacent columns."""
    return ("I3h3H", address, -1 if reverse else 1, 0, 0, columns, 1, 1)


def four(address, *sizes, steps=(1, 1, 1, 1)):
    return ("I4h4H", address, *steps, *sizes, *[1] * (4 - len(sizes)))


def triggered(block, wait=None):
    return word(0xC1, wait=wait, at={12: ("16s", b"qSPIO0"), 48: ("I", block)})


def program(instructions, x, w=None, y=None, engine="Vector"):
    """A program of one engine: it loads x and w, executes the instructions, and stores y, whose
    shape and type are arguments."""
    w, y = x if w is None else w, x if y is None else y
    core = Compiled()
    core.queue("qSPIO0", "sp", 8)
    core.variable("SB", 0, "state-buffer")
    ends = {"x": (x, X, "input"), "w": (w, W, "input"), "y": (y, Y, "output")}
    told = {name: (name, array.dtype.name, array.shape) for name, (array, *_) in ends.items()}
    blocks = []
    for number, (name, (array, address, kind)) in enumerate(ends.items()):
        core.variable(name, number + 1, kind, array.nbytes, array.dtype.name, array.shape)
        sizes = [array.nbytes // len(array), len(array)]
        pair = (name, 0, sizes, [1, sizes[0]]), ("SB", address, sizes, [1, LINE])
        parts = [move(*(pair if kind == "input" else pair[::-1]), array.dtype.name)]
        blocks.append({"id": number, "queue": "qSPIO0", "semaphore": 8 + number, "desc": parts})
    core.blocks[engine] = blocks
    loads = [triggered(0), triggered(1), word(0xA0, wait=(5, 8, 16)), word(0xA0, wait=(5, 9, 16))]
    code = [*loads, *instructions, triggered(2)]
    core.code[engine] = [(each, f"I-{n}", n) for n, each in enumerate(code)]
    return neff.read(captures.neff(archive(core, inputs=[told["x"], told["w"]],
                                           outputs=[told["y"]])))  # fmt: skip


def ran(instructions, x, w=None, y=None):
    given = {"x": x, "w": x if w is None else w}
    return execution.execute(program(instructions, x, w, y), given)["y"]


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_load_a_copy_and_a_store():
    x = normal(128, 64)
    found = execution.execute(neff.read(captures.neff(captures._copying())), {"x": x})
    assert np.array_equal(found["y"], x)


ADD = word(0x41, at={12: ("4B", 0xAA, 10, 4, 128), 16: lines(X, 64), 32: lines(W, 64),
                     48: lines(Y, 64)})  # fmt: skip
SCALE = {16: lines(X, 64), 32: ("6B", 10, 10, 128, 1, 6, 0), 40: ("I", W + 4), 48: lines(Y, 64)}
SHIFT = {16: lines(X, 64), 32: ("6B", 10, 10, 128, 2, 6, 4), 40: ("f", 3.0), 44: ("I", W),
         48: lines(Y, 64)}  # fmt: skip
EXP = {16: lines(X, 64), 32: ("4B", 0xAA, 10, 128, 7), 36: ("f", 0.5), 40: ("I", W + 8),
       48: lines(Y, 64)}  # fmt: skip
MEANINGS = {
    "the sum of two tensors": (ADD, lambda x, w: x + w),
    "a product with a number of each partition": (word(0x43, at=SCALE), lambda x, w: x * w[:, 1:2]),
    "two operators": (word(0x43, at=SHIFT), lambda x, w: x * np.float32(3) + w[:, :1]),
    "an exponential": (word(0x21, at=EXP), lambda x, w: np.exp(x / 2 + w[:, 2:3])),
    "a reciprocal": (
        word(0x48, at={12: four(X, 64), 32: ("3B", 10, 10, 128), 44: four(Y, 64)}),
        lambda x, w: 1 / x,
    ),
    "a copy as it is, of columns 2 apart": (
        word(0x46, at={12: four(X, 32, 2, steps=(2, 1, 1, 1)), 32: ("3B", 8, 8, 128),
                       44: four(Y, 64)}),
        lambda x, w: np.hstack([x[:, ::2], x[:, 1::2]]),
    ),
    "zeros": (
        word(0x49, at={28: ("H", 64), 32: ("B", 10), 34: ("B", 128), 44: four(Y, 64)}),
        lambda x, w: np.zeros_like(x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", MEANINGS)
def test_instructions_agree_with_numpy(said):
    instruction, expected = MEANINGS[said]
    x, w = normal(128, 64), normal(128, 64, seed=2)
    assert np.allclose(ran([instruction], x, w), expected(x, w), rtol=1e-6)


def test_reductions_fold_the_innermost_axes():
    x = normal(128, 64)
    for dim, sizes, expected in ((2, (8, 8), x.reshape(128, 8, 8).max(2)),
                                 (3, (4, 2, 8), x.reshape(128, 8, 8).max(2))):  # fmt: skip
        steps = (1, 8, 1, 1) if dim == 2 else (1, 4, 8, 1)
        maximum = {12: four(X, *sizes, steps=steps), 32: ("6B", 10, 10, 128, 1, 8, dim),
                   44: four(Y, 8)}  # fmt: skip
        assert np.array_equal(ran([word(0x42, at=maximum)], x, y=x[:, :8]), -expected)


def test_casts_round():
    x = normal(128, 64)
    cast = {12: four(X, 64), 32: ("3B", FP32, BF16, 128), 44: four(Y, 64)}
    found = ran([word(0x47, at=cast)], x, y=x.astype(ml_dtypes.bfloat16))
    assert np.array_equal(found, x.astype(ml_dtypes.bfloat16))


def product_of(form, rows, columns, mode=(0, 0), transpose=0, flags=3, moved=64):
    """Load weights from x and multiply w by them. The columns of the weights are read from the last
    to the first."""
    last = X + (columns - 1) * {FP32: 4}.get(form, 2)
    return [
        word(0x01, at={16: lines(last, columns, reverse=True), 32: ("3B", form, mode[0], transpose),
                       38: ("BB", rows, columns)}),
        word(0x02, at={16: lines(W, moved), 32: ("3B", form, mode[1], transpose),
                       38: ("BB", rows, columns), 43: ("B", flags), 48: lines(PSUM, moved)}),
    ]  # fmt: skip


def read_out(form, columns=64, rows=128):
    return word(0x46, at={12: four(PSUM, columns), 32: ("3B", form, form, rows),
                          44: four(Y, columns)})  # fmt: skip


LOW, HIGH, BOTH = 1, 2, 3


def test_float32_products_are_sums_of_products_of_halves():
    x, w = normal(128, 128), normal(128, 64, seed=2)
    halves = [*product_of(FP32, 128, 128, (LOW, BOTH), flags=1),
              *product_of(FP32, 128, 128, (HIGH, BOTH), flags=2)]  # fmt: skip
    expected = np.empty((128, 64), np.float32)
    product.four_pass(product.chain, x, w, expected, False)
    found = ran([*halves, read_out(FP32)], x, w, w)
    assert np.array_equal(found, expected) and np.allclose(found, x.T @ w, atol=1e-4)


def test_the_moving_operand_may_have_only_its_upper_half():
    x, w = normal(128, 128), np.rint(4 * normal(128, 64, seed=2))
    halves = [*product_of(FP32, 128, 128, (LOW, HIGH), flags=1),
              *product_of(FP32, 128, 128, (HIGH, HIGH), flags=2)]  # fmt: skip
    assert np.allclose(ran([*halves, read_out(FP32)], x, w, w), x.T @ w, atol=1e-4)


def test_products_add_to_psum_unless_they_are_the_first():
    x = normal(128, 128).astype(ml_dtypes.bfloat16)
    w = normal(128, 64, seed=2).astype(ml_dtypes.bfloat16)
    y = w.astype(np.float32)
    twice = [*product_of(BF16, 128, 128, flags=1), *product_of(BF16, 128, 128, flags=2)]
    found = ran([*twice, read_out(FP32)], x, w, y)
    assert np.allclose(found, 2 * x.astype(np.float32).T @ y, atol=1e-4)


def test_transposes_do_not_change_numbers():
    x = normal(128, 128).astype(ml_dtypes.bfloat16)
    x[3, 5], x[4, 6] = np.inf, np.nan
    identity = np.eye(128, dtype=np.float32).astype(ml_dtypes.bfloat16)
    turned = product_of(BF16, 128, 128, transpose=1, moved=128)
    found = ran([*turned, read_out(BF16, 128)], x, identity, x)
    assert np.array_equal(found.view(np.uint16), x.T.view(np.uint16))
    with pytest.raises(UsageError, match="does not select exactly one row"):
        ran([*turned, read_out(BF16, 128)], x, x, x)


def test_uninitialized_memory_reads_as_nan():
    x = normal(128, 64)
    assert np.isnan(ran([], x)).all()


def test_instructions_can_describe_transfers():
    """One transfer reads HBM at a number; one writes HBM through the table of variables, with a
    cast."""
    ends = {0: ("Q", 1 << 60 | 1 << 32), 8: ("2i2HH", 256, 1, 128, 1, 256)}
    into = {24: ("Q", 1 << 60 | 0x100), 32: ("2i2HH", LINE, 1, 128, 1, 256)}
    out = {0: ("Q", 1 << 60 | 0x100), 8: ("2i2HH", LINE, 1, 128, 1, 256)}
    back = {24: ("Q", 1 << 61), 32: ("2i2HH", 128, 1, 128, 1, 128)}
    core = Compiled()
    core.variable("SB", 0, "state-buffer")
    core.variable("x", 1, "input", 128 * 256)
    core.variable("y", 2, "output", 128 * 128)
    core.variable("table", 3, "dge-table", list=[2])
    direct = [
        word(0xD4, wait, at={13: ("BH", 8 + n, 16), 62: ("BB", FP32, form),
                             **{16 + at: said for at, said in (one | other).items()}})
        for n, (one, other, wait, form) in enumerate(
            ((ends, into, None, FP32), (out, back, (5, 8, 16), BF16)))
    ]  # fmt: skip
    core.code["GpSimd"] = [(each, "", n) for n, each in enumerate(direct)]
    made = archive(core, inputs=[("x", "float32", (128, 64))],
                   outputs=[("y", "bfloat16", (128, 64))])  # fmt: skip
    x = normal(128, 64)
    found = execution.execute(neff.read(captures.neff(made)), {"x": x})["y"]
    assert np.array_equal(found, x.astype(ml_dtypes.bfloat16))


def test_engines_wait_for_each_other():
    """Scalar adds a tile that Vector sets, although Scalar comes first in the program."""
    x = normal(128, 64)
    zeros = word(0x49, update=(0x13, 6), at={28: ("H", 64), 32: ("B", 10), 34: ("B", 128),
                                             44: four(W, 64)})  # fmt: skip
    made = program([word(0xA0, wait=(5, 6, 1)), ADD], x, engine="Scalar")
    graph = made.graphs[0]
    other = np.frombuffer(zeros, np.uint8).reshape(1, 64)
    graph.code[3] = neff.Code(other, [""], [-1], [False])
    assert np.array_equal(execution.execute(made, {"x": x, "w": x})["y"], x)


def test_a_program_that_waits_forever_is_refused_in_one_sentence():
    x = normal(128, 64)
    sentence = (
        r"Vector instruction 4 EVENT_SEMAPHORE \(I-4\) waits for semaphore 6 \(Vector\) >= 1, "
        r"but its value is 0; number of other engines that wait: 0"
    )
    with pytest.raises(UsageError, match=sentence):
        ran([word(0xA0, wait=(5, 6, 1))], x)


UNKNOWN = {
    "2 0x77 (unknown opcode)": [word(0x77)] * 2,
    "1 WRITE (unknown effect)": [word(0xA5)],
    "1 COPY (unknown format13)": [
        word(0x46, at={12: four(X, 64), 32: ("3B", 13, 10, 128), 44: four(Y, 64)})
    ],
    "1 TENSOR_TENSOR (unknown op 0x9)": [ADD[:14] + b"\x09" + ADD[15:]],
    "1 ACTIVATE (unknown function 0x33)": [
        word(0x21, at={**EXP, 35: ("B", 0x33)}),
    ],
    "1 NOP (unknown condition E-)": [word(0xA4, wait=(7, 3, 1))],
    "1 TENSOR_TENSOR (a setting that no published program has)": [ADD[:3] + b"\x01" + ADD[4:]],
}


@pytest.mark.parametrize("said", UNKNOWN)
def test_unknown_instructions_are_counted_by_opcode(said):
    x = normal(128, 64)
    with pytest.raises(UsageError) as refused:
        ran(UNKNOWN[said], x)
    assert str(refused.value) == f"the program can't be executed: {said}"


def test_unknown_operations_of_static_blocks_are_counted():
    made = program([ADD], normal(128, 64))
    for move_of_y in made.graphs[0].blocks[3][2].moves:
        object.__setattr__(move_of_y, "operation", "transpose")
    with pytest.raises(UsageError, match=r"1 static DMA block \(unknown operation transpose\)"):
        execution.execute(made, execution.drawn(made, 0))


def test_operands_that_leave_a_partition_are_refused():
    wide = word(0x46, at={12: four(LINE - 4, 64), 32: ("3B", 10, 10, 128), 44: four(Y, 64)})
    with pytest.raises(
        UsageError, match=r"Vector instruction 4 COPY .* reaches beyond its partitions"
    ):
        ran([wide], normal(128, 64))


def test_inputs_have_the_names_and_shapes_of_the_program():
    x = normal(128, 64)
    made = program([ADD], x)
    for given, said in (
        ({"x": x}, "input w is missing"),
        ({"x": x, "w": x, "z": x}, "no input z"),
        ({"x": x, "w": x[:64]}, r"has the shape \(64, 64\)"),
        ({"x": x, "w": np.full((128, 64), "a")}, "expected float32"),
    ):
        with pytest.raises(UsageError, match=said):
            execution.execute(made, given)
    wide = {"x": x.astype(np.float64), "w": np.ones((128, 64), np.int8)}
    assert np.array_equal(execution.execute(made, wide)["y"], x + 1)


def test_inputs_of_other_formats_may_be_bytes():
    x = normal(128, 64).astype(ml_dtypes.bfloat16)
    copy = word(0x46, at={12: four(X, 64), 32: ("3B", BF16, BF16, 128), 44: four(Y, 64)})
    raw = x.view("V2")
    found = execution.execute(program([copy], x), {"x": raw, "w": x.astype(np.float32)})["y"]
    assert np.array_equal(found, x)


def test_random_inputs_depend_only_on_the_seed():
    made = program([ADD], normal(128, 64))
    one, same, other = (execution.drawn(made, seed) for seed in (3, 3, 4))
    assert np.array_equal(one["w"], same["w"]) and not np.array_equal(one["w"], other["w"])


def test_damaged_programs_are_executed_or_refused():
    whole, dice, outcomes = captures._copying(), random.Random(7), Counter()
    x = normal(128, 64)
    for _ in range(200):
        name = dice.choice(sorted(name for name in whole if whole[name]))
        data = {**whole, name: captures.mutated(whole[name], dice)}
        try:
            execution.execute(neff.read(captures.neff(data)), {"x": x})
            outcomes["executed"] += 1
        except (UsageError, neff.Malformed) as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 3


def test_all_instructions_of_published_programs_have_an_effect():
    undone = {"DMA_DIRECT2D", "WRITE", "NOTIFY", "COMPARE_BRANCH", "TENSOR_LOAD",
              "EVENT_SEMAPHORE_RANGE_CLEAR"}  # fmt: skip
    assert {name for name in encoding.opcodes().values() if not encoding.does(name)} == undone


# --- published programs ---------------------------------------------------------------------------

COURSE = "deepashreeKedia+cs149stanfordasst4"
PART1, PART2 = (
    "adfc56cd2f5489bf8d1afa3be123f844bc44ad6c",
    "889395716ad549e62aca79dd0e7e9aa36a72f566",
)


def executed(data, seed=0):
    """Return the inputs in float64, the output of a program, and the format of the output."""
    made = neff.read(data)
    inputs = execution.drawn(made, seed)
    (output,) = execution.execute(made, inputs).values()
    return [one.astype(np.float64) for one in inputs.values()], output.astype(np.float64)


@pytest.mark.parametrize("folder", captures.ATTENTION)
def test_published_attention_agrees_with_numpy(folder):
    (q, k, v), found = executed(captures.attention(folder, "neff"))
    scores = q.T @ k
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v.T
    # exp takes scores of up to 50, whose float32 sums are 1e-5 off
    assert np.abs(found - expected).max() < (3e-2 if "bf16" in folder else 2e-4)


@pytest.mark.parametrize("name", ["stream_256k_fd1k", "stream_256k_fd2k"])
def test_published_vector_additions_are_exact(name):
    (a, b), found = executed(captures.published(COURSE, PART1, f"part1/{name}.neff"))
    assert np.array_equal(found, (a + b).astype(np.float32))


def test_a_published_transpose_is_exact():
    (a,), found = executed(captures.published(COURSE, PART1, "part1/transpose_1024.neff"))
    assert np.array_equal(found, a.T)


@pytest.mark.parametrize("form", ["float16", "float32"])
@pytest.mark.parametrize("pooled", ["", "pool_"])
def test_published_convolutions_agree_with_numpy(form, pooled):
    name = f"part2/part2_conv_{pooled}{form}_smaller.neff"
    (x, w, bias), found = executed(captures.published(COURSE, PART2, name))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    expected = np.einsum("bchwij,ocij->bohw", windows, w, optimize=True)
    expected += bias[:, None, None]
    if pooled:
        b, c, rows, columns = expected.shape
        expected = expected.reshape(b, c, rows // 2, 2, columns // 2, 2).max((3, 5))
    share = 1e-3 if form == "float16" else 1e-6
    assert np.abs(found - expected).max() < share * np.abs(expected).max()
