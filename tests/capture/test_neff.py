"""Compiled programs: the reader returns everything that the compiler wrote, and other files are
refused."""

import random
from collections import Counter

import captures
import pytest
from captures import ENGINES, Compiled, archive, move, mutated, word

from neuroncore.base.errors import UsageError
from neuroncore.capture import neff, trace

TENSOR, SCALAR, GPSIMD, VECTOR, SYNC = range(5)


def small():
    """A load, a copy and a store, compiled from a kernel of two lines."""
    core = Compiled()
    copy = word(0x46, wait=(5, 8, 16), update=(0x13, 6), at={
        12: ("I4h4H", 0x100, 1, 1, 1, 1, 64, 1, 1, 1), 32: ("3B", 10, 10, 128),
        44: ("I4h4H", 0x200, 1, 1, 1, 1, 64, 1, 1, 1),
    })  # fmt: skip
    core.code = {
        "Vector": [(copy, "I-2-0", 2)],
        "Sync": [
            (trigger(b"qSPIO0", 0), "I-1-0", 1),
            (trigger(b"qSPIO0", 1, (5, 6, 1)), "I-3-0", 3),
        ],
    }
    core.queue("qSPIO0", "sp", 8)
    core.queue("qActDynamicHW", "act", 24, "dynamic")
    core.variable("SB", 0, "state-buffer")
    core.variable("x", 1, "input", 32768, "float32", (128, 64))
    core.variable("y", 2, "output", 32768, "float32", (128, 64))
    core.variable("table", 3, "dge-table", list=[1, 2])
    core.variable("identity", 4, "file", 16, file_name="identity.npy")
    core.files["identity.npy"] = b"what numpy has written"
    outside, inside = ([256, 128], [1, 256]), ([256, 128], [1, 262144])
    core.blocks["Sync"] = [
        block(0, 8, move(("x", 0, *outside), ("SB", 0x100, *inside))),
        block(1, 9, move(("SB", 0x200, *inside), ("y", 0, *outside))),
    ]
    core.statements = {1: ("float32<128 x 64> $1[i]", 7), 2: ("float32<128 x 64> $2[i]", 8)}
    return core


def trigger(queue, number, wait=None):
    return word(0xC1, wait=wait, at={12: ("16s", queue), 48: ("I", number)})


def block(number, semaphore, *moves):
    return {
        "id": number, "#comment": f"I-{number}-block", "queue": "qSPIO0", "semaphore": semaphore,
        "desc": list(moves),
    }  # fmt: skip


def files():
    return archive(
        small(), inputs=[("x", "float32", (128, 64))], outputs=[("y", "float32", (128, 64))]
    )


def test_everything_that_the_compiler_wrote_is_read(tmp_path):
    path = tmp_path / "kernel.neff"
    path.write_bytes(captures.neff(files()))
    found = neff.load(path)
    assert (found.name, found.target, found.compiler) == ("kernel.neff", "trn2", "2.23.6484.0")
    assert found.inputs == {"x": ("float32", (128, 64))}
    assert found.outputs == {"y": ("float32", (128, 64))}
    (graph,) = found.graphs
    assert [len(graph.code[engine].words) for engine in (VECTOR, SYNC)] == [1, 2]
    assert graph.code[VECTOR].names == ("I-2-0",) and graph.code[SYNC].statements == (1, 3)
    (copy,) = graph.code[VECTOR].instructions
    assert copy.profiler_text(graph.semaphores).startswith(
        "S[8] (qSyncIO0)>=16 S[6] (Vector)++@complete"
    )
    assert graph.code[SYNC].instructions[1].settings == {"queue": "qSPIO0", "block": 1}
    made = graph.statements[2]
    assert (made.text, made.file, made.line) == ("float32<128 x 64> $2[i]", "kernel.py", 8)
    store = graph.blocks[SYNC][1]
    assert (store.semaphore, store.moves[0].target, store.moves[0].nbytes) == (9, "y", 32768)
    assert graph.constants == {"identity": b"what numpy has written"}
    assert graph.variables["table"].table == [1, 2] and graph.variable(2).name == "y"
    assert graph.variables["x"].shape == [128, 64]


def test_queues_have_the_names_of_the_profiler():
    shown = [queue.shown for queue in neff.read(captures.neff(files())).graphs[0].queues.values()]
    assert shown == ["qSyncIO0", "qScalarDynamicHW"]


def test_a_program_without_debug_information_has_no_names():
    bare = {name: data for name, data in files().items() if "debug_info" not in name}
    graph = neff.read(captures.neff(bare)).graphs[0]
    assert graph.code[SYNC].names == ("", "") and graph.code[SYNC].statements == (-1, -1)
    assert graph.statements == {}


def without(name, data=None):
    changed = {key: value for key, value in files().items() if key != name or data is not None}
    return captures.neff(changed if data is None else {**changed, name: data})


NOT_PROGRAMS = {
    "no archive begins at byte 1,024": b"PK" + bytes(2000),
    "the archive is cut short": captures.neff(files())[:-40],
    "the archive has no neff.json": without("neff.json"),
    "the archive's info.json is not JSON": without("info.json", b"{"),
    "the archive's SP.bin ends within an instruction": without("sg00/SP.bin", bytes(70)),
    "the archive is damaged": without("sg00/def.json", b'{"var": 3, "dma_queue": {}}'),
    "the program has no graph": captures.neff(archive()),
    "a pointer of Git LFS": captures.LFS,
}


@pytest.mark.parametrize("said", NOT_PROGRAMS)
def test_other_files_are_refused_as_programs_in_one_sentence(tmp_path, said):
    path = tmp_path / "kernel.neff"
    path.write_bytes(NOT_PROGRAMS[said])
    with pytest.raises(UsageError, match=said) as refused:
        neff.load(path)
    assert "\n" not in str(refused.value)


def test_an_archive_that_unpacks_to_too_many_bytes_is_refused(monkeypatch):
    monkeypatch.setattr(neff, "UNPACKED", 4096)
    with pytest.raises(neff.Malformed, match="more than 4,096 bytes"):
        neff.read(captures.neff(files()))


def test_damaged_programs_are_read_or_refused():
    """Both the file and the members of its archive are damaged; a checksum does not find the
    latter."""
    whole, dice, outcomes = files(), random.Random(5), Counter()
    packed = captures.neff(whole)
    for turn in range(1000):
        if turn % 5:
            name = dice.choice(sorted(name for name in whole if whole[name]))
            data = captures.neff({**whole, name: mutated(whole[name], dice)})
        else:
            data = mutated(packed, dice)
        try:
            for graph in neff.read(data).graphs:
                assert graph.semaphores is not None
            outcomes["read"] += 1
        except neff.Malformed as error:
            assert "\n" not in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


@pytest.mark.parametrize("folder", captures.ATTENTION)
def test_published_programs_name_their_instructions_like_the_profiler(folder):
    """The program is compared with its trace, which also has instructions that the runtime
    added."""
    made = neff.read(captures.attention(folder, "neff"))
    graphs = {graph.name: graph for graph in made.graphs}
    streams = {g.name: g.streams for g in trace.read(captures.attention(folder, "ntff")).graphs}
    for row in captures.attention(folder, "json")["instruction"]:
        engine = ENGINES.index(row["subgroup"].replace("TensorMatrix", "Tensor"))
        place = streams[row["subgraph"]][engine].place[row["pc"]]
        if row["bir_instruction_name"]:
            code = graphs[row["subgraph"]].code[engine]
            assert code.names[place] == row["bir_instruction_name"]
            if row["instruction_type"]:
                assert code.transposes[place] == (row["instruction_type"] == "TRANSPOSE")
    named = {
        int(row["id"][2:].partition("]")[0]): row["id"].partition("(")[2].rstrip(")")
        for row in captures.attention(folder, "json")["semaphore_update"]
        if "(" in row["id"]
    }
    assert named.items() <= graphs["sg00"].semaphores.items()
