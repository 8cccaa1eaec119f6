"""nki-library's feed-forward and normalization kernels, with the inputs of its tests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from case import Case, Hole, Random, Row, inside

MLP, NORM = "core/mlp/mlp.py", "core/rmsnorm/rmsnorm_quant.py"
PACKAGE = "src/nkilib_src/nkilib/"
TYPES = "nkilib.core.utils.common_types"
# A row has the arguments of a test. Those without a name are identified by their position:
# parameter -> the key in the row.
LONG_INPUTS = dict(
    fused_add="9", store_add="10", skip_gate="11", act="12",
    gate_bias="13", up_bias="14", down_bias="15", norm_bias="16",
)  # fmt: skip
ONE_TOKEN = dict(
    fused_add="fused_add", store_add="store_add", act="act", skip_gate="13",
    gate_bias="14", up_bias="15", down_bias="16", norm_bias="17",
    gate_up_columns="18", down_columns="19", down_optimized="20",
)  # fmt: skip


class Member(NamedTuple):
    """The name of an enumeration of nki-library, and the name of one of its members."""

    enumeration: str
    name: str

    def made(self, _: np.random.Generator) -> Any:
        return getattr(importlib.import_module(TYPES), self.enumeration)[self.name]


class NormArguments(NamedTuple):
    lower_bound: float
    norm: Member
    quantization: Member

    def made(self, rng: np.random.Generator) -> Any:
        return importlib.import_module("nkilib.core.rmsnorm.rmsnorm_quant").RmsNormQuantKernelArgs(
            lower_bound=self.lower_bound,
            norm_type=self.norm.made(rng),
            quantization_type=self.quantization.made(rng),
            eps=1e-6,
        )


def case(row: Row, checkout: Path, path: str) -> Case:
    given = dict(re.findall(r"(\w+)=(\S+)", row["shapes"]))
    grid = (int(row["lnc"]),)
    if row["kernel"] == "nkilib/rmsnorm_quant":
        file = inside(checkout, PACKAGE + NORM)
        return Case(file, "rmsnorm_quant_kernel", normalization(given), grid=grid, module=module)
    names = {"nkilib/mlp_cte": LONG_INPUTS, "nkilib/mlp_tkg": ONE_TOKEN}.get(row["kernel"])
    if names is None:
        raise Hole(f"the arguments of {row['kernel']} are not known")
    chosen = {name: given[place] for name, place in names.items()}
    file = inside(checkout, PACKAGE + MLP)
    arguments = mlp({**given, **chosen})
    return Case(file, "mlp", (), arguments, grid, module, settings=(path,))


def module(file: Path) -> ModuleType:
    """Import a file of nki-library by its name in the package, which must be on Python's path."""
    _, _, name = str(file.with_suffix("")).rpartition("/nkilib/")
    return importlib.import_module(f"nkilib.{name.replace('/', '.')}")


def normalization(given: Mapping[str, str]) -> tuple[Any, ...]:
    hidden = int(given["hidden"])
    shape = int(given["batch"]), int(given["seqlen"]), hidden
    weights = (1, hidden) if int(given["lnc_degree"]) > 1 else (hidden,)
    norm = Member("NormType", "NO_NORM" if given["quant_only"] == "True" else "RMS_NORM")
    quantization = Member("QuantizationType", given["quant_type"].removeprefix("Q."))
    kernel = NormArguments(float(given["lower_bound"]), norm, quantization)
    return Random("bfloat16", shape), Random("bfloat16", weights), kernel


def mlp(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `mlp` by name."""

    def tensor(*shape: int, when: str = "", dtype: str = "bfloat16") -> Random | None:
        return Random(dtype, shape) if not when or given[when] == "True" else None

    hidden, inner = int(given["hidden"]), int(given["intermediate"])
    tokens = int(given["batch"]), int(given["seqlen"]), hidden
    weights = given.get("quant_dtype", "None")
    weights = "bfloat16" if weights == "None" else weights
    quantization = given.get("quant_type") or given["quant"]
    arguments: dict[str, Any] = {
        "hidden_tensor": tensor(*tokens),
        "gate_proj_weights_tensor": tensor(hidden, inner, dtype=weights),
        "up_proj_weights_tensor": tensor(hidden, inner, dtype=weights),
        "down_proj_weights_tensor": tensor(inner, hidden, dtype=weights),
        "gate_proj_bias_tensor": tensor(1, inner, when="gate_bias"),
        "up_proj_bias_tensor": tensor(1, inner, when="up_bias"),
        "down_proj_bias_tensor": tensor(1, hidden, when="down_bias"),
        "fused_add_tensor": tensor(*tokens, when="fused_add"),
        "store_fused_add_result": given["store_add"] == "True",
        "activation_fn": Member("ActFnType", given["act"]),
        "normalization_type": Member("NormType", given["norm"]),
        "quantization_type": Member("QuantizationType", quantization.removeprefix("Q.")),
        "output_dtype": "bfloat16",
        "skip_gate_proj": given["skip_gate"] == "True",
    }
    if given["norm"] != "NO_NORM":
        arguments["normalization_weights_tensor"] = tensor(1, hidden)
        arguments["normalization_bias_tensor"] = tensor(1, hidden, when="norm_bias")
    if quantization == "Q.STATIC":
        names = ("gate_w_scale", "up_w_scale", "down_w_scale", "gate_up_in_scale", "down_in_scale")
        arguments |= {name: tensor(128, 1, dtype="float32") for name in names}
    if "down_columns" in given:
        arguments |= {
            "use_tkg_gate_up_proj_column_tiling": given["gate_up_columns"] == "True",
            "use_tkg_down_proj_column_tiling": given["down_columns"] == "True",
            "use_tkg_down_proj_optimized_layout": given["down_optimized"] == "True",
        }
    return arguments
