"""Kernels of nki-moe-megakernel for one token of Qwen3-30B-A3B on one of four ranks: attention and
experts."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

from case import Case, Random, Row, inside, loaded

HIDDEN, HEAD, QUERIES = 2048, 128, 8 * 128
CACHED = 640  # tokens in the cache; the position says how many of them are valid
EXPERTS, EXPERT = 128, 192
PADDED = {"kernel_v29m.py": 256}  # rows of the experts' second weights, with padding
WITH_FOUR_KEY_HEADS = ("v0_", "v1_", "v2_", "v3_")
PARTS = ("v13bc_kv_norm.py", "v17_fast_exp.py")  # files with a function that a kernel has to call


def case(row: Row, checkout: Path, path: str) -> Case:
    file = inside(checkout, path)
    if row["family"] == "moe_tkg":
        return Case(file, "qwen3_moe_fused_tkg", experts(row, file), grid=(2,))
    module = part if file.name in PARTS else loaded
    return Case(file, function(file), attention(file), grid=grid(file), module=module)


def bf16(*shape: int) -> Random:
    return Random("bfloat16", shape)


def function(file: Path) -> str:
    if file.name in PARTS:
        return "layer"
    return re.search(r"@nki\.jit\s+def (\w+)", file.read_text())[1]


def grid(file: Path) -> tuple[int, ...]:
    """Return the launch grid: two cores for kernels that ask for the number of the core, one core
    for the others."""
    return (2,) if "nl.program_id" in file.read_text() else ()


def attention(file: Path) -> tuple[Random, ...]:
    keys = 4 if file.name.startswith(WITH_FOUR_KEY_HEADS) else 1
    weights = [bf16(QUERIES, HIDDEN), bf16(keys * HEAD, HIDDEN), bf16(keys * HEAD, HIDDEN)]
    if "Wo" in file.read_text():
        transposed = "[H, Hq_tp*d]" in file.read_text()
        weights.append(bf16(HIDDEN, QUERIES) if transposed else bf16(QUERIES, HIDDEN))
    cache = bf16(1, keys, CACHED, HEAD)
    norms = [bf16(HEAD), bf16(HEAD)]
    if "gamma_pre_attn" in file.read_text():
        norms.append(bf16(HIDDEN))
    position = Random("int32", (1, 1), below=CACHED)
    hidden = bf16(1, 1, HIDDEN)
    return (hidden, *weights, *norms, cache, cache, bf16(1, HEAD), bf16(1, HEAD), position)


def experts(row: Row, file: Path) -> tuple[Random, ...]:
    rest = bf16(1, 1, HIDDEN), bf16(1, HIDDEN), bf16(HIDDEN, EXPERTS)
    gate_up = (EXPERTS, HIDDEN, 2 * EXPERT)
    down = (EXPERTS, PADDED.get(file.name, EXPERT), HIDDEN)
    if row["dtype"] != "fp8":
        return (*rest, bf16(*gate_up), bf16(*down))
    scales = (Random("float32", (EXPERTS, width)) for width in (2 * EXPERT, HIDDEN))
    codes = (Random("int8", shape, below=112) for shape in (gate_up, down))
    first, second = zip(codes, scales)
    return (*rest, *first, *second)


def part(file: Path) -> ModuleType:
    """Return the module of a function that is a part of a larger kernel. A kernel `layer` is added
    to the module: it calls the function and stores the result. If the function expects its inputs
    in SBUF, the kernel loads them first."""
    import nki
    import nki.isa as nisa
    import nki.language as nl
    from nkilib.core.utils.allocator import SbufManager

    module = loaded(file)
    inner = next(f for n, f in vars(module).items() if n.startswith("qwen3_attn"))

    @nki.jit
    def layer(hidden: Any, *rest: Any) -> Any:
        given = hidden
        if file.name == "v13bc_kv_norm.py":
            given = nl.ndarray((HEAD, HIDDEN // HEAD), nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(dst=given, src=hidden.reshape((HEAD, HIDDEN // HEAD)))
        manager = SbufManager(0, nl.tile_size.total_available_sbuf_size)
        results = inner(given, *rest, sbm=manager)
        left = results[0] if isinstance(results, tuple) else results
        out = nl.ndarray(left.shape, left.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=left)
        manager.close_scope()
        return out

    vars(module)["layer"] = layer
    return module
