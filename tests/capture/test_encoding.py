"""Decoding the 64 bytes of an instruction."""

import re
import struct
import tomllib

import captures
import pytest
from captures import word

from neuroncore.base.errors import DefinitionError
from neuroncore.capture import encoding, trace
from neuroncore.capture.encoding import Condition, decoded
from neuroncore.machine import isa

# The fields in the bytes, and the line that the profiler prints.
PRINTED = {
    "MATMUL": (
        word(
            0x02,
            update=(0x13, 5),
            at={
                16: ("I3h3H", 0x36FF8, 1, 0, 0, 512, 1, 1),
                32: ("B", 6),
                38: ("BB", 128, 128),
                43: ("B", 3),
                48: ("I3h3H", 0x2000800, 1, 0, 0, 512, 1, 1),
            },
        ),
        "S[5] (Tensor)++@complete acc_flags=3 src=bfloat16@0x36ff8[1,0,0][512,1,1] "
        "dst=0x2000800[1,0,0][512,1,1] 128*128",
    ),
    "LDWEIGHTS": (
        word(
            0x01,
            wait=(5, 8, 16),
            at={
                16: ("I3h3H", 0x24EFC, -1, 0, 0, 128, 1, 1),
                32: ("BB", 10, 1),
                38: ("BB", 128, 64),
            },
        ),
        "S[8]>=16 fp32_mode=LOW transpose_mode=DISABLED src=fp32@0x24efc[-1,0,0][128,1,1] 128*64",
    ),
    "ACTIVATE": (
        word(
            0x21,
            wait=(5, 6, 25),
            update=(0x13, 4),
            at={
                16: ("I3h3H", 0x35FF8, 1, 1, 1, 512, 1, 1),
                32: ("4B", 0xA7, 0xA, 128, 7),
                36: ("fI", 0.5, 0xC040),
                48: ("I3h3H", 0xC060, 1, 1, 1, 512, 1, 1),
            },
        ),
        "S[6] (Vector)>=25 S[4] (Scalar)++@complete EXP bias_ptr=fp32@0xc040 "
        "src=fp16@0x35ff8[1,1,1][512,1,1] dst=fp32@0xc060[1,1,1][512,1,1] channels=128 "
        "scale=0.500000 imm=0.000000 accumulator_cmd=IDLE",
    ),
    "TENSOR_REDUCE": (
        word(
            0x42,
            at={
                12: ("I4h4H", 0xC000, 1, 2, 1, 1, 2, 8, 1, 1),
                32: ("6B", 10, 10, 128, 1, 8, 2),
                44: ("I4h4H", 0xC040, 1, 1, 1, 1, 8, 1, 1, 1),
            },
        ),
        "op=MAX dim=X negated=1 src=fp32@0xc000[1,2,1,1][2,8,1,1] "
        "dst=fp32@0xc040[1,1,1,1][8,1,1,1] channels=128",
    ),
    "TENSOR_SCALAR": (
        word(
            0x43,
            at={
                16: ("I3h3H", 0xC060, 1, 1, 1, 512, 1, 1),
                32: ("6B", 10, 10, 128, 1, 6, 0),
                40: ("If", 0xA060, 0),
                48: ("I3h3H", 0xA080, 1, 1, 1, 512, 1, 1),
            },
        ),
        "ops=MULTIPLY,BYPASS imm=0xa060,0 imm_src=PTR,INSTRUCTION src=fp32@0xc060[1,1,1][512,1,1] "
        "dst=fp32@0xa080[1,1,1][512,1,1] channels=128",
    ),
    "EVENT_SEMAPHORE": (
        word(0xA0, wait=(5, 4, 16), at={32: ("BB", 5, 6), 36: ("I", 9)}),
        "S[4] (Scalar)>=16 setter=0 S[6] (Vector)>=9",
    ),
}
SEMAPHORES = {4: "Scalar", 5: "Tensor", 6: "Vector"}


@pytest.mark.parametrize("opcode", PRINTED)
def test_an_instruction_is_printed_like_in_the_profiler(opcode):
    given, printed = PRINTED[opcode]
    found = decoded(given)
    assert found.opcode == opcode and found.known
    assert found.profiler_text(SEMAPHORES) == printed


def test_operands_have_addresses_formats_and_shapes():
    found = decoded(PRINTED["MATMUL"][0])
    src, dst = found.operand("src"), found.operand("dst")
    assert (src.reads, src.in_psum, src.free, src.rows) == (True, False, 512, 128)
    assert (dst.reads, dst.in_psum, dst.format) == (False, True, "")
    assert found.updates == (Condition("S++", 5, 1),) and found.waits == ()
    assert found.settings["rows"] == found.settings["columns"] == 128


def test_two_operands_share_a_byte_for_their_formats():
    given = word(0x41, at={12: ("4B", 0x7A, 7, 4, 128), 16: ("I", 0x2000000)})
    found = decoded(given)
    formats = [found.operand(name).format for name in ("src0", "src1", "dst")]
    assert formats == ["fp32", "fp16", "fp16"] and found.settings["op"] == "ADD"


def test_dma_blocks_are_addresses_variables_or_table_entries():
    where = [
        (0x8005C03C0000, ("address", 0, 0x8005C03C0000)),
        (0x10 << 56 | 5 << 32 | 64, ("variable", 5, 64)),
        (0x20 << 56 | 3 << 32, ("table", 3, 0)),
    ]
    for raw, told in where:
        given = word(
            0xB8,
            at={
                13: ("B", 24),
                14: ("H", 16),
                16: ("Q2i2HH", raw, 256, 1, 128, 2, 512),
                40: ("Q2i2HHBB", 0x802000026400, 262144, 1, 128, 2, 512, 6, 10),
            },
        )
        src, dst = decoded(given).block("src"), decoded(given).block("dst")
        assert (src.kind, src.number, src.address) == told
        assert (src.nbytes, src.format, dst.format) == (131072, "bfloat16", "fp32")
        assert "semaphore=24 sem_increment=16" in decoded(given).profiler_text()


def test_an_unknown_opcode_is_printed_as_its_number():
    found = decoded(word(0x77, wait=(5, 3, 1)))
    assert (found.opcode, found.known) == ("0x77", False)
    assert found.waits == (Condition("S>=", 3, 1),)


def test_any_64_bytes_can_be_decoded():
    for code in range(256):
        for fill in (0x00, 0x7F, 0xFF):
            decoded(bytes([code]) + bytes([fill]) * 63).profiler_text()


def test_a_wrong_table_is_named_in_the_error(monkeypatch):
    raw = tomllib.loads((isa() / "encoding.toml").read_text())
    raw["layouts"]["nop"]["text"] = "cycle={turns}"
    monkeypatch.setattr(encoding.tomllib, "loads", lambda _: raw)
    encoding._tables.cache_clear()
    with pytest.raises(DefinitionError, match="text of the layout nop contains turns"):
        encoding._tables()
    monkeypatch.undo()
    encoding._tables.cache_clear()


# Fields that the profiler prints in another form, or only for the runtime's instructions.
OTHERWISE = {"COMPARE_BRANCH", "EVENT_SEMAPHORE_RANGE_CLEAR", "NOTIFY", "TENSOR_LOAD", "WRITE"}


@pytest.mark.parametrize("folder", captures.ATTENTION)
def test_published_instructions_are_printed_as_the_profiler_prints_them(folder):
    graphs = {g.name: g for g in trace.read(captures.attention(folder, "ntff")).graphs}
    for row in captures.attention(folder, "json")["instruction"]:
        engine = trace.ENGINES.index(row["subgroup"].replace("TensorMatrix", "Tensor"))
        found = decoded(graphs[row["subgraph"]].streams[engine].code[row["pc"]].tobytes())
        told = " ".join(row["operands"].split())
        assert found.opcode == row["opcode"]
        if found.blocks:
            _same_blocks(found, told)
        elif found.opcode not in OTHERWISE and "$" not in told:
            names = {int(n): name for n, name in re.findall(r"S\[(\d+)\] \(([^)]*)\)", told)}
            assert found.profiler_text(names) == told


def _same_blocks(found, told):
    said = dict(re.findall(r"(\w+)=(\S+)", told))
    assert (
        f"semaphore={said['semaphore']} sem_increment={said['sem_increment']}"
        in found.profiler_text()
    )
    for name in ("src", "dst"):
        block = found.block(name)
        step, count = (",".join(map(str, given)) for given in (block.steps, block.counts))
        assert said[f"{name}_pattern"] == f"[{step}][{count}]"
        assert said[f"{name}_elem_size"] == str(block.element)
        if block.kind == "address":
            assert int(said[f"{name}_addr_imm"], 16) == block.address
        else:
            assert int(said[f"{name}_table_index"]) == block.number


def test_the_layouts_fit_into_64_bytes():
    raw = tomllib.loads((isa() / "encoding.toml").read_text())
    assert struct.calcsize("<I4h4H") == 20
    codes = [row["code"] for row in raw["opcodes"].values()]
    assert len(codes) == len(set(codes))
