"""neuronxcc.nki.typing: annotations for kernel signatures."""

from typing import Any

from neuroncore.errors import ShapeError
from neuroncore.frontend.neuronxcc.nki.results import flush, tile
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.nki.typing import Annotation
from neuroncore.frontend.nki.typing import mutable as mutable
from neuroncore.frontend.nki.typing import mutable_tensor as mutable_tensor
from neuroncore.frontend.nki.typing import tensor as tensor


class _Scalar(Annotation):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In a kernel, the integer in a tile of one element, such as how often a loop is run:
        `range(scalar(steps))`. Raises ShapeError for a larger tile."""
        if not args or not isinstance(args[0], Tensor):
            return super().__call__(*args, **kwargs)
        flush()
        one = tile(args[0], "scalar")
        if one.size != 1:
            raise ShapeError("scalar takes one number", expected="one element", got=repr(one))
        return int(one.numpy().item())


scalar = _Scalar("scalar")
