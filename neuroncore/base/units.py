"""Converts times, sizes and counts to text for people."""

from __future__ import annotations

from collections.abc import Iterable


def duration(ns: float) -> str:
    """Return a time as text with at least three significant digits, such as "12.3 us"."""
    for unit, scale in (("ns", 1.0), ("us", 1e3), ("ms", 1e6)):
        if ns < 1000 * scale:
            return f"{_digits(ns / scale)} {unit}"
    return f"{_digits(ns / 1e9)} s"


def size(count: float) -> str:
    """Return a size in bytes as text with at least three significant digits, such as "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{_digits(count)} {unit}"
        count /= 1024
    return f"{_digits(count)} GiB"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as "1 call" or "1,200 calls". The default of the plural
    `nouns` is the noun with "s"."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def dimensions(shape: Iterable[int]) -> str:
    """Return a shape as text, such as "128 x 512"."""
    return " x ".join(map(str, shape))


def either(items: Iterable[object]) -> str:
    """Return alternatives as text, such as "sbuf, psum or hbm"."""
    *others, last = map(str, items)
    return f"{', '.join(others)} or {last}" if others else last


def _digits(value: float) -> str:
    """Return a number with at least three significant digits and without an exponent."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
