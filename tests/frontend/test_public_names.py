"""Names in the API's modules: those that are documented or used in published kernels, and no
helpers."""

import importlib
import json
from pathlib import Path

import pytest
from every import for_all

from neuroncore.frontend.nki import collectives

DATA = Path(__file__).parents[1] / "data"
NEWER = json.loads((DATA / "signatures.json").read_text())
OLDER = json.loads((DATA / "signatures_older.json").read_text())
PARTS = ("isa", "language", "compiler", "typing")

# Names that the stubs do not list, but published kernels or older releases have.
BESIDES = {
    "nki.isa": {
        *("NkiInstruction", "NkiValidationError", "VirtualRegister"),
        *("nc_matmul_sparse", "constants"),
    },
    "nki.language": {"NKIObject", "NkiTensor", "bool", "par_dim", "range"},
    "neuronxcc.nki.isa": {"constants", "tensor_scalar_cumulative"},
    "neuronxcc.nki.language": {"constants"},
}
SMALL = {
    "nki": {"collectives", "dtype", "jit", "simulate", "simulator", "Kernel", *PARTS},
    "nki.collectives": {*collectives.__all__},
    "nki.compiler": {"enable_stack_allocator", "skip_middle_end_transformations"},
    "nki.simulator": {"simulate_kernel"},
    "nki.typing": {"mutable", "mutable_tensor", "scalar", "tensor"},
    "neuronxcc.nki": {
        "FrameworkKernel",
        "nccl",
        "tensor",
        "trace",
        *PARTS,
        *OLDER["functions"]["neuronxcc.nki"],
    },
    "neuronxcc.nki.compiler": {"psum", "sbuf", *OLDER["functions"]["neuronxcc.nki.compiler"]},
    "neuronxcc.nki.compiler.psum": {"alloc", "auto_alloc", "mod_alloc"},
    "neuronxcc.nki.compiler.sbuf": {"alloc", "auto_alloc", "mod_alloc"},
    "neuronxcc.nki.language.constants": {"sizeinbytes"},
    "neuronxcc.starfish.support.dtype": {
        *("bfloat16", "float8_e4m3", "float8_e5m2", "float16", "float32", "static_cast"),
    },
    "neuronxcc.starfish.support.util": {"allclose"},
    "neuronxcc.nki.nccl": {
        *("all_gather", "all_reduce", "collective_permute", "collectives", "reduce_scatter"),
    },
    "neuronxcc.nki.nccl.collectives": {"collective_permute_implicit"},
    "neuronxcc.nki.typing": {"mutable", "mutable_tensor", "scalar", "tensor"},
}


def documented(module):
    if module in SMALL:
        return SMALL[module]
    found = BESIDES[module].copy()
    if module in OLDER["functions"]:
        return found.union(OLDER["functions"][module], OLDER["names"][module])
    home = importlib.import_module(module)
    enums = {name for name in NEWER["enums"] if hasattr(home, name)}
    return found.union(NEWER[module], NEWER[f"{module} names"], enums)


@for_all("module", [*BESIDES, *SMALL])
def test_only_documented_names_are_public(module):
    home = importlib.import_module(module)
    assert {name for name in dir(home) if not name.startswith("__")} == documented(module)
    assert not [name for name in dir(home) if not hasattr(home, name)]


@pytest.mark.parametrize(
    "module", ["nki.isa.constants", "nki.dtype", "neuronxcc.nki.isa.constants"]
)
def test_constants_are_shared_by_the_instructions_and_the_language(module):
    home = importlib.import_module(module)
    root = module.removesuffix(".dtype").removesuffix(".constants").removesuffix(".isa")
    isa, language = (importlib.import_module(f"{root}.{part}") for part in ("isa", "language"))
    shared = {*dir(isa), *dir(language), "matmul_perf_mode"}  # which the older API has here only
    assert {*dir(home)} <= shared


@pytest.mark.parametrize("name", ["current", "running", "issuer", "did_you_mean", "target_machine"])
def test_helpers_are_not_in_the_modules_of_the_api(name):
    for module in ("nki.isa", "nki.language", "neuronxcc.nki.isa", "neuronxcc.nki.language"):
        assert not hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("module", BESIDES)
def test_a_star_import_has_the_names_of_dir(module):
    space = {}
    exec(f"from {module} import *", space)
    assert {*dir(importlib.import_module(module))} == space.keys() - {"__builtins__"}


@pytest.mark.parametrize("module", BESIDES)
def test_a_misspelled_name_gets_the_nearest_suggestion(module):
    with pytest.raises(AttributeError, match=rf"{module} has no 'dropuot'; did you mean 'dropout'"):
        importlib.import_module(module).dropuot  # noqa: B018
