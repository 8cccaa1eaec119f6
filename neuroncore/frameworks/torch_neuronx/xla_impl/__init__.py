"""torch_neuronx.xla_impl: of it, ops."""

from neuroncore.frameworks.torch_neuronx.xla_impl import ops as ops
