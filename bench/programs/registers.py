"""Registers whose values are set, loaded, moved, or computed from others."""

from __future__ import annotations

from typing import Any

Maker = Any  # `bench.programs.maker.Maker`, which imports this module

LARGEST = 1000  # the largest number in a register


def made(maker: Maker, high: int) -> tuple[str, int]:
    """Return the name of a register, and its value, which is at most `high`. The value may differ
    when the program runs on other inputs, but is then at most `high` too."""
    return _computed(maker, high) if maker.chance(0.35) else held(maker, high)


def held(maker: Maker, high: int) -> tuple[str, int]:
    """Return the name and the value of a register that an instruction sets."""
    name, draw = maker.name("r"), maker.random.random()
    if draw < 0.4:
        number = maker.between(0, high)
        maker.say(f"{name} = nisa.register_alloc({number})", makes=name, kinds=["register"])
        return name, number
    maker.say(f"{name} = nisa.register_alloc()", makes=name)
    source = maker.known_input((1, 1), high, maker.choose(("int32", "uint16", "float32")))
    number = int(maker.last_numbers()[0, 0])
    maker.issue("nisa.register_load", (), dst=name, src=source, kinds=["register"])
    if draw < 0.65:
        other = maker.name("r")
        maker.say(f"{other} = nisa.register_alloc(0)", makes=other)
        maker.say(f"nisa.register_move({other}, {name})")
        name = other
    return name, number


def _computed(maker: Maker, high: int) -> tuple[str, int]:
    """Return the name and the value of a register that is computed from one or two others by
    Python's operators."""
    k = maker.between(1, max(1, min(high, 9)))
    ways = [
        *(("{k} - {a}", high, high), ("{a} % {k}", k, LARGEST), ("{a} & {k}", high, LARGEST)),
        *(("{a} // {k}", k, min(LARGEST, k * high)), ("{a} * {k}", k, high // k)),
        *(("{a} >> {k}", 1, min(LARGEST, 2 * high)), ("{a} << {k}", 1, high // 2)),
        *(("{a} + {b}", 0, high // 2), ("{a} * {b}", 0, int(high**0.5))),
    ]
    if high:
        ways += [("{a} < {k}", k, LARGEST), ("{a} >= {b}", 0, high), ("{a} != {k}", k, 2 * k)]
        ways += [("{k} + {a}", k, high - min(k, high))] * (k <= high)
    text, number, most = maker.choose(ways)
    names = {"k": (str(number), number), "a": held(maker, most)}
    if "{b}" in text:
        names["b"] = held(maker, most)
    name = maker.name("r")
    told = text.format(**{key: said for key, (said, _) in names.items()})
    maker.say(f"{name} = {told}", makes=name, kinds=["register"])
    value = eval(text.format(**{key: worth for key, (_, worth) in names.items()}))
    return name, int(value)
