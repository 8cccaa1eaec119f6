"""The arguments of a kernel: arrays of the host, annotations, and the arguments of several ranks.

An annotation is for example `x: nt.tensor[[128, 512], nl.float32]`. `Arguments` is a pair: the
positional arguments, and a dict of the arguments by name.

If several ranks are passed one array, each rank gets a copy. Copies of a large array are mappings
of one file, so that the operating system copies only the pages that a rank writes."""

from __future__ import annotations

import copy
import inspect
import mmap
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from neuroncore.base import buffers
from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.memory import access
from neuroncore.memory.tile import Tile
from neuroncore.numerics.libraries import as_numpy, library
from neuroncore.record.inputs import Setting, like

if TYPE_CHECKING:
    from neuroncore.base import syntax
else:
    syntax = Lazy("neuroncore.base.syntax")

Array = npt.NDArray[Any]


class Annotation:
    """An annotation of a parameter, such as nt.tensor. Three forms in brackets have a meaning:
    `mutable`, the sizes of a tensor, and a pair (list of sizes, format). All others are accepted
    too.

    It can be part of a union such as `nt.tensor | None`. Every tensor of a kernel is an instance of
    it."""

    def __init__(self, name: str, shape: tuple[int, ...] = (), dtype: Any = None) -> None:
        self.__name__ = name
        self.shape, self.dtype = shape, dtype

    def __getitem__(self, parameters: Any) -> Annotation:
        items = parameters if isinstance(parameters, tuple) else (parameters,)
        if any(item is mutable for item in items):
            return mutable_tensor
        if len(items) == 2 and isinstance(items[0], list | tuple):
            return Annotation(self.__name__, tuple(items[0]), items[1])
        if all(isinstance(item, int) for item in items):
            return Annotation(self.__name__, items)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Annotation:
        return self

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - X | Y would call this method

    __ror__ = __or__

    def __instancecheck__(self, value: object) -> bool:
        return self.__subclasscheck__(type(value))

    def __subclasscheck__(self, cls: type) -> bool:
        return "tensor" in self.__name__ and issubclass(cls, Tile)

    def __repr__(self) -> str:
        return f"nki.typing.{self.__name__}"


tensor = Annotation("tensor")
mutable_tensor = Annotation("mutable_tensor")
scalar = Annotation("scalar")
mutable = Annotation("mutable")


def by_name(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by the names of their parameters; {} if they don't fit.

    If `function` wraps another function, as a decorator does, the wrapped function is tried
    first."""
    for wrapped in (True, False):
        signature = inspect.signature(function, follow_wrapped=wrapped)
        with suppress(TypeError):
            return signature.bind(*args, **kwargs).arguments
    return {}


def disagreements(function: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[Finding]:
    """Yield findings for arguments whose shape differs from the annotation of their parameter."""
    declared = getattr(function, "__annotations__", {})
    if not any(isinstance(hint, Annotation) and hint.shape for hint in declared.values()):
        return
    arguments = by_name(function, args, kwargs)
    for name, hint in declared.items():
        shape = tuple(getattr(arguments.get(name), "shape", ()))
        if isinstance(hint, Annotation) and hint.shape and shape and hint.shape != shape:
            place = syntax.parameter(inspect.unwrap(function).__code__, name)
            message = f"{name} has the shape {shape}, but its annotation declares {hint.shape}"
            yield Finding("ANNOTATION_SHAPE", message, place)


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def of_a_rank(arguments: Any) -> Arguments:
    """Return the Arguments of one rank from a dict by name, or from a list or tuple. Raises
    UsageError for other values."""
    if isinstance(arguments, Mapping):
        return (), dict(arguments)
    if isinstance(arguments, list | tuple):
        return tuple(arguments), {}
    raise UsageError(
        "the arguments of a rank must be a list, a tuple, or a dict by name, not "
        f"{type(arguments).__name__}"
    )


def with_rank(function: Callable[..., Any], arguments: Arguments, rank: int) -> Arguments:
    """Return the Arguments of a call on one rank. If the function has a parameter `rank` without an
    argument, add the rank's number."""
    args, named = arguments
    try:
        parameters = list(inspect.signature(function).parameters)
    except ValueError:  # a function written in C may have no signature
        return arguments
    if "rank" not in parameters or "rank" in named or "rank" in parameters[: len(args)]:
        return arguments
    return args, {**named, "rank": rank}


def referred(reference: Callable[..., Any], arguments: Arguments, rank: int | None) -> Any:
    """Return the results of a reference function for the arguments of a rank. Without `rank`,
    return a list for the ranks in `arguments[0]`."""
    if rank is None:
        return [referred(reference, part, number) for number, part in enumerate(arguments[0])]
    args, named = with_rank(reference, arguments, rank)
    return reference(*args, **named)


UNCHANGING = frozenset({int, float, bool, str, type(None)})


def copied(arguments: Arguments, but: Sequence[Array] = ()) -> Arguments:
    """Return a copy of the arguments, except the arrays in `but`. Raises UsageError for an argument
    that can't be copied."""
    # Large arrays are copied to recycled memory. Allocating fresh memory would take longer than a
    # launch that only moves data.
    memo, values = {id(array): array for array in but}, leaves(list(arguments))
    for value in values:
        if type(value) is np.ndarray and id(value) not in memo and _is_plain(value):
            memo[id(value)] = buffers.copied(value)
    if all(id(value) in memo or type(value) in UNCHANGING for value in values):
        args, kwargs = (replaced(part, lambda x: memo.get(id(x), x)) for part in arguments)
        return args, kwargs
    try:
        return copy.deepcopy(arguments, memo)
    except TypeError as error:
        raise UsageError(f"the kernel's arguments can't be copied: {error}") from None


def _is_plain(array: Array) -> bool:
    return array.flags.c_contiguous and not array.dtype.hasobject


GROUPS = dict, list, tuple


def leaves(value: Any) -> list[Any]:
    """Return the values inside nested dicts, lists and tuples, in their order."""
    if not isinstance(value, GROUPS):
        return [value]
    values: list[Any] = []
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, GROUPS):
            values += leaves(item)
        else:
            values.append(item)
    return values


NO_ARRAYS = np.generic, Tile, type


def is_host_array(value: Any) -> bool:
    """Return whether a value is an array of numpy, torch or a similar library. Return False for
    numbers and for tensors of a kernel."""
    return hasattr(value, "__array__") and not isinstance(value, NO_ARRAYS)


def arrays_in(value: Any) -> list[Array]:
    """Return the arrays inside nested dicts, lists and tuples as numpy arrays, in their order."""
    return [as_numpy(leaf) for leaf in leaves(value) if hasattr(leaf, "dtype")]


def by_rank(setting: Setting, arrays: Sequence[Array]) -> Arguments:
    """Return the input arrays of a record as Arguments. If there are several ranks, the positional
    arguments are the Arguments of each rank."""
    if setting.world.ranks == 1:
        return tuple(arrays), {}
    rank_of = {entry.name: entry.rank for entry in setting.inputs}
    numbered = list(zip((rank_of[name] for name in setting.arrays), arrays, strict=True))
    ranks = range(setting.world.ranks)
    return tuple((tuple(array for n, array in numbered if n == rank), {}) for rank in ranks), {}


SMALL = 1 << 16  # arrays of fewer bytes are simply copied


def separated(per_rank: Sequence[Arguments]) -> list[Arguments]:
    """Return the arguments of all ranks, with copies of arrays that several ranks share. Other
    arrays remain the caller's, so that the kernel's writes appear there."""
    arrays = {id(value): as_numpy(value) for value in leaves(list(per_rank)) if is_array(value)}
    shared = _in_several(per_rank, arrays)
    with ExitStack() as files:
        copies = {n: _Copies(arrays[n], files) for n in shared}
        return [_with_copies(arguments, copies) for arguments in per_rank]


def _with_copies(arguments: Arguments, copies: dict[int, _Copies]) -> Arguments:
    """Return the Arguments of one rank, with copies of the arrays whose ids are in `copies`. A copy
    is an array of the original's library. An array that is passed twice is copied once."""
    copied_arrays: dict[int, Any] = {}

    def copy_of(value: Any) -> Any:
        if id(value) in copies and id(value) not in copied_arrays:
            made_by, array = library(value), copies[id(value)].another()
            copied_arrays[id(value)] = made_by.from_numpy(array) if made_by else array
        return copied_arrays.get(id(value), value)

    args, kwargs = (replaced(part, copy_of) for part in arguments)
    return args, kwargs


def is_array(value: Any) -> bool:
    """Return whether a value is an array of the host, of any library."""
    return is_host_array(value) or library(value) is not None


def _in_several(per_rank: Sequence[Arguments], arrays: dict[int, Array]) -> set[int]:
    """Return the ids of the arrays whose memory is passed, at least in part, to several ranks.
    `arrays` maps ids to arrays."""
    ranks: dict[int, set[int]] = {n: set() for n in arrays}
    for rank, arguments in enumerate(per_rank):
        for value in leaves(list(arguments)):
            if id(value) in ranks:
                ranks[id(value)].add(rank)
    several = {n for n, users in ranks.items() if len(users) > 1}
    before: list[tuple[int, int]] = []  # (end, id) of arrays that begin at lower addresses
    for (low, high), n in sorted((span(array), n) for n, array in arrays.items() if array.size):
        before = [(end, other) for end, other in before if end > low]
        overlaps = [other for _, other in before if len(ranks[n] | ranks[other]) > 1]
        several.update([n, *overlaps] if overlaps else ())
        before.append((high, n))
    return several


def span(array: Array) -> tuple[int, int]:
    """Return the address of an array's first byte, and the address after its last byte."""
    start = int(array.__array_interface__["data"][0])
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    low, high = access.extent(array.shape, array.strides)
    return start + low, start + high + array.itemsize


def owns(array: Any) -> bool:
    """Return whether an array allocated its memory. Two such arrays never share memory."""
    return type(array) is np.ndarray and array.flags.owndata


def may_overlap(array: Array, other: Array) -> bool:
    """Return whether the addresses of two arrays overlap."""
    apart = array is not other and owns(array) and owns(other)
    return not apart and np.may_share_memory(array, other)


class _Copies:
    """The contents of an array, from which separate copies of the array can be made."""

    def __init__(self, array: Array, files: ExitStack) -> None:
        self.array, self.files = array, files
        self.file: Any = None

    def another(self) -> Array:
        """Return a new copy. Copies of a large array are mappings of one file: they share the pages
        that no copy has written."""
        if self.array.nbytes < SMALL:
            return self.array.copy()
        if self.file is None:
            self.file = self.files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 it is a context
            self.file.write(np.ascontiguousarray(self.array).view(np.uint8).data)
            self.file.flush()
        pages = mmap.mmap(self.file.fileno(), self.array.nbytes, access=mmap.ACCESS_COPY)
        return np.frombuffer(pages, self.array.dtype).reshape(self.array.shape)


def replaced(value: Any, by: Callable[[Any], Any]) -> Any:
    """Return a copy of nested dicts, lists and tuples, with each value x in them replaced by
    `by(x)`."""
    if isinstance(value, dict):
        return {key: replaced(item, by) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return like(value, [replaced(item, by) for item in value])
    return by(value)
