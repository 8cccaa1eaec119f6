"""The pictures of the lectures as SVG: a machine, timelines, and a roofline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from neuroncore import machine
from neuroncore.base.units import size

LIGHT, DARK, RED = "#e8eef7", "#33475b", "#b3382c"
FONT = f'font-family="sans-serif" fill="{DARK}"'
WORK = {
    "tensor": "products, transposes",
    "vector": "two tiles, reductions",
    "scalar": "exp, sqrt, GELU, ...",
    "gpsimd": "indices, masks",
}
NAMES = {"gpsimd": "GpSimd"}

Bar = tuple[str, float, float]  # a row's name, begin and end in microseconds


class Svg(str):
    """SVG that a notebook shows."""

    def _repr_html_(self) -> str:
        return self


def core(name: str = "trn2") -> Svg:
    """Return the picture of a core: memories, engines, and the ways between them."""
    one = machine.load(name)
    sbuf, psum, dma, hbm = one.sbuf, one.psum, one.dma, one.hbm
    rate = dma.engines * dma.gigabytes_per_s_per_engine
    bank = f"of {size(psum.bank_bytes)} per partition"
    parts = [
        *(line(520, 135, 590, 50 + 92 * row) for row in range(4)),
        *(line(520, 320, 590, 70 + 92 * row) for row in range(3)),
        line(140, 185, 190, 185),
        line(300, 185, 350, 150),
        box(10, 120, 130, 130, ["HBM", size(hbm.capacity_bytes), f"{_rate(hbm)} GB/s"]),
        box(190, 120, 110, 130, ["DMA", f"{dma.engines} engines", f"{rate:.0f} GB/s"]),
        box(350, 60, 170, 150, ["SBUF", "128 partitions", f"of {size(sbuf.partition_bytes)}"]),
        box(350, 270, 170, 100, ["PSUM", f"{psum.banks} banks", bank]),
    ]
    for row, (engine, work) in enumerate(WORK.items()):
        clock = f"{one.engines[engine].clock_ghz:g} GHz"
        lines = [f"{NAMES.get(engine, engine.capitalize())} engine, {clock}", work]
        parts.append(box(590, 20 + 92 * row, 240, 72, lines))
    return drawing(840, 400, parts)


def _rate(hbm: machine.Hbm) -> str:
    return f"{hbm.stack_gigabytes_per_s or hbm.gigabytes_per_s:g}"


def timelines(runs: Mapping[str, Sequence[Bar]]) -> Svg:
    """Return a picture of runs, one below the other, on one scale of time. A run has a row for each
    name of its bars."""
    longest = max(end for bars in runs.values() for _, _, end in bars)
    scale, parts, top = 640 / longest, [], 24
    for title, bars in runs.items():
        parts.append(text(0, top, title, 600))
        for row in dict.fromkeys(name for name, _, _ in bars):
            top += 26
            parts.append(text(0, top, row))
            parts += [_bar(one, scale, top) for one in bars if one[0] == row]
        top += 40
    decade = 10 ** math.floor(math.log10(longest))
    step = decade / 5 if longest < 3 * decade else decade
    for tick in range(int(longest / step) + 1):
        parts.append(text(170 + tick * step * scale, top, f"{tick * step:g} us"))
    return drawing(860, top + 16, parts)


def _bar(one: Bar, scale: float, top: float) -> str:
    _, begin, end = one
    width = max(1.0, (end - begin) * scale)
    rect = f'<rect x="{170 + begin * scale:.1f}" y="{top - 10}" width="{width:.1f}" height="18" '
    return f'{rect}fill="{DARK}" stroke="white"/>'


def roofline(points: Mapping[str, tuple[float, float]], peak: float, bandwidth: float) -> Svg:
    """Return a roofline for a peak in TFLOPS and a bandwidth in GB/s. Points are operations per
    byte and TFLOPS, by name."""

    def place(intensity: float, tflops: float) -> tuple[float, float]:
        return 60 + 110 * (math.log10(intensity) + 1), 330 - 75 * (math.log10(tflops) + 2)

    ridge = peak * 1e3 / bandwidth
    (x0, y0), (x1, y1) = place(0.1, 0.1 * bandwidth / 1e3), place(ridge, peak)
    x2, _ = place(1e4, peak)
    parts = [line(x0, y0, x1, y1, 2.5), line(x1, y1, x2, y1, 2.5)]
    parts.append(text(x1 + 8, y1 - 14, f"{peak:g} TFLOPS; ridge at {ridge:.0f} flop/byte"))
    parts.append(text(x0, y0 - 30, f"{bandwidth:g} GB/s"))
    for decade in range(-1, 5):
        parts.append(text(place(10.0**decade, 1)[0] - 10, 362, f"{10.0**decade:g}"))
    parts.append(text(400, 386, "operations per byte of HBM"))
    for name, (intensity, tflops) in points.items():
        x, y = place(intensity, tflops)
        parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="5" fill="{RED}"/>')
        parts.append(text(x + 9, y + 5, f"{name}: {tflops:.3g}"))
    return drawing(840, 395, parts)


def drawing(width: float, height: float, parts: Iterable[str]) -> Svg:
    """Return an SVG of a size in pixels, which becomes narrower with its page."""
    box = f'viewBox="0 0 {width} {height:.0f}" style="max-width:{width}px;background:white"'
    return Svg(f'<svg {box} width="100%" role="img">{"".join(parts)}</svg>')


def box(x: int, y: int, width: int, height: int, lines: Sequence[str]) -> str:
    """Return a box with lines of text, the first of them bold."""
    top = y + height / 2 + 5 - 11 * (len(lines) - 1)
    middle = x + width / 2
    texts = (
        text(middle, top + 22 * n, said, 400 if n else 600, "middle")
        for n, said in enumerate(lines)
    )
    rect = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" '
    return f'{rect}fill="{LIGHT}" stroke="{DARK}"/>{"".join(texts)}'


def text(x: float, y: float, said: str, weight: int = 400, anchor: str = "start") -> str:
    """Return a line of text."""
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="15" font-weight="{weight}" {FONT}>{said}</text>'


def line(x0: float, y0: float, x1: float, y1: float, width: float = 1.5) -> str:
    """Return a line between two points."""
    ends = f'x1="{x0:.0f}" y1="{y0:.0f}" x2="{x1:.0f}" y2="{y1:.0f}"'
    return f'<line {ends} stroke="{DARK}" stroke-width="{width}"/>'
