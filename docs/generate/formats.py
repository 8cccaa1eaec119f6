"""Write docs/formats_compared.md: how many results of other libraries differ from neuroncore's.

python docs/generate/formats.py   (needs gfloat, torch and torchao)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gfloat
import ml_dtypes
import numpy as np
import torch
from gfloat import block, formats
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.quantization import quant_primitives as scaled

from neuroncore import numerics
from neuroncore.numerics.formats import lookup_any

PAGE = Path(__file__).parents[1] / "formats_compared.md"
Array = np.ndarray[Any, Any]

TEXT = """\
# Number formats compared with other libraries

This page converts the same arrays by `neuroncore.numerics` and by ml_dtypes {ml_dtypes} (numpy's
type for float16), torch {torch}, gfloat {gfloat} and torchao {torchao}. The tables count
results whose bits differ. All NaN count as equal, whatever their sign and payload. "-"
means that the library lacks the format.
`docs/generate/formats.py` writes this page.

## Casts of 1,000,000 random bit patterns of float32

{casts}

* torch saturates in casts to float8_e4m3fn, so it is compared with `saturate=True`. ml_dtypes gives
  NaN above 464, and so does neuroncore by default.
* In a cast to float8_e8m0fnu, neuroncore gives the nearest scale, which is a power of two. Numbers
  above 1.5 x 2^127 become 2^127; ml_dtypes and torch give NaN ({large} numbers). Numbers up to 1.5
  x 2^-127 become 2^-127; ml_dtypes and torch round some of them to 2^-126 ({small} numbers). A
  negative number has no scale; torch uses its magnitude.
* float4_e2m1fn has no NaN. In a cast to this format, ml_dtypes turns NaN into -0, and neuroncore
  turns NaN into 6, the largest number. So the count for this format leaves out NaN.

## All codes of each format, as float32

{codes}

## Numbers with scales: an array of 512 x 512 numbers of very different sizes

{scales}

Each count includes scales whose bits differ. The functions of torchao {torchao} are
`_choose_scale_float8`, `_quantize_affine_float8` and `to_mx` (scale FLOOR). The function of gfloat
is `quantize_block` with `compute_scale_amax`; only the first 16 rows are compared with this
function. None of these libraries offers the
device's newer rule for the scales of microscaling (`ocp_x2`), stochastic rounding with seeds of
instructions, or tfloat32.

## Speed

The table compares the speed of conversions with ml_dtypes. A figure is the time of ml_dtypes
divided by the time of neuroncore, for 2^20 numbers on one thread of an x86 server.
`python bench/formats.py` measures more.

| format | from float32 | back to float32 |
| --- | --- | --- |
{speed}
"""
SPEED = {
    "bfloat16": (2.0, 1.4),
    "float16 (numpy)": (9, 2.8),
    "float8_e5m2": (77, 24),
    "float8_e4m3": (61, 35),
    "float8_e4m3fn": (75, 31),
    "float8_e3m4": (62, 44),
    "float4_e2m1fn": (113, 16),
    "float8_e8m0fnu": (37, 19),
}
NARROW = (
    *("bfloat16", "float16", "float8_e5m2", "float8_e4m3", "float8_e4m3fn", "float8_e3m4"),
    *("float4_e2m1fn", "float8_e8m0fnu"),
)
GFLOAT = {
    "bfloat16": "bfloat16",
    "float16": "binary16",
    "float8_e5m2": "ocp_e5m2",
    "float8_e4m3fn": "ocp_e4m3",
    "float4_e2m1fn": "ocp_e2m1",
    "float8_e8m0fnu": "ocp_e8m0",
}


def patterns() -> Array:
    words = np.random.default_rng(0).integers(0, 1 << 32, 1_000_000, dtype=np.uint64)
    return words.astype(np.uint32).view(np.float32)


def differ(ours: Array, theirs: Array) -> int:
    """Return how many float32 numbers differ. All NaN count as equal."""
    bits = [np.ascontiguousarray(one, np.float32).view(np.uint32) for one in (ours, theirs)]
    return int(((bits[0] != bits[1]) & ~(np.isnan(ours) & np.isnan(theirs))).sum())


def in_ml_dtypes(values: Array, name: str) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(lookup_any(name).numpy).astype(np.float32)


def in_torch(values: Array, name: str) -> Array:
    found: Array = torch.from_numpy(values).to(getattr(torch, name)).float().numpy()
    return found


def in_gfloat(values: Array, name: str) -> Array:
    form = getattr(formats, f"format_info_{GFLOAT[name]}")
    only_saturates = name == "float4_e2m1fn"
    with np.errstate(invalid="ignore"):  # NaN that signal
        wide = values.astype(np.float64)
    return gfloat.round_ndarray(form, wide, sat=only_saturates).astype(np.float32)


def casts(values: Array) -> Iterator[tuple[Any, ...]]:
    for name in NARROW:
        some = values[~np.isnan(values)] if name == "float4_e2m1fn" else values
        ours = numerics.round(some, name)
        has_torch = hasattr(torch, name)
        of_torch = numerics.round(some, name, saturate=True) if "e4m3fn" in name else ours
        yield (
            *(f"`{name}`", differ(ours, in_ml_dtypes(some, name))),
            differ(of_torch, in_torch(some, name)) if has_torch else "-",
            differ(ours, in_gfloat(some, name)) if name in GFLOAT and "e8m0" not in name else "-",
        )


def codes() -> Iterator[tuple[Any, ...]]:
    for name in NARROW:
        form = lookup_any(name)
        code = np.arange(1 << form.bits).astype(form.code_type)
        with np.errstate(invalid="ignore"):
            wanted = code.view(form.numpy).astype(np.float32)
        ours = numerics.decode(code, name)
        signed = torch.from_numpy(code.view(f"int{8 * code.itemsize}"))
        theirs = signed.view(getattr(torch, name)).float().numpy() if hasattr(torch, name) else None
        yield (
            *(f"`{name}`", len(code), differ(ours, wanted)),
            "-" if theirs is None else differ(ours, theirs),
            differ(ours, of_gfloat(name, code)) if name in GFLOAT else "-",
        )


def of_gfloat(name: str, code: Array) -> Array:
    form = getattr(formats, f"format_info_{GFLOAT[name]}")
    with np.errstate(all="ignore"):
        return gfloat.decode_ndarray(form, code.astype(np.int64)).astype(np.float32)


# --- scales -----------------------------------------------------------------------------------


def rows() -> Array:
    rng = np.random.default_rng(1)
    sizes = 2.0 ** rng.uniform(-20, 20, (512, 1))
    return (rng.standard_normal((512, 512)) * sizes).astype(np.float32)


def by_torchao(x: Array, size: list[int]) -> tuple[Array, Array]:
    given = torch.from_numpy(x)
    scale = scaled._choose_scale_float8(given, size, torch.float8_e4m3fn)
    values = scaled._quantize_affine_float8(given, scale, torch.float8_e4m3fn)
    return values.float().numpy(), scale.numpy()


def scales(x: Array) -> Iterator[tuple[Any, ...]]:
    for label, per, size in (
        ("a tensor", "tensor", [512, 512]),
        ("rows", "row", [1, 512]),
        ("128 neighbors", 128, [1, 128]),
        ("128 x 128", (128, 128), [128, 128]),
    ):
        values, scale = numerics.quantize(x, "fp8", per)
        theirs, their_scale = by_torchao(x, size)
        found = differ(values.astype(np.float32), theirs)
        yield f"fp8, a scale for {label}", found + differ(scale.ravel(), their_scale.ravel()), "-"
    for name, dtype in (
        ("mxfp8", torch.float8_e4m3fn),
        ("mxfp8_e5m2", torch.float8_e5m2),
        ("mxfp4", torch.float4_e2m1fn_x2),
    ):
        yield f'{name}, rule "ocp"', microscaled(x, name, dtype), blocks_of_gfloat(x[:16], name)


def microscaled(x: Array, name: str, dtype: Any) -> int:
    values, scale = numerics.quantize(x, name, rule="ocp")
    their_scale, theirs = to_mx(torch.from_numpy(x), dtype, 32)
    code = values.view(np.uint8)
    if name == "mxfp4":
        code = code[:, 1::2] << 4 | code[:, ::2]
    count = int((theirs.view(torch.uint8).numpy().reshape(code.shape) != code).sum())
    return count + int((their_scale.view(torch.uint8).numpy() != scale.view(np.uint8)).sum())


def blocks_of_gfloat(x: Array, name: str) -> int:
    kind = {"mxfp8": "mxfp8_e4m3", "mxfp4": "mxfp4_e2m1"}.get(name, name)
    form = getattr(formats, f"format_info_{kind}")
    one: Callable[[Array], Array] = lambda b: block.quantize_block(  # noqa: E731
        form, b.astype(np.float64), block.compute_scale_amax
    )
    theirs = np.concatenate([one(b) for b in x.reshape(-1, 32)]).reshape(x.shape)
    ours = numerics.dequantize(*numerics.quantize(x, name, rule="ocp"))
    return differ(ours, theirs.astype(np.float32))


# --- the page ---------------------------------------------------------------------------------


def table(heads: str, rows: Iterator[tuple[Any, ...]]) -> str:
    names = heads.split(", ")
    lines = [names, ["---"] * len(names), *([str(v) for v in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page() -> str:
    values = patterns()
    large = int((np.isfinite(values) & (values > 1.5 * 2.0**127)).sum())
    theirs, ours = in_ml_dtypes(values, "float8_e8m0fnu"), numerics.round(values, "e8m0")
    return TEXT.format(
        ml_dtypes=ml_dtypes.__version__,
        torch=torch.__version__.partition("+")[0],
        gfloat=version("gfloat"),
        torchao=version("torchao"),
        casts=table("format, ml_dtypes, torch, gfloat", casts(values)),
        large=large,
        small=differ(ours, theirs) - large,
        codes=table("format, codes, ml_dtypes, torch, gfloat", codes()),
        scales=table("scheme, torchao, gfloat", scales(rows())),
        speed="\n".join(f"| {n} | {a:g} | {b:g} |" for n, (a, b) in SPEED.items()),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
