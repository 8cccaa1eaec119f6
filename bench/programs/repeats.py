"""Instructions that are issued again, unchanged or with one change. Data that was cached for the
first instruction must be correct for the second one, or be computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.programs import picks
from bench.programs.draws import NUMBERS
from bench.programs.maker import Maker
from bench.programs.views import View

BOUNDED = ("min", "max", "prob")  # arguments that do not accept every number
REVERSED = ("reverse0", "reverse1")
FLAGS = {
    **dict.fromkeys(("nisa.tensor_scalar", "nisa.scalar_tensor_tensor"), REVERSED),
    **dict.fromkeys(("nisa.tensor_tensor_scan", "nisa.activate2"), REVERSED),
    **dict.fromkeys(("nisa.tensor_copy_predicated", "nisa.select_reduce"), ("reverse_pred",)),
    "nisa.tensor_scalar_reduce": ("reduce_res_negate",),
}
OPPOSITE = {"0.0": "-0.0", "np.float32(0.0)": "np.float32(-0.0)"}
OPPOSITE |= {zero: other for other, zero in OPPOSITE.items()}
SCALED = ("nisa.activation", "nisa.activation_reduce")


def again(maker: Maker) -> None:
    """Issue an instruction again, usually after a change of one of its inputs. A product may also
    be issued again with another width."""
    if not maker.issued:
        return
    name, writes, given = maker.choose(maker.issued[-8:])
    for _ in range(maker.choose((1, 1, 2))):
        read = [key for key, one in given.items() if isinstance(one, View) and key not in writes]
        if read and maker.chance(0.6):
            touch(maker, given[maker.choose(read)])
        elif name == "nisa.nc_matmul" and "perf_mode" not in given and "is_transpose" not in given:
            given = _other_width(maker, given)
        kinds = ["the same instruction again"]
        maker.issue(name, writes, **{**given, "kinds": kinds})


def touch(maker: Maker, view: View, share: float = 0.25) -> None:
    """Write all of a tensor or a part of it. On trn3, the part may be elements that an index
    selects, with the probability `share`."""
    tensor = view.tensor
    if tensor.constant or not tensor.on_chip:
        return
    whole = tensor.whole()
    if whole.form not in (*maker.forms, "tfloat32"):
        return
    lanes = maker.between(1, min(32, whole.lanes)) if maker.chance(0.3) else whole.lanes
    free = whole.free if maker.chance(0.5) else maker.between(1, whole.free)
    dst = maker.window(whole, lanes, free)
    if maker.target == "trn3" and maker.chance(share) and _may_be_picked(whole):
        lanes = whole.lanes
        free = min(free, lanes % picks.GROUP or free)
        dst = picks.of(maker, whole, free)
    if maker.chance(0.5) and not dst.picked:
        maker.issue("nisa.memset", dst=dst, value=maker.value(dst.form))
    else:
        src = maker.to_read(lanes, free, maker.forms)
        maker.issue("nisa.tensor_copy", dst=dst, src=src)


def other_numbers(maker: Maker) -> None:
    """Issue an instruction again with other constants. An activation without a scale gets a
    scale."""
    known = [
        one for one in maker.issued if one[0] in SCALED or any(map(_is_number, one[2].items()))
    ]
    if not known:
        return
    name, writes, given = maker.choose(known)
    more = {"scale": "1.0"} if name in SCALED and "scale" not in given else {}
    changed = filter(_is_number, {**given, **more}.items())
    numbers = {key: _other(maker, number) for key, number in changed}
    maker.issue(name, writes, **{**given, **numbers}, kinds=["another number"])


def _other(maker: Maker, number: str) -> str:
    """Return the text of another number. For a zero, it is often the zero with the other sign."""
    opposite = OPPOSITE.get(number)
    return opposite if opposite and maker.chance(0.5) else maker.number()


def other_flag(maker: Maker) -> None:
    """Issue an instruction again with one of its flags changed, and again with the next flag
    changed too. A flag swaps the operands of an operator, negates a result, or reverses a
    predicate."""
    known = [(one, flags) for one in maker.issued if (flags := [*_flags(*one)])]
    if not known:
        return
    (name, writes, given), flags = maker.choose(known)
    maker.random.shuffle(flags)
    for flag in flags:
        given = {**given, flag: "False" if given.get(flag) == "True" else "True"}
        maker.issue(name, writes, **given, kinds=["another flag"])


def _flags(name: str, writes: tuple[str, ...], given: dict[str, Any]) -> Iterator[str]:
    """Yield the flags of an instruction that may be changed. A flag that swaps operands needs an
    operator with two operands."""
    for flag in FLAGS.get(name, ()):
        number = flag[-1]
        there = given.get(f"op{number}") not in (None, "nl.bypass")
        if not number.isdigit() or (there and given.get(f"operand{number}") != "None"):
            yield flag


def _is_number(argument: tuple[str, Any]) -> bool:
    """Return whether an argument (name, text) is a number that any other number may replace."""
    key, value = argument
    return isinstance(value, str) and value in NUMBERS and key not in BOUNDED


def _may_be_picked(view: View) -> bool:
    """Return whether an index may select elements of a tensor: it is in SBUF, the kernel did not
    choose its address, and all of it was written."""
    return view.tensor.region == "sbuf" and view.tensor.places is None and view.is_written()


def _other_width(maker: Maker, given: dict[str, Any]) -> dict[str, Any]:
    """Return the operands of a product with another, narrower moving tile."""
    stationary, moving, dst = (given[key] for key in ("stationary", "moving", "dst"))
    if moving.free < 2:
        return given
    free = min(maker.columns(), moving.free)
    narrow = maker.to_read(moving.lanes, free, (moving.form,), flat=True)
    into = maker.to_write(stationary.free, free, (dst.form,), ("psum",))
    if into.tensor.region != "psum":
        return given
    return {"dst": into, "stationary": stationary, "moving": narrow}


STEPS = ((again, 5.5), (other_numbers, 5.2), (other_flag, 6))
