"""Random options of launches. They are drawn to fit the program, so that an option often affects
some of its instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.programs.draws import Draws


class Choice(NamedTuple):
    """Options for programs whose source matches the regular expression `words`. In a `share` of
    these programs, one of the `ways` is drawn."""

    share: float
    words: str
    ways: tuple[Mapping[str, Any], ...]


STOCHASTIC = (
    *({"stochastic": True}, {"stochastic": True, "stochastic_seed": (1 << 32) - 1}),
    {"stochastic": True, "stochastic_bits": 9, "stochastic_seed": 5},
)
OF_THE_ESTIMATE = (
    *({"loads": "single"}, {"loads": "limited"}, {"loads": "once"}, {"descriptors": "software"}),
    *({"launch": "standalone"}, {"clock_phase": 0.3}, {"order": "compiled"}, {"stacks": True}),
)
WITHOUT_VIEWS = r"(?s)\A(?!.*(\.view|\.ap|address|_x4|dst=x)).*float"
"""Sources without views, which need the bits of the format in memory."""
CHOICES = (
    Choice(0.1, "bfloat16|float16|float8", STOCHASTIC),
    Choice(0.4, r"ncc\.", tuple({"collective_rounding": way} for way in ("ring", "mesh"))),
    Choice(0.4, "implicit", ({"rings": 3}, {"rings": 7})),
    Choice(0.4, r"core_barrier|sendrecv|ncc\.", ({"turns": 7}, {"turns": 1})),
    Choice(0.25, "maximum|minimum|max8|topk|nl.max|nl.min", ({"nan_minmax": "number"},)),
    Choice(0.25, "float8_e4m3fn", ({"fn_overflow": "saturate"},)),
    Choice(0.3, r"nisa\.rng|rand|dropout", ({"rng": "hardware"}, {"rng_seed": 77})),
    Choice(0.6, "_mx", ({"mx_order": "chain"}, {"mx_scale": "ocp"})),
    Choice(0.1, "matmul", ({"tf32_read": "truncate"}, {"fp32_matmul": "four_pass"})),
    Choice(0.04, "float", ({"subnormals": "flush"},)),
    Choice(0.1, WITHOUT_VIEWS, ({"storage": "float32"},)),
    Choice(0.06, "", ({"uninitialized": "zeros"},)),
    Choice(0.02, "", ({"precision": True},)),
    Choice(0.05, "", OF_THE_ESTIMATE),
)


def drawn(draws: Draws, source: str) -> dict[str, Any]:
    """Return random options for a program with this source, usually few or none."""
    found: dict[str, Any] = {}
    for one in CHOICES:
        if draws.chance(one.share) and re.search(one.words, source):
            found |= draws.choose(one.ways)
    return found
