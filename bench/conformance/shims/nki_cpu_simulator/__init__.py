"""A substitute for nki_cpu_simulator, which nki-library's simulation mode imports and which is not
published. It provides the installed `nki`.

Modules of nki are found under `nki_cpu_simulator.nki`, and
`nki.cpu_simulate(kernel)[cores](**inputs)` runs a kernel on the generation that NKI_NC_VERSION
names. `raised` is the error of the last simulation, or None. It is kept here because the suite
replaces this error by its own exception, or expects and ignores it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import neuron_dtypes as neuron_dtypes  # registers the packed formats in numpy
import nki

from neuroncore import machine
from neuroncore.base.options import Options
from neuroncore.frontend.settings import settings

UNINITIALISED: Any = os.environ.get("NKI_LIBRARY_UNINITIALISED", "report")
# MX scales by the rule before NKI 0.5.0, because the suite's references use such a release.
OPTIONS = Options(mx_scale="ocp", uninitialized=UNINITIALISED)
TARGETS = {machine.load(name).api_version: name for name in machine.names()}
# imported name -> the module of neuroncore
MODULES = {
    "compiler": "nki.compiler",
    "isa": "nki.isa",
    "isa.constants": "nki.isa.constants",
    "language": "nki.language",
    "language.dtypes": "nki.dtype",
    "tensor": "nki.tensor",
    "typing": "nki.typing",
}

BUILTIN = ModuleType("builtin")  # a name that kernels of NKI 0.2 use without importing it
BUILTIN.lang = nki.language  # type: ignore[attr-defined]

raised: BaseException | None = None


class Simulation:
    """A kernel that `nki.cpu_simulate` runs: `cpu_simulate(kernel)[cores](**inputs)`."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel if hasattr(type(kernel), "__getitem__") else nki.jit(kernel)

    def __getitem__(self, cores: Any) -> Simulation:
        self.kernel = self.kernel[cores]
        return self

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        global raised
        raised = None
        if generation := os.environ.get("NKI_NC_VERSION"):
            os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = TARGETS.get(generation, generation)
        try:
            with settings(options=OPTIONS):
                return nki.simulate(self.kernel)(*args, **inputs)
        except Exception as error:
            raised = error
            raise


def _stand_in() -> None:
    sys.modules[f"{__name__}.nki"] = nki
    nki.builtin = sys.modules[f"{__name__}.nki.builtin"] = BUILTIN  # type: ignore[attr-defined]
    for name, ours in MODULES.items():
        module = sys.modules[f"{__name__}.nki.{name}"] = import_module(ours)
        parent, _, leaf = f"{__name__}.nki.{name}".rpartition(".")
        if not hasattr(sys.modules[parent], leaf):
            setattr(sys.modules[parent], leaf, module)
    nki.cpu_simulate = Simulation  # type: ignore[attr-defined]


_stand_in()
