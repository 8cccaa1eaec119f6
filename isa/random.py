"""Random numbers, of the generators that the lanes of the Vector and the GpSimd engine have."""

from __future__ import annotations

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.base.errors import OperatorError
from neuroncore.clause import arithmetic as numeric
from neuroncore.clause import cost
from neuroncore.clause.instruction import instruction, require
from neuroncore.clause.usual import In, Number, Out, Single
from neuroncore.core import engines
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile

from .words import gpsimd as words

vector, gpsimd = engine.vector, engine.gpsimd


@instruction(vector, gpsimd, shapes="dst: P F", cost=words.generating, rules=[words.RNG_ENGINES])
def rng(dst: words.Integers, engine: engine = vector, *, core: Core) -> None:
    """dst[p, f] = the lowest bits of the next 32-bit random number of lane p"""
    bits = engines.draw(core, engine, dst).astype(dst.dtype.code_type)
    dst.codes()[...] = bits.view(dst.dtype.storage).reshape(dst.shape)


@instruction(
    vector, shapes="dst: P F; min max: P 1", cost=words.generating, feature="uniform_random"
)
def rand2(dst: words.Uniform, min: Single, max: Single, *, core: Core) -> None:
    """dst[p, f] = min[p] + u * (max[p] - min[p]), u uniform in [0, 1)

    u takes the upper 24 bits of a random number. Each operation rounds to float32, so that max
    itself is possible.
    """
    require(
        isinstance(min, Tile) or isinstance(max, Tile) or min < max,
        f"rand2: min is {min}, max is {max}",
        OperatorError,
        argument="min",
        expected="min < max",
        got=f"{min} and {max}",
    )
    out = engines.uniform(core, vector, dst)
    low, high = numeric.scalar(min, out), numeric.scalar(max, out)
    out *= high - low
    out += low
    dst.store(out)


@instruction(vector, shapes="dst data: P F; prob: P 1", cost=cost.streaming(), rules=words.DROPOUT)
def dropout(dst: Out, data: In, prob: Number, *, core: Core) -> None:
    """dst[p, f] = 0 if u < prob[p] else data[p, f], u uniform in [0, 1)

    Elements that are kept are not scaled; their bits stay.
    """
    require(
        isinstance(prob, Tile) or 0 <= prob <= 1,
        f"dropout: {prob} is not a probability",
        OperatorError,
        argument="prob",
        expected="0 to 1",
        got=str(prob),
    )
    codes = numeric.shaped(data.codes(), dst.shape)
    u = engines.uniform(core, vector, dst)
    dropped = u < numeric.scalar(prob, u)
    dst.codes()[...] = np.where(dropped, codes.dtype.type(0), codes)


@instruction(vector, shapes="src_seeds: 1 1", cost=cost.streaming())
def set_rng_seed(src_seeds: words.Seed, *, core: Core) -> None:
    """all lanes of the Vector engine start again from the seed src_seeds[0, 0]"""
    engines.seed(core, vector, int(src_seeds.codes().view(np.uint32).flat[0]))


@instruction(
    gpsimd,
    vector,
    cost=cost.streaming(),
    rules=[words.STATE_ENGINES, words.states_of_a_lane("src_seeds")],
    feature="gpsimd_random",
    example="src_seeds=128 6",
)
def rand_set_state(src_seeds: words.StateIn, engine: engine = gpsimd, *, core: Core) -> None:
    """state[p] = src_seeds[p, :], 6 words for the GpSimd engine, 4 x 6 for the Vector engine"""
    states = engines.states(core, engine, src_seeds)
    states[...] = src_seeds.codes().reshape(states.shape)


@instruction(
    gpsimd,
    vector,
    cost=cost.streaming(),
    rules=[words.STATE_ENGINES, words.states_of_a_lane("dst")],
    feature="gpsimd_random",
    example="dst=128 6",
)
def rand_get_state(dst: words.StateOut, engine: engine = gpsimd, *, core: Core) -> None:
    """dst[p, :] = state[p], 6 words of the GpSimd engine, 4 x 6 of the Vector engine"""
    dst.codes()[...] = engines.states(core, engine, dst).reshape(dst.shape)
