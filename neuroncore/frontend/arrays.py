"""Arrays of the host's libraries: converted to numpy for a kernel, and back for its results."""

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
class ArrayLibrary:
    """A library with its own type of arrays; it is used only after the user has imported it."""

    name: str
    kind: str  # the name of its type of arrays
    taken: Callable[[Any], Array]  # converts its array to numpy
    given: Callable[[Array], Any]  # converts back; unchanged if the format is unknown
    cast: str  # how its users convert an array, for hints

    def made(self, value: Any) -> bool:
        """Return whether a value is an array of this library."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, getattr(module, self.kind, ()))


def _from_torch(tensor: Any) -> Array:
    """Return a numpy array on a torch tensor's memory, by a view as integers if numpy lacks its
    format."""
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():  # which copies tensors of a stand-in's device
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
    if not form.is_integer and form.itemsize < 4 and form != "float16":  # numpy lacks it
        integers = torch.from_numpy(np.ascontiguousarray(array).view(f"int{form.bits}"))
        return integers.view(getattr(torch, form.name))
    return torch.from_numpy(np.ascontiguousarray(array))


def _to_jax(array: Array) -> Any:
    jax: Any = sys.modules["jax"]
    return jax.numpy.asarray(array) if hasattr(jax.numpy, array.dtype.name) else array


LIBRARIES = (
    ArrayLibrary("torch", "Tensor", _from_torch, _to_torch, ".to(torch.{})"),
    ArrayLibrary("jax", "Array", np.asarray, _to_jax, ".astype(jnp.{})"),
)


def library(value: Any) -> ArrayLibrary | None:
    """Return the library whose array a value is; None for arrays of numpy and for other values."""
    return next((library for library in LIBRARIES if library.made(value)), None)


def as_numpy(value: Any) -> Array:
    """Return an array of any library as numpy's, in the same memory if both can share it. Raises
    UsageError for a torch tensor in a float format that a NeuronCore lacks."""
    made_by = library(value)
    return made_by.taken(value) if made_by else np.asarray(value)
