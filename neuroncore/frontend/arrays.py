"""Arrays of the host's libraries: as numpy's into a kernel, and as their own out of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.structs import dataclass
from neuroncore.numerics.formats import lookup

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Library:
    """A library that has arrays of its own; it is asked only after the user has imported it."""

    name: str
    kind: str  # its type of arrays
    taken: Callable[[Any], Array]  # an array of its own, as one of numpy
    given: Callable[[Array], Any]  # one of numpy as its own, or as it is if the format is unknown
    cast: str  # how its users convert an array

    def made(self, value: Any) -> bool:
        """Whether a value is an array of this library."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, getattr(module, self.kind, ()))


def _from_torch(tensor: Any) -> Array:
    """A torch tensor's own memory, by way of integers where numpy lacks its format."""
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():  # which copies what a stand-in's device has
        plain = tensor.detach().cpu()
    if plain.is_floating_point() and plain.itemsize < 4 and plain.dtype != torch.float16:
        form = lookup(plain.dtype)
        as_integers = plain.view(getattr(torch, f"int{form.bits}"))
        return as_integers.numpy().view(form.numpy)  # type: ignore[no-any-return]
    return plain.numpy()  # type: ignore[no-any-return]


def _to_torch(array: Array) -> Any:
    torch = sys.modules["torch"]
    form = lookup(array.dtype)
    if not hasattr(torch, form.name):
        return array
    if not form.is_integer and form.itemsize < 4 and form != "float16":  # numpy itself lacks it
        integers = torch.from_numpy(np.ascontiguousarray(array).view(f"int{form.bits}"))
        return integers.view(getattr(torch, form.name))
    return torch.from_numpy(np.ascontiguousarray(array))


def _to_jax(array: Array) -> Any:
    jax: Any = sys.modules["jax"]
    return jax.numpy.asarray(array) if hasattr(jax.numpy, array.dtype.name) else array


LIBRARIES = (
    Library("torch", "Tensor", _from_torch, _to_torch, ".to(torch.{})"),
    Library("jax", "Array", np.asarray, _to_jax, ".astype(jnp.{})"),
)


def library(value: Any) -> Library | None:
    """The library that a value is an array of; None for numpy's, and for all that is no array."""
    return next((library for library in LIBRARIES if library.made(value)), None)


def as_numpy(value: Any) -> Array:
    """An array of any library as numpy's, in the same memory where the two can share it. Raises
    UsageError for a float of torch's in a format that is none of a NeuronCore's."""
    made_by = library(value)
    return made_by.taken(value) if made_by else np.asarray(value)
