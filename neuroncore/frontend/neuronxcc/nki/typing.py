"""neuronxcc.nki.typing: annotations for kernel signatures."""

from typing import Any

from neuroncore.base.errors import ShapeError
from neuroncore.frontend.arguments import Annotation, mutable, mutable_tensor, tensor
from neuroncore.frontend.neuronxcc.nki.results import flush, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor

__all__ = ["mutable", "mutable_tensor", "scalar", "tensor"]


class _Scalar(Annotation):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In a kernel: return the integer in a tile of one element, as in `range(scalar(steps))`.
        Raises ShapeError for a larger tile."""
        if not args or not isinstance(args[0], Tensor):
            return super().__call__(*args, **kwargs)
        flush()
        number = tile(args[0], "scalar")
        if number.size != 1:
            raise ShapeError("scalar takes one number", expected="one element", got=repr(number))
        return int(number.numpy().item())


scalar = _Scalar("scalar")


def __dir__() -> list[str]:
    return __all__
