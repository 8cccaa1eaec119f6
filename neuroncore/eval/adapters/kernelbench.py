"""Makes specifications from the problems of KernelBench, and from other folders with files
LEVEL/NUMBER_NAME.py.

A file defines `get_inputs`. It also defines a torch module `Model` with `get_init_inputs`, or a
function `forward` of arrays. The kernel receives the inputs, and then the parameters and buffers of
the model in the order of the model's `state_dict()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.eval import files
from neuroncore.eval.adapters import tensors
from neuroncore.eval.spec import Spec

TOLERANCE = 1e-4  # the benchmark's tolerance for float32


def spec(name: str, folder: Path) -> Spec:
    """Return the specification of a problem. `name` is LEVEL/NUMBER, LEVEL/NUMBER_NAME or a path in
    `folder`. Raise UsageError unless exactly one file has this name."""
    file = _file(name, folder)
    uses_torch = "torch" in file.read_text("utf-8")
    torch = tensors.torch(f"{file.name}") if uses_torch else None
    problem = files.module(file)
    reference: Callable[..., Any] = getattr(problem, "forward", None) or _Model(problem, torch)
    inputs = reference.inputs if isinstance(reference, _Model) else _inputs(problem, torch)
    return Spec(
        reference=tensors.through_torch(reference, torch),
        inputs=lambda seed, _: inputs(seed),
        shapes=[name],
        name=file.stem,
        tol=TOLERANCE,
        files=(file,),
    )


def _file(name: str, folder: Path) -> Path:
    stem = name.removesuffix(".py")
    for root in (folder, folder / "KernelBench"):
        exact = root / f"{stem}.py"
        matches = [exact] if exact.is_file() else sorted(root.glob(f"{stem}_*.py"))
        if len(matches) == 1:
            return matches[0]
    raise UsageError(f"{folder} must have exactly one problem {name!r}")


def _inputs(problem: ModuleType, torch: Any | None) -> Callable[[int], Sequence[Any]]:
    def inputs(seed: int) -> Sequence[Any]:
        _seeded(seed, torch)
        return tuple(map(tensors.as_array, problem.get_inputs()))

    return inputs


def _seeded(seed: int, torch: Any | None) -> None:
    np.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)


class _Model:
    """A function that calls the problem's torch module. The arguments are the module's inputs, and
    then its parameters and buffers."""

    def __init__(self, problem: ModuleType, torch: Any) -> None:
        if not hasattr(problem, "Model"):
            raise UsageError(f"{problem.__file__} defines neither Model nor forward")
        self.problem, self.torch = problem, torch
        self.model = self._made()
        self.names = list(self.model.state_dict())

    def _made(self) -> Any:
        arguments: Sequence[Any] = getattr(self.problem, "get_init_inputs", list)()
        return self.problem.Model(*arguments).eval()

    def inputs(self, seed: int) -> Sequence[Any]:
        """Return the inputs for a seed, and then the parameters and buffers of a new model."""
        _seeded(seed, self.torch)
        state = self._made().state_dict().values()
        return tuple(map(tensors.as_array, (*self.problem.get_inputs(), *state)))

    def __call__(self, *arguments: Any) -> Any:
        count = len(arguments) - len(self.names)
        state = dict(zip(self.names, arguments[count:], strict=True))
        self.model.load_state_dict(state)
        return self.model(*arguments[:count])
