"""The random numbers of the engines: Philox4x32-10, a generator for each lane.

The device has others (shift registers on v2 and v3, XORWOW on v4) of which neither constants nor
seeding is published, so ours are not its numbers. What is known of them holds: the size of a state
(six words, four states per lane on v4's Vector engine), that a seed repeats a sequence, and that a
state that was saved and put back does. Number n of a lane depends on its state and n only, not on
how many are drawn at a time nor on other lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.lazy import Lazy

Array = npt.NDArray[Any]
native: Any = Lazy("neuroncore.native.philox")

WORDS = 6  # of one state (ISA): the counter, four, and the key, two


def seeded(seed: int, core: int, unit: int, lanes: int, streams: int) -> Array:
    """States [lanes, streams, WORDS] that share no numbers, nor do those of another `unit`,
    `core` or seed."""
    states = np.zeros((lanes, streams, WORDS), np.uint32)
    states[..., 2] = np.arange(lanes)[:, np.newaxis]
    states[..., 3] = unit << 24 | np.arange(streams)
    states[..., 4], states[..., 5] = seed, core
    return states


def draw(states: Array, count: int) -> Array:
    """The next `count` numbers of 32 bits of each lane, [lanes, count]; the states move on."""
    numbers = np.empty((len(states), count), np.uint32)
    native.draw(states, numbers)
    return numbers


def uniform(states: Array, count: int) -> Array:
    """The same as float32 in [0, 1): the upper 24 bits of each number, in steps of 2^-24."""
    return (draw(states, count) >> 8).astype(np.float32) * np.float32(2.0**-24)
