"""The package torch_neuronx.xla_impl, with only the modules ops, base and custom_op."""

from neuroncore.hosts.torch_neuronx.xla_impl import base as base
from neuroncore.hosts.torch_neuronx.xla_impl import custom_op as custom_op
from neuroncore.hosts.torch_neuronx.xla_impl import ops as ops
