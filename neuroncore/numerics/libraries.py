"""Arrays of numpy, torch and jax. Arguments of torch and jax are converted to numpy, and results
back to the library of the arguments."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

from neuroncore.numerics.formats import lookup

Array = npt.NDArray[Any]
P = ParamSpec("P")


@dataclass(frozen=True)
class ArrayLibrary:
    """A library with a type of arrays. It is used only if the user has imported it."""

    name: str
    kind: str  # the name of its type of arrays
    to_numpy: Callable[[Any], Array]  # converts its arrays to numpy
    # converts a numpy array; returns the array unchanged if the library lacks its format
    from_numpy: Callable[[Array], Any]
    cast: str  # for hints: how users of the library convert an array

    def owns(self, value: Any) -> bool:
        """Return whether a value is an array of this library."""
        module = sys.modules.get(self.name)
        return module is not None and isinstance(value, getattr(module, self.kind, ()))


def _from_torch(tensor: Any) -> Array:
    """Return a numpy array in the memory of a torch tensor. If numpy lacks the format, the array
    has codes, as integers."""
    torch = sys.modules["torch"]
    # without this, torch copies tensors of a stand-in's device
    with torch._C.DisableTorchFunction():
        plain = tensor.detach().cpu()
    if plain.is_floating_point() and plain.itemsize < 4 and plain.dtype != torch.float16:
        form = lookup(plain.dtype)
        as_integers = plain.view(getattr(torch, f"int{form.bits}"))
        return as_integers.numpy().view(form.numpy)  # type: ignore[no-any-return]
    return plain.numpy()  # type: ignore[no-any-return]


def _to_torch(array: Array) -> Any:
    torch, name = sys.modules["torch"], array.dtype.name
    if not hasattr(torch, name):
        return array
    dense = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.type.__module__ == np.__name__:
        return torch.from_numpy(dense)
    return torch.from_numpy(dense.view(f"int{8 * array.itemsize}")).view(getattr(torch, name))


def _to_jax(array: Array) -> Any:
    jax: Any = sys.modules["jax"]
    return jax.numpy.asarray(array) if hasattr(jax.numpy, array.dtype.name) else array


LIBRARIES = (
    ArrayLibrary("torch", "Tensor", _from_torch, _to_torch, ".to(torch.{})"),
    ArrayLibrary("jax", "Array", np.asarray, _to_jax, ".astype(jnp.{})"),
)


def library(value: Any) -> ArrayLibrary | None:
    """Return the library of an array; None for numpy arrays and values that are not arrays."""
    if type(value) is np.ndarray:
        return None
    return next((library for library in LIBRARIES if library.owns(value)), None)


def as_numpy(value: Any) -> Array:
    """Return an array of any library as a numpy array, in the same memory if possible. Raises
    UsageError for a torch tensor in a float format that a NeuronCore lacks."""
    maker = library(value)
    return maker.to_numpy(value) if maker else np.asarray(value)


def of_any_library(function: Callable[P, Any]) -> Callable[P, Any]:
    """Return `function`, made to accept arrays of any library.

    Arguments are converted to numpy. Results are converted to the library of the first argument
    that is not numpy's. If this library lacks the format of a result, the result stays a numpy
    array."""

    of_numpy: Callable[..., Any] = function

    @functools.wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> Any:
        maker = next(filter(None, map(library, (*args, *named.values()))), None)
        if maker is None:
            return function(*args, **named)
        result = of_numpy(
            *map(_as_numpy_if_array, args),
            **{key: _as_numpy_if_array(value) for key, value in named.items()},
        )
        if isinstance(result, tuple):
            return type(result)(*map(maker.from_numpy, result))
        return maker.from_numpy(result) if isinstance(result, np.ndarray) else result

    return called


def _as_numpy_if_array(value: Any) -> Any:
    maker = library(value)
    return maker.to_numpy(value) if maker else value
