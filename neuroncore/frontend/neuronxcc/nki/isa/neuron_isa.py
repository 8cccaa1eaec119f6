"""neuronxcc.nki.isa.neuron_isa: the names of neuronxcc.nki.isa. Some kernels import these names
from here."""

from __future__ import annotations

from typing import Any

from neuroncore.frontend.neuronxcc.nki import isa


def __getattr__(name: str) -> Any:
    return getattr(isa, name)


def __dir__() -> list[str]:
    return isa.__all__
