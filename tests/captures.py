r"""Device traces that tests write: .ntff files from a description of events.

The layout is that of published traces (versions 4 and 6). If clones of these are in the folder that
NEURONCORE_CLONES names, tests also compare the reader with the profiler's tables."""

import gzip
import io
import json
import os
import struct
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ENGINES = ("Tensor", "Scalar", "GpSimd", "Vector", "Sync")
ADDRESS = 0x40000  # address of each engine's program, in HBM
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"

FUSION = "allenkchau+trainium-kernel-fusion"
FUSION_COMMIT = "71713d40d6358519000604959b88133922a6afac"
ARTIFACTS = [
    f"profiling/artifacts/{kind}_{form}_s{rows}"
    for kind in ("baseline", "fused")
    for form in ("bf16", "fp32")
    for rows in (512, 1024)
]
ATTENTION = [*ARTIFACTS, "profiling/baseline_attention", "profiling/fused_attention"]


def clone(name):
    """The clone of a published repository; skips the test if it does not exist."""
    folder = Path(os.environ.get("NEURONCORE_CLONES", "")) / name
    if not os.environ.get("NEURONCORE_CLONES") or not folder.is_dir():
        pytest.skip(f"there is no clone of {name} in NEURONCORE_CLONES")
    return folder


def published(name, commit, path):
    """The bytes of a file of a clone, at a commit."""
    command = ["git", "-C", str(clone(name)), "show", f"{commit}:{path}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def attention(folder, kind):
    """A published trace ("ntff"), its program ("neff") or its profile ("json") of attention."""
    name = "baseline" if "baseline" in folder else "fused"
    files = {
        "ntff": f"{name}_exec_2.ntff",
        "neff": f"{name}.neff",
        "json": f"json_reports/{name}_exec_2_profile_full.json",
    }
    data = published(FUSION, FUSION_COMMIT, f"{folder}/{files[kind]}")
    return json.loads(data) if kind == "json" else data


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def entry(number, value):
    """A field of a message: an integer, text, or bytes of a message within."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields):
    return b"".join(entry(number, value) for number, value in fields)


def record(identity, unit, value, ps):
    return struct.pack("<HBBIQ", identity & 0xFFFF, identity >> 16 & 0xFF, unit, value, ps)


@dataclass
class Core:
    """Events of one core. `programs` has the instructions of engines, 64 bytes each; `around` is
    the number of instructions that the runtime has added before and after them."""

    name: str = "sg00"
    number: int = 0
    total_ps: int = 50_000_000
    programs: dict = field(default_factory=dict)
    around: tuple = (0, 0)
    taken_out: int = 0  # instructions between the first part of the runtime and the compiler's
    sections: dict = field(default_factory=lambda: {0: [], 1: [], 4: [], 5: []})
    queues: dict = field(default_factory=dict)
    clocks: dict = field(default_factory=dict)  # (reference, told, real) of each, by number

    def ran(self, engine, pc, begin, end, branch=False):
        number = ADDRESS >> 6 | 0
        unit = 132 + 4 * ENGINES.index(engine)
        identity = number + pc & 0xFFFFFF
        taken = 1 << 21 if branch else 0
        self.sections[0] += [
            record(identity, unit, 0xFFFF0000, begin),
            record(identity + taken, unit + 1, 0xFFFFFFFF, end),
        ]

    def moved(self, engine, queue, size, begin, end, checksum=0):
        self.sections[4] += [
            record(0, 64 + engine, queue << 4 | 6, begin - 1),
            record(0, 64 + engine, queue << 4 | 1, begin),
            record(size, 64 + engine, checksum << 16 | queue << 4 | 5, end),
        ]

    def set(self, semaphore, value, ps, by=None):
        unit = 155 if by is None else 135 + 4 * ENGINES.index(by)
        part = 249 if value == 0 else 243
        self.sections[1].append(record(semaphore | part << 16 | 0x100, unit, value, ps))

    def clocked(self, eighths, ps):
        self.sections[5].append(record(8 << 16, 158, eighths, ps))


def trace(*cores, version=6, origin=0, instance="trn2.3xlarge", program="kernel.neff"):
    """The bytes of a file. Version 6 has the programs and the table of sections like newer files,
    version 4 like older ones."""
    body, graphs, sections = bytearray(), [], []
    for core in cores:
        parts = []
        for name, words in core.programs.items():
            engine, code = ENGINES.index(name), b"".join(words)
            where = [(3, code)] if version == 4 else [(7, len(body)), (8, len(code))]
            parts.append((4, message((1, engine), (2, ADDRESS), *where)))
            body += b"" if version == 4 else code
            parts.append((5, message((1, engine), *_edits(core, len(words)))))
        for kind, records in core.sections.items():
            data = b"".join(records)
            said = message((1, kind), (5, len(body)), (6, len(data)), (7, core.number))
            (parts if version == 4 else sections).append((6 if version == 4 else 16, said))
            body += data
        for (engine, number), name in core.queues.items():
            parts.append((7, message((1, engine), (2, number), (4, name))))
        rates = [(n, message(*enumerate(rate, 1))) for n, rate in core.clocks.items()]
        parts += [(10, message(*rates)), (14, core.total_ps)]
        graphs.append((1, message((1, core.name), (3, core.number), *parts)))
    device = message((4, message((4, message(*graphs)))))
    told = [(1, program), (3, 10001), (9, instance), (8, message((1, 2), (2, 30), (3, 51)))]
    ends = [(15, message((2, origin), (3, origin + 1)))] if origin else []
    header = message(*told, *ends, *sections) + device
    return struct.pack("<BI", version, len(header)).ljust(128, b"\0") + header + bytes(body)


def _edits(core, count):
    before, after = core.around
    edits = [message((2, before))] if before else []
    if core.taken_out:
        edits.append(message((1, before * 64), (2, core.taken_out), (3, 2)))
    if after:
        edits.append(message((1, (count - after) * 64), (2, after)))
    return [(2, edit) for edit in edits]


def word(code, wait=None, update=None, at=()):
    """The 64 bytes of an instruction: its wait (kind, number, value), its update (kind, number),
    and numbers at byte offsets, each with its `struct` format."""
    out = bytearray(64)
    out[0], out[1] = code, 0x10
    if wait:
        struct.pack_into("<BB", out, 4, *wait[:2])
        struct.pack_into("<I", out, 8, wait[2])
    if update:
        struct.pack_into("<BB", out, 6, *update)
    for place, (form, *numbers) in dict(at).items():
        struct.pack_into(f"<{form}", out, place, *numbers)
    return bytes(out)


STEMS = {"Tensor": "PE", "Scalar": "Activation", "GpSimd": "Pool", "Vector": "DVE", "Sync": "SP"}


@dataclass
class Compiled:
    """The compiled program of one core. For each engine, `code` has the 64 bytes, the name and the
    statement number of each instruction; `statements` have a text and a line."""

    code: dict = field(default_factory=dict)
    blocks: dict = field(default_factory=dict)
    queues: dict = field(default_factory=dict)
    variables: dict = field(default_factory=dict)
    shapes: dict = field(default_factory=dict)
    statements: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)

    def queue(self, name, owner, first, kind="in"):
        semaphores = list(range(first, first + 16))
        self.queues[name] = {
            "owner": owner, "semaphore_set": semaphores, "type": kind, "num_queues": 16
        }  # fmt: skip

    def variable(self, name, number, kind, size=0, form="", shape=(), **more):
        self.variables[name] = {"var_id": number, "type": kind, "size": size, **more}
        self.shapes[name] = {"dtype": form, "sim_shape": list(shape)}


def move(source, target, form="float32"):
    """A part of a static DMA block: (variable, offset, sizes, steps) of both ends."""
    out = {"op": "copy"}
    for end, (name, offset, sizes, steps) in (("from", source), ("to", target)):
        out |= {end: name, f"{end}_off": offset, f"{end}_sizes": sizes, f"{end}_steps": steps}
        out[f"{end}_dtype"] = form
    return out


def archive(*cores, target="cayman", inputs=(), outputs=()):
    """The files of a compiled program; `inputs` and `outputs` are (name, format, shape)."""
    graphs = [{"name": f"sg{n:02}", "definition": f"sg{n:02}/def.json"} for n in range(len(cores))]
    nodes = [{"output_names": [name]} for name, _, _ in inputs]
    nodes.append({"output_names": [name for name, _, _ in outputs]})
    ends = [*inputs, *outputs]
    told = {
        "nodes": nodes,
        "arg_nodes": list(range(len(inputs))),
        "attrs": {
            "dltype": ["list_str", [form for _, form, _ in ends]],
            "shape": ["list_shape", [list(shape) for _, _, shape in ends]],
        },
    }
    out = {
        "kelf-0.json": {"graphs": graphs, "target": target},
        "info.json": {"name": "kernel.neff", "tool_version": "2.23.6484.0"},
        "neff.json": told,
    }
    for number, core in enumerate(cores):
        out |= _files_of(core, f"sg{number:02}")
    return {k: v if isinstance(v, bytes) else json.dumps(v).encode() for k, v in out.items()}


def _files_of(core, folder):
    out = {
        f"{folder}/def.json": {"var": core.variables, "dma_queue": core.queues},
        f"{folder}/tensor_map.json": core.shapes,
        f"debug_info/debug_info_penguin.dbg_{folder}0000": message(
            (5, "kernel.py"),
            *(
                (3, message((1, n), (2, text), (7, message((1, "kernel_line"), (2, str(line))))))
                for n, (text, line) in core.statements.items()
            ),
        ),
    }
    for engine, rows in core.code.items():
        stem, place = STEMS[engine], ENGINES.index(engine)
        ids = [1000 * (place + 1) + n for n in range(len(rows))]
        entries = [
            (3, message((1, one), (2, name), (3, varint(statement)), (6, 1)))
            for one, (_, name, statement) in zip(ids, rows)
        ]
        out |= {
            f"{folder}/{stem}.bin": b"".join(data for data, _, _ in rows),
            f"{folder}/{stem}.json": {"dma": core.blocks.get(engine, [])},
            f"{folder}/debug_info_asm_{stem}.dbg": message(
                *((3, message((3, varint(one)))) for one in ids)
            ),
            f"{folder}/debug_info_backend_{stem}.dbg": message(*entries),
        }
    return out | {f"{folder}/{name}": data for name, data in core.files.items()}


def neff(files):
    """The bytes of a file with that archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return bytes(1024) + gzip.compress(packed.getvalue(), mtime=0)


def mutated(data, dice):
    """A file with bytes changed, cut out or put in."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(changed) or 1)
        match dice.randrange(4) if changed else 3:
            case 0:
                changed[at] = dice.randrange(256)
            case 1:
                changed[at] ^= 1 << dice.randrange(8)
            case 2:
                del changed[at : at + dice.choice((1, 2, 16, 200))]
            case 3:
                changed[at:at] = dice.randbytes(dice.choice((1, 3, 16)))
    return bytes(changed)


def copied():
    """A kernel that loads, copies and stores, compiled and run on a device: the files of its trace
    and of its program. A load takes 2 us, the copy 0.5, the store 1.5."""
    core = Core(programs={"Vector": [COPY], "Sync": [START[0], START[1], SETUP]})
    core.queues = {(64 + ring, 1): "qSPIO0" for ring in range(16)}
    core.clocked(4, 0)
    for pc, begin in ((2, 900_000), (0, 1_000_000), (1, 3_640_000)):
        core.ran("Sync", pc, begin, begin + 60_000)
    core.ran("Vector", 0, 3_025_000, 3_525_000)
    for ring in range(16):
        core.moved(ring, 1, 2_048 + 4, 2_000_000 + ring, 2_980_000 + ring)
        core.set(8, ring + 1, 3_000_000 + ring * 100)
        core.moved(ring, 1, 2_048 + 4, 4_000_000 + ring, 5_100_000 + ring)
        core.set(9, ring + 1, 5_138_500 + ring * 100)
    core.set(6, 1, 3_530_000, by="Vector")
    return trace(core), neff(_copying())


COPY = word(0x46, wait=(5, 8, 16), update=(0x13, 6), at={
    12: ("I4h4H", 0x100, 1, 1, 1, 1, 64, 1, 1, 1), 32: ("3B", 10, 10, 128),
    44: ("I4h4H", 0x200, 1, 1, 1, 1, 64, 1, 1, 1),
})  # fmt: skip
DOORBELL = {12: ("BB", 4, 0), 16: ("Q", 0x802038), 32: ("I", 9)}
START = [word(0xA5, at=DOORBELL), word(0xA5, wait=(5, 6, 1), at=DOORBELL)]  # as loaded
SETUP = word(0xB1)


def _copying(vector=COPY):
    """The archive of the program of `copied`, with another copy on Vector if one is given."""
    made = Compiled()
    pseudo = [
        word(0xC1, wait=wait, at={12: ("16s", b"qSPIO0"), 48: ("I", number)})
        for number, wait in ((0, None), (1, (5, 6, 1)))
    ]
    made.code = {
        "Vector": [(vector, "I-2-0", 2)],
        "Sync": [(pseudo[0], "I-1-0", 1), (pseudo[1], "I-3-0", 3), (SETUP, "", 4)],
    }
    made.queue("qSPIO0", "sp", 8)
    made.variable("SB", 0, "state-buffer")
    made.variable("x", 1, "input", 32768, "float32", (128, 64))
    made.variable("y", 2, "output", 32768, "float32", (128, 64))
    outside, inside = ([256, 128], [1, 256]), ([256, 128], [1, 262144])
    ends = (
        (("x", 0, *outside), ("SB", 0x100, *inside)),
        (("SB", 0x200, *inside), ("y", 0, *outside)),
    )
    made.blocks["Sync"] = [
        {"id": n, "queue": "qSPIO0", "semaphore": 8 + n, "desc": [move(*each)]}
        for n, each in enumerate(ends)
    ]
    made.statements = {n: (f"float32<128 x 64> ${n}[i]", n + 6) for n in (1, 2, 3)}
    given = [("x", "float32", (128, 64))], [("y", "float32", (128, 64))]
    return archive(made, inputs=given[0], outputs=given[1])
