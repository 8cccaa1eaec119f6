"""neuroncore neff --execute: the outputs of a compiled program, compared with expected outputs."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuroncore import machine
from neuroncore.base.errors import UsageError, writing
from neuroncore.base.lazy import Lazy
from neuroncore.cli import terminal
from neuroncore.cli.usage import add_output

if TYPE_CHECKING:
    from neuroncore.capture import execution
    from neuroncore.capture.neff import Neff
else:
    execution = Lazy("neuroncore.capture.execution")

Array = npt.NDArray[Any]
Figures = dict[str, Any]

SCHEMA = "neuroncore.execution/1"
TOLERANCES = {4: 1e-4, 2: 1e-2}  # relative to the largest magnitude, by the bytes of an element
NATIVE = "float32", "float16", "int32", "uint32", "int16", "uint16", "int8", "uint8"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--execute",
        action="store_true",
        help="execute the program on the CPU with random inputs from --seed (experimental)",
    )
    parser.add_argument(
        "--arrays",
        type=Path,
        metavar="FILE.npz",
        help="execute the program; its inputs are the arrays of the same names in this file",
    )
    add_output(
        parser,
        "--save",
        metavar="FILE.npz",
        help="execute the program, and write its outputs to this file",
    )
    parser.add_argument(
        "--expect",
        type=Path,
        metavar="FILE.npz",
        help="execute the program, and compare its outputs with the arrays of the same names in "
        "this file",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="the largest error that --expect accepts, as a share of the output's largest "
        "magnitude (default: 1e-4, and 1e-2 for 16-bit formats)",
    )


def asked(arguments: argparse.Namespace) -> bool:
    options = arguments.arrays, arguments.save, arguments.expect
    return arguments.execute or any(value is not None for value in options)


def execute(arguments: argparse.Namespace, program: Neff) -> int:
    """Execute a program and print the figures of each output.

    Return the exit code: 1 if an output differs from the expected one, else 0."""
    if arguments.source:
        raise UsageError("--execute takes --arrays FILE.npz or --seed, not --source")
    if arguments.target and machine.load(arguments.target).name != program.target:
        raise UsageError(
            f"--execute: the program was compiled for {program.target}, so it can't run on "
            f"--target {arguments.target}"
        )
    drawn = arguments.arrays is None
    inputs = execution.drawn(program, arguments.seed) if drawn else _loaded(arguments.arrays)
    expected = {} if arguments.expect is None else _loaded(arguments.expect)
    outputs = execution.execute(program, inputs)
    if missing := expected.keys() - outputs.keys():
        known = ", ".join(outputs)
        raise UsageError(f"the program has no output {', '.join(sorted(missing))}; it has {known}")
    rows = {name: _figures(outputs[name], program.outputs[name][0]) for name in outputs}
    for name, wanted in expected.items():
        rows[name] |= _compared(name, outputs[name], wanted, arguments.tolerance)
    if arguments.save is not None:
        _save(arguments.save, outputs)
    document = {"schema": SCHEMA, "name": program.name, "outputs": rows}
    source = f"random inputs of seed {arguments.seed}" if drawn else f"inputs of {arguments.arrays}"
    terminal.answer(arguments, _finite(document), _text(program, source, rows))
    return int(not all(row.get("agrees", True) for row in rows.values()))


def _finite(value: Any) -> Any:
    """Replace infinities and NaN, which JSON lacks, by their names, also inside nested dicts."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _text(program: Neff, source: str, rows: Mapping[str, Figures]) -> Iterator[str]:
    yield f"{program.name} for {program.target}, executed (experimental) with {source}"
    for name, row in rows.items():
        shape = ",".join(map(str, row["shape"]))
        nans = f", {row['nan']:,} NaN" if row["nan"] else ""
        yield f"output {name} {row['format']}[{shape}]: {row['min']:g} to {row['max']:g}{nans}"
        if "agrees" in row:
            verdict = "agrees" if row["agrees"] else "differs"
            yield (
                f"       {verdict}: the largest error is {row['error']:.3g}, the largest expected "
                f"value {row['largest']:.3g} (tolerance {row['tolerance']:g} of this value)"
            )


def _figures(output: Array, form: str) -> Figures:
    values = output.astype(np.float64)
    numbers = values[~np.isnan(values)]
    low, high = (float(f(numbers)) if numbers.size else 0.0 for f in (np.min, np.max))
    nans = values.size - numbers.size
    return {"format": form, "shape": list(output.shape), "min": low, "max": high, "nan": nans}


def _compared(name: str, output: Array, wanted: Array, tolerance: float | None) -> Figures:
    """Return figures that compare an output with its expected values.

    The figures are the largest error, the largest finite expected value, the tolerance relative to
    this value, and whether the output agrees. The error is infinite if only one of two values is
    NaN."""
    if output.shape != wanted.shape:
        raise UsageError(f"the output {name} has the shape {output.shape}, not {wanted.shape}")
    values, expected = output.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        errors = np.where(values == expected, 0.0, np.abs(values - expected))
    errors[np.isnan(values) & np.isnan(expected)] = 0.0
    error = float(np.nan_to_num(errors, nan=np.inf).max(initial=0.0))
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(finite.max(initial=0.0))
    limit = TOLERANCES.get(output.itemsize, 1e-2) if tolerance is None else tolerance
    agrees = error <= limit * largest
    return {"error": error, "largest": largest, "tolerance": limit, "agrees": agrees}


def _loaded(path: Path) -> dict[str, Array]:
    """Return the arrays in a .npz file, by name. Raise UsageError if the file is not a .npz
    file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (AttributeError, EOFError, OSError, TypeError, ValueError, zipfile.BadZipFile):
        raise UsageError(f"{path} is not a file of arrays that np.savez has written") from None


def _save(path: Path, outputs: Mapping[str, Array]) -> None:
    """Save arrays to a file.

    Formats that numpy does not have are saved as float32, which represents all of their numbers."""
    native = {
        name: array if array.dtype.name in NATIVE else array.astype(np.float32)
        for name, array in outputs.items()
    }
    with writing(path), path.open("wb") as file:
        np.savez(file, **native)  # type: ignore[arg-type]
