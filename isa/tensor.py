"""The Tensor engine (PE): 128 x 128 multipliers. The stationary tile stays in them, and the moving
tile streams through; sums leave at the bottom into PSUM. The Vector engine can transpose, too."""

from __future__ import annotations

from neuroncore.base.enums import engine, matmul_perf_mode
from neuroncore.clause import cost, product
from neuroncore.clause.instruction import Run, Traits, instruction
from neuroncore.clause.operand import PSUM, In, Out
from neuroncore.core import sums
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile

from .words import tensor as words
from .words.tensor import Accumulator, Input, Mode, Pair

tensor, vector, unknown = engine.tensor, engine.vector, engine.unknown


@instruction(
    engine.tensor,
    shapes="stationary: K G*M<=stationary_free; moving: K G*N; dst: M N",
    given={"G": words.halves},
    cost=cost.dynamic(words.matmul_cost),
    rules=words.MATMUL,
    opcode="MATMUL",
    traits=Traits(multiplies=True),
)
def nc_matmul(
    dst: Accumulator,
    stationary: Input,
    moving: Input,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Pair = (),
    tile_size: Pair = (),
    perf_mode: Mode = matmul_perf_mode.none,
    *,
    core: Core,
) -> Run:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[k, n]

    The sum is a float32 chain from k = 0. It is added to dst if the instruction accumulates.
    double_row takes [K/2, 2, M] and [K/2, 2, N]: the products of k and k + K/2 are added first.
    `Options` can select other sums for float32, and other ways to read operands.
    """
    if is_transpose and core.machine.has("native_transpose"):
        return sums.pass_through
    group = 2 if words.is_double_row(perf_mode) else 1
    run = sums.multiplied(core, dst, stationary, moving, accumulate, group)
    return sums.hinted(run, stationary, is_stationary_onezero, is_moving_onezero)


@instruction(
    engine.tensor,
    shapes=words.SPARSE_PRODUCT,
    given={"R": words.slots},
    cost=cost.dynamic(words.sparse_cost),
    rules=words.SPARSE_MATMUL,
    feature="sparse",
    opcode="MATMUL",
    example="T=32; moving=128 4 512",
    traits=Traits(multiplies=True),
)
def nc_matmul_sparse(
    dst: words.Sum,
    stationary: words.Values,
    moving: words.Values,
    tags: words.Tags,
    pattern: words.Pattern = (4, 16),
    places: words.Places = "partition",
    accumulate: bool | None = None,
    *,
    core: Core,
) -> None:
    """dst[m, n] (+)= sum_k stationary[k, m] * moving[A * (k // A) + a, c, n]

    `pattern` is (A, N): of each N adjacent weights, A are kept. The N moving numbers of such a
    group are in A partitions, with N / A slots each. The tag of weight [k, m], 4 bits of
    tags[k, m // 4], gives its partition `a` in the group and its slot `c`. The tag is
    a * (N / A) + c, or c * A + a if `places` is "slot". Products are summed as in nc_matmul. No
    released API has this instruction (`Options.experimental`).
    """
    s = product.reader(stationary, product.STATIONARY, core.options)(stationary)
    x = words.picked(core, moving.values(), tags, pattern, places)
    sums.accumulated(core, dst, accumulate, words.by_column(core, s, x))


@instruction(
    tensor,
    vector,
    shapes="data: P F; dst: F P",
    cost=words.transpose_cost,
    choose=words.choose,
    rules=words.TRANSPOSE,
    opcode="MATMUL",
    example="F=128; dst=psum bfloat16",
    traits=Traits(transposes=True, weights="data", streams=None),
)
def nc_transpose(dst: Out, data: In, engine: engine = unknown, *, core: Core) -> Run:
    """dst[f, p] = data[p, f]

    From v3 on, the bits are unchanged. On these machines, the Tensor engine may write an 8-bit
    float into an element of 16 bits, whose upper 8 bits become 0. On v2 the Tensor engine
    multiplies by an identity matrix: NaN and infinities spread along their row, -0 becomes +0, and
    an uninitialized element counts as finite.
    """
    exact = engine is vector or core.machine.has("native_transpose") or data.dtype.is_integer
    turn = turned if exact else sums.transposed
    if dst.region is not PSUM:
        return turn
    other_engine = engine is vector

    def run(core: Core, dst: Tile, data: Tile) -> None:
        dst.mark_other_engine(other_engine)
        turn(core, dst, data)

    return run


def turned(core: Core, dst: Tile, data: Tile) -> None:
    sums.put_bits(dst, data.codes().reshape(data.shape[0], -1).T)
