"""Makes specifications from the definitions of flashinfer-bench and SOL-ExecBench. A definition is
a JSON file with axes, inputs, outputs and the source of a reference `run`. The lengths of variable
axes come from files of workloads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from neuroncore.base.errors import UsageError
from neuroncore.eval import files
from neuroncore.eval.adapters import tensors
from neuroncore.eval.spec import Spec
from neuroncore.numerics.formats import lookup

TOLERANCE = 1e-2  # the tolerance of flashinfer-bench's BenchmarkConfig
MOST_SHAPES = 3  # the most workloads that are used; a definition has dozens
NARROWER = 2.0  # formats of at most 8 bits have numbers from -2 to 2, as in the benchmark
INTEGERS = 1024  # random integers of 16 bits or more are from -1024 to 1023
Shape = Mapping[str, Any]  # the values of variable axes and of scalar inputs


def spec(name: str, folder: Path) -> Spec:
    """Return the specification for the definition in the file definitions/**/NAME.json of a folder.

    `name`: NAME, or NAME/AXIS=VALUE,... with the lengths of all variable axes. Without lengths, the
        file workloads/**/NAME.jsonl gives them.

    Raise UsageError if a file can't be read, or if a workload has inputs from a file."""
    name, _, axes = name.partition("/")
    file = _file(folder, "definitions", f"{name}.json")
    definition = _read(file)[0]
    torch = tensors.torch(file.name) if re.search(r"\btorch\b", definition["reference"]) else None
    shapes = [_axes(axes)] if axes else _workloads(folder, name, definition)
    return Spec(
        reference=tensors.through_torch(_reference(definition, file), torch),
        inputs=lambda seed, shape: [*_inputs(definition, shape, seed)],
        shapes=shapes[:1],
        hidden_shapes=shapes[1:],
        name=definition["name"],
        tol=TOLERANCE,
        entry=("kernel", "run"),
        narrow=("float32", *{output["dtype"] for output in definition["outputs"].values()}),
        files=(file,),
    )


def _file(folder: Path, kind: str, name: str) -> Path:
    matches = sorted((folder / kind).rglob(name))
    if len(matches) != 1:
        raise UsageError(f"{folder / kind} has {len(matches)} files named {name}, not one")
    return matches[0]


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text("utf-8")
        return [*map(json.loads, text.splitlines() if file.suffix == ".jsonl" else [text])]
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} can't be read: {error}") from None


def _axes(text: str) -> Shape:
    try:
        return {name: int(value) for name, value in (pair.split("=") for pair in text.split(","))}
    except ValueError:
        raise UsageError(f"axes must be given as AXIS=VALUE,..., not {text!r}") from None


def _workloads(folder: Path, name: str, definition: Mapping[str, Any]) -> list[Shape]:
    """Return the first MOST_SHAPES different shapes of the workloads. A shape lists the lengths of
    the variable axes and the values of the scalar inputs."""
    if all(axis["type"] == "const" for axis in definition["axes"].values()):
        return [{}]
    shapes: list[Shape] = []
    for workload in _read(_file(folder, "workloads", f"{name}.jsonl")):
        shape = {**workload["workload"]["axes"], **_scalars(workload["workload"]["inputs"])}
        if shape not in shapes and len(shapes) < MOST_SHAPES:
            shapes.append(shape)
    if not shapes:
        raise UsageError(f"{name} has variable axes and no workloads: give {name}/AXIS=VALUE,...")
    return shapes


def _scalars(inputs: Mapping[str, Any]) -> dict[str, Any]:
    if stored := [name for name, value in inputs.items() if value["type"] == "safetensors"]:
        raise UsageError(
            f"input {stored[0]} of a workload is in a safetensors file, which is not supported"
        )
    return {name: value["value"] for name, value in inputs.items() if value["type"] == "scalar"}


def _reference(definition: Mapping[str, Any], file: Path) -> Callable[..., Any]:
    module = ModuleType("reference")
    try:
        exec(compile(definition["reference"], f"{file}:reference", "exec"), vars(module))
    except Exception as error:
        raise files.failure(file, error) from error
    run: Callable[..., Any] = module.run
    names = list(definition["outputs"])

    def reference(*arguments: Any) -> Any:
        results = run(*arguments)
        return tuple(results[name] for name in names) if isinstance(results, dict) else results

    return reference


def _inputs(definition: Mapping[str, Any], shape: Shape, seed: int) -> Iterator[Any]:
    """Yield the inputs of the reference. Tensors have random numbers from the distributions that
    flashinfer-bench uses; scalars come from the workload."""
    random = np.random.default_rng(seed)
    sizes = {name: axis.get("value", shape.get(name)) for name, axis in definition["axes"].items()}
    for name, tensor in definition["inputs"].items():
        if tensor["shape"] is None:
            if name not in shape:
                raise UsageError(f"{definition['name']} needs a value of the scalar {name}")
            yield shape[name]
            continue
        lengths: Sequence[Any] = [sizes.get(axis) for axis in tensor["shape"]]
        if None in lengths:
            unknown = [axis for axis in tensor["shape"] if sizes.get(axis) is None]
            raise UsageError(
                f"the workload of {definition['name']} does not give the length of "
                f"{', '.join(unknown)}, an axis of the input {name}"
            )
        yield _random(random, lengths, tensor["dtype"])


def _random(random: np.random.Generator, lengths: Sequence[int], dtype: str) -> Any:
    form = lookup(dtype)
    if dtype == "bool":
        return random.integers(0, 2, lengths).astype(form.numpy)
    if form.is_integer:
        top = 128 if form.bits == 8 else INTEGERS
        return random.integers(-top, top, lengths).astype(form.numpy)
    numbers = random.standard_normal(lengths, np.float32)
    if form.bits <= 8:
        numbers = numbers.clip(-NARROWER, NARROWER)
    return numbers.astype(form.numpy)
