"""Statements of two cores that meet, of ranks that exchange data, and of tensors at addresses."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bench.programs.draws import ON_CHIP
from bench.programs.elementwise import STEPS as ELEMENTWISE
from bench.programs.elementwise import operators
from bench.programs.maker import BANK_BYTES, PLACED_BYTES, Maker
from bench.programs.views import SIZES, Tensor, View
from bench.programs.windows import How
from neuroncore import machine


def shared(maker: Maker, shape: tuple[int, ...], form: str, name: bool = False) -> Tensor:
    """Make a tensor in HBM that both cores of a rank share. Other ranks may read it."""
    made = Tensor(maker.name("s"), "hbm", shape, form)
    named = f", name={made.name!r}" if name else ""
    given = f"{shape}, dtype=nl.{form}, buffer=nl.shared_hbm{named}"
    maker.say(f"{made.name} = nl.ndarray({given})", makes=made.name)
    return made


def part(tensor: Tensor, other: bool = False) -> View:
    """Return the part of a tensor [cores, ...] that belongs to the current core, or with `other` to
    the other core."""
    whole = tensor.whole()
    apart = prod(tensor.shape[1:]) * whole.size
    if other:
        return replace(whole, text=f"{whole.text}[1 - core]", at=whole.at[1], apart=-apart)
    return replace(whole, text=f"{whole.text}[core]", at=whole.at[0], apart=apart)


def fill_shared(maker: Maker, tensor: Tensor) -> None:
    """Fill a tensor from tiles. If there are two cores, each fills its half of the first axis."""
    own = tensor.whole()
    if maker.cores > 1:
        half = tensor.shape[0] // 2
        apart = half * prod(tensor.shape[1:]) * own.size
        text = f"{own.text}[core * {half} : core * {half} + {half}]"
        own = replace(own, text=text, at=own.at[:half], apart=apart)
    lanes, free = own.shape[0], own.free
    src = maker.to_read(lanes, free, (own.form,), anywhere=True)
    maker.issue("nisa.dma_copy", dst=own, src=src)
    meet(maker, tensor)


def meet(maker: Maker, tensor: Tensor) -> None:
    """Add a barrier, after which both cores of a rank have written their parts of a tensor."""
    if maker.cores > 1:
        engine = maker.choose(("gpsimd", "vector", "scalar", "tensor", "sync"))
        more = f", engine=nisa.engine.{engine}" if maker.chance(0.3) else ""
        maker.say(f"nisa.core_barrier({tensor.name}, (0, 1){more})", kinds=["core barrier"])


# --- two cores ------------------------------------------------------------------------------------


def barrier(maker: Maker) -> None:
    """Let each core read the data that the other core has written."""
    lanes, free = maker.size()
    form = maker.form()
    tensor = shared(maker, (2, lanes, free), form)
    src = maker.to_read(lanes, free, maker.forms, anywhere=True)
    maker.issue("nisa.dma_copy", dst=part(tensor), src=src)
    meet(maker, tensor)
    dst = maker.to_write(lanes, free, maker.forms, anywhere=True)
    maker.issue("nisa.dma_copy", dst=dst, src=part(tensor, other=True))


def sendrecv(maker: Maker) -> None:
    lanes, free = maker.size()
    form = (maker.form(),)
    src, dst = maker.to_read(lanes, free, form), maker.to_write(lanes, free, form)
    if dst.tensor is src.tensor:
        dst = maker.new("sbuf", (lanes, free), form[0])
    most = machine.load(maker.target).limits.gpsimd_dma_elements
    small = src.free <= most and maker.chance(0.4)
    maker.issue(
        "nisa.sendrecv", src=src, dst=dst, send_to_rank="1 - core", recv_from_rank="1 - core",
        pipe_id=str(maker.between(0, 1)),
        **{"dma_engine": "nisa.dma_engine.gpsimd_dma"} if small else {},
    )  # fmt: skip


def parts_of_both(maker: Maker) -> None:
    """Let one core or both write and read parts of a shared tensor, with few barriers in between.
    Every write writes the numbers that the tensor already has, so the order of the cores has no
    effect."""
    lanes, free = maker.between(1, 8), maker.between(4, 24)
    form = maker.form()
    numbers, tensor = maker.given((lanes, free), form), shared(maker, (lanes, free), form)
    maker.say(f"if core == 0:\n    nisa.dma_copy(dst={tensor.name}, src={numbers.text})")
    tensor.written[:] = True
    meet(maker, tensor)
    sizes = [(maker.between(1, lanes), maker.between(1, free)) for _ in range(2)]
    windows = [maker.window(tensor.whole(), *size, How(anywhere=True)) for size in sizes]
    for _ in range(maker.between(3, 6)):
        there = maker.choose(windows)
        if maker.chance(0.5):
            text = numbers.text + there.text.removeprefix(tensor.name)
            one = {"dst": there, "src": replace(there, tensor=numbers.tensor, text=text)}
        else:
            dst = maker.to_write(there.lanes, there.free, maker.forms, written=True, anywhere=True)
            one = {"dst": dst, "src": there}
            maker.wrote(dst)
        call = f"nisa.dma_copy(dst={one['dst'].text}, src={one['src'].text})"
        who, kinds = maker.choose(("", "if core == 0:\n    ", "if core == 1:\n    ")), SAME_BYTES
        maker.say(who + call, None, kinds, [one], who.count("\n"))
        if maker.chance(0.4):
            meet(maker, tensor)


SAME_BYTES = ("cores that use the same bytes",)
TWO_CORES = ((barrier, 3), (sendrecv, 3), (parts_of_both, 5))
IN_PLACE = 0.3  # share of collectives that write results to their sources, if they may


# --- ranks ----------------------------------------------------------------------------------------


def replica_group(maker: Maker) -> tuple[str, int]:
    """Return the text of groups of ranks, and the number of ranks in a group."""
    ranks = [*range(maker.ranks)]
    if maker.ranks == 4 and maker.target != "trn1" and maker.chance(0.4):
        return f"ncc.ReplicaGroup({[ranks[:2], ranks[2:]]})", 2
    if maker.chance(0.3) and maker.target != "trn1":
        maker.random.shuffle(ranks)
    return f"ncc.ReplicaGroup({[ranks]})", maker.ranks


def operands(
    maker: Maker, sizes: tuple[int, int], chip: bool, count: int = 1, dim: int = 0,
    forms: tuple[str, ...] = (),
) -> list[View]:  # fmt: skip
    """Return `count` sources and a result of a collective, as tiles in SBUF (`chip`) or tensors in
    HBM. A source has sizes[0] pieces along axis `dim`, and the result has sizes[1]."""
    form = forms[0] if forms else maker.form()
    many = 2 if maker.cores > 1 else 1
    lanes, free = many * maker.between(1, 8), maker.columns(17)
    pieces = (*[sizes[0]] * count, sizes[1])
    shapes = [(lanes, n * free) if dim else (n * lanes, free) for n in pieces]
    if chip:
        tiles = [maker.fill(maker.new("sbuf", shape, form)) for shape in shapes[:-1]]
        return [*tiles, maker.new("sbuf", shapes[-1], form)]
    tensors = [shared(maker, shape, form, name=True) for shape in shapes]
    for one in tensors[:-1]:
        fill_shared(maker, one)
    return [one.whole() for one in tensors]


def exchange(
    maker: Maker, name: str, sizes: tuple[int, int], chip: bool = False, **given: str
) -> None:
    """Issue a collective with one or two sources, and read its results. `sizes` are as in
    `operands`."""
    dim = int(given.get("collective_dim", "0"))
    pairs = [operands(maker, sizes, chip, dim=dim)]
    if not chip and name != "collective_permute" and maker.chance(0.3):
        pairs.append(operands(maker, sizes, chip, 1, dim, (pairs[0][0].form,)))
    srcs, dsts = ([*many] for many in zip(*pairs))
    if sizes[0] == sizes[1] and maker.chance(IN_PLACE):
        dsts = srcs
    maker.issue(f"ncc.{name}", ("dsts",), srcs=srcs, dsts=dsts, **given, kinds=["collective"])
    for dst in dsts:
        collect(maker, dst)


def collect(maker: Maker, dst: View) -> None:
    if not dst.tensor.on_chip and dst.lanes <= 128:
        got = maker.to_write(dst.lanes, dst.free, maker.forms, anywhere=True)
        maker.issue("nisa.dma_copy", dst=got, src=dst)


def joins(maker: Maker) -> str:
    return f"nl.{maker.choose(('add', 'maximum', 'minimum'))}"


def all_reduce(maker: Maker) -> None:
    group, _ = replica_group(maker)
    exchange(maker, "all_reduce", (1, 1), maker.chance(0.4), replica_group=group, op=joins(maker))


def all_gather(maker: Maker) -> None:
    group, count = replica_group(maker)
    chip = maker.chance(0.4)
    dim = str(maker.between(0, int(chip)))
    exchange(maker, "all_gather", (1, count), chip, replica_group=group, collective_dim=dim)


def reduce_scatter(maker: Maker) -> None:
    group, count = replica_group(maker)
    given = {"replica_group": group, "collective_dim": "0", "op": joins(maker)}
    exchange(maker, "reduce_scatter", (count, 1), maker.chance(0.4), **given)


def all_to_all(maker: Maker) -> None:
    """Issue an all_to_all, which needs all ranks of a chip: two ranks of one core on trn1, four
    ranks of two cores on other machines."""
    if maker.ranks != (2 if maker.target == "trn1" else 4) or maker.cores != (
        1 if maker.target == "trn1" else 2
    ):
        return
    group = f"ncc.ReplicaGroup({[[*range(maker.ranks)]]})"
    sizes = maker.ranks, maker.ranks
    exchange(maker, "all_to_all", sizes, replica_group=group, collective_dim="0")


def collective_permute(maker: Maker) -> None:
    ranks = [*range(maker.ranks)]
    maker.random.shuffle(ranks)
    pairs = [[one, other] for one, other in zip(ranks, [*ranks[1:], ranks[0]])]
    exchange(maker, "collective_permute", (1, 1), source_target_pairs=str(pairs))


def implicit(maker: Maker) -> None:
    """Issue one step around the rings of one or two channels, in some programs with a reduction,
    and read the results."""
    group, count = replica_group(maker)
    chip, reduces, channels = maker.chance(0.4), maker.chance(0.5), maker.choose((1, 1, 2))
    form = (maker.form(),)
    rows = [operands(maker, (1, 1), chip, 1 + reduces, 0, form) for _ in range(channels)]
    name = "ncc.collective_permute_implicit"
    keys = ("srcs", "others", "dsts") if reduces else ("srcs", "dsts")
    tensors = dict(zip(keys, zip(*rows)))
    if maker.chance(IN_PLACE):
        tensors["dsts"] = tensors["srcs"]
    lists = [f"[{', '.join(f'[{one.text}]' for one in many)}]" for many in tensors.values()]
    more = f", {joins(maker)}" if reduces else ""
    ids = [*range(channels)]
    more += f", channel_ids={ids}" if channels > 1 else ""
    views = {f"{key}[{i}]": one for key, many in tensors.items() for i, one in enumerate(many)}
    text = f"{name}{'_reduce' * reduces}({', '.join(lists)}, {group}{more})"
    maker.say(text, None, ["collective"], [views])
    for dst in tensors["dsts"]:
        maker.wrote(dst)
        collect(maker, dst)
    whose, step = maker.name("r"), maker.between(0, 2 * count)
    told = f"{step}, {group}" + (f", {maker.choose(ids)}" if channels > 1 else "")
    maker.say(f"{whose} = {name}_current_processing_rank_id({told})", makes=whose)
    store(maker, whose)


def rank_id(maker: Maker) -> None:
    name = maker.name("r")
    maker.say(f"{name} = ncc.rank_id()", makes=name)
    store(maker, name)


def store(maker: Maker, name: str) -> None:
    dst = maker.to_write(1, 1, ("int32", "float32"), flat=True)
    maker.issue("nisa.register_store", dst=dst, src=name)


def of_lengths(maker: Maker) -> None:
    """Send parts of a tensor to all ranks, where only a tile of lengths says how many elements each
    part has: all_gather_v between 4 ranks, or all_to_all_v between 8 ranks of trn3. Add nothing if
    the program has another number of ranks, or ranks of one core."""
    if maker.cores != 2 or maker.target == "trn1":
        return
    name = "all_gather_v" if maker.ranks == 4 else "all_to_all_v"
    if maker.ranks != 4 and (maker.target != "trn3" or maker.ranks != 8):
        return
    form, most = maker.form(), maker.between(1, 5)
    src, dst = (shared(maker, (n * most,), form, name=True) for n in (4, 2 * maker.ranks))
    displaced = name == "all_to_all_v" and maker.chance(0.5)
    rows = 3 + displaced  # the last row has the positions for received elements
    lengths = shared(maker, (rows, maker.ranks), "uint32", name=True)
    group = f"ncc.ReplicaGroup({[[*range(maker.ranks)]]})"
    metadata = maker.known_input((rows, maker.ranks), most, "uint32")
    for tensor, source in ((src, maker.given(src.shape, form)), (lengths, metadata)):
        apart = tensor.shape[0] // 2 if tensor is src else 0
        if apart:
            text = f"[core * {apart} : core * {apart} + {apart}]"
            own, other = (one.whole() for one in (tensor, source.tensor))
            views = [
                replace(one, text=one.text + text, at=one.at[:apart], apart=apart * one.size)
                for one in (own, other)
            ]
            maker.issue("nisa.dma_copy", dst=views[0], src=views[1])
        else:
            condition = "if core == 0:\n    "
            maker.say(f"{condition}nisa.dma_copy(dst={tensor.name}, src={source.text})")
        meet(maker, tensor)
    before = maker.given(dst.shape, form)
    maker.say(f"if core == 0:\n    nisa.dma_copy(dst={dst.name}, src={before.text})")
    meet(maker, dst)
    known = f", recv_counts_known={maker.chance(0.5)}{', has_rdispls=True' * displaced}"
    tensors = f"[{src.name}], [{dst.name}], {group}, {lengths.name}"
    maker.say(f"ncc.{name}({tensors}{known})", kinds=["collective"])
    got = maker.new("sbuf", (1, dst.shape[0]), form)
    maker.issue("nisa.dma_copy", dst=got, src=dst.whole())


RANKS = (
    *((all_reduce, 1), (all_gather, 1), (reduce_scatter, 1), (collective_permute, 1)),
    *((implicit, 2), (rank_id, 0.5)),
)
RANKS_OF_TWO = ((all_to_all, 1), (of_lengths, 3), (all_reduce, 0.5), (all_gather, 0.5))
MANY_RANKS = ((of_lengths, 4), (all_reduce, 0.5), (all_gather, 0.5))
RANKS_OF_ONE = (*RANKS, (all_to_all, 0.7))


# --- tensors at addresses -------------------------------------------------------------------------


def placed(maker: Maker) -> None:
    """Make tensors in other shapes and formats at addresses where they share bytes, and use
    them."""
    region = maker.choose(ON_CHIP)
    lanes = maker.choose((32, 64, 128, maker.between(1, 32)))
    psum = region == "psum"
    most = BANK_BYTES if psum else PLACED_BYTES
    place, row = 0 if psum else 64 * maker.between(0, 8), 4 * maker.between(1, 120)
    found = []
    for _ in range(maker.between(2, 3)):
        form = maker.choose(("float32", "bfloat16", "int32", "uint8", "float8_e5m2"))
        inside = 0 if psum else 4 * maker.between(0, row // 4 - 1)
        wide = min(row - inside, most - place - inside) // SIZES[form]
        height = lanes if maker.chance(0.6) else maker.between(1, lanes)
        found.append(maker.new(region, (height, max(1, wide)), form, (0, place + inside)))
        if len(found) == 1:
            maker.fill(found[0])
    (added if psum else overlapping)(maker, found)
    for step in maker.random.choices(*zip(*ELEMENTWISE), k=2):
        step(maker)


def overlapping(maker: Maker, found: list[View]) -> None:
    """Issue an instruction with two steps. Its second step reads bytes that the instruction
    writes."""
    lanes, free = (min(getattr(one, size) for one in found) for size in ("lanes", "free"))
    dst = maker.window(maker.choose(found), lanes, free)
    other = maker.window(maker.choose(found), lanes, free, How(reads=True))
    if not other.is_written():
        return
    given = {f"op{i}": f"nl.{maker.choose(operators(maker))}" for i in (0, 1)}
    given |= {"operand0": maker.number()}
    data = maker.to_read(lanes, free, maker.forms)
    maker.issue("nisa.scalar_tensor_tensor", dst=dst, data=data, **given, operand1=other)


def added(maker: Maker, found: list[View]) -> None:
    """Add products to one of the tensors `found`, and then read another one."""
    sums = [one for one in found if one.form == "float32"]
    if not sums:
        return
    dst, other, rows = maker.choose(sums), maker.choose(found), maker.choose((8, 32, 33))
    for _ in range(maker.between(1, 3)):
        operands = (maker.to_read(rows, n, ("bfloat16",), flat=True) for n in (dst.lanes, dst.free))
        given = dict(zip(("stationary", "moving"), operands))
        maker.issue("nisa.nc_matmul", dst=dst, **given)
    if other.is_written():
        into = maker.to_write(other.lanes, other.free, maker.forms)
        maker.issue("nisa.tensor_copy", dst=into, src=other)


PLACES = ((placed, 0.9),)
