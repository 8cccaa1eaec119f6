"""torch_neuronx.xla_impl: of it, ops and base."""

from neuroncore.frameworks.torch_neuronx.xla_impl import base as base
from neuroncore.frameworks.torch_neuronx.xla_impl import ops as ops
